//! Spliced sources: the output of real files does not depend on the pieces, is valid for every break
//! of the first source, and an incompatible source begins another stream.
#![cfg(feature = "hold")]

use tollgate::format::splice::{Incompatible, Splicer};
use tollgate::format::{Finding, Format};

#[path = "support/corpus.rs"]
mod corpus;
#[path = "bounds/counting.rs"]
#[allow(dead_code, reason = "only what is held is looked at")]
mod counting;
#[path = "doors/splice.rs"]
#[allow(dead_code, reason = "the door itself is for fuzzing")]
mod door;

use corpus::{file, findings, had};

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

/// What viewers get of a source that breaks off, and of one that follows. `None` if nobody can go
/// on with the first.
fn spliced(first: &[u8], second: &[u8]) -> Option<Result<Vec<u8>, Incompatible>> {
    let mut splicer = Splicer::new(1 << 20);
    let mut out = Vec::new();
    splicer
        .feed(first, &mut out)
        .expect("the first source is like itself");
    let (format, header) = had(&out);
    if !splicer.break_off(Some(format?), header) {
        return None;
    }
    if let Err(unlike) = splicer.feed(second, &mut out) {
        return Some(Err(unlike));
    }
    splicer.finish(&mut out);
    Some(Ok(out))
}

#[test]
fn what_goes_out_is_the_same_however_it_comes_in() {
    for (name, _) in corpus::LATER_SOURCES {
        let file = file(name);
        let whole = door::splice(&file, file.len() / 2, [usize::MAX].into_iter());
        assert!(whole.1.is_none(), "{name}");
        assert!(whole.0.len() > file.len(), "{name}");
        for pieces in [vec![1], vec![7, 400], vec![189, 3]] {
            let cut = door::splice(&file, file.len() / 2, pieces.iter().copied().cycle());
            assert!(cut == whole, "{name}, in pieces of {pieces:?}");
        }
    }
}

#[test]
fn one_source_alone_loses_nothing() {
    for (name, _) in corpus::LATER_SOURCES {
        let file = file(name);
        let (mut splicer, mut out) = (Splicer::new(1 << 20), Vec::new());
        splicer.feed(&file, &mut out).expect("like itself");
        splicer.finish(&mut out);
        // Clusters are written anew.
        if name.ends_with(".webm") || name.ends_with(".mkv") {
            let joins = |bytes: &[u8]| {
                let joins = findings(bytes).into_iter();
                joins
                    .filter(|finding| matches!(finding, Finding::Join(_)))
                    .count()
            };
            assert_eq!(joins(&out), joins(&file), "{name}");
            assert!(out.len() + 500 > file.len(), "{name}");
        } else {
            assert!(out == file, "{name}");
        }
    }
}

#[test]
fn a_source_goes_on_wherever_the_one_before_broke_off() {
    for (name, leaves_header_out) in corpus::LATER_SOURCES {
        let file = file(name);
        let mut went_on = 0;
        for cut in (0..file.len()).step_by(89) {
            let Some(spliced) = spliced(&file[..cut], &file) else {
                continue;
            };
            let out = spliced.unwrap_or_else(|_| panic!("{name}, cut at {cut}: said to be unlike"));
            went_on += 1;
            let findings = findings(&out);
            let headers = findings
                .iter()
                .filter(|finding| matches!(finding, Finding::Header));
            let headers = headers.count();
            if leaves_header_out {
                assert_eq!(headers, 1, "{name}, cut at {cut}");
            }
            assert!(
                !findings.contains(&Finding::Unknown),
                "{name}, cut at {cut}"
            );
        }
        assert!(
            went_on > file.len() / 89 / 2,
            "{name}: {went_on} times only"
        );
    }
}

#[test]
fn other_tracks_and_other_containers_are_another_stream() {
    for (name, _) in corpus::LATER_SOURCES {
        for (other, _) in corpus::LATER_SOURCES {
            let (file, next) = (file(name), file(other));
            let is_alike = name == other
                || (name, other) == ("theora.ogg", "opus.ogg")
                || (name, other) == ("opus.ogg", "theora.ogg");
            match spliced(&file, &next) {
                Some(Ok(_)) => assert!(is_alike, "{other} goes on with {name}"),
                Some(Err(Incompatible(bytes))) => {
                    assert!(!is_alike, "{other} does not go on with {name}");
                    assert!(
                        bytes == next,
                        "another stream begins with all of the source"
                    );
                }
                None => panic!("nothing goes on with {name}"),
            }
        }
    }
}

