//! Remuxed streams that are behind their originals.
//!
//! A remuxed stream begins where a viewer would, up to a whole `--buffer` back. It reads the bytes
//! up to the newest piece by piece, in turn with others, so that no request blocks the server.
//!
//! ```text
//!            original:  oldest … cursor ─────── newest
//!   begins with a piece ───────────▶ one a turn, and twice as much as comes
//! ```
//!
//! The bytes that it has yet to read are never overwritten: it begins at least one block ahead, and
//! reads two bytes before each byte that arrives. When it has caught up, each new byte is fed to it
//! directly. It does not outrun its own viewers: while they have unsent bytes it waits, and the
//! original's source waits, too.

use super::Streams;
use super::remux_target::{LARGER, PIECE_BYTES, STEP_BYTES, STEP_WORK};
use super::remuxed::ROOM_BYTES;
use crate::relay::StreamId;
use crate::relay::context::Context;
use crate::relay::event::Event;

impl Streams {
    /// Returns whether [`Streams::catch_up_next`] may have something to do.
    pub fn has_catching_up(&self) -> bool {
        !self.catching_up.is_empty()
    }

    /// Lets one remuxed stream that is behind read its share, the first whose viewers have nothing
    /// unsent that they could take. Returns whether one did.
    pub fn catch_up_next(&mut self, ctx: &mut Context) -> bool {
        for _ in 0..self.catching_up.len() {
            let Some(id) = self.catching_up.pop_front() else {
                break;
            };
            let stream = self.streams.get(id).filter(|_| self.is_catching_up(id));
            let wanted = stream.map(|stream| match stream.buffer.has_ready() {
                true => 0,
                false => stream.buffer.wanted_bytes(&self.pool),
            });
            let Some(wanted) = wanted else {
                continue;
            };
            self.catch_up(id, STEP_BYTES.min(wanted / LARGER), STEP_WORK, ctx);
            if self.is_catching_up(id) {
                self.catching_up.push_back(id);
            }
            if wanted > 0 {
                return true;
            }
        }
        false
    }

    /// Lets a remuxed stream that is behind read at most `bytes_max`. It reads no further piece
    /// when the cost has reached `work_max`.
    pub(super) fn catch_up(
        &mut self,
        id: StreamId,
        bytes_max: usize,
        work_max: usize,
        ctx: &mut Context,
    ) {
        let (mut bytes_left, before) = (bytes_max, self.work);
        while bytes_left > 0
            && self.work - before < work_max
            && let Some(bytes) = self.read_original(id, bytes_left, ctx)
        {
            bytes_left -= bytes;
        }
        self.remuxed.shrink_to(ROOM_BYTES);
    }

    /// Reads one piece of the original's buffer. Returns its length; `None`: the stream is not
    /// behind any more.
    fn read_original(
        &mut self,
        id: StreamId,
        bytes_max: usize,
        ctx: &mut Context,
    ) -> Option<usize> {
        let mut remuxed = self.streams.get_mut(id)?.remuxed.take()?;
        let original = self.streams.get(remuxed.original);
        let piece = match original.zip(remuxed.unread_from()) {
            Some((original, cursor)) if cursor == original.buffer.newest() => {
                remuxed.read_offset = None;
                ctx.notify(Event::RemuxCaughtUp(id));
                None
            }
            Some((original, cursor)) => {
                let piece = original.buffer.slice(cursor, bytes_max.min(PIECE_BYTES));
                let mut out = std::mem::take(&mut self.remuxed);
                let fed = remuxed.read_on(piece, &mut out);
                Some((piece.len(), fed, out))
            }
            None => None,
        };
        self.streams.get_mut(id)?.remuxed = Some(remuxed);
        let (bytes, fed, out) = piece?;
        self.take_remuxed(id, fed, out, ctx);
        Some(bytes)
    }

    /// Handles a remuxed stream that has caught up: it ends with its original, or gets UDP output.
    pub fn finish_catching_up(&mut self, id: StreamId, ctx: &mut Context) {
        let original = self.streams.get(self.original_of(id));
        let end = original.and_then(|original| original.buffer.end());
        if let Some(end) = end {
            self.end_one_remuxed(id, end, ctx);
        } else {
            self.begin_transport(id, ctx);
        }
    }

    /// Returns whether a stream is remuxed and has yet to catch up.
    pub(super) fn is_catching_up(&self, id: StreamId) -> bool {
        let remuxed = self.remuxed_as(id);
        remuxed.is_some_and(|remuxed| remuxed.unread_from().is_some())
    }
}
