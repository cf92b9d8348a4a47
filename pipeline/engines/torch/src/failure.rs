//! What PyTorch's exceptions mean for a cell.

use schema::{Outcome, OutcomeKind};
use tch::TchError;
use worker::failure::shortened;
pub(crate) use worker::failure::{unavailable, unsupported};

use crate::shim::ShimError;

/// Something went wrong inside a step.
#[derive(Debug)]
pub(crate) enum Fault {
    /// PyTorch threw, called through `tch`.
    Torch(TchError),
    /// PyTorch threw, called through the shim.
    Shim(ShimError),
    /// A value was read that no step has made: a mistake of the lowering.
    Missing,
}

impl From<TchError> for Fault {
    fn from(error: TchError) -> Self {
        Self::Torch(error)
    }
}

impl From<ShimError> for Fault {
    fn from(error: ShimError) -> Self {
        Self::Shim(error)
    }
}

impl Fault {
    /// The outcome of a cell in which this happened at `place`, for example `Conv conv1`.
    pub(crate) fn at(self, place: &str) -> Outcome {
        match self {
            Self::Torch(TchError::Torch(text)) => classify(place, &text),
            Self::Torch(other) => classify(place, &other.to_string()),
            Self::Shim(ShimError(text)) => classify(place, &text),
            Self::Missing => Outcome::new(
                OutcomeKind::Crashed,
                format!("{place}: reads a value that no step has made"),
            ),
        }
    }
}

/// Turns the text of an exception into an outcome.
fn classify(place: &str, text: &str) -> Outcome {
    let lower = text.to_lowercase();
    let says = |parts: &[&str]| parts.iter().any(|part| lower.contains(part));
    let kind = if says(&[
        "out of memory",
        "can't allocate memory",
        "cannot allocate memory",
        "bad_alloc",
        // What cuBLAS and cuDNN say where there is no room for what they need.
        "status_alloc_failed",
    ]) {
        OutcomeKind::OutOfMemory
    } else if says(&[
        "not implemented for",
        "could not run 'aten::",
        "not supported",
        "unsupported",
    ]) {
        OutcomeKind::Unsupported
    } else {
        OutcomeKind::Crashed
    };
    Outcome::new(kind, format!("{place}: {}", first_paragraph(text)))
}

/// An exception's own words without the C++ stack below them.
fn first_paragraph(text: &str) -> String {
    let words = text
        .split("\nException raised from")
        .next()
        .unwrap_or(text)
        .trim();
    shortened(words)
}

#[cfg(test)]
mod tests {
    use worker::failure::LONGEST_REASON;

    use super::*;

    #[test]
    fn exceptions_become_typed_outcomes() {
        let kind = |text: &str| classify("Conv c", text).kind;
        assert_eq!(
            kind(
                "[enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 4000000000000 bytes."
            ),
            OutcomeKind::OutOfMemory
        );
        assert_eq!(
            kind("CUDA out of memory. Tried to allocate 2 GiB"),
            OutcomeKind::OutOfMemory
        );
        assert_eq!(
            kind("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
            OutcomeKind::OutOfMemory
        );
        // Of a cuDNN that does not fit as well.
        assert_eq!(
            kind("GET was unable to find an engine to execute this computation"),
            OutcomeKind::Crashed
        );
        assert_eq!(
            kind("\"add_cpu\" not implemented for 'Half'"),
            OutcomeKind::Unsupported
        );
        assert_eq!(
            kind("The size of tensor a (3) must match"),
            OutcomeKind::Crashed
        );
    }

    #[test]
    fn a_reason_is_short_and_names_the_place() {
        let text = format!("{}\nException raised from f at x.cpp:1", "é".repeat(1000));
        let outcome = classify("Conv stem", &text);
        assert!(outcome.reason.starts_with("Conv stem: é"));
        assert_eq!(
            outcome.reason.chars().count(),
            "Conv stem: ".len() + LONGEST_REASON
        );
    }
}
