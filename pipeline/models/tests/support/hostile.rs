//! Protobuf by hand: models that no exporter would write.

use proptest::prelude::*;

use super::wire::{described, field, number_field};

pub(crate) const OPERATORS: [&str; 47] = [
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
    pub(crate) ints: Vec<(usize, Vec<i64>)>,
}

const NAMES: [&str; 16] = [
    "axis",
    "axes",
    "perm",
    "pads",
    "strides",
    "kernel_shape",
    "dilations",
    "group",
    "to",
    "keepdims",
    "transB",
    "alpha",
    "blocksize",
    "num_groups",
    "output_padding",
    "noop_with_empty_axes",
];

fn number() -> impl Strategy<Value = i64> {
    prop_oneof![
        -3_i64..6,
        prop::sample::select(vec![i64::MAX, i64::MIN, 1 << 31, 1 << 62, -(1 << 40)]),
    ]
}

pub(crate) fn node() -> impl Strategy<Value = Node> {
    let ints = (0..NAMES.len(), prop::collection::vec(number(), 0..5));
    (
        0..OPERATORS.len(),
        prop::collection::vec(0_usize..16, 0..5),
        prop::collection::vec(ints, 0..4),
    )
        .prop_map(|(op, reads, ints)| Node { op, reads, ints })
}

/// Values: the input `v0`, constants `v1` to `v7`, of which the last is a matrix, what the nodes make from `v8` on.
pub(crate) fn model(nodes: &[Node], size: i64, input: &[i64]) -> Vec<u8> {
    let mut graph = Vec::new();
    for (at, node) in nodes.iter().enumerate() {
        let mut body = Vec::new();
        for read in &node.reads {
            field(1, format!("v{}", read % (8 + at)).as_bytes(), &mut body);
        }
        field(2, format!("v{}", 8 + at).as_bytes(), &mut body);
        field(4, OPERATORS[node.op].as_bytes(), &mut body);
        for (name, values) in &node.ints {
            let mut attribute = Vec::new();
            field(1, NAMES[*name].as_bytes(), &mut attribute);
            for &value in values {
                number_field(8, value as u64, &mut attribute);
                number_field(3, value as u64, &mut attribute);
            }
            field(5, &attribute, &mut body);
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
    let mut opset = Vec::new();
    number_field(2, 17, &mut opset);
    field(8, &opset, &mut model);
    model
}
