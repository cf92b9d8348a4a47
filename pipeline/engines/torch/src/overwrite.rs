//! Which operands are overwritten: where the published network does so, and where that changes
//! neither a result nor a gradient.

use std::collections::{BTreeMap, BTreeSet};

use schema::{
    Mode,
    graph::{Graph, Node, Op},
};

/// What must be known of a graph to overwrite safely.
pub(crate) struct Overwrites<'a> {
    /// How often each value is read, by nodes, outputs and the loss.
    readers: BTreeMap<&'a str, usize>,
    /// The operator that makes each value.
    makers: BTreeMap<&'a str, &'a Op>,
    /// Values that a caller sees.
    kept: BTreeSet<&'a str>,
    mode: Mode,
}

impl<'a> Overwrites<'a> {
    /// `kept` are the values that must survive the run.
    pub(crate) fn new(graph: &'a Graph, kept: BTreeSet<&'a str>, mode: Mode) -> Self {
        let mut readers = BTreeMap::new();
        let mut makers = BTreeMap::new();
        for node in &graph.nodes {
            for input in &node.inputs {
                *readers.entry(input.as_str()).or_default() += 1;
            }
            for output in &node.outputs {
                makers.insert(output.as_str(), &node.op);
            }
        }
        Self {
            readers,
            makers,
            kept,
            mode,
        }
    }

    /// Whether the output of `node` goes where its first operand was. `shape_of` tells shapes of
    /// values.
    pub(crate) fn allow(&self, node: &Node, shape_of: impl Fn(&str) -> Option<&'a [u64]>) -> bool {
        let has_form = matches!(node.op, Op::Relu | Op::Clip { .. } | Op::Silu | Op::Add);
        let (Some(operand), Some(output)) = (node.inputs.first(), node.outputs.first()) else {
            return false;
        };
        node.in_place
            && has_form
            && self.is_free(operand)
            && shape_of(operand).is_some_and(|shape| shape_of(output) == Some(shape))
    }

    /// Whether a value may be overwritten by its only reader.
    fn is_free(&self, name: &str) -> bool {
        let Some(maker) = self.makers.get(name) else {
            return false;
        };
        self.readers.get(name) == Some(&1)
            && !self.kept.contains(name)
            && owns_its_memory(maker)
            && (self.mode == Mode::Inference || !gradient_reads_output(maker))
    }
}

/// Whether an operator's output shares no memory with its inputs. (In-place steps are no
/// exception: what they overwrite had no other reader.)
const fn owns_its_memory(op: &Op) -> bool {
    match op {
        Op::Flatten { .. }
        | Op::Reshape { .. }
        | Op::Transpose { .. }
        | Op::Slice { .. }
        | Op::Squeeze { .. }
        | Op::Expand { .. }
        | Op::Dropout { .. }
        // Joining the heads may be a view, as may turning time and batch.
        | Op::Attention { .. }
        | Op::Lstm { .. }
        | Op::Gru { .. } => false,
        Op::Conv { .. }
        | Op::ConvTranspose { .. }
        | Op::BatchNormalization { .. }
        | Op::LayerNormalization { .. }
        | Op::InstanceNormalization { .. }
        | Op::Relu
        | Op::LeakyRelu { .. }
        | Op::PRelu
        | Op::Elu { .. }
        | Op::Softplus
        | Op::Clip { .. }
        | Op::Sigmoid
        | Op::HardSigmoid
        | Op::HardSwish
        | Op::Silu
        | Op::Tanh
        | Op::Gelu { .. }
        | Op::Softmax { .. }
        | Op::LogSoftmax { .. }
        | Op::Add
        | Op::Mul
        | Op::Div
        | Op::Max
        | Op::Min
        | Op::Sqrt
        | Op::Exp
        | Op::Log
        | Op::Abs
        | Op::Sin
        | Op::Cos
        | Op::MatMul
        | Op::Linear
        | Op::Gemm
        | Op::MaxPool { .. }
        | Op::AveragePool { .. }
        | Op::GlobalAveragePool
        | Op::Resize { .. }
        | Op::Pad { .. }
        | Op::Concat { .. }
        | Op::QuantizeDequantize { .. }
        | Op::DynamicQuantizeDequantize
        | Op::Gather => true,
    }
}

