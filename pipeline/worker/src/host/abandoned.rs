//! Processes whose supervisor was killed.

use std::{collections::BTreeSet, path::Path, sync::Once};

use nix::{
    sys::signal::Signal,
    unistd::{Pid, getpid},
};

use super::{MARK_VARIABLE, sys};
use crate::procfs;

/// Ends processes of launches whose supervisor is gone: their workers died with it, and what those
/// had started may live on and disturb what is measured now. They are known by their mark; one that
/// gave up its environment before its supervisor was killed cannot be told from a stranger, unless
/// it is in the control group of its launch. Done once in the life of this process.
pub(super) fn end_once() {
    static ONCE: Once = Once::new();
    ONCE.call_once(end);
}

fn end() {
    // This process may itself have been started by what a worker left behind.
    let family = line();
    for pid in procfs::processes().filter(|pid| !family.contains(pid)) {
        let Ok(pidfd) = sys::pidfd_open(pid) else {
            continue;
        };
        // Asked after the descriptor was opened: the number cannot have changed hands.
        if is_abandoned(pid) && procfs::is_neighbour(pid) {
            let _ = sys::pidfd_signal(&pidfd, Signal::SIGKILL);
        }
    }
}

/// This process and its ancestors.
fn line() -> BTreeSet<Pid> {
    let mut line = BTreeSet::new();
    let mut next = Some(getpid());
    while let Some(pid) = next {
        next = if line.insert(pid) {
            procfs::stat(pid).map(|stat| stat.parent)
        } else {
            None
        };
    }
    line
}

fn is_abandoned(pid: Pid) -> bool {
    procfs::in_environment(pid, MARK_VARIABLE)
        .and_then(|mark| supervisor(&mark))
        .is_some_and(is_gone)
}

/// The process that started the launch with this mark.
fn supervisor(mark: &[u8]) -> Option<u32> {
    std::str::from_utf8(mark)
        .ok()?
        .split_once('-')?
        .0
        .parse()
        .ok()
}

/// Whether there is no process of this number. One that was given to another process since is
/// taken for the old one: what it leaves is ended later.
pub(super) fn is_gone(supervisor: u32) -> bool {
    !Path::new(&format!("/proc/{supervisor}")).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_names_its_supervisor() {
        assert_eq!(supervisor(b"12-0-1763650000000000000"), Some(12));
        for other in [&b"12"[..], b"a-0", b"-", b"", b"\xff-1"] {
            assert_eq!(supervisor(other), None);
        }
        assert!(!is_gone(std::process::id()));
    }

    #[test]
    fn the_line_begins_with_this_process_and_ends() {
        let line = line();
        assert!(line.contains(&getpid()) && line.contains(&nix::unistd::getppid()));
    }
}
