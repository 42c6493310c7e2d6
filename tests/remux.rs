//! Real files read for their units: the same wherever their bytes are cut.

#![cfg(feature = "default")]

use tollgate::format::Format;
use tollgate::remux::{Codec, Remuxer, Shape, Target};

#[path = "support/corpus.rs"]
#[allow(dead_code, reason = "it reads the files only")]
mod corpus;
#[path = "doors/remux.rs"]
#[allow(dead_code, reason = "the doors themselves are for fuzzing")]
mod door;
#[path = "support/made.rs"]
#[allow(dead_code, reason = "some of it is used")]
mod made;

use door::{Said, read};
use made::mp4_box;

const UNIT_BYTES_MAX: usize = 1 << 20;

/// Each file of `tests/media` that can be read, and how many units of its tracks it has.
const MEDIA: [(&str, Format, &[usize]); 10] = [
    ("h264.ts", Format::MpegTs, &[60, 105]),
    ("h264.flv", Format::Flv, &[60, 105]),
    ("h264.mp4", Format::Mp4, &[60, 105]),
    ("h264.mkv", Format::Matroska, &[60, 105]),
    ("vp9.webm", Format::WebM, &[60, 121]),
    ("h265.ts", Format::MpegTs, &[18, 47]),
    ("h265.mkv", Format::Matroska, &[18, 47]),
    ("h265.mp4", Format::Mp4, &[18, 47]),
    ("av1.mp4", Format::Mp4, &[18, 76]),
    ("vp9.mp4", Format::Mp4, &[18, 59]),
];

#[test]
fn each_container_is_read_to_its_end() {
    for (name, format, units) in MEDIA {
        let file = corpus::file(name);
        let (said, fault) = read(format, UNIT_BYTES_MAX, &file, std::iter::once(usize::MAX));
        assert_eq!(fault, None, "{name}");
        door::check(&said, file.len(), UNIT_BYTES_MAX);
        let of_track = |wanted: usize| {
            let is_wanted =
                |said: &&Said| matches!(said, Said::Unit { track, .. } if *track == wanted);
            said.iter().filter(is_wanted).count()
        };
        let counts: Vec<usize> = (0..units.len()).map(of_track).collect();
        assert_eq!(counts, units, "{name}");
    }
}

/// Returns the codecs in their order, and the units of each.
fn units(said: &[Said]) -> Vec<(Codec, Vec<Vec<u8>>)> {
    let mut units: Vec<(Codec, Vec<Vec<u8>>)> = Vec::new();
    for said in said {
        match said {
            Said::Tracks(tracks) => {
                // FLV names a promised track before its first tag tells the codec.
                let known = units.iter_mut().zip(tracks);
                known.for_each(|(units, track)| units.0 = track.codec);
                let new = tracks.iter().skip(units.len());
                units.extend(new.map(|track| (track.codec, Vec::new())));
            }
            Said::Unit { track, bytes, .. } => units[*track].1.push(bytes.clone()),
            Said::Announced(_) | Said::PieceEnds | Said::LeftOut(..) => {}
        }
    }
    units
}

/// Each codec, in each container that has a way of carrying it.
#[test]
fn what_is_carried_elsewhere_is_the_same_units() {
    for (name, format, _) in MEDIA {
        let file = corpus::file(name);
        let whole = || std::iter::once(usize::MAX);
        let sent = units(&read(format, UNIT_BYTES_MAX, &file, whole()).0);
        for (to, other) in [(Target::Mp4, Format::Mp4), (Target::MpegTs, Format::MpegTs)] {
            let mut remuxer = Remuxer::new(format, to, UNIT_BYTES_MAX).expect("it can be read");
            let mut out = Vec::new();
            remuxer
                .feed(&file, &mut (1 << 40), &mut out)
                .expect("it is understood");
            remuxer.finish(&mut out).expect("it is understood");
            let (said, fault) = read(other, UNIT_BYTES_MAX, &out, whole());
            assert_eq!(fault, None, "{name} to {to:?}");
            let has_no_place =
                |codec| to == Target::MpegTs && matches!(codec, Codec::Av1 | Codec::Vp9);
            let mut sent = sent.clone();
            sent.retain(|(codec, _)| !has_no_place(*codec));
            let had = units(&said);
            assert_eq!(had.len(), sent.len(), "{name} to {to:?}");
            for ((codec, sent), (other, had)) in sent.iter().zip(&had) {
                assert_eq!((codec, sent.len()), (other, had.len()), "{name} to {to:?}");
                // A picture that can be joined may have its parameters in front.
                let mut pairs = sent.iter().zip(had);
                assert!(
                    pairs.all(|(sent, had)| had.ends_with(sent)),
                    "{codec:?} of {name} to {to:?}"
                );
            }
        }
    }
}

