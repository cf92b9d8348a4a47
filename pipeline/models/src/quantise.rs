//! Quantisation: a network whose products are computed in 8-bit integers.
//!
//! [`apply`] rounds operands and results of products to grids of 256 integers, by operators of the
//! graph ([`Op::QuantizeDequantize`]): the graph says in floats what an engine may compute in
//! integers, and one that has none simulates it to the last bit of the grids. What is rounded
//! follows ONNX Runtime's own quantiser, so that its kernels for integers apply:
//!
//! * Products are convolutions, linear maps by a weight, and products of matrices. Their weights are
//!   of 8 bits with a sign ([`WeightBits`]), symmetric, one scale for each output; batch normalisation is folded into
//!   a convolution's weights first.
//! * [`Form::Asymmetric`], for CPUs: activations are of 8 bits without a sign, with a zero point; a
//!   `Relu` or `Clip` behind a product is what the grid's ends do; biases are integers of 32 bits with
//!   the scale of the sums that they are added to.
//! * [`Form::Symmetric`], as TensorRT wants it: activations are of 8 bits with a sign, zero is zero,
//!   `Relu` and biases stay as they are.
//! * What lies between products joins them on the grids: sums of two activations, joins, pools,
//!   shapes and orders of axes. The latter and the largest of a window keep the grid that they read.
//! * [`Form::Dynamic`]: products by a weight alone, each activation's grid found in every step.
//!   Nothing else is rounded, and no calibration is needed.
//!
//! Inputs of products get grids, and outputs where a quantised operator reads them, those of
//! convolutions always: ONNX Runtime has no convolution from integers to floats. Outputs of the
//! network stay floats.
//!
//! Grids come from ranges, and those from [`calibrate`].

pub mod calibrate;
mod census;
mod choose;
mod grid;
mod rewrite;
mod tidy;

use std::{collections::BTreeMap, io::Write};

use schema::{Cell, Graph, Precision, graph::Op};

use crate::{ModelError, Numbers};
pub use census::{Census, census, settings};
pub use grid::Range;
pub(crate) use grid::integers;

/// The factor that decides how ranges are found: [`MINMAX`] or [`PERCENTILE`].
pub const CALIBRATION: &str = "calibration";

/// The value of [`CALIBRATION`] that takes the smallest and the largest number seen.
pub const MINMAX: &str = "minmax";

/// The value of [`CALIBRATION`] that leaves out one number in 10,000.
pub const PERCENTILE: &str = "percentile";

/// The factor that decides which integers activations become with [`Precision::Int8Static`]:
/// [`ASYMMETRIC`] or [`SYMMETRIC`].
pub const GRID: &str = "grid";

/// The value of [`GRID`] that asks for [`Form::Asymmetric`]; so does a cell that does not say.
pub const ASYMMETRIC: &str = "asymmetric";

/// The value of [`GRID`] that asks for [`Form::Symmetric`].
pub const SYMMETRIC: &str = "symmetric";

/// The factor that decides how many bits of the 8 a weight takes: [`EIGHT`] or [`SEVEN`].
pub const WEIGHT_BITS: &str = "weight_bits";

/// The value of [`WEIGHT_BITS`] that asks for [`WeightBits::Eight`]; so does a cell that does not say.
pub const EIGHT: &str = "8";

/// The value of [`WEIGHT_BITS`] that asks for [`WeightBits::Seven`].
pub const SEVEN: &str = "7";

/// The factors that are about grids.
pub const FACTORS: [&str; 3] = [CALIBRATION, GRID, WEIGHT_BITS];

/// How many generated inputs ranges are found with. None of them is the input of parity.
pub const CALIBRATION_INPUTS: u32 = 4;

/// Checks what a cell says of calibration and grids. It was done with the graph that a worker is
/// given; a worker has nothing else to do about it.
///
/// # Errors
/// What is wrong with it.
pub fn check(cell: &Cell) -> Result<(), String> {
    let known = [
        (CALIBRATION, [MINMAX, PERCENTILE]),
        (GRID, [ASYMMETRIC, SYMMETRIC]),
        (WEIGHT_BITS, [EIGHT, SEVEN]),
    ];
    for (factor, values) in known {
        let Some(value) = cell.factors.get(factor) else {
            continue;
        };
        let has_part = match factor {
            WEIGHT_BITS => cell.precision.is_int8(),
            _ => cell.precision == Precision::Int8Static,
        };
        if !has_part {
            return Err(format!("`{factor}` has no part in {}", cell.precision));
        }
        if !values.contains(&value.as_str()) {
            let [one, other] = values;
            return Err(format!("{factor} is `{value}`; known: `{one}`, `{other}`"));
        }
    }
    Ok(())
}

/// What is rounded, and to which integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Form {
    /// Weights alone beforehand; activations of 8 bits without a sign in every step.
    Dynamic,
    /// Activations of 8 bits without a sign, with a zero point; biases of 32 bits.
    Asymmetric,
    /// Activations of 8 bits with a sign, zero in the middle; biases as floats.
    Symmetric,
}

impl Form {
    fn of(cell: &Cell) -> Option<Self> {
        let is_symmetric = || cell.factors.get(GRID).is_some_and(|grid| grid == SYMMETRIC);
        match cell.precision {
            Precision::Int8Dynamic => Some(Self::Dynamic),
            Precision::Int8Static if is_symmetric() => Some(Self::Symmetric),
            Precision::Int8Static => Some(Self::Asymmetric),
            _ => None,
        }
    }
}

