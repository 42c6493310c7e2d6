//! Segments of a stream, and viewers that get one segment.

use std::rc::Rc;

use super::viewer::{Position, ViewerLead};
use super::{StreamBuffer, Viewer, ViewerId};
use crate::format::mp4::{LARGE_BOX_HEAD_BYTES, box_head};
use crate::hls::{Cutter, Plan};
use crate::time::Instant;

/// Boxes of a fragment up to its `mdat`, at most: `styp`, `prft`, `emsg`, `sidx`, `moof`.
const BOXES_MAX: usize = 16;

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
        // Where another process sent the range, it may lie anywhere.
        let from = from.min(self.buffer.newest);
        let (cursor, lead) = (
            from.max(self.buffer.oldest),
            ViewerLead::new(Some(lead), Vec::new()),
        );
        let viewer = self.viewers.insert(Viewer {
            end: to.max(from),
            ..Viewer::new(connection, cursor, lead, now)
        });
        self.index_viewer(viewer, from);
        self.viewer_queues.be_ready(viewer.index());
        viewer
    }

    /// Limits a viewer that has just joined to its first fragment of MP4.
    pub fn bound(&mut self, id: ViewerId<C>) {
        if let Some(viewer) = self.viewers.get_mut(id) {
            viewer.end = Viewer::<C>::AT_FRAGMENT_END;
        }
    }

    /// Returns the number of bytes for a viewer of one fragment: up to the end of the first fragment at
    /// which decoding can begin. Returns `None` if that fragment is not complete. If the stream has
    /// ended, the viewer gets the bytes that came.
    pub fn first_fragment(&mut self, id: ViewerId<C>) -> Option<u64> {
        let viewer = self.viewers.get(id)?;
        let Position::At(from) = viewer.position else {
            return None;
        };
        let joins = self.points.joins.iter().map(|join| join.start.offset);
        let join = joins.filter(|join| *join >= from).min();
        let whole = join.and_then(|join| self.end_of_media(join));
        let end = whole.or(self.end.map(|_| self.buffer.newest))?;
        let viewer = self.viewers.get_mut(id)?;
        viewer.end = end;
        Some(viewer.lead.bytes_left() as u64 + (end - from))
    }

    /// Returns the offset after the first `mdat` of MP4 from this box on, if that has come.
    fn end_of_media(&self, mut offset: u64) -> Option<u64> {
        for _ in 0..BOXES_MAX {
            let mut head = Vec::new();
            self.copy_to(&mut head, offset, LARGE_BOX_HEAD_BYTES);
            let head = box_head(&head).ok()?;
            offset = offset.checked_add(head.length)?;
            if offset > self.buffer.newest || &head.kind == b"mdat" {
                break;
            }
        }
        Some(offset).filter(|offset| *offset <= self.buffer.newest)
    }
}
