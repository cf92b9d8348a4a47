//! The engine-neutral graph: typed operators with ONNX's names and attribute meanings.
//!
//! A graph is resolved: every shape is a list of numbers. Values are named by strings; each is
//! produced once, by an input, a parameter or a node; nodes are in topological order. Images are
//! `[batch, channels, height, width]`, sequences `[batch, position, feature]`. A lowering may
//! choose another memory layout, not another meaning.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A network with everything that running it needs except the numbers themselves, which
/// [`Fill`] describes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Graph {
    /// For example `resnet18`.
    pub name: String,
    /// What a caller feeds.
    pub inputs: Vec<Input>,
    /// Weights and buffers, in the order in which the network uses them.
    pub parameters: Vec<Parameter>,
    /// Operators, in topological order; none in an outline ([`Graph::is_outline`]).
    pub nodes: Vec<Node>,
    /// Names of the values that a caller gets.
    pub outputs: Vec<String>,
    /// What training minimises; its labels are an input that inference does not feed.
    pub loss: Option<Loss>,
}

impl Graph {
    /// Whether it only says what goes in and comes out, for a model of the user's whose file holds
    /// operators that no graph has: an engine that reads ONNX runs the file, any other does not run
    /// the model. Outputs of an outline are made by no node.
    #[must_use]
    pub const fn is_outline(&self) -> bool {
        self.nodes.is_empty()
    }
}

/// The double that whoever wrote an operator's number meant by it, in Python say: a graph's `0.1_f32` is
/// 0.1, not 0.10000000149.
#[must_use]
pub fn decimal(number: f32) -> f64 {
    number
        .to_string()
        .parse()
        .unwrap_or_else(|_| f64::from(number))
}

/// Element type of a value. Floating-point values take the cell's precision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ElementType {
    /// The precision of the cell.
    Float,
    /// 64-bit integers: token ids, labels.
    Int64,
}

/// Something a caller feeds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Name of the value.
    pub name: String,
    /// Element type.
    pub element: ElementType,
    /// Shape.
    pub shape: Vec<u64>,
    /// The numbers.
    pub fill: Fill,
}

/// A weight or a buffer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    /// Name of the value, in the style of PyTorch's state dictionaries.
    pub name: String,
    /// Shape.
    pub shape: Vec<u64>,
    /// Whether the optimiser moves it.
    pub role: Role,
    /// The numbers it starts from.
    pub fill: Fill,
}

/// What training does to a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Moved by the optimiser; counted among the parameters.
    Weight,
    /// Running statistics of a normalisation: moved by the forward pass, not counted.
    Buffer,
    /// Never moved, not counted: positions and the like.
    Constant,
}

/// Where the numbers of a tensor come from. Element `i` (row-major) of the tensor named `name` is
/// a function of `name` and `i` alone, [`Fill::Stored`] excepted: `models::fill` says which.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Fill {
    /// Uniform in `[low, high)`.
    Uniform {
        /// Smallest value.
        low: f32,
        /// Bound above.
        high: f32,
    },
    /// Integers, uniform in `0..bound`.
    Integers {
        /// Bound above; at least 1.
        bound: u64,
    },
    /// The same number everywhere.
    Constant {
        /// The number.
        value: f32,
    },
    /// Integers `0, 1, 2, …` along the last axis.
    Positions,
    /// Rows of sines and cosines that tell positions apart (Vaswani et al. 2017, §3.5): for the
    /// element `p·width + k` the sine of `p·10000^(−2k/width)` in the first half of a row, the
    /// cosine of the same angles in the second half.
    Sinusoids {
        /// Length of a row; even.
        width: u64,
    },
    /// What is added to attention scores so that a position sees only earlier ones and itself: for
    /// the element `p·width + k` 0 where `k ≤ p`, −∞ elsewhere.
    CausalMask {
        /// Length of a row.
        width: u64,
    },
    /// Numbers of the user's own, for parameters alone: they lie one after another, row-major and
    /// little-endian, in the file that [`crate::protocol::ModelFiles::weights`] names.
    Stored {
        /// What they are there, whatever the cell's precision: binary32, or 64-bit integers.
        element: ElementType,
        /// Where they begin, in bytes.
        offset: u64,
    },
}

