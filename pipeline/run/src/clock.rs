//! Time that this process itself used.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use worker::nanoseconds;

/// Processor time that this process has used, workers not counted.
pub(crate) fn own_cpu_ns() -> u64 {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)
        .map_or(0, |time| nanoseconds(Duration::from(time)))
}
