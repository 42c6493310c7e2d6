//! Lists, written in pieces, so that a table of a hundred thousand tokens does not hold up the
//! loop.
//!
//! A response remembers the mark of its last row. Marks go up, so each row that exists all the time
//! appears exactly once, whatever is added or removed.

use serde::Serialize;

use super::{Clients, Phase};
use crate::http::{self, Reply, Version};
use crate::relay::ConnectionId;
use crate::relay::JobId;
use crate::relay::api::Rows;
use crate::relay::context::Context;
use crate::relay::viewer_id::Mark;

/// A JSON array that is being written.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct ListResponse {
    /// The table that is listed.
    pub rows: Rows,
    /// Mark of the last written row; zero before the first.
    pub after: Mark,
    /// The list with the rows of other relays, which follow this server's.
    pub collecting: Option<JobId>,
    pub(super) reply: Reply,
    has_rows: bool,
    /// All rows of this server are written.
    is_own_over: bool,
}

/// Bytes after which a piece of this server's rows ends.
const PIECE_BYTES: usize = 16 * 1024;
/// Rows after which a piece ends.
pub const PIECE_ROWS: usize = 128;

impl ListResponse {
    /// Makes a list of which nothing is written.
    pub fn new(rows: Rows, collecting: Option<JobId>, reply: Reply) -> ListResponse {
        ListResponse {
            rows,
            after: (0, 0),
            collecting,
            reply,
            has_rows: false,
            is_own_over: false,
        }
    }

    /// Returns the next piece of the array, which is not empty, and whether it is the last. `rows`:
    /// the rows after [`ListResponse::after`], with their marks; rows of one mark stay together.
    /// `is_costly`: whether a row costs as much as a whole piece. `block` takes the next block of other
    /// relays' rows, each with the comma before it.
    pub fn piece<R: Serialize>(
        &mut self,
        rows: impl Iterator<Item = (Mark, R)>,
        is_costly: impl Fn(&R) -> bool,
        block: impl FnOnce() -> Option<Vec<u8>>,
    ) -> (Vec<u8>, bool) {
        let mut piece = Vec::new();
        if !self.is_own_over {
            let mut was_costly = false;
            for (count, (mark, row)) in rows.enumerate() {
                let is_full = piece.len() >= PIECE_BYTES || count >= PIECE_ROWS || was_costly;
                if is_full && mark != self.after {
                    return (piece, false);
                }
                piece.push(if self.has_rows { b',' } else { b'[' });
                was_costly |= is_costly(&row);
                // Rows are structs of strings and numbers, which have no way to fail.
                let _ = serde_json::to_writer(&mut piece, &row);
                self.has_rows = true;
                self.after = mark;
            }
            self.is_own_over = true;
            if !piece.is_empty() && self.collecting.is_some() {
                return (piece, false);
            }
        }
        let Some(mut block) = block() else {
            piece.extend_from_slice(if self.has_rows { b"]\n" } else { b"[]\n" });
            return (piece, true);
        };
        if !std::mem::replace(&mut self.has_rows, true)
            && let Some(comma) = block.first_mut()
        {
            *comma = b'[';
        }
        (block, false)
    }
}

impl Clients {
    /// Takes the list that a client reads, if its next piece must be made.
    /// [`Clients::push_piece`] puts it back.
    pub fn take_due_list(&mut self, id: ConnectionId) -> Option<Box<ListResponse>> {
        let connection = self.connections.get_mut(id)?;
        if !connection.output.is_empty() {
            return None;
        }
        match std::mem::take(&mut connection.phase) {
            Phase::ListResponse(list) => Some(list),
            phase => {
                connection.phase = phase;
                None
            }
        }
    }

    /// Closes the connection of a list. Its reader sees that the list is cut.
    pub fn cut_list(&mut self, id: ConnectionId, list: Box<ListResponse>, ctx: &mut Context) {
        self.enter(id, Phase::ListResponse(list));
        self.close(id, ctx);
    }

