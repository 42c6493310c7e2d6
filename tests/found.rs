//! Media as they are found, not as one program writes them: where the field's own encoders and
//! segmenters put what a late viewer needs.
#![cfg(feature = "hold")]

use std::time::Duration;

use tollgate::format::splice::Splicer;
use tollgate::format::{Finding, Format};
use tollgate::gather::Gather;
use tollgate::stream::{Limits, Notice, Pool, StreamBuffer};
use tollgate::time::Instant;

#[path = "support/corpus.rs"]
#[allow(dead_code, reason = "it is used for bytes that are made here")]
mod corpus;
#[path = "support/made.rs"]
#[allow(dead_code, reason = "some of it is used")]
mod made;
#[path = "support/transport.rs"]
mod transport;

use made::{mp4_box, tag};
use transport::{packet, pes, tables};

const VIDEO: u16 = 0x101;
const SOUND: u16 = 0x102;

const DELIMITER: &[u8] = &[0, 0, 0, 1, 9, 0xf0];
const PICTURE: &[u8] = &[0, 0, 1, 0x41, 0x9a, 1, 2, 3, 4, 5, 6, 7];
const PARAMETERS: &[u8] = &[0, 0, 1, 0x67, 0x42, 0, 0x1e, 0, 0, 1, 0x68, 0xce];
const KEY_PICTURE: &[u8] = &[0, 0, 1, 0x65, 0x88, 0x84, 7, 8, 9];

/// Where decoding can begin.
fn joins(bytes: &[u8]) -> Vec<u64> {
    let joins = corpus::findings(bytes).into_iter();
    joins
        .filter_map(|finding| match finding {
            Finding::Join(start) => Some(start.offset),
            _ => None,
        })
        .collect()
}

/// The parts one after the other, and where each begins.
fn row(parts: &[Vec<u8>]) -> (Vec<u8>, Vec<u64>) {
    let mut bytes = Vec::new();
    let mut places = Vec::new();
    for part in parts {
        places.push(bytes.len() as u64);
        bytes.extend_from_slice(part);
    }
    (bytes, places)
}

#[test]
fn the_stream_that_decides_is_chosen_by_its_type() {
    let opus: &[u8] = &[5, 4, b'O', b'p', b'u', b's'];
    let ac3: &[u8] = &[0x6a, 1, 0];
    // Timed ID3, DVB subtitles and SCTE-35 are in front of sound.
    for (kind, descriptors) in [(0x03, &[][..]), (0x0f, &[]), (0x06, opus), (0x06, ac3)] {
        let map = [
            (0x15, 0x200, &[][..]),
            (0x06, 0x201, &[0x59, 1, 0]),
            (0x86, 0x202, &[5, 4, b'C', b'U', b'E', b'I']),
            (kind, SOUND, descriptors),
        ];
        let mut parts = vec![tables(&map)];
        parts.extend((0..20).map(|number| pes(SOUND, f64::from(number), &[0; 2000])));
        let (bytes, places) = row(&parts);
        assert_eq!(joins(&bytes), places[1..], "sound of type {kind:#x}");
    }
}

#[test]
fn sound_decides_where_video_is_named_and_never_comes() {
    let tables = tables(&[(0x1b, VIDEO, &[]), (0x0f, 0x200, &[]), (0x0f, SOUND, &[])]);
    let sound = |number: u32| pes(SOUND, f64::from(number) / 2.0, &[0; 2000]);
    let picture = [DELIMITER, PARAMETERS, KEY_PICTURE].concat();
    let mut parts = vec![tables];
    parts.extend((0..20).map(sound));
    parts.push(pes(VIDEO, 10.0, &picture));
    parts.extend((20..40).map(sound));
    let (bytes, places) = row(&parts);
    // From four seconds on; and once there is video, it is video that decides.
    assert_eq!(joins(&bytes), places[9..=21]);
}

