//! The one place from which anything is printed.

use std::{
    io::{self, ErrorKind, IsTerminal, Write},
    process,
};

use serde::Serialize;

use crate::{args::OutputFormat, failure::Failure};

/// Prints results on standard output, and everything else on standard error.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Printer {
    format: OutputFormat,
}

impl Printer {
    pub(crate) const fn new(format: OutputFormat) -> Self {
        Self { format }
    }

    /// Whether results are JSON.
    pub(crate) fn is_json(self) -> bool {
        self.format == OutputFormat::Json
    }

    /// A result for people; nothing when results are JSON.
    pub(crate) fn human(self, text: &str) {
        if !self.is_json() {
            self.raw(text);
        }
    }

    /// A result for programs; nothing when results are for people.
    pub(crate) fn json<T: Serialize>(self, value: &T) -> Result<(), Failure> {
        if self.is_json() {
            let text = serde_json::to_string_pretty(value)
                .map_err(|error| Failure::internal(format!("failed to write JSON: {error}")))?;
            self.raw(&text);
        }
        Ok(())
    }

    /// A result in whatever format. A reader that has gone away has seen enough.
    pub(crate) fn raw(self, text: &str) {
        let mut out = anstream::stdout().lock();
        let newline = if text.ends_with('\n') { "" } else { "\n" };
        let written = write!(out, "{text}{newline}").and_then(|()| out.flush());
        if let Err(error) = written
            && error.kind() == ErrorKind::BrokenPipe
        {
            leave(0);
        }
    }

    /// A line beside the results: progress, warnings, where things were put.
    #[expect(
        clippy::unused_self,
        reason = "everything printed goes through a printer"
    )]
    pub(crate) fn note(self, text: &str) {
        // A closed standard error leaves no way to complain.
        let _ = writeln!(anstream::stderr(), "{text}");
    }

    /// An error.
    pub(crate) fn failure(self, failure: &Failure) {
        let text = failure.text();
        if self.is_json() && !failure.is_told() {
            let _ = self.json(&serde_json::json!({ "error": failure.document() }));
        }
        self.note(&text);
    }
}

/// Whether a person watches.
pub(crate) fn on_terminal() -> bool {
    io::stderr().is_terminal()
}

/// Leaves at once.
#[expect(
    clippy::exit,
    reason = "nothing is left to clean up when the reader has gone away"
)]
fn leave(code: i32) -> ! {
    process::exit(code)
}
