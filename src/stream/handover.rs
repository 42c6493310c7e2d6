//! The hand-over of a stream: its bytes are sent while it runs, its state and its viewers' cursors are
//! sent last.

use std::collections::BTreeSet;
use std::rc::{Rc, Weak};
use std::time::Duration;

use super::buffer::Buffer;
use super::points::{Detected, Join, Points};
use super::versions::{REPLACED_MAX, Version, Versions};
use super::viewer::{LeadBytes, Position, ViewerLead};
use super::viewer_queues::ViewerQueues;
use super::{Limits, Pool, StreamBuffer, Viewer, ViewerId};
use crate::copied::{Copied, CopiedPart};
use crate::format::matroska::CLUSTER_HEAD;
use crate::format::{Format, HEADER_BYTES_MAX, Scanner, Start};
use crate::handover::{HandoverError, must};
use crate::slots::Slots;
use crate::time::Instant;

/// Join points that a remuxer goes back, at least: units that wait for other tracks lie before the
/// newest.
const RESUME_JOINS: usize = 3;
/// Time that it goes back, at least, if there are so old join points. Each picture may be one, and the
/// sound may come a second after it.
const RESUME_TIME: Duration = Duration::from_secs(2);

/// A header that viewers share.
pub type HeaderVersion = Version;

/// Bytes of a stream whose state has not come yet.
pub struct Received(Buffer);

impl Received {
    /// Begins without bytes.
    pub fn new(limits: &Limits) -> Received {
        Received(Buffer::new(limits.buffer_bytes))
    }

    /// Takes bytes that begin at the offset `from`. They continue the received bytes, or replace them.
    pub fn take(&mut self, from: u64, bytes: &[u8], pool: &mut Pool) -> Result<(), HandoverError> {
        self.0.receive(from, bytes, pool)
    }

    /// Returns the memory of the bytes to the pool.
    pub fn release(mut self, pool: &mut Pool) {
        self.0.release(pool);
    }
}

impl<C: Copy> StreamBuffer<C> {
    /// Returns the offset of the first byte in the buffer.
    pub fn oldest(&self) -> u64 {
        self.buffer.oldest
    }

    /// Returns where a remuxer reads again that has read from `from` up to `offset`, and what it reads
    /// first: [`RESUME_JOINS`] join points and [`RESUME_TIME`] back, or else at the first byte of the newest source, or at
    /// the oldest unit that it has read and the buffer has.
    pub fn opening_before(&self, (from, offset): (u64, u64), now: Instant) -> (Vec<u8>, u64) {
        let joins = self.points.joins.iter();
        let from = from.max(self.seam);
        let is_before = |start: &Start| (from..=offset).contains(&start.offset);
        let before: Vec<&Join> = joins.filter(|join| is_before(&join.start)).collect();
        let has_all = from == self.seam && self.buffer.oldest <= self.seam;
        if before.len() < RESUME_JOINS && has_all {
            let has_header = self.seam > 0;
            let header = has_header.then(|| self.header().to_vec());
            return (header.unwrap_or_default(), self.seam);
        }
        let start = match before.len().checked_sub(RESUME_JOINS) {
            Some(place) => {
                let newest = before.last().map_or(now, |join| join.at);
                let is_old = |join: &&Join| newest.since(join.at) >= RESUME_TIME;
                let mut older = before[..=place].iter().rev().copied();
                let join = older.find(is_old).or(before.first().copied());
                join.map(|join| join.start)
            }
            None => {
                let mut units = self.points.units.iter().map(|unit| Start::at(*unit));
                let unit = units.find(|unit| is_before(unit) && self.is_complete_at(unit.offset));
                let join = before.first().map(|join| join.start);
                [unit, join]
                    .into_iter()
                    .flatten()
                    .min_by_key(|start| start.offset)
            }
        };
        match start {
            Some(start) => self.opening_at(&start),
            None => self.opening(now),
        }
    }

    /// Returns whether the unit at this offset needs no prelude. A block of Matroska needs the head of
    /// its Cluster.
    fn is_complete_at(&self, offset: u64) -> bool {
        let is_matroska = matches!(
            self.points.detected,
            Detected::Known(Format::Matroska | Format::WebM)
        );
        !is_matroska || self.slice(offset, 1) == [CLUSTER_HEAD[0]]
    }

