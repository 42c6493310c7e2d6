//! Segments of arbitrary bytes: however they come, the playlist is the same, names what is there,
//! and what is held has a bound.

use std::time::Duration;

use tollgate::format::Scanner;
use tollgate::hls::{Cutter, Plan};
use tollgate::moment::Moment;

/// The first three bytes say how the rest is cut, how much of it is kept, and where another source
/// begins.
pub fn segments(data: &[u8]) {
    let Some(([piece, kept, seam], bytes)) = data.split_first_chunk::<3>() else {
        return;
    };
    let kept = 4096 * (u64::from(*kept) + 1);
    let seam = bytes.len() * usize::from(*seam) / 256;
    let whole = list(bytes, bytes.len().max(1), kept, seam);
    assert_eq!(whole, list(bytes, usize::from(*piece) + 1, kept, seam));
}

fn list(bytes: &[u8], piece: usize, kept: u64, seam: usize) -> Option<Vec<u8>> {
    let mut scanner = Scanner::new();
    let mut cutter = Cutter::of(Plan {
        segment: Duration::from_millis(250),
        buffer_bytes: kept,
        tag: 7,
        started: Duration::ZERO,
        began: Moment::START,
    })
    .expect("it is cut");
    let (before, behind) = bytes.split_at(seam);
    for part in [before, behind] {
        for piece in part.chunks(piece) {
            scanner.feed(piece, &mut |finding, header| {
                cutter.take(finding, header, Moment::START);
            });
            cutter.check();
        }
        cutter.seam(seam as u64);
    }
    cutter.finish(bytes.len() as u64, true);
    cutter.forget_before((bytes.len() as u64).saturating_sub(kept));
    cutter.check();
    let list = cutter.list().ok()?;
    let text = std::str::from_utf8(&list).expect("a list is text");
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("#EXT-X-MAP:URI=\"") {
            assert!(cutter.map(name.trim_end_matches('"')).is_some(), "{text}");
        } else if !line.starts_with('#') {
            let segment = cutter.segment(line).expect("what is listed is there");
            assert!(segment.from < segment.to && segment.to <= bytes.len() as u64);
            assert!(segment.duration() > Duration::ZERO);
        }
    }
    Some(list.to_vec())
}
