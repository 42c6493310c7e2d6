use super::super::super::tests::flv_tag as tag;
use super::super::super::window::Window;
use super::*;

const HEAD: &[u8] = b"FLV\x01\x05\0\0\0\x09\0\0\0\0";

/// Returns the bytes that go out.
fn cut(tags: &mut TagCutter, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let walked = Window::default().walk(tags, bytes, 0, &mut out);
    assert!(walked.is_ok());
    out
}

#[test]
fn a_clock_of_32_bits_goes_round() {
    let mut tags = TagCutter::new(1000);
    for (stamp, time) in [
        (u32::MAX - 5, 0xffff_fffa),
        (4, 0x1_0000_0004),
        (u32::MAX, 0xffff_ffff),
        (0x7fff_ffff, 0x7fff_ffff),
        (0xffff_fff0, 0xffff_fff0),
    ] {
        assert_eq!(tags.time(stamp), time, "{stamp:x}");
    }
    tags.seam();
    assert_eq!(tags.time(7), 7);
}

/// A tag of at most the length of a unit is held until it is whole. Of a longer one viewers have a
/// part.
#[test]
fn a_tag_longer_than_a_unit_passes_as_it_comes() {
    for (body, unit_bytes_max, first_out) in [
        (20, 35, 35),
        (21, 35, 16),
        (4, 18, 15),
        (1, 12, 12),
        (0, 11, 11),
        (300, 100, 16),
    ] {
        let bytes = tag(9, 40, &vec![0x17; body]);
        let mut tags = TagCutter::new(unit_bytes_max);
        let (mut window, mut out) = (Window::default(), Vec::new());
        assert!(window.walk(&mut tags, HEAD, 0, &mut out).is_ok());
        assert_eq!(out, HEAD);
        for (at, byte) in bytes.iter().enumerate() {
            let walked = window.walk(&mut tags, &[*byte], 13 + at as u64, &mut out);
            assert!(walked.is_ok());
            let come = at + 1;
            let gone = if come < first_out { 0 } else { come };
            assert_eq!(out[13..], bytes[..gone], "{body} bytes in {unit_bytes_max}");
            let is_part = gone > 0 && come < bytes.len();
            assert_eq!(tags.tag_bytes_left > 0, is_part, "{come} of {body}");
        }
        assert_eq!(cut(&mut tags, &bytes), bytes, "and the next");
    }
}

/// After a seam, sound from before the first picture is left out, even if it is long. Scripts do
/// not say how far a stream has come.
#[test]
fn times_continue_where_the_previous_source_ended() {
    let mut tags = TagCutter::new(60);
    let first = [
        HEAD,
        &tag(9, 0, &[0x17, 1]),
        &tag(9, 40, &[0x27, 1]),
        &tag(8, 40, &[0xaf, 1]),
        &tag(18, 5_000, &[2]),
    ];
    assert_eq!(cut(&mut tags, &first.concat()), first.concat());
    tags.seam();
    let second = [
        tag(9, 7_000, &[0x17, 1]),
        tag(8, 6_000, &[0xaf, 1]),
        tag(8, 6_100, &[0xaf; 90]),
        tag(8, 7_000, &[0xaf, 2]),
        tag(18, 7_010, &[2]),
        tag(0x29, 7_040, &[0x27, 3]),
    ];
    let expected = [
        tag(9, 80, &[0x17, 1]),
        tag(8, 80, &[0xaf, 2]),
        tag(18, 90, &[2]),
        tag(0x29, 120, &[0x27, 3]),
    ];
    assert_eq!(cut(&mut tags, &second.concat()), expected.concat());
    assert!(tags.tag_bytes_left == 0);
}

