//! What a model is fed: inputs of the graph, and the numbers that fill them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use schema::graph::{ElementType, Fill, Input};

use super::{
    ReadError,
    import::{Import, Value},
    tensor::{Constant, Element, Kind},
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
            if fed.kind == Kind::Bool || (fed.kind == Kind::Integer && fed.code != Element::INT64) {
                let reason = "holds booleans or narrow integers; export it with floats and int64";
                return Err(refused(reason));
            }
            let (element, fill) = match fed.kind {
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
            let is_known = fed.kind == Kind::Integer && !indices.contains(name.as_str());
            let value = if is_known {
                // Ones, here as for every engine.
                let one = Constant::integers(vec![1; shape.len()], vec![1]);
                let ones = self
                    .expand(&one, &shape)
                    .map_err(|reason| refused(&reason))?;
                Value::Known(ones)
            } else {
                self.types.insert(name.clone(), value);
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

    /// The inputs, those that are indices bounded by the rows that they are used for.
    pub(super) fn take_inputs(&mut self) -> Vec<Input> {
        let mut inputs = std::mem::take(&mut self.inputs);
        for input in &mut inputs {
            if let Some(&bound) = self.rows.get(&input.name) {
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

/// Inputs that some node takes rows by, casts and copies in between.
fn indices(graph: &GraphProto) -> BTreeSet<&str> {
    let mut copies: HashMap<&str, &str> = HashMap::new();
    let mut found = BTreeSet::new();
    for node in &graph.node {
        let root = |name: &String| copies.get(name.as_str()).copied();
        match (
            node.op_type.as_str(),
            node.input.as_slice(),
            node.output.as_slice(),
        ) {
            ("Identity" | "Cast", [input, ..], [output, ..]) => {
                let input = root(input).unwrap_or(input);
                copies.insert(output, input);
            }
            ("Gather", [_, indices, ..], _) => {
                found.insert(root(indices).unwrap_or(indices));
            }
            _ => {}
        }
    }
    found
}
