//! What a model is fed: inputs of the graph, and the numbers that fill them.

use std::collections::{BTreeMap, HashMap, HashSet};

use schema::graph::{ElementType, Fill, Input};

use super::{
    File, ReadError,
    attributes::Attributes,
    import::{Here, Import, Value},
    tensor::{Constant, Data, Element, Kind},
};
use crate::{
    fill,
    infer::{self, ValueType},
    onnx::proto::{GraphProto, NodeProto},
};

impl Import<'_> {
    /// Declares the inputs.
    pub(super) fn feed(&mut self, dims: &BTreeMap<String, u64>) -> Result<(), ReadError> {
        let indices = indices(self.nodes);
        for fed in &self.file.inputs.fed {
            let (name, shape) = (&fed.name, fed.shape(dims));
            let refused =
                |reason: &str| ReadError::Malformed(format!("its input `{name}` {reason}"));
            let (element, fill) = match fed.element.kind {
                Kind::Float => {
                    // Mean 0 and variance 1, as the zoo's images.
                    let bound = 3_f32.sqrt();
                    (
                        ElementType::Float,
                        Fill::Uniform {
                            low: -bound,
                            high: bound,
                        },
                    )
                }
                _ => {
                    let value = f32::from(u8::from(!self.feeding.zeros.contains(name)));
                    (ElementType::Int64, Fill::Constant { value })
                }
            };
            let value = ValueType {
                element,
                shape: shape.clone(),
            };
            infer::check_shape(&value).map_err(|reason| refused(&reason))?;
            if !self.taken.insert(name.clone()) {
                return Err(refused("has the name of another value"));
            }
            let is_known = element == ElementType::Int64 && !indices.contains(name.as_str());
            let value = if is_known && self.feeding.numbers.contains(name) {
                self.types.insert(name.clone(), value);
                self.as_numbers(name, &shape)
                    .map_err(|reason| self.refusal("Cast".to_owned(), name.clone(), reason))?
            } else if is_known {
                let same = fill::integers(name, &fill, &[1]);
                let same = Constant::of(fed.element, vec![1; shape.len()], Data::Integers(same));
                let same = self.budget.expanded(&same, &shape).map_err(|_| {
                    refused("has more integers than are computed with while reading")
                })?;
                self.alone.insert(name.clone(), name.clone());
                Value::Known(same)
            } else {
                let code = fed.element.code;
                if element == ElementType::Float && code != self.file.float_code() {
                    self.otherwise_fed.insert(name.clone(), code);
                }
                self.types.insert(name.clone(), value);
                self.as_fed.insert(name.clone(), name.clone());
                Value::Made(name.clone())
            };
            self.values.insert(name.clone(), value);
            self.inputs.push(Input {
                name: name.clone(),
                element,
                shape,
                fill,
            });
        }
        Ok(())
    }

    /// The inputs, those that are indices bounded by the rows that they are used for, and by what
    /// their element type holds.
    pub(super) fn take_inputs(&mut self) -> Vec<Input> {
        let mut inputs = std::mem::take(&mut self.inputs);
        for (input, fed) in inputs.iter_mut().zip(&self.file.inputs.fed) {
            if let Some(&rows) = self.rows.get(&input.name) {
                let bound = rows.min(fed.element.reach());
                input.fill = Fill::Integers { bound };
            }
        }
        inputs
    }

    /// The input of integers that a value is, or is a part of.
    pub(super) fn fed_behind(&self, name: &str) -> Option<&String> {
        self.as_fed.get(name).or_else(|| self.moved.get(name))
    }

    /// Says that an input's numbers are below a table's rows.
    pub(super) fn bound(&mut self, input: &str, rows: u64) -> Result<(), String> {
        let bound = self.rows.entry(input.to_owned()).or_insert(rows);
        *bound = rows.min(*bound);
        if self.worked_out.get(input).is_some_and(|&used| rows < used) {
            return Err(format!(
                "takes one of {rows} rows by `{input}`, of which more was worked out for larger numbers"
            ));
        }
        Ok(())
    }

    /// The integers that an input is fed, for what follows from them by arithmetic: places of tokens, say,
    /// that count which of them are padding. `None` of anything else, of pixels, and of an input whose
    /// bound is not known beforehand.
    pub(super) fn ids(&mut self, name: &str) -> Result<Option<Constant>, String> {
        let Some(input) = self.as_fed.get(name).cloned() else {
            return Ok(None);
        };
        let file = self.file;
        let mut fed = file.inputs.fed.iter();
        let fed = fed.find(|fed| fed.name == input && !fed.element.is_pixel());
        let (Some(fed), Some(&rows)) = (fed, self.tables.get(&input)) else {
            return Ok(None);
        };
        self.bound(&input, rows.min(fed.element.reach()))?;
        let bound = self.rows.get(&input).copied().unwrap_or(rows);
        self.worked_out.insert(input.clone(), bound);
        let shape = self.shape_of(&Value::Made(name.to_owned()))?;
        let count = self.budget.count(&shape)?;
        self.budget.take(count.saturating_mul(2))?;
        let numbers = fill::integers(&input, &Fill::Integers { bound }, &shape);
        Ok(Some(Constant::integers(shape, numbers)))
    }

    /// The operands of a node, if all are known: the integers that are fed are, where a node computes with
    /// them. With it, what the node makes of such integers.
    pub(super) fn known(
        &mut self,
        here: Here<'_>,
        inputs: &[Option<Value>],
    ) -> Result<Known, String> {
        let computes = computes_with_ids(here);
        let origin_of = |at: usize| {
            let name = here.node.input.get(at);
            name.and_then(|name| self.from_ids.get(name)).copied()
        };
        let looks_up = matches!(
            here.node.op_type.as_str(),
            "Gather" | "GatherND" | "GatherElements"
        );
        if looks_up && origin_of(1) == Some(Origin::Ids) {
            return Err("takes rows by what is computed from integers that are fed".to_owned());
        }
        let mut known = Vec::with_capacity(inputs.len());
        let mut origin = Origin::File;
        for (name, input) in here.node.input.iter().zip(inputs) {
            origin = origin.max(self.from_ids.get(name).copied().unwrap_or(Origin::File));
            known.push(match input {
                Some(Value::Made(made)) if computes => {
                    let ids = self.ids(made)?;
                    if ids.is_some() {
                        origin = Origin::Ids;
                    }
                    ids.map(Some)
                }
                Some(Value::Made(_)) => None,
                Some(Value::Known(constant)) => Some(Some(constant.clone())),
                None => Some(None),
            });
        }
        let operands: Option<Vec<Option<Constant>>> = known.into_iter().collect();
        if operands.is_some() && here.node.op_type == "Cast" {
            origin.check_cast(cast_to(here))?;
        }
        let origin = match here.node.op_type.as_str() {
            "Equal" | "Less" | "LessOrEqual" | "Greater" | "GreaterOrEqual" | "ArgMax" => {
                origin.min(Origin::Comparison)
            }
            "Cast" if origin == Origin::Ids && !makes_integers(here) => Origin::Comparison,
            _ => origin,
        };
        Ok(Known { operands, origin })
    }

    /// Remembers what a node made of integers that are fed. They are as wide as the file has them, 32 bits
    /// perhaps, and here 64: of what has no room in 32 nothing is known.
    pub(super) fn made_of_ids(
        &mut self,
        here: Here<'_>,
        origin: Origin,
        made: &[Constant],
    ) -> Result<(), String> {
        if origin == Origin::File {
            return Ok(());
        }
        let wholes = made.iter().filter(|made| made.kind == Kind::Integer);
        for constant in wholes.filter(|_| origin == Origin::Ids) {
            let numbers = self.budget.list(constant)?;
            if numbers.iter().any(|&x| i32::try_from(x).is_err()) {
                return Err("computes with integers that are fed beyond 32 bits".to_owned());
            }
        }
        let outputs = here.node.output.iter().cloned();
        self.from_ids.extend(outputs.map(|output| (output, origin)));
        Ok(())
    }
}

