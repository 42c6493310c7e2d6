use super::super::tests::{Scanned, mp4_box, scan_in, words};
use super::super::window::Window;
use super::*;

/// A track of this kind with this clock.
fn track(id: u32, kind: &[u8; 4], ticks_per_second: u32) -> Vec<u8> {
    let tkhd = mp4_box(b"tkhd", &words(&[7, 1, 1, id, 9, 9]));
    let mdhd = mp4_box(b"mdhd", &words(&[0, 1, 1, ticks_per_second, 9]));
    let hdlr = mp4_box(
        b"hdlr",
        &[&words(&[0, 0]), &kind[..], &words(&[0, 0, 0])].concat(),
    );
    mp4_box(
        b"trak",
        &[tkhd, mp4_box(b"mdia", &[mdhd, hdlr].concat())].concat(),
    )
}

/// Defaults of a track's samples.
fn trex(id: u32, flags: u32) -> Vec<u8> {
    mp4_box(b"trex", &words(&[0, id, 1, 0, 0, flags]))
}

fn moov(tracks: &[Vec<u8>], extends: &[Vec<u8>]) -> Vec<u8> {
    let mvex = mp4_box(b"mvex", &extends.concat());
    mp4_box(
        b"moov",
        &[&mp4_box(b"mvhd", &[0; 20]), &tracks.concat(), &mvex[..]].concat(),
    )
}

const SYNC: u32 = 0x0200_0000;
const SOUND: u32 = 1;
const VIDEO: u32 = 2;

/// Sound, and video whose samples are no sync samples by default.
fn header() -> Vec<u8> {
    let tracks = [track(SOUND, b"soun", 48_000), track(VIDEO, b"vide", 1_000)];
    let extends = [trex(SOUND, SYNC), trex(VIDEO, NOT_SYNC)];
    [mp4_box(b"ftyp", b"isom"), moov(&tracks, &extends)].concat()
}

/// A track's part of a fragment: the numbers of its header and of its run.
fn traf(tfhd: &[u32], time: Option<u32>, trun: &[u32]) -> Vec<u8> {
    let time = time.map(|time| mp4_box(b"tfdt", &words(&[0, time])));
    let time = time.unwrap_or_default();
    mp4_box(
        b"traf",
        &[
            mp4_box(b"tfhd", &words(tfhd)),
            time,
            mp4_box(b"trun", &words(trun)),
        ]
        .concat(),
    )
}

fn moof(parts: &[Vec<u8>]) -> Vec<u8> {
    mp4_box(
        b"moof",
        &[mp4_box(b"mfhd", &[0; 8]), parts.concat()].concat(),
    )
}

/// A fragment whose first sample of video is a sync sample, or is not.
fn fragment(is_sync: bool) -> Vec<u8> {
    let flags = if is_sync { SYNC } else { NOT_SYNC };
    [
        moof(&[traf(&[0, VIDEO], Some(3_000), &[4, 1, flags])]),
        mp4_box(b"mdat", &[0xdd; 30]),
    ]
    .concat()
}

/// Returns the findings, in one piece and in small ones if the input is short.
fn scan(bytes: &[u8]) -> Scanned {
    let sizes = if bytes.len() < 9_000 {
        &[1, 7, 100, 4096][..]
    } else {
        &[100, 4096]
    };
    scan_in(bytes, sizes, Mp4::default, |_, _| ())
}

/// Returns the findings after the header, with offsets from there. Units are left out.
fn behind_header(bytes: &[u8]) -> Vec<Finding> {
    let from = header().len() as u64;
    let (findings, result) = scan(&[header(), bytes.to_vec()].concat());
    assert_eq!(findings[0], (Finding::Header, Some(header())));
    assert_eq!(result, Ok(()));
    let found = findings[1..]
        .iter()
        .filter_map(|(finding, _)| match finding {
            Finding::Unit(_) => None,
            Finding::Time(at, time) => Some(Finding::Time(at - from, *time)),
            Finding::Join(start) => Some(Finding::Join(Start::at(start.offset - from))),
            Finding::Break(at) => Some(Finding::Break(at - from)),
            other => Some(*other),
        });
    found.collect()
}

