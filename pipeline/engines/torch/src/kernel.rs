//! One operator application in PyTorch's terms.

use schema::{
    Precision,
    graph::{Border, Interpolation},
};
use tch::{Kind, TchError, Tensor};

use crate::{failure::Fault, geometry::Padding, recurrent::Recurrent, shim};

/// What a run is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pass {
    /// Inference: running statistics, no dropout.
    Inference,
    /// A training iteration.
    Training,
    /// A training iteration for parity: dropout off.
    Deterministic,
    /// Likewise, with the derivatives of the other side where rounding in this precision comes within
    /// reach of a kink.
    AcrossKinks(Precision),
}

impl Pass {
    const fn trains(self) -> bool {
        !matches!(self, Self::Inference)
    }
}

/// An operator with its attributes, converted once.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kernel {
    Conv {
        strides: [i64; 2],
        padding: Padding,
        dilations: [i64; 2],
        groups: i64,
    },
    ConvTranspose {
        strides: [i64; 2],
        padding: [i64; 2],
        more: [i64; 2],
        dilations: [i64; 2],
        groups: i64,
    },
    BatchNorm {
        epsilon: f64,
        momentum: f64,
    },
    LayerNorm {
        width: [i64; 1],
        epsilon: f64,
    },
    InstanceNorm {
        epsilon: f64,
    },
    Relu,
    LeakyRelu {
        slope: f64,
    },
    PRelu,
    Elu {
        alpha: f64,
    },
    Softplus,
    Clip {
        min: f64,
        max: f64,
    },
    Sigmoid,
    HardSigmoid,
    HardSwish,
    Silu,
    Tanh,
    Gelu {
        approximate: &'static str,
    },
    Softmax {
        axis: i64,
    },
    LogSoftmax {
        axis: i64,
    },
    Add,
    Mul,
    Div,
    Max,
    Min,
    Sqrt,
    Exp,
    Log,
    Abs,
    Sin,
    Cos,
    MatMul,
    Linear,
    Gemm {
        /// `x` as a matrix.
        rows: [i64; 2],
        /// The output's shape.
        output: Box<[i64]>,
    },
    Attention(Attention),
    Recurrent(Recurrent),
    MaxPool {
        window: [i64; 2],
        strides: [i64; 2],
        padding: Padding,
        ceil: bool,
    },
    AveragePool {
        window: [i64; 2],
        strides: [i64; 2],
        padding: Padding,
        count_padding: bool,
    },
    GlobalAveragePool,
    Resize {
        sizes: [i64; 2],
        interpolation: Interpolation,
    },
    Flatten {
        axis: i64,
    },
    Reshape {
        shape: Box<[i64]>,
    },
    Transpose {
        axes: Box<[i64]>,
    },
    Expand {
        shape: Box<[i64]>,
    },
    Pad {
        /// Before and behind, from the last axis on.
        sides: Box<[i64]>,
        border: Border,
    },
    Concat {
        axis: i64,
    },
    Slice {
        axis: i64,
        start: i64,
        end: i64,
    },
    Gather,
    Squeeze {
        axis: i64,
    },
    Dropout {
        ratio: f64,
    },
    /// To a grid of integers.
    Round {
        /// The shape of the scale that broadcasts.
        scale: Box<[i64]>,
        zero_point: f64,
        /// The smallest and the largest integer.
        bounds: [f64; 2],
    },
    /// To the grid of 0 to 255 that holds the numbers of this step.
    RoundToOwnGrid,
}

/// Scaled dot-product attention over `[batch, position, heads·size]`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Attention {
    /// `[batch, position, heads, size]` of the query.
    pub(crate) query: [i64; 4],
    /// The same of the key.
    pub(crate) key: [i64; 4],
    /// The same of the value.
    pub(crate) value: [i64; 4],
    /// The output's shape.
    pub(crate) output: [i64; 3],
    /// Whether a position sees only earlier ones and itself.
    pub(crate) causal: bool,
}

/// The values that a step reads, by position.
#[derive(Clone, Copy)]
pub(crate) struct Operands<'a> {
    /// Every value of the program.
    pub(crate) values: &'a [Option<Tensor>],
    /// Which of them this step reads.
    pub(crate) indices: &'a [usize],
}

impl<'a> Operands<'a> {
    /// The operand at `position`.
    pub(crate) fn at(&self, position: usize) -> Result<&'a Tensor, Fault> {
        self.optional(position).ok_or(Fault::Missing)
    }

    /// The operands from `position` on.
    pub(crate) fn rest(&self, position: usize) -> Result<Vec<&'a Tensor>, Fault> {
        (position..self.indices.len()).map(|i| self.at(i)).collect()
    }

    /// The operand at `position`, which a step may lack.
    pub(crate) fn optional(&self, position: usize) -> Option<&'a Tensor> {
        let index = *self.indices.get(position)?;
        self.values.get(index)?.as_ref()
    }
}

