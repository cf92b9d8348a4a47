//! Time that passed.

use std::time::Duration;

/// Whole nanoseconds.
#[must_use]
pub fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
