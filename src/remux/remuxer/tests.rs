//! A hostile source cannot do harm through the remuxer.

use super::super::medium::{Codec, SECOND, Shape, UNIT_WORK, Unit, in_range};
use super::super::nal::Pictures;
use super::super::probe;
use super::super::track_timeline::TrackTimeline;
use super::super::write::{OUT_ONCE, OUT_PER_BYTE, OUT_PER_UNIT};
use super::*;
use crate::random::Random;

const UNIT_BYTES_MAX: usize = 64 * 1024;
const AVC: &[u8] = &[
    1, 0x42, 0xc0, 0x1e, 0xff, 0xe1, 0, 4, 0x67, 0x42, 0xc0, 0x1e, 1, 0, 3, 0x68, 0xce, 0x3c,
];

fn track(number: u64, codec: Codec, setup: &[u8]) -> Track {
    Track {
        number,
        codec,
        clock: 1000,
        setup: Some(setup.into()),
        shape: if codec.is_video() {
            Shape::Pictures {
                width: 320,
                height: 240,
            }
        } else {
            Shape::Sound {
                rate: 48_000,
                channels: 2,
            }
        },
    }
}

fn tracks() -> Vec<Track> {
    vec![
        track(1, Codec::H264, AVC),
        track(2, Codec::Aac, &[0x11, 0x90]),
        track(3, Codec::Opus, &[0, 2, 1, 56, 0, 0, 0xbb, 0x80, 0, 0, 0]),
        track(4, Codec::MpegAudio, &[]),
        track(5, Codec::Vp9, &[0; 12]),
        track(6, Codec::Ac3, &[0x10, 0x3d, 0x40]),
    ]
}

/// Feeds units, and checks memory and output after each.
fn feed(to: Target, tracks: &[Track], units: impl Iterator<Item = (usize, i64, i64, bool, usize)>) {
    let (mut pipeline, mut out) = (Pipeline::new(to, UNIT_BYTES_MAX), Vec::new());
    pipeline
        .handle(ReaderEvent::Tracks(tracks), &mut out)
        .expect("no fault");
    let (mut bytes, mut count, mut written) = (0, 0, 0);
    let payload = vec![0; UNIT_BYTES_MAX];
    for (track, decode, later, is_join, length) in units {
        let Some(decode) = in_range(decode) else {
            continue;
        };
        let present = in_range(decode.saturating_add(later));
        let unit = Unit {
            track,
            decode,
            present: present.unwrap_or(decode),
            is_join,
            bytes: &payload[..length],
        };
        pipeline
            .handle(ReaderEvent::Unit(unit), &mut out)
            .expect("no fault");
        (bytes, count) = (bytes + length, count + 1);
        written += out.len();
        out.clear();
        assert!(
            written <= OUT_ONCE + bytes * OUT_PER_BYTE + count * OUT_PER_UNIT,
            "{to:?}: {written} bytes out of {count} units of {bytes}"
        );
    }
    pipeline.drain(&mut out).expect("no fault");
    pipeline.writer.flush(&mut out).expect("no fault");
}

#[test]
fn senseless_times_do_no_harm() {
    const HOUR: i64 = 3600 * SECOND;
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let mut times = [0i64; 6];
        let units = (0..2_000).map(|_| {
            let track = (random.draw() % 6) as usize;
            let step = match random.draw() % 8 {
                0 => HOUR * ((random.draw() % 100) as i64 - 50),
                1 => i64::MAX / 8,
                2 => -i64::MAX / 8,
                3 => 0,
                _ => (random.draw() % 100) as i64 * 1_000_000,
            };
            times[track] = times[track].saturating_add(step);
            let later = (random.draw() % 3) as i64 * (random.draw() % 20) as i64 * SECOND;
            let length = 1 + (random.draw() % (if seed % 2 == 0 { 8 } else { 4000 })) as usize;
            (
                track,
                times[track],
                later,
                random.draw().is_multiple_of(2),
                length,
            )
        });
        let units: Vec<_> = units.collect();
        for to in Target::ALL {
            feed(to, &tracks(), units.iter().copied());
        }
    }
}

