//! Sources that follow each other, of arbitrary bytes: what goes out may not depend on how they are cut.

use tollgate::format::splice::{Splicer, Unlike};
use tollgate::format::{Finding, Format, Scanner};

/// A stream's format and header, followed as its bytes go out.
#[derive(Default)]
struct Had {
    scanner: Scanner,
    format: Option<Format>,
    header: Vec<u8>,
    scanned: usize,
}

impl Had {
    fn look(&mut self, out: &[u8]) {
        let mut findings = Vec::new();
        self.scanner.feed(&out[self.scanned..], &mut findings);
        self.scanned = out.len();
        for finding in findings {
            match finding {
                Finding::Format(format) => self.format = Some(format),
                Finding::Header(header) => self.header = header,
                Finding::Unknown => self.format = None,
                Finding::Join(_) | Finding::Unit(_) | Finding::Entry(_) => {}
            }
        }
    }
}

/// What goes out of a source that breaks off at `cut`, and then comes again whole, if that goes on, in pieces of such sizes.
pub fn splice(
    bytes: &[u8],
    cut: usize,
    mut pieces: impl Iterator<Item = usize>,
) -> (Vec<u8>, Option<Unlike>) {
    let mut splicer = Splicer::new(100_000);
    let (mut out, mut had) = (Vec::new(), Had::default());
    for source in [&bytes[..cut.min(bytes.len())], bytes] {
        let mut rest = source;
        while !rest.is_empty() {
            let piece = pieces.next().unwrap_or(rest.len()).clamp(1, rest.len());
            let (now, later) = rest.split_at(piece);
            if let Err(Unlike(mut unlike)) = splicer.feed(now, &mut out) {
                unlike.extend_from_slice(later);
                return (out, Some(Unlike(unlike)));
            }
            rest = later;
        }
        had.look(&out);
        if let Some(format) = had.format {
            splicer.break_off(format, &had.header);
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
