//! Coordinates in words: what rows share is said once, and each row says only what sets it apart.

use std::collections::{BTreeMap, BTreeSet};

use crate::words;

type Coordinates = BTreeMap<String, String>;

/// The axes along which a set of rows varies, and what all of them share.
#[derive(Debug)]
pub(crate) struct Settings<'a> {
    varying: Vec<&'a str>,
    shared: Vec<(&'a str, &'a str)>,
}

impl<'a> Settings<'a> {
    /// Of these rows; `order` gives the order of axes, `without` one that is left out.
    pub(crate) fn of(
        rows: impl Iterator<Item = &'a Coordinates> + Clone,
        order: &'a [String],
        without: &str,
    ) -> Self {
        let mut values: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        let mut count = 0_usize;
        let mut present: BTreeMap<&str, usize> = BTreeMap::new();
        for row in rows {
            count += 1;
            for (axis, value) in row {
                values.entry(axis).or_default().insert(value);
                *present.entry(axis).or_default() += 1;
            }
        }
        let named = order
            .iter()
            .map(String::as_str)
            .filter(|axis| values.contains_key(axis));
        let others = values
            .keys()
            .copied()
            .filter(|axis| !order.iter().any(|known| known == axis));
        let mut varying = Vec::new();
        let mut shared = Vec::new();
        for axis in named.chain(others).filter(|axis| *axis != without) {
            let Some(found) = values.get(axis) else {
                continue;
            };
            match found.first() {
                Some(value) if found.len() == 1 && present.get(axis) == Some(&count) => {
                    shared.push((axis, *value));
                }
                _ => varying.push(axis),
            }
        }
        // A table with one row still needs a name for it.
        if varying.is_empty() && shared.len() > 1 {
            varying.push(shared.remove(0).0);
        }
        Self { varying, shared }
    }

    /// The axes along which rows differ.
    pub(crate) fn varying(&self) -> impl Iterator<Item = &'a str> {
        self.varying.iter().copied()
    }

    /// What all rows share, for a heading; may be empty.
    pub(crate) fn shared(&self) -> String {
        self.shared
            .iter()
            .map(|(axis, value)| words::value(axis, value))
            .collect::<Vec<_>>()
            .join(" · ")
    }

    /// What sets a row apart.
    pub(crate) fn label(&self, row: &Coordinates) -> String {
        let parts: Vec<String> = self
            .varying
            .iter()
            .filter_map(|axis| row.get(*axis).map(|value| words::value(axis, value)))
            .collect();
        match (parts.is_empty(), self.shared.is_empty()) {
            (false, _) => parts.join(" · "),
            (true, false) => self.shared(),
            (true, true) => "the only setting".to_owned(),
        }
    }
}

/// All coordinates in words, in the order of the axes.
pub(crate) fn describe(row: &Coordinates, order: &[String]) -> String {
    let named = order.iter().filter_map(|axis| row.get_key_value(axis));
    let others = row.iter().filter(|(axis, _)| !order.contains(axis));
    named
        .chain(others)
        .map(|(axis, value)| words::value(axis, value))
        .collect::<Vec<_>>()
        .join(" · ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(pairs: &[(&str, &str)]) -> Coordinates {
        pairs
            .iter()
            .map(|(axis, value)| ((*axis).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn what_is_shared_is_said_once() {
        let rows = [
            row(&[
                ("model", "a"),
                ("batch", "1"),
                ("precision", "fp32"),
                ("engine", "x/y"),
            ]),
            row(&[
                ("model", "b"),
                ("batch", "8"),
                ("precision", "fp32"),
                ("engine", "x/z"),
            ]),
        ];
        let order = ["model", "batch", "precision", "engine"].map(str::to_owned);
        let settings = Settings::of(rows.iter(), &order, "engine");
        assert_eq!(settings.shared(), "fp32");
        assert_eq!(settings.label(&rows[1]), "b · batch 8");
        let single = Settings::of(rows[..1].iter(), &order, "engine");
        assert_eq!(
            (single.label(&rows[0]).as_str(), single.shared().as_str()),
            ("a", "batch 1 · fp32")
        );
        let nothing = Settings::of([].iter(), &order, "engine");
        assert_eq!(nothing.shared(), "");
        assert_eq!(nothing.label(&Coordinates::new()), "the only setting");
    }
}
