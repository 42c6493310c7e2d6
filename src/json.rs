//! Splits a JSON list of objects (RFC 8259) into rows, while it arrives.
//!
//! A relay passes on the rows of its peers, so each row must be a JSON object and the list must be
//! complete. [`Rows`] finds where rows end, and serde_json checks each row. The meaning of names
//! and values is checked elsewhere.

use std::collections::VecDeque;

use serde::de::IgnoredAny;

/// Size of each block of kept rows; the last one may be shorter.
pub const BLOCK_BYTES: usize = 64 * 1024;

/// Largest row in bytes. A row is checked in one go, which takes about 7 ms for each MiB at worst.
const ROW_BYTES_MAX: usize = 2 << 20;

/// Largest depth of arrays and objects, the list included.
const DEPTH_MAX: u32 = 64;

/// Reads a list, and keeps its rows.
#[derive(Default)]
pub struct Rows {
    state: State,
    /// Open arrays and objects of the current row, and the list itself.
    depth: u32,
    /// Where the current row begins, in bytes of `blocks`.
    row_start: usize,
    /// Each row, with a comma before it.
    blocks: VecDeque<Vec<u8>>,
}

/// What the next byte is part of.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    /// In front of the list's bracket.
    #[default]
    Begin,
    /// In front of the first row, or of the end of an empty list.
    FirstRow,
    /// Within a row, outside of strings.
    Row,
    /// Within a string of a row.
    String,
    /// Behind a backslash in a string.
    Escape,
    /// Behind a row.
    AfterRow,
    /// Behind a comma.
    NextRow,
    /// Behind the list.
    End,
}

impl Rows {
    /// Reads the next piece of the list. Returns `false` if it cannot be part of one.
    #[must_use]
    pub fn read(&mut self, piece: &[u8]) -> bool {
        let mut kept = 0;
        for (index, &byte) in piece.iter().enumerate() {
            self.state = match (self.state, byte) {
                (State::Row, b'"') => State::String,
                (State::Row, b'{' | b'[') if self.depth == DEPTH_MAX => return false,
                (State::Row, b'{' | b'[') => {
                    self.depth += 1;
                    State::Row
                }
                (State::Row, b'}' | b']') if self.depth > 2 => {
                    self.depth -= 1;
                    State::Row
                }
                (State::Row, b'}' | b']') => {
                    self.keep(&piece[kept..=index]);
                    kept = index + 1;
                    if !self.row_is_valid() {
                        return false;
                    }
                    State::AfterRow
                }
                (State::String, b'"') => State::Row,
                (State::String, b'\\') => State::Escape,
                (State::String | State::Escape, _) => State::String,
                (State::Row, _) | (_, b' ' | b'\t' | b'\r' | b'\n') => self.state,
                (State::Begin, b'[') => State::FirstRow,
                (State::FirstRow, b']') => State::End,
                (State::AfterRow, b']') => {
                    self.keep(&piece[kept..index]);
                    State::End
                }
                (State::AfterRow, b',') => State::NextRow,
                (State::FirstRow | State::NextRow, b'{') => {
                    match self.state {
                        State::FirstRow => self.keep(b","),
                        _ => self.keep(&piece[kept..index]),
                    }
                    kept = index;
                    self.row_start = self.kept_bytes();
                    self.depth = 2;
                    State::Row
                }
                _ => return false,
            };
        }
        if !matches!(self.state, State::Begin | State::FirstRow | State::End) {
            self.keep(&piece[kept..]);
        }
        true
    }

    /// Returns whether the last row, which is complete, is a JSON object of at most
    /// [`ROW_BYTES_MAX`] bytes.
    fn row_is_valid(&self) -> bool {
        let bytes = self.kept_bytes() - self.row_start;
        if bytes > ROW_BYTES_MAX {
            return false;
        }
        let mut row = Vec::with_capacity(bytes);
        let mut offset = self.row_start % BLOCK_BYTES;
        for block in self.blocks.range(self.row_start / BLOCK_BYTES..) {
            row.extend_from_slice(&block[offset..]);
            offset = 0;
        }
        // serde_json does not look at the characters of strings that it skips.
        str::from_utf8(&row).is_ok_and(|row| serde_json::from_str::<IgnoredAny>(row).is_ok())
    }

    fn kept_bytes(&self) -> usize {
        let last = self.blocks.back().map_or(0, Vec::len);
        self.blocks.len().saturating_sub(1) * BLOCK_BYTES + last
    }

