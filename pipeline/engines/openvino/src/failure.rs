//! What OpenVINO's errors mean for a cell.

use openvino::{InferenceError, InferenceErrorKind};
use schema::{Outcome, OutcomeKind};
use worker::failure::shortened;
pub(crate) use worker::failure::{unavailable, unsupported};

/// What OpenVINO says before the operators that it lacks.
const LACKING: &str = "No conversion rule found for operations: ";

/// The outcome of a cell in which OpenVINO refused while doing `what`.
pub(crate) fn failed(what: &str, error: &InferenceError) -> Outcome {
    let message = error.message.as_deref().unwrap_or_default();
    Outcome::new(kind(&error.kind, message), reason(what, error))
}

/// The outcome of a cell whose model OpenVINO did not take while doing `what`: an error that it explains is a refusal.
pub(crate) fn refused(what: &str, error: &InferenceError) -> Outcome {
    let outcome = failed(what, error);
    let is_answer = matches!(
        error.kind,
        InferenceErrorKind::GeneralError
            | InferenceErrorKind::NetworkNotRead
            | InferenceErrorKind::ParameterMismatch
    );
    match outcome.kind {
        OutcomeKind::Crashed if is_answer && error.message.is_some() => unsupported(outcome.reason),
        _ => outcome,
    }
}

fn kind(kind: &InferenceErrorKind, message: &str) -> OutcomeKind {
    let lower = message.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|words| lower.contains(words));
    if says(&["bad_alloc", "out of memory", "failed to allocate"]) {
        OutcomeKind::OutOfMemory
    } else if *kind == InferenceErrorKind::NotImplemented || says(&["opconversionfailure"]) {
        OutcomeKind::Unsupported
    } else {
        OutcomeKind::Crashed
    }
}

/// The first operator that OpenVINO's message says it lacks, as ONNX calls it.
pub(crate) fn lacking(error: &InferenceError) -> Option<&str> {
    let (_, operators) = error.message.as_deref()?.split_once(LACKING)?;
    let first = operators.split([',', '\n']).next()?.trim();
    // The domain, where it is not ONNX's own, goes before; the version of the operator follows.
    let (operator, _) = first.rsplit_once('-')?;
    Some(operator.rsplit('.').next().unwrap_or(operator))
}

fn reason(what: &str, error: &InferenceError) -> String {
    let told = error.message.as_deref().map(str::trim).unwrap_or_default();
    // OpenVINO begins with the places in its own sources; what went wrong follows.
    let lines = told
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !is_place(line));
    let told: String = lines.collect::<Vec<_>>().join("; ");
    let told = if told.is_empty() {
        error.kind.to_string()
    } else {
        shortened(&told)
    };
    format!("{what}: {told}")
}

/// Whether a line of a message only says where in OpenVINO's sources it was thrown.
fn is_place(line: &str) -> bool {
    line.starts_with("Exception from src/") || line.starts_with("Check '")
}

#[cfg(test)]
mod tests {
    use worker::failure::LONGEST_REASON;

    use super::*;

    fn error(kind: InferenceErrorKind, message: &str) -> InferenceError {
        let message = (!message.is_empty()).then(|| message.to_owned());
        InferenceError { kind, message }
    }

    #[test]
    fn messages_become_typed_outcomes() {
        use InferenceErrorKind::{GeneralError, NotImplemented, UnknownException};
        let cases = [
            (GeneralError, "std::bad_alloc", OutcomeKind::OutOfMemory),
            (NotImplemented, "", OutcomeKind::Unsupported),
            (
                GeneralError,
                "FrontEnd API failed with OpConversionFailure:\nModel wasn't fully converted.",
                OutcomeKind::Unsupported,
            ),
            (UnknownException, "", OutcomeKind::Crashed),
        ];
        for (kind, message, expected) in cases {
            let outcome = failed("step", &error(kind, message));
            assert_eq!(outcome.kind, expected, "{message}");
            assert!(outcome.reason.starts_with("step: "), "{outcome:?}");
        }
    }

    /// In a step nothing of a model is refused any more.
    #[test]
    fn a_model_that_is_not_taken_is_unsupported() {
        use InferenceErrorKind::{GeneralError, NetworkNotRead, UnknownException};
        let message = "Shape inference input shapes {[2],[3]}";
        let cases = [
            (GeneralError, message, OutcomeKind::Unsupported),
            (NetworkNotRead, message, OutcomeKind::Unsupported),
            (GeneralError, "std::bad_alloc", OutcomeKind::OutOfMemory),
            (GeneralError, "", OutcomeKind::Crashed),
            (UnknownException, message, OutcomeKind::Crashed),
        ];
        for (kind, message, expected) in cases {
            let error = error(kind, message);
            let outcome = refused("compiling the model", &error);
            assert_eq!(outcome.kind, expected, "{outcome:?}");
            assert!(outcome.reason.starts_with("compiling the model: "));
            assert_ne!(failed("step", &error).kind, OutcomeKind::Unsupported);
        }
    }

    #[test]
    fn a_reason_is_short_and_without_places_in_sources() {
        let message = "Exception from src/inference/src/cpp/core.cpp:113:\n\nCheck 'x' failed at y:1:\nFrontEnd API failed\n";
        let outcome = failed("step", &error(InferenceErrorKind::GeneralError, message));
        assert_eq!(outcome.reason, "step: FrontEnd API failed");
        let long = error(InferenceErrorKind::GeneralError, &"é".repeat(1000));
        let outcome = failed("step", &long);
        assert_eq!(outcome.reason.chars().count(), 6 + LONGEST_REASON);
    }

    #[test]
    fn the_operator_that_lacks_is_found() {
        let of = |message: &str| {
            let error = error(InferenceErrorKind::GeneralError, message);
            lacking(&error).map(str::to_owned)
        };
        let message = |list: &str| format!("Summary:\n-- {LACKING}{list}\n");
        assert_eq!(of(&message("Rely-17")).as_deref(), Some("Rely"));
        let two = message("com.microsoft.Strange-1, Rely-17");
        assert_eq!(of(&two).as_deref(), Some("Strange"));
        assert_eq!(of("std::bad_alloc"), None);
    }
}
