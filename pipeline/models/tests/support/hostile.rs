//! Protobuf by hand: models that no exporter would write.

use std::collections::BTreeMap;

use photofinish_models::onnx;
use proptest::prelude::*;

use super::wire::{described, field, float_field, number_field};

pub(crate) const OPERATORS: [&str; 55] = [
    "Conv",
    "MaxPool",
    "AveragePool",
    "Gemm",
    "MatMul",
    "Reshape",
    "Slice",
    "Gather",
    "Concat",
    "Expand",
    "Tile",
    "Range",
    "ConstantOfShape",
    "Split",
    "Transpose",
    "Pad",
    "Where",
    "Unsqueeze",
    "Squeeze",
    "ReduceMean",
    "Softmax",
    "Flatten",
    "Trilu",
    "CumSum",
    "Cast",
    "Shape",
    "Pow",
    "Div",
    "LayerNormalization",
    "BatchNormalization",
    "Mish",
    "GridSample",
    "ScatterND",
    "Sin",
    "ConvTranspose",
    "GlobalMaxPool",
    "ReduceMax",
    "ReduceSum",
    "ReduceL2",
    "Resize",
    "DepthToSpace",
    "SpaceToDepth",
    "GroupNormalization",
    "InstanceNormalization",
    "PRelu",
    "Max",
    "Sum",
    "LSTM",
    "GRU",
    "QuantizeLinear",
    "DequantizeLinear",
    "GatherND",
    "Clip",
    "Dropout",
    "ArgMax",
];

/// Where an operator stands among them.
pub(crate) fn operator(name: &str) -> usize {
    let mut operators = OPERATORS.iter();
    operators.position(|op| *op == name).expect("one of them")
}

#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) op: usize,
    pub(crate) reads: Vec<usize>,
    /// Attributes of its operator, each with what numbers are put there.
    pub(crate) attributes: Vec<(usize, Vec<i64>)>,
}

/// What attributes that are texts may say.
const WORDS: [&str; 16] = [
    "NOTSET",
    "SAME_UPPER",
    "SAME_LOWER",
    "VALID",
    "nearest",
    "linear",
    "cubic",
    "asymmetric",
    "half_pixel",
    "align_corners",
    "floor",
    "CRD",
    "reflect",
    "edge",
    "tanh",
    "bidirectional",
];

fn number() -> impl Strategy<Value = i64> {
    prop_oneof![
        -3_i64..6,
        prop::sample::select(vec![i64::MAX, i64::MIN, 1 << 31, 1 << 62, -(1 << 40)]),
    ]
}

pub(crate) fn node() -> impl Strategy<Value = Node> {
    let attribute = (0_usize..16, prop::collection::vec(number(), 0..5));
    (
        0..OPERATORS.len(),
        prop::collection::vec(0_usize..16, 0..5),
        prop::collection::vec(attribute, 0..4),
    )
        .prop_map(|(op, reads, attributes)| Node {
            op,
            reads,
            attributes,
        })
}

/// An attribute of its type, whatever the numbers.
fn attribute(name: &str, kind: i32, values: &[i64]) -> Vec<u8> {
    let mut attribute = Vec::new();
    field(1, name.as_bytes(), &mut attribute);
    number_field(20, kind as u64, &mut attribute);
    let first = values.first().copied().unwrap_or(0);
    match kind {
        1 => float_field(2, first as f32, &mut attribute),
        2 => number_field(3, first as u64, &mut attribute),
        3 => {
            let word = WORDS[first.unsigned_abs() as usize % WORDS.len()];
            field(4, word.as_bytes(), &mut attribute);
        }
        _ => {
            for &value in values {
                number_field(8, value as u64, &mut attribute);
            }
        }
    }
    attribute
}

/// Values: the input `v0`, constants `v1` to `v7`, of which the last is a matrix, what the nodes make from `v8` on.
pub(crate) fn model(nodes: &[Node], size: i64, input: &[i64]) -> Vec<u8> {
    // In the one, axes of reductions are attributes, in the other inputs.
    let opset = if nodes.len().is_multiple_of(2) {
        17
    } else {
        21
    };
    let mut graph = Vec::new();
    for (at, node) in nodes.iter().enumerate() {
        let mut body = Vec::new();
        for read in &node.reads {
            field(1, format!("v{}", read % (8 + at)).as_bytes(), &mut body);
        }
        field(2, format!("v{}", 8 + at).as_bytes(), &mut body);
        field(4, OPERATORS[node.op].as_bytes(), &mut body);
        let mut known = onnx::operators_read(opset as i64);
        let known = known.find(|(op, _)| *op == OPERATORS[node.op]);
        let known = known.map(|(_, attributes)| attributes).unwrap_or_default();
        let mut chosen = BTreeMap::new();
        for (which, values) in &node.attributes {
            if let Some(&(name, kind)) = known.get(which % known.len().max(1)) {
                chosen.insert(name, (kind, values));
            }
        }
        for (name, (kind, values)) in chosen {
            field(5, &attribute(name, kind, values), &mut body);
        }
        field(1, &body, &mut graph);
    }
    let lists: [(&[u64], &[i64]); 7] = [
        (&[1], &[size]),
        (&[2], &[1, size]),
        (&[2], &[size, size]),
        (&[2], &[0, -1]),
        (&[4], &[1, 2, 3, 4]),
        (&[2], &[i64::MAX, 1]),
        (&[2, 2], &[0, 1, 1, 0]),
    ];
    for (at, (dims, list)) in lists.iter().enumerate() {
        let mut tensor = Vec::new();
        for &size in *dims {
            number_field(1, size, &mut tensor);
        }
        number_field(2, 7, &mut tensor);
        field(8, format!("v{}", at + 1).as_bytes(), &mut tensor);
        let raw: Vec<u8> = list.iter().flat_map(|value| value.to_le_bytes()).collect();
        field(9, &raw, &mut tensor);
        field(5, &tensor, &mut graph);
    }
    field(11, &described("v0", input), &mut graph);
    let mut output = Vec::new();
    field(1, format!("v{}", 7 + nodes.len()).as_bytes(), &mut output);
    field(12, &output, &mut graph);
    let mut model = Vec::new();
    field(7, &graph, &mut model);
    let mut set = Vec::new();
    number_field(2, opset, &mut set);
    field(8, &set, &mut model);
    model
}
