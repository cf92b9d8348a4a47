//! What TensorFlow's errors mean for a cell.

use schema::{Outcome, OutcomeKind};
use tensorflow::{Code, Status};
use worker::failure::shortened;
pub(crate) use worker::failure::{unavailable, unsupported};

/// Something went wrong while a node was lowered.
#[derive(Debug)]
pub(crate) enum Fault {
    /// TensorFlow refused.
    Refused(Status),
    /// TensorFlow, or this worker, has no way to do it.
    Unsupported(String),
    /// An operand that nothing has made.
    Missing(String),
}

impl From<Status> for Fault {
    fn from(status: Status) -> Self {
        Self::Refused(status)
    }
}

impl Fault {
    /// The outcome of a cell in which this happened at `place`, for example `Conv conv1`.
    pub(crate) fn at(self, place: &str) -> Outcome {
        match self {
            Self::Refused(status) => failed(place, &status),
            Self::Unsupported(reason) => unsupported(format!("{place}: {reason}")),
            Self::Missing(name) => missing(&format!("{place}: {name}")),
        }
    }
}

/// The outcome of a cell in which TensorFlow refused while doing `what`.
pub(crate) fn failed(what: &str, status: &Status) -> Outcome {
    let message = status.to_string();
    Outcome::new(kind(status.code(), &message), reason(what, &message))
}

fn kind(code: Code, message: &str) -> OutcomeKind {
    let lower = message.to_lowercase();
    let says = |parts: &[&str]| parts.iter().any(|part| lower.contains(part));
    if code == Code::ResourceExhausted || says(&["out of memory", "bad_alloc"]) {
        OutcomeKind::OutOfMemory
    } else if code == Code::Unimplemented
        || says(&[
            "no gradient defined",
            "no opkernel was registered",
            "no registered",
            "detected unsupported operations",
            "is not supported",
        ])
    {
        OutcomeKind::Unsupported
    } else {
        OutcomeKind::Crashed
    }
}

/// TensorFlow's own words in one line, without its advice.
fn reason(what: &str, message: &str) -> String {
    let words = message.split("\nHint:").next().unwrap_or(message);
    let words: Vec<&str> = words.split_whitespace().collect();
    format!("{what}: {}", shortened(&words.join(" ")))
}

/// Something that cannot be had in memory.
pub(crate) fn too_large(name: &str, shape: &[u64]) -> Outcome {
    Outcome::new(
        OutcomeKind::OutOfMemory,
        format!("{name}: {shape:?} does not fit in memory"),
    )
}

/// A mistake of this worker's: it asked for something that it has not made.
pub(crate) fn missing(what: &str) -> Outcome {
    Outcome::new(OutcomeKind::Crashed, format!("nothing has made `{what}`"))
}

#[cfg(test)]
mod tests {
    use worker::failure::LONGEST_REASON;

    use super::*;

    #[test]
    fn messages_become_typed_outcomes() {
        for (code, message, expected) in [
            (
                Code::ResourceExhausted,
                "OOM when allocating tensor with shape[4000000,4000000]",
                OutcomeKind::OutOfMemory,
            ),
            (
                Code::Unimplemented,
                "The Conv2D op currently only supports the NHWC tensor format on the CPU.",
                OutcomeKind::Unsupported,
            ),
            (
                Code::InvalidArgument,
                "No OpKernel was registered to support Op 'FusedBatchNormV3'",
                OutcomeKind::Unsupported,
            ),
            (
                Code::NotFound,
                "No gradient defined for op: TopKV2.",
                OutcomeKind::Unsupported,
            ),
            (
                Code::InvalidArgument,
                "Matrix size-incompatible: In[0]: [2,3], In[1]: [4,5]",
                OutcomeKind::Crashed,
            ),
        ] {
            assert_eq!(kind(code, message), expected, "{message}");
        }
    }

    #[test]
    fn a_reason_is_one_short_line_without_advice() {
        let text = reason("step", "OOM\n\t [[{{node a}}]]\nHint: If you want to see");
        assert_eq!(text, "step: OOM [[{{node a}}]]");
        let long = reason("step", &"é".repeat(1000));
        assert_eq!(long.chars().count(), "step: ".len() + LONGEST_REASON);
    }
}
