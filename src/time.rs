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