/// Whether autograd computes an operator's gradient from its output (`derivatives.yaml` of
/// PyTorch: formulas that name `result`; `clip` when it ran in place), or its kernel keeps it.
const fn gradient_reads_output(op: &Op) -> bool {
    matches!(
        op,
        Op::Relu
            | Op::Clip { .. }
            | Op::Sigmoid
            | Op::Tanh
            | Op::Sqrt
            | Op::Exp
            | Op::Softmax { .. }
            | Op::LogSoftmax { .. }
            | Op::Attention { .. }
            | Op::Lstm { .. }
            | Op::Gru { .. }
    )
}

#[cfg(test)]
mod tests {
    use schema::graph::{Approximation, ElementType, Fill, Input};

    use super::*;

    fn node(op: Op, inputs: &[&str], output: &str) -> Node {
        Node {
            name: output.to_owned(),
            op,
            inputs: inputs.iter().map(|&name| name.to_owned()).collect(),
            outputs: vec![output.to_owned()],
            in_place: true,
        }
    }

    /// `x → relu a → { relu b, add c = a + b } → reshape d → relu e → relu f`.
    fn graph() -> Graph {
        let gelu = Op::Gelu {
            approximate: Approximation::None,
        };
        Graph {
            name: "g".to_owned(),
            inputs: vec![Input {
                name: "x".to_owned(),
                element: ElementType::Float,
                shape: vec![2, 2],
                fill: Fill::Constant { value: 1.0 },
            }],
            parameters: vec![],
            nodes: vec![
                node(gelu, &["x"], "a"),
                node(Op::Relu, &["a"], "b"),
                node(Op::Add, &["b", "a"], "c"),
                node(Op::Reshape { shape: vec![2, 2] }, &["c"], "d"),
                node(Op::Relu, &["d"], "e"),
                node(Op::Relu, &["e"], "f"),
            ],
            outputs: vec!["f".to_owned()],
            loss: None,
        }
    }

    /// The nodes that run in place, were all of them published so.
    fn in_place(graph: &Graph, mode: Mode) -> Vec<&str> {
        let overwrites = Overwrites::new(graph, BTreeSet::from(["f"]), mode);
        let nodes = graph.nodes.iter();
        nodes
            .filter(|node| overwrites.allow(node, |_| Some(&[2, 2])))
            .map(|node| node.name.as_str())
            .collect()
    }

    #[test]
    fn only_a_sole_reader_overwrites_and_never_a_view() {
        // b: `a` has two readers. c: `b` has one. e: `d` is a view. f: `e` is fresh.
        assert_eq!(in_place(&graph(), Mode::Inference), ["c", "f"]);
    }

    #[test]
    fn training_spares_what_gradients_read() {
        // `b` and `e` are outputs of relu, which its gradient reads.
        assert!(in_place(&graph(), Mode::Training).is_empty());
    }

    #[test]
    fn what_was_not_published_in_place_is_not_run_so() {
        let mut graph = graph();
        graph
            .nodes
            .iter_mut()
            .for_each(|node| node.in_place = false);
        assert!(in_place(&graph, Mode::Inference).is_empty());
    }

    #[test]
    fn a_broadcast_operand_is_spared() {
        let graph = graph();
        let overwrites = Overwrites::new(&graph, BTreeSet::from(["f"]), Mode::Inference);
        let shape_of = |name: &str| {
            Some(if name == "b" {
                &[1, 2][..]
            } else {
                &[2, 2][..]
            })
        };
        let add = graph.nodes.iter().find(|node| node.name == "c").unwrap();
        assert!(!overwrites.allow(add, shape_of));
    }
}
