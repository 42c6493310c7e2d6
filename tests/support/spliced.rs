//! A source that comes again and again, as one stream: what a server with `--hold` makes of it.

use tollgate::format::splice::Splicer;
use tollgate::format::{Finding, Format, Scanner};

const UNIT_BYTES_MAX: usize = 1 << 20;

/// A file that is sent several times.
pub fn spliced((format, file): (Format, &[u8]), times: usize) -> Vec<u8> {
    if times == 1 {
        return file.to_vec();
    }
    let (mut scanner, mut header) = (Scanner::default(), Vec::new());
    scanner.feed(file, &mut |finding, told| {
        if finding == Finding::Header {
            header = told.to_vec();
        }
    });
    let (mut splicer, mut out) = (Splicer::new(UNIT_BYTES_MAX), Vec::new());
    for _ in 0..times {
        assert!(splicer.feed(file, &mut out).is_ok(), "it is like itself");
        assert!(splicer.break_off(Some(format), header.clone()));
    }
    splicer.finish(&mut out);
    out
}
