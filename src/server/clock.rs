//! The calendar clock of this machine.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Returns the time since 1970-01-01; zero if the clock is before that.
pub(super) fn since_1970() -> Duration {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default()
}