/// Returns the decode times of two sound tracks in the output, in milliseconds, for units of these
/// times.
fn times_of(to: Target, units: impl Iterator<Item = (usize, i64)>) -> Vec<Vec<i64>> {
    let (mut pipeline, mut out) = (Pipeline::new(to, UNIT_BYTES_MAX), Vec::new());
    let tracks = [1, 2].map(|number| track(number, Codec::Aac, &[0x11, 0x90]));
    let mut timeline = TrackTimeline::default();
    for track in &tracks {
        assert!(timeline.add(track.clone()).is_some());
    }
    for (track, millisecond) in units {
        let time = millisecond * 1_000_000;
        let unit = Unit {
            track,
            decode: time,
            present: time,
            is_join: true,
            bytes: &[0x21; 40],
        };
        let mut handle = |event: ReaderEvent<'_>| pipeline.handle(event, &mut out);
        let emitted = timeline.emit(unit, &mut handle);
        assert_eq!(emitted, Ok(()));
    }
    pipeline.drain(&mut out).expect("no fault");
    pipeline.writer.flush(&mut out).expect("no fault");
    let mut times = vec![Vec::new(); tracks.len()];
    let mut reader = Reader::new(to.format(), UNIT_BYTES_MAX).expect("it is read");
    let mut sink = |event: ReaderEvent<'_>| {
        if let ReaderEvent::Unit(unit) = event {
            times[unit.track].push(unit.decode / 1_000_000);
        }
        Ok(())
    };
    reader.feed(&out, &mut sink).expect("no fault");
    reader.finish(&mut sink).expect("no fault");
    times
}

/// An advertisement with its own clock comes between two parts of a film.
#[test]
fn a_clock_that_runs_back_by_seconds_goes_on() {
    let part = |from: i64| {
        let places = (0..75).map(move |at| from + 40 * at);
        places.flat_map(|at| [(0, at), (1, at)])
    };
    let units = || part(5_000).chain(part(0)).chain(part(8_000));
    for to in Target::ALL {
        for times in times_of(to, units()) {
            assert_eq!(times.len(), 3 * 75, "{to:?}");
            let gaps = times.windows(2).map(|pair| pair[1] - pair[0]);
            let odd: Vec<_> = gaps.filter(|gap| !(35..=45).contains(gap)).collect();
            // A jump of five seconds forwards stays.
            assert!(odd.len() <= 2 && odd.contains(&5_040), "{to:?} {odd:?}");
            assert!(
                odd.iter().all(|gap| (10..=5_040).contains(gap)),
                "{to:?} {odd:?}"
            );
        }
    }
}

#[test]
fn many_units_at_once_cause_no_flood() {
    for to in Target::ALL {
        for is_join in [false, true] {
            feed(to, &tracks(), (0..50_000).map(|_| (0, 0, 0, is_join, 5)));
        }
        // One track runs on while the others are silent.
        let seconds = (0..20_000).map(|at| (0, at * SECOND, 0, true, 5));
        feed(to, &tracks(), seconds);
    }
}

#[test]
fn tracks_that_change_with_each_unit_are_an_error() {
    let (mut pipeline, mut out) = (Pipeline::new(Target::Mp4, UNIT_BYTES_MAX), Vec::new());
    let mut error = None;
    for number in 0..10_000u16 {
        let setup = [AVC, &number.to_be_bytes(), &[0; 2000]].concat();
        let tracks = [track(1, Codec::H264, &setup)];
        let unit = Unit {
            track: 0,
            decode: 0,
            present: 0,
            is_join: true,
            bytes: &[0; 5],
        };
        let said = pipeline.handle(ReaderEvent::Tracks(&tracks), &mut out);
        error = said
            .and_then(|()| pipeline.handle(ReaderEvent::Unit(unit), &mut out))
            .err();
        if error.is_some() {
            break;
        }
    }
    assert!(error.is_some());
    assert!(out.len() <= OUT_ONCE + 10_000 * (OUT_PER_UNIT + 5 * OUT_PER_BYTE));
}

/// An element with this identifier and a size of two bytes.
fn element(id: &[u8], body: &[u8]) -> Vec<u8> {
    let size = (body.len() as u16 | 0x4000).to_be_bytes();
    [id, &size, body].concat()
}

/// The front of Matroska with this track.
fn header(track: &[u8]) -> Vec<u8> {
    let tracks = element(&[0x16, 0x54, 0xae, 0x6b], &element(&[0xae], track));
    let segment = [0x18, 0x53, 0x80, 0x67, 0xff];
    [
        &element(&[0x1a, 0x45, 0xdf, 0xa3], &[])[..],
        &segment,
        &tracks,
    ]
    .concat()
}

