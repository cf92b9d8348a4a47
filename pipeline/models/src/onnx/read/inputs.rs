//! What a model is fed: names, shapes with open sizes, and the dimensions of a manifest that bind
//! them.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    ReadError,
    tensor::{Element, Kind},
};
use crate::{
    infer::MAX_RANK,
    onnx::proto::{DimensionProto, GraphProto, ValueInfoProto},
};

/// The dimension that every model without a better word for it varies first.
const BATCH: &str = "batch";

/// Largest size of a dimension.
const LARGEST: u64 = 1 << 31;

/// Words of exporters for dimensions that the zoo has, too.
const WORDS: [(&str, &str); 12] = [
    ("batch_size", BATCH),
    ("batchsize", BATCH),
    ("batch_dim", BATCH),
    ("bs", BATCH),
    ("n", BATCH),
    ("b", BATCH),
    ("sequence", "seq"),
    ("sequence_length", "seq"),
    ("seq_length", "seq"),
    ("seq_len", "seq"),
    ("seqlen", "seq"),
    ("s", "seq"),
];

/// One axis of an input.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Axis {
    Fixed(u64),
    /// Open, by the name of its dimension.
    Open(String),
}

/// Something that the model is fed.
#[derive(Debug, Clone)]
pub(super) struct Fed {
    pub(super) name: String,
    /// Its element type in the file.
    pub(super) element: Element,
    axes: Vec<Axis>,
}

/// All that the model is fed.
#[derive(Debug, Clone)]
pub(super) struct Inputs {
    pub(super) fed: Vec<Fed>,
    /// Names of open dimensions.
    open: BTreeSet<String>,
    /// The batch size of a model that has it written in.
    fixed_batch: Option<u64>,
}

impl Inputs {
    /// Whether an input is of truth values.
    pub(super) fn is_truth(&self, name: &str) -> bool {
        let mut fed = self.fed.iter();
        fed.any(|fed| fed.name == name && fed.element.kind == Kind::Bool)
    }

    /// Names of open dimensions.
    pub(super) fn open(&self) -> impl Iterator<Item = &str> {
        self.open.iter().map(String::as_str)
    }

    /// The inputs that are no initializers: before IR version 4 those were inputs, too.
    pub(super) fn of(graph: &GraphProto) -> Result<Self, ReadError> {
        let held: BTreeSet<&str> = graph
            .initializer
            .iter()
            .map(|tensor| tensor.name.as_str())
            .collect();
        let given = || {
            let given = graph.input.iter();
            given.filter(|input| !held.contains(input.name.as_str()))
        };
        let words = Words::of(given().flat_map(open_names));
        let fed: Vec<Fed> = given()
            .map(|input| {
                fed(input, &words).map_err(|reason| {
                    ReadError::Malformed(format!("its input `{}` {reason}", input.name))
                })
            })
            .collect::<Result<_, _>>()?;
        if fed.is_empty() {
            return Err(ReadError::Malformed("it has no inputs".to_owned()));
        }
        let mut names = BTreeSet::new();
        for input in &fed {
            if input.name.is_empty() || !names.insert(&input.name) {
                return Err(ReadError::Malformed(format!(
                    "two of its inputs are called `{}`, or it has none",
                    input.name
                )));
            }
        }
        let axes = || fed.iter().flat_map(|input| &input.axes);
        let open = axes().filter_map(|axis| match axis {
            Axis::Open(name) => Some(name.clone()),
            Axis::Fixed(_) => None,
        });
        let open: BTreeSet<String> = open.collect();
        let mut first = fed.iter().map(|input| match input.axes.as_slice() {
            [Axis::Fixed(size), _, ..] => Some(*size),
            _ => None,
        });
        let batch = first.next().flatten();
        let fixed_batch =
            batch.filter(|_| first.all(|size| size == batch) && !open.contains(BATCH));
        Ok(Self {
            fed,
            open,
            fixed_batch,
        })
    }

    /// Names of the dimensions that a manifest can speak of.
    pub(super) fn dimensions(&self) -> impl Iterator<Item = &str> {
        let batch = self.fixed_batch.map(|_| BATCH);
        self.open.iter().map(String::as_str).chain(batch)
    }

    /// Every dimension with its size: those that were asked for, and 1 for an open batch.
    pub(super) fn resolve(
        &self,
        wanted: &BTreeMap<String, u64>,
    ) -> Result<BTreeMap<String, u64>, ReadError> {
        let refused = |dimension: &str, reason: String| ReadError::Dimension {
            dimension: dimension.to_owned(),
            reason,
        };
        let mut dims = BTreeMap::new();
        for (name, &size) in wanted {
            if self.open.contains(name) {
                if !(1..=LARGEST).contains(&size) {
                    return Err(refused(name, format!("{size} is not possible")));
                }
            } else {
                match self.fixed_batch {
                    Some(batch) if name == BATCH && batch != size => {
                        let reason = format!(
                            "the file has {batch} written in, and cannot be run with {size}; \
                             export it with an open batch"
                        );
                        return Err(refused(name, reason));
                    }
                    Some(_) if name == BATCH => {}
                    _ => return Err(refused(name, "the file has no such dimension".to_owned())),
                }
            }
            dims.insert(name.clone(), size);
        }
        dims.extend(self.fixed_batch.map(|batch| (BATCH.to_owned(), batch)));
        for name in &self.open {
            if !dims.contains_key(name) {
                if name != BATCH {
                    let reason = format!(
                        "its size is open; give it in the matrix, as `{}: 128`",
                        key(name)
                    );
                    return Err(refused(name, reason));
                }
                dims.insert(name.clone(), 1);
            }
        }
        Ok(dims)
    }
}

