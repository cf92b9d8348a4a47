//! How a launch, and a planned cell, ended.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How something ended, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// Which ending.
    pub kind: OutcomeKind,
    /// Why, in words for a reader; empty only for `measured` and `verified`.
    pub reason: String,
}

impl Outcome {
    /// Measured: there is nothing to explain.
    #[must_use]
    pub const fn measured() -> Self {
        Self {
            kind: OutcomeKind::Measured,
            reason: String::new(),
        }
    }

    /// Verified: nothing else was asked for.
    #[must_use]
    pub const fn verified() -> Self {
        Self {
            kind: OutcomeKind::Verified,
            reason: String::new(),
        }
    }

    /// An ending with its reason.
    #[must_use]
    pub fn new(kind: OutcomeKind, reason: impl Into<String>) -> Self {
        Self {
            kind,
            reason: reason.into(),
        }
    }

    /// Whether a speed may be shown.
    #[must_use]
    pub fn is_measured(&self) -> bool {
        self.kind == OutcomeKind::Measured
    }

    /// The outcome of a cell from those of its launches: the worst of them, the earliest of
    /// equals. `None` without any launch.
    #[must_use]
    pub fn worst_of<'a>(outcomes: impl IntoIterator<Item = &'a Self>) -> Option<&'a Self> {
        outcomes
            .into_iter()
            .reduce(|worst, next| if next.kind > worst.kind { next } else { worst })
    }
}

/// The endings, from best to worst: the order is the worst-of rule.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeKind {
    /// Samples were taken.
    Measured,
    /// Outputs agree with the reference; the job asks for no samples.
    Verified,
    /// Samples were taken, but the machine disturbed them beyond the bound.
    Unstable,
    /// Outputs could not be compared: no reference exists for this configuration.
    ParityUnverified,
    /// Never started, or not finished: budget or interruption.
    NotReached,
    /// Exceeded its time limit.
    TimedOut,
    /// Ran out of memory on host or device, or exceeded its limit.
    OutOfMemory,
    /// The worker died, spoke garbage, or ended with an error.
    Crashed,
    /// Outputs disagree with the reference, or a training has diverged.
    ParityFailed,
    /// The engine cannot run this configuration, or its library does not take the model.
    Unsupported,
    /// This machine lacks a library, a device or the engine.
    Unavailable,
}

impl OutcomeKind {
    /// Every ending, from best to worst.
    pub const ALL: &'static [Self] = &[
        Self::Measured,
        Self::Verified,
        Self::Unstable,
        Self::ParityUnverified,
        Self::NotReached,
        Self::TimedOut,
        Self::OutOfMemory,
        Self::Crashed,
        Self::ParityFailed,
        Self::Unsupported,
        Self::Unavailable,
    ];

    /// The word used in manifests and files, for example `out_of_memory`.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Verified => "verified",
            Self::Unstable => "unstable",
            Self::ParityUnverified => "parity_unverified",
            Self::NotReached => "not_reached",
            Self::TimedOut => "timed_out",
            Self::OutOfMemory => "out_of_memory",
            Self::Crashed => "crashed",
            Self::ParityFailed => "parity_failed",
            Self::Unsupported => "unsupported",
            Self::Unavailable => "unavailable",
        }
    }

    /// Whether all that was asked for is there: such an ending never fails a run.
    #[must_use]
    pub const fn is_complete(self) -> bool {
        matches!(self, Self::Measured | Self::Verified)
    }

    /// Whether launching the cell again in the next block cannot end otherwise.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(
            self,
            Self::ParityFailed
                | Self::ParityUnverified
                | Self::Unsupported
                | Self::Unavailable
                | Self::OutOfMemory
        )
    }
}

impl std::fmt::Display for OutcomeKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_wins_and_the_earliest_of_equals() {
        let good = Outcome::measured();
        let first = Outcome::new(OutcomeKind::Crashed, "signal 11");
        let second = Outcome::new(OutcomeKind::Crashed, "signal 6");
        assert_eq!(
            Outcome::worst_of([&good, &first, &second, &good]),
            Some(&first)
        );
        assert_eq!(Outcome::worst_of([]), None);
    }

    #[test]
    fn words_are_those_of_the_files() {
        for kind in OutcomeKind::ALL {
            assert_eq!(serde_json::to_string(kind).unwrap(), format!("\"{kind}\""));
        }
        assert!(OutcomeKind::ALL.is_sorted());
    }
}
