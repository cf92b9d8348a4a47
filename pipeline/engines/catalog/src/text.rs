//! The user's texts end up in terminals and pages: none may steer them.

use std::ops::Range;

use schema::characters::is_unseen;
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// The first text of a document that cannot be shown, with its place. What an environment variable
/// holds is handed to the worker and never shown.
pub(crate) fn unprintable(table: &DeTable<'_>) -> Option<(Range<usize>, String)> {
    let engines = table
        .get("engines")
        .and_then(|all| all.get_ref().as_table());
    let of_engines = engines.into_iter().flatten().find_map(|(name, engine)| {
        let mut parts = engine.get_ref().as_table().into_iter().flatten();
        odd(name.get_ref(), &name.span()).or_else(|| {
            parts.find_map(|(key, value)| {
                let variables = value.get_ref().as_table();
                match variables.filter(|_| key.get_ref() == "env") {
                    Some(variables) => variables
                        .keys()
                        .find_map(|name| odd(name.get_ref(), &name.span())),
                    None => of_pair((key, value)),
                }
            })
        })
    });
    let others = || {
        table
            .iter()
            .filter(|(key, _)| engines.is_none() || key.get_ref() != "engines")
            .find_map(of_pair)
    };
    of_engines.or_else(others)
}

fn of_pair(
    (key, value): (&Spanned<impl AsRef<str>>, &Spanned<DeValue<'_>>),
) -> Option<(Range<usize>, String)> {
    odd(key.get_ref().as_ref(), &key.span()).or_else(|| of_value(value))
}

fn of_value(value: &Spanned<DeValue<'_>>) -> Option<(Range<usize>, String)> {
    match value.get_ref() {
        DeValue::String(text) => odd(text, &value.span()),
        DeValue::Array(items) => items.iter().find_map(of_value),
        DeValue::Table(table) => table.iter().find_map(of_pair),
        _ => None,
    }
}

fn odd(text: &str, span: &Range<usize>) -> Option<(Range<usize>, String)> {
    let odd = text.chars().find(|c| is_unseen(*c))?;
    let message = format!(
        "this text holds the character U+{:04X}, which could steer a terminal or turn a line \
         around: leave it out",
        u32::from(odd)
    );
    Some((span.clone(), message))
}
