//! How a stream is cut into segments, and the number of its first segment.

use std::time::Duration;

use super::LISTED_MAX;
use crate::time::Instant;

/// How a stream is cut.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Plan {
    /// Shortest duration of a segment.
    pub segment: Duration,
    /// Size of the stream's buffer in bytes.
    pub buffer_bytes: u64,
    /// Random part of each segment's name.
    pub tag: u32,
    /// Unix time of [`Instant::START`].
    pub started: Duration,
    /// Beginning of the stream.
    pub began: Instant,
    /// Lowest number for a segment: earlier streams of the session used the numbers below.
    pub number_min: u64,
}

/// Numbers count from the year 2025, in Unix seconds.
const NUMBERS_FROM: u64 = 1_735_689_600;
/// The first segment's number is the seconds since then, times this. 32 bits last until 2042.
const NUMBERS_PER_SECOND: u64 = 4;
/// A stream's numbers may run ahead of that clock by at most this many. A faster stream gets no
/// further segments. So a stream that begins some seconds later, here or in another server, never
/// has lower numbers. [`Plan::number_min`] does the same for a stream that follows at once.
pub(super) const NUMBERS_AHEAD_MAX: u64 = LISTED_MAX as u64;

/// Discontinuities count from another number after this many segment numbers.
const DISCONTINUITY_NUMBERS: u64 = 4 * NUMBERS_PER_SECOND;
/// Discontinuities count from zero again after this many of those numbers.
const DISCONTINUITIES: u64 = 16_384;

impl Plan {
    /// Returns the number of the first segment. If the machine's clock is wrong and says a year before
    /// 2025, numbers count from the start of the server.
    pub(super) fn first_number(&self) -> u64 {
        self.number_min.max(self.number_at(self.began))
    }

    /// Returns the number that the clock of numbers shows at a time.
    pub fn number_at(&self, time: Instant) -> u64 {
        let since_start = time.since_start();
        let now = (self.started + since_start).as_secs();
        now.saturating_sub(NUMBERS_FROM).max(since_start.as_secs()) * NUMBERS_PER_SECOND
    }

    /// Returns after how many seconds from a time on the clock of numbers has reached a number.
    pub fn seconds_until(&self, number: u64, time: Instant) -> u64 {
        let missing = number.saturating_sub(self.number_at(time));
        missing.div_ceil(NUMBERS_PER_SECOND)
    }

    /// Returns the first discontinuity number. It differs from that of a stream some seconds before,
    /// because players keep times by it. It is small, because hls.js uses it as an array index. It
    /// falls back every 18 hours, which matters only to a player that goes from one stream to the next.
    pub(super) fn first_discontinuity(&self) -> u64 {
        self.first_number() / DISCONTINUITY_NUMBERS % DISCONTINUITIES
    }
}
