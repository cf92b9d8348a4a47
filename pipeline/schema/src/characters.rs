//! Characters that do not show themselves: what steers a terminal, turns a line around, or makes
//! two different words look the same.

/// Whether a character does not show itself: controls (white space but the space included), line
/// and paragraph separators, and Unicode's classes `Bidi_Control` and
/// `Default_Ignorable_Code_Point` (`PropList.txt` and `DerivedCoreProperties.txt` of version 16;
/// the second class holds all of the first).
#[must_use]
pub fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{115f}'..='\u{1160}'
                | '\u{17b4}'..='\u{17b5}'
                | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{3164}'
                | '\u{fe00}'..='\u{fe0f}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fff8}'
                | '\u{1bca0}'..='\u{1bca3}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

/// Whether an unseen character has no place in prose. Persian and the languages of India are not
/// written without the zero-width joiner and non-joiner, nor many emoji without the joiner and the
/// variation selectors; they shape the letters beside them, and do nothing else. Names hold none
/// of them.
#[must_use]
pub fn is_unfit_for_prose(c: char) -> bool {
    is_unseen(c) && !matches!(c, '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_known() {
        for unseen in [
            '\0',
            '\t',
            '\u{7f}',
            '\u{85}',
            '\u{ad}',
            '\u{61c}',
            '\u{180e}',
            '\u{200b}',
            '\u{200e}',
            '\u{2028}',
            '\u{202e}',
            '\u{2060}',
            '\u{2066}',
            '\u{3164}',
            '\u{feff}',
            '\u{e0041}',
            '\u{e007f}',
        ] {
            assert!(is_unseen(unseen), "{}", unseen.escape_unicode());
            assert!(is_unfit_for_prose(unseen), "{}", unseen.escape_unicode());
        }
        for seen in [
            ' ', 'a', 'é', '\u{a0}', '½', '漢', 'ن', '\u{301}', '🏁', '\u{fffd}',
        ] {
            assert!(!is_unseen(seen), "{}", seen.escape_unicode());
        }
    }

    #[test]
    fn what_languages_need_is_fit_for_prose() {
        // Persian "I go", and a heart on fire.
        for text in ["می\u{200c}روم", "❤\u{fe0f}\u{200d}🔥"] {
            assert!(text.chars().any(is_unseen));
            assert!(!text.chars().any(is_unfit_for_prose), "{text:?}");
        }
    }
}