#[test]
fn codecs_are_compared_by_the_first_tags() {
    let cases: [(u8, &[u8], &[u8], bool); 20] = [
        // Pictures: a number. The kind of the first frame does not matter.
        (9, &[0x17], &[0x27], true),
        (9, &[0x17, 0, 1, 2, 3, 4], &[0x27, 9, 9, 9, 9, 9], true),
        (9, &[0x17], &[0x12], false),
        (9, &[0x12, 1, 2, 3, 4], &[0x14, 1, 2, 3, 4], false),
        // Or four letters.
        (9, b"\x90hvc1", b"\xa1hvc1.", true),
        (9, b"\x90hvc1", b"\x90xvc1", false),
        (9, b"\x90hvc1", b"\x90hxc1", false),
        (9, b"\x90hvc1", b"\x90hvx1", false),
        (9, b"\x90hvc1", b"\x90hvc2", false),
        (9, b"\x90hvc1", b"\x17hvc1", false),
        // Missing letters say nothing.
        (9, b"\x90hvc1", b"\x90hvc", true),
        (9, b"\x90hvc1", b"", true),
        // Sound: with its rate and its channels.
        (8, &[0xaf, 1, 1, 1, 1], &[0xaf, 2, 2, 2, 2, 2], true),
        (8, &[0xaf], &[0xae], false),
        (8, &[0x2f], &[0xaf], false),
        (8, b"\x90Opus", b"\x91Opus", true),
        (8, b"\x90Opus", b"\x90mp4a", false),
        (8, b"\x90Opus", b"\xafOpus", false),
        // The bits above a type do not belong to it. Scripts have no codec.
        (0x29, &[0x17], &[0x12], false),
        (18, &[0x17], &[0x12], true),
    ];
    for (kind, one, other, is_alike) in cases {
        let mut tags = TagCutter::new(1000);
        // Only the first tag counts, of either source.
        let late = tag(kind, 40, &[0x33; 6]);
        let source = |body: &[u8]| [HEAD, &tag(kind, 0, body), &late].concat();
        cut(&mut tags, &[HEAD, &tag(kind, 0, one), &late].concat());
        let first = HEAD.len() as u64;
        let told = tags.is_like(&[HEAD, &tag(kind, 0, other)].concat(), first);
        assert_eq!(told, is_alike, "{kind}: {one:x?}, {other:x?}");
        if !other.is_empty() && other.len() != 4 {
            let told = tags.is_like(&source(other), first + 100);
            assert_eq!(told, is_alike, "{one:x?}, {other:x?}");
        }
        // The other kind does not matter, nor any tag after the join point.
        let other_kind = if kind == 8 { 9 } else { 8 };
        let other_tag = tag(other_kind, 0, &[0x5d]);
        assert!(tags.is_like(&[HEAD, &other_tag].concat(), first));
        assert!(tags.is_like(&[HEAD, &other_tag, &tag(kind, 0, other)].concat(), first));
        assert!(tags.is_like(HEAD, first) && tags.is_like(b"FLV", u64::MAX));
    }
}

/// The sequence headers that viewers have had must be the same. Others are sent.
#[test]
fn headers_are_alike_if_the_sequence_headers_of_viewers_are_the_same() {
    let (video, sound) = (tag(9, 0, &[0x17, 0, 5]), tag(8, 0, &[0xaf, 0, 6]));
    let (script, other) = (tag(18, 0, &[2, 7]), tag(9, 0, &[0x17, 0, 9]));
    let header = |tags: &[&Vec<u8>]| {
        let tags = tags.iter().flat_map(|tag| tag.iter().copied());
        HEAD.iter().copied().chain(tags).collect::<Vec<u8>>()
    };
    let mut only_sound = header(&[&sound]);
    only_sound[4] = 4;
    // Had, has, alike, and the tags that are sent with the time of the first tag.
    let bytes = tag(9, 0x0102_0304, &[0x17, 1]);
    let late = |kind, body: &[u8]| tag(kind, 0x0102_0304, body);
    let (late_video, late_sound) = (late(9, &[0x17, 0, 5]), late(8, &[0xaf, 0, 6]));
    let both = [&late_video[..], &late_sound].concat();
    for (had, has, is_alike, sent) in [
        (
            vec![],
            header(&[&script, &video, &sound]),
            true,
            both.clone(),
        ),
        (header(&[]), header(&[&video, &sound]), true, both),
        (
            header(&[&video]),
            header(&[&video, &sound]),
            true,
            late_sound,
        ),
        (
            header(&[&script, &sound]),
            header(&[&video, &sound]),
            true,
            late_video,
        ),
        (
            header(&[&video, &sound]),
            header(&[&sound, &video]),
            true,
            vec![],
        ),
        (
            header(&[&video]),
            header(&[&sound]),
            false,
            late(8, &[0xaf, 0, 6]),
        ),
        (
            header(&[&video]),
            header(&[&other]),
            false,
            late(9, &[0x17, 0, 9]),
        ),
        (header(&[&sound]), only_sound, false, vec![]),
    ] {
        assert_eq!(are_alike(&had, &has), is_alike, "{had:x?}, {has:x?}");
        assert_eq!(
            missing_headers(&had, &has, &bytes),
            sent,
            "{had:x?}, {has:x?}"
        );
    }
}

#[test]
fn tags_that_are_cut_off_are_returned_as_far_as_they_go() {
    let bytes = [tag(9, 0, &[1, 2, 3]), tag(8, 0, &[]), tag(8, 0, &[7; 300])].concat();
    let read = |end: usize| {
        let each = tags(&bytes[..end]).map(|(kind, body)| (kind, body.len()));
        each.collect::<Vec<_>>()
    };
    assert_eq!(read(10), []);
    assert_eq!(read(11), [(9, 0)]);
    assert_eq!(read(13), [(9, 2)]);
    assert_eq!(read(18), [(9, 3)]);
    assert_eq!(read(28), [(9, 3)]);
    assert_eq!(read(29), [(9, 3), (8, 0)]);
    assert_eq!(read(bytes.len()), [(9, 3), (8, 0), (8, 300)]);
}