/// The sample entry says two channels for any Dolby sound.
#[test]
fn channels_of_dolby_are_what_its_setup_says() {
    let whole = std::iter::once(usize::MAX);
    let (said, _) = read(
        Format::Mp4,
        UNIT_BYTES_MAX,
        &corpus::file("h265.mp4"),
        whole,
    );
    let Some(Said::Tracks(tracks)) = said.first() else {
        panic!("it begins with its tracks");
    };
    let mono = Shape::Sound {
        rate: 48_000,
        channels: 1,
    };
    assert_eq!((tracks[1].codec, tracks[1].shape), (Codec::Eac3, mono));
}

/// As an encoder sends newer codecs in FLV: by name (Enhanced RTMP).
fn enhanced_flv(said: &[Said]) -> Vec<u8> {
    let mut flv = b"FLV\x01\x05\0\0\0\x09\0\0\0\0".to_vec();
    let mut tag = |kind: u8, time: u32, body: &[&[u8]]| {
        let body = body.concat();
        let [_, length @ ..] = (body.len() as u32).to_be_bytes();
        let [more, time @ ..] = time.to_be_bytes();
        let head = [&[kind], &length[..], &time, &[more, 0, 0, 0]].concat();
        flv.extend([&head[..], &body, &(11 + body.len() as u32).to_be_bytes()].concat());
    };
    let mut tracks = Vec::new();
    for said in said {
        match said {
            Said::Tracks(told) => {
                tracks = told.clone();
                for track in &tracks {
                    let setup = track.setup.as_deref().unwrap_or_default();
                    match track.codec {
                        Codec::H265 => tag(9, 0, &[b"\x90hvc1", setup]),
                        Codec::Av1 => tag(9, 0, &[b"\x90av01", setup]),
                        Codec::Opus => tag(8, 0, &[b"\x90OpusOpusHead\x01", &opus_head(setup)]),
                        // Its frames tell.
                        _ => {}
                    }
                }
            }
            Said::Unit {
                track,
                decode,
                present,
                is_join,
                bytes,
            } => {
                // So that nothing lies before the beginning.
                let rounded = |time: &i64| (time + 500_000).div_euclid(1_000_000);
                let time = rounded(decode) + 1000;
                let ahead = (rounded(present) + 1000 - time) as i32;
                let [_, ahead @ ..] = ahead.to_be_bytes();
                let video = 0x80 | if *is_join { 0x10 } else { 0x20 } | 1;
                let (kind, first, name, ahead): (u8, u8, &[u8; 4], &[u8]) =
                    match tracks[*track].codec {
                        Codec::H265 => (9, video, b"hvc1", &ahead),
                        Codec::Av1 => (9, video, b"av01", &[]),
                        Codec::Vp9 => (9, video, b"vp09", &[]),
                        Codec::Opus => (8, 0x91, b"Opus", &[]),
                        Codec::Ac3 => (8, 0x91, b"ac-3", &[]),
                        Codec::Eac3 => (8, 0x91, b"ec-3", &[]),
                        Codec::MpegAudio => (8, 0x91, b".mp3", &[]),
                        codec => panic!("no file has {codec:?}"),
                    };
                tag(kind, time as u32, &[&[first], name, ahead, bytes]);
            }
            Said::Announced(_) | Said::PieceEnds | Said::LeftOut(..) => {}
        }
    }
    flv
}

/// What stands after the version in the head that Ogg has, of the content of `dOps`.
fn opus_head(setup: &[u8]) -> Vec<u8> {
    let [_, channels, s1, s0, r3, r2, r1, r0, g1, g0, rest @ ..] = setup else {
        panic!("the setup of Opus");
    };
    let head = [channels, s0, s1, r0, r1, r2, r3, g0, g1];
    head.into_iter().chain(rest).copied().collect()
}

#[test]
fn newer_codecs_come_in_flv_by_their_names() {
    for (name, format) in [
        ("h265.mkv", Format::Matroska),
        ("h265.mp4", Format::Mp4),
        ("av1.mp4", Format::Mp4),
        ("vp9.mp4", Format::Mp4),
    ] {
        let whole = || std::iter::once(usize::MAX);
        let (said, _) = read(format, UNIT_BYTES_MAX, &corpus::file(name), whole());
        let flv = enhanced_flv(&said);
        let (had, fault) = read(Format::Flv, UNIT_BYTES_MAX, &flv, whole());
        assert_eq!(fault, None, "{name}");
        door::check(&had, flv.len(), UNIT_BYTES_MAX);
        // Their order is that in which they come first.
        let (mut sent, mut had) = (units(&said), units(&had));
        for units in [&mut sent, &mut had] {
            units.sort_by_key(|(codec, _)| !codec.is_video());
        }
        assert!(sent == had, "{name}");
    }
}

