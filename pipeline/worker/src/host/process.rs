//! A worker's process, with all that it starts.

use std::{
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::process::CommandExt,
    },
    process::{Command, Stdio},
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant, SystemTime},
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        signal::{Signal, killpg},
        wait::{Id, WaitPidFlag, WaitStatus, waitid},
    },
    unistd::Pid,
};
use schema::{Outcome, OutcomeKind, protocol::CONTROL_VARIABLE};

use super::{
    MARK_VARIABLE, abandoned,
    family::{self, Family, Motion, Stopped},
    sys::{self, Usage},
};
use crate::{RANK_VARIABLES, WorkerCommand};

/// How long a killed process may take to die, and a stopped one to stop, before it is given up: a
/// process that waits for a disk or a driver does neither.
const PATIENCE: Duration = Duration::from_secs(10);

/// Numbers the launches of this process.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// A child in a process group of its own; it leads the group and gives it its number.
#[derive(Debug)]
pub(super) struct Process {
    pid: Pid,
    pidfd: OwnedFd,
    family: Family,
    /// What was stopped besides the worker's group.
    stopped: Stopped,
    /// Whether it was ended; its number may be another's by now.
    over: bool,
    /// How it ended, once it is reaped.
    reaped: Option<(WaitStatus, Usage)>,
}

/// What the child's three standard streams become.
pub(super) struct Streams {
    pub(super) stdin: Stdio,
    pub(super) stdout: Stdio,
    pub(super) stderr: Stdio,
}

