//! Shadows that are behind their originals: one begins where a viewer would, which may lie a whole
//! `--buffer` back, and what lies between is read piece by piece, in turn, so that whoever asks for
//! a shadow holds up nobody.
//!
//! ```text
//!            original:  oldest … cursor ─────── newest
//!   begins with a piece ───────────▶ one a turn, and twice as much as comes
//! ```
//!
//! What it has yet to read is never overwritten: of what comes of the source twice as much is read
//! before that is kept, and it has begun with a block more. When it has caught up it is given what
//! comes, as it comes. Nobody loses a byte for that haste: while those who watch have yet to be
//! written what there is, it waits for them, and its original's source with it.

use super::Streams;
use super::remux_target::{GO_BYTES, GO_WORK, LARGER, PIECE_BYTES, READ_PER_BYTE};
use crate::relay::StreamId;
use crate::relay::context::Context;
use crate::relay::event::Event;

impl Streams {
    /// Whether there is [`Streams::read_behind`].
    pub fn has_behind(&self) -> bool {
        !self.behind.is_empty()
    }

    /// The first of the shadows that are behind, and whose viewers have got all that there is for
    /// them but who cannot take it, reads on, a go's share. Says whether there was one.
    pub fn read_behind(&mut self, ctx: &mut Context) -> bool {
        for _ in 0..self.behind.len() {
            let Some(id) = self.behind.pop_front() else {
                break;
            };
            let stream = self.streams.get(id).filter(|_| self.is_behind(id));
            let wanted = stream.map(|stream| match stream.buffer.has_ready() {
                true => 0,
                false => stream.buffer.wanted_bytes(&self.pool),
            });
            let Some(wanted) = wanted else {
                continue;
            };
            self.catch_up(id, GO_BYTES.min(wanted / LARGER), GO_WORK, ctx);
            if self.is_behind(id) {
                self.behind.push_back(id);
            }
            if wanted > 0 {
                return true;
            }
        }
        false
    }

    /// So much is about to come of a stream: its shadows that are behind read on before.
    pub(super) fn make_way(&mut self, id: StreamId, bytes: usize, ctx: &mut Context) {
        for shadow in self.shadows_of(id).into_iter().flatten() {
            let bytes_max = READ_PER_BYTE.saturating_mul(bytes);
            self.catch_up(shadow, bytes_max, usize::MAX, ctx);
        }
    }

    /// Lets a shadow that is behind read at most `bytes_max`. It reads no further piece when it has
    /// made `work_max`.
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
            && let Some(bytes) = self.read_kept(id, bytes_left, ctx)
        {
            bytes_left -= bytes;
        }
    }

    /// A shadow that is behind reads what its original keeps, in one piece. Says how much that was;
    /// `None`: it is not behind any more.
    fn read_kept(&mut self, id: StreamId, bytes_max: usize, ctx: &mut Context) -> Option<usize> {
        let shadow = self.streams.get(id)?.shadow.as_ref()?;
        let (original, cursor) = (shadow.original, shadow.behind()?);
        let of = &self.streams.get(original)?.buffer;
        let is_all = cursor == of.newest();
        let mut shadow = self.streams.get_mut(id)?.shadow.take()?;
        if is_all {
            shadow.keep_up();
            self.streams.get_mut(id)?.shadow = Some(shadow);
            ctx.notify(Event::RemuxCaughtUp(id));
            return None;
        }
        let of = self.streams.get(original);
        let piece = of.map_or(&[][..], |of| {
            of.buffer.slice(cursor, bytes_max.min(PIECE_BYTES))
        });
        let bytes = piece.len();
        let mut out = std::mem::take(&mut self.remuxed);
        let fed = shadow.read_on(piece, &mut out);
        self.streams.get_mut(id)?.shadow = Some(shadow);
        self.comes_of_shadow(id, fed, out, ctx);
        Some(bytes)
    }

    /// A shadow has read all that there was.
    pub fn has_caught_up(&mut self, id: StreamId, ctx: &mut Context) {
        let original = self.streams.get(self.original_of(id));
        let end = original.and_then(|original| original.buffer.end());
        if let Some(end) = end {
            self.end_shadow(id, end, ctx);
        } else {
            self.begin_transport(id, ctx);
        }
    }

    /// Whether a stream is a shadow that has yet to catch up.
    pub(super) fn is_behind(&self, id: StreamId) -> bool {
        let shadow = self
            .streams
            .get(id)
            .and_then(|stream| stream.shadow.as_ref());
        shadow.is_some_and(|shadow| shadow.behind().is_some())
    }
}