    /// Returns the viewers to send, each with its id.
    pub fn viewers(&self) -> impl Iterator<Item = (ViewerId<C>, &Viewer<C>)> {
        self.viewers.iter()
    }

    /// Returns the bytes of its scanner of this kind.
    pub fn copied(&mut self, part: CopiedPart) -> Option<&mut Copied> {
        self.scanner.copied(part)
    }

    /// Returns the bytes that a viewer is sent first and does not share.
    pub fn own_bytes(&mut self, id: ViewerId<C>) -> Option<&mut Copied> {
        let front = self.viewers.get_mut(id)?.lead.0.as_mut()?;
        Some(&mut front.own)
    }

    /// Adds the bytes and the viewers of a received stream, within these bounds.
    pub fn become_whole(
        &mut self,
        Received(mut buffer): Received,
        viewers: Vec<(ViewerId<C>, Viewer<C>)>,
        (limits, places_max): (&Limits, usize),
        pool: &mut Pool,
    ) -> Result<(), HandoverError> {
        buffer.become_as(&self.buffer, pool)?;
        self.buffer = buffer;
        self.limits = *limits;
        let next = viewers.iter().map(|(id, _)| id.generation()).max();
        let next = next.map_or(0, |last| last.wrapping_add(1));
        self.viewers = Slots::of(viewers, next, places_max)?;
        Ok(())
    }

    /// Checks the received state against the bytes, and completes it.
    pub fn restore(&mut self) -> Result<(), HandoverError> {
        let newest = self.buffer.newest;
        must(
            [self.unindexed_cursor_min, self.newest_piece, self.seam]
                .iter()
                .all(|place| *place <= newest),
            || "places that lie ahead of its newest byte".to_owned(),
        )?;
        self.points.check(self.buffer.oldest, newest)?;
        must(self.scanner.is_valid(newest), || {
            "what reads its container has read other bytes".to_owned()
        })?;
        let buffer_bytes = self.buffer.bytes_max() as u64;
        if let Some(cutter) = &mut self.cutter {
            cutter.fit(newest, buffer_bytes)?;
        }
        self.adopt_viewers()
    }

    /// Drops a state that does not fit. The stream can only end now: its viewers have all bytes.
    pub fn give_up(&mut self) {
        let newest = self.buffer.newest;
        (self.scanner, self.points) = (Scanner::default(), Points::default());
        (self.cutter, self.versions) = (None, Versions::default());
        (self.viewer_queues, self.overwrite_index) = (ViewerQueues::default(), BTreeSet::new());
        (self.unindexed_cursor_min, self.newest_piece, self.seam) = (newest, newest, newest);
        self.unit_tail_bytes = 0;
        let ids: Vec<ViewerId<C>> = self.viewers.iter().map(|(id, _)| id).collect();
        for viewer in ids {
            if let Some(viewer) = self.viewers.get_mut(viewer) {
                viewer.position = Position::At(newest);
                (viewer.end, viewer.index_key) = (Viewer::<C>::ENDLESS, None);
                viewer.lead = ViewerLead::default();
            }
            self.viewer_queues.be_ready(viewer.index());
        }
    }

    /// Returns the bytes that its buffer may take even if the pool is empty.
    pub fn granted_bytes(&self) -> usize {
        self.buffer.granted_bytes()
    }

    /// Records that the socket of this viewer takes nothing for now.
    pub fn set_blocked(&mut self, id: ViewerId<C>) {
        self.viewer_queues.leave(id.index());
    }

    /// Makes all viewers ready. A viewer with nothing to get waits again after its turn.
    fn adopt_viewers(&mut self) -> Result<(), HandoverError> {
        let (oldest, newest) = (self.buffer.oldest, self.buffer.newest);
        (self.viewer_queues, self.overwrite_index) = (ViewerQueues::default(), BTreeSet::new());
        self.unit_tail_bytes = 0;
        let current = self.scanner.header().to_vec();
        let ids: Vec<ViewerId<C>> = self.viewers.iter().map(|(id, _)| id).collect();
        for id in ids {
            let Some(viewer) = self.viewers.get_mut(id) else {
                continue;
            };
            viewer.check(oldest, newest)?;
            if !viewer.is_bounded()
                && let Some(front) = &mut viewer.lead.0
                && let Some(header) = &mut front.header
            {
                *header = self.versions.share(Rc::clone(header), &current)?;
            }
            self.viewer_queues.be_ready(id.index());
            self.overwrite_index
                .extend(viewer.index_key.map(|key| (key, id)));
            if let (Position::At(cursor), None) = (viewer.position, viewer.index_key) {
                // This is also right for a viewer that waited for a larger piece.
                self.unindexed_cursor_min = self.unindexed_cursor_min.min(cursor);
            }
            if viewer.position
                == (Position::Fallen {
                    holds_unit_tail: true,
                })
            {
                self.unit_tail_bytes += viewer.lead.memory_bytes();
            }
        }
        must(self.unit_tail_bytes <= self.buffer.bytes_max(), || {
            "the rests of its viewers' units are larger than its buffer".to_owned()
        })
    }
}