#[test]
fn what_is_damaged_on_its_way_counts_for_nothing() {
    let tables = tables(&[(0x1b, VIDEO, &[]), (0x0f, SOUND, &[])]);
    let picture = [DELIMITER, PARAMETERS, KEY_PICTURE].concat();
    let group = [
        pes(VIDEO, 1.0, &picture),
        pes(VIDEO, 1.04, &[DELIMITER, PICTURE, &[0; 5000]].concat()),
    ]
    .concat();
    let whole = [
        &tables[..],
        &group,
        &tables,
        &group,
        &packet(0x1fff, false, &[]),
    ]
    .concat();
    let expected = joins(&whole);
    assert_eq!(expected.len(), 2);
    let repeated = tables.len() + group.len();
    let bits = (repeated * 8..(repeated + tables.len()) * 8).filter(|bit| {
        // Out of step there is one packet less, and a table's packet may be lost as a whole.
        let byte = (bit / 8 - repeated) % 188;
        byte >= 4
    });
    for bit in bits {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 0x80 >> (bit % 8);
        assert_eq!(joins(&bytes), expected, "bit {bit} is wrong");
    }
    // A packet that a receiver knows to be damaged says that a key picture begins.
    let mut damaged = pes(VIDEO, 2.0, &picture);
    damaged[1] |= 0x80;
    assert_eq!(joins(&[&whole[..], &damaged, &group].concat()).len(), 3);
}

#[test]
fn a_key_picture_is_found_behind_the_rest_of_another_and_behind_long_messages() {
    let tables = tables(&[(0x1b, VIDEO, &[]), (0x0f, SOUND, &[])]);
    let key = [DELIMITER, PARAMETERS, KEY_PICTURE].concat();
    let other = [DELIMITER, PICTURE].concat();
    let message = [&[0, 0, 1, 6, 5][..], &[0x55; 400]].concat();
    let rest = |length: usize| [&vec![0x77; length][..], PICTURE, &[0x33; 30]].concat();
    let picture = |media: &[&[u8]]| pes(VIDEO, 1.0, &[media.concat(), vec![0x44; 3000]].concat());
    let parts = vec![
        tables,
        picture(&[&key]),
        picture(&[&rest(40), &other]),
        picture(&[&rest(100), &key]),
        // The delimiter is in another packet than the PES packet's head.
        picture(&[&rest(600), &key]),
        picture(&[DELIMITER, &message, PARAMETERS, KEY_PICTURE]),
        picture(&[DELIMITER, &message, PICTURE, PARAMETERS]),
        picture(&[&key]),
    ];
    let (bytes, places) = row(&parts);
    let keys = [1, 3, 4, 5, 7].map(|index| places[index]);
    assert_eq!(joins(&bytes), keys);
}

/// Returns the format that the bytes show.
fn told(bytes: &[u8]) -> Vec<Finding> {
    let told = corpus::findings(bytes).into_iter();
    told.filter(|finding| matches!(finding, Finding::Format(_) | Finding::Unknown))
        .collect()
}

/// Frames of 128 kbit/s, at 44.1 kHz: 417 and 418 bytes.
fn sound(frames: usize) -> Vec<u8> {
    let frame = |number: usize| {
        let padding = number % 2;
        let mut frame = vec![0xff, 0xfb, 0x90 | (padding as u8) << 1, 0x44];
        // As of an encoder that has nothing to say.
        frame.resize(417 + padding, b'U');
        frame
    };
    (0..frames).flat_map(frame).collect()
}

#[test]
fn sound_that_begins_within_a_frame_is_told_and_joined_at_its_frames() {
    let mpeg = sound(40);
    let adts = corpus::file("sound.aac");
    for (whole, format) in [(&mpeg[..], Format::Mp3), (&adts, Format::Aac)] {
        let from_the_start = joins(whole);
        for cut in (1..1_500).step_by(7) {
            let bytes = &whole[cut..];
            assert_eq!(told(bytes), [Finding::Format(format)], "from {cut} on");
            let cut = cut as u64;
            let first = joins(bytes)[0] + cut;
            // One head in 1,024 bytes is a point: any may be the first.
            assert!(first < cut + 1_000, "from {cut} on: {first}");
            if format == Format::Mp3 {
                assert!([0, 417].contains(&(first % 835)), "from {cut} on: {first}");
            }
        }
        for zeros in [1, 136, 1_000, 4_000] {
            let bytes = [&vec![0; zeros][..], whole].concat();
            assert_eq!(told(&bytes), [Finding::Format(format)]);
            let behind = from_the_start.iter().map(|join| join + zeros as u64);
            assert_eq!(joins(&bytes), behind.collect::<Vec<_>>());
        }
    }
}

