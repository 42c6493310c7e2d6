//! Monotonic time.

use std::ops::Add;
use std::time::Duration;

/// The time since the server started, in nanoseconds: enough for 584 years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Instant(u64);

impl Instant {
    /// When the server started.
    pub const START: Instant = Instant(0);

    /// Returns the instant that lies `elapsed` after the start.
    pub const fn after_start(elapsed: Duration) -> Instant {
        let nanoseconds = elapsed.as_nanos();
        Instant(if nanoseconds < u64::MAX as u128 {
            nanoseconds as u64
        } else {
            u64::MAX
        })
    }

    /// Returns the time between the start and this instant.
    pub const fn since_start(self) -> Duration {
        Duration::from_nanos(self.0)
    }

    /// Returns the time since `earlier`; zero if `earlier` is later than this instant.
    pub const fn since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    fn add(self, wait: Duration) -> Instant {
        Instant(self.0.saturating_add(Instant::after_start(wait).0))
    }
}
