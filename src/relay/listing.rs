//! Long answers, written in pieces: a table of a hundred thousand tokens must not hold up the loop.
//!
//! A listing remembers how far it is by a serial number, so what is added or removed meanwhile does
//! no harm: each row that is there all the time comes exactly once, in the order of addition.

use std::collections::VecDeque;

use serde::Serialize;

use crate::http::Reply;

/// A JSON array that is being written.
pub(super) struct Listing {
    pub rows: Rows,
    /// The serial of the last row that was written; 0 before the first.
    pub after: u64,
    pub reply: Reply,
    has_rows: bool,
    /// This server's rows are all written.
    is_own_over: bool,
    /// What follows them: rows of other relays, at least one in each, already JSON. Of the first so
    /// many bytes are written.
    others: VecDeque<Vec<u8>>,
    others_written: usize,
}

/// Which table is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rows {
    Tokens,
    Streams,
}

/// A piece ends after so many bytes or rows, whichever is first.
const PIECE_BYTES: usize = 16 * 1024;
const PIECE_ROWS: usize = 128;

impl Listing {
    pub fn new(rows: Rows, others: VecDeque<Vec<u8>>, reply: Reply) -> Listing {
        Listing {
            rows,
            after: 0,
            reply,
            has_rows: false,
            is_own_over: false,
            others,
            others_written: 0,
        }
    }

    /// Bytes that are allocated for it: the rows of other relays.
    pub fn held_bytes(&self) -> usize {
        let rows: usize = self.others.iter().map(Vec::capacity).sum();
        rows + self.others.capacity() * size_of::<Vec<u8>>()
    }

    /// The next piece of the array, which is not empty, with `rows` and their serials from behind
    /// [`Listing::after`] on; and whether it was the last.
    pub fn piece<R: Serialize>(&mut self, rows: impl Iterator<Item = (u64, R)>) -> (Vec<u8>, bool) {
        if self.is_own_over {
            return self.piece_of_others();
        }
        let mut piece = Vec::new();
        for (count, (serial, row)) in rows.enumerate() {
            if piece.len() >= PIECE_BYTES || count >= PIECE_ROWS {
                return (piece, false);
            }
            piece.push(if self.has_rows { b',' } else { b'[' });
            // Rows are structs of strings and numbers, which have no way to fail.
            let _ = serde_json::to_writer(&mut piece, &row);
            self.has_rows = true;
            self.after = serial;
        }
        self.is_own_over = true;
        if piece.is_empty() || self.others.is_empty() {
            let (more, is_last) = self.piece_of_others();
            piece.extend(more);
            return (piece, is_last);
        }
        (piece, false)
    }

    fn piece_of_others(&mut self) -> (Vec<u8>, bool) {
        let mut piece = Vec::new();
        let Some(rows) = self.others.front() else {
            piece.extend_from_slice(if self.has_rows { b"]" } else { b"[]" });
            return (piece, true);
        };
        if self.others_written == 0 {
            piece.push(if self.has_rows { b',' } else { b'[' });
            self.has_rows = true;
        }
        let end = rows.len().min(self.others_written + PIECE_BYTES);
        piece.extend_from_slice(&rows[self.others_written..end]);
        self.others_written = end;
        if end == rows.len() {
            self.others.pop_front();
            self.others_written = 0;
        }
        (piece, false)
    }
}
