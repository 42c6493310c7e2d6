//! How a stream is cut into segments, and from which numbers they count.

use std::time::Duration;

use super::LISTED_MAX;
use crate::moment::Moment;

/// How a stream is cut.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Plan {
    /// A segment lasts at least so long.
    pub segment: Duration,
    /// So many of the stream's newest bytes are kept.
    pub buffer_bytes: u64,
    /// Stands in the name of each segment.
    pub tag: u32,
    /// Since 1970, at [`Moment::START`].
    pub started: Duration,
    /// When the stream begins.
    pub began: Moment,
}

/// What numbers count from: the year 2025, in Unix seconds.
const NUMBERS_FROM: u64 = 1_735_689_600;
/// The first segment has the number that is so many times as large as the seconds since then: 32
/// bits last until 2042.
pub(super) const NUMBERS_PER_SECOND: u64 = 4;
/// What comes faster than that, and by more than this, has no segments: so no stream that begins
/// later, here or in another server, has lower numbers.
pub(super) const NUMBERS_AHEAD_MAX: u64 = LISTED_MAX as u64;

/// Discontinuities count from another number after so many numbers,
const DISCONTINUITY_NUMBERS: u64 = 4 * NUMBERS_PER_SECOND;
/// and again from zero after so many of those.
const DISCONTINUITIES: u64 = 16_384;

impl Plan {
    /// The number of a stream's first segment.
    pub(super) fn first_number(&self) -> u64 {
        let date = self.started + self.began.since_start();
        let since = date.saturating_sub(Duration::from_secs(NUMBERS_FROM));
        since.as_secs() * NUMBERS_PER_SECOND
    }

    /// Of discontinuities: another one than that of a stream some seconds before, for players keep
    /// the time by it. And a
    /// small one: hls.js keeps that in an array, which it copies. (It falls every 18 hours, for who
    /// watches the one stream and then the other.)
    pub(super) fn first_discontinuity(&self) -> u64 {
        self.first_number() / DISCONTINUITY_NUMBERS % DISCONTINUITIES
    }
}
