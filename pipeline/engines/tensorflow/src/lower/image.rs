//! Convolution, pooling and batch normalisation, all with channels last.

use schema::graph::{Interpolation, Node};
use tensorflow::{OperationDescription, Output};

use super::{
    Lowering, Pass, Statistic, Value,
    window::{Padding, Windows},
};
use crate::{
    builder::{Made, narrow, wide},
    configuration::Compilation,
    failure::Fault,
    form::{Form, Order},
    network::is_depthwise,
    tensors::Float,
};

/// The axes of an image's height and width, channels last.
const SPACE: [i32; 2] = [1, 2];

impl Lowering<'_> {
    pub(super) fn conv(
        &mut self,
        node: &Node,
        strides: [u64; 2],
        pads: [u64; 4],
        dilations: [u64; 2],
        group: u64,
    ) -> Result<Value, Fault> {
        let (x, weight) = (self.operand(node, 0)?, self.operand(node, 1)?);
        let [_, channels, _, _] = four(&x.form)?;
        let [_, _, height, width] = four(&weight.form)?;
        let [down, across] = dilations;
        if self.pass.trains() && dilations != [1, 1] {
            let reason = "TensorFlow's C library has no gradient of dilated convolutions";
            return Err(Fault::Unsupported(reason.to_owned()));
        }
        let spans = [(height - 1) * down + 1, (width - 1) * across + 1];
        let windows = self.windows(node, &x.form, spans, strides, pads)?;
        let input = self.channels_last(&x)?;
        let kernel = Kernel {
            strides,
            dilations,
            padding: windows.padding(),
        };
        let output = if is_depthwise(channels, &weight.form.shape, strides, dilations, group) {
            let (input, padding) = self.padded(&input, kernel.padding, 0.0)?;
            let filter = self.ordered(&weight, Order::Depthwise(channels))?;
            let kernel = Kernel { padding, ..kernel };
            let describe = |conv: &mut OperationDescription<'_>| kernel.describe(conv);
            self.builder
                .with("DepthwiseConv2dNative", &[&input, &filter], describe)?
        } else {
            let filter = self.ordered(&weight, Order::Filter)?;
            self.convolve(&input, &filter, kernel, group)?
        };
        let output = match self.optional(node, 2) {
            Some(bias) => {
                let bias = self.plain(&bias)?;
                self.builder.op("BiasAdd", &[&output, &bias])?
            }
            None => output,
        };
        self.made_in(node, output, Order::ChannelsLast)
    }

    /// What a convolution's gradient does to what it is given. Padding that TensorFlow has no scheme
    /// for is cut off behind it.
    pub(super) fn conv_transpose(
        &mut self,
        node: &Node,
        strides: [u64; 2],
        pads: [u64; 4],
        dilations: [u64; 2],
        group: u64,
    ) -> Result<Value, Fault> {
        if dilations != [1, 1] {
            let reason = "TensorFlow spreads no dilated windows on a CPU";
            return Err(Fault::Unsupported(reason.to_owned()));
        }
        let (x, weight) = (self.operand(node, 0)?, self.operand(node, 1)?);
        let [batch, _, rows, columns] = four(&x.form)?;
        let [_, per_group, height, width] = four(&weight.form)?;
        let made = Form::new(&self.output_shape(node)?, Order::ChannelsLast);
        let [_, _, made_rows, made_columns] = four(&made)?;
        let windows = Windows {
            sizes: [made_rows, made_columns],
            spans: [height, width],
            strides,
            pads,
            counts: [rows, columns],
        };
        let [top, left, bottom, right] = pads;
        let (padding, sizes, cut) = match windows.padding() {
            Padding::Explicit(_) => {
                let sizes = [made_rows + top + bottom, made_columns + left + right];
                (Padding::Valid, sizes, true)
            }
            padding => (padding, [made_rows, made_columns], false),
        };
        let kernel = Kernel {
            strides,
            dilations,
            padding,
        };
        let input = self.channels_last(&x)?;
        let filter = self.ordered(&weight, Order::Filter)?;
        let dims = self
            .builder
            .integers(&narrow(&[batch, sizes[0], sizes[1], per_group])?)?;
        let (inputs, filters) = if group == 1 {
            (vec![input], vec![filter])
        } else {
            (self.split(&input, group)?, self.split(&filter, group)?)
        };
        let mut parts = Vec::with_capacity(inputs.len());
        for (input, filter) in inputs.iter().zip(&filters) {
            let describe = |conv: &mut OperationDescription<'_>| kernel.describe(conv);
            let operands = [&dims, filter, input];
            parts.push(
                self.builder
                    .with("Conv2DBackpropInput", &operands, describe)?,
            );
        }
        let mut output = self.join(&parts, 3)?;
        if cut {
            let begins = self.builder.integers(&narrow(&[0, top, left, 0])?)?;
            let sizes = self.builder.integers(&narrow(&made.dims())?)?;
            output = self.builder.op("Slice", &[&output, &begins, &sizes])?;
        }
        if let Some(bias) = self.optional(node, 2) {
            let bias = self.plain(&bias)?;
            output = self.builder.op("BiasAdd", &[&output, &bias])?;
        }
        self.made_in(node, output, Order::ChannelsLast)
    }

    /// Another height and width.
    pub(super) fn resize(
        &mut self,
        node: &Node,
        sizes: [u64; 2],
        interpolation: Interpolation,
    ) -> Result<Value, Fault> {
        let x = self.operand(node, 0)?;
        let image = self.channels_last(&x)?;
        let sizes = self.builder.integers(&narrow(&sizes)?)?;
        if interpolation == Interpolation::Nearest {
            let output = self
                .builder
                .op("ResizeNearestNeighbor", &[&image, &sizes])?;
            return self.made_in(node, output, Order::ChannelsLast);
        }
        if self.builder.float != Float::F32 {
            let reason = "TensorFlow interpolates in single precision alone";
            return Err(Fault::Unsupported(reason.to_owned()));
        }
        if self.builder.compilation != Compilation::None {
            let reason = "XLA interpolates between other pixels than TensorFlow";
            return Err(Fault::Unsupported(reason.to_owned()));
        }
        let corners = interpolation == Interpolation::LinearCorners;
        let output = self
            .builder
            .with("ResizeBilinear", &[&image, &sizes], |resize| {
                resize.set_attr_bool("align_corners", corners)?;
                Ok(resize.set_attr_bool("half_pixel_centers", !corners)?)
            })?;
        self.made_in(node, output, Order::ChannelsLast)
    }

    /// Normalisation of each channel of each sample by itself.
    pub(super) fn instance_norm(&mut self, node: &Node, epsilon: f64) -> Result<Value, Fault> {
        let x = self.operand(node, 0)?;
        let rank = x.form.shape.len();
        let input = self.channels_last(&x)?;
        let (scale, bias) = (self.plain_operand(node, 1)?, self.plain_operand(node, 2)?);
        let axes: Vec<i32> = (1_i32..).take(rank.saturating_sub(2)).collect();
        let (mean, variance) = self.mean_and_variance(&input, &axes, true)?;
        let output = self.scaled(&input, &mean, &variance, [&scale, &bias], epsilon)?;
        self.made_in(node, output, Order::ChannelsLast)
    }

    /// A convolution in `group` parts. TensorFlow's kernels for the CPU know no groups in the
    /// backward pass, so that the parts are separate operators.
    fn convolve(
        &mut self,
        input: &Output,
        filter: &Output,
        kernel: Kernel,
        group: u64,
    ) -> Result<Output, Fault> {
        // In inference the operator pads by itself; its gradient does not know how.
        let explicit = matches!(kernel.padding, Padding::Explicit(_));
        let (input, padding) = if explicit && self.pass == Pass::Inference {
            (input.clone(), kernel.padding)
        } else {
            self.padded(input, kernel.padding, 0.0)?
        };
        let kernel = Kernel { padding, ..kernel };
        if group == 1 {
            let describe = |conv: &mut OperationDescription<'_>| kernel.describe(conv);
            return Ok(self.builder.with("Conv2D", &[&input, filter], describe)?);
        }
        let (inputs, filters) = (self.split(&input, group)?, self.split(filter, group)?);
        let mut parts = Vec::with_capacity(inputs.len());
        for (input, filter) in inputs.iter().zip(&filters) {
            let describe = |conv: &mut OperationDescription<'_>| kernel.describe(conv);
            parts.push(self.builder.with("Conv2D", &[input, filter], describe)?);
        }
        self.join(&parts, 3)
    }

    /// `x` in equal parts along its fourth axis.
    fn split(&mut self, x: &Output, parts: u64) -> Result<Vec<Output>, Fault> {
        let axis = self.builder.integer(3)?;
        let split = self.builder.operation("Split", |split| {
            split.add_input(axis);
            split.add_input(x.clone());
            Ok(split.set_attr_int("num_split", wide(parts))?)
        })?;
        Ok((0..split.num_outputs())
            .map(|part| split.output(part))
            .collect())
    }

    /// Lays `fill` around `x` where the padding is explicit, and says what is left to the
    /// operator.
    fn padded(
        &mut self,
        x: &Output,
        padding: Padding,
        fill: f64,
    ) -> Result<(Output, Padding), Fault> {
        let Padding::Explicit(sides) = padding else {
            return Ok((x.clone(), padding));
        };
        let [top, left, bottom, right] = sides;
        let sides = narrow(&[0, 0, top, bottom, left, right, 0, 0])?;
        let sides = self.builder.indices(&[4, 2], &sides)?;
        let output = if fill == 0.0 {
            self.builder.op("Pad", &[x, &sides])?
        } else {
            let fill = self.builder.scalar(fill)?;
            self.builder.op("PadV2", &[x, &sides, &fill])?
        };
        Ok((output, Padding::Valid))
    }

    fn windows(
        &self,
        node: &Node,
        x: &Form,
        spans: [u64; 2],
        strides: [u64; 2],
        pads: [u64; 4],
    ) -> Result<Windows, Fault> {
        let [_, _, height, width] = four(x)?;
        let [_, _, rows, columns] = four(&Form::new(&self.output_shape(node)?, Order::Plain))?;
        Ok(Windows {
            sizes: [height, width],
            spans,
            strides,
            pads,
            counts: [rows, columns],
        })
    }

    pub(super) fn max_pool(
        &mut self,
        node: &Node,
        kernel: [u64; 2],
        strides: [u64; 2],
        pads: [u64; 4],
    ) -> Result<Value, Fault> {
        let x = self.operand(node, 0)?;
        let padding = self
            .windows(node, &x.form, kernel, strides, pads)?
            .padding();
        let x = self.channels_last(&x)?;
        // No number is smaller: the border never wins.
        let (x, padding) = self.padded(&x, padding, f64::NEG_INFINITY)?;
        let output = self.pool("MaxPool", &x, kernel, strides, padding)?;
        self.made_in(node, output, Order::ChannelsLast)
    }

    pub(super) fn average_pool(
        &mut self,
        node: &Node,
        kernel: [u64; 2],
        strides: [u64; 2],
        pads: [u64; 4],
        count_padding: bool,
    ) -> Result<Value, Fault> {
        let x = self.operand(node, 0)?;
        let windows = self.windows(node, &x.form, kernel, strides, pads)?;
        let x = self.channels_last(&x)?;
        let padding = match windows.padding() {
            // With `SAME`, TensorFlow leaves padding out of the mean.
            Padding::Same if count_padding => windows.explicit(),
            padding => padding,
        };
        let (x, left) = self.padded(&x, padding, 0.0)?;
        let mut output = self.pool("AvgPool", &x, kernel, strides, left)?;
        if let (Padding::Explicit(_), false) = (padding, count_padding) {
            let [height, width] = kernel;
            let area = (height * width) as f64;
            let scales: Vec<f64> = windows.seen().iter().map(|seen| area / seen).collect();
            let [rows, columns] = windows.counts;
            let scales = self.builder.floats(&[1, rows, columns, 1], &scales)?;
            output = self.builder.op("Mul", &[&output, &scales])?;
        }
        self.made_in(node, output, Order::ChannelsLast)
    }

    fn pool(
        &mut self,
        kind: &str,
        x: &Output,
        [height, width]: [u64; 2],
        [down, right]: [u64; 2],
        padding: Padding,
    ) -> Made<Output> {
        self.builder.with(kind, &[x], |pool| {
            pool.set_attr_int_list("ksize", &[1, wide(height), wide(width), 1])?;
            pool.set_attr_int_list("strides", &[1, wide(down), wide(right), 1])?;
            let scheme = if padding == Padding::Same {
                "SAME"
            } else {
                "VALID"
            };
            Ok(pool.set_attr_string("padding", scheme)?)
        })
    }

    pub(super) fn global_average_pool(&mut self, node: &Node) -> Result<Value, Fault> {
        let x = self.operand(node, 0)?;
        let x = self.channels_last(&x)?;
        let output = self.builder.mean(&x, &SPACE, true)?;
        self.made_in(node, output, Order::ChannelsLast)
    }

    pub(super) fn batch_norm(
        &mut self,
        node: &Node,
        epsilon: f64,
        momentum: f64,
    ) -> Result<Value, Fault> {
        let x = self.operand(node, 0)?;
        let rank = x.form.shape.len();
        let input = self.channels_last(&x)?;
        let mut parameters = Vec::with_capacity(4);
        for position in 1..=4 {
            parameters.push(self.plain_operand(node, position)?);
        }
        let [scale, bias, mean, variance] = &parameters[..] else {
            return Err(Fault::Missing("its statistics".to_owned()));
        };
        // The fused operator knows images, and nothing wider than binary32. XLA takes it for the
        // mean of squares less the square of the mean when it trains, which loses digits that
        // the composed form keeps (Keras 3 writes that one).
        let loses = self.pass.trains() && self.builder.compilation != Compilation::None;
        let fused = rank == 4 && self.builder.float == Float::F32 && !loses;
        let (output, batch) = match (fused, self.pass.trains()) {
            (true, trains) => {
                let inputs = [&input, scale, bias, mean, variance];
                self.fused_batch_norm(inputs, epsilon, trains)?
            }
            (false, false) => (
                self.scaled(&input, mean, variance, [scale, bias], epsilon)?,
                None,
            ),
            (false, true) => {
                let (mean, variance, unbiased) = self.moments(&input, &x.form)?;
                let output = self.scaled(&input, &mean, &variance, [scale, bias], epsilon)?;
                (output, Some([mean, unbiased]))
            }
        };
        for (position, batch) in (3..).zip(batch.into_iter().flatten()) {
            if let Some(buffer) = node.inputs.get(position) {
                self.lowered.statistics.push(Statistic {
                    buffer: buffer.clone(),
                    batch,
                    momentum,
                });
            }
        }
        let order = if rank < 3 {
            Order::Plain
        } else {
            Order::ChannelsLast
        };
        self.made_in(node, output, order)
    }

    /// Batch normalisation as one operator, and the batch's mean and unbiased variance when
    /// training.
    fn fused_batch_norm(
        &mut self,
        [x, scale, bias, mean, variance]: [&Output; 5],
        epsilon: f64,
        trains: bool,
    ) -> Result<(Output, Option<[Output; 2]>), Fault> {
        // When training, the operator wants to be given no statistics.
        let none = if trains {
            Some(self.builder.floats(&[0], &[])?)
        } else {
            None
        };
        let (mean, variance) = none.as_ref().map_or((mean, variance), |none| (none, none));
        let norm = self.builder.operation("FusedBatchNormV3", |norm| {
            for input in [x, scale, bias, mean, variance] {
                norm.add_input(input.clone());
            }
            norm.set_attr_float("epsilon", epsilon as f32)?;
            Ok(norm.set_attr_bool("is_training", trains)?)
        })?;
        let batch = trains.then(|| [norm.output(1), norm.output(2)]);
        Ok((norm.output(0), batch))
    }

    /// `(x − mean) / √(variance + ε) · scale + bias` as `tf.nn.batch_normalization` composes it.
    fn scaled(
        &mut self,
        x: &Output,
        mean: &Output,
        variance: &Output,
        [scale, bias]: [&Output; 2],
        epsilon: f64,
    ) -> Made<Output> {
        let builder = &mut self.builder;
        let epsilon = builder.scalar(epsilon)?;
        let shifted = builder.op("AddV2", &[variance, &epsilon])?;
        let root = builder.op("Rsqrt", &[&shifted])?;
        let factor = builder.op("Mul", &[&root, scale])?;
        let centre = builder.op("Mul", &[mean, &factor])?;
        let offset = builder.op("Sub", &[bias, &centre])?;
        let product = builder.op("Mul", &[x, &factor])?;
        builder.op("AddV2", &[&product, &offset])
    }

    /// Mean and variance over axes, as `tf.nn.moments` composes them.
    fn mean_and_variance(
        &mut self,
        x: &Output,
        axes: &[i32],
        keep: bool,
    ) -> Made<(Output, Output)> {
        let builder = &mut self.builder;
        let mean = builder.mean(x, axes, keep)?;
        let fixed = builder.op("StopGradient", &[&mean])?;
        let squares = builder.op("SquaredDifference", &[x, &fixed])?;
        let variance = builder.mean(&squares, axes, keep)?;
        Ok((mean, variance))
    }

    /// Mean, variance and unbiased variance of each channel, the last axis.
    fn moments(&mut self, x: &Output, form: &Form) -> Result<(Output, Output, Output), Fault> {
        let axes: Vec<i32> = (0_i32..).take(form.shape.len().saturating_sub(1)).collect();
        let (mean, variance) = self.mean_and_variance(x, &axes, false)?;
        let builder = &mut self.builder;
        let channels = form.shape.get(1).copied().unwrap_or(1);
        let count = form.shape.iter().product::<u64>() / channels.max(1);
        let correction = count as f64 / count.saturating_sub(1).max(1) as f64;
        let correction = builder.scalar(correction)?;
        let unbiased = builder.op("Mul", &[&variance, &correction])?;
        Ok((mean, variance, unbiased))
    }
}

/// The attributes of a convolution.
#[derive(Debug, Clone, Copy)]
struct Kernel {
    strides: [u64; 2],
    dilations: [u64; 2],
    padding: Padding,
}

impl Kernel {
    fn describe(&self, conv: &mut OperationDescription<'_>) -> Made<()> {
        let ([down, right], [rows, columns]) = (self.strides, self.dilations);
        conv.set_attr_int_list("strides", &[1, wide(down), wide(right), 1])?;
        conv.set_attr_int_list("dilations", &[1, wide(rows), wide(columns), 1])?;
        let scheme = match self.padding {
            Padding::Valid => "VALID",
            Padding::Same => "SAME",
            Padding::Explicit([top, left, bottom, right]) => {
                let sides = [0, 0, top, bottom, left, right, 0, 0].map(wide);
                conv.set_attr_int_list("explicit_paddings", &sides)?;
                "EXPLICIT"
            }
        };
        Ok(conv.set_attr_string("padding", scheme)?)
    }
}

fn four(form: &Form) -> Result<[u64; 4], Fault> {
    <[u64; 4]>::try_from(form.shape.as_slice())
        .map_err(|_| Fault::Unsupported(format!("{:?} is no image", form.shape)))
}