/// 16 KiB of Matroska whose blocks have 256 frames each. The track strips a NAL unit from the front
/// of each frame.
fn laced(lacing: u8, frames: &[u8]) -> Vec<u8> {
    let front = [&[0, 0, 0, 200, 0x65], &[7; 199][..]].concat();
    let compression = [element(&[0x42, 0x54], &[3]), element(&[0x42, 0x55], &front)].concat();
    let encoding = element(&[0x62, 0x40], &element(&[0x50, 0x34], &compression));
    let track = [
        element(&[0xd7], &[1]),
        element(&[0x83], &[1]),
        element(&[0x86], b"V_MPEG4/ISO/AVC"),
        element(&[0x63, 0xa2], AVC),
        element(&[0x6d, 0x80], &encoding),
    ]
    .concat();
    let mut stream = header(&track);
    stream.extend_from_slice(&[0x1f, 0x43, 0xb6, 0x75, 0xff, 0xe7, 0x81, 0]);
    let block = [&[0x81, 0, 0, 0x80 | lacing, 255], frames].concat();
    let block = element(&[0xa3], &block);
    while stream.len() < 16 * 1024 {
        stream.extend_from_slice(&block);
    }
    stream
}

/// Returns the length of the output, the work that is left, and the result, if each byte allows
/// `work_per_byte`.
fn remuxed(stream: &[u8], work_per_byte: usize) -> (usize, usize, Result<(), MediaError>) {
    let mut remuxer =
        Remuxer::new(Format::Matroska, Target::MpegTs, UNIT_BYTES_MAX).expect("it is");
    let (mut left, mut out) = (stream.len() * work_per_byte, Vec::new());
    let fed = remuxer.feed(stream, &mut left, &mut out);
    (out.len(), left, fed)
}

/// The answer to viewers does not wait for the end.
#[test]
fn a_track_of_matroska_that_lacks_its_setup_is_left_out_at_once() {
    for (codec, lacks) in [
        (&b"V_AV1"[..], true),
        (b"A_AAC", true),
        (b"A_OPUS", true),
        // Their frames tell.
        (b"V_VP9", false),
        (b"A_AC3", false),
        (b"A_MPEG/L3", false),
    ] {
        let track = [element(&[0xd7], &[1]), element(&[0x86], codec)].concat();
        let mut stream = header(&track);
        stream.extend_from_slice(&[0x1f, 0x43, 0xb6, 0x75, 0xff]);
        let mut remuxer =
            Remuxer::new(Format::Matroska, Target::Mp4, UNIT_BYTES_MAX).expect("it is");
        let (mut left, mut out) = (1 << 20, Vec::new());
        assert_eq!(remuxer.feed(&stream, &mut left, &mut out), Ok(()));
        assert_eq!(remuxer.carries_nothing(), lacks);
        let name = String::from_utf8_lossy(codec);
        let line = format!("track 1: {name} without its CodecPrivate is not remuxed");
        assert_eq!(remuxer.left_out().contains(&line), lacks, "{name}");
    }
}

/// Muxers send a cluster of known size at once, and nothing until the next one.
#[test]
fn a_cluster_of_known_size_goes_out_when_it_has_come() {
    let track = [
        element(&[0xd7], &[1]),
        element(&[0x86], b"V_MPEG4/ISO/AVC"),
        element(&[0x63, 0xa2], AVC),
    ];
    let frames: [[u8; 7]; 3] = [0x65, 0x41, 0x41].map(|kind| [0, 0, 0, 3, kind, 0x88, 7]);
    let blocks = [0, 40, 80].map(|at| {
        let number = usize::from(at / 40);
        let flags = if number == 0 { 0x80 } else { 0 };
        element(
            &[0xa3],
            &[&[0x81, 0, at, flags], &frames[number][..]].concat(),
        )
    });
    let content = [&[0xe7, 0x81, 0], &blocks.concat()[..]].concat();
    let id = [0x1f, 0x43, 0xb6, 0x75];
    for (cluster, pictures) in [
        (element(&id, &content), 3),
        ([&id[..], &[0xff], &content[..]].concat(), 1),
    ] {
        let stream = [header(&track.concat()), cluster].concat();
        let mut remuxer =
            Remuxer::new(Format::Matroska, Target::Mp4, UNIT_BYTES_MAX).expect("it is");
        let (mut left, mut out) = (1 << 20, Vec::new());
        assert_eq!(remuxer.feed(&stream, &mut left, &mut out), Ok(()));
        let is_picture = |bytes: &&[u8]| frames.iter().any(|frame| frame == bytes);
        assert_eq!(out.windows(7).filter(is_picture).count(), pictures);
    }
}

