//! What is wrong, where, and what would be right: for people and for programs.

use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use schema::characters::is_unseen;
use serde::Serialize;

use crate::fault::Fault;

/// Longest message, in characters: a hostile file must not flood a terminal.
const MESSAGE_LIMIT: usize = 600;

/// An error of a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// The file, as given on the command line or found below it.
    pub path: String,
    /// Line, from 1; `None` where the file itself is the trouble.
    pub line: Option<usize>,
    /// Column in characters, from 1.
    pub column: Option<usize>,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub help: Option<String>,
    /// The line of the file, unprintable characters replaced one for one.
    #[serde(skip)]
    source: Option<String>,
    /// The bytes of `source` under the caret.
    #[serde(skip)]
    caret: Range<usize>,
}

impl Diagnostic {
    /// An error about a whole file.
    #[must_use]
    pub(crate) fn of_file(path: &str, message: &str, help: Option<&str>) -> Self {
        Self {
            path: printable(path),
            line: None,
            column: None,
            message: printable(message),
            help: help.map(printable),
            source: None,
            caret: 0..0,
        }
    }

    /// An error at a place of `text`.
    #[must_use]
    pub(crate) fn new(path: &str, text: &str, fault: &Fault) -> Self {
        let span = fault.span.clone().unwrap_or(0..0);
        let at = floor(text, span.start);
        let (number, line_start) = line_of(text, at);
        let rest = text.get(line_start..).unwrap_or_default();
        let line = rest.split(['\n', '\r']).next().unwrap_or_default();
        let in_line = |byte: usize| floor(line, byte.saturating_sub(line_start).min(line.len()));
        let (from, to) = (in_line(at), in_line(floor(text, span.end)));
        // What stands for a character may have another length in bytes.
        let safe = |part: Option<&str>| {
            part.unwrap_or_default()
                .chars()
                .map(harmless)
                .collect::<String>()
        };
        let (head, marked, tail) = (
            safe(line.get(..from)),
            safe(line.get(from..to)),
            safe(line.get(to..)),
        );
        Self {
            path: printable(path),
            line: Some(number),
            column: Some(head.chars().count() + 1),
            message: printable(&fault.message),
            help: fault.help.as_deref().map(printable),
            caret: head.len()..head.len() + marked.len(),
            source: Some(head + &marked + &tail),
        }
    }

    /// The error as text, with the line of the file and a caret; coloured for a terminal.
    #[must_use]
    pub fn render(&self, coloured: bool) -> String {
        let title = Level::ERROR.primary_title(self.message.as_str());
        let mut group = match (&self.source, self.line) {
            (Some(source), Some(line)) => title.element(
                Snippet::source(source.as_str())
                    .path(self.path.as_str())
                    .line_start(line)
                    .annotation(AnnotationKind::Primary.span(self.caret.clone())),
            ),
            _ => Group::with_title(title)
                .element(annotate_snippets::Origin::path(self.path.as_str())),
        };
        if let Some(help) = &self.help {
            group = group.element(Level::HELP.message(help.as_str()));
        }
        let renderer = if coloured {
            Renderer::styled()
        } else {
            Renderer::plain()
        };
        renderer.term_width(100).render(&[group])
    }
}

/// The number of the line that holds a byte, from 1, and where that line starts. As YAML has it, a
/// line ends with a line feed, with a carriage return, or with the two together.
fn line_of(text: &str, at: usize) -> (usize, usize) {
    let bytes = text.as_bytes();
    let ends_line = |byte: usize| match bytes.get(byte) {
        Some(b'\n') => true,
        Some(b'\r') => bytes.get(byte + 1) != Some(&b'\n'),
        _ => false,
    };
    let ends = (0..at).filter(|byte| ends_line(*byte));
    ends.fold((1, 0), |(number, _), end| (number + 1, end + 1))
}

/// The last boundary of a character at or before `byte`.
fn floor(text: &str, byte: usize) -> usize {
    text.floor_char_boundary(byte.min(text.len()))
}

/// What stands for a character in a line that is shown: whoever looks for an error must see what
/// does not show itself.
fn harmless(c: char) -> char {
    match c {
        '\t' => ' ',
        c if is_unseen(c) => '\u{fffd}',
        c => c,
    }
}

/// A message fit to be shown: one line, nothing unseen, bounded.
fn printable(text: &str) -> String {
    let mut shown: String = text.chars().map(harmless).take(MESSAGE_LIMIT).collect();
    if shown.len() < text.len() && text.chars().nth(MESSAGE_LIMIT).is_some() {
        shown.push('…');
    }
    shown
}
