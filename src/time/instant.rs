//! Monotonic time.

use std::num::NonZeroU64;
use std::ops::Add;
use std::time::Duration;

/// The time since the server started, as nanoseconds plus 1: enough for 584 years. An
/// `Option<Instant>` takes no more room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "handover", serde(from = "u64", into = "u64"))]
pub struct Instant(NonZeroU64);

impl Instant {
    /// When the server started.
    pub const START: Instant = Instant::at(0);

    /// Returns the instant at this distance from the start.
    const fn at(nanoseconds: u64) -> Instant {
        Instant(NonZeroU64::MIN.saturating_add(nanoseconds))
    }

    /// Returns the nanoseconds since the start.
    const fn nanoseconds(self) -> u64 {
        self.0.get() - 1
    }

    /// Returns the instant that lies `elapsed` after the start.
    pub const fn after_start(elapsed: Duration) -> Instant {
        let nanoseconds = elapsed.as_nanos();
        Instant::at(if nanoseconds < u64::MAX as u128 {
            nanoseconds as u64
        } else {
            u64::MAX
        })
    }

    /// Returns the time between the start and this instant.
    pub const fn since_start(self) -> Duration {
        Duration::from_nanos(self.nanoseconds())
    }

    /// Returns the time since `earlier`; zero if `earlier` is later than this instant.
    pub const fn since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.nanoseconds().saturating_sub(earlier.nanoseconds()))
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    fn add(self, wait: Duration) -> Instant {
        let wait = Instant::after_start(wait).nanoseconds();
        Instant(self.0.saturating_add(wait))
    }
}

impl Default for Instant {
    fn default() -> Instant {
        Instant::START
    }
}

#[cfg(feature = "handover")]
impl From<u64> for Instant {
    fn from(nanoseconds: u64) -> Instant {
        Instant::at(nanoseconds)
    }
}

#[cfg(feature = "handover")]
impl From<Instant> for u64 {
    fn from(instant: Instant) -> u64 {
        instant.nanoseconds()
    }
}
