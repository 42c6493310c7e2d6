//! A list from another relay, in arbitrary bytes and pieces: the outcome does not depend on the
//! pieces, and the kept rows are a list again.

use tollgate::json::Rows;

/// The first byte says how the rest is cut.
pub fn rows(data: &[u8]) {
    let Some((&seed, bytes)) = data.split_first() else {
        return;
    };
    let whole = read(&[bytes]);
    let (first, rest) = bytes.split_at(usize::from(seed >> 4).min(bytes.len()));
    let pieces = rest.chunks(1 + usize::from(seed & 15));
    let cut: Vec<&[u8]> = std::iter::once(first).chain(pieces).collect();
    assert_eq!(whole, read(&cut), "cut at {seed}");
    let Some(rows) = whole else { return };
    // Each row has a comma before it, and nothing else is kept of what stood around them.
    let told = rows.strip_prefix(b",").unwrap_or(&rows).trim_ascii();
    assert!(rows.is_empty() || told.starts_with(b"{") && told.ends_with(b"}"));
    let within = rows.strip_prefix(b",").unwrap_or(&rows);
    let list = [b"[", within, b"]"].concat();
    assert_eq!(read(&[&list]), Some(rows), "its rows are others");
}

/// The rows of a list; nothing, if it is none.
fn read(pieces: &[&[u8]]) -> Option<Vec<u8>> {
    let mut rows = Rows::default();
    for piece in pieces {
        if !rows.read(piece) {
            return None;
        }
    }
    Some(rows.finish()?.into_iter().flatten().collect())
}
