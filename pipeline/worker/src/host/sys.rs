//! The few kernel calls that have no safe wrapper in reach.

use std::{
    io,
    os::{
        fd::{AsFd, AsRawFd, FromRawFd, OwnedFd},
        unix::process::CommandExt,
    },
    process::Command,
};

use nix::{
    errno::Errno,
    fcntl::{OFlag, open},
    libc,
    sys::{
        prctl::set_pdeathsig,
        resource::{Resource, setrlimit},
        signal::Signal,
        stat::Mode,
        wait::WaitStatus,
    },
    unistd::{Pid, getpid, getppid, write},
};

/// What the kernel's out-of-memory killer adds to a worker's score: the worker goes before the
/// supervisor does.
pub(super) const OOM_SCORE: i32 = 500;
/// The same, for a hook that cannot allocate.
const OOM_SCORE_TEXT: &[u8] = b"500";

/// Prepares a command so that its process dies with the thread that starts it, leaves no core
/// file, and joins the control group whose `cgroup.procs` is given, before its program begins.
#[expect(unsafe_code, reason = "a hook between fork and exec")]
pub(super) fn bind_to_supervisor(command: &mut Command, group: Option<OwnedFd>) {
    let supervisor = getpid();
    let hook = move || -> io::Result<()> {
        set_pdeathsig(Signal::SIGKILL)?;
        if getppid() != supervisor {
            // It died before the line above could take effect.
            return Err(io::Error::from(Errno::ESRCH));
        }
        setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
        let flags = OFlag::O_WRONLY | OFlag::O_CLOEXEC;
        if let Ok(score) = open(c"/proc/self/oom_score_adj", flags, Mode::empty()) {
            let _ = write(&score, OOM_SCORE_TEXT);
        }
        if let Some(group) = &group {
            // Whether it is in is looked at afterwards: there may be a right to make a group, and
            // none to move a process into it.
            let _ = write(group, b"0");
        }
        Ok(())
    };
    // SAFETY: the hook calls prctl, getppid, setrlimit, open, write and close, which are
    // async-signal-safe, and allocates nothing: errors are made from bare numbers.
    unsafe { command.pre_exec(hook) };
}

/// A descriptor that stands for a process and cannot come to stand for another.
#[expect(unsafe_code, reason = "pidfd_open has no wrapper in nix")]
pub(super) fn pidfd_open(pid: Pid) -> io::Result<OwnedFd> {
    // SAFETY: the call takes two integers and touches no memory of ours.
    let result = unsafe { libc::syscall(libc::SYS_pidfd_open, pid.as_raw(), 0) };
    let descriptor = i32::try_from(Errno::result(result)?).map_err(io::Error::other)?;
    // SAFETY: the kernel has just made this descriptor for us (close-on-exec, as it always is).
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Sends a signal to the process that a descriptor stands for.
#[expect(unsafe_code, reason = "pidfd_send_signal has no wrapper in nix")]
pub(super) fn pidfd_signal(pidfd: impl AsFd, signal: Signal) -> nix::Result<()> {
    // SAFETY: integers and a null pointer, which stands for the default signal information.
    let result = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            pidfd.as_fd().as_raw_fd(),
            signal as i32,
            std::ptr::null::<libc::siginfo_t>(),
            0,
        )
    };
    Errno::result(result).map(drop)
}

/// What a reaped process used, the children that it reaped included.
#[derive(Debug, Clone, Copy)]
pub(super) struct Usage {
    /// User and system time, in nanoseconds.
    pub(super) cpu_ns: u64,
    /// Largest resident set of any of them; a fork's copy of its parent counts.
    pub(super) peak_resident_bytes: u64,
}

/// Reaps a dead child.
#[expect(unsafe_code, reason = "nix waits without asking for resource usage")]
pub(super) fn reap(pid: Pid) -> nix::Result<(WaitStatus, Usage)> {
    let mut status = 0;
    // SAFETY: an all-zero `rusage` is a valid one: it holds only integers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to live locals of the types that the call writes.
    let result = unsafe { libc::wait4(pid.as_raw(), &raw mut status, 0, &raw mut usage) };
    let reaped = Errno::result(result)?;
    let usage = Usage {
        cpu_ns: time_ns(usage.ru_utime).saturating_add(time_ns(usage.ru_stime)),
        peak_resident_bytes: u64::try_from(usage.ru_maxrss)
            .unwrap_or(0)
            .saturating_mul(1024),
    };
    Ok((WaitStatus::from_raw(Pid::from_raw(reaped), status)?, usage))
}

fn time_ns(time: libc::timeval) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let microseconds = u64::try_from(time.tv_usec).unwrap_or(0);
    seconds
        .saturating_mul(1_000_000_000)
        .saturating_add(microseconds.saturating_mul(1000))
}