fn join(at: usize) -> Finding {
    Finding::Join(Start::at(at as u64))
}

fn time(at: usize, ticks: u64) -> Finding {
    Finding::Time(at as u64, MediaTime::from_ticks(ticks))
}

#[test]
fn a_box_head_has_a_type_and_a_length() {
    let told = |bytes: &[u8]| box_head(bytes).map(|head| (head.kind, head.bytes, head.length));
    let large = |length: u64| [&b"\0\0\0\x01mdat"[..], &length.to_be_bytes()].concat();
    for (bytes, head) in [
        (b"\0\0\0\x08free".to_vec(), Ok((*b"free", 8, 8))),
        (
            b"\x01\x02\x03\x04moofxx".to_vec(),
            Ok((*b"moof", 8, 0x0102_0304)),
        ),
        (
            b"\xff\xff\xff\xffmdat".to_vec(),
            Ok((*b"mdat", 8, 0xffff_ffff)),
        ),
        (large(16), Ok((*b"mdat", 16, 16))),
        (
            large(0x0102_0304_0506_0708),
            Ok((*b"mdat", 16, 0x0102_0304_0506_0708)),
        ),
        (large(u64::MAX), Ok((*b"mdat", 16, u64::MAX))),
        (large(15), Err(Unsupported.into())),
        (large(0), Err(Unsupported.into())),
        // Up to the end of the file, and shorter than its own head.
        (b"\0\0\0\0mdat".to_vec(), Err(Unsupported.into())),
        (b"\0\0\0\x07free".to_vec(), Err(Unsupported.into())),
        (b"\0\0\0\x02free".to_vec(), Err(Unsupported.into())),
    ] {
        assert_eq!(told(&bytes), head, "{bytes:x?}");
        for length in 0..8 {
            assert_eq!(told(&bytes[..length]), Err(Unread::Needs(8)));
        }
    }
    for length in 8..16 {
        assert_eq!(told(&large(99)[..length]), Err(Unread::Needs(16)));
    }
}

#[test]
fn boxes_are_returned_while_they_are_whole() {
    let bytes = [
        mp4_box(b"free", &[]),
        mp4_box(b"tkhd", &[1, 2, 3]),
        mp4_box(b"mdia", &[4]),
    ]
    .concat();
    let all = [
        (*b"free", &[][..]),
        (*b"tkhd", &[1, 2, 3]),
        (*b"mdia", &[4]),
    ];
    for length in 0..=bytes.len() {
        let count = [8, 19, 28].iter().filter(|end| length >= **end).count();
        let told: Vec<_> = boxes(&bytes[..length]).collect();
        assert_eq!(told, all[..count], "{length} bytes");
    }
    let told: Vec<_> = child_ranges(&bytes).map(|(_, place)| place).collect();
    assert_eq!(told, [8..8, 16..19, 27..28]);
    assert_eq!(child(&bytes, b"tkhd"), Some(&[1, 2, 3][..]));
    assert_eq!(child(&bytes, b"trak"), None);
    // A box that is shorter than its head ends the list.
    for size in [0, 1, 7] {
        let bad = [&words(&[size])[..], b"free", &bytes].concat();
        assert_eq!(boxes(&bad).count(), 0, "of {size} bytes");
    }
}

#[test]
fn numbers_are_read_at_their_position() {
    let bytes = [9, 1, 2, 3, 4, 9];
    for (at, told) in [
        (0, Some(0x0901_0203)),
        (1, Some(0x0102_0304)),
        (2, Some(0x0203_0409)),
    ] {
        assert_eq!(number(&bytes, at), told);
    }
    for at in [3, 5, 6, 7, 100] {
        assert_eq!(number(&bytes, at), None, "at {at}");
    }
    let header: Vec<u8> = (0..24).collect();
    assert_eq!(number_after_times(&header), Some(0x0c0d_0e0f));
    for (version, told) in [(0, 0x0c0d_0e0f), (1, 0x1415_1617), (2, 0x0c0d_0e0f)] {
        let header = [&[version], &header[1..]].concat();
        assert_eq!(number_after_times(&header), Some(told), "version {version}");
    }
    assert_eq!(number_after_times(&[]), None);
}

