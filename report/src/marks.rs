//! A colour and a shape for each value of a compared axis: stable, and never colour alone.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

/// Number of colours of the style sheet: `--series-0` and on.
const COLOURS: u8 = 8;

/// Number of shapes that the chart kit and the sprite know.
const SHAPES: u8 = 5;

/// Colours of known engines, so that a site of next year looks like one of today.
const PINNED: &[(&str, u8)] = &[
    ("onnxruntime", 1),
    ("openvino", 2),
    ("pytorch", 0),
    ("tensorflow", 4),
    ("tensorrt", 6),
    ("transformers", 3),
];

/// How a value is drawn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Mark {
    /// Number of the colour.
    pub(crate) colour: u8,
    /// Number of the shape.
    pub(crate) shape: u8,
}

/// The marks of a site.
#[derive(Debug, Default)]
pub(crate) struct Marks(BTreeMap<(String, String), Mark>);

impl Marks {
    /// Gives every value of every axis its mark. The variants of an engine share its colour and
    /// differ in shape.
    pub(crate) fn new<'a>(values: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut axes: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (axis, value) in values {
            axes.entry(axis).or_default().insert(value);
        }
        let mut marks = BTreeMap::new();
        for (axis, values) in axes {
            let mut taken = BTreeSet::new();
            let mut families: BTreeMap<&str, (u8, u8)> = BTreeMap::new();
            for value in values {
                let family = if axis == "engine" {
                    value.split_once('/').map_or(value, |(engine, _)| engine)
                } else {
                    value
                };
                let (colour, shape) = families
                    .entry(family)
                    .or_insert_with(|| (colour(axis, family, &mut taken), 0));
                let mark = Mark {
                    colour: *colour,
                    shape: *shape,
                };
                *shape = (*shape + 1) % SHAPES;
                marks.insert((axis.to_owned(), value.to_owned()), mark);
            }
        }
        Self(marks)
    }

    /// The mark of a value.
    pub(crate) fn of(&self, axis: &str, value: &str) -> Mark {
        self.0
            .get(&(axis.to_owned(), value.to_owned()))
            .copied()
            .unwrap_or_default()
    }
}

/// The pinned colour of an engine, or the first free one from the name's own place on.
fn colour(axis: &str, name: &str, taken: &mut BTreeSet<u8>) -> u8 {
    let pinned = PINNED
        .iter()
        .find(|(engine, _)| axis == "engine" && *engine == name);
    let chosen = pinned.map(|(_, colour)| *colour).unwrap_or_else(|| {
        let [first, ..] = *schema::Digest::of_bytes(name.as_bytes()).as_bytes();
        let free = (0..COLOURS)
            .map(|step| first.wrapping_add(step) % COLOURS)
            .find(|colour| {
                !taken.contains(colour)
                    && (axis != "engine" || PINNED.iter().all(|(_, pin)| pin != colour))
            });
        free.unwrap_or(first % COLOURS)
    });
    taken.insert(chosen);
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_share_a_colour_and_differ_in_shape() {
        let marks = Marks::new([
            ("engine", "pytorch/eager"),
            ("engine", "pytorch/compiled"),
            ("engine", "onnxruntime/cpu"),
        ]);
        let (eager, compiled) = (
            marks.of("engine", "pytorch/eager"),
            marks.of("engine", "pytorch/compiled"),
        );
        assert_eq!(eager.colour, compiled.colour);
        assert_ne!(eager.shape, compiled.shape);
        assert_ne!(marks.of("engine", "onnxruntime/cpu").colour, eager.colour);
    }

    #[test]
    fn an_engine_keeps_its_colour_in_any_company() {
        let alone = Marks::new([("engine", "pytorch/eager")]);
        let many = Marks::new([
            ("engine", "aaa/x"),
            ("engine", "pytorch/eager"),
            ("engine", "zzz/y"),
        ]);
        assert_eq!(
            alone.of("engine", "pytorch/eager"),
            many.of("engine", "pytorch/eager")
        );
    }

    #[test]
    fn other_axes_spread_over_the_colours() {
        let marks = Marks::new([
            ("precision", "fp32"),
            ("precision", "fp16"),
            ("precision", "bf16"),
        ]);
        let colours: BTreeSet<_> = ["fp32", "fp16", "bf16"]
            .iter()
            .map(|p| marks.of("precision", p).colour)
            .collect();
        assert_eq!(colours.len(), 3);
    }
}
