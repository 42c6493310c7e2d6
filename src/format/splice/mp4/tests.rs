use super::super::super::window::Window;
use super::*;
use crate::format::splice::tests::cut;
use crate::format::tests::words as numbers;

fn mp4_box(kind: &[u8; 4], content: &[&[u8]]) -> Vec<u8> {
    crate::format::tests::mp4_box(kind, &content.concat())
}

/// A track with its clock, its kind and one description.
fn trak(number: u32, rate: u32, handler: &[u8; 4], entry: &[u8]) -> Vec<u8> {
    let stsd = mp4_box(b"stsd", &[&numbers(&[0, 1]), entry]);
    let minf = mp4_box(b"minf", &[&mp4_box(b"stbl", &[&stsd])]);
    let mdhd = mp4_box(b"mdhd", &[&numbers(&[0, 0, 0, rate, 0, 0])]);
    let hdlr = mp4_box(b"hdlr", &[&[0; 8], handler, &[0; 13]]);
    let tkhd = mp4_box(b"tkhd", &[&numbers(&[0, 0, 0, number]), &[0; 60]]);
    mp4_box(b"trak", &[&tkhd, &mp4_box(b"mdia", &[&mdhd, &hdlr, &minf])])
}

fn trex(track: u32, duration: u32) -> Vec<u8> {
    mp4_box(b"trex", &[&numbers(&[0, track, 1, duration, 0, 0])])
}

fn opus() -> Vec<u8> {
    mp4_box(b"Opus", &[&[0; 28], &mp4_box(b"dOps", &[b"setup"])])
}

/// Track 1 is sound of 1,000 ticks a second, and its samples have 10 ticks. Track 2 is subtitles,
/// of 90,000.
fn moov() -> Vec<u8> {
    let words = mp4_box(b"wvtt", &[&[0; 8]]);
    let mvex = mp4_box(b"mvex", &[&trex(1, 10), &trex(2, 90_000)]);
    let traks = [
        trak(2, 90_000, b"text", &words),
        trak(1, 1_000, b"soun", &opus()),
    ]
    .concat();
    mp4_box(b"moov", &[&traks, &mvex])
}

fn fragments(unit_bytes_max: usize) -> FragmentCutter {
    let mut fragments = FragmentCutter::new(unit_bytes_max);
    fragments.clocks = clocks(&moov()[8..]).expect("two tracks");
    fragments
}

fn tfhd(flags: u32, track: u32, rest: &[u32]) -> Vec<u8> {
    mp4_box(b"tfhd", &[&numbers(&[flags, track]), &numbers(rest)])
}

fn tfdt(time: u32) -> Vec<u8> {
    mp4_box(b"tfdt", &[&numbers(&[0, time])])
}

fn tfdt_long(time: u64) -> Vec<u8> {
    mp4_box(b"tfdt", &[&numbers(&[0x0100_0000]), &time.to_be_bytes()])
}

/// Samples of the default duration, whose data begins at this offset.
fn trun(samples: u32, offset: u32) -> Vec<u8> {
    mp4_box(b"trun", &[&numbers(&[1, samples, offset])])
}

fn traf(track: u32, tfdt: &[u8], trun: &[u8]) -> Vec<u8> {
    mp4_box(b"traf", &[&tfhd(0x2_0000, track, &[]), tfdt, trun])
}

fn moof(number: u32, trafs: &[Vec<u8>]) -> Vec<u8> {
    mp4_box(
        b"moof",
        &[
            &mp4_box(b"mfhd", &[&numbers(&[0, number])]),
            &trafs.concat(),
        ],
    )
}