/// A name as a key of YAML: in quotes unless it is a plain word.
fn key(name: &str) -> String {
    let is_plain = |of: char| of.is_ascii_alphanumeric() || of == '_';
    let starts = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    if starts && name.chars().all(is_plain) {
        name.to_owned()
    } else {
        format!("{name:?}")
    }
}

impl Fed {
    /// Its shape at these sizes.
    pub(super) fn shape(&self, dims: &BTreeMap<String, u64>) -> Vec<u64> {
        let size = |axis: &Axis| match axis {
            Axis::Fixed(size) => *size,
            Axis::Open(name) => dims.get(name).copied().unwrap_or(1),
        };
        self.axes.iter().map(size).collect()
    }
}

fn fed(input: &ValueInfoProto, words: &Words) -> Result<Fed, String> {
    let tensor = input.r#type.as_ref().and_then(|of| of.tensor_type.as_ref());
    let tensor = tensor.ok_or("is no tensor, and only tensors are fed")?;
    let element = Element::of(tensor.elem_type)?;
    let shape = tensor.shape.as_ref().ok_or("has no shape")?;
    if shape.dim.len() > MAX_RANK {
        return Err(format!(
            "has {} axes, at most {MAX_RANK} are possible",
            shape.dim.len()
        ));
    }
    let axes = shape.dim.iter().enumerate().map(|(at, dim)| {
        match (written(dim), dim.dim_param.as_deref()) {
            (Some(size), _) => u64::try_from(size)
                .ok()
                .filter(|size| (1..=LARGEST).contains(size))
                .map(Axis::Fixed)
                .ok_or_else(|| {
                    format!("has an axis of size {size}; export it with another, or a name for it")
                }),
            (None, Some(name)) if !name.is_empty() => Ok(Axis::Open(words.name(name))),
            _ if at == 0 => Ok(Axis::Open(BATCH.to_owned())),
            _ => Err(format!(
                "has an axis without size or name, its axis {at}; export it with a name for it"
            )),
        }
    });
    Ok(Fed {
        name: input.name.clone(),
        element,
        axes: axes.collect::<Result<_, _>>()?,
    })
}

/// The size that a dimension has. Some write an open one as a negative number, as frameworks do in memory.
fn written(dim: &DimensionProto) -> Option<i64> {
    dim.dim_value.filter(|size| *size >= 0)
}

/// Names of an input's open sizes, as the file has them.
fn open_names(input: &ValueInfoProto) -> impl Iterator<Item = &str> {
    let tensor = input.r#type.as_ref().and_then(|of| of.tensor_type.as_ref());
    let shape = tensor.and_then(|tensor| tensor.shape.as_ref());
    let dims = shape.into_iter().flat_map(|shape| &shape.dim);
    let named = dims.filter(|dim| written(dim).is_none());
    named
        .filter_map(|dim| dim.dim_param.as_deref())
        .filter(|name| !name.is_empty())
}

/// What manifests call a file's dimensions, so that two of them are two: a word is taken only where it
/// stands for one.
struct Words {
    /// How many names of the file become each word, or the same in small letters.
    words: BTreeMap<String, u64>,
    lower: BTreeMap<String, u64>,
}

impl Words {
    fn of<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let names: BTreeSet<&str> = names.collect();
        let counted = |by: fn(&str) -> String| {
            let mut counts = BTreeMap::new();
            for name in &names {
                *counts.entry(by(name)).or_insert(0) += 1;
            }
            counts
        };
        Self {
            words: counted(word),
            lower: counted(|name| name.to_lowercase()),
        }
    }

    fn name(&self, name: &str) -> String {
        let (word, lower) = (word(name), name.to_lowercase());
        let is_one = |counts: &BTreeMap<String, u64>, name| counts.get(name) == Some(&1);
        if is_one(&self.words, &word) {
            word
        } else if is_one(&self.lower, &lower) {
            lower
        } else {
            name.to_owned()
        }
    }
}

/// The word of manifests for an exporter's dimension.
fn word(name: &str) -> String {
    let lower = name.to_lowercase();
    let known = WORDS.iter().find(|(word, _)| *word == lower);
    known.map_or(lower.clone(), |(_, ours)| (*ours).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named<const N: usize>(names: [&str; N]) -> [String; N] {
        let words = Words::of(names.into_iter());
        names.map(|name| words.name(name))
    }

    #[test]
    fn dimensions_of_a_file_stay_apart() {
        assert_eq!(named(["batch_size", "Seq_Len"]), ["batch", "seq"]);
        assert_eq!(named(["N", "N", "height"]), ["batch", "batch", "height"]);
        assert_eq!(named(["B", "N"]), ["b", "n"]);
        assert_eq!(named(["batch", "N"]), ["batch", "n"]);
        assert_eq!(named(["n", "N", "S"]), ["n", "N", "seq"]);
    }
}
