//! Spliced sources of arbitrary bytes: the output does not depend on the pieces.

use tollgate::format::splice::{Incompatible, Splicer};
use tollgate::format::{Finding, Format, Scanner};

/// A stream's format and header, followed as its bytes go out.
#[derive(Default)]
struct OutputLayout {
    scanner: Scanner,
    format: Option<Format>,
    is_unknown: bool,
    header: Vec<u8>,
    scanned: usize,
}

impl OutputLayout {
    fn read(&mut self, out: &[u8]) {
        let scanned = std::mem::replace(&mut self.scanned, out.len());
        let OutputLayout {
            scanner,
            format,
            is_unknown,
            header,
            ..
        } = self;
        scanner.feed(&out[scanned..], &mut |finding, told| match finding {
            Finding::Format(told) => *format = Some(told),
            Finding::Header => *header = told.to_vec(),
            Finding::Unknown => *is_unknown = true,
            Finding::Join(_)
            | Finding::Unit(_)
            | Finding::Entry(_)
            | Finding::Time(..)
            | Finding::Lasts(_)
            | Finding::Split(_)
            | Finding::Break(_) => {}
        });
    }
}

const UNIT_BYTES_MAX: usize = 100_000;

/// What goes out of a source that breaks off at `cut`, and then comes again whole, if that goes on,
/// in pieces of such sizes.
pub fn splice(
    bytes: &[u8],
    cut: usize,
    mut pieces: impl Iterator<Item = usize>,
) -> (Vec<u8>, Option<Incompatible>) {
    let mut splicer = Splicer::new(UNIT_BYTES_MAX);
    let (mut out, mut had) = (Vec::new(), OutputLayout::default());
    for source in [&bytes[..cut.min(bytes.len())], bytes] {
        let mut rest = source;
        while !rest.is_empty() {
            let piece = pieces.next().unwrap_or(rest.len()).clamp(1, rest.len());
            let (now, later) = rest.split_at(piece);
            if let Err(Incompatible(mut unlike)) = splicer.feed(now, &mut out) {
                unlike.extend_from_slice(later);
                return (out, Some(Incompatible(unlike)));
            }
            rest = later;
        }
        had.read(&out);
        if !had.is_unknown {
            splicer.break_off(had.format, had.header.clone());
        }
    }
    splicer.finish(&mut out);
    (out, None)
}

/// The first four bytes say where the source breaks off, and how it is cut.
pub fn sources(data: &[u8]) {
    let Some(([high, low, first, second], bytes)) = data.split_first_chunk::<4>() else {
        return;
    };
    let cut = usize::from(u16::from_be_bytes([*high, *low]));
    let whole = splice(bytes, cut, std::iter::empty());
    assert_eq!(
        whole,
        splice(bytes, cut, std::iter::repeat(1)),
        "byte by byte"
    );
    let (first, second) = (usize::from(*first) + 1, usize::from(*second) * 7 + 1);
    assert_eq!(
        whole,
        splice(bytes, cut, [first, second].into_iter().cycle()),
        "in pieces of {first} and {second}"
    );
}
