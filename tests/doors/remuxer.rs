//! Remuxed sources of arbitrary bytes: the output does not depend on the pieces, can be read again,
//! and is bounded by the input.

use super::remux::{self, Said};
use tollgate::format::Format;
use tollgate::remux::{MediaError, OUT_ONCE, OUT_PER_BYTE, OUT_PER_UNIT, Remuxer, Target};

const UNIT_BYTES_MAX: usize = 20_000;

/// What goes out of a source, in pieces of such sizes.
fn remuxed(
    (format, bytes): (Format, &[u8]),
    to: Target,
    mut pieces: impl Iterator<Item = usize>,
) -> (Vec<u8>, Option<MediaError>) {
    let mut remuxer = Remuxer::new(format, to, UNIT_BYTES_MAX).expect("it can be read");
    let (mut out, mut fault) = (Vec::new(), None);
    let mut rest = bytes;
    while !rest.is_empty() && fault.is_none() {
        let piece = pieces.next().unwrap_or(rest.len()).clamp(1, rest.len());
        let (now, later) = rest.split_at(piece);
        fault = remuxer.feed(now, &mut (1 << 40), &mut out).err();
        rest = later;
    }
    // What was found to be wrong is found once.
    assert_eq!(remuxer.finish(&mut out).err(), fault);
    assert!(remuxer.left_out().len() <= 32);
    (out, fault)
}

/// The first byte chooses the source's and the target's container, the second the pieces.
pub fn sources(data: &[u8]) {
    let Some(([kind, cut], rest)) = data.split_first_chunk::<2>() else {
        return;
    };
    let mut rest = rest.to_vec();
    let (format, header) = match kind & 3 {
        0 => (Format::Flv, remux::FLV_HEAD.to_vec()),
        1 => (Format::Mp4, remux::mp4_header().to_vec()),
        2 => (Format::Matroska, remux::matroska_header().to_vec()),
        _ => {
            remux::repair(&mut rest);
            (Format::MpegTs, remux::tables())
        }
    };
    let to = Target::ALL[usize::from(kind >> 2 & 1)];
    let bytes = [header, rest].concat();
    let whole = remuxed((format, &bytes), to, std::iter::empty());
    let pieces = [usize::from(*cut) + 1, 1, 300].into_iter().cycle();
    let in_pieces = remuxed((format, &bytes), to, pieces);
    assert!(whole == in_pieces, "{format:?} to {to:?}");
    bounded((format, &bytes), whole.0.len());
    readable(to, &whole.0);
}

fn bounded((format, bytes): (Format, &[u8]), written: usize) {
    let once = std::iter::once(usize::MAX);
    let (said, _) = remux::read(format, UNIT_BYTES_MAX, bytes, once);
    let units = said.iter().filter_map(|said| match said {
        Said::Unit { bytes, .. } => Some(bytes.len()),
        Said::Tracks(_) | Said::Announced(_) | Said::PieceEnds | Said::LeftOut(..) => None,
    });
    let most: usize = units.map(|bytes| bytes * OUT_PER_BYTE + OUT_PER_UNIT).sum();
    assert!(written <= OUT_ONCE + most, "{written} bytes, not {most}");
}

fn readable(to: Target, bytes: &[u8]) {
    if to == Target::MpegTs {
        assert!(
            bytes
                .chunks(188)
                .all(|packet| packet.len() == 188 && packet[0] == 0x47)
        );
    }
    let once = std::iter::once(usize::MAX);
    let (_, fault) = remux::read(to.format(), 1 << 20, bytes, once);
    assert!(bytes.is_empty() || fault.is_none(), "{fault:?}");
}
