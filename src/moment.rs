//! Points in time, as the shell's clock hands them in.
//!
//! Nothing below the shell reads a clock; a test or a simulation makes up whatever time it likes.

use std::ops::Add;
use std::time::Duration;

/// The time since the server started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "handover", serde(try_from = "Duration"))]
pub struct Moment(Duration);

impl Moment {
    /// When the server started.
    pub const START: Moment = Moment(Duration::ZERO);

    /// So long after the start.
    pub const fn after_start(elapsed: Duration) -> Moment {
        Moment(elapsed)
    }

    /// How long after the start it is.
    pub const fn since_start(self) -> Duration {
        self.0
    }

    /// How long ago `earlier` was; zero if it lies ahead.
    pub const fn since(self, earlier: Moment) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

#[cfg(feature = "handover")]
impl TryFrom<Duration> for Moment {
    type Error = &'static str;

    fn try_from(elapsed: Duration) -> Result<Moment, &'static str> {
        match crate::handover::are_spans([elapsed]) {
            true => Ok(Moment(elapsed)),
            false => Err("no server has run for so long"),
        }
    }
}

impl Add<Duration> for Moment {
    type Output = Moment;

    fn add(self, wait: Duration) -> Moment {
        Moment(self.0.saturating_add(wait))
    }
}
