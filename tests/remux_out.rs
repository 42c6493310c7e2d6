//! What is made of a source in another container, as its specification sees it.
#![cfg(feature = "default")]

#[path = "support/analyser.rs"]
mod analyser;
#[path = "support/corpus.rs"]
#[allow(dead_code)]
mod corpus;
#[path = "support/spliced.rs"]
mod spliced;
#[path = "support/transport.rs"]
#[allow(dead_code)]
mod transport;

use analyser::analyse;
use spliced::spliced;
use tollgate::format::Format;
use tollgate::remux::{Remuxer, Target};

const UNIT_BYTES_MAX: usize = 1 << 20;

/// Files of the corpus that have pictures and sound.
const FILES: &[(&str, Format)] = &[
    ("h264.flv", Format::Flv),
    ("h264.mkv", Format::Matroska),
    ("h264.mp4", Format::Mp4),
    ("h264.ts", Format::MpegTs),
];

fn files() -> impl Iterator<Item = (&'static str, Format, Vec<u8>)> {
    FILES
        .iter()
        .filter(|(_, format)| Remuxer::new(*format, Target::MpegTs, UNIT_BYTES_MAX).is_some())
        .map(|(name, format)| (*name, *format, corpus::file(name)))
}

/// All that comes of a file that comes so many times, in pieces of these sizes.
fn remuxed(
    (format, file): (Format, &[u8]),
    to: Target,
    times: usize,
    mut pieces: impl Iterator<Item = usize>,
) -> Vec<u8> {
    let mut remuxer = Remuxer::new(format, to, UNIT_BYTES_MAX).expect("it can be read");
    let mut out = Vec::new();
    let stream = spliced((format, file), times);
    let mut rest = &stream[..];
    while !rest.is_empty() {
        let piece = pieces.next().unwrap_or(rest.len()).clamp(1, rest.len());
        let (now, later) = rest.split_at(piece);
        remuxer.feed(now, &mut out).expect("it is understood");
        assert!(remuxer.held_bytes() <= Remuxer::held_bytes_max(UNIT_BYTES_MAX));
        rest = later;
    }
    remuxer.finish(&mut out).expect("it is understood");
    assert!(remuxer.left_out().is_empty(), "{:?}", remuxer.left_out());
    out
}

#[test]
fn an_hour_of_mpeg_ts_has_no_error() {
    for (name, format, file) in files() {
        let once = analyse(&remuxed(
            (format, &file),
            Target::MpegTs,
            1,
            std::iter::empty(),
        ));
        assert!(once.errors.is_empty(), "{name}: {:#?}", once.errors);
        let times = if name == "h264.flv" { 1_800 } else { 40 };
        let found = analyse(&remuxed(
            (format, &file),
            Target::MpegTs,
            times,
            std::iter::empty(),
        ));
        assert!(found.errors.is_empty(), "{name}: {:#?}", found.errors);
        println!(
            "{name}: {} packets, clock every {:.3} s, tables every {:.3} s, whole {:.3} s before it \
             is decoded, buffers of {:?} bytes",
            found.packets, found.clock_gap, found.tables_gap, found.margin, found.buffered
        );
        assert!(found.clock_gap <= 0.1 && found.tables_gap <= 0.1 && found.margin >= 0.0);
        for (pid, units) in &found.units {
            // Of MPEG-TS the end of a last PES packet, of a picture or of a few frames of sound,
            // would show with the next one only.
            let whole = once.units[pid].len() * times;
            let lost = whole - units.len();
            let may_lose = if format == Format::MpegTs {
                6 * times
            } else {
                0
            };
            assert!(
                lost <= may_lose,
                "{name}: {pid:#x}: {lost} of {whole} are lost"
            );
            let seconds = (units[units.len() - 1].decode - units[0].decode) as f64 / 90e3;
            println!("  {pid:#x}: {} units in {seconds:.3} s", units.len());
        }
        // Sound of two channels: ISO/IEC 13818-1 section 2.4.2.6.
        let sound = found.buffered.iter().filter(|(pid, _)| **pid != 0x100);
        assert!(sound.clone().count() > 0 && sound.clone().all(|(_, bytes)| *bytes <= 3584));
    }
}

#[test]
fn however_it_is_cut_the_same_comes_out() {
    for (name, format, file) in files() {
        for to in Target::ALL {
            let whole = remuxed((format, &file), to, 2, std::iter::empty());
            assert!(!whole.is_empty());
            for pieces in [vec![1], vec![187, 3, 1009], vec![4096]] {
                let cut = remuxed((format, &file), to, 2, pieces.iter().copied().cycle());
                assert!(whole == cut, "{name} to {to:?} in pieces of {pieces:?}");
            }
        }
    }
}
