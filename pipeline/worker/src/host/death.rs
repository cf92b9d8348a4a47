//! What a dead process tells.

use nix::sys::{signal::Signal, wait::WaitStatus};
use schema::{Outcome, OutcomeKind};

/// What the kernel knows about memory and a death.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MemoryEvidence {
    /// The limit, where there is one.
    pub(super) limit_bytes: Option<u64>,
    /// The kernel killed in the worker's own control group.
    pub(super) in_group: bool,
    /// The control group came to its limit: only then the kernel killed for that.
    pub(super) at_limit: bool,
    /// The kernel killed somewhere on the machine while the worker lived.
    pub(super) on_machine: bool,
}

/// The outcome of a process that ended before it was asked to. `doing` completes "ended …", for
/// example "before it answered `load`".
pub(super) fn outcome(status: WaitStatus, doing: &str, memory: MemoryEvidence) -> Outcome {
    let killed = matches!(status, WaitStatus::Signaled(_, Signal::SIGKILL, _));
    if memory.in_group || killed && memory.on_machine {
        return Outcome::new(OutcomeKind::OutOfMemory, kernel_killed(doing, memory));
    }
    let how = match status {
        WaitStatus::Exited(_, code) => format!("the worker left with exit status {code}"),
        WaitStatus::Signaled(_, signal, _) => format!(
            "the worker was killed by signal {} ({})",
            signal as i32,
            signal.as_str()
        ),
        _ => "the worker ended".to_owned(),
    };
    Outcome::new(OutcomeKind::Crashed, format!("{how} {doing}"))
}

fn kernel_killed(doing: &str, memory: MemoryEvidence) -> String {
    match memory.limit_bytes {
        Some(limit) if memory.in_group && memory.at_limit => format!(
            "the kernel killed the worker {doing}: it needed more than its limit of {}",
            bytes(limit)
        ),
        _ => format!("the kernel killed the worker {doing}: the machine had no memory left"),
    }
}

/// A size for a reader.
pub(super) fn bytes(size: u64) -> String {
    const MEBIBYTE: f64 = (1_u64 << 20) as f64;
    let mebibytes = size as f64 / MEBIBYTE;
    if mebibytes < 1024.0 {
        format!("{mebibytes:.0} MiB")
    } else {
        format!("{:.1} GiB", mebibytes / 1024.0)
    }
}

#[cfg(test)]
mod tests {
    use nix::unistd::Pid;

    use super::*;

    fn signaled(signal: Signal) -> WaitStatus {
        WaitStatus::Signaled(Pid::from_raw(1), signal, false)
    }

    #[test]
    fn signals_are_named() {
        let none = MemoryEvidence::default();
        let crash = outcome(signaled(Signal::SIGSEGV), "before it answered `load`", none);
        assert_eq!(crash.kind, OutcomeKind::Crashed);
        assert_eq!(
            crash.reason,
            "the worker was killed by signal 11 (SIGSEGV) before it answered `load`"
        );
        let early = outcome(
            WaitStatus::Exited(Pid::from_raw(1), 0),
            "before `hello`",
            none,
        );
        assert_eq!(
            early.reason,
            "the worker left with exit status 0 before `hello`"
        );
    }

    #[test]
    fn memory_needs_evidence() {
        let limit = Some(3 << 29);
        let killed = |memory| outcome(signaled(Signal::SIGKILL), "before `hello`", memory);
        let none = MemoryEvidence {
            limit_bytes: limit,
            ..MemoryEvidence::default()
        };
        assert_eq!(killed(none).kind, OutcomeKind::Crashed);
        let in_group = killed(MemoryEvidence {
            in_group: true,
            at_limit: true,
            ..none
        });
        assert_eq!(in_group.kind, OutcomeKind::OutOfMemory);
        assert!(
            in_group.reason.ends_with("its limit of 1.5 GiB"),
            "{}",
            in_group.reason
        );
        // Others had taken what the limit promised.
        let before_its_limit = killed(MemoryEvidence {
            in_group: true,
            ..none
        });
        assert_eq!(before_its_limit.kind, OutcomeKind::OutOfMemory);
        let reason = before_its_limit.reason;
        assert!(
            reason.ends_with("the machine had no memory left"),
            "{reason}"
        );
        let machine = MemoryEvidence {
            on_machine: true,
            ..none
        };
        assert_eq!(killed(machine).kind, OutcomeKind::OutOfMemory);
        assert_eq!(
            outcome(signaled(Signal::SIGSEGV), "", machine).kind,
            OutcomeKind::Crashed
        );
    }
}
