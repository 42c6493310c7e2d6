//! The figures of each viewer, for lists.

use std::time::Duration;

use super::viewer::Position;
use super::{StreamBuffer, ViewerId};
use crate::time::Instant;

/// What a viewer gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// The stream.
    Whole,
    /// One segment.
    Segment,
    /// The header and one fragment of MP4.
    Fragment,
}

/// Figures of a viewer.
#[derive(Clone, Copy, Debug)]
pub struct ViewerFigures<C> {
    /// Index among the stream's viewers. No other viewer has it at the same time.
    pub index: usize,
    /// The owner's name for the viewer.
    pub connection: C,
    /// What the viewer gets.
    pub extent: Extent,
    /// When the viewer joined.
    pub since: Instant,
    /// Media bytes that were sent to the viewer.
    pub bytes_sent: u64,
    /// Distance to the newest byte.
    pub behind_bytes: u64,
    /// Milliseconds since the viewer's next byte arrived.
    pub behind_ms: u64,
    /// How often the viewer fell out of the buffer.
    pub skips: u32,
}

impl<C: Copy> StreamBuffer<C> {
    /// Returns the number of viewers.
    pub fn viewer_count(&self) -> usize {
        self.viewers.len()
    }

    /// Returns the owner's names for the viewers.
    pub fn connections(&self) -> impl Iterator<Item = C> {
        self.viewers.iter().map(|(_, viewer)| viewer.connection)
    }

    /// Returns how far a viewer is behind the newest byte: in bytes, and in the time since its next
    /// byte arrived. A viewer that fell out of the buffer is behind by the whole buffer.
    pub fn lag_of(&self, id: ViewerId<C>, now: Instant) -> (u64, Duration) {
        let cursor = match self.viewers.get(id).map(|viewer| viewer.position) {
            Some(Position::At(cursor)) => cursor,
            Some(Position::Fallen { .. }) | None => self.buffer.oldest,
        };
        let bytes = self.buffer.newest.saturating_sub(cursor);
        let arrived = self.buffer.arrived(cursor).filter(|_| bytes > 0);
        (bytes, now.since(arrived.unwrap_or(now)))
    }

    /// Returns the viewers whose index is at least `index`, in the order of their indexes.
    pub fn figures_from(
        &self,
        index: usize,
        now: Instant,
    ) -> impl Iterator<Item = ViewerFigures<C>> {
        let those = self.viewers.iter_from(index);
        those.filter_map(move |(id, _)| self.viewer_figures(id, now))
    }

    /// Returns the figures of one viewer.
    pub fn viewer_figures(&self, id: ViewerId<C>, now: Instant) -> Option<ViewerFigures<C>> {
        let viewer = self.viewers.get(id)?;
        let (behind_bytes, lag) = self.lag_of(id, now);
        Some(ViewerFigures {
            index: id.index(),
            connection: viewer.connection,
            extent: match (viewer.is_bounded(), viewer.header_seen) {
                (false, _) => Extent::Whole,
                // A playlist names the header of its segments.
                (true, 0) => Extent::Segment,
                (true, _) => Extent::Fragment,
            },
            since: viewer.since,
            bytes_sent: viewer.bytes_sent,
            behind_bytes,
            behind_ms: u64::try_from(lag.as_millis()).unwrap_or(u64::MAX),
            skips: viewer.skips,
        })
    }
}
