//! Viewers that fall out of the buffer: who is found, what is kept for them, and where they go on.

use std::time::Duration;

use super::points::{Back, Told};
use super::viewer::{Lead, Position};
use super::{StreamBuffer, ViewerId};
use crate::format::Start;
use crate::time::Instant;

impl<C: Copy> StreamBuffer<C> {
    pub(super) fn catch_up(&mut self, id: ViewerId<C>, owed: usize) {
        let Some(viewer) = self.viewers.get_mut(id) else {
            return;
        };
        if !viewer.has_fallen() || viewer.is_bounded() || viewer.lead.bytes_left() > 0 {
            return;
        }
        // What is owed must be there, or the stream's end could come before it.
        let offset_max = self.buffer.newest().saturating_sub(owed as u64);
        let back = Back {
            offset_max,
            moment_max: Instant::after_start(Duration::MAX),
        };
        let needs_header = viewer.header_seen != self.points.header_serial;
        let start = match self.points.told {
            // It waits for the next place where it can go on.
            Told::Known(_) => match self.points.start(&back) {
                None => return,
                Some(start) => start,
            },
            // At the live edge, which is where the newest piece begins.
            Told::Undecided | Told::Unknown => {
                let live_edge = self.newest_piece.min(offset_max);
                Start::at(live_edge.max(self.buffer.oldest()))
            }
        };
        let lead = self.lead(&start, needs_header);
        let cursor = start.offset;
        let Some(viewer) = self.viewers.get_mut(id) else {
            return;
        };
        // The stream has ended, and what is owed goes further back than any join: it is made up of
        // whole units.
        let earlier = Some(cursor)
            .filter(|cursor| *cursor > offset_max && self.end.is_some())
            .and_then(|_| self.points.unit_before(offset_max));
        viewer.position = Position::At(earlier.unwrap_or(cursor));
        viewer.lead = lead;
        viewer.header_seen = self.points.header_serial;
        self.lag(id, earlier.unwrap_or(cursor));
    }

    /// Where a viewer would begin that came at `now`, and what it would get first, which is copied.
    pub fn opening(&self, now: Instant) -> (Vec<u8>, u64) {
        let (start, needs_header) = self.start(now);
        let header = needs_header.then(|| self.header().at(start.counter));
        let mut lead = header.unwrap_or_default();
        lead.extend_from_slice(start.prelude.as_slice());
        (lead, start.offset)
    }

    /// What goes out before a start: the header only where the viewer has not had it.
    pub(super) fn lead(&mut self, start: &Start, needs_header: bool) -> Lead {
        if needs_header && self.versions.is_other(start.counter) {
            self.replace_header();
        }
        let header = || self.versions.current(self.scanner.header(), start.counter);
        let header = needs_header.then(header);
        Lead::of_start(header, start.prelude.as_slice())
    }

    /// The header has changed: who is within one that was replaced too long ago cannot go on.
    pub(super) fn replace_header(&mut self) {
        let Some(version) = self.versions.replace() else {
            return;
        };
        let viewers = self.viewers.iter();
        let within = viewers.filter(|(_, viewer)| viewer.lead.holds(&version));
        for id in within.map(|(id, _)| id).collect::<Vec<_>>() {
            self.stop_lagging(id);
            let Some(viewer) = self.viewers.get_mut(id) else {
                continue;
            };
            // Who has nothing of it yet begins with the new one.
            if viewer.lead.has_begun() {
                self.cut.push(viewer.connection);
            }
            viewer.lead = Lead::default();
            viewer.position = Position::Fallen { holds_rest: false };
            viewer.header_seen = 0;
        }
    }

    pub(super) fn lag(&mut self, id: ViewerId<C>, cursor: u64) {
        if let Some(viewer) = self.viewers.get_mut(id)
            && viewer.lag_key.is_none()
        {
            viewer.lag_key = Some(cursor);
            self.lagging.insert((cursor, id));
        }
    }

    pub(super) fn stop_lagging(&mut self, id: ViewerId<C>) {
        if let Some(viewer) = self.viewers.get_mut(id)
            && let Some(key) = viewer.lag_key.take()
        {
            self.lagging.remove(&(key, id));
        }
    }

    /// The bytes before `oldest` are about to be overwritten.
    pub(super) fn let_fall(&mut self, oldest: u64) {
        if oldest > self.pace_floor {
            self.watch_all_ready();
        }
        while let Some(&(key, id)) = self.lagging.first()
            && key < oldest
        {
            self.stop_lagging(id);
            match self.viewers.get(id).map(|viewer| viewer.position) {
                Some(Position::At(cursor)) if cursor < oldest => self.fall(id, cursor),
                Some(Position::At(cursor)) => self.lag(id, cursor),
                Some(Position::Fallen { .. }) | None => {}
            }
        }
    }

    /// More has arrived than those who keep up could be given, which [`StreamBuffer::wanted_bytes`]
    /// warned of: all of them may fall out.
    fn watch_all_ready(&mut self) {
        let ready: Vec<_> = self
            .lines
            .ready()
            .filter_map(|place| self.viewers.id_at(place))
            .collect();
        for id in ready {
            if let Some(Position::At(cursor)) = self.viewers.get(id).map(|viewer| viewer.position) {
                self.lag(id, cursor);
            }
        }
        self.pace_floor = self.buffer.newest();
    }

    /// A viewer loses its place. What it was in the middle of is kept for it, so that its player
    /// sees a gap and no broken unit.
    fn fall(&mut self, id: ViewerId<C>, cursor: u64) {
        let Some(viewer) = self.viewers.get_mut(id) else {
            return;
        };
        if viewer.is_bounded() {
            // It has been promised bytes that are gone.
            self.shared_bytes -= viewer.shared_bytes();
            viewer.position = Position::Fallen { holds_rest: false };
            viewer.lead = Lead::default();
            return self.cut.push(viewer.connection);
        }
        self.figures.skips += 1;
        viewer.skips = viewer.skips.saturating_add(1);
        viewer.position = Position::Fallen { holds_rest: false };
        if self.points.is_past_header(cursor) {
            viewer.header_seen = self.points.header_serial;
        }
        if viewer.lead.bytes_left() > 0 {
            // It stands before a unit's first byte; a header of which it has nothing yet is chosen
            // anew.
            if !viewer.lead.has_begun() {
                viewer.lead = Lead::default();
                viewer.header_seen = 0;
            }
            return;
        }
        if self.points.told == Told::Unknown || cursor == 0 {
            return;
        }
        let rest_bytes_left =
            (self.buffer.bytes_max() - self.rest_bytes.min(self.buffer.bytes_max())) as u64;
        match self.points.unit_end(cursor) {
            Some(unit_end) if unit_end - cursor <= rest_bytes_left => {
                let mut rest = Vec::with_capacity((unit_end - cursor) as usize);
                self.buffer.copy_to(&mut rest, cursor, unit_end);
                self.rest_bytes += rest.capacity();
                if self.points.is_past_header(unit_end) {
                    viewer.header_seen = self.points.header_serial;
                }
                viewer.position = Position::Fallen { holds_rest: true };
                viewer.lead = Lead::of_rest(rest);
            }
            Some(_) | None => self.cut.push(viewer.connection),
        }
    }
}