#[cfg(any(feature = "hold", feature = "remux"))]
#[test]
fn a_descriptor_has_a_length_of_up_to_four_bytes() {
    let long = [&[3, 0x81, 0x00][..], &[7; 200]].concat();
    for (bytes, content) in [
        (&[3, 2, 8, 9, 10][..], Some(&[8, 9][..])),
        (&[3, 0, 8], Some(&[])),
        (&[3, 0x80, 0x80, 0x80, 1, 8, 9], Some(&[8])),
        // The fourth byte is the last, even if it says that another follows.
        (&[3, 0x80, 0x80, 0x80, 0x81, 8, 9], Some(&[8])),
        (&long, Some(&[7; 128])),
        // As much as there is.
        (&[3, 5, 8, 9], Some(&[8, 9])),
        (&[4, 2, 8, 9], None),
        (&[3, 0x80], None),
        (&[3], None),
        (&[], None),
    ] {
        assert_eq!(descriptor(bytes, 3), content, "{bytes:x?}");
    }
}

/// Each place where a fragment can say what its first sample is. The nearest counts.
#[test]
fn a_fragment_whose_first_sample_is_a_sync_sample_is_a_join() {
    let is_join = |tfhd: &[u32], trun: &[u32]| {
        let found = behind_header(&moof(&[traf(tfhd, None, trun)]));
        assert!(found.is_empty() || found == [join(0)]);
        !found.is_empty()
    };
    let (yes, no) = (SYNC, NOT_SYNC | SYNC);
    for (tfhd, trun, joins) in [
        // In the run, for the first sample, with an offset or without.
        (&[0, VIDEO][..], &[4, 1, yes][..], true),
        (&[0, VIDEO], &[4, 1, no], false),
        (&[0, VIDEO], &[5, 1, no, yes], true),
        (&[0, VIDEO], &[5, 1, yes, no], false),
        // For each sample, after its duration and its size.
        (&[0, VIDEO], &[0x400, 1, yes], true),
        (&[0, VIDEO], &[0x400, 1, no], false),
        (&[0, VIDEO], &[0x500, 1, no, yes], true),
        (&[0, VIDEO], &[0x600, 1, no, yes], true),
        (&[0, VIDEO], &[0x701, 1, no, no, no, yes, no], true),
        (&[0, VIDEO], &[0xf01, 1, yes, yes, yes, no, yes], false),
        // The flags of the first sample count more than its entry.
        (&[0, VIDEO], &[0x404, 1, yes, no], true),
        // In the fragment's header, after its other fields.
        (&[0x20, VIDEO, yes], &[0, 1], true),
        (&[0x20, VIDEO, no], &[0, 1], false),
        (&[0x22, VIDEO, no, yes], &[0, 1], true),
        (&[0x28, VIDEO, no, yes], &[0, 1], true),
        (&[0x30, VIDEO, no, yes], &[0, 1], true),
        (&[0x3a, VIDEO, no, no, no, yes, no], &[0, 1], true),
        (&[0x2_0024, VIDEO, yes, no], &[0, 1], true),
        (&[0x20, VIDEO, yes], &[4, 1, no], false),
        (&[0x20, VIDEO, no], &[0x400, 1, yes], true),
        // Otherwise the default. Other tracks do not count.
        (&[0, VIDEO], &[0, 1], false),
        (&[0, SOUND], &[4, 1, yes], false),
        // A field that is cut off says nothing.
        (&[0, VIDEO], &[4, 1], false),
        (&[0x20, VIDEO], &[0, 1], false),
        // The version is not part of the flags.
        (&[0x0100_0000, VIDEO], &[0x0100_0004, 1, yes], true),
        // Positions from the file's first byte.
        (&[1, VIDEO, 0, 0], &[4, 1, yes], false),
    ] {
        assert_eq!(is_join(tfhd, trun), joins, "{tfhd:x?} {trun:x?}");
    }
    let both = |first: &[u32], second: &[u32]| {
        behind_header(&moof(&[
            traf(first, None, &[0, 1]),
            traf(second, None, &[4, 1, yes]),
        ]))
    };
    assert_eq!(both(&[0, SOUND], &[0, VIDEO]), [join(0)]);
    assert_eq!(both(&[1, SOUND, 0, 0], &[0, VIDEO]), []);
    // A part without a header may count from anywhere.
    let bare = moof(&[mp4_box(b"traf", &[]), traf(&[0, VIDEO], None, &[4, 1, yes])]);
    assert_eq!(behind_header(&bare), []);
    // Where sync samples are the default.
    let usual = moov(&[track(VIDEO, b"vide", 1_000)], &[trex(VIDEO, SYNC)]);
    for (tfhd, joins) in [(&[0, VIDEO][..], 1), (&[0x20, VIDEO, NOT_SYNC], 0)] {
        let moof = moof(&[traf(tfhd, None, &[0, 1])]);
        let (findings, _) = scan(&[mp4_box(b"ftyp", b"isom"), usual.clone(), moof].concat());
        let found = findings
            .iter()
            .filter(|(found, _)| matches!(found, Finding::Join(_)));
        assert_eq!(found.count(), joins);
    }
    // Without tracks there is no video track.
    assert_eq!(behind_header(&moof(&[])), []);
}

