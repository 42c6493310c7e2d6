use super::super::tests::{Scanned, flv_tag as tag, scan_in};
use super::super::window::Window;
use super::*;

/// A head that promises tracks: 1 for pictures, 4 for sound.
fn head(flags: u8) -> Vec<u8> {
    [b"FLV\x01", &[flags, 0, 0, 0, 9, 0, 0, 0, 0][..]].concat()
}

fn metadata(milliseconds: u32) -> Vec<u8> {
    tag(SCRIPT, milliseconds, b"\x02\0\x0aonMetaData\x08 and more")
}

fn video_setup() -> Vec<u8> {
    tag(VIDEO, 0, &[0x17, 0, 0, 0, 0, 1, 0x42])
}

fn sound_setup() -> Vec<u8> {
    tag(AUDIO, 0, &[0xaf, 0, 0x12, 0x10])
}

fn key(milliseconds: u32) -> Vec<u8> {
    tag(VIDEO, milliseconds, &[0x17, 1, 0, 0, 0, 7])
}

fn picture(milliseconds: u32) -> Vec<u8> {
    tag(VIDEO, milliseconds, &[0x27, 1, 0, 0, 0, 7])
}

fn sound(milliseconds: u32) -> Vec<u8> {
    tag(AUDIO, milliseconds, &[0xaf, 1, 7])
}

/// A header with all its tags.
fn header() -> Vec<u8> {
    [head(5), metadata(0), video_setup(), sound_setup()].concat()
}

/// Returns the findings, in one piece and in small ones if the input is short.
fn scan(bytes: &[u8]) -> Scanned {
    let sizes = if bytes.len() < 9_000 {
        &[1, 13, 4096][..]
    } else {
        &[4096]
    };
    scan_in(bytes, sizes, Flv::default, |_, _| ())
}

/// Returns the headers and the offsets of the joins.
fn told(parts: &[Vec<u8>]) -> (Vec<Vec<u8>>, Vec<u64>) {
    let (findings, result) = scan(&parts.concat());
    assert_eq!(result, Ok(()));
    let joins = findings.iter().filter_map(|(finding, _)| match finding {
        Finding::Join(start) => Some(start.offset),
        _ => None,
    });
    let joins = joins.collect();
    (
        findings
            .into_iter()
            .filter_map(|(_, header)| header)
            .collect(),
        joins,
    )
}

/// Returns the offsets of these parts.
fn places<const N: usize>(parts: &[Vec<u8>], numbers: [usize; N]) -> Vec<u64> {
    let place = |number: usize| parts[..number].concat().len() as u64;
    numbers.into_iter().map(place).collect()
}

