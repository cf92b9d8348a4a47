//! Which attributes ONNX's operators have. A reader that takes an attribute for absent where its name or
//! its type is not the operator's would read another network than the file's: a `Split` whose sizes are
//! an attribute, as they were before opset 13, would be one into halves.

use crate::onnx::proto::{AttributeProto, AttributeType, NodeProto};
use AttributeType::{Float, Floats, Int, Ints, String as Text, Strings as Texts, Tensor};

/// An attribute of an operator, and the first and the last opset that have it.
#[derive(Debug, Clone, Copy)]
struct Attribute {
    name: &'static str,
    r#type: AttributeType,
    first: i64,
    last: i64,
}

const fn has(name: &'static str, r#type: AttributeType) -> Attribute {
    since(0, name, r#type)
}

const fn since(first: i64, name: &'static str, r#type: AttributeType) -> Attribute {
    Attribute {
        name,
        r#type,
        first,
        last: i64::MAX,
    }
}

const fn until(last: i64, name: &'static str, r#type: AttributeType) -> Attribute {
    Attribute {
        name,
        r#type,
        first: 0,
        last,
    }
}

const NONE: &[Attribute] = &[];
const AXIS: &[Attribute] = &[has("axis", Int)];
const ALPHA: &[Attribute] = &[has("alpha", Float)];

/// Reductions whose axes became an input in opset 18.
const REDUCTION: &[Attribute] = &[
    until(17, "axes", Ints),
    has("keepdims", Int),
    since(18, "noop_with_empty_axes", Int),
];

/// The operators that are read, as the operator schemas of the `onnx` package describe them from opset
/// 13 on; a test holds the two against each other.
const OPERATORS: &[(&str, &[Attribute])] = &[
    ("Abs", NONE),
    ("Add", NONE),
    ("And", NONE),
    (
        "ArgMax",
        &[
            has("axis", Int),
            has("keepdims", Int),
            has("select_last_index", Int),
        ],
    ),
    (
        "AveragePool",
        &[
            has("auto_pad", Text),
            has("ceil_mode", Int),
            has("count_include_pad", Int),
            since(19, "dilations", Ints),
            has("kernel_shape", Ints),
            has("pads", Ints),
            has("strides", Ints),
        ],
    ),
    (
        "BatchNormalization",
        &[
            has("epsilon", Float),
            has("momentum", Float),
            since(14, "training_mode", Int),
        ],
    ),
    ("Cast", &[has("to", Int), since(19, "saturate", Int)]),
    ("CastLike", &[since(19, "saturate", Int)]),
    ("Ceil", NONE),
    ("Clip", NONE),
    ("Concat", AXIS),
    (
        "Constant",
        &[
            has("value", Tensor),
            has("value_float", Float),
            has("value_floats", Floats),
            has("value_int", Int),
            has("value_ints", Ints),
            has("value_string", Text),
            has("value_strings", Texts),
            has("sparse_value", AttributeType::SparseTensor),
        ],
    ),
    ("ConstantOfShape", &[has("value", Tensor)]),
    (
        "Conv",
        &[
            has("auto_pad", Text),
            has("dilations", Ints),
            has("group", Int),
            has("kernel_shape", Ints),
            has("pads", Ints),
            has("strides", Ints),
        ],
    ),
    (
        "ConvTranspose",
        &[
            has("auto_pad", Text),
            has("dilations", Ints),
            has("group", Int),
            has("kernel_shape", Ints),
            has("output_padding", Ints),
            has("output_shape", Ints),
            has("pads", Ints),
            has("strides", Ints),
        ],
    ),
    ("Cos", NONE),
    ("CumSum", &[has("exclusive", Int), has("reverse", Int)]),
    ("DepthToSpace", &[has("blocksize", Int), has("mode", Text)]),
    ("Div", NONE),
    ("Dropout", &[has("seed", Int)]),
    ("Elu", ALPHA),
    ("Equal", NONE),
    ("Erf", NONE),
    ("Exp", NONE),
    ("Expand", NONE),
    ("Flatten", AXIS),
    ("Floor", NONE),
    (
        "GRU",
        &[
            has("activation_alpha", Floats),
            has("activation_beta", Floats),
            has("activations", Texts),
            has("clip", Float),
            has("direction", Text),
            has("hidden_size", Int),
            since(14, "layout", Int),
            has("linear_before_reset", Int),
        ],
    ),
    ("Gather", AXIS),
    ("GatherElements", AXIS),
    ("GatherND", &[has("batch_dims", Int)]),
    ("Gelu", &[since(20, "approximate", Text)]),
    (
        "Gemm",
        &[
            has("alpha", Float),
            has("beta", Float),
            has("transA", Int),
            has("transB", Int),
        ],
    ),
    ("GlobalAveragePool", NONE),
    ("GlobalMaxPool", NONE),
    ("Greater", NONE),
    ("GreaterOrEqual", NONE),
    (
        "GroupNormalization",
        &[
            since(18, "epsilon", Float),
            since(18, "num_groups", Int),
            since(21, "stash_type", Int),
        ],
    ),
    ("HardSigmoid", &[has("alpha", Float), has("beta", Float)]),
    ("HardSwish", NONE),
    ("Identity", NONE),
    ("InstanceNormalization", &[has("epsilon", Float)]),
    (
        "LSTM",
        &[
            has("activation_alpha", Floats),
            has("activation_beta", Floats),
            has("activations", Texts),
            has("clip", Float),
            has("direction", Text),
            has("hidden_size", Int),
            has("input_forget", Int),
            since(14, "layout", Int),
        ],
    ),
    (
        "LayerNormalization",
        &[
            // Of opset 17; ONNX Runtime writes them into files of older ones, and reads them there.
            has("axis", Int),
            has("epsilon", Float),
            has("stash_type", Int),
        ],
    ),
    ("LeakyRelu", ALPHA),
    ("Less", NONE),
    ("LessOrEqual", NONE),
    ("Log", NONE),
    ("LogSoftmax", AXIS),
    ("MatMul", NONE),
    ("Max", NONE),
    (
        "MaxPool",
        &[
            has("auto_pad", Text),
            has("ceil_mode", Int),
            has("dilations", Ints),
            has("kernel_shape", Ints),
            has("pads", Ints),
            has("storage_order", Int),
            has("strides", Ints),
        ],
    ),
    ("Min", NONE),
    ("Mish", NONE),
    ("Mod", &[has("fmod", Int)]),
    ("Mul", NONE),
    ("Neg", NONE),
    ("Not", NONE),
    ("Or", NONE),
    ("PRelu", NONE),
    ("Pad", &[has("mode", Text)]),
    ("Pow", NONE),
    ("Range", NONE),
    ("Reciprocal", NONE),
    ("ReduceL2", REDUCTION),
    ("ReduceMax", REDUCTION),
    ("ReduceMean", REDUCTION),
    ("ReduceMin", REDUCTION),
    ("ReduceProd", REDUCTION),
    (
        "ReduceSum",
        &[has("keepdims", Int), has("noop_with_empty_axes", Int)],
    ),
    ("Relu", NONE),
    ("Reshape", &[since(14, "allowzero", Int)]),
    (
        "Resize",
        &[
            since(18, "antialias", Int),
            since(18, "axes", Ints),
            has("coordinate_transformation_mode", Text),
            has("cubic_coeff_a", Float),
            has("exclude_outside", Int),
            has("extrapolation_value", Float),
            since(18, "keep_aspect_ratio_policy", Text),
            has("mode", Text),
            has("nearest_mode", Text),
        ],
    ),
    ("Round", NONE),
    ("ScatterND", &[since(16, "reduction", Text)]),
    ("Selu", &[has("alpha", Float), has("gamma", Float)]),
    ("Shape", &[since(15, "end", Int), since(15, "start", Int)]),
    ("Sigmoid", NONE),
    ("Sign", NONE),
    ("Sin", NONE),
    ("Size", NONE),
    ("Slice", NONE),
    ("Softmax", AXIS),
    ("Softplus", NONE),
    ("SpaceToDepth", &[has("blocksize", Int)]),
    ("Split", &[has("axis", Int), since(18, "num_outputs", Int)]),
    ("Sqrt", NONE),
    ("Squeeze", NONE),
    ("Sub", NONE),
    ("Sum", NONE),
    ("Tanh", NONE),
    ("Tile", NONE),
    ("Transpose", &[has("perm", Ints)]),
    ("Trilu", &[has("upper", Int)]),
    ("Unsqueeze", NONE),
    ("Where", NONE),
    ("Xor", NONE),
];

/// Operators that are read, each with the names of its attributes in this opset and ONNX's numbers of
/// their types.
pub fn operators(opset: i64) -> impl Iterator<Item = (&'static str, Vec<(&'static str, i32)>)> {
    OPERATORS.iter().map(move |&(op, attributes)| {
        let there = attributes.iter().filter(|given| given.is_in(opset));
        (
            op,
            there
                .map(|given| (given.name, given.r#type as i32))
                .collect(),
        )
    })
}

impl Attribute {
    const fn is_in(&self, opset: i64) -> bool {
        self.first <= opset && opset <= self.last
    }
}

/// Most outputs of an operator that is read.
pub fn most_outputs(op: &str, opset: i64) -> usize {
    match op {
        "BatchNormalization" if opset < 14 => 5,
        "BatchNormalization" | "LSTM" | "LayerNormalization" => 3,
        "Dropout" | "GRU" | "MaxPool" => 2,
        "Split" => usize::MAX,
        _ => 1,
    }
}

/// Whether each attribute of a node is one of its operator's, of its type, and there once; and whether it has
/// no more outputs than that.
pub(super) fn check(node: &NodeProto, opset: i64) -> Result<(), String> {
    let Some((_, known)) = OPERATORS.iter().find(|(op, _)| *op == node.op_type) else {
        return Ok(());
    };
    let outputs = node.output.iter().rposition(|name| !name.is_empty());
    let outputs = outputs.map_or(0, |last| last + 1);
    let most = most_outputs(&node.op_type, opset);
    if outputs > most {
        return Err(format!("has {outputs} outputs, and the operator {most}"));
    }
    for (at, given) in node.attribute.iter().enumerate() {
        let AttributeProto { name, .. } = given;
        let known = known.iter().filter(|known| known.is_in(opset));
        let Some(known) = known.clone().find(|known| known.name == name) else {
            return Err(format!(
                "has the attribute `{name}`, which it lacks in opset {opset}"
            ));
        };
        if given.r#type != known.r#type as i32 {
            return Err(format!(
                "has an attribute `{name}` of another type than its own"
            ));
        }
        let text = given.s.as_deref().unwrap_or_default();
        if matches!(known.r#type, Text) && std::str::from_utf8(text).is_err() {
            return Err(format!("has an attribute `{name}` that is no text"));
        }
        let before = node.attribute.iter().take(at);
        if before.map(|other| &other.name).any(|other| other == name) {
            return Err(format!("has the attribute `{name}` twice"));
        }
    }
    Ok(())
}