#[test]
fn only_the_newest_fragment_says_whether_the_first_byte_is_needed() {
    let (mut window, mut mp4) = (Window::default(), Mp4::default());
    let mut feed = |bytes: &[u8], at: u64| {
        let nothing: &mut Findings<'_> = &mut |_, _| {};
        assert_eq!(window.walk(&mut mp4, bytes, at, nothing), Ok(()));
        mp4.is_absolute
    };
    assert!(!feed(&header(), 0));
    assert!(feed(
        &moof(&[traf(&[1, VIDEO, 0, 0], None, &[0, 1])]),
        1_000
    ));
    assert!(!feed(&fragment(true), 2_000));
}

#[test]
fn the_deciding_track_gives_the_time_of_a_fragment() {
    let sound = |time| traf(&[0, SOUND], time, &[0, 1]);
    let video = |time| traf(&[0, VIDEO], time, &[0, 1]);
    let long = |high, low| {
        let tfdt = mp4_box(b"tfdt", &words(&[0x0100_0000, high, low]));
        let tfhd = mp4_box(b"tfhd", &words(&[0, VIDEO]));
        mp4_box(b"traf", &[tfhd, tfdt].concat())
    };
    let cut = mp4_box(
        b"traf",
        &[mp4_box(b"tfhd", &words(&[0, VIDEO])), mp4_box(b"tfdt", &[])].concat(),
    );
    for (parts, told) in [
        (vec![video(Some(2_000))], Some(180_000)),
        (vec![sound(Some(7)), video(Some(2_000))], Some(180_000)),
        (vec![video(Some(2_000)), sound(Some(7))], Some(180_000)),
        (vec![video(Some(2_000)), video(Some(9))], Some(180_000)),
        (vec![sound(Some(7))], None),
        // Each track must say its time.
        (vec![sound(None), video(Some(2_000))], None),
        (vec![video(Some(2_000)), sound(None)], None),
        (vec![video(None)], None),
        (vec![cut], None),
        (vec![long(0, 3_000)], Some(270_000)),
        (vec![long(1, 0)], Some((90 << 32) % (1 << 33))),
        (vec![long(0x10, 5)], Some((0x10_0000_0005 * 90) % (1 << 33))),
        (vec![], None),
    ] {
        let found = behind_header(&moof(&parts));
        assert_eq!(found, Vec::from_iter(told.map(|ticks| time(0, ticks))));
    }
}