    /// Writes the next piece of a list. It may be the last.
    pub fn push_piece(
        &mut self,
        id: ConnectionId,
        list: Box<ListResponse>,
        (piece, is_last): (Vec<u8>, bool),
        ctx: &mut Context,
    ) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let reply = list.reply;
        connection.phase = Phase::ListResponse(list);
        let end: &[u8] = match reply.version {
            Version::Http10 => {
                connection.output.push(&piece);
                b""
            }
            Version::Http11 => {
                let line = format!("{:x}\r\n", piece.len());
                connection.output.push(line.as_bytes());
                connection.output.push(&piece);
                connection.output.push(b"\r\n");
                http::LAST_CHUNK
            }
        };
        self.note_bytes(id, piece.len());
        if is_last {
            self.respond(id, None, end.to_vec(), reply.keep_alive, ctx);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relay::stage::Stage;

    /// The pieces of rows with these marks, and of what others told, as they follow each other.
    fn pieces(marks: &[u64], bytes: usize, blocks: Option<&[&str]>) -> Vec<String> {
        let reply = Stage::new(&[]).relay.ctx.unread_reply();
        let mut list = ListResponse::new(Rows::Tokens, blocks.map(|_| JobId(1)), reply);
        let mut blocks = blocks.unwrap_or_default().iter();
        let mut pieces = Vec::new();
        loop {
            let after = list.after;
            let rows = marks.iter().filter(|mark| (0, **mark) > after);
            let rows = rows.map(|mark| ((0, *mark), format!("{mark}{}", "x".repeat(bytes))));
            let block = || blocks.next().map(|block| block.as_bytes().to_vec());
            let (piece, is_last) = list.piece(rows, |_| false, block);
            assert!(!piece.is_empty(), "an empty chunk would be the last");
            pieces.push(String::from_utf8(piece).expect("JSON"));
            if is_last {
                return pieces;
            }
        }
    }

    /// Each row once, and as much at a time as is written at one go.
    #[test]
    fn a_list_is_one_array_however_it_is_cut() {
        let up_to = |number: u64| (1..=number).collect::<Vec<u64>>();
        for (rows, bytes, expected) in [
            (0, 0, vec![0]),
            (1, 0, vec![1]),
            (128, 0, vec![128]),
            (129, 0, vec![128, 1]),
            (300, 0, vec![128, 128, 44]),
            // With its quotes and a comma each has 1,030 bytes or so.
            (40, 1_025, vec![16, 16, 8]),
            (3, 20_000, vec![1, 1, 1]),
        ] {
            let pieces = pieces(&up_to(rows), bytes, None);
            let counts: Vec<usize> = pieces
                .iter()
                .map(|piece| piece.matches('"').count() / 2)
                .collect();
            assert_eq!(counts, expected, "{rows} of {bytes}");
            let all: Vec<String> = serde_json::from_str(&pieces.concat()).expect("an array");
            let seen = all.iter().map(|row| row.trim_end_matches('x').parse());
            assert_eq!(seen.collect::<Result<Vec<u64>, _>>(), Ok(up_to(rows)));
        }
    }

    /// Rows of one mark cannot be split between two pieces.
    #[test]
    fn rows_of_one_mark_stay_together() {
        let mut marks: Vec<u64> = (1..=100).collect();
        marks.extend([101; 60]);
        marks.extend([102; 5]);
        let pieces = pieces(&marks, 0, None);
        let counts: Vec<usize> = pieces
            .iter()
            .map(|piece| piece.matches('"').count() / 2)
            .collect();
        assert_eq!(counts, [160, 5]);
    }

    /// Others' rows follow, each block as it is; the first row of all has no comma before it.
    #[test]
    fn what_others_told_stands_behind_it() {
        let cases: [(&[u64], &[&str], &[&str]); 4] = [
            (&[], &[], &["[]\n"]),
            (&[1], &[], &["[\"1\"", "]\n"]),
            (&[1], &[",2,3", ",4"], &["[\"1\"", ",2,3", ",4", "]\n"]),
            (&[], &[",2,3", ",4"], &["[2,3", ",4", "]\n"]),
        ];
        for (rows, blocks, expected) in cases {
            assert_eq!(
                pieces(rows, 0, Some(blocks)),
                expected,
                "{rows:?} {blocks:?}"
            );
        }
    }
}