/// How many of 8 bits the integers of weights take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WeightBits {
    /// All: from −127 to 127.
    Eight,
    /// From −63 to 63. Where a processor multiplies 8-bit integers by `VPMADDUBSW`, which adds two
    /// products in 16 bits and saturates, no such weights do, whatever they are multiplied by:
    /// 2 · 255 · 63 < 2¹⁵. Without VNNI that is what kernels have, and quantisers halve the range of
    /// weights for them (ONNX Runtime's `reduce_range`, NNCF's overflow fix).
    Seven,
}

impl WeightBits {
    fn of(cell: &Cell) -> Self {
        match cell.factors.get(WEIGHT_BITS) {
            Some(bits) if bits == SEVEN => Self::Seven,
            _ => Self::Eight,
        }
    }

    /// The largest integer; the smallest is as far from zero.
    const fn largest(self) -> f64 {
        match self {
            Self::Eight => grid::LARGEST,
            Self::Seven => 63.0,
        }
    }

    /// Those whose products cannot saturate in this processor's kernels.
    #[must_use]
    pub fn safe_here() -> Self {
        match adds_in_16_bits() {
            true => Self::Seven,
            false => Self::Eight,
        }
    }
}

/// Whether this processor's best instruction for products of 8-bit integers adds two of them in 16
/// bits, which saturates: one for x86-64 without VNNI.
fn adds_in_16_bits() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        !(std::arch::is_x86_feature_detected!("avx512vnni")
            || std::arch::is_x86_feature_detected!("avxvnni"))
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// On which grids a network is put.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Grids {
    /// What is rounded.
    pub form: Form,
    /// The integers of weights.
    pub weights: WeightBits,
}

impl Grids {
    /// What a cell asks for; `None` where its precision is not one of integers.
    #[must_use]
    pub fn of(cell: &Cell) -> Option<Self> {
        let weights = WeightBits::of(cell);
        Form::of(cell).map(|form| Self { form, weights })
    }
}

/// Why a cell may be off from its grids that asks for more bits than this processor multiplies, and what
/// to do about it.
#[must_use]
pub fn may_saturate(cell: &Cell) -> Option<&'static str> {
    let is_asked = Grids::of(cell).is_some_and(|grids| grids.weights == WeightBits::Eight);
    (is_asked && cell.device.is_cpu() && adds_in_16_bits()).then_some(
        "this processor has no VNNI, and kernels that add two products of 8-bit integers in 16 bits \
         saturate; with `weight_bits: 7` none can",
    )
}

/// Where numbers that quantisation makes are put down: behind those that are there.
pub struct Sink<'a> {
    /// The file of weights, which [`Numbers`] will read.
    pub out: &'a mut dyn Write,
    /// How many bytes it holds.
    pub bytes: u64,
}

/// The values whose ranges [`apply`] needs, in the order of the graph; none for [`Form::Dynamic`].
/// Each is an input or made by a node of `graph`.
///
/// # Errors
/// A graph that [`crate::infer::shapes`] refuses.
pub fn wanted(graph: &Graph, form: Form) -> Result<Vec<String>, ModelError> {
    if form == Form::Dynamic {
        crate::infer::shapes(graph)?;
        return Ok(Vec::new());
    }
    let tidy = tidy::Tidy::of(graph)?;
    Ok(choose::Choice::of(&tidy.graph)?.sources())
}

/// The network on grids. Inputs and outputs keep their names, and so do values that other operators
/// still make; the loss is left out. Weights that were folded and scales of weights are put down in
/// `sink`, and the graph says where: behind those that `numbers` reads.
///
/// # Errors
/// A graph that [`crate::infer::shapes`] refuses; a range that is missing or not finite; weights
/// that are not finite, cannot be had or not be put down.
pub fn apply<'a>(
    graph: &Graph,
    grids: Grids,
    ranges: &BTreeMap<String, Range>,
    numbers: &'a Numbers,
    sink: Sink<'a>,
) -> Result<Graph, ModelError> {
    let tidy = tidy::Tidy::of(graph)?;
    rewrite::Rewriter::new(tidy, grids, numbers, sink)?.rewrite(ranges)
}

/// The network on grids of no calibration, for who asks how long integers take and not how good they
/// are. But where a grid starts decides whether a `Relu` is left to it, so those behind a `Relu` start
/// at zero. What is put down is all that `out` holds.
///
/// # Errors
/// As of [`apply`].
pub fn uncalibrated(graph: &Graph, grids: Grids, out: &mut dyn Write) -> Result<Graph, ModelError> {
    let is_relu = |value: &String| {
        let mut nodes = graph.nodes.iter();
        nodes.any(|node| node.op == Op::Relu && node.outputs.contains(value))
    };
    let range = |value: String| {
        let low = if is_relu(&value) { 0.0 } else { -6.0 };
        (value, Range { low, high: 6.0 })
    };
    let ranges = wanted(graph, grids.form)?.into_iter().map(range).collect();
    let numbers = Numbers::default();
    apply(graph, grids, &ranges, &numbers, Sink { out, bytes: 0 })
}

/// Whether an operator is a product: what is worth computing in integers.
const fn is_product(op: &Op) -> bool {
    matches!(op, Op::Conv { .. } | Op::Linear | Op::Gemm | Op::MatMul)
}