/// In ticks of the video's clock. One of them is 90 ticks of [`MediaTime`].
#[test]
fn a_fragment_lasts_as_long_as_the_samples_of_the_track_that_decides() {
    let video = |tfhd: &[u32], trun: &[u32]| traf(tfhd, Some(0), trun);
    let plain = [0, VIDEO];
    let twice = {
        let run = |ticks| mp4_box(b"trun", &words(&[0x100, 1, ticks]));
        let tfhd = mp4_box(b"tfhd", &words(&plain));
        let tfdt = mp4_box(b"tfdt", &words(&[0, 0]));
        mp4_box(b"traf", &[tfhd, tfdt, run(40), run(2)].concat())
    };
    for (parts, lasts) in [
        // A duration for each sample, alone and beside its other fields.
        (vec![video(&plain, &[0x100, 2, 40, 41])], Some(81)),
        (
            vec![video(&plain, &[0x305, 1, 8, NOT_SYNC, 40, 999])],
            Some(40),
        ),
        (vec![twice], Some(42)),
        // One for all.
        (vec![video(&[0x8, VIDEO, 40], &[0, 3])], Some(120)),
        (
            vec![video(&[0xa, VIDEO, 1, 40], &[0x200, 2, 9, 9])],
            Some(80),
        ),
        (
            vec![video(&[0x3a, VIDEO, 1, 40, 9, NOT_SYNC], &[0, 2])],
            Some(80),
        ),
        (vec![video(&[0x9, VIDEO, 0, 0, 40], &[0, 2])], Some(80)),
        // Only the deciding track counts.
        (
            vec![
                traf(&[0x8, SOUND, 7], Some(0), &[0, 3]),
                video(&[0x8, VIDEO, 40], &[0, 3]),
            ],
            Some(120),
        ),
        // Samples without a duration, missing samples, and huge numbers.
        (vec![video(&plain, &[0, 3])], None),
        (vec![video(&plain, &[0x100, u32::MAX, 40])], Some(40)),
        (vec![video(&[0x8, VIDEO, 0], &[0, u32::MAX])], None),
        (vec![video(&[0x8, VIDEO], &[0, 3])], None),
    ] {
        let mut found = behind_header(&moof(&parts));
        found.retain(|found| !matches!(found, Finding::Time(..) | Finding::Join(_)));
        let lasts = lasts.map(|ticks: u64| Finding::Lasts(90 * ticks));
        assert_eq!(found, Vec::from_iter(lasts), "{parts:x?}");
    }
}

#[test]
fn boxes_in_front_of_a_fragment_belong_to_it() {
    let (other, whole) = (mp4_box(b"free", &[1; 9]), fragment(true));
    let found = |at: usize| vec![time(at, 270_000), join(at)];
    for kind in [b"styp", b"prft", b"emsg", b"sidx"] {
        let front = mp4_box(kind, &[2; 12]);
        assert_eq!(behind_header(&[&front[..], &whole].concat()), found(0));
        let two = [&other[..], &front, &front, &whole].concat();
        assert_eq!(behind_header(&two), found(other.len()));
        // Unless another box has come between.
        let apart = [&front[..], &other, &whole].concat();
        assert_eq!(behind_header(&apart), found(front.len() + other.len()));
        let next = [&front[..], &whole, &whole].concat();
        let at = front.len() + whole.len();
        assert_eq!(behind_header(&next), [found(0), found(at)].concat());
    }
    assert_eq!(
        behind_header(&[&whole[..], &fragment(false)].concat()).len(),
        3
    );
}

#[test]
fn units_stand_4096_bytes_apart() {
    let fragment = moof(&[]);
    let from = header().len();
    for (between, second) in [(4_095, false), (4_096, true)] {
        let data = mp4_box(b"mdat", &vec![0; between - fragment.len() - 8]);
        let (findings, _) = scan(&[header(), fragment.clone(), data, fragment.clone()].concat());
        let units = findings.iter().filter_map(|(finding, _)| match finding {
            Finding::Unit(start) => Some(start.offset as usize - from),
            _ => None,
        });
        let units: Vec<_> = units.collect();
        assert_eq!(units, [0, between][..1 + usize::from(second)]);
    }
}