/// What training minimises.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Loss {
    /// Mean over all positions of the cross-entropy of a softmax over the last axis.
    CrossEntropy {
        /// Value of shape `[…, classes]`.
        logits: String,
        /// Input of shape `[…]` with class numbers.
        labels: Input,
    },
}

/// One operator application.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Unique name, a path such as `layer1.0.conv1`.
    pub name: String,
    /// The operator and its attributes.
    pub op: Op,
    /// Names of the values it reads, in ONNX's order.
    pub inputs: Vec<String>,
    /// Names of the values it makes.
    pub outputs: Vec<String>,
    /// Whether the published PyTorch code writes the result over its first operand (`+=`,
    /// `inplace=True`). Changes no number; an engine that has no such form goes on without it.
    pub in_place: bool,
}

/// How [`Op::Gelu`] computes the normal distribution function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Approximation {
    /// Exactly: `Φ(x) = ½·(1 + erf(x/√2))`.
    None,
    /// `Φ(x) ≈ ½·(1 + tanh(√(2/π)·(x + 0.044715·x³)))`.
    Tanh,
}

/// How [`Op::Resize`] makes pixel `i` of `n` along an axis of `m`. Pixels beyond an end are the one
/// at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Interpolation {
    /// The pixel at `⌊i·m/n⌋` (ONNX: `nearest`, `asymmetric`, `floor`).
    Nearest,
    /// Between both neighbours of `(i + ½)·m/n − ½` (ONNX: `linear`, `half_pixel`).
    Linear,
    /// Between both neighbours of `i·(m − 1)/(n − 1)`, so that corners stay what they are (ONNX:
    /// `linear`, `align_corners`).
    LinearCorners,
}

/// What [`Op::Pad`] lays around a value.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Border {
    /// One number.
    Constant {
        /// The number.
        value: f32,
    },
    /// The elements next to the one at the end, which is the axis of reflection.
    Reflect,
}

/// The integers of a grid: what [`Op::QuantizeDequantize`] rounds to.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum GridElement {
    /// −128 to 127.
    Int8,
    /// 0 to 255.
    Uint8,
    /// 32 bits with a sign: biases, which are added to sums of products.
    Int32,
}

impl GridElement {
    /// The smallest and the largest integer.
    #[must_use]
    pub const fn bounds(self) -> (i64, i64) {
        match self {
            Self::Int8 => (i8::MIN as i64, i8::MAX as i64),
            Self::Uint8 => (0, u8::MAX as i64),
            Self::Int32 => (i32::MIN as i64, i32::MAX as i64),
        }
    }
}