#[test]
fn a_run_lasts_as_long_as_its_samples() {
    // Flags, the following numbers, and the sum.
    let cases: [(u32, &[u32], Option<u64>); 14] = [
        (0, &[3], Some(30)),
        (1, &[3, 77], Some(30)),
        (0, &[0], Some(0)),
        (0, &[u32::MAX], Some(10 * 0xffff_ffff)),
        (0, &[], None),
        (0x100, &[2, 5, 7], Some(12)),
        (0x101, &[2, 99, 5, 7], Some(12)),
        (0x104, &[2, 99, 5, 7], Some(12)),
        (0x105, &[2, 98, 99, 5, 7], Some(12)),
        (0x300, &[2, 5, 99, 7, 99], Some(12)),
        (0x500, &[2, 5, 99, 7, 99], Some(12)),
        (0x900, &[2, 5, 99, 7, 99], Some(12)),
        (0xf05, &[2, 98, 99, 5, 1, 2, 3, 7, 1, 2, 3], Some(12)),
        (0x101, &[2], None),
    ];
    for (flags, rest, expected) in cases {
        let run = [numbers(&[flags]), numbers(rest)].concat();
        assert_eq!(duration_of(&run, 10), expected, "{flags:x}");
    }
}

#[test]
fn a_part_of_a_fragment_has_a_time_and_a_duration() {
    let fragments = fragments(1000);
    let run = trun(3, 0);
    // The header of the part: flags, track and the following numbers. Then its time and its
    // duration.
    for (head, time, runs, expected) in [
        (tfhd(0, 1, &[]), tfdt(7), run.clone(), Some((7, 30))),
        (
            tfhd(0, 1, &[]),
            tfdt_long(7 << 32 | 9),
            run.clone(),
            Some((7 << 32 | 9, 30)),
        ),
        (tfhd(0, 2, &[]), tfdt(7), run.clone(), Some((7, 270_000))),
        (
            tfhd(0, 1, &[]),
            tfdt(7),
            [trun(3, 0), trun(4, 0)].concat(),
            Some((7, 70)),
        ),
        (tfhd(0, 1, &[]), tfdt(7), Vec::new(), Some((7, 0))),
        // A duration of its own, after the index of a description.
        (tfhd(0x8, 1, &[5, 6]), tfdt(7), run.clone(), Some((7, 15))),
        (tfhd(0xa, 1, &[5, 6]), tfdt(7), run.clone(), Some((7, 18))),
        (tfhd(0x2, 1, &[5, 6]), tfdt(7), run.clone(), Some((7, 30))),
        (tfhd(0x8, 1, &[]), tfdt(7), run.clone(), None),
        // Positions from the beginning of the file, no time, and an unknown track.
        (tfhd(0x1, 1, &[5, 6]), tfdt(7), run.clone(), None),
        (tfhd(0, 1, &[]), Vec::new(), run.clone(), None),
        (tfhd(0, 3, &[]), tfdt(7), run.clone(), None),
    ] {
        let told = fragments.run(&[head, time, runs].concat());
        assert_eq!(told.map(|run| (run.begins, run.ticks)), expected);
    }
}

#[test]
fn times_are_counted_in_nanoseconds_and_back_to_the_nearest_tick() {
    let clock = |ticks_per_second, is_media| TrackClock {
        track: 1,
        ticks_per_second,
        usual_duration: 0,
        is_media,
    };
    for (rate, ticks, nanoseconds) in [
        (1_000, 7, 7_000_000),
        (90_000, 1, 11_111),
        (48_000, 48_000 * 3_600, 3_600 * 1_000_000_000),
        (0, 5, 5_000_000_000),
        (1, u64::MAX, i64::MAX),
    ] {
        assert_eq!(clock(rate, true).nanoseconds(ticks), nanoseconds, "{rate}");
    }
    let run = |rate, is_media, ticks| Run {
        clock: clock(rate, is_media),
        begins: 3,
        ticks,
    };
    assert_eq!(run(1_000, true, 9).begins_at(), 3_000_000);
    // Subtitles do not count, and neither does a duration of 0.
    for (is_media, ticks, lasts) in [(true, 9, 9_000_000), (true, 0, 1), (false, 9, 1)] {
        assert_eq!(run(1_000, is_media, ticks).lasts(), lasts);
    }
    for (moved, ticks) in [
        (0, Some(0)),
        (499_999, Some(0)),
        (500_000, Some(1)),
        (1_499_999, Some(1)),
        (7_000_000, Some(7)),
        (-400_000, Some(0)),
        (-500_001, None),
    ] {
        assert_eq!(run(1_000, true, 9).ticks_at(moved), ticks, "{moved}");
    }
}