#[test]
fn another_moov_makes_another_header() {
    let one = fragment(true);
    let at = one.len();
    for (again, told) in [
        (header(), header()),
        (header().split_off(12), header().split_off(12)),
    ] {
        let (findings, _) = scan(&[header(), one.clone(), again, one.clone()].concat());
        let headers: Vec<_> = findings
            .iter()
            .filter_map(|(_, header)| header.clone())
            .collect();
        assert_eq!(headers, [header(), told]);
        let from = (header().len() + at) as u64;
        assert!(findings.contains(&(Finding::Break(from), None)));
        let breaks = findings
            .iter()
            .filter(|(found, _)| matches!(found, Finding::Break(_)));
        assert_eq!(breaks.count(), 1);
        // Units begin again with it.
        let units = findings
            .iter()
            .filter(|(found, _)| matches!(found, Finding::Unit(_)));
        assert_eq!(units.count(), 2);
    }
    // Between another `ftyp` and its `moov` nothing is a fragment.
    let (findings, result) = scan(&[header(), mp4_box(b"ftyp", b"isom"), moof(&[])].concat());
    assert_eq!((findings.len(), result), (2, Ok(())));
    let begun = [header(), mp4_box(b"ftyp", b"isom"), mp4_box(b"mdat", &[])].concat();
    assert_eq!(scan(&begun).1, Err(Unsupported));
    // In front of the first `moov` there is no fragment to continue.
    let front = [header(), mp4_box(b"styp", &[]), header(), one].concat();
    let (findings, _) = scan(&front);
    let last = (2 * header().len() + 8) as u64;
    assert!(findings.contains(&(Finding::Join(Start::at(last)), None)));
}

#[test]
fn the_first_video_decides_or_else_the_first_track() {
    let mdia = |boxes: &[Vec<u8>]| mp4_box(b"mdia", &boxes.concat());
    let hdlr = mp4_box(b"hdlr", &[&words(&[0, 0]), &b"vide"[..]].concat());
    let tkhd = |id| mp4_box(b"tkhd", &words(&[0, 1, 1, id]));
    let cut_hdlr = mp4_box(b"hdlr", &words(&[0, 0]));
    let without = |boxes: &[Vec<u8>]| mp4_box(b"trak", &boxes.concat());
    let read = |tracks: &[Vec<u8>], extends: &[Vec<u8>]| {
        let moov = moov(tracks, extends).split_off(8);
        let tracks = Tracks::read(&moov).expect("an mvex");
        (tracks.video, tracks.usual_flags, tracks.clock)
    };
    let (sound, video) = (track(5, b"soun", 48_000), track(6, b"vide", 90));
    let usual = [trex(5, 50), trex(6, 60), trex(7, 70)];
    for (tracks, extends, told) in [
        (vec![], &[][..], (None, None, None)),
        (vec![sound.clone()], &usual, (None, None, Some((5, 48_000)))),
        (
            vec![sound.clone(), video.clone(), track(7, b"vide", 1)],
            &usual,
            (Some(6), Some(60), Some((6, 90))),
        ),
        (
            vec![video.clone()],
            &usual[..1],
            (Some(6), None, Some((6, 90))),
        ),
        (
            vec![video.clone()],
            &[mp4_box(b"trex", &[]), trex(6, 3)],
            (Some(6), Some(3), Some((6, 90))),
        ),
        // A track that is cut off does not count. Without a clock there is no time.
        (
            vec![
                without(&[tkhd(1)]),
                without(&[tkhd(1), mdia(&[])]),
                without(&[tkhd(1), mdia(&[cut_hdlr])]),
                without(&[mdia(std::slice::from_ref(&hdlr))]),
                without(&[mp4_box(b"tkhd", &[]), mdia(std::slice::from_ref(&hdlr))]),
                without(&[tkhd(8), mdia(std::slice::from_ref(&hdlr))]),
            ],
            &usual,
            (Some(8), None, Some((8, 0))),
        ),
    ] {
        assert_eq!(read(&tracks, extends), told);
    }
    // A plain file never has fragments.
    let plain = [
        mp4_box(b"ftyp", b"isom"),
        mp4_box(b"moov", &track(6, b"vide", 90)),
    ]
    .concat();
    assert_eq!(scan(&plain), (vec![], Err(Unsupported)));
    // Without video each fragment is a join.
    let sound = [mp4_box(b"ftyp", b"isom"), moov(&[sound], &[]), moof(&[])].concat();
    let (findings, _) = scan(&sound);
    assert!(matches!(findings.last(), Some((Finding::Join(_), _))));
}