/// The first bytes of a body, for each codec's frames and for each packet type.
#[test]
fn the_first_bytes_of_a_body_tell_what_the_tag_is() {
    let is = |tag_type, body: &[u8]| kind(tag_type, body);
    let kinds = [
        (TagKind::Metadata, "metadata"),
        (TagKind::VideoSequence, "setup of video"),
        (TagKind::AudioSequence, "setup of sound"),
        (TagKind::KeyFrame, "key"),
        (TagKind::Picture, "picture"),
        (TagKind::Sound, "sound"),
        (TagKind::Other, "other"),
    ];
    let name = |kind: TagKind| {
        kinds
            .iter()
            .find(|(other, _)| *other == kind)
            .expect("a kind")
            .1
    };
    for first in 0..=0xff_u8 {
        let (high, low) = (first / 16, first % 16);
        for second in [0, 1, 2, 3, 0xff] {
            let video = match (high, low, second) {
                (8.., 0, _) => "setup of video",
                (9, 1 | 3, _) => "key",
                (8.., 1 | 3, _) => "picture",
                (8.., _, _) => "other",
                (_, 7 | 12, 0) => "setup of video",
                (1, 7 | 12, 1) => "key",
                (_, 7 | 12, 1) => "picture",
                (_, 7 | 12, _) => "other",
                (1, _, _) => "key",
                _ => "picture",
            };
            let told = name(is(VIDEO, &[first, second]));
            assert_eq!(told, video, "{first:#x} {second:#x}");
            let sound = match (high, low, second) {
                (10, _, 0) => "setup of sound",
                (9, 0, _) => "setup of sound",
                (9, 1, _) => "sound",
                (9, _, _) => "other",
                _ => "sound",
            };
            let told = name(is(AUDIO, &[first, second]));
            assert_eq!(told, sound, "{first:#x} {second:#x}");
            assert_eq!(name(is(SCRIPT, &[first, second])), "other");
            assert_eq!(name(is(10, &[first, second])), "other");
        }
    }
    // Bodies of one byte: codecs that need no more say the same.
    for (tag_type, body, told) in [
        (VIDEO, &[0x12][..], "key"),
        (VIDEO, &[0x22], "picture"),
        (VIDEO, &[0x90], "setup of video"),
        (VIDEO, &[], "other"),
        (AUDIO, &[0x2f], "sound"),
        (AUDIO, &[0xaf], "sound"),
        (AUDIO, &[], "other"),
        (SCRIPT, b"\x02\0\x0aonMetaData", "metadata"),
        (SCRIPT, b"\x02\0\x0aonCuePoint", "other"),
        (VIDEO, b"\x02\0\x0aonMetaData", "picture"),
    ] {
        assert_eq!(name(is(tag_type, body)), told, "{body:x?}");
    }
}

#[test]
fn a_head_must_say_its_own_length() {
    for (at, byte) in [(5, 1), (6, 1), (7, 1), (8, 8), (8, 10)] {
        let mut bytes = header();
        bytes[at] = byte;
        assert_eq!(scan(&bytes), (vec![], Err(Unsupported)), "{byte} at {at}");
    }
    // The size after it does not count, and is kept.
    let mut bytes = [header(), key(0)].concat();
    bytes[9..13].fill(7);
    let (findings, _) = scan(&bytes);
    assert_eq!(findings[1].1.as_deref(), Some(&bytes[..header().len()]));
}

#[test]
fn the_first_media_report_the_header_and_each_key_frame_is_a_join() {
    let parts = [header(), key(0), picture(40), sound(40), key(80)];
    assert_eq!(told(&parts), (vec![header()], places(&parts, [1, 4])));
    // An early viewer, before the first join point, needs the tags so far.
    let parts = [header(), picture(0), sound(0), key(40)];
    assert_eq!(told(&parts), (vec![header()], places(&parts, [3])));
    for media in [picture(0), sound(0)] {
        let parts = [header(), media.clone()];
        assert_eq!(told(&parts), (vec![header()], vec![]));
        // But not the tags that come for the next point.
        let longer = tag(AUDIO, 0, &[0xaf, 0, 0x12, 0x10, 9]);
        let parts = [header(), key(0), longer, media];
        assert_eq!(told(&parts), (vec![header()], places(&parts, [1])));
    }
    let parts = [header(), sound(0), key(40)];
    assert_eq!(told(&parts), (vec![header()], places(&parts, [2])));
    // In any order, and without missing tags.
    let parts = [head(5), sound_setup(), video_setup(), key(0)];
    let all = [head(5), video_setup(), sound_setup()].concat();
    assert_eq!(told(&parts), (vec![all], places(&parts, [3])));
    assert_eq!(told(&[header()]).0, Vec::<Vec<u8>>::new());
    // A tag of an unknown kind, and one that says it is filtered.
    let filtered = tag(0x20 | VIDEO, 0, &[0x17, 1, 0, 0, 0, 7]);
    let parts = [
        header(),
        tag(10, 0, &[1; 20]),
        tag(SCRIPT, 0, b"x"),
        filtered,
    ];
    assert_eq!(told(&parts), (vec![header()], places(&parts, [3])));
}