/// An operator with its attributes. Names and meanings are those of ONNX unless stated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub enum Op {
    /// Convolution over two axes: inputs `x`, `weight [out, in/group, kh, kw]`, optional `bias`.
    Conv {
        /// Step along height and width.
        strides: [u64; 2],
        /// Padding: top, left, bottom, right.
        pads: [u64; 4],
        /// Spacing of the kernel's taps.
        dilations: [u64; 2],
        /// Number of groups.
        group: u64,
    },
    /// Transposed convolution over two axes, by which a convolution's gradient reaches its input:
    /// inputs `x`, `weight [in, out/group, kh, kw]`, optional `bias`. An output axis has
    /// `strides·(size − 1) + dilations·(kernel − 1) + 1 + output_padding` elements less the padding.
    ConvTranspose {
        /// Step along height and width of the output.
        strides: [u64; 2],
        /// What is cut off: top, left, bottom, right.
        pads: [u64; 4],
        /// Elements more at the bottom and at the right, fewer than a step.
        output_padding: [u64; 2],
        /// Spacing of the kernel's taps.
        dilations: [u64; 2],
        /// Number of groups.
        group: u64,
    },
    /// Batch normalisation: inputs `x`, `scale`, `bias`, `running_mean`, `running_var`.
    /// Training uses the batch's statistics and moves the running ones by `momentum` towards them
    /// (`running ← (1 − momentum)·running + momentum·batch`, PyTorch's meaning; ONNX's is its
    /// complement), the variance unbiased.
    BatchNormalization {
        /// Added to the variance.
        epsilon: f32,
        /// Weight of the new statistics.
        momentum: f32,
    },
    /// Layer normalisation over the last axis: inputs `x`, `scale`, `bias`.
    LayerNormalization {
        /// Added to the variance.
        epsilon: f32,
    },
    /// Normalisation of each channel of each sample by itself, over all axes behind the channels:
    /// inputs `x`, `scale`, `bias`. It keeps no running statistics.
    InstanceNormalization {
        /// Added to the variance.
        epsilon: f32,
    },
    /// `max(x, 0)`.
    Relu,
    /// `max(x, 0) + alpha · min(x, 0)`.
    LeakyRelu {
        /// Slope below 0.
        alpha: f32,
    },
    /// `max(x, 0) + slope · min(x, 0)`: inputs `x`, `slope`, of one element, or with one for each
    /// channel and as many axes as lie behind them of size 1.
    PRelu,
    /// `max(x, 0) + alpha · (e^min(x, 0) − 1)`.
    Elu {
        /// The limit below is `−alpha`.
        alpha: f32,
    },
    /// `ln(1 + e^x)`.
    Softplus,
    /// `min(max(x, min), max)`.
    Clip {
        /// Lower bound.
        min: f32,
        /// Upper bound.
        max: f32,
    },
    /// `1 / (1 + e^−x)`.
    Sigmoid,
    /// `min(max(x/6 + ½, 0), 1)`: ONNX's with PyTorch's slope, which is not ONNX's default.
    HardSigmoid,
    /// `x · min(max(x/6 + ½, 0), 1)`.
    HardSwish,
    /// `x · sigmoid(x)`; ONNX calls it Swish from opset 24 on.
    Silu,
    /// Hyperbolic tangent.
    Tanh,
    /// `x · Φ(x)`, `Φ` the normal distribution function.
    Gelu {
        /// How `Φ` is computed.
        approximate: Approximation,
    },
    /// Softmax along `axis` (negative counts from the end).
    Softmax {
        /// Axis.
        axis: i64,
    },
    /// The natural logarithm of [`Op::Softmax`] along `axis`.
    LogSoftmax {
        /// Axis.
        axis: i64,
    },
    /// Elementwise sum with broadcasting.
    Add,
    /// Elementwise product with broadcasting.
    Mul,
    /// Elementwise quotient with broadcasting.
    Div,
    /// The larger of two elements, with broadcasting.
    Max,
    /// The smaller of two elements, with broadcasting.
    Min,
    /// Square root.
    Sqrt,
    /// `e^x`.
    Exp,
    /// Natural logarithm.
    Log,
    /// Absolute value.
    Abs,
    /// Sine of an angle in radians.
    Sin,
    /// Cosine of an angle in radians.
    Cos,
    /// Matrix product with broadcasting over leading axes.
    MatMul,
    /// `x · weightᵀ + bias`: inputs `x […, in]`, `weight [out, in]`, optional `bias [out]`.
    /// (ONNX's Gemm with `transB`, for any number of leading axes.)
    Linear,
    /// `x · weight + bias`: inputs `x […, in]`, `weight [in, out]`, optional `bias [out]`.
    /// (ONNX's Gemm without transposition, for any number of leading axes; GPT-2's Conv1D.)
    Gemm,
    /// Scaled dot-product attention: inputs `query`, `key`, `value`, each
    /// `[batch, position, heads·size]`; output the same shape as `query`. The scale is
    /// `1/√size`. (ONNX's Attention of opset 23, without cache.)
    Attention {
        /// Number of heads.
        heads: u64,
        /// Whether a position sees only earlier ones and itself.
        causal: bool,
    },
    /// One layer of long short-term memory (Hochreiter and Schmidhuber 1997, with the forget gate of
    /// Gers et al. 2000) over a whole sequence, from states of zeros: inputs `x [batch, position,
    /// feature]`, and for each direction `weight_ih [4·size, feature]`, `weight_hh [4·size, size]`,
    /// `bias_ih [4·size]`, `bias_hh [4·size]`; output `[batch, position, directions·size]`, what goes
    /// backward behind what goes forward. Parameters are PyTorch's, their rows those of the gates
    /// i, f, g, o; the other names and the meaning are ONNX's, which orders them i, o, f, c:
    /// `c ← σ(f)·c + σ(i)·tanh(g)`, `h ← σ(o)·tanh(c)`.
    #[serde(rename = "LSTM")]
    Lstm {
        /// Whether a second set of parameters reads the sequence from its end.
        bidirectional: bool,
    },
    /// One layer of gated recurrent units (Cho et al. 2014) over a whole sequence; inputs and output
    /// as [`Op::Lstm`], with three gates in PyTorch's order r, z, n (ONNX's is z, r, h). The reset
    /// gate acts behind the matrix product (ONNX's `linear_before_reset`):
    /// `n ← tanh(x_n + σ(r)·h_n)`, `h ← (1 − σ(z))·n + σ(z)·h`.
    #[serde(rename = "GRU")]
    Gru {
        /// Whether a second set of parameters reads the sequence from its end.
        bidirectional: bool,
    },
    /// Largest value of a window.
    MaxPool {
        /// Window.
        kernel: [u64; 2],
        /// Step.
        strides: [u64; 2],
        /// Padding: top, left, bottom, right.
        pads: [u64; 4],
        /// Whether a last partial window counts.
        ceil_mode: bool,
    },
    /// Mean of a window.
    AveragePool {
        /// Window.
        kernel: [u64; 2],
        /// Step.
        strides: [u64; 2],
        /// Padding: top, left, bottom, right.
        pads: [u64; 4],
        /// Whether padding counts in the mean.
        count_include_pad: bool,
    },
    /// Mean over height and width; keeps both axes with size 1.
    GlobalAveragePool,
    /// Another height and width of an image.
    Resize {
        /// The new height and width.
        sizes: [u64; 2],
        /// How a pixel is made of those of the image.
        interpolation: Interpolation,
    },
    /// All axes from `axis` on become one.
    Flatten {
        /// First axis that is merged.
        axis: u64,
    },
    /// Another shape of the same elements.
    Reshape {
        /// The new shape, all sizes given.
        shape: Vec<u64>,
    },
    /// Another order of the axes.
    Transpose {
        /// `perm[i]` is the input axis that becomes axis `i`.
        perm: Vec<u64>,
    },
    /// Repeats along axes of size 1: the output has the shape to which the input and `shape`
    /// broadcast.
    Expand {
        /// The other shape.
        shape: Vec<u64>,
    },
    /// A border around a value.
    Pad {
        /// Elements in front, for each axis.
        begins: Vec<u64>,
        /// Elements behind, for each axis.
        ends: Vec<u64>,
        /// What they are.
        border: Border,
    },
    /// Joins values along an axis.
    Concat {
        /// Axis.
        axis: u64,
    },
    /// Elements `start..end` along one axis.
    Slice {
        /// Axis.
        axis: u64,
        /// First element.
        start: u64,
        /// Bound above.
        end: u64,
    },
    /// Rows of a table: inputs `table [rows, width]`, `indices […]`, which are an input or a parameter, a part of one, or
    /// one in another order or shape; output `[…, width]`.
    Gather,
    /// Removes an axis of size 1.
    Squeeze {
        /// Axis.
        axis: u64,
    },
    /// Rounds to a grid of integers: ONNX's QuantizeLinear with DequantizeLinear behind it. Inputs
    /// `x`, `scale` (one number, or one for each place of `axis`);
    /// `scale · (clamp(round(x / scale) + zero_point) − zero_point)`, halves rounded to the even
    /// integer. An engine that computes in integers computes on the grids, where operands and
    /// results of an operator have them; others get the same numbers by way of floats.
    QuantizeDequantize {
        /// The axis along which scales differ; absent where there is one scale for all.
        axis: Option<u64>,
        /// The integer that stands for 0.
        zero_point: i64,
        /// What integers there are.
        element: GridElement,
    },
    /// Rounds to the grid of 0 to 255 that just holds the value's own numbers and 0: ONNX's
    /// DynamicQuantizeLinear with DequantizeLinear behind it. With `low = min(0, min(x))` and
    /// `high = max(0, max(x))` the scale is `(high − low) / 255`, the zero point
    /// `clamp(round(−low / scale))`.
    DynamicQuantizeDequantize,
    /// Zeroes elements with this probability while training, scaling the rest; the identity in
    /// inference and wherever parity is checked.
    Dropout {
        /// Probability.
        ratio: f32,
    },
}

