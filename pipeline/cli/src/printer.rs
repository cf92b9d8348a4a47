//! The one place from which anything is printed.

use std::{
    borrow::Cow,
    io::{self, ErrorKind, IsTerminal, Write},
    sync::OnceLock,
};

use schema::characters::is_unfit_for_prose;
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
            self.raw(&harmless(text));
        }
    }

    /// A result for programs; nothing when results are for people.
    pub(crate) fn json<T: Serialize>(self, value: &T) -> Result<(), Failure> {
        if self.is_json() {
            let text = serde_json::to_string_pretty(value)
                .map_err(|error| Failure::internal(format!("failed to write JSON: {error}")))?;
            // JSON has no control characters, so there is nothing to strip: looking for them in
            // the plan of 10,000 cells takes longer than writing it.
            written(io::stdout().lock(), &text);
        }
        Ok(())
    }

    /// A result in whatever format. A reader that has gone away has seen enough; any other
    /// trouble is remembered for [`unwritten`].
    pub(crate) fn raw(self, text: &str) {
        written(anstream::stdout().lock(), text);
    }

    /// A line beside the results: progress, warnings, where things were put.
    pub(crate) fn note(self, text: &str) {
        self.styled(&harmless(text));
    }

    /// A line beside the results that has colours of our own and nobody else's control characters.
    #[expect(
        clippy::unused_self,
        reason = "everything printed goes through a printer"
    )]
    fn styled(self, text: &str) {
        // A closed standard error leaves no way to complain.
        let _ = writeln!(anstream::stderr(), "{text}");
    }

    /// An error.
    pub(crate) fn failure(self, failure: &Failure) {
        if self.is_json() && !failure.is_told() {
            let _ = self.json(&serde_json::json!({ "error": failure.document() }));
        }
        match failure.styled() {
            Some(styled) => self.styled(styled),
            None => self.note(&failure.text()),
        }
    }
}

/// Writes a text that ends its last line.
fn written(mut out: impl Write, text: &str) {
    let newline = if text.ends_with('\n') { "" } else { "\n" };
    let written = write!(out, "{text}{newline}").and_then(|()| out.flush());
    if let Err(error) = written
        && error.kind() != ErrorKind::BrokenPipe
    {
        let _ = UNWRITTEN.set(error.to_string());
    }
}

/// Why a result could not be written, if one could not.
pub(crate) fn unwritten() -> Option<&'static str> {
    UNWRITTEN.get().map(String::as_str)
}

static UNWRITTEN: OnceLock<String> = OnceLock::new();

/// A text from elsewhere (a bundle, a worker) must not play with the terminal: characters that
/// steer it, turn the direction of writing or cannot be seen are replaced by a visible one.
fn harmless(text: &str) -> Cow<'_, str> {
    let harmful = |c: char| c != '\n' && is_unfit_for_prose(c);
    if text.contains(harmful) {
        Cow::Owned(
            text.chars()
                .map(|c| if harmful(c) { '\u{fffd}' } else { c })
                .collect(),
        )
    } else {
        Cow::Borrowed(text)
    }
}

/// A text from elsewhere in the midst of one of ours: what it has of further lines is set in, to look like none of ours.
pub(crate) fn set_in(text: &str) -> String {
    text.replace('\n', "\n    ")
}

/// A number of things, in words that agree: `1 block`, `2 blocks`.
pub(crate) fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// How many characters a line of the terminal holds that somebody watches, if it tells.
pub(crate) fn terminal_width() -> Option<usize> {
    let (width, _) = terminal_size::terminal_size_of(io::stderr())?;
    Some(usize::from(width.0)).filter(|width| *width > 0)
}

/// Whether a person watches.
pub(crate) fn on_terminal() -> bool {
    io::stderr().is_terminal()
}

#[cfg(test)]
mod tests {
    use super::{harmless, set_in};

    #[test]
    fn further_lines_of_others_begin_no_line_of_ours() {
        assert_eq!(
            set_in("died\nall: verified\n\nend"),
            "died\n    all: verified\n    \n    end"
        );
        assert_eq!(set_in("died"), "died");
    }

    #[test]
    fn foreign_text_cannot_steer_a_terminal() {
        assert_eq!(harmless("plain\ntext"), "plain\ntext");
        assert_eq!(
            harmless("\u{1b}[2J\rx\u{202e}y\u{61c}\u{e0041}"),
            "\u{fffd}[2J\u{fffd}x\u{fffd}y\u{fffd}\u{fffd}"
        );
        assert_eq!(harmless("می\u{200c}روم"), "می\u{200c}روم");
    }
}
