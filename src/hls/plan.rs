//! How a stream is cut, and from which numbers on its segments are counted.

use std::time::Duration;

use super::LISTED_MAX;
#[cfg(feature = "handover")]
use crate::handover::{are_counts, are_spans};
use crate::time::Instant;

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
    /// Since 1970, at [`Instant::START`].
    pub started: Duration,
    /// When the stream begins.
    pub began: Instant,
    /// Its segments have no lower number: others, that are still known, have those.
    pub number_min: u64,
}

/// What numbers count from: the year 2025, in Unix seconds.
const NUMBERS_FROM: u64 = 1_735_689_600;
/// The first segment has the number that is so many times as large as the seconds since then: 32
/// bits last until 2042.
const NUMBERS_PER_SECOND: u64 = 4;
/// What comes faster than that, and by more than this, has no segments: so no stream that begins
/// some seconds later, here or in another server, has lower numbers; and none that begins here
/// while this one is known still ([`Plan::number_min`]).
pub(super) const NUMBERS_AHEAD_MAX: u64 = LISTED_MAX as u64;

/// Discontinuities count from another number after so many numbers,
const DISCONTINUITY_NUMBERS: u64 = 4 * NUMBERS_PER_SECOND;
/// and again from zero after so many of those.
const DISCONTINUITIES: u64 = 16_384;

impl Plan {
    /// The number of its first segment.
    pub(super) fn first_number(&self) -> u64 {
        let date = self.started + self.began.since_start();
        let since = date.saturating_sub(Duration::from_secs(NUMBERS_FROM));
        self.number_min.max(since.as_secs() * NUMBERS_PER_SECOND)
    }

    /// Another one than that of a stream some seconds before: players keep the time by it. And a
    /// small one: hls.js keeps that in an array, which it copies. (It falls every 18 hours, for who
    /// watches the one stream and then the other.)
    pub(super) fn first_discontinuity(&self) -> u64 {
        self.first_number() / DISCONTINUITY_NUMBERS % DISCONTINUITIES
    }
}

#[cfg(feature = "handover")]
impl Plan {
    /// Whether what was told of it can be.
    pub(super) fn fits(&self) -> bool {
        let (shortest, longest) = (Duration::from_millis(1), SEGMENT_MAX);
        (shortest..=longest).contains(&self.segment)
            && are_spans([self.started])
            && are_counts([self.number_min])
    }
}

/// Longer than any that can be asked for.
#[cfg(feature = "handover")]
const SEGMENT_MAX: Duration = Duration::from_secs(3600);
