//! Text that came from outside: made harmless before it is shown.

use std::{borrow::Cow, fmt::Write as _};

use schema::characters::is_unfit_for_prose;

/// Makes characters visible that would otherwise act on their surroundings: control characters
/// (what clears a terminal, in a log) and those that are not seen but turn or hide text.
/// Line feeds and tabs stay.
pub(crate) fn clean(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_acting) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match character {
            // Control pictures mirror the C0 block.
            '\0'..='\x1f' if is_acting(character) => {
                clean.push(char::from_u32(0x2400 + u32::from(character)).unwrap_or('\u{fffd}'));
            }
            '\x7f' => clean.push('\u{2421}'),
            _ if is_acting(character) => {
                let _infallible = write!(clean, "⟨U+{:04X}⟩", u32::from(character));
            }
            _ => clean.push(character),
        }
    }
    Cow::Owned(clean)
}

fn is_acting(character: char) -> bool {
    // The last are not characters: browsers replace or refuse them.
    !matches!(character, '\n' | '\t')
        && (is_unfit_for_prose(character)
            || matches!(character, '\u{fdd0}'..='\u{fdef}' | '\u{fffe}' | '\u{ffff}'))
}

/// At most `limit` characters, the last an ellipsis if something was cut.
pub(crate) fn shorten(text: &str, limit: usize) -> String {
    if text.chars().nth(limit).is_none() {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(limit.saturating_sub(1)).collect();
    short.push('…');
    short
}

/// JSON that may stand inside a `script` element: nothing in it can close the element.
pub(crate) fn script_json(json: &str) -> String {
    json.replace('<', "\\u003c")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

/// One word of a POSIX shell, quoted only where it must be.
pub(crate) fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:=@%,".contains(c);
    if !text.is_empty() && text.chars().all(plain) && !text.starts_with('-') {
        return text.to_owned();
    }
    let guard = if text.starts_with('-') { "./" } else { "" };
    format!("'{guard}{}'", text.replace('\'', r"'\''"))
}

/// A path as a page may show it: of an absolute one only the file's name, since the folders above
/// it belong to one machine.
pub(crate) fn portable_path(path: &str) -> &str {
    if path.starts_with('/') {
        return path
            .rsplit('/')
            .find(|part| !part.is_empty())
            .unwrap_or("manifest.yaml");
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acting_characters_become_visible() {
        assert_eq!(clean("plain\n\ttext é 漢"), "plain\n\ttext é 漢");
        assert_eq!(clean("\x1b[31mred\x07"), "␛[31mred␇");
        assert_eq!(clean("a\u{202e}b\u{85}"), "a⟨U+202E⟩b⟨U+0085⟩");
    }

    #[test]
    fn shortening_counts_characters() {
        assert_eq!(shorten("日本語", 3), "日本語");
        assert_eq!(shorten("日本語文", 3), "日本…");
        assert_eq!(shorten("", 0), "");
    }

    #[test]
    fn json_cannot_close_its_element() {
        assert_eq!(
            script_json(r#"{"a":"</script>"}"#),
            r#"{"a":"\u003c/script>"}"#
        );
    }

    #[test]
    fn shell_words_are_quoted_when_needed() {
        assert_eq!(shell_word("jobs/quickstart.yaml"), "jobs/quickstart.yaml");
        assert_eq!(shell_word("a b"), "'a b'");
        assert_eq!(shell_word("it's"), r"'it'\''s'");
        assert_eq!(shell_word("-rf"), "'./-rf'");
        assert_eq!(shell_word(""), "''");
    }

    #[test]
    fn absolute_folders_are_not_shown() {
        assert_eq!(portable_path("/home/ada/jobs/a.yaml"), "a.yaml");
        assert_eq!(portable_path("jobs/a.yaml"), "jobs/a.yaml");
        assert_eq!(portable_path("///"), "manifest.yaml");
    }
}