#[test]
fn a_header_has_the_clock_of_each_track() {
    let told = clocks(&moov()[8..]).expect("two tracks");
    let told = told.iter().map(|clock| {
        (
            clock.track,
            clock.ticks_per_second,
            clock.usual_duration,
            clock.is_media,
        )
    });
    let told: Vec<_> = told.collect();
    assert_eq!(told, [(1, 1_000, 10, true), (2, 90_000, 90_000, false)]);
    let sound = |number| trak(number, 1_000, b"soun", &opus());
    let read = |traks: &[Vec<u8>], extends: &[Vec<u8>]| {
        let mvex = mp4_box(b"mvex", &[&extends.concat()]);
        let clocks = clocks(&[traks.concat(), mvex].concat())?;
        let each = clocks
            .iter()
            .map(|clock| (clock.track, clock.usual_duration));
        Some(each.collect::<Vec<_>>())
    };
    // The first of two for a track counts. One for another track says nothing.
    let twice = read(&[sound(5), sound(5)], &[trex(5, 1), trex(5, 2), trex(6, 3)]);
    assert_eq!(twice, Some(vec![(5, 1)]));
    assert_eq!(read(&[sound(5), sound(6)], &[trex(5, 1)]), None);
    assert_eq!(
        read(&[sound(5)], &[mp4_box(b"trex", &[&numbers(&[0, 5])])]),
        None
    );
    assert_eq!(
        read(&[sound(5)], &[mp4_box(b"trex", &[&[0; 5]]), trex(5, 1)]),
        Some(vec![(5, 1)])
    );
    let video = trak(5, 1_000, b"vide", &mp4_box(b"avc1", &[&[0; 78]]));
    assert!(clocks(&[video, mp4_box(b"mvex", &[&trex(5, 1)])].concat()).expect("one")[0].is_media);
    for (count, is_known) in [(64, true), (65, false)] {
        let traks: Vec<_> = (1..=count).map(sound).collect();
        let extends: Vec<_> = (1..=count).map(|number| trex(number, 1)).collect();
        assert_eq!(read(&traks, &extends).is_some(), is_known, "{count}");
    }
}