#[test]
fn the_same_tracks_with_another_setup_are_another_stream() {
    // A byte of what the decoder is set up with.
    for (name, mark, behind) in [
        ("h264.mp4", &b"avcC"[..], 6),
        ("h264.flv", &[0x17, 0, 0, 0, 0, 1][..], 8),
        ("h264.mkv", &[0x63, 0xa2][..], 12),
    ] {
        let file = file(name);
        let mut other = file.clone();
        let at = file.windows(mark.len()).position(|bytes| bytes == mark);
        other[at.expect("its setup") + behind] ^= 1;
        assert!(matches!(spliced(&file, &other), Some(Err(_))), "{name}");
    }
}

#[test]
fn nothing_goes_on_with_what_is_not_known() {
    let text = b"Just some text, which is no container at all. ".repeat(50);
    let (mut splicer, mut out) = (Splicer::new(1 << 20), Vec::new());
    splicer.feed(&text, &mut out).expect("like itself");
    assert!(out == text);
    assert!(!splicer.break_off(Some(Format::Mp3), Vec::new()));
}

#[test]
fn what_is_held_is_bounded() {
    // A unit that is longer goes out as it comes: nobody can go on in the middle of it.
    let whole = file("h264.mp4");
    let (mut splicer, mut out) = (Splicer::new(5_000), Vec::new());
    splicer
        .feed(&whole[..12_000], &mut out)
        .expect("like itself");
    assert_eq!(out.len(), 12_000);
    assert!(!splicer.break_off(Some(Format::Mp4), had(&out).1));
    splicer
        .feed(&whole[12_000..], &mut out)
        .expect("like itself");
    assert!(out == whole);
    assert!(splicer.break_off(Some(Format::Mp4), had(&whole).1));
    // A source that never comes to a join point.
    let transport = file("h264.ts");
    let (mut splicer, mut out) = (Splicer::new(5_000), Vec::new());
    splicer.feed(&transport, &mut out).expect("like itself");
    assert!(splicer.break_off(Some(Format::MpegTs), had(&transport).1));
    let packet = [&[0x47, 0x1f, 0xff, 0x10][..], &[0xff; 184]].concat();
    let mut fed = 0;
    let unlike = loop {
        fed += packet.len();
        if let Err(unlike) = splicer.feed(&packet, &mut out) {
            break unlike;
        }
    };
    assert!(fed > 5_000 && fed < 5_400);
    assert_eq!(unlike.0.len(), fed);
}

fn mp4_box(kind: &[u8; 4], content: &[&[u8]]) -> Vec<u8> {
    let content = content.concat();
    let length = (8 + content.len()) as u32;
    [&length.to_be_bytes()[..], kind, &content].concat()
}

/// One track of sound, of 1,000 ticks a second, and a fragment of a second that begins at `time`,
/// which has 32 bits.
fn fragmented(time: u32) -> Vec<u8> {
    fragmented_in_runs(time, 1000, &[1])
}