#[test]
fn changed_tags_count_with_the_next_key_frame() {
    for (setup, is_timeless) in [
        (metadata(5), true),
        (video_setup(), false),
        (sound_setup(), false),
    ] {
        for at in 0..setup.len() {
            let mut other = setup.clone();
            other[at] ^= if at == 0 { 0x20 } else { 1 };
            // Such a change alters the tag's length or kind. Then it is another tag.
            if (1..4).contains(&at) || at == 11 || (12..24).contains(&at) && is_timeless {
                continue;
            }
            let is_kept = at != 12 || setup[0] == SCRIPT;
            let parts = [
                header(),
                setup.clone(),
                key(0),
                picture(1),
                other.clone(),
                picture(2),
                key(3),
                other.clone(),
                key(4),
            ];
            let (headers, joins) = told(&parts);
            let is_same = is_timeless && (4..8).contains(&at) || !is_kept;
            assert_eq!(
                headers.len(),
                2 - usize::from(is_same),
                "{setup:x?} at {at}"
            );
            assert!(is_same || headers[1] != headers[0]);
            let count = joins.len();
            assert!(count == 3 || !is_kept, "{setup:x?} at {at}");
            // Changed back before it was reported.
            let parts = [
                header(),
                setup.clone(),
                key(0),
                other,
                setup.clone(),
                key(3),
            ];
            assert!(told(&parts).0.len() == 1 || !is_kept, "{setup:x?} at {at}");
        }
    }
    // Metadata has no time.
    let with_time = [
        head(5),
        metadata(0x0102_0304),
        video_setup(),
        sound_setup(),
        key(0),
    ];
    assert_eq!(told(&with_time).0, [header()]);
    // Another one of another length.
    let longer = tag(AUDIO, 0, &[0xaf, 0, 0x12, 0x10, 9]);
    let (headers, _) = told(&[header(), key(0), longer.clone(), key(1)]);
    let second = [head(5), metadata(0), video_setup(), longer].concat();
    assert_eq!(headers, [header(), second]);
}

#[test]
fn sound_decides_where_no_pictures_come() {
    let filler = |bytes: usize| tag(10, 0, &vec![1; bytes - 15]);
    // Where no pictures are promised, at once and with spacing.
    for flags in [0, 4, 0xfe] {
        let parts = [
            head(flags),
            sound(0),
            sound(1),
            filler(1023 - 36),
            sound(2),
            sound(3),
        ];
        assert_eq!(told(&parts).1, places(&parts, [1, 5]), "{flags}");
        let parts = [
            head(flags),
            sound(0),
            sound(1),
            filler(1024 - 36),
            sound(2),
            sound(3),
        ];
        assert_eq!(told(&parts).1, places(&parts, [1, 4]), "{flags}");
        // As soon as pictures come, they decide.
        let parts = [
            head(flags),
            sound(0),
            video_setup(),
            filler(2_000),
            sound(1),
            picture(2),
        ];
        assert_eq!(told(&parts).1, places(&parts, [1]));
    }
    // Where pictures are promised, after four seconds.
    for begin in [0, 7, u32::MAX - 1_000] {
        let at = |time: u32| begin.wrapping_add(time);
        let parts = [head(5), sound(at(0)), sound(at(3_999)), sound(at(4_000))];
        assert_eq!(told(&parts).1, places(&parts, [3]), "{begin}");
        for video in [video_setup(), picture(0)] {
            let parts = [head(1), sound(at(0)), video, sound(at(4_000))];
            assert!(told(&parts).1.is_empty(), "{begin}");
        }
        let parts = [head(1), sound(at(0)), key(0), sound(at(4_000))];
        assert_eq!(told(&parts).1, places(&parts, [2]));
    }
    // Each byte of a time. It has 32 bits, and the highest byte comes last.
    for time in [0x0000_0fa0, 0x0001_0000, 0x0100_0000, 0x7f00_0000] {
        let parts = [head(1), sound(0), sound(time)];
        assert_eq!(told(&parts).1, places(&parts, [2]), "{time:x}");
        let parts = [head(1), sound(time), sound(time + 3_999)];
        assert!(told(&parts).1.is_empty(), "{time:x}");
    }
    // A tag that only describes sound is not sound.
    let parts = [head(4), sound_setup(), tag(AUDIO, 0, &[0x92, 1])];
    assert!(told(&parts).1.is_empty());
}

