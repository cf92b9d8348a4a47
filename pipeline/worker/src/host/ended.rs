//! What is left of a worker.

use schema::Outcome;

/// What is left of a worker that is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Why it ended otherwise than by `bye` and exit status 0; `None` after a clean leave and
    /// after a [`kill`](crate::host::Host::kill) of a worker in good order.
    pub outcome: Option<Outcome>,
    /// The end of its log: at most 16 KiB, invalid UTF-8 replaced.
    pub log: String,
    /// Processor time over its life, its reaped children included, in nanoseconds.
    pub cpu_ns: Option<u64>,
    /// Resident set when it was last looked at.
    pub resident_bytes: Option<u64>,
    /// Largest resident set, as far as it was seen.
    pub peak_resident_bytes: Option<u64>,
}
