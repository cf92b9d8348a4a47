//! Shape inference, which is also the check that a graph makes sense.
//!
//! A worker runs [`shapes`] on every graph that it receives: what passes has unique names in
//! topological order, right numbers of inputs, fitting shapes and element types, fills that make
//! valid numbers (token ids below the rows of their table), and sizes whose products fit.

mod fills;
mod rules;
mod window;
mod wires;

use std::collections::{BTreeMap, BTreeSet};

use schema::{
    Graph,
    graph::{ElementType, Fill, Input, Loss, Node, Op, Parameter, Role},
};

use crate::{ModelError, fill};
pub(crate) use rules::broadcast;
pub(crate) use wires::Wires;

/// Most elements of one value: far above any real tensor, far below overflow.
pub const MAX_ELEMENTS: u64 = 1 << 40;

/// How everything ends that is said of a value with more: no engine can be given it either.
pub(crate) const BEYOND: &str = "has more than 2^40 elements";

/// Most axes of one value.
pub const MAX_RANK: usize = 8;

/// Element type and shape of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueType {
    /// Element type.
    pub element: ElementType,
    /// Shape.
    pub shape: Vec<u64>,
}

impl ValueType {
    /// Number of elements. Values that [`shapes`] returns have at most [`MAX_ELEMENTS`].
    #[must_use]
    pub fn elements(&self) -> u64 {
        self.shape
            .iter()
            .fold(1, |product: u64, &size| product.saturating_mul(size))
    }
}

/// Types of all values of the graph by name: inputs, labels, parameters and the nodes' outputs.
///
/// # Errors
/// [`ModelError`] that names the first node or value that is wrong.
pub fn shapes(graph: &Graph) -> Result<BTreeMap<String, ValueType>, ModelError> {
    let mut scope = Scope::new(&graph.name);
    for input in &graph.inputs {
        scope.add_input(input)?;
    }
    if let Some(Loss::CrossEntropy { labels, .. }) = &graph.loss {
        scope.add_labels(labels)?;
    }
    for parameter in &graph.parameters {
        scope.add_parameter(parameter)?;
    }
    for node in &graph.nodes {
        scope.add_node(node)?;
    }
    scope.check_outputs(&graph.outputs)?;
    if let Some(loss) = &graph.loss {
        scope.check_loss(loss)?;
    }
    Ok(scope.types)
}

/// The element type of a parameter: integers where its fill makes integers.
#[must_use]
pub const fn parameter_element(parameter: &Parameter) -> ElementType {
    if fill::makes_integers(&parameter.fill) {
        ElementType::Int64
    } else {
        ElementType::Float
    }
}

/// What is known while walking a graph from its inputs on.
pub(crate) struct Scope {
    graph: String,
    types: BTreeMap<String, ValueType>,
    fills: BTreeMap<String, Fill>,
    buffers: BTreeSet<String>,
    labels: BTreeSet<String>,
    nodes: BTreeSet<String>,
    made: BTreeSet<String>,
}

impl Scope {
    pub(crate) fn new(graph: &str) -> Self {
        Self {
            graph: graph.to_owned(),
            types: BTreeMap::new(),
            fills: BTreeMap::new(),
            buffers: BTreeSet::new(),
            labels: BTreeSet::new(),
            nodes: BTreeSet::new(),
            made: BTreeSet::new(),
        }
    }

    pub(crate) fn get(&self, value: &str) -> Option<&ValueType> {
        self.types.get(value)
    }

    pub(crate) fn add_input(&mut self, input: &Input) -> Result<(), ModelError> {
        fills::check(input.element, &input.fill)
            .map_err(|reason| self.value_error(&input.name, reason))?;
        if let Fill::Stored { .. } = input.fill {
            let reason = "only parameters can be stored".to_owned();
            return Err(self.value_error(&input.name, reason));
        }
        self.fills.insert(input.name.clone(), input.fill);
        let value = ValueType {
            element: input.element,
            shape: input.shape.clone(),
        };
        self.add_value(&input.name, value)
    }

    pub(crate) fn add_labels(&mut self, labels: &Input) -> Result<(), ModelError> {
        self.labels.insert(labels.name.clone());
        self.add_input(labels)
    }

    pub(crate) fn add_parameter(&mut self, parameter: &Parameter) -> Result<(), ModelError> {
        let element = parameter_element(parameter);
        fills::check(element, &parameter.fill)
            .map_err(|reason| self.value_error(&parameter.name, reason))?;
        if element == ElementType::Int64 && parameter.role != Role::Constant {
            let reason = "an integer parameter can only be a constant".to_owned();
            return Err(self.value_error(&parameter.name, reason));
        }
        if parameter.role == Role::Buffer {
            self.buffers.insert(parameter.name.clone());
        }
        self.fills.insert(parameter.name.clone(), parameter.fill);
        self.add_value(
            &parameter.name,
            ValueType {
                element,
                shape: parameter.shape.clone(),
            },
        )
    }

    pub(crate) fn add_node(&mut self, node: &Node) -> Result<(), ModelError> {
        let error = |reason| self.node_error(node, reason);
        if node.name.is_empty() || self.nodes.contains(&node.name) {
            return Err(error(
                "its name is empty or taken by another node".to_owned(),
            ));
        }
        let [output] = node.outputs.as_slice() else {
            return Err(error(format!(
                "makes one value, {} are named",
                node.outputs.len()
            )));
        };
        let inputs = node
            .inputs
            .iter()
            .map(|name| {
                self.types
                    .get(name)
                    .ok_or_else(|| error(format!("reads `{name}`, which nothing before it makes")))
            })
            .collect::<Result<Vec<_>, _>>()?;
        let value = rules::output(&node.op, &inputs).map_err(error)?;
        self.check_roles(node).map_err(error)?;
        if value.element == ElementType::Int64
            && moves(&node.op)
            && let [from] = node.inputs.as_slice()
            && let Some(&fill @ Fill::Integers { .. }) = self.fills.get(from)
        {
            self.fills.insert(output.clone(), fill);
        }
        self.nodes.insert(node.name.clone());
        self.made.insert(output.clone());
        self.add_value(output, value)
    }