#[test]
fn other_containers_with_frames_of_sound_in_them_are_not_told_to_be_sound() {
    let head = |name: &[u8]| [name, &[0x80; 60]].concat();
    for name in [
        &b"RIFF"[..],
        b"fLaC",
        &[0, 0, 1, 0xba],
        &[0x30, 0x26, 0xb2, 0x75],
    ] {
        let bytes = [head(name), sound(60)].concat();
        assert_eq!(told(&bytes), [Finding::Unknown], "{name:x?}");
    }
    // Of many bytes in a row none is a frame's head by chance.
    let mut last = 1_u64;
    let mut random = || {
        last = last.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (last >> 56) as u8
    };
    for _ in 0..40 {
        let bytes: Vec<u8> = (0..30_000).map(|_| random()).collect();
        assert_eq!(told(&bytes), [Finding::Unknown]);
    }
}

#[test]
fn only_metadata_replaces_metadata() {
    let head = b"FLV\x01\x05\0\0\0\x09\0\0\0\0";
    let script = |name: &str, value: &[u8]| {
        let name = [&[2, 0, name.len() as u8][..], name.as_bytes()].concat();
        tag(18, 0, &[&name[..], value].concat())
    };
    let key = tag(9, 0, &[0x17, 1, 0, 0, 0, 1, 2, 3]);
    let metadata = script("onMetaData", &[8, 0, 0, 0, 0, 0, 0, 9]);
    let others = [
        "onCuePoint",
        "onTextData",
        "onCaptionInfo",
        "|RtmpSampleAccess",
    ];
    let others = others.map(|name| script(name, &[5])).concat();
    let newer = script("onMetaData", &[8, 0, 0, 0, 1, 0, 0, 9]);
    let bytes = [&head[..], &metadata, &key, &others, &key, &newer, &key].concat();
    let mut headers = Vec::new();
    corpus::scan(&bytes, |finding, header| {
        headers.extend((finding == Finding::Header).then(|| header.to_vec()));
    });
    let expected = [metadata, newer].map(|metadata| [&head[..], &metadata].concat());
    assert_eq!(headers, expected);
}

/// Returns the packets of a stream, each with `extra` bytes around it.
fn around(stream: &[u8], before: usize, behind: usize) -> Vec<u8> {
    let whole = |(number, packet): (usize, &[u8])| {
        let stamp = (number as u32 * 4_000).to_be_bytes();
        [&stamp[..before], packet, &vec![0xa5; behind]].concat()
    };
    stream.chunks(188).enumerate().flat_map(whole).collect()
}

#[test]
fn packets_of_receivers_and_recorders_are_joined_as_bare_ones() {
    let bare = corpus::file("h264.ts");
    let header = corpus::had(&bare).1;
    for (before, behind) in [(4, 0), (0, 16)] {
        let length = (188 + before + behind) as u64;
        let bytes = around(&bare, before, behind);
        assert_eq!(told(&bytes), [Finding::Format(Format::MpegTs)]);
        let places: Vec<_> = joins(&bare)
            .iter()
            .map(|join| join / 188 * length)
            .collect();
        assert_eq!(joins(&bytes), places);
        let (_, kept) = corpus::had(&bytes);
        assert_eq!(kept.len() as u64, header.len() as u64 / 188 * length);
        // Tapped within a packet.
        assert_eq!(told(&bytes[300..]), [Finding::Format(Format::MpegTs)]);
        assert_eq!(joins(&bytes[300..]).len(), joins(&bare).len() - 1);
    }
}

#[test]
fn a_source_goes_on_only_with_packets_of_the_same_length() {
    let bare = corpus::file("h264.ts");
    let with_stamps = around(&bare, 4, 0);
    let without_tables = with_stamps[10 * 192..].to_vec();
    assert!(corpus::had(&without_tables[..1_000]).1.is_empty());
    for (first, second, cut, goes_on) in [
        (&with_stamps, &with_stamps, 20_000, true),
        (&bare, &with_stamps, 20_000, false),
        (&with_stamps, &bare, 20_000, false),
        // Before any table.
        (&without_tables, &bare, 1_000, false),
        (&without_tables, &with_stamps, 1_000, true),
    ] {
        let (mut splicer, mut out) = (Splicer::new(1 << 20), Vec::new());
        splicer.feed(&first[..cut], &mut out).expect("like itself");
        let (format, header) = corpus::had(&out);
        assert!(splicer.break_off(format, header));
        let before = out.len();
        assert_eq!(splicer.feed(second, &mut out).is_ok(), goes_on);
        assert_eq!(out.len() > before, goes_on);
        assert!(!goes_on || out[before + 4] == 0x47 && out.len() % 192 == 0);
    }
}

