//! What `/proc` tells about processes.

use std::fs;

use nix::unistd::Pid;

/// A size in `/proc/PID/status`, for example of the field `VmRSS`.
pub(crate) fn status_bytes(status: &str, field: &str) -> Option<u64> {
    let rest = status
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    let kibibytes: u64 = rest.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// The resident set of a process.
pub(crate) fn resident_bytes(pid: Pid) -> Option<u64> {
    status_bytes(
        &fs::read_to_string(format!("/proc/{pid}/status")).ok()?,
        "VmRSS",
    )
}

/// All processes that can be seen.
pub(crate) fn processes() -> impl Iterator<Item = Pid> {
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .map(Pid::from_raw)
}

/// The process group of a process that is not a zombie.
pub(crate) fn group(pid: Pid) -> Option<Pid> {
    group_in(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Fields 3 (state) and 5 (process group) of `/proc/PID/stat`; field 2, the program's name, may
/// hold anything, so the count starts after its closing parenthesis (man 5 proc).
fn group_in(stat: &str) -> Option<Pid> {
    let mut fields = stat.get(stat.rfind(')')? + 1..)?.split_whitespace();
    let state = fields.next()?;
    let group = fields.nth(1)?.parse().ok()?;
    (state != "Z" && state != "X").then(|| Pid::from_raw(group))
}

/// Resident pages of a process that are not shared with a file or another process.
pub(crate) fn unshared_pages(pid: Pid) -> Option<u64> {
    let statm = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let mut fields = statm.split_whitespace().skip(1);
    let resident: u64 = fields.next()?.parse().ok()?;
    let shared: u64 = fields.next()?.parse().ok()?;
    resident.checked_sub(shared)
}

/// Whether a process was started with this entry (`NAME=value`) in its environment.
pub(crate) fn has_in_environment(pid: Pid, entry: &[u8]) -> bool {
    fs::read(format!("/proc/{pid}/environ")).is_ok_and(|environment| {
        environment
            .split(|&byte| byte == 0)
            .any(|found| found == entry)
    })
}

#[cfg(test)]
mod tests {
    use nix::unistd::{getpgrp, getpid};

    use super::*;

    #[test]
    fn sizes_are_in_kibibytes() {
        let status = "Name:\tworker\nVmHWMX:\t 1 kB\nVmHWM:\t    2048 kB\nThreads:\t3\n";
        assert_eq!(status_bytes(status, "VmHWM"), Some(2 << 20));
        assert_eq!(status_bytes(status, "VmRSS"), None);
        assert_eq!(status_bytes(status, "Threads"), None);
    }

    #[test]
    fn a_program_may_be_called_anything() {
        assert_eq!(
            group_in("7 (a) Z 1 (b) S 1 42 42 0"),
            Some(Pid::from_raw(42))
        );
        assert_eq!(group_in("7 (a) Z 1 42 42 0"), None);
        assert_eq!(group_in("7 (a"), None);
    }

    #[test]
    fn this_process_is_among_them() {
        let me = getpid();
        assert!(processes().any(|pid| pid == me));
        assert_eq!(group(me), Some(getpgrp()));
        assert!(resident_bytes(me).unwrap() > 0);
        assert!(unshared_pages(me).unwrap() > 0);
        assert!(!has_in_environment(me, b"PHOTOFINISH_NO_SUCH_VARIABLE=1"));
    }
}
