//! Floating-point operations of each operator's forward pass.

use schema::graph::{Approximation, Interpolation, Op};

use super::Sum;
use crate::infer::ValueType;

/// Operations of `op`; 0 where it only moves numbers.
pub(super) fn flops(op: &Op, inputs: &[&ValueType], output: Option<&ValueType>) -> Sum {
    let mut sum = Sum::default();
    let Some(output) = output else { return sum };
    let made = output.elements();
    match (op, inputs) {
        (Op::Conv { .. }, [_, weight, bias @ ..]) => {
            let taps = weight.shape.iter().skip(1);
            sum.add_product([2, made].iter().chain(taps));
            sum.add_product(&[made, bias.len() as u64]);
        }
        // Every element that is read meets the taps of every channel of its group.
        (Op::ConvTranspose { .. }, [x, weight, bias @ ..]) => {
            let taps = weight.shape.iter().skip(1);
            sum.add_product([2, x.elements()].iter().chain(taps));
            sum.add_product(&[made, bias.len() as u64]);
        }
        (Op::Linear, [_, weight, bias @ ..]) => {
            sum.add_product(&[2, made, weight.shape.last().copied().unwrap_or(0)]);
            sum.add_product(&[made, bias.len() as u64]);
        }
        (Op::Gemm, [_, weight, bias @ ..]) => {
            sum.add_product(&[2, made, weight.shape.first().copied().unwrap_or(0)]);
            sum.add_product(&[made, bias.len() as u64]);
        }
        (Op::MatMul, [a, _]) => {
            sum.add_product(&[2, made, a.shape.last().copied().unwrap_or(0)]);
        }
        (&Op::Attention { heads, .. }, [query, key, _]) => {
            // Scores and mixture are a matrix product each; scale and softmax touch every score.
            let keys = key.shape.get(1).copied().unwrap_or(0);
            let queries = query.shape.first().copied().unwrap_or(0);
            let rows = query.shape.get(1).copied().unwrap_or(0);
            sum.add_product(&[4, made, keys]);
            sum.add_product(&[SOFTMAX + 1, queries, rows, keys, heads]);
        }
        (Op::Lstm { .. }, [_, input, hidden, ..]) => {
            recurrent(&mut sum, made, [input, hidden], 4, LSTM);
        }
        (Op::Gru { .. }, [_, input, hidden, ..]) => {
            recurrent(&mut sum, made, [input, hidden], 3, GRU);
        }
        (Op::MaxPool { kernel, .. } | Op::AveragePool { kernel, .. }, _) => {
            sum.add_product(&[made, kernel[0], kernel[1]]);
        }
        (Op::GlobalAveragePool, [x, ..]) => sum.add(x.elements()),
        _ => sum.add_product(&[made, per_element(op)]),
    }
    sum
}

/// Both products of every gate with their biases, their sum, and what follows for each number.
fn recurrent(sum: &mut Sum, made: u64, weights: [&ValueType; 2], gates: u64, pointwise: u64) {
    for weight in weights {
        let width = weight.shape.last().copied().unwrap_or(0);
        sum.add_product(&[2, gates, made, width]);
    }
    // Two biases and the sum of both products.
    sum.add_product(&[3, gates, made]);
    sum.add_product(&[pointwise, made]);
}

/// Three sigmoids, two hyperbolic tangents, three products and a sum.
const LSTM: u64 = 3 * 4 + 2 + 4;

/// Two sigmoids, a hyperbolic tangent, the reset, and `n + z·(h − n)`. The candidate's two halves are
/// summed behind the reset, which [`recurrent`] has counted.
const GRU: u64 = 2 * 4 + 1 + 1 + 3;

/// Maximum, difference, exponential, sum, quotient.
const SOFTMAX: u64 = 5;

/// Operations for each element that an elementwise operator or a normalisation makes.
const fn per_element(op: &Op) -> u64 {
    match op {
        Op::Relu | Op::Add | Op::Mul | Op::Div | Op::Max | Op::Min => 1,
        Op::Sqrt | Op::Exp | Op::Log | Op::Abs | Op::Sin | Op::Cos | Op::Tanh => 1,
        // Scale and shift: the statistics are folded into both.
        Op::Clip { .. } | Op::BatchNormalization { .. } => 2,
        // A comparison and a product; an exponential, a sum and a logarithm.
        Op::LeakyRelu { .. } | Op::PRelu => 2,
        Op::Softplus => 3,
        // Comparison, exponential, difference, product.
        Op::Elu { .. } => 4,
        // Negation, exponential, sum, quotient.
        // Scale, shift, two bounds.
        Op::Sigmoid | Op::HardSigmoid => 4,
        Op::Silu | Op::HardSwish => 5,
        // x·½·(1 + erf(x/√2)).
        Op::Gelu {
            approximate: Approximation::None,
        } => 5,
        // x·½·(1 + tanh(√(2/π)·(x + 0.044715·x³))).
        Op::Gelu {
            approximate: Approximation::Tanh,
        } => 9,
        Op::Softmax { .. } | Op::LogSoftmax { .. } => SOFTMAX,
        // Mean (1), variance (3), difference, quotient, scale, shift.
        Op::LayerNormalization { .. } | Op::InstanceNormalization { .. } => 8,
        // Between two columns for each of two rows, and between both.
        Op::Resize {
            interpolation: Interpolation::Linear | Interpolation::LinearCorners,
            ..
        } => 9,
        // Quotient, rounding, zero point, two bounds, zero point, product.
        Op::QuantizeDequantize { .. } => 7,
        // Likewise, with the smallest and the largest number.
        Op::DynamicQuantizeDequantize => 9,
        _ => 0,
    }
}