/// Indexes, events and clocks of a later source are left out. Its fragments get new times and
/// numbers.
#[test]
fn fragments_continue_where_the_previous_source_ended() {
    let whole = |number, sound: &[u8], words: &[u8]| {
        let trafs = [traf(1, sound, &trun(4, 99)), traf(2, words, &trun(1, 99))];
        [moof(number, &trafs), mp4_box(b"mdat", &[b"media"])].concat()
    };
    let (styp, sidx) = (mp4_box(b"styp", &[b"msdh"]), mp4_box(b"sidx", &[&[0; 20]]));
    let prft = mp4_box(b"prft", &[&[0; 16]]);
    let ftyp = mp4_box(b"ftyp", &[b"iso6"]);
    let first = [
        ftyp.clone(),
        moov(),
        sidx.clone(),
        whole(7, &tfdt(100), &tfdt_long(9_000)),
        prft.clone(),
        whole(9, &tfdt(140), &tfdt_long(12_600)),
    ]
    .concat();
    let second = [
        styp.clone(),
        sidx,
        whole(3, &tfdt(9_000), &tfdt_long(810_000)),
        // From before the end of the viewers' stream.
        whole(4, &tfdt(8_900), &tfdt_long(801_000)),
        prft,
        styp.clone(),
        whole(5, &tfdt(9_040), &tfdt_long(813_600)),
        // Another header of the source. The times after it continue, too.
        moov(),
        whole(1, &tfdt(0), &tfdt_long(0)),
    ]
    .concat();
    let after = [
        styp.clone(),
        whole(10, &tfdt(180), &tfdt_long(16_200)),
        styp,
        whole(11, &tfdt(220), &tfdt_long(19_800)),
        moov(),
        whole(12, &tfdt(260), &tfdt_long(23_400)),
    ]
    .concat();
    for piece in [1, usize::MAX] {
        let mut fragments = FragmentCutter::new(1_000);
        assert_eq!(cut(&mut fragments, &first, piece).as_ref(), Some(&first));
        fragments.seam();
        assert_eq!(cut(&mut fragments, &second, piece).as_ref(), Some(&after));
        assert!(fragments.mdat_bytes_left == 0);
    }
    // Another header of a first source begins its own times.
    let mut fragments = FragmentCutter::new(1_000);
    let twice = [&first[..], &moov(), &whole(1, &tfdt(0), &tfdt_long(0))].concat();
    assert_eq!(cut(&mut fragments, &twice, usize::MAX), Some(twice));
    fragments.seam();
    let next = cut(
        &mut fragments,
        &whole(1, &tfdt(5_000), &tfdt_long(450_000)),
        usize::MAX,
    );
    assert_eq!(next, Some(whole(2, &tfdt(40), &tfdt_long(3_600))));
}

/// A fragment of at most the length of a unit is held until it is whole. Of a longer one viewers
/// have a part.
#[test]
fn a_fragment_longer_than_a_unit_passes_as_it_comes() {
    let moof = moof(7, &[traf(1, &tfdt(0), &trun(4, 99))]);
    for (content, is_long) in [(0, false), (50, false), (51, true), (500, true)] {
        let bytes = [moof.clone(), mp4_box(b"mdat", &[&vec![5; content]])].concat();
        let mut fragments = fragments(moof.len() + 58);
        let (mut window, mut out) = (Window::default(), Vec::new());
        for (at, byte) in bytes.iter().enumerate() {
            let walked = window.walk(&mut fragments, &[*byte], at as u64, &mut out);
            assert!(walked.is_ok());
            let come = at + 1;
            let first_out = if is_long { moof.len() + 8 } else { bytes.len() };
            let gone = if come < first_out {
                0
            } else {
                come.max(moof.len())
            };
            assert!(
                out.starts_with(&bytes[..gone.min(moof.len())]),
                "{content}: {come}"
            );
            if come > first_out || gone == 0 {
                assert_eq!(out, bytes[..gone], "{content}: {come}");
            }
            let is_part = gone > 0 && come < bytes.len();
            assert_eq!(fragments.mdat_bytes_left > 0, is_part, "{content}: {come}");
        }
        assert_eq!(out, bytes);
    }
    // A fragment from before a seam is left out, all of it, even a long one.
    let at = |time| [self::moof(8, &[traf(1, &tfdt(time), &trun(4, 99))])].concat();
    let mut fragments = fragments(moof.len() + 58);
    assert!(
        cut(
            &mut fragments,
            &[at(100), mp4_box(b"mdat", &[])].concat(),
            1
        )
        .is_some()
    );
    fragments.seam();
    let second = [
        [at(9_000), mp4_box(b"mdat", &[&[1; 9]])].concat(),
        [at(8_000), mp4_box(b"mdat", &[&[2; 99]])].concat(),
        [at(9_040), mp4_box(b"mdat", &[&[3; 9]])].concat(),
    ];
    let out = cut(&mut fragments, &second.concat(), usize::MAX).expect("all understood");
    assert!(!out.contains(&2) || !out.windows(20).any(|bytes| bytes == [2; 20]));
    assert!(out.windows(9).any(|bytes| bytes == [1; 9]) && out.ends_with(&[3; 9]));
}

