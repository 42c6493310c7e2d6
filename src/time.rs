//! The three kinds of time: since the server started, of the calendar, and of media.
//!
//! Nothing here reads a clock. The shell reads the clocks and passes the time to the core, so tests
//! and the simulation can pass any time.

mod instant;
mod media;
mod unix;

pub use instant::Instant;
pub use media::MediaTime;
pub use unix::{Calendar, UnixTime};

/// Returns an instant after the server's start, for a test.
#[cfg(test)]
pub(crate) fn at_milliseconds(milliseconds: u64) -> Instant {
    Instant::after_start(std::time::Duration::from_millis(milliseconds))
}

#[cfg(test)]
pub(crate) fn at_seconds(seconds: u64) -> Instant {
    at_milliseconds(1_000 * seconds)
}
