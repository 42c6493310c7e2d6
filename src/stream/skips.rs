//! Skips: a viewer falls out of the buffer when appended bytes overwrite its next byte. It gets the
//! rest of its unit, and continues at a later join point. This counts as a skip.
//!
//! A viewer also falls out, without a skip, when the version of the header that it is to get was
//! replaced too long ago ([`StreamBuffer::replace_header`]).
//!
//! This file also makes the bytes that a viewer gets before the buffer's bytes: header and prelude.
//!
//! The index `overwrite_index` finds these viewers. A viewer is in the index if its socket is full,
//! or if it had bytes left after its turn, or if it joins before the newest byte. The others enter
//! it only when an append overwrites bytes after `unindexed_cursor_min`: then more came at once
//! than the buffer keeps.

use std::time::Duration;

use super::points::Detected;
use super::viewer::{Position, ViewerLead};
use super::{StreamBuffer, ViewerId};
use crate::format::Start;
use crate::time::Instant;

impl<C: Copy> StreamBuffer<C> {
    /// Lets a viewer that fell out of the buffer continue, once it has got the rest of its unit. If
    /// the stream has ended, at least `owed` bytes follow.
    pub(super) fn end_skip(&mut self, id: ViewerId<C>, owed: usize) {
        let Some(viewer) = self.viewers.get_mut(id) else {
            return;
        };
        let has_fallen = matches!(viewer.position, Position::Fallen { .. });
        if !has_fallen || viewer.is_bounded() || viewer.lead.bytes_left() > 0 {
            return;
        }
        // The promised bytes must be in the buffer, or the stream could end before them.
        let offset_max = self.buffer.newest.saturating_sub(owed as u64);
        let needs_header = viewer.header_seen != self.points.header_serial;
        let start = match self.points.detected {
            Detected::Known(_) => self
                .points
                .start(offset_max, Instant::after_start(Duration::MAX)),
            // The viewer continues at the live edge: the beginning of the newest piece.
            Detected::Undecided | Detected::Unknown => {
                let live_edge = self.newest_piece.min(offset_max);
                Some(Start::at(live_edge.max(self.buffer.oldest)))
            }
        };
        let Some(start) = start else {
            // The viewer waits for the next join point.
            return;
        };
        let lead = self.lead(&start, needs_header);
        let mut cursor = start.offset;
        if cursor > offset_max && self.end.is_some() {
            // The stream has ended, and no join point is far enough back for the promised bytes:
            // whole units fill them.
            cursor = self.points.unit_before(offset_max).unwrap_or(cursor);
        }
        if let Some(viewer) = self.viewers.get_mut(id) {
            viewer.position = Position::At(cursor);
            viewer.lead = lead;
            viewer.header_seen = self.points.header_serial;
        }
        self.index_viewer(id, cursor);
    }

    /// Returns the bytes that a viewer who joins at `now` gets first, and the offset of its first
    /// byte in the stream.
    pub fn opening(&self, now: Instant) -> (Vec<u8>, u64) {
        match self.start(now) {
            (start, true) => self.opening_at(&start),
            // Such a start has no prelude.
            (start, false) => (Vec::new(), start.offset),
        }
    }

    /// Returns the header and the prelude in front of the oldest join point or unit in the buffer,
    /// and its offset.
    pub fn oldest_opening(&self) -> (Vec<u8>, u64) {
        let start = self.points.oldest_start();
        self.opening_at(&start.unwrap_or_else(|| Start::at(self.buffer.newest)))
    }

    /// Returns the header and the prelude in front of a start, and its offset.
    pub(super) fn opening_at(&self, start: &Start) -> (Vec<u8>, u64) {
        let mut lead = self.header().at(start.counter);
        lead.extend_from_slice(start.prelude.as_slice());
        (lead, start.offset)
    }

    /// Returns the bytes in front of a start: the header if the viewer needs it, and the prelude.
    pub(super) fn lead(&mut self, start: &Start, needs_header: bool) -> ViewerLead {
        if needs_header && self.versions.is_other(start.counter) {
            self.replace_header();
        }
        let header = || self.versions.current(self.scanner.header(), start.counter);
        let header = needs_header.then(header);
        ViewerLead::new(header, start.prelude.as_slice().to_vec())
    }