/// A walker asks for more bytes than it saw, and for none that it does not need.
#[test]
fn a_fragment_asks_only_for_the_bytes_it_needs() {
    let moof = moof(7, &[traf(1, &tfdt(0), &trun(4, 99))]);
    let to_head = moof.len() + 8;
    let media = [5; 50];
    let usual = mp4_box(b"mdat", &[&media]);
    let large = [&numbers(&[1])[..], b"mdat", &66_u64.to_be_bytes(), &media].concat();
    for (mdat, behind_head) in [(&usual, to_head + 50), (&large, to_head + 8)] {
        let bytes = [&moof[..], mdat].concat();
        let mut fragments = fragments(1_000);
        for seen in 1..bytes.len() {
            let next = [8, moof.len(), to_head, behind_head, bytes.len()];
            let next = next.into_iter().find(|place| *place > seen);
            let mut out = Vec::new();
            let looked = fragments.step(&bytes[..seen], 0, &mut out);
            let expected = next.map(|length| Err(Unread::Needs(length)));
            assert_eq!(Some(looked), expected, "{seen}");
            assert!(out.is_empty(), "{seen}");
        }
    }
}

/// A box alone is not held, however long it is. Neither are the bytes after a fragment.
#[test]
fn media_without_a_fragment_passes_as_it_comes() {
    for length in [0, 1, 500] {
        let alone = mp4_box(b"mdat", &[&vec![5; length]]);
        let bytes = [&alone[..], &mp4_box(b"styp", &[b"msdh"])].concat();
        let mut fragments = fragments(300);
        let (mut window, mut out) = (Window::default(), Vec::new());
        for (at, byte) in bytes.iter().enumerate() {
            let walked = window.walk(&mut fragments, &[*byte], at as u64, &mut out);
            assert!(walked.is_ok());
            let come = at + 1;
            let gone = match come {
                0..8 => 0,
                _ if come < bytes.len() => come.min(alone.len()),
                _ => bytes.len(),
            };
            assert_eq!(out, bytes[..gone], "{length}: {come}");
            let is_part = (8..alone.len()).contains(&come);
            assert_eq!(fragments.mdat_bytes_left > 0, is_part, "{length}: {come}");
        }
    }
    let two = |number, time| {
        let moof = moof(number, &[traf(1, &tfdt(time), &trun(4, 99))]);
        let (own, other) = (mp4_box(b"mdat", &[&[5; 9]]), mp4_box(b"mdat", &[&[6; 500]]));
        [moof, own, other].concat()
    };
    for piece in [1, usize::MAX] {
        let mut fragments = fragments(300);
        assert_eq!(cut(&mut fragments, &two(7, 100), piece), Some(two(7, 100)));
        fragments.seam();
        let after = cut(&mut fragments, &two(1, 9_000), piece);
        assert_eq!(after, Some(two(8, 140)));
    }
}

#[test]
fn boxes_that_are_not_understood_fail() {
    let whole = [
        moof(7, &[traf(1, &tfdt(0), &trun(4, 99))]),
        mp4_box(b"mdat", &[]),
    ]
    .concat();
    let is_let_go = |bytes: &[u8]| cut(&mut fragments(300), bytes, usize::MAX).is_none();
    assert!(!is_let_go(&whole));
    for bytes in [
        // No end, no track, a track without a time, and nothing after it that is a box.
        [&[0, 0, 0, 0][..], b"moof"].concat(),
        [moof(7, &[]), mp4_box(b"mdat", &[])].concat(),
        [
            moof(7, &[traf(1, &[], &trun(4, 99))]),
            mp4_box(b"mdat", &[]),
        ]
        .concat(),
        [&moof(7, &[traf(1, &[], &trun(4, 99))])[..], &[0, 0, 0, 8]].concat(),
        [&whole[..whole.len() - 8], &[0, 0, 0, 0], b"mdat"].concat(),
        mp4_box(b"moov", &[&[0; 9]]),
        // Longer than a unit.
        mp4_box(b"styp", &[&[0; 293]]),
    ] {
        let is_short = bytes.len() < 110 && bytes.ends_with(&[0, 0, 0, 8]);
        assert_eq!(is_let_go(&bytes), !is_short, "{bytes:x?}");
    }
    assert!(!is_let_go(&mp4_box(b"styp", &[&[0; 292]])));
    // However long a unit may be.
    for (length, is_known) in [(256 << 10, true), ((256 << 10) + 1, false)] {
        let styp = mp4_box(b"styp", &[&vec![0; length - 8]]);
        let known = FragmentCutter::new(1 << 20).step(&styp, 0, &mut Vec::new());
        assert_eq!(known.ok(), is_known.then_some(length as u64));
    }
}

