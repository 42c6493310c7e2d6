//! Segments of a stream, and viewers that get one segment.

use std::rc::Rc;

use super::viewer::{Lead, Position};
use super::{StreamBuffer, Viewer, ViewerId};
use crate::hls::{Cutter, Plan};
use crate::time::Instant;

impl<C: Copy> StreamBuffer<C> {
    /// Begins to cut the stream into segments.
    pub fn cut_into_segments(&mut self, plan: Plan) {
        let plan = Plan {
            buffer_bytes: self.buffer.bytes_max() as u64,
            ..plan
        };
        self.cutter = Cutter::of(plan);
    }

    /// Returns the segments, if the stream is cut into such.
    pub fn segments(&mut self) -> Option<&mut Cutter> {
        self.cutter.as_deref_mut()
    }

    /// Marks the newest byte as a seam: another source continues the stream from here.
    pub fn begin_seam(&mut self) {
        self.seam = self.buffer.newest;
        if let Some(cutter) = &mut self.cutter {
            cutter.seam(self.buffer.newest);
        }
    }

    /// Adds a viewer of one segment that is still in the buffer: it gets `lead`, and then the bytes
    /// between the two offsets. Nothing is copied for it. If the bytes are overwritten, the viewer is
    /// disconnected ([`StreamBuffer::take_cut`]).
    pub fn join_range(
        &mut self,
        connection: C,
        (from, to): (u64, u64),
        lead: Rc<Vec<u8>>,
        now: Instant,
    ) -> ViewerId<C> {
        let viewer = self.viewers.insert(Viewer {
            connection,
            position: Position::At(from.max(self.buffer.oldest)),
            end: to,
            lead: Lead::new(Some(lead), Vec::new()),
            lag_key: None,
            header_seen: 0,
            since: now,
            bytes_sent: 0,
            skips: 0,
        });
        self.lag(viewer, from);
        self.lines.be_ready(viewer.index());
        viewer
    }
}