/// The same with `samples` samples of `ticks` ticks in each run.
fn fragmented_in_runs(time: u32, sample_ticks: u32, runs: &[u32]) -> Vec<u8> {
    let header = |bytes: usize, at: usize, number: u32| {
        let mut header = vec![0; bytes];
        header[at..at + 4].copy_from_slice(&number.to_be_bytes());
        header
    };
    let handler = [&[0; 8][..], b"soun", &[0; 13]].concat();
    let entry = mp4_box(b"Opus", &[&[0; 28]]);
    let stsd = mp4_box(b"stsd", &[&[0, 0, 0, 0, 0, 0, 0, 1], &entry]);
    let minf = mp4_box(b"minf", &[&mp4_box(b"stbl", &[&stsd])]);
    let mdia = mp4_box(
        b"mdia",
        &[
            &mp4_box(b"mdhd", &[&header(24, 12, 1000)]),
            &mp4_box(b"hdlr", &[&handler]),
            &minf,
        ],
    );
    let trak = mp4_box(b"trak", &[&mp4_box(b"tkhd", &[&header(84, 12, 1)]), &mdia]);
    let mut extends = header(24, 4, 1);
    extends[12..16].copy_from_slice(&sample_ticks.to_be_bytes());
    let mvex = mp4_box(b"mvex", &[&mp4_box(b"trex", &[&extends])]);
    let moov = mp4_box(b"moov", &[&trak, &mvex]);
    let tfhd = mp4_box(b"tfhd", &[&[0, 2, 0, 0, 0, 0, 0, 1]]);
    let tfdt = mp4_box(b"tfdt", &[&[0; 4], &time.to_be_bytes()]);
    // Samples whose bytes begin after the head of the `mdat`.
    let truns = |offset: u32| -> Vec<u8> {
        let trun = |samples: &u32| {
            let (samples, offset) = (samples.to_be_bytes(), offset.to_be_bytes());
            mp4_box(b"trun", &[&[0, 0, 0, 1], &samples, &offset])
        };
        runs.iter().flat_map(trun).collect()
    };
    let moof = |offset| {
        let traf = mp4_box(b"traf", &[&tfhd, &tfdt, &truns(offset)]);
        mp4_box(b"moof", &[&mp4_box(b"mfhd", &[&header(8, 4, 7)]), &traf])
    };
    let offset = moof(0).len() as u32 + 8;
    let mdat = mp4_box(b"mdat", &[b"sound"]);
    let ftyp = mp4_box(b"ftyp", &[b"iso6", &[0; 4]]);
    [ftyp, moov, moof(offset), mdat].concat()
}

/// A box that is read as a whole may be as long as the scanner allows, for any buffer. It is read
/// when its last byte comes.
#[test]
fn a_long_moof_is_not_looked_at_whole() {
    let head = fragmented(0);
    for (filler, is_known) in [(200 << 10, true), (300 << 10, false), (4 << 20, false)] {
        let filler = mp4_box(b"free", &[&vec![0; filler]]);
        let header = mp4_box(b"mfhd", &[&[0, 0, 0, 0, 0, 0, 0, 7]]);
        let traf = mp4_box(b"traf", &[&mp4_box(b"tfhd", &[&[0, 2, 0, 0, 0, 0, 0, 1]])]);
        let moof = mp4_box(b"moof", &[&header, &filler, &traf]);
        let before = counting::memory_bytes();
        let (mut splicer, mut out) = (Splicer::new(8 << 20), Vec::new());
        splicer.feed(&head, &mut out).expect("like itself");
        let mut most = 0;
        for piece in moof.chunks(16 << 10).take(moof.len() >> 14) {
            splicer.feed(piece, &mut out).expect("like itself");
            let held = (counting::memory_bytes() - before) as usize;
            most = most.max(held - out.capacity());
        }
        assert!(most < 600 << 10, "{most} bytes wait for the end of a moof");
        let has_gone_out = out.len() > head.len();
        assert_eq!(has_gone_out, !is_known, "{} bytes", moof.len());
    }
}