impl Versions {
    /// Returns the version with the same bytes, if it is known: the current one, or a replaced one.
    fn share(&mut self, header: Version, current: &[u8]) -> Result<Version, HandoverError> {
        let known = self.replaced.iter().chain([&self.current]);
        let mut known = known.filter_map(Weak::upgrade);
        if let Some(same) = known.find(|known| *known == header) {
            return Ok(same);
        }
        drop(known);
        let is_full = self.replaced.len() >= REPLACED_MAX && self.current.strong_count() == 0;
        if *header == current || is_full {
            self.current = Rc::downgrade(&header);
            // The start that it was made for is not sent. No later start has this number.
            self.counter = (*header != current).then_some(u8::MAX);
        } else {
            self.replaced.push(Rc::downgrade(&header));
        }
        let is_fit = self.replaced.len() <= REPLACED_MAX && header.len() <= HEADER_BYTES_MAX;
        must(is_fit, || {
            "too many of its viewers are within old headers".to_owned()
        })?;
        Ok(header)
    }
}

impl Points {
    /// Checks that the places lie within a buffer with these offsets.
    fn check(&self, oldest: u64, newest: u64) -> Result<(), HandoverError> {
        let joins = self.joins.iter().map(|join| join.start.offset);
        let units = self.units.iter().copied();
        let unit = self.newest_unit.iter().map(|unit| unit.offset);
        let mut places = joins.clone().chain(units.clone()).chain(unit);
        let is_fit = joins.is_sorted()
            && units.is_sorted()
            && places.all(|place| (oldest..=newest).contains(&place));
        must(is_fit, || {
            "places to begin that lie outside of its bytes".to_owned()
        })
    }
}

impl<C> Viewer<C> {
    /// Checks the received state against a buffer with these offsets.
    fn check(&self, oldest: u64, newest: u64) -> Result<(), HandoverError> {
        let stands = match self.position {
            Position::At(cursor) => {
                (oldest..=newest).contains(&cursor)
                    && self.end >= cursor
                    && self.index_key.is_none_or(|key| key <= cursor)
            }
            Position::Fallen { holds_unit_tail } => {
                self.index_key.is_none() && !(holds_unit_tail && self.is_bounded())
            }
        };
        must(stands && self.lead.is_valid(), || {
            format!(
                "a viewer stands at {:?}, of {oldest} to {newest}",
                self.position
            )
        })
    }

    /// Returns the header that it shares with other viewers, if it has not got all of it.
    pub fn header(&self) -> Option<&HeaderVersion> {
        self.lead.0.as_ref()?.header.as_ref()
    }

    /// Returns the connection that it is for.
    pub fn connection(&self) -> &C {
        &self.connection
    }

    /// Puts what was copied before in front of the bytes that it does not share.
    pub fn complete(&mut self, copy: Option<Vec<u8>>) -> Result<(), HandoverError> {
        match &mut self.lead.0 {
            Some(front) => front.own.complete(copy),
            None => Ok(()),
        }
    }

    /// Sets the header that it shares with other viewers, if it has a lead at all.
    pub fn set_header(&mut self, header: HeaderVersion) {
        if let Some(front) = &mut self.lead.0 {
            front.header = Some(header);
        }
    }
}

impl ViewerLead {
    /// Returns whether the part that has been sent is within the lead.
    fn is_valid(&self) -> bool {
        let whole = |front: &LeadBytes| front.header.as_deref().unwrap_or(&front.own).len();
        self.0
            .as_deref()
            .is_none_or(|front| front.sent <= whole(front))
    }
}
