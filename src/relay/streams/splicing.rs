//! Splicing: with `--hold`, a source's bytes reach its stream through a splicer.
//!
//! The splicer holds a unit until it is whole. Then it puts all of the unit out at once: up to half
//! of `--buffer`. The stream, its segments and its remuxed streams get this output in pieces over
//! several turns, so that no turn takes long. Meanwhile the server does not read the source.

use super::remux_target::STEP_BYTES;
use super::{StreamSource, Streams};
use crate::format::splice::Incompatible;
use crate::relay::StreamId;
use crate::relay::context::Context;
use crate::relay::event::Event;

/// The splicer holds a unit until it is whole, up to this fraction of `--buffer` and of what
/// `--buffers` leaves the stream. A source is read in pieces of at most the same size. So a unit
/// and the piece with its end do not push a viewer that keeps up out of the buffer.
pub(super) const UNIT_PART: usize = 2;

/// Maximal work of a remuxed stream that is behind, when its original gets all of the splicer's
/// output at once. Ordinary media cost less.
const ALL_WORK_MAX: usize = 64 * STEP_BYTES;

/// Output of a splicer that its stream gets in later turns.
#[derive(Default)]
pub(super) struct SplicerOutput {
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
        // A unit that waited leaves together with the units that follow in the same piece. Together
        // they must not overwrite what a viewer that keeps up has not received.
        splicer.limit_units(stream.buffer.keepable_bytes(&self.pool) / UNIT_PART);
        let mut spliced = std::mem::take(&mut self.spliced);
        let fed = splicer.feed(bytes, &mut spliced);
        self.work += splicer.take_work();
        let passed = spliced.len().min(STEP_BYTES);
        self.append_with_remuxed(id, &spliced[..passed], usize::MAX, ctx);
        if passed == spliced.len() {
            spliced.clear();
            // One stream's large piece must not keep this much memory for all streams.
            spliced.shrink_to(STEP_BYTES);
            self.spliced = spliced;
        } else if let Some(stream) = self.streams.get_mut(id) {
            stream.spliced = SplicerOutput {
                bytes: spliced,
                passed,
            };
            self.passing.push_back(id);
        }
        let Incompatible(bytes) = fed.err()?;
        Some((self.begin_anew(id, ctx)?, bytes))
    }

    /// Passes the next stream a piece of its splicer's output. Returns whether there was such a
    /// stream.
    pub fn pass_spliced(&mut self, ctx: &mut Context) -> bool {
        let Some(id) = self.passing.pop_front() else {
            return false;
        };
        let Some(stream) = self.streams.get_mut(id) else {
            return true;
        };
        let SplicerOutput { bytes, passed } = std::mem::take(&mut stream.spliced);
        let next = bytes.len().min(passed + STEP_BYTES);
        self.work += next - passed;
        self.append_with_remuxed(id, &bytes[passed..next], usize::MAX, ctx);
        let Some(stream) = self.streams.get_mut(id) else {
            return true;
        };
        if next < bytes.len() {
            let passed = next;
            stream.spliced = SplicerOutput { bytes, passed };
            self.passing.push_back(id);
        } else if let StreamSource::Http(connection) = stream.source {
            ctx.notify(Event::ResumeSource(connection));
        }
        true
    }

    /// Passes a stream the rest of its splicer's output at once. This is needed when its source
    /// breaks: another source must not continue within a unit. A source may break at any time, so
    /// the work of remuxed streams that are behind is bounded. A remuxed stream that needs more
    /// fails.
    pub(super) fn pass_all_spliced(&mut self, id: StreamId, ctx: &mut Context) {
        let stream = self.streams.get_mut(id);
        if let Some(stream) = stream.filter(|stream| !stream.spliced.is_empty()) {
            let SplicerOutput { bytes, passed } = std::mem::take(&mut stream.spliced);
            self.append_with_remuxed(id, &bytes[passed..], ALL_WORK_MAX, ctx);
        }
    }

    /// Returns whether a stream has yet to get a part of its splicer's output.
    pub fn has_spliced(&self) -> bool {
        !self.passing.is_empty()
    }

    /// Ends the splicer of a stream that ends, and passes the stream the rest of its output.
    pub(super) fn finish_splicing(&mut self, id: StreamId, ctx: &mut Context) {
        self.pass_all_spliced(id, ctx);
        let stream = self.streams.get_mut(id);
        if let Some(splicer) = stream.and_then(|stream| stream.splicer.as_mut()) {
            let mut rest = Vec::new();
            splicer.finish(&mut rest);
            self.append_with_remuxed(id, &rest, ALL_WORK_MAX, ctx);
        }
    }
}

impl SplicerOutput {
    /// Returns whether the stream has all of the output.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

#[cfg(test)]
mod tests;
