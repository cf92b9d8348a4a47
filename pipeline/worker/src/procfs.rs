//! What `/proc` tells about processes.

use std::{collections::BTreeMap, fs, os::unix::fs::MetadataExt};

use nix::unistd::{Pid, geteuid};

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

/// All processes at a moment.
pub(crate) type Seen = BTreeMap<Pid, Stat>;

/// All that can be seen now: some tens of microseconds each.
pub(crate) fn seen() -> Seen {
    processes()
        .filter_map(|pid| Some((pid, stat(pid)?)))
        .collect()
}

/// What `/proc/PID/stat` tells of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    /// Its parent; whoever took it in, if that is dead.
    pub(crate) parent: Pid,
    /// Its process group.
    pub(crate) group: Pid,
    /// Processor time so far, its dead threads included, in ticks of a hundredth of a second.
    pub(crate) cpu_ticks: u64,
    /// When it started, in ticks since boot: with its number this names it for good.
    pub(crate) start: u64,
    /// Whether it is dead, and waits to be reaped.
    pub(crate) dead: bool,
    /// Whether it was stopped.
    pub(crate) stopped: bool,
}

/// What the kernel tells of a process, if there is one.
pub(crate) fn stat(pid: Pid) -> Option<Stat> {
    parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Fields 3 (state), 4 (parent), 5 (process group), 14 and 15 (user and system time) and 22 (start)
/// of `/proc/PID/stat`; field 2, the program's name, may hold anything, so the count starts after
/// its closing parenthesis (man 5 proc).
fn parse(stat: &str) -> Option<Stat> {
    let mut fields = stat.get(stat.rfind(')')? + 1..)?.split_whitespace();
    let state = fields.next()?;
    Some(Stat {
        parent: Pid::from_raw(fields.next()?.parse().ok()?),
        group: Pid::from_raw(fields.next()?.parse().ok()?),
        cpu_ticks: {
            let user: u64 = fields.nth(8)?.parse().ok()?;
            user.saturating_add(fields.next()?.parse().ok()?)
        },
        start: fields.nth(6)?.parse().ok()?,
        dead: matches!(state, "Z" | "X"),
        stopped: matches!(state, "T" | "t"),
    })
}

/// What a process calls itself, for a reader.
pub(crate) fn name(pid: Pid) -> String {
    let name = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim_ascii().escape_ascii().to_string()
}

/// What is added to the score by which the kernel chooses whom to kill for want of memory.
pub(crate) fn oom_score(pid: Pid) -> Option<i32> {
    let score = fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).ok()?;
    score.trim().parse().ok()
}

/// Whether a process is of the same user and sees the same process numbers as this one, as those
/// in another container do not.
pub(crate) fn is_neighbour(pid: Pid) -> bool {
    let owner = fs::metadata(format!("/proc/{pid}")).map(|folder| folder.uid());
    let numbers = |process: &str| fs::read_link(format!("/proc/{process}/ns/pid")).ok();
    let same = numbers(&pid.to_string()).is_some_and(|theirs| Some(theirs) == numbers("self"));
    same && owner.is_ok_and(|owner| owner == geteuid().as_raw())
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
    environment(pid)
        .split(|&byte| byte == 0)
        .any(|found| found == entry)
}

/// The value of this variable in the environment that a process was started with.
pub(crate) fn in_environment(pid: Pid, name: &str) -> Option<Vec<u8>> {
    environment(pid)
        .split(|&byte| byte == 0)
        .find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
        .map(<[u8]>::to_vec)
}

/// Empty where it cannot be read.
fn environment(pid: Pid) -> Vec<u8> {
    fs::read(format!("/proc/{pid}/environ")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use nix::unistd::{getpgrp, getpid, getppid};

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
        let rest = "42 42 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 777 1000";
        let stat = parse(&format!("7 (a) Z 1 (b) S 1 {rest}")).unwrap();
        assert_eq!(
            (stat.parent, stat.group),
            (Pid::from_raw(1), Pid::from_raw(42))
        );
        assert_eq!((stat.start, stat.dead, stat.stopped), (777, false, false));
        assert_eq!(stat.cpu_ticks, 5 + 6);
        assert!(parse(&format!("7 (a) T 1 {rest}")).unwrap().stopped);
        assert!(parse(&format!("7 (a) Z 1 {rest}")).unwrap().dead);
        assert_eq!(parse("7 (a) S 1 42 42"), None);
        assert_eq!(parse("7 (a"), None);
    }

    #[test]
    fn this_process_is_among_them() {
        let me = getpid();
        assert!(processes().any(|pid| pid == me));
        let stat = stat(me).unwrap();
        assert_eq!((stat.group, stat.parent), (getpgrp(), getppid()));
        assert!(!stat.dead && !stat.stopped && stat.start > 0);
        assert!(!name(me).is_empty());
        assert!(oom_score(me).is_some() && is_neighbour(me));
        assert!(resident_bytes(me).unwrap() > 0);
        assert!(unshared_pages(me).unwrap() > 0);
        assert!(!has_in_environment(me, b"PHOTOFINISH_NO_SUCH_VARIABLE=1"));
        let path = std::env::var("PATH").unwrap().into_bytes();
        assert_eq!(in_environment(me, "PATH"), Some(path));
        assert_eq!(in_environment(me, "PHOTOFINISH_NO_SUCH_VARIABLE"), None);
    }
}