    /// Replaces the header. Disconnects viewers that are in the middle of a version that was
    /// replaced too long ago.
    pub(super) fn replace_header(&mut self) {
        let Some(version) = self.versions.replace() else {
            return;
        };
        let viewers = self.viewers.iter();
        let within = viewers.filter(|(_, viewer)| viewer.lead.holds(&version));
        for id in within.map(|(id, _)| id).collect::<Vec<_>>() {
            self.unindex_viewer(id);
            let Some(viewer) = self.viewers.get_mut(id) else {
                continue;
            };
            // A viewer that was sent nothing of the old version gets the new one. The response of a
            // bounded viewer promises bytes after the old one.
            if viewer.lead.has_begun() || viewer.is_bounded() {
                self.cut.push(viewer.connection);
            }
            viewer.lead = ViewerLead::default();
            viewer.position = Position::Fallen {
                holds_unit_tail: false,
            };
            viewer.header_seen = 0;
        }
    }

    /// Adds a viewer to the index, unless it is there.
    pub(super) fn index_viewer(&mut self, id: ViewerId<C>, cursor: u64) {
        if let Some(viewer) = self.viewers.get_mut(id)
            && viewer.index_key.is_none()
        {
            viewer.index_key = Some(cursor);
            self.overwrite_index.insert((cursor, id));
        }
    }

    /// Removes a viewer from the index, if it is there.
    pub(super) fn unindex_viewer(&mut self, id: ViewerId<C>) {
        if let Some(viewer) = self.viewers.get_mut(id)
            && let Some(key) = viewer.index_key.take()
        {
            self.overwrite_index.remove(&(key, id));
        }
    }

    /// Lets the viewers skip whose next byte lies before `oldest`, as these bytes are about to be
    /// overwritten.
    pub(super) fn skip_before(&mut self, oldest: u64) {
        if oldest > self.unindexed_cursor_min {
            self.index_all_ready();
        }
        while let Some(&(key, id)) = self.overwrite_index.first()
            && key < oldest
        {
            self.unindex_viewer(id);
            match self.viewers.get(id).map(|viewer| viewer.position) {
                Some(Position::At(cursor)) if cursor < oldest => self.begin_skip(id, cursor),
                Some(Position::At(cursor)) => self.index_viewer(id, cursor),
                Some(Position::Fallen { .. }) | None => {}
            }
        }
    }

    /// Adds all ready viewers to the index. More bytes came than this server could send to viewers
    /// with open sockets ([`StreamBuffer::wanted_bytes`] tries to prevent it), so they may skip,
    /// too.
    fn index_all_ready(&mut self) {
        let ready: Vec<_> = self
            .viewer_queues
            .ready()
            .filter_map(|place| self.viewers.id_at(place))
            .collect();
        for id in ready {
            if let Some(Position::At(cursor)) = self.viewers.get(id).map(|viewer| viewer.position) {
                self.index_viewer(id, cursor);
            }
        }
        self.unindexed_cursor_min = self.buffer.newest;
    }

    /// Begins a viewer's skip: copies the rest of its current unit for it, so that the player sees
    /// a gap and no broken unit. Disconnects the viewer if that cannot be done.
    fn begin_skip(&mut self, id: ViewerId<C>, cursor: u64) {
        let Some(viewer) = self.viewers.get_mut(id) else {
            return;
        };
        if viewer.is_bounded() {
            // The response has promised bytes that are overwritten.
            viewer.position = Position::Fallen {
                holds_unit_tail: false,
            };
            viewer.lead = ViewerLead::default();
            return self.cut.push(viewer.connection);
        }
        self.figures.skips = self.figures.skips.saturating_add(1);
        viewer.skips = viewer.skips.saturating_add(1);
        viewer.position = Position::Fallen {
            holds_unit_tail: false,
        };
        if self.points.is_past_header(cursor) {
            viewer.header_seen = self.points.header_serial;
        }
        if viewer.lead.bytes_left() > 0 {
            // The rest of the lead is still sent; the viewer is before a unit's first byte. If
            // nothing of the lead was sent, it is dropped, and the viewer gets the current header
            // later.
            if !viewer.lead.has_begun() {
                viewer.lead = ViewerLead::default();
                viewer.header_seen = 0;
            }
            return;
        }
        if self.points.detected == Detected::Unknown || cursor == 0 {
            return;
        }
        let unit_tail_bytes_left =
            self.buffer.bytes_max().saturating_sub(self.unit_tail_bytes) as u64;
        match self.points.unit_end(cursor) {
            Some(unit_end) if unit_end - cursor <= unit_tail_bytes_left => {
                let mut rest = Vec::with_capacity((unit_end - cursor) as usize);
                self.buffer.copy_to(&mut rest, cursor, unit_end);
                self.unit_tail_bytes += rest.capacity();
                if self.points.is_past_header(unit_end) {
                    viewer.header_seen = self.points.header_serial;
                }
                viewer.position = Position::Fallen {
                    holds_unit_tail: true,
                };
                viewer.lead = ViewerLead::new(None, rest);
            }
            Some(_) | None => self.cut.push(viewer.connection),
        }
    }
}
