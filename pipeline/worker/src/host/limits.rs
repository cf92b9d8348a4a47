//! What a worker may use.

/// What a worker may use before it is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Largest resident memory of the worker and its children; `None` for no limit.
    pub memory_bytes: Option<u64>,
    /// Most bytes that it may write to its log (standard error, and stray standard output).
    pub log_bytes: u64,
    /// Whether the memory limit may be a control group of the worker's own, where this process is
    /// permitted to make one; else the resident memory is watched.
    pub cgroup: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes: None,
            log_bytes: 64 << 20,
            cgroup: true,
        }
    }
}