/// The written bytes where a time has to be moved: with the number 5, to these times.
#[test]
fn a_time_that_needs_64_bits_moves_the_data_positions() {
    let (small, big) = (9_u64, 1 << 32);
    let no_offset = mp4_box(b"trun", &[&numbers(&[0, 4])]);
    let saio = mp4_box(b"saio", &[&numbers(&[0, 1, 60])]);
    let cut_off = mp4_box(b"trun", &[&numbers(&[1, 4])]);
    let one = |track, time: &[u8], rest: &[u8]| traf(track, time, rest);
    for (trafs, times, expected) in [
        (vec![one(1, &tfdt(7), &trun(4, 99))], vec![small], {
            Some(vec![one(1, &tfdt(9), &trun(4, 99))])
        }),
        (vec![one(1, &tfdt_long(7), &trun(4, 99))], vec![big], {
            Some(vec![one(1, &tfdt_long(big), &trun(4, 99))])
        }),
        (vec![one(1, &tfdt(7), &trun(4, 99))], vec![big - 1], {
            Some(vec![one(1, &tfdt(u32::MAX), &trun(4, 99))])
        }),
        // Each part that grows moves all positions.
        (
            vec![one(1, &tfdt(7), &trun(4, 99)), one(2, &tfdt(7), &no_offset)],
            vec![big, big],
            Some(vec![
                one(1, &tfdt_long(big), &trun(4, 107)),
                one(2, &tfdt_long(big), &no_offset),
            ]),
        ),
        (
            vec![
                one(1, &tfdt(7), &trun(4, 99)),
                one(2, &tfdt_long(7), &trun(4, 50)),
            ],
            vec![big, small],
            Some(vec![
                one(1, &tfdt_long(big), &trun(4, 103)),
                one(2, &tfdt_long(9), &trun(4, 54)),
            ]),
        ),
        // Positions of keys cannot be moved, but they may stay.
        (
            vec![one(1, &tfdt(7), &saio)],
            vec![small],
            Some(vec![one(1, &tfdt(9), &saio)]),
        ),
        (vec![one(1, &tfdt(7), &saio)], vec![big], None),
        (
            vec![one(1, &tfdt(7), &trun(4, 0x7fff_ffff))],
            vec![big],
            None,
        ),
        // A missing offset matters only if it has to be moved.
        (
            vec![one(1, &tfdt(7), &cut_off)],
            vec![small],
            Some(vec![one(1, &tfdt(9), &cut_off)]),
        ),
        (vec![one(1, &tfdt(7), &cut_off)], vec![big], None),
    ] {
        let mut out = b"before".to_vec();
        let content = moof(3, &trafs)[8..].to_vec();
        let is_written = write_moof(&content, &times, 5, &mut out).is_some();
        assert_eq!(is_written, expected.is_some());
        let expected = expected.map_or(Vec::new(), |trafs| moof(5, &trafs));
        assert_eq!(out, [&b"before"[..], &expected].concat());
    }
    // Bytes that are no box make it fail.
    let mut out = Vec::new();
    let odd = [&moof(3, &[traf(1, &tfdt(7), &trun(4, 99))])[8..], &[1]].concat();
    assert!(write_moof(&odd, &[9], 5, &mut out).is_none() && out.is_empty());
}