/// What constants were worked out from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Origin {
    /// The file, sizes and masks.
    File,
    /// How integers that are fed compare to others: which are padding, where the largest is.
    Comparison,
    /// Those integers.
    Ids,
}

impl Origin {
    /// Refuses to make floats of ids: what a network computes with as with other numbers is a part of it that
    /// is not worked out once.
    pub(super) fn check_cast(self, to: i32) -> Result<(), String> {
        let makes_floats = Element::of(to).is_ok_and(|element| element.kind == Kind::Float);
        if self == Self::Ids && makes_floats {
            return Err("makes floats of integers that are fed".to_owned());
        }
        Ok(())
    }
}

/// The operands of a node.
pub(super) struct Known {
    /// `None` where not all of them are known.
    pub(super) operands: Option<Vec<Option<Constant>>>,
    /// What the node's outputs are from.
    pub(super) origin: Origin,
}

/// The fewest rows of the file's own tables that each input is taken for rows of, whatever shape it has
/// there.
pub(super) fn tables(file: &File) -> HashMap<String, u64> {
    let fed = file
        .inputs
        .fed
        .iter()
        .filter(|fed| fed.element.kind == Kind::Integer);
    let mut same: HashMap<&str, &str> = fed.map(|fed| (&*fed.name, &*fed.name)).collect();
    let mut tables: HashMap<String, u64> = HashMap::new();
    for node in &file.nodes.node {
        let value = |at: usize| node.input.get(at).map(String::as_str);
        match node.op_type.as_str() {
            "Cast" if !makes_wide(node) => {}
            "Identity" | "Cast" | "Reshape" | "Flatten" | "Squeeze" | "Unsqueeze" => {
                let input = value(0).and_then(|read| same.get(read).copied());
                if let (Some(input), Some(made)) = (input, node.output.first()) {
                    same.insert(made, input);
                }
            }
            "Gather" if Attributes(node).int("axis", 0) == 0 => {
                let table = value(0).and_then(|table| file.initializers.get(table));
                let input = value(1).and_then(|read| same.get(read));
                if let (Some(table), Some(&input)) = (table, input)
                    && let &[rows, _] = table.shape.as_slice()
                {
                    let fewest = tables.entry(input.to_owned()).or_insert(rows);
                    *fewest = rows.min(*fewest);
                }
            }
            _ => {}
        }
    }
    tables
}

