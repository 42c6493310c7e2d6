//! Splicing: with `--hold`, a source's bytes reach its stream through a splicer.
//!
//! The splicer holds a unit until it is whole. Then all of it goes out at once, and it may be half
//! of `--buffer`. The stream, its segments and its remuxed streams get it in pieces over several
//! turns, so that no turn takes long. Meanwhile the source is not read.

use super::remux_target::GO_BYTES;
use super::{StreamSource, Streams};
use crate::format::splice::Incompatible;
use crate::relay::StreamId;
use crate::relay::context::Context;
use crate::relay::event::Event;

/// The splicer holds a unit until it is whole, up to this fraction of `--buffer` and of what
/// `--buffers` leaves the stream. A source is read in pieces of at most the same size. So a unit and
/// the piece with its end do not push a viewer that keeps up out of the buffer.
pub(super) const UNIT_PART: usize = 2;

/// Most work of remuxed streams that are behind when a splicer's stream gets all at once. Ordinary
/// media cost less.
const ALL_WORK_MAX: usize = 64 * GO_BYTES;

/// Bytes that a splicer has let go, and that its stream gets in later turns.
#[derive(Default)]
pub(super) struct Spliced {
    bytes: Vec<u8>,
    /// Number of these bytes that the stream has.
    passed: usize,
}

impl Streams {
    /// Takes media from a stream's source as [`Streams::append`] does, if the stream has a splicer.
    pub(super) fn splice(
        &mut self,
        id: StreamId,
        bytes: &[u8],
        ctx: &mut Context,
    ) -> Option<(StreamId, Vec<u8>)> {
        // Datagrams come whether the source is read or not.
        self.pass_all_spliced(id, ctx);
        let stream = self.streams.get_mut(id)?;
        let splicer = stream.splicer.as_mut()?;
        // A held unit leaves together with the units that follow in the same piece. Together they must
        // not overwrite what a viewer that keeps up has not received.
        splicer.limit_units(stream.buffer.keepable_bytes(&self.pool) / UNIT_PART);
        let mut spliced = std::mem::take(&mut self.spliced);
        let fed = splicer.feed(bytes, &mut spliced);
        self.work += splicer.take_work();
        let passed = spliced.len().min(GO_BYTES);
        self.pass_on(id, &spliced[..passed], usize::MAX, ctx);
        if passed == spliced.len() {
            spliced.clear();
            // One stream's large piece must not keep this much memory for all streams.
            spliced.shrink_to(GO_BYTES);
            self.spliced = spliced;
        } else if let Some(stream) = self.streams.get_mut(id) {
            stream.spliced = Spliced {
                bytes: spliced,
                passed,
            };
            self.passing.push_back(id);
        }
        let Incompatible(bytes) = fed.err()?;
        Some((self.begin_anew(id, ctx)?, bytes))
    }

    /// Passes a stream the next piece that its splicer has let go. Returns whether there was one.
    pub fn pass_spliced(&mut self, ctx: &mut Context) -> bool {
        let Some(id) = self.passing.pop_front() else {
            return false;
        };
        let Some(stream) = self.streams.get_mut(id) else {
            return true;
        };
        let Spliced { bytes, passed } = std::mem::take(&mut stream.spliced);
        let next = bytes.len().min(passed + GO_BYTES);
        self.work += next - passed;
        self.pass_on(id, &bytes[passed..next], usize::MAX, ctx);
        let Some(stream) = self.streams.get_mut(id) else {
            return true;
        };
        if next < bytes.len() {
            let passed = next;
            stream.spliced = Spliced { bytes, passed };
            self.passing.push_back(id);
        } else if let StreamSource::Http(connection) = stream.source {
            ctx.notify(Event::ResumeSource(connection));
        }
        true
    }

    /// Passes a stream everything that its splicer has let go: its source has broken, and no other one
    /// continues within a unit. A source may break at any time, so remuxed streams that are behind get
    /// a bounded share of the turn. A stream that cannot read on then fails.
    pub(super) fn pass_all_spliced(&mut self, id: StreamId, ctx: &mut Context) {
        let stream = self.streams.get_mut(id);
        if let Some(stream) = stream.filter(|stream| !stream.spliced.is_empty()) {
            let Spliced { bytes, passed } = std::mem::take(&mut stream.spliced);
            self.pass_on(id, &bytes[passed..], ALL_WORK_MAX, ctx);
        }
    }

    /// Returns whether some stream does not have all that its splicer has let go.
    pub fn has_spliced(&self) -> bool {
        !self.passing.is_empty()
    }

    /// Passes an ending stream what its splicer has.
    pub(super) fn finish_splicing(&mut self, id: StreamId, ctx: &mut Context) {
        self.pass_all_spliced(id, ctx);
        let stream = self.streams.get_mut(id);
        if let Some(splicer) = stream.and_then(|stream| stream.splicer.as_mut()) {
            let mut rest = Vec::new();
            splicer.finish(&mut rest);
            self.pass_on(id, &rest, ALL_WORK_MAX, ctx);
        }
    }
}

impl Spliced {
    /// Returns whether the stream has everything.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

#[cfg(test)]
mod tests;
