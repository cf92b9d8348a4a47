//! Nodes of which no engine makes anything: their operands contradict each other at the sizes that were asked
//! for. TorchScript, for one, writes the batch of its example into the shapes that a model reshapes to. A file
//! with such a node is handed to nobody.

use super::{
    arithmetic,
    attributes::Attributes,
    import::{Import, Value},
    shapes,
    tensor::{Constant, Data, Kind},
};
use crate::{
    infer::{MAX_RANK, broadcast},
    onnx::proto::NodeProto,
};
use schema::graph::ElementType;

/// How many open dimensions are named.
const MOST_NAMED: usize = 3;

impl Import<'_> {
    /// What is wrong with a node that is not read, where that is certain from what it reads.
    pub(super) fn misfit(&self, node: &NodeProto) -> Option<String> {
        let attributes = Attributes(node);
        let shapes: Vec<Option<Vec<u64>>> = (0..node.input.len())
            .map(|at| self.operand_shape(node, at))
            .collect();
        let shape = |at: usize| shapes.get(at)?.as_deref();
        match node.op_type.as_str() {
            "Reshape" => {
                let spec = self.few(node, 1)?;
                let zero_is_size = attributes.int("allowzero", 0) != 0;
                let reshaped = shapes::reshaped(shape(0)?, &spec, zero_is_size);
                reshaped.err().map(|reason| self.of_sizes(reason))
            }
            "MatMul" => {
                let (a, b) = (shape(0)?, shape(1)?);
                let inner = match b {
                    &[.., rows, _] => rows,
                    &[rows] => rows,
                    [] => return Some("multiplies by what has no axes".to_owned()),
                };
                let differ = a.last() != Some(&inner);
                let differ = differ.then(|| self.of_sizes(format!("multiplies {a:?} and {b:?}")));
                differ.or_else(|| self.mixes(node, false))
            }
            "LSTM" | "GRU" => {
                let (x, states) = (shape(0)?, shape(2)?);
                let wanted = initial(x, states)?;
                let given = (5..=6).filter_map(shape).find(|given| *given != wanted);
                given.map(|given| self.of_sizes(not_initial(given, &wanted)))
            }
            "Concat" => {
                let first = shape(0)?;
                let axis = shapes::axis(attributes.int("axis", 0), first.len()).ok()?;
                let fits = |other: &[u64]| {
                    other.len() == first.len()
                        && (other.iter().zip(first).enumerate())
                            .all(|(at, (a, b))| at == axis || a == b)
                };
                let mut others = shapes.iter().flatten();
                let other = others.find(|other| !fits(other))?;
                Some(self.of_sizes(format!("{first:?} and {other:?} do not join")))
            }
            "Where" | "Sum" => self.unbroadcast(&shapes),
            op if arithmetic::binary(op, attributes).is_some() => self
                .unbroadcast(&shapes)
                .or_else(|| self.mixes(node, op == "Pow")),
            _ => None,
        }
    }

    /// What is wrong with sizes, and what else to ask for where the file leaves some open.
    fn of_sizes(&self, reason: String) -> String {
        let open: Vec<&str> = self.file.inputs.open().take(MOST_NAMED).collect();
        if open.is_empty() {
            return reason;
        }
        let open = open.join("`, `");
        format!(
            "{reason}; where another size of `{open}` was written into the node when it was exported, ask for that one, or \
             export it with that size left open (PyTorch: `dynamo=True`)"
        )
    }

    /// Operands that do not fit to one shape.
    fn unbroadcast(&self, shapes: &[Option<Vec<u64>>]) -> Option<String> {
        let mut whole = Vec::new();
        for shape in shapes.iter().flatten() {
            match broadcast(&whole, shape) {
                Ok(wider) => whole = wider,
                Err(reason) => return Some(self.of_sizes(reason)),
            }
        }
        None
    }

    /// Floats and integers in one sum.
    fn mixes(&self, node: &NodeProto, may: bool) -> Option<String> {
        let kinds = node.input.iter().map(|name| self.is_float(name));
        let kinds: Vec<bool> = kinds.collect::<Option<_>>()?;
        let is_mixed = !may && kinds.contains(&true) && kinds.contains(&false);
        is_mixed.then(|| "computes with floats and integers at once".to_owned())
    }

    /// Whether a value of the file is of floats.
    pub(super) fn is_float(&self, name: &str) -> Option<bool> {
        match self.values.get(name)? {
            Value::Known(constant) if constant.kind == Kind::Other => None,
            Value::Known(constant) => Some(constant.kind == Kind::Float),
            Value::Made(_) if self.grown.contains(name) => None,
            made @ Value::Made(_) => Some(self.type_of(made).ok()?.element == ElementType::Float),
        }
    }

    pub(super) fn operand_shape(&self, node: &NodeProto, at: usize) -> Option<Vec<u64>> {
        let value = self.values.get(node.input.get(at)?)?;
        self.shape_of(value).ok()
    }

    /// A known list of integers of a node, if it is one of sizes or axes.
    pub(super) fn few(&self, node: &NodeProto, at: usize) -> Option<Vec<i64>> {
        match self.values.get(node.input.get(at)?)? {
            Value::Known(constant) => few(constant),
            Value::Made(_) => None,
        }
    }
}

fn few(constant: &Constant) -> Option<Vec<i64>> {
    if constant.elements() > MAX_RANK as u64 {
        return None;
    }
    match constant.data() {
        Ok(Data::Integers(numbers)) => Some(numbers),
        _ => None,
    }
}

/// The shape of the first states of a recurrent layer, of what it reads and of its recurrent weights.
pub(super) fn initial(x: &[u64], states: &[u64]) -> Option<Vec<u64>> {
    match (x, states) {
        (&[_, batch, _], &[directions, _, size]) => Some(vec![directions, batch, size]),
        _ => None,
    }
}

pub(super) fn not_initial(given: &[u64], wanted: &[u64]) -> String {
    format!("begins from a state of {given:?}, and its states are of {wanted:?}")
}
