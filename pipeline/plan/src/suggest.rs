//! "Did you mean": the known word nearest to an unknown one.

/// Words longer than this are not compared: no known word is.
const WORD_LIMIT: usize = 64;

/// Most words that are compared.
const KNOWN_LIMIT: usize = 1000;

/// A help line: the nearest of `known`, and all of them where they are few.
pub(crate) fn among<'a>(
    word: &str,
    known: impl IntoIterator<Item = &'a str>,
    title: &str,
) -> String {
    let mut known: Vec<&str> = known.into_iter().take(KNOWN_LIMIT).collect();
    known.sort_unstable();
    known.dedup();
    let mut list = known
        .iter()
        .take(24)
        .map(|name| format!("`{name}`"))
        .collect::<Vec<_>>()
        .join(", ");
    if known.len() > 24 {
        list.push_str(", …");
    }
    match nearest(word, &known) {
        Some(name) if known.len() > 1 => format!("did you mean `{name}`? {title}: {list}"),
        Some(name) if known.len() == 1 => format!("did you mean `{name}`?"),
        None if list.is_empty() => format!("{title}: none"),
        _ => format!("{title}: {list}"),
    }
}

/// The known word that a typing slip may have turned into `word`: Jaro–Winkler similarity of at
/// least 0.8, or the same word in another case or with other separators.
pub(crate) fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    if word.chars().count() > WORD_LIMIT {
        return None;
    }
    let plain = |text: &str| text.to_lowercase().replace(['-', ' ', '.', '/'], "_");
    let wanted = plain(word);
    known
        .iter()
        .map(|name| (strsim::jaro_winkler(&wanted, &plain(name)), *name))
        .filter(|(likeness, name)| *likeness >= 0.8 && *name != word)
        .reduce(|best, next| if next.0 > best.0 { next } else { best })
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_seen_through_and_strangers_are_not() {
        let known = ["onnxruntime", "pytorch", "tensorflow"];
        assert_eq!(nearest("onnxruntim", &known), Some("onnxruntime"));
        assert_eq!(nearest("PyTorch", &known), Some("pytorch"));
        assert_eq!(nearest("banana", &known), None);
        assert_eq!(nearest(&"pytorch".repeat(1000), &known), None);
    }
}