impl Kernel {
    /// Computes the output as a new tensor (or a view).
    pub(crate) fn apply(&self, operands: Operands<'_>, pass: Pass) -> Result<Tensor, Fault> {
        let x = operands.at(0)?;
        let output = match self {
            Self::Conv {
                strides,
                padding,
                dilations,
                groups,
            } => {
                let (weight, bias) = (operands.at(1)?, operands.optional(2));
                bordered(x, *padding, 0.0, |x| {
                    x.f_conv2d(weight, bias, strides, padding.symmetric, dilations, *groups)
                })
            }
            Self::ConvTranspose {
                strides,
                padding,
                more,
                dilations,
                groups,
            } => {
                let (weight, bias) = (operands.at(1)?, operands.optional(2));
                x.f_conv_transpose2d(weight, bias, strides, padding, more, *groups, dilations)
            }
            Self::BatchNorm { epsilon, momentum } => x.f_batch_norm(
                Some(operands.at(1)?),
                Some(operands.at(2)?),
                Some(operands.at(3)?),
                Some(operands.at(4)?),
                pass.trains(),
                *momentum,
                *epsilon,
                true,
            ),
            Self::LayerNorm { width, epsilon } => x.f_layer_norm(
                width,
                Some(operands.at(1)?),
                Some(operands.at(2)?),
                *epsilon,
                true,
            ),
            Self::InstanceNorm { epsilon } => x.f_instance_norm(
                Some(operands.at(1)?),
                Some(operands.at(2)?),
                None::<&Tensor>,
                None::<&Tensor>,
                true,
                0.0,
                *epsilon,
                true,
            ),
            Self::Relu => x.f_relu(),
            Self::LeakyRelu { slope } => return Ok(shim::leaky_relu(x, *slope)?),
            Self::PRelu => x.f_prelu(&operands.at(1)?.f_reshape([-1])?),
            Self::Elu { alpha } => return Ok(shim::elu(x, *alpha)?),
            Self::Softplus => x.f_softplus(),
            Self::Clip { min, max } if *max >= OPEN => x.f_clamp_min(*min),
            Self::Clip { min, max } if *min <= -OPEN => x.f_clamp_max(*max),
            Self::Clip { min, max } => return Ok(shim::hardtanh(x, *min, *max)?),
            Self::Sigmoid => x.f_sigmoid(),
            Self::HardSigmoid => x.f_hardsigmoid(),
            Self::HardSwish => x.f_hardswish(),
            Self::Silu => x.f_silu(),
            Self::Tanh => x.f_tanh(),
            Self::Gelu { approximate } => x.f_gelu(approximate),
            Self::Softmax { axis } => x.f_softmax(*axis, None::<Kind>),
            Self::LogSoftmax { axis } => x.f_log_softmax(*axis, None::<Kind>),
            Self::Add => x.f_add(operands.at(1)?),
            Self::Mul => x.f_mul(operands.at(1)?),
            Self::Div => x.f_div(operands.at(1)?),
            Self::Max => x.f_maximum(operands.at(1)?),
            Self::Min => x.f_minimum(operands.at(1)?),
            Self::Sqrt => x.f_sqrt(),
            Self::Exp => x.f_exp(),
            Self::Log => x.f_log(),
            Self::Abs => x.f_abs(),
            Self::Sin => x.f_sin(),
            Self::Cos => x.f_cos(),
            Self::MatMul => x.f_matmul(operands.at(1)?),
            Self::Linear => x.f_linear(operands.at(1)?, operands.optional(2)),
            // As Hugging Face's `Conv1D` calls it: one product of matrices that adds the bias.
            Self::Gemm { rows, output } => {
                let (x, weight) = (x.f_reshape(rows)?, operands.at(1)?);
                match operands.optional(2) {
                    Some(bias) => bias.f_addmm(&x, weight)?,
                    None => x.f_mm(weight)?,
                }
                .f_view(&**output)
            }
            Self::Attention(attention) => attention.apply(x, operands.at(1)?, operands.at(2)?),
            Self::Recurrent(layer) => layer.apply(x, &operands.rest(1)?, pass.trains()),
            Self::MaxPool {
                window,
                strides,
                padding,
                ceil,
            } => bordered(x, *padding, f64::NEG_INFINITY, |x| {
                x.f_max_pool2d(window, strides, padding.symmetric, [1, 1], *ceil)
            }),
            Self::AveragePool {
                window,
                strides,
                padding,
                count_padding,
            } => bordered(x, *padding, 0.0, |x| {
                let inner = padding.symmetric;
                x.f_avg_pool2d(window, strides, inner, false, *count_padding, None::<i64>)
            }),
            Self::GlobalAveragePool => x.f_adaptive_avg_pool2d([1, 1]),
            Self::Resize {
                sizes,
                interpolation,
            } => match interpolation {
                Interpolation::Nearest => x.f_upsample_nearest2d(sizes, None::<f64>, None::<f64>),
                Interpolation::Linear => {
                    x.f_upsample_bilinear2d(sizes, false, None::<f64>, None::<f64>)
                }
                Interpolation::LinearCorners => {
                    x.f_upsample_bilinear2d(sizes, true, None::<f64>, None::<f64>)
                }
            },
            Self::Flatten { axis } => x.f_flatten(*axis, -1),
            Self::Reshape { shape } => x.f_reshape(&**shape),
            Self::Transpose { axes } => x.f_permute(&**axes),
            Self::Expand { shape } => x.f_expand(&**shape, false),
            Self::Pad { sides, border } => match border {
                Border::Constant { value } => x.f_pad(&**sides, "constant", f64::from(*value)),
                Border::Reflect => x.f_pad(&**sides, "reflect", None::<f64>),
            },
            Self::Concat { axis } => Tensor::f_cat(&operands.rest(0)?, *axis),
            Self::Slice { axis, start, end } => x.f_slice(*axis, *start, *end, 1),
            Self::Gather => Tensor::f_embedding(x, operands.at(1)?, -1, false, false),
            Self::Squeeze { axis } => x.f_squeeze_dim(*axis),
            Self::Dropout { ratio } => x.f_dropout(*ratio, pass == Pass::Training),
            Self::Round {
                scale,
                zero_point,
                bounds,
            } => round(
                x,
                &operands.at(1)?.f_reshape(&**scale)?,
                *zero_point,
                *bounds,
            ),
            Self::RoundToOwnGrid => round_to_own_grid(x),
        };
        Ok(output?)
    }