impl Process {
    /// Starts the program. `control` is the address to speak over, if not the standard streams;
    /// `cgroup` the `cgroup.procs` of a group to join.
    pub(super) fn start(
        command: &WorkerCommand,
        streams: Streams,
        control: Option<&str>,
        cgroup: Option<OwnedFd>,
    ) -> Result<Self, Outcome> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        let mark = format!("{}-{number}-{}", std::process::id(), now.as_nanos());
        let mut child = Command::new(&command.program);
        child.args(&command.args);
        // What a launcher of several processes said to whoever started this one is not about the worker.
        for name in RANK_VARIABLES {
            child.env_remove(name);
        }
        child.envs(&command.env).env_remove(CONTROL_VARIABLE);
        child.env(MARK_VARIABLE, &mark).process_group(0);
        child
            .stdin(streams.stdin)
            .stdout(streams.stdout)
            .stderr(streams.stderr);
        if let Some(address) = control {
            child.env(CONTROL_VARIABLE, address);
        }
        sys::bind_to_supervisor(&mut child, cgroup);
        let failed = |error: io::Error| {
            let program = command.program.display();
            Outcome::new(
                OutcomeKind::Unavailable,
                format!("cannot start {program}: {error}"),
            )
        };
        abandoned::end_once();
        let (family, mut child) = Family::start(mark, || child.spawn()).map_err(failed)?;
        let pid = Pid::from_raw(child.id().cast_signed());
        let pidfd = sys::pidfd_open(pid).map_err(|error| {
            // Without it nothing below works, so the child must not live.
            let _ = child.kill();
            let _ = family.reap(|_| child.wait());
            failed(error)
        })?;
        Ok(Self {
            pid,
            pidfd,
            family,
            stopped: Stopped::new(),
            over: false,
            reaped: None,
        })
    }

    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    /// Readable once the process is dead: for `poll`.
    pub(super) fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// How it ended, and what it used; `None` before [`end`](Self::end), or if it would not die.
    pub(super) fn reaped(&self) -> Option<(WaitStatus, Usage)> {
        self.reaped
    }

    /// Waits for its death, and says whether it came in time. It is not reaped, so that its
    /// number stays its own.
    pub(super) fn wait_for_death(&self, deadline: Instant) -> bool {
        loop {
            let mut fds = [PollFd::new(self.pidfd.as_fd(), PollFlags::POLLIN)];
            match poll(&mut fds, timeout(deadline)) {
                Ok(0) if Instant::now() >= deadline => return false,
                Ok(0) | Err(Errno::EINTR) => {}
                Ok(_) => return true,
                Err(_) => return false,
            }
        }
    }

    /// Whether it was ended and reaped, or given up.
    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    /// Kills what is left of the group and of the launch, and reaps the child.
    pub(super) fn end(&mut self) {
        if std::mem::replace(&mut self.over, true) {
            return;
        }
        let peek = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        // As long as the child is not reaped, its number cannot name a group of strangers; where
        // the kernel reaps by itself (SIGCHLD ignored), it may.
        if waitid(Id::Pid(self.pid), peek) != Err(Errno::ECHILD) {
            let _ = killpg(self.pid, Signal::SIGKILL);
        }
        // It may have left the group that bears its number.
        let _ = sys::pidfd_signal(self.pidfd.as_fd(), Signal::SIGKILL);
        if self.wait_for_death(Instant::now() + PATIENCE) {
            self.family.end_others();
            self.reaped = self.family.reap(sys::reap).ok();
        }
    }

    /// The processes of the launch but the worker, those that left its group included.
    pub(super) fn others(&self) -> impl Iterator<Item = Pid> {
        self.family.others().into_keys()
    }

    /// Processor time of the launch's living processes, in ticks of a hundredth of a second.
    pub(super) fn cpu_ticks(&self) -> u64 {
        self.family.cpu_ticks()
    }

    /// Stops all processes of the launch, those that left the worker's group included, and waits
    /// until they stand still. The error says what goes on, and why.
    pub(super) fn stop(&mut self) -> Result<(), String> {
        // The group at one blow, so that nobody in it sees the others stop.
        let _ = killpg(self.pid, Signal::SIGSTOP);
        // The worker may have left the group that bears its number.
        sys::pidfd_signal(self.pidfd.as_fd(), Signal::SIGSTOP)
            .map_err(|error| format!("the worker itself: {error}"))?;
        let deadline = Instant::now() + PATIENCE;
        let mut pause = Duration::from_micros(50);
        let mut calm = false;
        loop {
            let moving = if self.stands_still()? {
                match self.family.stop_others(&mut self.stopped)? {
                    Motion::Nobody => return Ok(()),
                    // Before it stopped, one of them may have started another behind our back: a
                    // second look finds that.
                    Motion::Still if calm => return Ok(()),
                    Motion::Still => {
                        calm = true;
                        continue;
                    }
                    Motion::Moving(pid) => pid,
                }
            } else {
                self.pid
            };
            calm = false;
            if Instant::now() >= deadline {
                let (shown, seconds) = (family::shown(moving), PATIENCE.as_secs());
                return Err(format!(
                    "{shown} goes on {seconds} s after it was told to stop"
                ));
            }
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }

    /// Whether the worker itself stands still, with all its threads.
    fn stands_still(&self) -> Result<bool, String> {
        let flags = WaitPidFlag::WSTOPPED | WaitPidFlag::WEXITED;
        let flags = flags | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        match waitid(Id::Pid(self.pid), flags) {
            Ok(WaitStatus::Stopped(..)) => Ok(true),
            Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..)) => Err("it ended".to_owned()),
            Err(error) if error != Errno::EINTR => Err(error.to_string()),
            _ => Ok(false),
        }
    }

    /// Lets all that was stopped go on.
    pub(super) fn go_on(&mut self) {
        // Children before their parents, who might take note of a child that stands still.
        for pidfd in std::mem::take(&mut self.stopped).into_values().rev() {
            let _ = sys::pidfd_signal(pidfd, Signal::SIGCONT);
        }
        let _ = killpg(self.pid, Signal::SIGCONT);
        let _ = sys::pidfd_signal(self.pidfd.as_fd(), Signal::SIGCONT);
    }
}

/// What is left until a deadline, rounded up to a whole millisecond so that a wait does not turn
/// into a busy loop at its end.
pub(super) fn timeout(deadline: Instant) -> PollTimeout {
    timeout_after(deadline.saturating_duration_since(Instant::now()))
}

/// A wait of so long, in whole milliseconds.
pub(super) fn timeout_after(left: Duration) -> PollTimeout {
    let milliseconds = left.as_micros().div_ceil(1000);
    PollTimeout::try_from(milliseconds).unwrap_or(PollTimeout::MAX)
}
