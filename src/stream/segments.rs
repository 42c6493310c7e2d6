//! A stream in segments: where they are, and the viewer of one, who has an end.

use std::rc::Rc;

use super::viewer::{Lead, Position};
use super::{StreamBuffer, Viewer, ViewerId};
use crate::hls::{Cutter, Plan};
use crate::time::Instant;

impl<C: Copy> StreamBuffer<C> {
    /// From now on it is known where segments of it begin and end.
    pub fn cut_into_segments(&mut self, plan: Plan) {
        let plan = Plan {
            buffer_bytes: self.buffer.bytes_max() as u64,
            ..plan
        };
        self.cutter = Cutter::of(plan);
    }

    /// Its segments, if it is cut into such.
    pub fn segments(&mut self) -> Option<&mut Cutter> {
        self.cutter.as_deref_mut()
    }

    /// Another source goes on with it from here.
    pub fn begin_seam(&mut self) {
        if let Some(cutter) = &mut self.cutter {
            cutter.seam(self.buffer.newest());
        }
    }

    /// A viewer of one segment, which is there still: of what lies from an offset to another,
    /// behind this lead. Nothing is copied for it; if it is overtaken, it is cut
    /// ([`StreamBuffer::take_cut`]).
    pub fn join_range(
        &mut self,
        connection: C,
        (from, to): (u64, u64),
        lead: Rc<Vec<u8>>,
        now: Instant,
    ) -> ViewerId<C> {
        let viewer = self.viewers.insert(Viewer {
            connection,
            position: Position::At(from.max(self.buffer.oldest())),
            end: to,
            lead: Lead::of_start(Some(lead), &[]),
            lag_key: None,
            header_seen: 0,
            since: now,
            bytes_sent: 0,
            skips: 0,
        });
        self.shared_bytes += self.viewers.get(viewer).map_or(0, Viewer::shared_bytes);
        self.lag(viewer, from);
        self.lines.be_ready(viewer.index());
        viewer
    }
}