    /// Computes the output into `target`, the first operand. `other` is the second of a binary
    /// operator.
    pub(crate) fn overwrite(
        &self,
        target: &mut Tensor,
        other: Option<&Tensor>,
    ) -> Result<(), Fault> {
        match self {
            Self::Relu => drop(target.f_relu_()?),
            Self::Clip { min, max } if *max >= OPEN => drop(target.f_clamp_min_(*min)?),
            Self::Clip { min, max } if *min <= -OPEN => drop(target.f_clamp_max_(*max)?),
            Self::Clip { min, max } => shim::hardtanh_in_place(target, *min, *max)?,
            Self::Silu => drop(target.f_silu_()?),
            Self::Add => drop(target.f_add_(other.ok_or(Fault::Missing)?)?),
            _ => return Err(Fault::Missing),
        }
        Ok(())
    }
}

/// A bound that keeps nothing out. No narrower type has the number.
const OPEN: f64 = f32::MAX as f64;

/// `scale · (clamp(round(x / scale) + zero_point) − zero_point)`, in floats: PyTorch rounds halves
/// to the even integer, as ONNX does.
fn round(
    x: &Tensor,
    scale: &Tensor,
    zero_point: f64,
    [least, most]: [f64; 2],
) -> Result<Tensor, TchError> {
    x.f_div(scale)?
        .f_round_()?
        .f_clamp_(least - zero_point, most - zero_point)?
        .f_mul_(scale)
}

/// ONNX's DynamicQuantizeLinear, and back.
fn round_to_own_grid(x: &Tensor) -> Result<Tensor, TchError> {
    let low = x.f_min()?.f_clamp_max(0.0)?;
    let scale = x
        .f_max()?
        .f_clamp_min(0.0)?
        .f_sub(&low)?
        .f_div_scalar(255.0)?;
    // Nothing but zeros: any scale will do.
    let scale = scale.f_where_self(&scale.f_gt(0.0)?, &scale.f_ones_like()?)?;
    let zero_point = low
        .f_neg()?
        .f_div(&scale)?
        .f_round_()?
        .f_clamp_(0.0, 255.0)?;
    x.f_div(&scale)?
        .f_round_()?
        .f_add_(&zero_point)?
        .f_clamp_(0.0, 255.0)?
        .f_sub_(&zero_point)?
        .f_mul_(&scale)
}

/// Lays the border around `x` first, where the operator's own padding cannot express it.
fn bordered(
    x: &Tensor,
    padding: Padding,
    value: f64,
    operator: impl FnOnce(&Tensor) -> Result<Tensor, TchError>,
) -> Result<Tensor, TchError> {
    match padding.border {
        None => operator(x),
        Some(border) => operator(&x.f_pad(border, "constant", value)?),
    }
}

impl Attention {
    /// As Hugging Face's models call it: heads split, attended, joined.
    fn apply(&self, query: &Tensor, key: &Tensor, value: &Tensor) -> Result<Tensor, TchError> {
        let heads = |x: &Tensor, shape: &[i64; 4]| x.f_view(*shape)?.f_transpose(1, 2);
        Tensor::f_scaled_dot_product_attention(
            &heads(query, &self.query)?,
            &heads(key, &self.key)?,
            &heads(value, &self.value)?,
            None::<&Tensor>,
            0.0,
            self.causal,
            None::<f64>,
            false,
        )?
        .f_transpose(1, 2)?
        .f_reshape(self.output)
    }
}
