//! EfficientNet-B4 (Tan and Le 2019), as torchvision has it: width 1.4, depth 1.8, dropout 0.4,
//! batch normalisation with epsilon 1e-5 (torchvision takes 1e-3 from B5 on).
//!
//! Stochastic depth is left out: it is a choice of training that would make every iteration a
//! different network.

use schema::{Graph, graph::Op};

use super::Sizes;
use crate::{
    ModelError,
    builder::{Conv, GraphBuilder, Value, moment},
};

/// A stage of blocks.
struct Stage {
    expansion: u64,
    kernel: u64,
    stride: u64,
    out: u64,
    depth: u64,
}

const fn stage(expansion: u64, kernel: u64, stride: u64, out: u64, depth: u64) -> Stage {
    Stage {
        expansion,
        kernel,
        stride,
        out,
        depth,
    }
}

/// Table 1 of the paper with widths × 1.4 (rounded to multiples of 8) and depths × 1.8 (rounded
/// up).
const STAGES: [Stage; 7] = [
    stage(1, 3, 1, 24, 2),
    stage(6, 3, 2, 32, 4),
    stage(6, 5, 2, 56, 4),
    stage(6, 3, 2, 112, 6),
    stage(6, 5, 1, 160, 6),
    stage(6, 5, 2, 272, 8),
    stage(6, 3, 1, 448, 2),
];

/// Channels of the stem.
const STEM: u64 = 48;

/// Second moment of the mean over a channel, with a wide margin, so that gates never saturate:
/// behind a SiLU it lies between 0.043, where a channel differs from pixel to pixel only, and 0.36,
/// where it differs from channel to channel only.
const SQUEEZED: f64 = 1.0;

/// The same before the classifier, without the margin.
const POOLED: f64 = 0.12;

/// Second moment behind a SiLU that is scaled by such a gate: the sigmoid of a small number has a
/// second moment near ¼; a little more here keeps inference, which divides by no batch variance,
/// from growing with depth.
const GATED: f64 = moment::SILU * 0.3;

/// Scale at the end of a residual block; 25 of them add as much as they start from.
const RESIDUAL: f32 = 0.2;

pub(super) fn efficientnet_b4(sizes: &Sizes<'_>) -> Result<Graph, ModelError> {
    let batch = sizes.get("batch");
    let mut net = GraphBuilder::new(sizes.name);
    let images = net.images(batch, sizes.get("image"));
    let stem = Conv::new(STEM, 3).stride(2);
    let mut x = conv_norm_silu(&mut net, &images, "features.0", stem);
    let mut moment = moment::SILU;
    for (stage, index) in STAGES.iter().zip(1..) {
        for position in 0..stage.depth {
            let stride = if position == 0 { stage.stride } else { 1 };
            x = block(
                &mut net,
                &x,
                &format!("features.{index}.{position}"),
                stage,
                stride,
                moment,
            );
            moment = moment::LINEAR;
        }
    }
    let last = Conv::new(4 * net.size(&x, 1), 1);
    let x = conv_norm_silu(&mut net, &x, "features.8", last);

    let x = net.node("avgpool", Op::GlobalAveragePool, &[&x]);
    let x = net.node("flatten", Op::Flatten { axis: 1 }, &[&x]);
    let x = net.node("classifier.0", Op::Dropout { ratio: 0.4 }, &[&x]);
    let x = net.linear(&x, "classifier.1", 1000, POOLED, 1.0);
    net.output(&x, "logits");
    net.cross_entropy("logits", &[batch], 1000);
    net.finish()
}

fn conv_norm_silu(net: &mut GraphBuilder, x: &Value, name: &str, conv: Conv) -> Value {
    let y = net.conv(x, &format!("{name}.0"), conv);
    let y = net.batch_norm(&y, &format!("{name}.1"), 1.0);
    net.node_in_place(&format!("{name}.2"), Op::Silu, &[&y])
}

fn block(
    net: &mut GraphBuilder,
    x: &Value,
    name: &str,
    stage: &Stage,
    stride: u64,
    mut moment: f64,
) -> Value {
    let channels = net.size(x, 1);
    let hidden = channels * stage.expansion;
    let mut y = x.clone();
    let mut layer = 0;
    if stage.expansion != 1 {
        let expand = Conv::new(hidden, 1).after(moment);
        y = conv_norm_silu(net, &y, &format!("{name}.block.0"), expand);
        moment = moment::SILU;
        layer = 1;
    }
    let depthwise = Conv::new(hidden, stage.kernel)
        .stride(stride)
        .group(hidden)
        .after(moment);
    y = conv_norm_silu(net, &y, &format!("{name}.block.{layer}"), depthwise);
    y = squeeze_excite(
        net,
        &y,
        &format!("{name}.block.{}", layer + 1),
        (channels / 4).max(1),
    );
    let project = format!("{name}.block.{}", layer + 2);
    y = net.conv(
        &y,
        &format!("{project}.0"),
        Conv::new(stage.out, 1).after(GATED),
    );
    let residual = stride == 1 && channels == stage.out;
    y = net.batch_norm(
        &y,
        &format!("{project}.1"),
        if residual { RESIDUAL } else { 1.0 },
    );
    if residual {
        net.add_to(&y, x, &format!("{name}.add"))
    } else {
        y
    }
}

/// Scales each channel by a gate computed from the means of all (Hu et al. 2018).
fn squeeze_excite(net: &mut GraphBuilder, x: &Value, name: &str, squeezed: u64) -> Value {
    let channels = net.size(x, 1);
    let gate = net.node(&format!("{name}.avgpool"), Op::GlobalAveragePool, &[x]);
    let reduce = Conv::new(squeezed, 1).bias().after(SQUEEZED);
    let gate = net.conv(&gate, &format!("{name}.fc1"), reduce);
    let gate = net.node_in_place(&format!("{name}.activation"), Op::Silu, &[&gate]);
    let expand = Conv::new(channels, 1).bias().after(moment::SILU);
    let gate = net.conv(&gate, &format!("{name}.fc2"), expand);
    let gate = net.node(&format!("{name}.scale_activation"), Op::Sigmoid, &[&gate]);
    net.node(&format!("{name}.mul"), Op::Mul, &[&gate, x])
}
