//! The line of a file in which something is wrong, with a caret; and the reader's words in ours.

use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use schema::characters::is_unseen;

/// Longest line that is shown, in bytes.
const LINE_LIMIT: usize = 400;

/// Longest message, in characters.
const MESSAGE_LIMIT: usize = 600;

/// A place in a file.
pub(crate) struct Place {
    /// From 1.
    pub(crate) line: usize,
    /// In characters, from 1.
    pub(crate) column: usize,
    /// The line with a caret, after a line break; empty where the line is too long to be shown.
    pub(crate) excerpt: String,
}

/// The place of a range of bytes.
pub(crate) fn place(text: &str, span: &Range<usize>) -> Place {
    let boundary = |byte: usize| text.floor_char_boundary(byte.min(text.len()));
    let (from, to) = (boundary(span.start), boundary(span.end.max(span.start)));
    let before = text.get(..from).unwrap_or_default();
    let head = before.rsplit('\n').next().unwrap_or_default();
    let rest = text.get(from..).unwrap_or_default();
    let marked = text.get(from..to).unwrap_or_default();
    let rest = rest.lines().next().unwrap_or_default();
    let marked = marked.lines().next().unwrap_or_default();
    let tail = rest.strip_prefix(marked).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let excerpt = if head.len() + rest.len() <= LINE_LIMIT {
        excerpt(line, &shown(head), &shown(marked), &shown(tail))
    } else {
        String::new()
    };
    Place {
        line,
        column: head.chars().count() + 1,
        excerpt,
    }
}

fn excerpt(line: usize, head: &str, marked: &str, tail: &str) -> String {
    let source = format!("{head}{marked}{tail}");
    let caret = AnnotationKind::Primary.span(head.len()..head.len() + marked.len());
    let snippet = Snippet::source(source).line_start(line).annotation(caret);
    let group = Group::with_level(Level::ERROR).element(snippet);
    let drawn = Renderer::plain().term_width(100).render(&[group]);
    format!("\n{drawn}")
}

/// A line that only shows itself; a character stands for each.
fn shown(text: &str) -> String {
    let one = |c| match c {
        '\t' => ' ',
        c if !is_unseen(c) => c,
        _ => '\u{fffd}',
    };
    text.chars().map(one).collect()
}

/// A message that only shows itself, on one line, and not longer than anybody reads.
pub(crate) fn message(text: &str) -> String {
    let mut message: String = shown(text).chars().take(MESSAGE_LIMIT).collect();
    if text.chars().nth(MESSAGE_LIMIT).is_some() {
        message.push('…');
    }
    message
}

/// What the TOML reader says about keys and words, with the known one that was probably meant. Its
/// message quotes what it found, and after `, expected` everything that it knows.
pub(crate) fn in_our_words(message: &str) -> String {
    if let Some(key) = message.strip_prefix("missing field ") {
        return format!("the key {key} is missing");
    }
    let kinds = [
        ("unknown field `", "key", "keys"),
        ("unknown variant `", "value", "values"),
    ];
    for (start, kind, kinds) in kinds {
        let parts = message
            .strip_prefix(start)
            .and_then(|rest| rest.rsplit_once("`, expected "));
        if let Some((found, expected)) = parts {
            let known: Vec<&str> = expected.split('`').skip(1).step_by(2).collect();
            let hint = nearest(found, &known)
                .map(|name| format!("; did you mean `{name}`?"))
                .unwrap_or_default();
            let known = known.join("`, `");
            return format!("unknown {kind} `{found}`{hint} (known {kinds}: `{known}`)");
        }
    }
    message.to_owned()
}

/// The known word that a slip may have turned into `word`: Jaro–Winkler similarity of at least 0.8.
fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    if word.len() > 64 {
        return None;
    }
    let word = word.to_lowercase().replace('-', "_");
    known
        .iter()
        .map(|name| (strsim::jaro_winkler(&word, name), *name))
        .filter(|(likeness, _)| *likeness >= 0.8)
        .reduce(|best, next| if next.0 > best.0 { next } else { best })
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_told_with_what_was_meant() {
        let expected = "expected one of `title`, `summary`";
        assert_eq!(
            in_our_words(&format!("unknown field `sumary`, {expected}")),
            "unknown key `sumary`; did you mean `summary`? (known keys: `title`, `summary`)"
        );
        assert_eq!(
            in_our_words(&format!("unknown variant `a`, expected `b`, {expected}")),
            "unknown value `a`, expected `b` (known values: `title`, `summary`)"
        );
        assert_eq!(
            in_our_words("unknown field `x`, there are no fields"),
            "unknown field `x`, there are no fields"
        );
        assert_eq!(in_our_words("missing field `a`"), "the key `a` is missing");
    }

    #[test]
    fn places_are_found_in_any_text() {
        let text = "a = 1\r\nü\t= \u{202e}2";
        for from in 0..=text.len() + 2 {
            for to in 0..=text.len() + 2 {
                let place = place(text, &(from..to));
                assert!(place.excerpt.contains('^'), "{from}..{to}");
                assert!(place.excerpt.chars().all(|c| c == '\n' || !is_unseen(c)));
                assert!(place.line <= 2);
            }
        }
        let place = place(text, &(9..10));
        assert_eq!((place.line, place.column), (2, 2));
        assert!(place.excerpt.contains("ü = \u{fffd}2"), "{}", place.excerpt);
        assert!(super::place(&"x".repeat(1000), &(5..6)).excerpt.is_empty());
    }
}
