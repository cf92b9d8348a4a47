//! Failures that engines have in common, in the same words and of the same length.

use schema::{Outcome, OutcomeKind};

/// The longest reason of an engine's worth showing, in characters.
pub const LONGEST_REASON: usize = 400;

/// A configuration that the engine, or its worker, does not run.
pub fn unsupported(reason: impl Into<String>) -> Outcome {
    Outcome::new(OutcomeKind::Unsupported, reason)
}

/// Something that this machine lacks.
pub fn unavailable(reason: impl Into<String>) -> Outcome {
    Outcome::new(OutcomeKind::Unavailable, reason)
}

/// The beginning of an engine's own words, no longer than [`LONGEST_REASON`].
#[must_use]
pub fn shortened(words: &str) -> String {
    words.chars().take(LONGEST_REASON).collect()
}
