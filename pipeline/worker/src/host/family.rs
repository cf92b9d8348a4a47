//! Which processes belong to a launch: all that descend from its worker, whatever they did to
//! leave it.
//!
//! A descendant that outlives its parents would become a child of the system's first process, out
//! of sight. So this process takes such orphans in (prctl(2), PR_SET_CHILD_SUBREAPER): then all
//! that a worker ever started is below it in the tree of processes. Which launch an orphan is of
//! shows in its process group or in the mark in its environment; one that has given up both
//! belongs to the launch that first sees it, which is the one that was running.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    io,
    os::fd::OwnedFd,
    process::Child,
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    sys::{
        prctl::set_child_subreaper,
        signal::Signal,
        wait::{WaitPidFlag, waitpid},
    },
    unistd::{Pid, getpgrp, getpid},
};

use super::{MARK_VARIABLE, sys};
use crate::procfs::{self, Seen, Stat};

/// How long killed processes may take to be gone.
const PATIENCE: Duration = Duration::from_secs(2);

/// All launches of this process: an orphan of one must not be taken for another's.
static REGISTER: Mutex<Register> = Mutex::new(Register {
    workers: BTreeMap::new(),
    orphans: BTreeMap::new(),
});

/// The processes of one launch.
#[derive(Debug)]
pub(super) struct Family {
    worker: Pid,
    mark: String,
}

/// Processes that were sent SIGSTOP, by number and start.
pub(super) type Stopped = BTreeMap<(Pid, u64), OwnedFd>;

/// What a launch's processes but its worker do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Motion {
    /// There are none.
    Nobody,
    /// They stand still.
    Still,
    /// One of them, at least, goes on.
    Moving(Pid),
}

struct Register {
    /// Workers that are not reaped, with the marks of their launches.
    workers: BTreeMap<Pid, String>,
    /// Orphans by number and start, with the marks of their launches.
    orphans: BTreeMap<(Pid, u64), String>,
}

impl Family {
    /// Starts the worker of a launch with this mark.
    pub(super) fn start(
        mark: String,
        spawn: impl FnOnce() -> io::Result<Child>,
    ) -> io::Result<(Self, Child)> {
        // Without it, marks and groups still lead to most of what leaves a worker.
        let _ = set_child_subreaper(true);
        // Held meanwhile: a worker that is not in the register would be taken for an orphan.
        let mut register = register();
        let child = spawn()?;
        let worker = Pid::from_raw(child.id().cast_signed());
        register.workers.insert(worker, mark.clone());
        Ok((Self { worker, mark }, child))
    }

    /// The launch's processes but its worker, dead ones included. Orphans that no launch has seen
    /// yet become this one's, so look before another worker goes on.
    pub(super) fn others(&self) -> Seen {
        let mut seen = procfs::seen();
        let mut register = register();
        register.adopt(&self.mark, &seen);
        let ours = |pid: Pid| register.owner(pid, &seen) == Some(self.mark.as_str());
        let others: Vec<Pid> = seen
            .keys()
            .copied()
            .filter(|&pid| pid != self.worker && ours(pid))
            .collect();
        seen.retain(|pid, _| others.binary_search(pid).is_ok());
        seen
    }