/// An element of EBML.
fn element(id: &[u8], body: &[u8]) -> Vec<u8> {
    let size = (body.len() as u32 | 0x1000_0000).to_be_bytes();
    [id, &size, body].concat()
}

/// Returns sound in Matroska, with Clusters of one block that laces `frames` frames of 20 ms.
fn laced(blocks: usize, frames: usize) -> Vec<u8> {
    let head = element(&[0x1a, 0x45, 0xdf, 0xa3], &element(&[0x42, 0x82], b"webm"));
    let track = [
        element(&[0xd7], &[1]),
        element(&[0x83], &[2]),
        element(&[0x86], b"A_OPUS"),
    ];
    let tracks = element(
        &[0x16, 0x54, 0xae, 0x6b],
        &element(&[0xae], &track.concat()),
    );
    let clusters = (0..blocks).flat_map(|number| {
        let time = ((number * frames * 20) as u16).to_be_bytes();
        // All of one size.
        let block = [&[0x81, 0, 0, 0x84, frames as u8 - 1][..], &[7; 160]].concat();
        let cluster = [element(&[0xe7], &time), element(&[0xa3], &block)].concat();
        element(&[0x1f, 0x43, 0xb6, 0x75], &cluster)
    });
    let clusters = clusters.collect::<Vec<_>>();
    let open = [0x18, 0x53, 0x80, 0x67, 1, 255, 255, 255, 255, 255, 255, 255];
    [&head[..], &open, &tracks, &clusters].concat()
}

#[test]
fn laced_sound_goes_on_where_its_last_frame_has_ended() {
    let file = laced(6, 8);
    let (mut splicer, mut out) = (Splicer::new(1 << 20), Vec::new());
    splicer.feed(&file, &mut out).expect("like itself");
    let (format, header) = corpus::had(&out);
    assert!(splicer.break_off(format, header));
    let seam = out.len();
    splicer.feed(&file, &mut out).expect("the same");
    // The first Cluster after the seam, and its time.
    let cluster = [
        0x1f, 0x43, 0xb6, 0x75, 1, 255, 255, 255, 255, 255, 255, 255, 0xe7, 0x88,
    ];
    assert_eq!(out[seam..][..14], cluster);
    let time = u64::from_be_bytes(*out[seam + 14..].first_chunk().expect("a time"));
    assert_eq!(time, 6 * 8 * 20);
}

#[test]
fn another_header_in_the_middle_of_a_later_source_goes_out_as_it_does_of_the_first() {
    let file = corpus::file("h264.mp4");
    let header = corpus::had(&file).1;
    let fragments = &file[header.len()..];
    // An advertisement of another profile.
    let configuration = header.windows(4).position(|bytes| bytes == b"avcC");
    let mut other = header.clone();
    other[configuration.expect("it is H.264") + 6] ^= 0x40;
    let source = [&file[..], &other, fragments, &file].concat();
    let (mut splicer, mut out) = (Splicer::new(1 << 20), Vec::new());
    splicer.feed(&source, &mut out).expect("the first");
    assert!(out == source, "before a seam it goes out as it is");
    let (format, had) = corpus::had(&out);
    assert!(splicer.break_off(format, had));
    let seam = out.len();
    splicer.feed(&source, &mut out).expect("it goes on");
    splicer.finish(&mut out);
    let behind = &out[seam..];
    let headers = behind.windows(4).filter(|bytes| bytes == b"moov").count();
    assert_eq!(headers, 2, "all but the first");
    let moofs = |bytes: &[u8]| bytes.windows(4).filter(|bytes| bytes == b"moof").count();
    assert_eq!(moofs(behind), moofs(&source));
}

