//! The clock of this machine, by the calendar.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long it is since 1970 began, or none of it where the clock is before that.
pub(super) fn since_1970() -> Duration {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default()
}