#[test]
fn an_empty_frame_is_no_unit() {
    let sizes = vec![0; 255];
    for (lacing, frames) in [
        (0x04, &[][..]),
        (0x02, &sizes),
        (0x06, &[&[0x80][..], &[0xbf; 254]].concat()),
    ] {
        let (out, _, fed) = remuxed(&laced(lacing, frames), 1 << 20);
        assert_eq!((out, fed), (0, Ok(())), "lacing {lacing}");
    }
}

/// No reader makes more of a piece than the work that it allows, and a unit.
#[test]
fn the_output_is_bounded_while_it_is_made() {
    let stream = laced(0x04, &[0, 0, 0, 1, 0x65].repeat(256));
    let (all, _, fed) = remuxed(&stream, 1 << 20);
    assert_eq!(fed, Ok(()));
    assert!(all > 1 << 20, "{all}");
    for work_per_byte in [1, 8, 32] {
        let (out, left, fed) = remuxed(&stream, work_per_byte);
        let units = stream.len() * work_per_byte / UNIT_WORK;
        assert!(out <= units * (OUT_PER_UNIT + 205 * OUT_PER_BYTE) + OUT_ONCE);
        assert_eq!((fed.is_err(), left), (true, 0), "{work_per_byte}");
    }
}

/// A picture comes in many pieces, and is a unit with the last of them.
#[test]
fn a_picture_may_be_as_long_as_a_unit() {
    let tag = |body: &[u8]| {
        let length = &(body.len() as u32).to_be_bytes()[1..];
        let end = (body.len() as u32 + 11).to_be_bytes();
        [&[9], length, &[0; 7], body, &end].concat()
    };
    let picture = |kind: u8, bytes: usize| {
        let nal = [&(bytes as u32).to_be_bytes()[..], &vec![kind; bytes]].concat();
        tag(&[&[0x17, 1, 0, 0, 0][..], &nal].concat())
    };
    let setup = tag(&[&[0x17, 0, 0, 0, 0], AVC].concat());
    let long = picture(0x65, UNIT_BYTES_MAX - 64);
    let stream = [b"FLV\x01\x01\0\0\0\x09\0\0\0\0", &setup[..], &long, &long].concat();
    let mut remuxer = Remuxer::new(Format::Flv, Target::MpegTs, UNIT_BYTES_MAX).expect("it is");
    let mut out = Vec::new();
    for piece in stream.chunks(1400) {
        assert_eq!(
            remuxer.feed(piece, &mut (32 * piece.len()), &mut out),
            Ok(())
        );
    }
    remuxer.finish(&mut out).expect("it is whole");
    assert!(out.len() > 2 * UNIT_BYTES_MAX, "{}", out.len());
}

/// However many bytes came before.
#[test]
fn a_unit_has_few_parameter_sets() {
    let mut pictures = Pictures::new(Codec::H264).expect("it has them");
    let mut scratch = Vec::new();
    let set = |number: u8| [&[0, 0, 0, 3, 0x68][..], &[0x80 | number, 0x80]].concat();
    let plain = [&(1u32 << 20).to_be_bytes()[..], &vec![0x65; 1 << 20]].concat();
    for _ in 0..100 {
        pictures.unit(&plain, &mut scratch).expect("a picture");
    }
    for (sets, is_sound) in [(100, true), (1000, false)] {
        let unit: Vec<u8> = (0..sets).flat_map(|index| set(index as u8 & 1)).collect();
        let unit = [unit, plain.clone()].concat();
        let done = pictures.unit(&unit, &mut scratch);
        assert_eq!(done.is_ok(), is_sound, "{sets}");
    }
}

