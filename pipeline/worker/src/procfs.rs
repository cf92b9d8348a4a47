//! What `/proc` tells about processes.

/// A size in `/proc/PID/status`, for example of the field `VmRSS`.
pub(crate) fn status_bytes(status: &str, field: &str) -> Option<u64> {
    let rest = status
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    let kibibytes: u64 = rest.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_in_kibibytes() {
        let status = "Name:\tworker\nVmHWMX:\t 1 kB\nVmHWM:\t    2048 kB\nThreads:\t3\n";
        assert_eq!(status_bytes(status, "VmHWM"), Some(2 << 20));
        assert_eq!(status_bytes(status, "VmRSS"), None);
        assert_eq!(status_bytes(status, "Threads"), None);
    }
}
