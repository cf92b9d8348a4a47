//! Protobuf by hand: models that no exporter would write.

use proptest::prelude::*;

pub(crate) const OPERATORS: [&str; 34] = [
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

const NAMES: [&str; 12] = [
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

/// A field with a body.
pub(crate) fn field(tag: u64, body: &[u8], out: &mut Vec<u8>) {
    varint(tag << 3 | 2, out);
    varint(body.len() as u64, out);
    out.extend_from_slice(body);
}

/// A field with a number.
pub(crate) fn number_field(tag: u64, value: u64, out: &mut Vec<u8>) {
    varint(tag << 3, out);
    varint(value, out);
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
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

/// An input of floats.
pub(crate) fn described(name: &str, sizes: &[i64]) -> Vec<u8> {
    described_as(name, 1, sizes)
}

/// An input of an element type.
pub(crate) fn described_as(name: &str, element: u64, sizes: &[i64]) -> Vec<u8> {
    let mut shape = Vec::new();
    for &size in sizes {
        let mut dim = Vec::new();
        number_field(1, size as u64, &mut dim);
        field(1, &dim, &mut shape);
    }
    let mut tensor = Vec::new();
    number_field(1, element, &mut tensor);
    field(2, &shape, &mut tensor);
    let mut kind = Vec::new();
    field(1, &tensor, &mut kind);
    let mut value = Vec::new();
    field(1, name.as_bytes(), &mut value);
    field(2, &kind, &mut value);
    value
}