fn number_behind(bytes: &[u8], mark: &[u8], behind: usize) -> u32 {
    let mut marks = bytes.windows(mark.len());
    let at = marks.rposition(|four| four == mark).expect("it is there") + behind;
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

#[test]
fn a_time_that_outgrows_its_field_gets_a_longer_one() {
    let first = fragmented(u32::MAX - 500);
    let out = spliced(&first, &fragmented(5)).expect("it can be gone on with");
    let out = out.expect("the same track");
    let last = &out[first.len()..];
    assert_eq!(number_behind(last, b"tfdt", 4), 0x0100_0000);
    assert_eq!(number_behind(last, b"tfdt", 8), 1);
    assert_eq!(number_behind(last, b"tfdt", 12), 499);
    assert_eq!(number_behind(last, b"mfhd", 8), 8);
    let (moof, was) = (
        number_behind(last, b"moof", 0) as usize,
        number_behind(&first, b"moof", 0) as usize,
    );
    assert_eq!(moof, was);
    let length = u32::from_be_bytes(last[..4].try_into().expect("four bytes")) as usize;
    // The sample is where the run says.
    let offset = number_behind(last, b"trun", 12) as usize;
    assert_eq!(offset, length + 8);
    assert_eq!(&last[offset..], b"sound");
}

#[test]
fn a_fragment_longer_than_can_be_counted_is_let_go() {
    let file = fragmented_in_runs(5, u32::MAX, &[u32::MAX; 3]);
    let (mut splicer, mut out) = (Splicer::new(1 << 20), Vec::new());
    splicer.feed(&file, &mut out).expect("like itself");
    assert!(out == file);
    assert!(!splicer.break_off(Some(Format::Mp4), had(&file).1));
}

#[test]
fn bit_rates_that_were_measured_do_not_make_other_tracks() {
    let whole = file("h264.mp4");
    let mut other = whole.clone();
    let find = |mark: &[u8]| whole.windows(4).position(|four| four == mark);
    let rates = find(b"btrt").expect("bit rates of the picture");
    other[rates + 8..rates + 16].copy_from_slice(&[1; 8]);
    // Behind the version, the stream's descriptor and its decoder's: a buffer's size and two rates.
    let sound = find(b"esds").expect("a descriptor of the sound");
    let told = whole[sound..]
        .windows(2)
        .position(|two| two == [0x40, 0x15]);
    let fields = sound + told.expect("MPEG-4 sound") + 2;
    other[fields..fields + 11].copy_from_slice(&[2; 11]);
    assert!(other != whole);
    assert!(matches!(spliced(&whole, &other), Some(Ok(_))));
}

/// Key frames of a codec that has no sequence header.
fn old_flv(codec: u8) -> Vec<u8> {
    let mut bytes = b"FLV\x01\x01\0\0\0\x09\0\0\0\0".to_vec();
    for number in 0..20_u8 {
        bytes.extend([9, 0, 0, 40, 0, 0, number * 10, 0, 0, 0, 0]);
        bytes.extend([0x10 | codec; 40]);
        bytes.extend([0, 0, 0, 51]);
    }
    bytes
}

#[test]
fn codecs_without_a_setup_are_compared_by_name() {
    let same = spliced(&old_flv(2), &old_flv(2));
    assert!(matches!(same, Some(Ok(_))));
    let other = spliced(&old_flv(2), &old_flv(4));
    assert!(matches!(other, Some(Err(_))));
}

#[test]
fn a_later_source_may_begin_again() {
    let whole = file("vp8.webm");
    let body = whole
        .windows(4)
        .position(|id| id == [0x1f, 0x43, 0xb6, 0x75]);
    let (head, body) = whole.split_at(body.expect("a Cluster"));
    let long = [head, &body.repeat(4), &whole].concat();
    let out = spliced(&whole, &long).expect("it can be gone on with");
    let out = out.expect("the same tracks, three times");
    let found = findings(&out);
    assert!(!found.contains(&Finding::Unknown));
    let headers = found
        .iter()
        .filter(|finding| matches!(finding, Finding::Header));
    assert_eq!(headers.count(), 1);
    assert!(out.len() > whole.len() + body.len() * 9 / 2);
}

#[test]
fn what_is_no_transport_stream_any_more_goes_out_as_it_comes() {
    let whole = file("h264.ts");
    let (mut splicer, mut out) = (Splicer::new(1 << 20), Vec::new());
    splicer.feed(&whole, &mut out).expect("like itself");
    for _ in 0..200 {
        splicer.feed(&[b'x'; 1000], &mut out).expect("like itself");
    }
    assert!(out.len() > whole.len() + 100_000);
    assert!(!splicer.break_off(Some(Format::MpegTs), had(&whole).1));
}

/// Each track is searched in each fragment. A stream with more tracks than a live stream has goes
/// out as it comes, and is not held.
#[test]
fn nothing_goes_on_with_more_tracks_than_a_live_stream_has() {
    let file = fragmented(0);
    let box_at = |kind: &[u8; 4]| {
        let at = file
            .windows(4)
            .position(|bytes| bytes == kind)
            .expect("one of it")
            - 4;
        let length = u32::from_be_bytes(*file[at..].first_chunk().expect("its length"));
        at..at + length as usize
    };
    let (moov, trak) = (box_at(b"moov"), box_at(b"trak"));
    for (copies, can_go_on) in [(63, true), (64, false)] {
        let mut many = file.clone();
        let length = (moov.len() + copies * trak.len()) as u32;
        many[moov.start..moov.start + 4].copy_from_slice(&length.to_be_bytes());
        many.splice(trak.end..trak.end, file[trak.clone()].repeat(copies));
        assert_eq!(spliced(&many, &many).is_some(), can_go_on, "{copies}");
    }
}
