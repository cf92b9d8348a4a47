//! How a command fails: what is said, and with which exit code.

use std::{fmt::Display, process::ExitCode};

use serde::Serialize;
use serde_json::Value;

/// Why a command did not do what was asked.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    message: String,
    /// The message with colours, where it has any.
    styled: Option<String>,
    /// More for programs than the message.
    details: Option<Value>,
    /// Whether the result that was printed says it already: programs get one document.
    told: bool,
}

impl Failure {
    /// Bad usage or manifest.
    pub(crate) fn usage(message: impl Display) -> Self {
        Self::new(2, message)
    }

    /// A check failed.
    pub(crate) fn check(message: impl Display) -> Self {
        Self::new(1, message)
    }

    /// Cells ended in a failure that the manifest does not allow.
    pub(crate) fn cells(message: impl Display) -> Self {
        Self::new(3, message)
    }

    /// This machine lacks what was asked for.
    pub(crate) fn lacking(message: impl Display) -> Self {
        Self::new(4, message)
    }

    /// Interrupted, resumable.
    pub(crate) fn interrupted() -> Self {
        Self::interrupted_with("the same command goes on where it stopped")
    }

    /// Interrupted; the words say what the same command does next time.
    pub(crate) fn interrupted_with(next: &str) -> Self {
        Self::new(130, format!("interrupted: {next}"))
    }

    /// Something that no user can cause.
    pub(crate) fn internal(message: impl Display) -> Self {
        Self::new(70, message)
    }

    fn new(code: u8, message: impl Display) -> Self {
        Self {
            code,
            message: message.to_string(),
            styled: None,
            details: None,
            told: false,
        }
    }

    /// Says first what the failure is about.
    pub(crate) fn about(mut self, what: &str) -> Self {
        self.message = format!("{what}: {}", self.message);
        self
    }

    /// Adds what programs want to know.
    pub(crate) fn with_details(mut self, details: &impl Serialize) -> Self {
        self.details = serde_json::to_value(details).ok();
        self
    }

    /// The message as a terminal shows it; it has a heading of its own.
    pub(crate) fn with_styled(mut self, styled: String) -> Self {
        self.styled = Some(styled);
        self
    }

    /// Says that the result which was printed tells programs of the failure.
    pub(crate) fn already_told(mut self) -> Self {
        self.told = true;
        self
    }

    /// Whether what was given is what is wrong.
    pub(crate) fn is_usage(&self) -> bool {
        self.code == 2
    }

    /// Whether programs know already.
    pub(crate) fn is_told(&self) -> bool {
        self.told
    }

    /// The exit code.
    pub(crate) fn code(&self) -> ExitCode {
        ExitCode::from(self.code)
    }

    /// What went wrong.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// What a person reads.
    pub(crate) fn text(&self) -> String {
        format!("error: {}", self.message)
    }

    /// The same with colours and a heading of its own, where it has any.
    pub(crate) fn styled(&self) -> Option<&str> {
        self.styled.as_deref()
    }

    /// What a program reads.
    pub(crate) fn document(&self) -> Value {
        serde_json::json!({
            "exit_code": self.code,
            "message": self.message,
            "details": self.details,
        })
    }
}
