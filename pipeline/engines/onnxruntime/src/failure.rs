//! What ONNX Runtime's errors mean for a cell.

use ort::ErrorCode;
use schema::{Outcome, OutcomeKind};
use worker::failure::shortened;
pub(crate) use worker::failure::{unavailable, unsupported};

/// The outcome of a cell in which ONNX Runtime refused while doing `what`.
pub(crate) fn failed<R>(what: &str, error: &ort::Error<R>) -> Outcome {
    Outcome::new(
        kind(error.code(), error.message()),
        reason(what, error.message()),
    )
}

/// The outcome of a cell whose model ONNX Runtime does not take: what it answers to a model that it finds wrong, in its
/// types or shapes say, is a refusal. What it throws, or its providers fail in, is none.
pub(crate) fn refused<R>(error: &ort::Error<R>) -> Outcome {
    Outcome::new(
        kind_of_refusal(error.code(), error.message()),
        reason("session", error.message()),
    )
}

fn kind_of_refusal(code: ErrorCode, message: &str) -> OutcomeKind {
    let is_answer = matches!(
        code,
        ErrorCode::GenericFailure
            | ErrorCode::InvalidArgument
            | ErrorCode::InvalidGraph
            | ErrorCode::InvalidProtobuf
    );
    match kind(code, message) {
        OutcomeKind::Crashed if is_answer => OutcomeKind::Unsupported,
        other => other,
    }
}

fn kind(code: ErrorCode, message: &str) -> OutcomeKind {
    let lower = message.to_lowercase();
    let out_of_memory = [
        "bad_alloc",
        "out of memory",
        "failed to allocate memory",
        // What cuBLAS and cuDNN say where there is no room for what they need.
        "status_alloc_failed",
    ];
    let missing = [
        "not_implemented",
        // LSTM and GRU have kernels in double precision that say so in their first step.
        "does not support double",
        // An operator, or a version of it, that no library of operators has.
        "is not a registered function/op",
        "no op registered for",
        // LSTM and GRU whose first axis is the batch (`layout`).
        "batchwise recurrent operations",
    ];
    if out_of_memory.iter().any(|words| lower.contains(words)) {
        OutcomeKind::OutOfMemory
    } else if code == ErrorCode::NotImplemented || missing.iter().any(|words| lower.contains(words))
    {
        OutcomeKind::Unsupported
    } else {
        OutcomeKind::Crashed
    }
}

fn reason(what: &str, message: &str) -> String {
    format!("{what}: {}", shortened(without_path(message.trim())))
}

/// What ONNX Runtime says of a file, which it calls by a path of ours that means nothing to a reader.
fn without_path(message: &str) -> &str {
    let told = message.strip_prefix("Load model from ");
    told.and_then(|told| told.split_once(" failed:"))
        .map_or(message, |(_, why)| why.trim())
}

#[cfg(test)]
mod tests {
    use worker::failure::LONGEST_REASON;

    use super::*;

    #[test]
    fn messages_become_typed_outcomes() {
        let cases = [
            (
                ErrorCode::RuntimeException,
                "LSTM operator does not support double yet",
                OutcomeKind::Unsupported,
            ),
            (
                ErrorCode::RuntimeException,
                "std::bad_alloc",
                OutcomeKind::OutOfMemory,
            ),
            (
                ErrorCode::RuntimeException,
                "Failed to allocate memory for requested buffer of size 1",
                OutcomeKind::OutOfMemory,
            ),
            (
                ErrorCode::RuntimeException,
                "CUDNN failure 2: CUDNN_STATUS_ALLOC_FAILED ; GPU=0",
                OutcomeKind::OutOfMemory,
            ),
            (
                ErrorCode::NotImplemented,
                "Could not find an implementation for Conv(11) node",
                OutcomeKind::Unsupported,
            ),
            (
                ErrorCode::GenericFailure,
                "Load model from m.onnx failed:Fatal error: my.ops:Foo(-1) is not a registered function/op",
                OutcomeKind::Unsupported,
            ),
            (
                ErrorCode::InvalidGraph,
                "This is an invalid model.",
                OutcomeKind::Crashed,
            ),
        ];
        for (code, message, expected) in cases {
            assert_eq!(kind(code, message), expected, "{message}");
        }
    }

    /// In a step nothing of a model is refused any more.
    #[test]
    fn a_model_that_is_not_taken_is_unsupported() {
        use OutcomeKind::{Crashed, OutOfMemory, Unsupported};
        let cases = [
            (
                ErrorCode::InvalidGraph,
                "This is an invalid model.",
                Unsupported,
            ),
            (ErrorCode::InvalidArgument, "Type Error: Type", Unsupported),
            (ErrorCode::InvalidProtobuf, "parsing failed", Unsupported),
            (ErrorCode::GenericFailure, "Type Error: Type", Unsupported),
            (ErrorCode::GenericFailure, "std::bad_alloc", OutOfMemory),
            (ErrorCode::NoSuchFile, "doesn't exist", Crashed),
            (ErrorCode::RuntimeException, "an exception", Crashed),
            (ErrorCode::ExecutionProviderFailure, "CUDA failure", Crashed),
        ];
        for (code, message, expected) in cases {
            assert_eq!(kind_of_refusal(code, message), expected, "{message}");
            assert_ne!(kind(code, message), Unsupported, "{message}");
        }
    }

    #[test]
    fn a_reason_names_no_path_of_ours() {
        let told =
            "Load model from /scratch/weights-0.onnx/m.onnx failed:Fatal error: no such operator";
        assert_eq!(
            reason("session", told),
            "session: Fatal error: no such operator"
        );
        assert_eq!(reason("step", "it failed: badly"), "step: it failed: badly");
    }

    #[test]
    fn a_reason_is_short() {
        assert_eq!(
            reason("step", &"é".repeat(1000)).chars().count(),
            6 + LONGEST_REASON
        );
    }
}