#[test]
fn long_boxes_and_boxes_out_of_order_are_given_up() {
    let large =
        |kind: &[u8; 4], length: u64| [&words(&[1]), &kind[..], &length.to_be_bytes()].concat();
    let in_front = |bytes: Vec<u8>| scan(&bytes).1;
    let after = |bytes: Vec<u8>| scan(&[header(), bytes].concat()).1;
    let most = 256 * 1024;
    // A fragment, and a whole header.
    let padded = |length: usize| moof(&[mp4_box(b"free", &vec![0; length - 32])]);
    assert_eq!(after(padded(most)), Ok(()));
    assert_eq!(after(padded(most + 1)), Err(Unsupported));
    assert_eq!(after(large(b"moof", most as u64)), Ok(()));
    assert_eq!(after(large(b"moof", most as u64 + 1)), Err(Unsupported));
    let free = |length: usize| mp4_box(b"free", &vec![0; length - 8]);
    let whole = |length: usize| [free(length - header().len()), header()].concat();
    assert_eq!(in_front(whole(most)), Ok(()));
    assert_eq!(in_front(whole(most + 1)), Err(Unsupported));
    // Media in front of a header, and a box longer than any stream.
    assert_eq!(
        in_front([mp4_box(b"ftyp", b"isom"), mp4_box(b"mdat", &[])].concat()),
        Err(Unsupported)
    );
    assert_eq!(after(mp4_box(b"mdat", &[])), Ok(()));
    let from = header().len() as u64;
    assert_eq!(after(large(b"mdat", u64::MAX - from)), Ok(()));
    assert_eq!(after(large(b"mdat", u64::MAX - from + 1)), Err(Unsupported));
    assert_eq!(after(words(&[0, 0, 0])), Err(Unsupported));
    // A head of sixteen bytes does not change the content.
    let content = moof(&[traf(&[0, VIDEO], Some(3_000), &[4, 1, SYNC])]).split_off(8);
    let long = [large(b"moof", content.len() as u64 + 16), content].concat();
    assert_eq!(behind_header(&long), [time(0, 270_000), join(0)]);
    let content = header().split_off(20);
    let long = [large(b"moov", content.len() as u64 + 16), content].concat();
    let (findings, _) = scan(&[&long[..], &fragment(true)].concat());
    assert_eq!(findings[0], (Finding::Header, Some(long)));
    assert_eq!(findings.len(), 4);
}

#[cfg(feature = "handover")]
#[test]
fn handed_over_offsets_that_lie_ahead_are_refused() {
    for (fragment_start, fits) in [(None, true), (Some(7), true), (Some(8), false)] {
        let mp4 = Mp4 {
            fragment_start,
            ..Mp4::default()
        };
        assert_eq!(mp4.is_valid(7), fits);
    }
    let (mut mp4, long) = (Mp4::default(), vec![0; 1 + super::super::HEADER_BYTES_MAX]);
    mp4.header = serde_json::from_value(serde_json::json!({
        "current": { "copied": 0, "rest": String::from_utf8(long).expect("zeros") },
        "next": { "copied": 0, "rest": "" },
    }))
    .expect("as it is told");
    assert!(!mp4.is_valid(7));
}
