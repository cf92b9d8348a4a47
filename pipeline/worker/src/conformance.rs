//! Does a program speak the worker protocol? Drives any worker, in any language, through it:
//! what it must answer, what it must refuse, and how it must leave.

mod asking;
mod clocking;
mod conversation;
mod leaving;
mod pausing;
mod profiling;
mod ranking;
mod requesting;
mod results;
mod subject;

use serde::Serialize;

use crate::host::Interrupt;

use subject::Trouble;
pub use subject::{Subject, refusal};

/// What the checks found, in the order in which they ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConformanceReport {
    /// The engine and the variant, `engine/variant`.
    pub subject: String,
    /// One entry a check.
    pub checks: Vec<Check>,
}

impl ConformanceReport {
    /// Whether nothing failed. An interrupted report, whose last checks were skipped, may pass.
    #[must_use]
    pub fn passed(&self) -> bool {
        !self
            .checks
            .iter()
            .any(|check| matches!(check.result, CheckResult::Failed(_)))
    }
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// A word for it, for example `early_close`.
    pub name: &'static str,
    /// What a proper worker does, in one sentence.
    pub demand: &'static str,
    /// Whether it did.
    pub result: CheckResult,
}

/// How a check went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckResult {
    /// The worker does what is demanded.
    Passed,
    /// It does not; what it did instead, with the end of its log.
    Failed(String),
    /// It was not tried, and why.
    Skipped(String),
}

type Run = fn(&Subject<'_>) -> Result<(), Trouble>;

/// Name, demand, and the check itself. Each starts workers of its own.
const CHECKS: &[(&str, &str, Run)] = &[
    (
        "handshake",
        "says `hello` with its engine's name and the variant",
        conversation::handshake,
    ),
    (
        "bye",
        "answers `bye`, loaded or not, and leaves with exit status 0",
        leaving::bye,
    ),
    ("load", "loads a network and says how", conversation::load),
    (
        "outputs",
        "gives outputs of the right names and shapes, finite, the same each time",
        results::outputs,
    ),
    (
        "training",
        "gives the updates of all weights and the losses, the same after steps and a reset",
        results::training,
    ),
    (
        "request",
        "gives the same numbers where each step begins and ends in the caller's memory",
        requesting::request,
    ),
    (
        "device",
        "gives the device's own time of the same steps on a GPU, and refuses to on a CPU",
        clocking::device,
    ),
    (
        "warm_up",
        "warms up for at least the steps, and not much more than the time, that it is told",
        results::warm_up,
    ),
    (
        "measure_count",
        "measures as many steps as it is told to",
        results::measure_count,
    ),
    (
        "measure_discard",
        "runs the steps to be discarded first; looked at where a step lasts 10 µs or more",
        results::measure_discard,
    ),
    (
        "measure_time",
        "measures for as long as it is told to",
        results::measure_time,
    ),
    (
        "measure_most",
        "stops at the largest number of steps",
        results::measure_most,
    ),
    (
        "profile",
        "says where the time of steps goes, by nodes of the graph, or that it cannot",
        profiling::profile,
    ),
    (
        "ranks",
        "trains as two ranks that it starts, tells their memory and what they exchange, and leaves with both",
        ranking::ranks,
    ),
    (
        "memory",
        "tells its memory use in bytes, about as the kernel sees it",
        results::memory,
    ),
    ("reset", "goes back to its initial state", results::reset),
    (
        "order",
        "refuses what comes out of order, and lives on",
        asking::order,
    ),
    (
        "garbage",
        "refuses what is no message, and lives on or leaves in order",
        asking::garbage,
    ),
    (
        "unknown_message",
        "refuses messages and fields that it does not know, before and after `load`",
        asking::unknown,
    ),
    (
        "cancel",
        "ends a long measurement early when told to, and only that",
        asking::cancel,
    ),
    (
        "pause",
        "stands still when it is stopped, with all that it started, and then goes on",
        pausing::pause,
    ),
    (
        "silence",
        "writes nothing but the protocol to its stream",
        conversation::silence,
    ),
    (
        "early_close",
        "leaves with exit status 0 when its stream is closed",
        leaving::early_close,
    ),
    (
        "close_at_work",
        "leaves when its stream is closed in the middle of a measurement",
        leaving::close_at_work,
    ),
    (
        "socket",
        "speaks over the socket that `PHOTOFINISH_CONTROL` names",
        conversation::socket,
    ),
];

/// Runs all checks; `observe` hears of each as it ends. Without a handshake the rest is skipped,
/// and so is what is left after an interrupt.
pub fn check(
    subject: &Subject<'_>,
    interrupt: &Interrupt,
    mut observe: impl FnMut(&Check),
) -> ConformanceReport {
    let mut checks: Vec<Check> = Vec::new();
    for &(name, demand, run) in CHECKS {
        let result = if interrupt.is_set() {
            CheckResult::Skipped("interrupted".to_owned())
        } else if checks
            .first()
            .is_some_and(|first| first.result != CheckResult::Passed)
        {
            CheckResult::Skipped("there is no handshake".to_owned())
        } else {
            match run(subject) {
                Ok(()) => CheckResult::Passed,
                Err(_) if interrupt.is_set() => CheckResult::Skipped("interrupted".to_owned()),
                Err(Trouble::Skip(reason)) => CheckResult::Skipped(reason),
                Err(Trouble::Fail(reason)) => CheckResult::Failed(reason),
            }
        };
        let check = Check {
            name,
            demand,
            result,
        };
        observe(&check);
        checks.push(check);
    }
    ConformanceReport {
        subject: subject.name(),
        checks,
    }
}
