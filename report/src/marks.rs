//! A colour and a shape for each value of a compared axis: stable, and never colour alone.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

/// Number of colours of the style sheet: `--series-0` and on.
const COLOURS: u8 = 8;

/// Number of shapes that the chart kit and the sprite know.
const SHAPES: u8 = 8;

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
    /// Gives every value of every axis its mark, no two of an axis the same while there are
    /// enough. The variants of an engine share its colour and differ in shape; engines differ in
    /// both, for those who cannot tell the colours apart.
    pub(crate) fn new<'a>(values: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut axes: BTreeMap<&str, BTreeSet<Named<'_>>> = BTreeMap::new();
        for (axis, value) in values {
            let named = Named::new(axis, value);
            axes.entry(axis).or_default().insert(named);
        }
        let mut marks = BTreeMap::new();
        for (axis, values) in axes {
            let mut colours: BTreeMap<&str, u8> = BTreeMap::new();
            let mut used: BTreeSet<Mark> = BTreeSet::new();
            for named in values {
                let colour = match colours.get(named.family) {
                    Some(known) => *known,
                    None => {
                        let taken = colours.values().copied().collect();
                        let colour = colour(axis, named.family, &taken);
                        colours.insert(named.family, colour);
                        colour
                    }
                };
                let all = (0..COLOURS).flat_map(|further| {
                    let colour = (colour + further) % COLOURS;
                    (0..SHAPES).map(move |step| Mark {
                        colour,
                        shape: (colour + step) % SHAPES,
                    })
                });
                let mark = all.clone().find(|mark| !used.contains(mark));
                let mark = mark.or_else(|| all.clone().next()).unwrap_or_default();
                used.insert(mark);
                marks.insert((axis.to_owned(), named.value.to_owned()), mark);
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

/// A value, ordered so that engines with a colour of their own choose first.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Named<'a> {
    free: bool,
    value: &'a str,
    /// What shares a colour.
    family: &'a str,
}

impl<'a> Named<'a> {
    fn new(axis: &str, value: &'a str) -> Self {
        let family = match value.split_once('/') {
            Some((engine, _)) if axis == "engine" => engine,
            _ => value,
        };
        Self {
            free: pinned(axis, family).is_none(),
            value,
            family,
        }
    }
}

fn pinned(axis: &str, name: &str) -> Option<u8> {
    let mut pins = PINNED.iter();
    let found = pins.find(|(engine, _)| axis == "engine" && *engine == name);
    found.map(|(_, colour)| *colour)
}

/// The pinned colour of an engine, or the first free one from the name's own place on: one that
/// no engine is known by, while there are such.
fn colour(axis: &str, name: &str, taken: &BTreeSet<u8>) -> u8 {
    let [first, ..] = *schema::Digest::of_bytes(name.as_bytes()).as_bytes();
    let known = |colour: &u8| axis == "engine" && PINNED.iter().any(|(_, pin)| pin == colour);
    let free = || {
        (0..COLOURS)
            .map(|step| first.wrapping_add(step) % COLOURS)
            .filter(|colour| !taken.contains(colour))
    };
    pinned(axis, name)
        .or_else(|| free().find(|colour| !known(colour)))
        .or_else(|| free().next())
        .unwrap_or(first % COLOURS)
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

    #[test]
    fn no_two_contenders_look_alike() {
        let engines = [
            "aaa/x",
            "bbb/x",
            "ccc/x",
            "onnxruntime/cpu",
            "openvino/cpu",
            "pytorch/eager",
            "tensorflow/xla",
            "tensorrt/native",
        ];
        let marks = Marks::new(engines.map(|engine| ("engine", engine)));
        let of = |engine: &str| marks.of("engine", engine);
        let colours: BTreeSet<u8> = engines.iter().map(|engine| of(engine).colour).collect();
        let shapes: BTreeSet<u8> = engines.iter().map(|engine| of(engine).shape).collect();
        assert_eq!((colours.len(), shapes.len()), (8, 8));
        let alone = Marks::new([("engine", "pytorch/eager")]);
        assert_eq!(alone.of("engine", "pytorch/eager"), of("pytorch/eager"));

        let values: Vec<String> = (0..64).map(|value| value.to_string()).collect();
        let marks = Marks::new(values.iter().map(|value| ("layout", value.as_str())));
        let all: BTreeSet<Mark> = values
            .iter()
            .map(|value| marks.of("layout", value))
            .collect();
        assert_eq!(all.len(), 64);
    }
}