/// list-streams reads the beginning of each stream.
#[test]
fn the_search_for_tracks_is_bounded_by_its_work() {
    let stream = laced(0x04, &[0, 0, 0, 1, 0x65].repeat(256));
    let mut pieces = stream.chunks(4096).cycle();
    let mut bytes = 0;
    let (_, may_show_more) = probe::tracks(Format::Matroska, &[], || {
        let piece = pieces.next().expect("without end");
        bytes += piece.len();
        piece
    });
    assert!(!may_show_more && bytes <= 64 * 1024, "{bytes}");
}

/// Elements without units are work, too.
#[test]
fn skipped_elements_are_work() {
    let mut stream = laced(0x04, &[]);
    stream.extend([0xec, 0x80].repeat(8 * 1024));
    let (out, left, fed) = remuxed(&stream, 32);
    assert_eq!((out, fed), (0, Ok(())));
    assert!(left < stream.len() * 32 - 8 * 1024 * 32, "{left}");
}

/// Each size exceeds the one before by the most that a field of eight bytes can say.
#[test]
fn sizes_of_a_lace_that_overflow_are_an_error() {
    let sizes = [0x01, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe].repeat(255);
    let (_, _, fed) = remuxed(&laced(0x06, &sizes), 32);
    assert!(fed.is_err());
}

/// A unit of 100 bytes, at this millisecond.
fn handle(
    pipeline: &mut Pipeline,
    (track, decode, is_join): (usize, i64, bool),
    out: &mut Vec<u8>,
) {
    let decode = decode * 1_000_000;
    let unit = Unit {
        track,
        decode,
        present: decode,
        is_join,
        bytes: &[0, 0, 0, 96, 0x65, 1, 2, 3].repeat(13)[..100],
    };
    assert_eq!(pipeline.handle(ReaderEvent::Unit(unit), out), Ok(()));
}

/// Returns the PIDs of packets in which units begin.
fn pids(transport: &[u8]) -> Vec<u16> {
    let packets = transport.chunks(188).filter(|packet| packet[1] & 0x40 != 0);
    let pids = packets.map(|packet| u16::from_be_bytes([packet[1] & 0x1f, packet[2]]));
    pids.filter(|pid| (0x100..0x110).contains(pid)).collect()
}

#[test]
fn sound_of_a_long_fragment_is_interleaved_with_its_pictures() {
    for seconds in [2, 4, 9] {
        let (mut pipeline, mut out) = (Pipeline::new(Target::MpegTs, UNIT_BYTES_MAX), Vec::new());
        assert_eq!(
            pipeline.handle(ReaderEvent::Tracks(&tracks()[..2]), &mut out),
            Ok(())
        );
        for fragment in 0..3 {
            assert_eq!(
                pipeline.handle(ReaderEvent::Announced(0b11), &mut out),
                Ok(())
            );
            let from = fragment * seconds * 1000;
            for at in (0..seconds * 25).map(|picture| from + picture * 40) {
                handle(&mut pipeline, (0, at, at == from), &mut out);
            }
            for at in (0..seconds * 10).map(|frame| from + frame * 100) {
                handle(&mut pipeline, (1, at, true), &mut out);
            }
            assert_eq!(pipeline.handle(ReaderEvent::Announced(0), &mut out), Ok(()));
        }
        assert_eq!(pipeline.drain(&mut out), Ok(()));
        let pids = pids(&out);
        // Two or three pictures, then a frame of sound, and so on.
        let runs = pids.chunk_by(|a, b| a == b);
        let longest = runs.map(<[u16]>::len).max();
        assert!(longest <= Some(4), "{longest:?} of a kind, of {seconds} s");
    }
}

#[test]
fn pictures_before_the_first_join_are_dropped() {
    for to in Target::ALL {
        let (mut pipeline, mut out) = (Pipeline::new(to, UNIT_BYTES_MAX), Vec::new());
        assert_eq!(
            pipeline.handle(ReaderEvent::Tracks(&tracks()[..1]), &mut out),
            Ok(())
        );
        for at in 0..77 {
            handle(&mut pipeline, (0, at * 40, false), &mut out);
        }
        assert_eq!(pipeline.drain(&mut out), Ok(()));
        assert_eq!(out.len(), 0);
        for at in 77..120 {
            handle(&mut pipeline, (0, at * 40, at == 77), &mut out);
        }
        assert_eq!(pipeline.drain(&mut out), Ok(()));
        assert_eq!(pipeline.writer.flush(&mut out), Ok(()));
        assert!(out.len() > 43 * 100);
        // A source may never send one. The wait ends.
        let (mut pipeline, mut out) = (Pipeline::new(to, UNIT_BYTES_MAX), Vec::new());
        assert_eq!(
            pipeline.handle(ReaderEvent::Tracks(&tracks()[..1]), &mut out),
            Ok(())
        );
        for at in 0..1000 {
            handle(&mut pipeline, (0, at * 40, false), &mut out);
        }
        assert!(out.len() > 100 * 100);
    }
}

