//! What there is to say of each viewer, for who asks.

use std::time::Duration;

use super::viewer::Position;
use super::{StreamBuffer, ViewerId};
use crate::time::Instant;

/// A viewer, as it is now.
#[derive(Clone, Copy, Debug)]
pub struct Seen<C> {
    /// Its place among the stream's viewers: no other has it while it is there.
    pub place: usize,
    /// What the owner knows it by.
    pub connection: C,
    /// It gets a segment, and nothing else.
    pub is_of_segment: bool,
    /// Since when it is there.
    pub since: Instant,
    /// Bytes that it has got.
    pub bytes_sent: u64,
    /// How far it is behind the newest byte,
    pub behind_bytes: u64,
    /// and behind the moment at which its next one arrived.
    pub behind: Duration,
    /// How often it fell out of the buffer.
    pub skips: u32,
}

impl<C: Copy> StreamBuffer<C> {
    /// How many viewers it has.
    pub fn viewer_count(&self) -> usize {
        self.viewers.len()
    }

    /// What the owner knows its viewers by.
    pub fn connections(&self) -> impl Iterator<Item = C> {
        self.viewers.iter().map(|(_, viewer)| viewer.connection)
    }

    /// How far a viewer is behind the newest byte: in bytes, and in the time since the next one for
    /// it arrived. Of one that fell out of the buffer all of which there is.
    pub fn behind(&self, id: ViewerId<C>, now: Instant) -> (u64, Duration) {
        let cursor = match self.viewers.get(id).map(|viewer| viewer.position) {
            Some(Position::At(cursor)) => cursor,
            Some(Position::Fallen { .. }) | None => self.buffer.oldest(),
        };
        let bytes = self.buffer.newest().saturating_sub(cursor);
        let arrived = self.buffer.arrived(cursor).filter(|_| bytes > 0);
        (bytes, now.since(arrived.unwrap_or(now)))
    }

    /// Its viewers from this place on, in the order of their places.
    pub fn seen_from(&self, place: usize, now: Instant) -> impl Iterator<Item = Seen<C>> {
        let those = self.viewers.iter_from(place);
        those.filter_map(move |(id, _)| self.seen(id, now))
    }

    /// One of them.
    pub fn seen(&self, id: ViewerId<C>, now: Instant) -> Option<Seen<C>> {
        let viewer = self.viewers.get(id)?;
        let (behind_bytes, behind) = self.behind(id, now);
        Some(Seen {
            place: id.index(),
            connection: viewer.connection,
            is_of_segment: viewer.is_bounded(),
            since: viewer.since,
            bytes_sent: viewer.bytes_sent,
            behind_bytes,
            behind,
            skips: viewer.skips,
        })
    }
}