    /// Sends SIGSTOP to all but the worker that do not stand still, keeps them in `stopped`, and
    /// says what they were found to do. The error says which of them may not be stopped.
    pub(super) fn stop_others(&self, stopped: &mut Stopped) -> Result<Motion, String> {
        let mut motion = Motion::Nobody;
        for (pid, stat) in self.others() {
            if stat.dead || stat.stopped {
                if stat.stopped && motion == Motion::Nobody {
                    motion = Motion::Still;
                }
                continue;
            }
            motion = Motion::Moving(pid);
            let pidfd = match stopped.entry((pid, stat.start)) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => match open(pid, stat.start) {
                    Some(pidfd) => new.insert(pidfd),
                    // It is gone by now, or another has its number.
                    None => continue,
                },
            };
            match sys::pidfd_signal(pidfd, Signal::SIGSTOP) {
                Ok(()) | Err(Errno::ESRCH) => {}
                Err(error) => return Err(format!("{}: {error}", shown(pid))),
            }
        }
        Ok(motion)
    }

    /// Processor time of all that live, in ticks of a hundredth of a second.
    pub(super) fn cpu_ticks(&self) -> u64 {
        let worker = procfs::stat(self.worker);
        let others = self.others();
        worker
            .iter()
            .chain(others.values())
            .fold(0, |sum, stat| sum.saturating_add(stat.cpu_ticks))
    }

    /// Kills all but the worker, which is dead by now, and waits until none is left.
    pub(super) fn end_others(&self) {
        let mark = format!("{MARK_VARIABLE}={}", self.mark);
        let deadline = Instant::now() + PATIENCE;
        loop {
            let others = self.others();
            let mut alive = 0;
            for (&pid, stat) in &others {
                if !stat.dead {
                    alive += 1;
                    kill(pid, stat.start);
                } else if stat.parent == getpid() {
                    let _ = waitpid(pid, Some(WaitPidFlag::WNOHANG));
                }
            }
            // Where this process may not take orphans in, the mark is what is left of them.
            for pid in procfs::processes().filter(|&pid| pid != self.worker) {
                if !others.contains_key(&pid)
                    && let Ok(pidfd) = sys::pidfd_open(pid)
                    // Asked after the descriptor was opened: the number cannot change hands.
                    && procfs::has_in_environment(pid, mark.as_bytes())
                {
                    alive += 1;
                    let _ = sys::pidfd_signal(&pidfd, Signal::SIGKILL);
                }
            }
            if alive == 0 || Instant::now() >= deadline {
                return;
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Reaps the worker. From then on its number may be another's.
    pub(super) fn reap<T>(&self, reap: impl FnOnce(Pid) -> T) -> T {
        let mut register = register();
        let reaped = reap(self.worker);
        register.workers.remove(&self.worker);
        reaped
    }
}

impl Register {
    /// Takes note of the orphans; those that nothing tells apart are of the launch with this mark.
    fn adopt(&mut self, mark: &str, seen: &Seen) {
        self.orphans
            .retain(|(pid, start), _| seen.get(pid).is_some_and(|stat| stat.start == *start));
        for (&pid, stat) in seen {
            if self.workers.contains_key(&pid)
                || self.orphans.contains_key(&(pid, stat.start))
                || !is_orphan(pid, stat)
            {
                continue;
            }
            let marked = |mark: &&String| {
                procfs::has_in_environment(pid, format!("{MARK_VARIABLE}={mark}").as_bytes())
            };
            let owner = self
                .workers
                .get(&stat.group)
                .or_else(|| self.workers.values().find(marked))
                .cloned()
                .unwrap_or_else(|| mark.to_owned());
            self.orphans.insert((pid, stat.start), owner);
        }
    }

    /// The mark of the launch that a process belongs to.
    fn owner(&self, mut pid: Pid, seen: &Seen) -> Option<&str> {
        // Processes that came and went between two readings can close the line to a ring.
        for _ in 0..seen.len() {
            let stat = seen.get(&pid)?;
            let owner = self
                .workers
                .get(&pid)
                .or_else(|| self.workers.get(&stat.group))
                .or_else(|| self.orphans.get(&(pid, stat.start)));
            if owner.is_some() {
                return owner.map(String::as_str);
            }
            pid = stat.parent;
        }
        None
    }
}

/// Whether this process took it in rather than started it: other code in this process has
/// children too. An orphan that nothing else ended has left its worker's group, and what this
/// process starts by other means is in its own; and a descendant of a worker inherits the score
/// that its worker was given.
fn is_orphan(pid: Pid, stat: &Stat) -> bool {
    stat.parent == getpid()
        && stat.group != getpgrp()
        && procfs::oom_score(pid).is_some_and(|score| score >= sys::OOM_SCORE)
}

fn kill(pid: Pid, start: u64) {
    if let Some(pidfd) = open(pid, start) {
        let _ = sys::pidfd_signal(&pidfd, Signal::SIGKILL);
    }
}

/// A descriptor of the process with this number and start.
fn open(pid: Pid, start: u64) -> Option<OwnedFd> {
    let pidfd = sys::pidfd_open(pid).ok()?;
    // Asked after the descriptor was opened: the number cannot change hands from here on.
    let same = procfs::stat(pid).is_some_and(|stat| stat.start == start);
    same.then_some(pidfd)
}

/// A process for a reader.
pub(super) fn shown(pid: Pid) -> String {
    format!("process {pid} (`{}`)", procfs::name(pid))
}

fn register() -> MutexGuard<'static, Register> {
    // Nothing that holds it leaves it half-done.
    REGISTER.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pid(number: i32) -> Pid {
        Pid::from_raw(number)
    }

    fn stat(parent: i32, group: i32) -> Stat {
        Stat {
            parent: pid(parent),
            group: pid(group),
            cpu_ticks: 0,
            start: 7,
            dead: false,
            stopped: false,
        }
    }

    #[test]
    fn descent_tells_whose_a_process_is() {
        let register = Register {
            workers: [(pid(10), "a".to_owned()), (pid(20), "b".to_owned())].into(),
            orphans: [((pid(30), 7), "b".to_owned())].into(),
        };
        let seen: Seen = [
            (pid(2), stat(1, 2)),
            (pid(10), stat(2, 10)),
            (pid(11), stat(10, 11)), // left the group
            (pid(12), stat(11, 11)),
            (pid(13), stat(2, 10)), // lost its parents, not its group
            (pid(30), stat(2, 30)),
            (pid(31), stat(30, 30)),
            (pid(40), stat(2, 2)), // of this process, by other means
            (pid(50), stat(51, 50)),
            (pid(51), stat(50, 50)), // a ring
        ]
        .into();
        let owner = |number| register.owner(pid(number), &seen);
        for ours in [10, 11, 12, 13] {
            assert_eq!(owner(ours), Some("a"), "{ours}");
        }
        assert_eq!((owner(30), owner(31)), (Some("b"), Some("b")));
        for other in [2, 40, 50, 51, 99] {
            assert_eq!(owner(other), None, "{other}");
        }
    }

    #[test]
    fn a_child_of_other_code_is_no_orphan() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let started = pid(child.id().cast_signed());
        let stat = procfs::stat(started).unwrap();
        assert_eq!(stat.parent, getpid());
        assert!(!is_orphan(started, &stat));
        // In a group of its own it lacks what descends from a worker.
        let apart = Stat {
            group: started,
            ..stat
        };
        let scored = procfs::oom_score(getpid()).unwrap() >= sys::OOM_SCORE;
        assert_eq!(is_orphan(started, &apart), scored);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