impl Op {
    /// The operator's name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Conv { .. } => "Conv",
            Self::ConvTranspose { .. } => "ConvTranspose",
            Self::BatchNormalization { .. } => "BatchNormalization",
            Self::LayerNormalization { .. } => "LayerNormalization",
            Self::InstanceNormalization { .. } => "InstanceNormalization",
            Self::Relu => "Relu",
            Self::LeakyRelu { .. } => "LeakyRelu",
            Self::PRelu => "PRelu",
            Self::Elu { .. } => "Elu",
            Self::Softplus => "Softplus",
            Self::Clip { .. } => "Clip",
            Self::Sigmoid => "Sigmoid",
            Self::HardSigmoid => "HardSigmoid",
            Self::HardSwish => "HardSwish",
            Self::Silu => "Silu",
            Self::Tanh => "Tanh",
            Self::Gelu { .. } => "Gelu",
            Self::Softmax { .. } => "Softmax",
            Self::LogSoftmax { .. } => "LogSoftmax",
            Self::Add => "Add",
            Self::Mul => "Mul",
            Self::Div => "Div",
            Self::Max => "Max",
            Self::Min => "Min",
            Self::Sqrt => "Sqrt",
            Self::Exp => "Exp",
            Self::Log => "Log",
            Self::Abs => "Abs",
            Self::Sin => "Sin",
            Self::Cos => "Cos",
            Self::MatMul => "MatMul",
            Self::Linear => "Linear",
            Self::Gemm => "Gemm",
            Self::Attention { .. } => "Attention",
            Self::Lstm { .. } => "LSTM",
            Self::Gru { .. } => "GRU",
            Self::MaxPool { .. } => "MaxPool",
            Self::AveragePool { .. } => "AveragePool",
            Self::GlobalAveragePool => "GlobalAveragePool",
            Self::Resize { .. } => "Resize",
            Self::Flatten { .. } => "Flatten",
            Self::Reshape { .. } => "Reshape",
            Self::Transpose { .. } => "Transpose",
            Self::Expand { .. } => "Expand",
            Self::Pad { .. } => "Pad",
            Self::Concat { .. } => "Concat",
            Self::Slice { .. } => "Slice",
            Self::Gather => "Gather",
            Self::Squeeze { .. } => "Squeeze",
            Self::QuantizeDequantize { .. } => "QuantizeDequantize",
            Self::DynamicQuantizeDequantize => "DynamicQuantizeDequantize",
            Self::Dropout { .. } => "Dropout",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_that_a_user_wrote() {
        assert_eq!(decimal(0.1), 0.1);
        assert_eq!(decimal(1e-5), 1e-5);
        assert_eq!(decimal(1e-12), 1e-12);
        assert!(decimal(f32::NAN).is_nan());
    }
}
