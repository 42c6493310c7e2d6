//! Containers in arbitrary bytes, read for their units: these may not depend on how the bytes are
//! cut, and always are what the medium says of them.

use tollgate::format::Format;
use tollgate::remux::{Codec, MediaError, Reader, ReaderEvent, TRACKS_MAX, Track};

/// What a reader has said, kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    Tracks(Vec<Track>),
    Unit {
        track: usize,
        decode: i64,
        present: i64,
        is_join: bool,
        bytes: Vec<u8>,
    },
    Announced(u16),
    PieceEnds,
    LeftOut(u64, String),
}

impl Said {
    fn of(heard: ReaderEvent<'_>) -> Said {
        match heard {
            ReaderEvent::Tracks(tracks) => Said::Tracks(tracks.to_vec()),
            ReaderEvent::Unit(unit) => Said::Unit {
                track: unit.track,
                decode: unit.decode,
                present: unit.present,
                is_join: unit.is_join,
                bytes: unit.bytes.to_vec(),
            },
            ReaderEvent::Announced(tracks) => Said::Announced(tracks),
            ReaderEvent::PieceEnds => Said::PieceEnds,
            ReaderEvent::LeftOut { number, codec } => Said::LeftOut(number, codec.to_string()),
        }
    }
}

/// All that a reader says, and why it went no further.
pub type Reading = (Vec<Said>, Option<MediaError>);

/// What is read of bytes that come in pieces of such sizes.
pub fn read(
    format: Format,
    unit_bytes_max: usize,
    bytes: &[u8],
    pieces: impl Iterator<Item = usize>,
) -> Reading {
    let mut reader = Reader::new(format, unit_bytes_max).expect("a reader of this format");
    let (mut said, mut rest) = (Vec::new(), bytes);
    for piece in pieces {
        let (now, later) = rest.split_at(piece.clamp(1, rest.len().max(1)).min(rest.len()));
        let fed = reader.feed(now, &mut |heard| {
            said.push(Said::of(heard));
            Ok(())
        });
        if let Err(fault) = fed {
            return (said, Some(fault));
        }
        rest = later;
        if rest.is_empty() {
            break;
        }
    }
    // What only the end shows to be wrong is left out.
    let _ = reader.finish(&mut |heard| {
        said.push(Said::of(heard));
        Ok(())
    });
    (said, None)
}

/// The first two bytes say how the rest is cut.
fn container(format: Format, magic: &[u8], data: &[u8]) {
    let Some(([first, second], rest)) = data.split_first_chunk::<2>() else {
        return;
    };
    let bytes = [magic, rest].concat();
    // A small count, so that arbitrary bytes reach it.
    let most = 20_000;
    let whole = read(format, most, &bytes, std::iter::once(usize::MAX));
    let single = read(format, most, &bytes, std::iter::repeat(1));
    assert!(whole == single, "byte by byte: {whole:?} {single:?}");
    let (first, second) = (usize::from(*first) + 1, usize::from(*second) * 7 + 1);
    let pieces = [first, second].into_iter().cycle();
    assert!(
        whole == read(format, most, &bytes, pieces),
        "in pieces of {first} and {second}"
    );
    check(&whole.0, bytes.len(), most);
}

/// Checks the invariants of units.
pub fn check(said: &[Said], bytes: usize, unit_bytes_max: usize) {
    let (mut tracks, mut newest, mut all) = (Vec::new(), Vec::new(), 0);
    for heard in said {
        match heard {
            Said::Tracks(told) => {
                assert!(told.len() <= TRACKS_MAX && told.iter().all(|track| track.clock > 0));
                if told.len() < tracks.len() {
                    newest.clear();
                }
                tracks = told.clone();
                newest.resize(tracks.len(), None);
            }
            Said::Unit {
                track,
                decode,
                present,
                bytes,
                ..
            } => {
                let of = &tracks[*track];
                assert!(of.setup.is_some(), "a unit of a track that is not set up");
                assert!(present >= decode, "shown before it is decoded");
                assert!(newest[*track] <= Some(*decode), "times run back");
                newest[*track] = Some(*decode);
                assert!(!bytes.is_empty() && bytes.len() <= 2 * unit_bytes_max);
                all += bytes.len();
                if matches!(of.codec, Codec::H264 | Codec::H265) {
                    assert_lengths(bytes);
                }
            }
            // Of at most as many tracks as there are.
            Said::Announced(announced) => assert!(announced >> tracks.len() == 0),
            Said::PieceEnds => {}
            Said::LeftOut(_, codec) => assert!(codec.len() <= 48),
        }
    }
    // Lengths of 4 bytes replace lengths of 1 byte and start codes of 3 bytes.
    assert!(all <= 4 * bytes, "{all} bytes of units from {bytes}");
}

fn assert_lengths(mut unit: &[u8]) {
    while !unit.is_empty() {
        let (length, rest) = unit.split_first_chunk::<4>().expect("a length");
        let length = u32::from_be_bytes(*length) as usize;
        assert!(length > 0 && length <= rest.len());
        unit = &rest[length..];
    }
}

pub const FLV_HEAD: &[u8] = b"FLV\x01\x05\0\0\0\x09\0\0\0\0";

pub fn flv(data: &[u8]) {
    container(Format::Flv, FLV_HEAD, data);
}

/// Behind a `moov` that names H.264 and AAC.
pub fn mp4(data: &[u8]) {
    container(Format::Mp4, mp4_header(), data);
}

pub fn mp4_header() -> &'static [u8] {
    let file = include_bytes!("../media/h264.mp4");
    let moof = file.windows(4).position(|kind| kind == b"moof");
    &file[..moof.map_or(0, |at| at - 4)]
}

/// The same, from the first byte on.
pub fn mp4_head(data: &[u8]) {
    container(Format::Mp4, b"\0\0\0\x0cftypisom", data);
}

/// Behind Tracks that name H.264 and AAC.
pub fn matroska(data: &[u8]) {
    container(Format::Matroska, matroska_header(), data);
}

pub fn matroska_header() -> &'static [u8] {
    let file = include_bytes!("../media/h264.mkv");
    let cluster = file.windows(4).position(|id| id == b"\x1f\x43\xb6\x75");
    &file[..cluster.unwrap_or(0)]
}

/// The same, from the Segment on.
pub fn matroska_head(data: &[u8]) {
    container(Format::Matroska, b"\x18\x53\x80\x67\xff", data);
}

/// Behind tables that name H.264 and AAC.
pub fn mpegts(data: &[u8]) {
    let mut data = data.to_vec();
    repair(data.get_mut(2..).unwrap_or_default());
    container(Format::MpegTs, &tables(), &data);
}

/// Sync bytes stand where they belong, and counters follow each other: chance would not find them.
pub fn repair(packets: &mut [u8]) {
    for (number, packet) in packets.chunks_mut(188).enumerate() {
        packet[0] = 0x47;
        if let [_, first, second, third, ..] = packet {
            *first &= 0x7f;
            // One of the two streams, or any.
            if *second & 0xf0 == 0 {
                *first = *first & 0x40 | 1;
                *second &= 1;
                *third = *third & 0x30 | number as u8 & 0x0f;
            }
        }
    }
}

/// The packets of PAT and PMT of a real file.
pub fn tables() -> Vec<u8> {
    let file = include_bytes!("../media/h264.ts");
    let is_table = |packet: &&[u8]| matches!(packet[1..3], [0x40, 0] | [0x50, 0]);
    file.chunks(188)
        .filter(is_table)
        .take(2)
        .collect::<Vec<_>>()
        .concat()
}