    /// Appends to the blocks. A block's capacity doubles until it is full.
    fn keep(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let is_full = |block: &Vec<u8>| block.len() == BLOCK_BYTES;
            if self.blocks.back().is_none_or(is_full) {
                self.blocks.push_back(Vec::new());
            }
            let Some(block) = self.blocks.back_mut() else {
                return;
            };
            let (now, later) = bytes.split_at(bytes.len().min(BLOCK_BYTES - block.len()));
            let needed = block.len() + now.len();
            if needed > block.capacity() {
                let capacity = needed.max(2 * block.capacity()).min(BLOCK_BYTES);
                block.reserve_exact(capacity - block.len());
            }
            block.extend_from_slice(now);
            bytes = later;
        }
    }

    /// Returns the rows, each with a comma before it; `None` if the list is not complete.
    pub fn finish(mut self) -> Option<VecDeque<Vec<u8>>> {
        if let Some(last) = self.blocks.back_mut() {
            last.shrink_to_fit();
        }
        self.blocks.shrink_to_fit();
        (self.state == State::End).then_some(self.blocks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Returns the memory of a list's rows in bytes.
    fn blocks_bytes(blocks: &VecDeque<Vec<u8>>) -> usize {
        let bytes: usize = blocks.iter().map(Vec::capacity).sum();
        bytes + blocks.capacity() * size_of::<Vec<u8>>()
    }

    fn rows_in(pieces: &[&[u8]]) -> Option<Vec<u8>> {
        let mut rows = Rows::default();
        if !pieces.iter().all(|piece| rows.read(piece)) {
            return None;
        }
        Some(rows.finish()?.into_iter().flatten().collect())
    }

    /// Reads a list with every cut, and checks that the result is the same.
    fn rows(list: &[u8]) -> Option<Vec<u8>> {
        let whole = rows_in(&[list]);
        for cut in 0..list.len() {
            let (first, second) = list.split_at(cut);
            assert_eq!(rows_in(&[first, second]), whole, "{list:?} cut at {cut}");
        }
        let bytes: Vec<&[u8]> = list.chunks(1).collect();
        assert_eq!(rows_in(&bytes), whole, "{list:?} in bytes");
        whole
    }

    #[test]
    fn rows_are_taken_out_of_lists_and_nothing_else() {
        let taken = |list: &str| rows(list.as_bytes());
        assert_eq!(taken("[]"), Some(b"".to_vec()));
        assert_eq!(taken(" [ ]\n"), Some(b"".to_vec()));
        for row in [
            "{}",
            "{ }",
            "{\"a\":[1]},{}",
            "{\"a\":[{}, [ ] , -0.5e+10,true]}, {\"\\u00e9\\n\" : null}",
            "{\"a\":[true,false,null,\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u09aF\"]}",
            "{\"a\":[0,-0,7,-7,10,-120,0.5,-1.25,12.0,0e1,1E5,1e+05,-12.50e-10,1234567890]}",
            "{\"\u{3ffff}\u{40000}\u{80000}\u{fffff}\u{100000}\":1}",
            "{\"\u{7f}\u{80}\u{7ff}\u{800}\u{d7ff}\u{e000}\u{ffff}\u{10000}\u{10ffff}\":\"\"}",
        ] {
            assert_eq!(taken(&format!("[{row}]")), Some(format!(",{row}").into()));
        }
        for wrong in [
            "",
            "{}",
            "[",
            "[{},]",
            "[1]",
            "[[]]",
            "[{}][{}]",
            "null",
            "\"[]\"",
            "[{]}",
            "[{},{}",
            "[{\"a\"}]",
            "[{\"a\":}]",
            "[{\"a\":1,}]",
            "[{a:1}]",
            "[{\"a\":01}]",
            "[{\"a\":tru}]",
            "[{\"a\":\"\n\"}]",
            "[{\"a\":\"\\x\"}]",
            "[{\"a\":\"\\u12g4\"}]",
            "[{}]x",
        ] {
            assert_eq!(taken(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn malformed_numbers_and_words_are_refused() {
        for value in [
            "-", "--1", "-a", "+1", ".5", "00", "01", "-01", "1.", "1.e5", "1..2", "1.2.3", "1e",
            "1e+", "1e+-1", "1ee1", "1e1.5", "0x1", "1a", "tru", "truE", "fals", "falsey", "nul",
            "nulll", "True", "x",
        ] {
            assert_eq!(
                rows(format!("[{{\"a\":{value}}}]").as_bytes()),
                None,
                "{value}"
            );
        }
    }

    #[test]
    fn strings_are_utf8() {
        for text in [
            &b"\x80"[..],
            b"\xc0\x80",
            b"\xc1\xbf",
            b"\xe0\x9f\xbf",
            b"\xed\xa0\x80",
            b"\xff",
            b"\xf0\x8f\xbf\xbf",
            b"\xf4\x90\x80\x80",
            b"\xf5\x80\x80\x80",
            b"\xc3",
            b"\xe2\x82",
        ] {
            let list = [b"[{\"", text, b"\":1}]"].concat();
            assert_eq!(rows(&list), None, "{text:?}");
        }
    }

    /// Compares with serde_json for all lists of these characters.
    #[test]
    fn a_list_is_what_others_take_for_one() {
        let alphabet = b"{}[],:\"0-.e \\";
        let mut lists = 0;
        for number in 0..alphabet.len().pow(5) {
            let places = (0..5).map(|place| number / alphabet.len().pow(place) % alphabet.len());
            let within: Vec<u8> = places.map(|place| alphabet[place]).collect();
            for (before, after) in [("[", "]"), ("[{\"\":", "}]")] {
                let list = [before.as_bytes(), &within, after.as_bytes()].concat();
                let other: Result<Vec<BTreeMap<String, IgnoredAny>>, _> =
                    serde_json::from_slice(&list);
                let shown = String::from_utf8_lossy(&list);
                assert_eq!(rows_in(&[&list]).is_some(), other.is_ok(), "{shown}");
                lists += usize::from(other.is_ok());
            }
        }
        assert!(lists > 500, "{lists}");
    }

    #[test]
    fn a_list_that_is_nested_too_deeply_is_refused() {
        let nested = |depth: usize| {
            let arrays = "[".repeat(depth) + &"]".repeat(depth);
            rows(format!("[{{\"a\":{arrays}}}]").as_bytes())
        };
        assert!(nested(62).is_some());
        assert_eq!(nested(63), None);
        assert_eq!(nested(2000), None);
    }

    #[test]
    fn a_row_that_is_too_long_is_refused() {
        for (bytes, is_read) in [(ROW_BYTES_MAX, true), (ROW_BYTES_MAX + 1, false)] {
            let row = format!("{{\"a\":{}1}}", " ".repeat(bytes - 7));
            let list = format!("[{{}},{row}]");
            let pieces: Vec<&[u8]> = list.as_bytes().chunks(60_000).collect();
            assert_eq!(rows_in(&pieces).is_some(), is_read, "{bytes}");
        }
    }

    /// Memory is that of the kept bytes, and at most one block more.
    #[test]
    fn rows_are_kept_in_blocks() {
        let mut reader = Rows::default();
        assert!(reader.read(b"[{}"));
        assert!(blocks_bytes(&reader.blocks) < 1000);
        let mut read: usize = 3;
        while read < 1_000_000 {
            assert!(reader.read(&b",{}".repeat(700)));
            read += 2100;
            let blocks = read.div_ceil(BLOCK_BYTES);
            assert!(blocks_bytes(&reader.blocks) <= blocks * (BLOCK_BYTES + 64) + 256);
        }
        assert!(reader.read(b"]"));
        let blocks = reader.finish().expect("a list");
        let kept: usize = blocks.iter().map(Vec::len).sum();
        assert_eq!(kept, read);
        assert_eq!(
            blocks_bytes(&blocks),
            kept + blocks.len() * size_of::<Vec<u8>>()
        );
    }

    /// The last block has less than twice the capacity that it needs. It grows rarely, also if
    /// pieces are small.
    #[test]
    fn blocks_have_room_for_little_more_than_they_hold() {
        let list = b",{}".repeat(BLOCK_BYTES);
        let mut reader = Rows::default();
        assert!(reader.read(b"["));
        let (mut room, mut growths) = (0, 0);
        for (at, byte) in list.iter().skip(1).enumerate() {
            assert!(reader.read(&[*byte]));
            // Includes the comma in front of the first row.
            let kept = at + 2;
            let (whole, rest) = (kept / BLOCK_BYTES, kept % BLOCK_BYTES);
            let blocks: usize = reader.blocks.iter().map(Vec::capacity).sum();
            let of_rest = blocks - whole * BLOCK_BYTES;
            assert!(of_rest >= rest && of_rest <= BLOCK_BYTES, "{kept}");
            assert!(rest == 0 || of_rest < 2 * rest, "{kept}: {of_rest}");
            growths += usize::from(blocks != room);
            room = blocks;
        }
        assert!(growths <= 3 * 18, "{growths}");
        let lists = blocks_bytes(&reader.blocks) - room;
        assert!((3 * size_of::<Vec<u8>>()..300).contains(&lists), "{lists}");
    }
}