/// Whether a cast keeps every row of a table.
fn makes_wide(node: &NodeProto) -> bool {
    let wide = [Element::INT32, Element::INT64].map(i64::from);
    wide.contains(&Attributes(node).int("to", 0))
}

/// Whether the node computes with integers, which no graph does: with those that are fed it is worked out
/// while reading.
fn computes_with_ids(here: Here<'_>) -> bool {
    match here.node.op_type.as_str() {
        "Equal" | "Less" | "LessOrEqual" | "Greater" | "GreaterOrEqual" | "Add" | "Sub" | "Mul"
        | "ArgMax" | "CumSum" | "ReduceSum" | "ReduceMax" | "ReduceMin" | "Sign" => true,
        "Cast" => !makes_integers(here),
        _ => false,
    }
}

/// ONNX's number of the element type that a `Cast` makes.
fn cast_to(here: Here<'_>) -> i32 {
    i32::try_from(here.attributes.int("to", 0)).unwrap_or(0)
}

fn makes_integers(here: Here<'_>) -> bool {
    Element::of(cast_to(here)).is_ok_and(|element| element.kind == Kind::Integer)
}

/// Values that some node takes rows by, and those that they are but for their places: inputs among
/// them are indices, whatever moves their numbers on the way.
fn indices(graph: &GraphProto) -> HashSet<&str> {
    let mut found = HashSet::new();
    // From behind: who reads a value stands behind who makes it.
    for node in graph.node.iter().rev() {
        let op = node.op_type.as_str();
        let is_index = |name: &String| found.contains(name.as_str());
        let moved = match op {
            _ if !node.output.iter().any(is_index) => &[],
            "Concat" => node.input.as_slice(),
            "Where" => node.input.get(1..).unwrap_or_default(),
            "Identity" | "Cast" | "CastLike" | "Reshape" | "Flatten" | "Squeeze" | "Unsqueeze"
            | "Slice" | "Transpose" | "Expand" | "Tile" | "Split" | "Gather" | "Clip" | "Mod" => {
                node.input.get(..1).unwrap_or_default()
            }
            _ => &[],
        };
        found.extend(moved.iter().map(String::as_str));
        if let ("Gather", Some(rows)) = (op, node.input.get(1)) {
            found.insert(rows);
        }
    }
    found
}