#[test]
fn a_track_with_a_late_setup_is_in_the_first_header() {
    for begin in [20, 45] {
        let mut unknown = tracks()[..2].to_vec();
        unknown[1].setup = None;
        let (mut pipeline, mut out) = (Pipeline::new(Target::Mp4, UNIT_BYTES_MAX), Vec::new());
        assert_eq!(
            pipeline.handle(ReaderEvent::Tracks(&unknown), &mut out),
            Ok(())
        );
        for at in 0..200 {
            if at == begin {
                assert_eq!(
                    pipeline.handle(ReaderEvent::Tracks(&tracks()[..2]), &mut out),
                    Ok(())
                );
            }
            handle(&mut pipeline, (0, at * 40, at % 25 == 0), &mut out);
            if at >= begin {
                handle(&mut pipeline, (1, at * 40, true), &mut out);
            }
        }
        assert_eq!(pipeline.drain(&mut out), Ok(()));
        assert_eq!(pipeline.writer.flush(&mut out), Ok(()));
        let headers = out.windows(4).filter(|bytes| bytes == b"moov").count();
        let sounds = out.windows(4).filter(|bytes| bytes == b"mp4a").count();
        assert_eq!((headers, sounds), (1, 1));
    }
}

/// Encoders promise sound in the head of FLV that they may not have.
#[test]
fn promised_sound_that_never_comes_delays_pictures_by_two_seconds() {
    let tag = |at: u32, body: &[u8]| {
        let [_, size @ ..] = (body.len() as u32).to_be_bytes();
        let [top, time @ ..] = at.to_be_bytes();
        let previous = (body.len() as u32 + 11).to_be_bytes();
        [&[9], &size[..], &time, &[top, 0, 0, 0], body, &previous].concat()
    };
    let mut remuxer = Remuxer::new(Format::Flv, Target::MpegTs, UNIT_BYTES_MAX).expect("FLV");
    let mut out = Vec::new();
    let head = [
        b"FLV\x01\x05\0\0\0\x09\0\0\0\0",
        &tag(0, &[&[0x17, 0, 0, 0, 0], AVC].concat())[..],
    ];
    assert_eq!(
        remuxer.feed(&head.concat(), &mut (1 << 20), &mut out),
        Ok(())
    );
    let pictures = (0..100).find(|picture| {
        let body = [0x17, 1, 0, 0, 0, 0, 0, 0, 3, 0x65, 1, 2];
        let fed = remuxer.feed(&tag(picture * 40, &body), &mut (1 << 20), &mut out);
        assert_eq!(fed, Ok(()));
        !out.is_empty()
    });
    assert_eq!(pictures, Some(50));
}

#[test]
fn carries_nothing_counts_when_all_tracks_are_known() {
    let mut promised = tracks()[..2].to_vec();
    promised.iter_mut().for_each(|track| track.setup = None);
    let (mut pipeline, mut out) = (Pipeline::new(Target::MpegTs, UNIT_BYTES_MAX), Vec::new());
    assert_eq!(
        pipeline.handle(ReaderEvent::Tracks(&promised), &mut out),
        Ok(())
    );
    let mut remuxer = Remuxer::new(Format::Flv, Target::MpegTs, UNIT_BYTES_MAX).expect("FLV");
    remuxer.pipeline = pipeline;
    assert!(!remuxer.carries_nothing() && !remuxer.carries_any());
    for (number, carries_nothing) in [(1, false), (2, true)] {
        let codec = "nothing known";
        let event = ReaderEvent::LeftOut { number, codec };
        assert_eq!(remuxer.pipeline.handle(event, &mut out), Ok(()));
        assert_eq!(remuxer.carries_nothing(), carries_nothing);
    }
}