    /// Checks that need to know where a value comes from.
    fn check_roles(&self, node: &Node) -> Result<(), String> {
        if let Some(label) = node.inputs.iter().find(|name| self.labels.contains(*name)) {
            return Err(format!("reads `{label}`, which only the loss may"));
        }
        match (&node.op, node.inputs.as_slice()) {
            (Op::BatchNormalization { .. }, [_, _, _, statistics @ ..]) => {
                match statistics.iter().find(|name| !self.buffers.contains(*name)) {
                    Some(name) => Err(format!("`{name}` must be a parameter of role buffer")),
                    None => Ok(()),
                }
            }
            (Op::Gather, [table, indices]) => {
                let rows = self.types.get(table).and_then(|table| table.shape.first());
                let shape = self
                    .types
                    .get(indices)
                    .map(|indices| indices.shape.as_slice());
                match (rows, self.fills.get(indices), shape) {
                    (Some(&rows), Some(fill), Some(shape)) => fills::check_below(fill, shape, rows)
                        .map_err(|reason| format!("indices `{indices}`: {reason}")),
                    _ => Err(format!(
                        "indices `{indices}` must be an input or a parameter, whose range is known, or a part of one"
                    )),
                }
            }
            _ => Ok(()),
        }
    }

    fn check_outputs(&self, outputs: &[String]) -> Result<(), ModelError> {
        if outputs.is_empty() {
            let reason = "has no outputs".to_owned();
            return Err(ModelError::Graph {
                graph: self.graph.clone(),
                reason,
            });
        }
        let mut seen = BTreeSet::new();
        for output in outputs {
            if !self.made.contains(output) {
                return Err(self.value_error(output, "is an output, and no node makes it".into()));
            }
            if !seen.insert(output) {
                return Err(self.value_error(output, "is an output twice".into()));
            }
        }
        Ok(())
    }

    fn check_loss(&self, loss: &Loss) -> Result<(), ModelError> {
        let Loss::CrossEntropy { logits, labels } = loss;
        let error = |reason: String| self.value_error(logits, format!("as logits: {reason}"));
        let value = self
            .types
            .get(logits)
            .ok_or_else(|| error("nothing makes it".into()))?;
        check_labels(value, labels.element, &labels.shape, &labels.fill).map_err(error)
    }

    fn add_value(&mut self, name: &str, value: ValueType) -> Result<(), ModelError> {
        let reason = if name.is_empty() {
            "its name is empty".to_owned()
        } else if self.types.contains_key(name) {
            "its name is taken by another value".to_owned()
        } else if let Err(reason) = check_shape(&value) {
            reason
        } else {
            self.types.insert(name.to_owned(), value);
            return Ok(());
        };
        Err(self.value_error(name, reason))
    }

    fn value_error(&self, value: &str, reason: String) -> ModelError {
        ModelError::Value {
            graph: self.graph.clone(),
            value: value.to_owned(),
            reason,
        }
    }

    fn node_error(&self, node: &Node, reason: String) -> ModelError {
        ModelError::Node {
            graph: self.graph.clone(),
            node: node.name.clone(),
            op: node.op.name(),
            reason,
        }
    }
}

/// Whether an operator makes a part of what it reads, or all of it, in another order or shape, or several times.
pub(crate) const fn moves(op: &Op) -> bool {
    matches!(
        op,
        Op::Slice { .. }
            | Op::Transpose { .. }
            | Op::Reshape { .. }
            | Op::Flatten { .. }
            | Op::Squeeze { .. }
            | Op::Expand { .. }
    )
}

/// Type of what `op` makes of values of these types; an error says what is wrong with them.
pub(crate) fn made(op: &Op, inputs: &[&ValueType]) -> Result<ValueType, String> {
    let value = rules::output(op, inputs)?;
    check_shape(&value).map(|()| value)
}

/// Whether a value can have its shape.
pub(crate) fn check_shape(value: &ValueType) -> Result<(), String> {
    let shape = &value.shape;
    if shape.len() > MAX_RANK {
        Err(format!(
            "has {} axes, at most {MAX_RANK} are possible",
            shape.len()
        ))
    } else if shape.contains(&0) {
        Err(format!("shape {shape:?} has an axis of size 0"))
    } else if value.elements() > MAX_ELEMENTS {
        Err(format!("shape {shape:?} {BEYOND}"))
    } else {
        Ok(())
    }
}

/// Whether labels of this type and content fit the logits.
fn check_labels(
    logits: &ValueType,
    element: ElementType,
    shape: &[u64],
    fill: &Fill,
) -> Result<(), String> {
    let Some((&classes, positions)) = logits.shape.split_last() else {
        return Err("a scalar has no classes".to_owned());
    };
    if logits.element != ElementType::Float || element != ElementType::Int64 {
        return Err("logits must be floats and labels integers".to_owned());
    }
    if shape != positions {
        return Err(format!(
            "its shape {:?} wants labels of shape {positions:?}, they have {shape:?}",
            logits.shape
        ));
    }
    fills::check_below(fill, shape, classes).map_err(|reason| format!("labels: {reason}"))
}