#[cfg(feature = "handover")]
#[test]
fn a_handed_over_cutter_that_cannot_be_is_refused() {
    let mut fragments = fragments(100);
    assert!(fragments.is_valid());
    fragments.clocks = vec![fragments.clocks[0]; 64];
    assert!(fragments.is_valid());
    fragments.clocks.push(fragments.clocks[0]);
    assert!(!fragments.is_valid());
}

/// The descriptor of an MPEG-4 stream: flags, kind of object, a measured value, and the decoder's
/// configuration.
fn esds(flags: u8, object: u8, measured: u8, told: &[u8]) -> Vec<u8> {
    let descriptor = |tag: u8, content: &[u8]| [&[tag, content.len() as u8], content].concat();
    let told = descriptor(5, told);
    let config = descriptor(4, &[&[object, 0x15][..], &[measured; 11], &told].concat());
    let stream = descriptor(3, &[&[0, 1, flags][..], &config, &[6, 1, 2]].concat());
    mp4_box(b"esds", &[&[0; 4], &stream])
}

/// Two headers, by their tracks and the defaults of their samples.
#[test]
fn headers_are_alike_if_they_set_decoders_up_alike() {
    let header = |traks: &[Vec<u8>], extends: &[Vec<u8>]| {
        let mvex = mp4_box(b"mvex", &[&extends.concat()]);
        let moov = mp4_box(b"moov", &[&traks.concat(), &mvex]);
        [mp4_box(b"ftyp", &[b"iso6"]), moov].concat()
    };
    let video = |fields: u8, setup: &[&[u8]]| mp4_box(b"avc1", &[&[fields; 78], &setup.concat()]);
    let avc = |told: &[u8]| mp4_box(b"avcC", &[told]);
    let rates = |rate: u8| mp4_box(b"btrt", &[&[rate; 12]]);
    let of_video = |entry: &[u8]| header(&[trak(1, 25, b"vide", entry)], &[trex(1, 1)]);
    let sound = |esds: Vec<u8>| {
        let entry = mp4_box(b"mp4a", &[&[0; 28], &esds]);
        header(&[trak(1, 25, b"soun", &entry)], &[trex(1, 1)])
    };
    let usual = video(0, &[&avc(b"told"), &rates(1)]);
    let other_words = mp4_box(b"wvtt", &[&[1; 8]]);
    let one = of_video(&usual);
    let mp4a = sound(esds(0, 0x40, 1, b"told"));
    let words = |entry: &[u8]| header(&[trak(1, 25, b"text", entry)], &[trex(1, 1)]);
    for (one, other, is_alike) in [
        (one.clone(), one.clone(), true),
        // Measured values decide nothing.
        (
            one.clone(),
            of_video(&video(0, &[&avc(b"told"), &rates(2)])),
            true,
        ),
        (one.clone(), of_video(&video(0, &[&avc(b"told")])), true),
        (mp4a.clone(), sound(esds(0, 0x40, 9, b"told")), true),
        // Configurations do, and so do sizes, kinds, clocks and numbers.
        (
            one.clone(),
            of_video(&video(0, &[&avc(b"else"), &rates(1)])),
            false,
        ),
        (
            one.clone(),
            of_video(&video(1, &[&avc(b"told"), &rates(1)])),
            false,
        ),
        (
            one.clone(),
            of_video(&[usual.clone(), usual.clone()].concat()),
            false,
        ),
        (
            one.clone(),
            of_video(&mp4_box(b"avc3", &[&usual[8..]])),
            false,
        ),
        (
            one.clone(),
            header(&[trak(1, 50, b"vide", &usual)], &[trex(1, 1)]),
            false,
        ),
        (
            one.clone(),
            header(&[trak(2, 25, b"vide", &usual)], &[trex(1, 1)]),
            false,
        ),
        (
            one.clone(),
            header(&[trak(1, 25, b"soun", &usual)], &[trex(1, 1)]),
            false,
        ),
        (
            one.clone(),
            header(&[trak(1, 25, b"vide", &usual)], &[trex(1, 2)]),
            false,
        ),
        (
            one.clone(),
            header(&[trak(1, 25, b"vide", &usual)], &[]),
            false,
        ),
        (one.clone(), header(&[], &[trex(1, 1)]), false),
        (one.clone(), one[12..].to_vec(), true),
        (one.clone(), one[..12].to_vec(), false),
        (mp4a.clone(), sound(esds(0, 0x41, 1, b"told")), false),
        (mp4a.clone(), sound(esds(0, 0x40, 1, b"else")), false),
        (words(&opus()), words(&other_words), false),
        (
            words(&mp4_box(b"wvtt", &[&[0; 8]])),
            words(&other_words),
            false,
        ),
        // A descriptor that is not understood is compared as it is.
        (
            sound(esds(1, 0x40, 1, b"told")),
            sound(esds(1, 0x40, 1, b"told")),
            true,
        ),
        (
            sound(esds(1, 0x40, 1, b"told")),
            sound(esds(1, 0x40, 2, b"told")),
            false,
        ),
        // A track without all of its fields is like none.
        (
            of_video(&mp4_box(b"avc1", &[&[0; 77]])),
            of_video(&mp4_box(b"avc1", &[&[0; 77]])),
            false,
        ),
        (of_video(&video(0, &[])), of_video(&video(0, &[])), true),
    ] {
        assert_eq!(are_alike(&one, &other), is_alike, "{one:x?}, {other:x?}");
        assert_eq!(are_alike(&other, &one), is_alike, "{other:x?}, {one:x?}");
    }
}