#[test]
fn fragments_that_cannot_be_moved_are_not_waited_for() {
    let file = corpus::file("h264.mp4");
    let (format, header) = corpus::had(&file);
    let traf = |flags: u8, has_time: bool| {
        let place: &[u8] = if flags & 1 != 0 { &[0; 8] } else { &[] };
        let tfhd = mp4_box(b"tfhd", &[&[0, 2, 0, flags, 0, 0, 0, 1], place].concat());
        let time = mp4_box(b"tfdt", &[0; 8]);
        let run = mp4_box(b"trun", &[0, 0, 0, 0, 0, 0, 0, 1]);
        let parts = [&tfhd[..], if has_time { &time } else { &[] }, &run].concat();
        mp4_box(b"moof", &mp4_box(b"traf", &parts))
    };
    for (moof, can_be_moved) in [
        (traf(0, true), true),
        (traf(0, false), false),
        (traf(1, true), false),
    ] {
        // It breaks within the fragment's data.
        let source = [&header[..], &moof, &[0, 0, 4, 0], b"mdat", &[1; 100]].concat();
        let (mut splicer, mut out) = (Splicer::new(1 << 20), Vec::new());
        splicer.feed(&source, &mut out).expect("the first");
        let is_held = splicer.break_off(format, header.clone());
        assert_eq!(is_held, can_be_moved);
    }
}

#[test]
fn what_says_where_things_stand_in_a_file_is_left_out_where_they_are_moved() {
    let file = corpus::file("h264.mkv");
    let segment = file
        .windows(4)
        .position(|bytes| bytes == [0x18, 0x53, 0x80, 0x67]);
    let (before, behind) = file.split_at(segment.expect("a Segment") + 12);
    let seek_head = element(&[0x11, 0x4d, 0x9b, 0x74], &[0x55; 30]);
    let cues = element(&[0x1c, 0x53, 0xbb, 0x6b], &[0x66; 30]);
    let splice = |bytes: &[u8]| {
        let (mut splicer, mut out) = (Splicer::new(1 << 20), Vec::new());
        splicer.feed(bytes, &mut out).expect("like itself");
        splicer.finish(&mut out);
        out
    };
    let with_places = [before, &seek_head, &cues, behind].concat();
    assert!(splice(&with_places) == splice(&file));
}

#[test]
fn who_comes_where_there_are_no_points_is_near_live_and_it_is_said() {
    let tables = tables(&[(0x1b, VIDEO, &[]), (0x0f, SOUND, &[])]);
    let other = pes(VIDEO, 1.0, &[DELIMITER, PICTURE, &[7; 10_000]].concat());
    let limits = Limits {
        buffer_bytes: 4 << 20,
        join_back_bytes: 0,
        join_back_time: Duration::ZERO,
    };
    let mut pool = Pool::new(8 << 20);
    let mut stream = StreamBuffer::new(limits, None, Instant::START);
    stream.append(&tables.repeat(3), &mut pool, Instant::START);
    let mut begins = Vec::new();
    let mut notices = Vec::new();
    for number in 0..600_u64 {
        let viewer = stream.join((), Instant::START);
        let mut gather = Gather::default();
        begins.push((
            stream.newest(),
            stream.lend(viewer, 0..usize::MAX, &mut gather, 0),
        ));
        stream.leave(viewer);
        stream.count(other.len(), Instant::START);
        stream.append(&other, &mut pool, Instant::START);
        notices.extend(stream.take_notice());
        assert!(
            stream.joins() == 0 && stream.no_joins_reason().is_some(),
            "{number}"
        );
    }
    // Once it is no beginning any more: the header, and a unit.
    for (newest, bytes) in begins.into_iter().filter(|(newest, _)| *newest > 1 << 20) {
        assert!(bytes <= tables.len() + 5_000, "{bytes} at {newest}");
    }
    assert_eq!(notices, [Notice::NoJoin]);
    let key = pes(VIDEO, 2.0, &[DELIMITER, PARAMETERS, KEY_PICTURE].concat());
    stream.append(&[key.repeat(3)].concat(), &mut pool, Instant::START);
    assert!(stream.joins() > 0 && stream.no_joins_reason().is_none());
}

#[test]
fn a_source_that_broke_within_the_headers_of_ogg_is_not_waited_for() {
    for name in ["opus.ogg", "theora.ogg"] {
        let file = corpus::file(name);
        let header = corpus::had(&file).1;
        for (cut, is_held) in [(header.len() / 2, false), (header.len() + 3_000, true)] {
            let (mut splicer, mut out) = (Splicer::new(1 << 20), Vec::new());
            splicer.feed(&file[..cut], &mut out).expect("the first");
            let (format, had) = corpus::had(&out);
            let goes_on = splicer.break_off(format, had);
            assert_eq!(goes_on, is_held, "{name}, cut at {cut}");
        }
    }
}