#[test]
fn units_stand_4096_bytes_apart() {
    let units = |parts: &[Vec<u8>]| {
        let (findings, _) = scan(&parts.concat());
        let units = findings.iter().filter_map(|(finding, _)| match finding {
            Finding::Unit(start) => Some(start.offset),
            _ => None,
        });
        units.collect::<Vec<_>>()
    };
    let filler = |bytes: usize| tag(10, 0, &vec![1; bytes - 15]);
    let parts = [
        head(5),
        filler(4_095),
        filler(100),
        filler(4_096),
        filler(20),
    ];
    assert_eq!(units(&parts), places(&parts, [1, 3, 4]));
    // They begin again after a header.
    let parts = [
        head(5),
        filler(100),
        key(0),
        filler(100),
        video_setup(),
        key(1),
    ];
    assert_eq!(units(&parts), places(&parts, [1, 2, 5]));
}

#[test]
fn the_kept_tags_are_bounded() {
    let long = |kind: u8, begin: &[u8], length: usize| {
        let mut body = begin.to_vec();
        body.resize(length - 15, 0);
        tag(kind, 0, &body)
    };
    let name = &METADATA_NAME[..];
    for (kind, begin, most) in [
        (SCRIPT, name, 128 * 1024),
        (VIDEO, &[0x17, 0], 32 * 1024),
        (AUDIO, &[0xaf, 0], 32 * 1024),
    ] {
        let parts = [head(5), long(kind, begin, most), key(0)];
        assert_eq!(told(&parts).0, [parts[..2].concat()]);
        let parts = [head(5), long(kind, begin, most + 1), key(0)];
        assert_eq!(scan(&parts.concat()), (vec![], Err(Unsupported)));
    }
    // Tags that are not kept may have any length.
    let parts = [
        head(5),
        long(SCRIPT, b"x", 300_000),
        long(VIDEO, &[0x17, 1], 300_000),
    ];
    assert_eq!(told(&parts).1, places(&parts, [2]));
    // The scanner holds both versions of a tag, and no more.
    let (mut window, mut flv) = (Window::default(), Flv::default());
    let nothing: &mut Findings<'_> = &mut |_, _| {};
    let mut feed = |bytes: &[u8]| {
        assert_eq!(window.walk(&mut flv, bytes, 0, nothing), Ok(()));
        let tags = flv.tags.kept.iter();
        tags.map(|tag| tag.current.capacity() + tag.next.capacity())
            .sum::<usize>()
    };
    let kept = header().len() - 13;
    assert_eq!(feed(&header()), kept);
    assert_eq!(feed(&key(0)), kept);
    let longer = tag(AUDIO, 0, &[0xaf, 0, 0x12, 0x10, 9]);
    assert_eq!(feed(&longer), kept + longer.len());
    assert_eq!(feed(&sound_setup()), kept + longer.len());
}

#[cfg(feature = "handover")]
#[test]
fn handed_over_long_tags_are_refused() {
    let fits = |told: usize, next: usize| {
        let mut flv = Flv::default();
        flv.tags.kept[2].current = vec![0; told].into();
        flv.tags.kept[0].next = vec![0; next].into();
        flv.is_valid()
    };
    assert!(fits(0, 0) && fits(128 * 1024, 128 * 1024));
    assert!(!fits(128 * 1024 + 1, 0) && !fits(0, 128 * 1024 + 1));
}