/// A later source that fails may have begun again, if it has run for long enough.
#[test]
fn a_source_that_has_run_long_enough_may_begin_again() {
    use crate::format::Format;
    use crate::format::splice::{Incompatible, Splicer};
    let header = [mp4_box(b"ftyp", &[b"iso6"]), moov()].concat();
    let fragment = |time| {
        let moof = moof(1, &[traf(1, &tfdt(time), &trun(4, 99))]);
        [moof, mp4_box(b"mdat", &[b"media"])].concat()
    };
    for (passed, rest_bytes, is_another) in [
        (65_535, 8, true),
        (65_536, 8, false),
        (65_536, 65_536, false),
        (65_536, 65_537, true),
        (40_000, 100_000, true),
        (200_000, 100_000, false),
    ] {
        let (mut splicer, mut out) = (Splicer::new(150_000), Vec::new());
        let first = [&header[..], &fragment(0)].concat();
        assert_eq!(splicer.feed(&first, &mut out), Ok(()));
        assert!(splicer.break_off(Some(Format::Mp4), header.clone()));
        assert_eq!(
            splicer.feed(&[&header[..], &fragment(9_000)].concat(), &mut out),
            Ok(())
        );
        assert_eq!(out.len(), first.len() + fragment(0).len());
        let filler = mp4_box(b"free", &[&vec![0; passed - fragment(0).len() - 8]]);
        // A beginning that is longer than a unit.
        let mut rest = [&160_000_u32.to_be_bytes()[..], b"ftyp"].concat();
        rest.resize(rest_bytes, 0);
        let told = splicer.feed(&[filler, rest.clone()].concat(), &mut out);
        if is_another {
            assert_eq!(told, Err(Incompatible(rest)), "{passed}, {rest_bytes}");
        } else {
            assert_eq!(told, Ok(()), "{passed}, {rest_bytes}");
            assert!(splicer.is_between_sources());
        }
        assert_eq!(out.len(), first.len() + fragment(0).len());
    }
}
