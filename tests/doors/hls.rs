//! Segments of arbitrary bytes: the playlist does not depend on the pieces, names existing objects,
//! and the memory is bounded.

use std::time::Duration;

use tollgate::format::Scanner;
use tollgate::hls::{Cutter, HlsRequest, HlsResponse, Plan};
use tollgate::time::Instant;

/// The first three bytes say how the rest is cut, how much of it is kept, and where another source
/// begins.
pub fn segments(data: &[u8]) {
    let Some(([piece, kept, seam], bytes)) = data.split_first_chunk::<3>() else {
        return;
    };
    let kept = 4096 * (u64::from(*kept) + 1);
    let seam = bytes.len() * usize::from(*seam) / 256;
    let segment = Duration::from_millis(if piece % 2 == 0 { 250 } else { 1500 });
    let whole = lists(bytes, bytes.len().max(1), (kept, segment), seam);
    let pieces = lists(bytes, usize::from(*piece) + 1, (kept, segment), seam);
    assert_eq!(whole, pieces);
}

/// The playlist when all has come, and when that is all there is.
fn lists(
    bytes: &[u8],
    piece: usize,
    (kept, segment): (u64, Duration),
    seam: usize,
) -> [Option<Vec<u8>>; 2] {
    let mut scanner = Scanner::default();
    let mut cutter = Cutter::of(Plan {
        segment,
        buffer_bytes: kept,
        tag: 7,
        started: Duration::ZERO,
        began: Instant::START,
        number_min: 0,
    })
    .expect("it is cut");
    let (before, behind) = bytes.split_at(seam);
    for part in [before, behind] {
        for piece in part.chunks(piece) {
            scanner.feed(piece, &mut |finding, header| {
                cutter.take(finding, header, Instant::START);
            });
            cutter.check();
        }
        cutter.seam(seam as u64);
    }
    cutter.forget_before((bytes.len() as u64).saturating_sub(kept));
    let last = list(&mut cutter, bytes);
    cutter.finish(bytes.len() as u64, true);
    cutter.check();
    [last, list(&mut cutter, bytes)]
}

/// What it names is there.
fn list(cutter: &mut Cutter, bytes: &[u8]) -> Option<Vec<u8>> {
    let list = cutter.list(&[]).ok()?;
    let text = std::str::from_utf8(&list).expect("a list is text");
    for part in text.split("#EXT-X-PART:").skip(1) {
        let name = part.split('"').nth(1).expect("an address");
        let found = cutter.find(&HlsRequest::Named(name.into()), false, &[]);
        assert!(matches!(found, Some(HlsResponse::Object(_))), "{text}");
    }
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
