//! What a model is fed: inputs of the graph, and the numbers that fill them.

use std::collections::{BTreeMap, HashSet};

use schema::graph::{ElementType, Fill, Input};

use super::{
    ReadError,
    import::{Import, Value},
    tensor::{Constant, Data, Kind},
};
use crate::{
    infer::{self, ValueType},
    onnx::proto::GraphProto,
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
                _ => (ElementType::Int64, Fill::Constant { value: 1.0 }),
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
            let value = if is_known {
                // Ones, here as for every engine; truths where the file has those.
                let ones = Data::Integers(vec![1]);
                let one = Constant::of(fed.element, vec![1; shape.len()], ones);
                let ones = self
                    .budget
                    .expanded(&one, &shape)
                    .map_err(|reason| refused(&reason))?;
                Value::Known(ones)
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

    /// Says that an input's numbers are below a table's rows.
    pub(super) fn bound(&mut self, input: &str, rows: u64) {
        let bound = self.rows.entry(input.to_owned()).or_insert(rows);
        *bound = rows.min(*bound);
    }
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