/// In two at every byte, of what the headers and the first units are in; and in small pieces.
#[test]
fn the_units_are_the_same_wherever_the_bytes_are_cut() {
    for (name, format, _) in MEDIA {
        let file = corpus::file(name);
        let read = |bytes: &[u8], pieces: &[usize]| {
            read(
                format,
                UNIT_BYTES_MAX,
                bytes,
                pieces.iter().copied().cycle(),
            )
        };
        let whole = read(&file, &[usize::MAX]);
        for pieces in [&[1][..], &[7, 400], &[189, 3]] {
            assert!(
                read(&file, pieces) == whole,
                "{name}, in pieces of {pieces:?}"
            );
        }
        let short = &file[..file.len().min(6_000)];
        let whole = read(short, &[usize::MAX]);
        for cut in 1..short.len() {
            assert!(
                read(short, &[cut, usize::MAX]) == whole,
                "{name}, cut at {cut}"
            );
        }
    }
}

/// A fragment of the file's first track, whose `trun` says this; of its third word, where its
/// samples lie, the `mdat` is the beginning.
fn mp4_with(trun: &[u32], mdat: &[u8]) -> Vec<u8> {
    let file = corpus::file("h264.mp4");
    let moof = file.windows(4).position(|kind| kind == b"moof");
    let head = &file[..moof.expect("a fragment") - 4];
    let words =
        |words: &[u32]| -> Vec<u8> { words.iter().flat_map(|word| word.to_be_bytes()).collect() };
    let mut trun = trun.to_vec();
    trun[2] = trun[2].wrapping_add(64 + 4 * trun.len() as u32);
    let tfhd = mp4_box(b"tfhd", &words(&[0x2_0000, 1]));
    let tfdt = mp4_box(b"tfdt", &words(&[0, 0]));
    let trun = mp4_box(b"trun", &words(&trun));
    let traf = mp4_box(b"traf", &[tfhd, tfdt, trun].concat());
    [head, &mp4_box(b"moof", &traf), &mp4_box(b"mdat", mdat)].concat()
}

#[test]
fn hostile_units_are_a_fault_and_nothing_else() {
    let read = |format, bytes: &[u8]| read(format, 10_000, bytes, std::iter::once(usize::MAX));
    let whole = mp4_with(&[0x201, 1, 0, 7], b"\0\0\0\x03\x65\x01\x02");
    let (said, fault) = read(Format::Mp4, &whole);
    assert_eq!(fault, None);
    assert!(said.iter().any(|said| matches!(said, Said::Unit { .. })));
    for (what, bytes, why) in [
        (
            "a million samples",
            mp4_with(&[1, 1_000_000, 0], &[0; 99]),
            "65536 samples",
        ),
        (
            "as many that say it",
            mp4_with(&[1, u32::MAX, 0], &[0; 99]),
            "65536 samples",
        ),
        (
            "entries that do not come",
            mp4_with(&[0x701, 5, 0, 1], &[0; 99]),
            "not whole",
        ),
        (
            "an empty sample",
            mp4_with(&[0x201, 1, 0, 0], &[0; 99]),
            "empty",
        ),
        (
            "one behind the mdat",
            mp4_with(&[0x201, 1, 0, 100], &[0; 99]),
            "after the mdat",
        ),
        (
            "one before it",
            mp4_with(&[0x201, 1, u32::MAX - 9, 9], &[0; 99]),
            "before their fragment",
        ),
        (
            "one too long",
            mp4_with(&[0x201, 1, 0, 20_000], &[0; 30_000]),
            "may be held",
        ),
        (
            "a NAL unit too long",
            mp4_with(&[0x201, 1, 0, 9], &[9; 99]),
            "NAL unit",
        ),
    ] {
        let (_, fault) = read(Format::Mp4, &bytes);
        let fault = fault.unwrap_or_else(|| panic!("{what} is no fault"));
        assert!(fault.0.contains(why), "{what}: {}", fault.0);
    }
}

/// Times that run back go on where they were, and none runs back.
#[test]
fn a_clock_that_begins_again_goes_on() {
    for (name, format, _) in MEDIA {
        let file = corpus::file(name);
        let twice = match format {
            // The file's head once.
            Format::Flv => [&file[..], &file[13..]].concat(),
            _ => [&file[..], &file[..]].concat(),
        };
        let units = |bytes: &[u8]| {
            let (said, fault) = read(format, UNIT_BYTES_MAX, bytes, std::iter::once(usize::MAX));
            assert_eq!(fault, None, "{name}");
            door::check(&said, bytes.len(), UNIT_BYTES_MAX);
            let is_unit = |said: &&Said| matches!(said, Said::Unit { .. });
            said.iter().filter(is_unit).count()
        };
        let (once, both) = (units(&file), units(&twice));
        // A unit that ends where packets are missing is none.
        assert!(
            both >= 2 * once - 2 && both <= 2 * once,
            "{name}: {once}, {both}"
        );
    }
}
