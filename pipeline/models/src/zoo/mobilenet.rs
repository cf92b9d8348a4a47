//! MobileNetV2 (Sandler et al. 2018), as torchvision has it.
//!
//! Scales before a ReLU6 start near 2.5, so that the clipping at 6 really happens (to about one
//! value in a hundred) and an engine that clips wrongly is found out.

use schema::{Graph, graph::Op};

use super::Sizes;
use crate::{
    ModelError,
    builder::{Conv, GraphBuilder, Value, moment},
};

/// Expansion, output channels, number of blocks, first step: table 2 of the paper.
const STAGES: [[u64; 4]; 7] = [
    [1, 16, 1, 1],
    [6, 24, 2, 2],
    [6, 32, 3, 2],
    [6, 64, 4, 2],
    [6, 96, 3, 1],
    [6, 160, 3, 2],
    [6, 320, 1, 1],
];

/// Scale before a ReLU6.
const WIDE: f32 = 2.5;

/// Second moment behind it: 2.5²/2, less what the clipping takes.
const RELU6: f64 = 3.0;

/// Scale at the end of a residual block; ten of them add as much as they start from.
const RESIDUAL: f32 = 0.3;

pub(super) fn mobilenet_v2(sizes: &Sizes<'_>) -> Result<Graph, ModelError> {
    let batch = sizes.get("batch");
    let mut net = GraphBuilder::new(sizes.name);
    let images = net.images(batch, sizes.get("image"));
    let mut x = conv_norm_relu6(&mut net, &images, "features.0", Conv::new(32, 3).stride(2));
    let mut moment = RELU6;
    let mut index = 1;
    for [expansion, out, count, first_stride] in STAGES {
        for position in 0..count {
            let stride = if position == 0 { first_stride } else { 1 };
            let name = format!("features.{index}");
            x = block(
                &mut net,
                &x,
                &name,
                Shape {
                    expansion,
                    out,
                    stride,
                    moment,
                },
            );
            moment = moment::LINEAR;
            index += 1;
        }
    }
    let last = format!("features.{index}");
    let x = conv_norm_relu6(&mut net, &x, &last, Conv::new(1280, 1));

    let x = net.node("avgpool", Op::GlobalAveragePool, &[&x]);
    let x = net.node("flatten", Op::Flatten { axis: 1 }, &[&x]);
    let x = net.node("classifier.0", Op::Dropout { ratio: 0.2 }, &[&x]);
    let x = net.linear(&x, "classifier.1", 1000, RELU6, 1.0);
    net.output(&x, "logits");
    net.cross_entropy("logits", &[batch], 1000);
    net.finish()
}

fn conv_norm_relu6(net: &mut GraphBuilder, x: &Value, name: &str, conv: Conv) -> Value {
    let y = net.conv(x, &format!("{name}.0"), conv);
    let y = net.batch_norm(&y, &format!("{name}.1"), WIDE);
    net.node_in_place(&format!("{name}.2"), Op::Clip { min: 0.0, max: 6.0 }, &[&y])
}

/// What an inverted residual block does to its input.
#[derive(Clone, Copy)]
struct Shape {
    expansion: u64,
    out: u64,
    stride: u64,
    moment: f64,
}

fn block(net: &mut GraphBuilder, x: &Value, name: &str, shape: Shape) -> Value {
    let Shape {
        expansion,
        out,
        stride,
        mut moment,
    } = shape;
    let channels = net.size(x, 1);
    let hidden = channels * expansion;
    let mut y = x.clone();
    let mut layer = 0;
    if expansion != 1 {
        let expand = Conv::new(hidden, 1).after(moment);
        y = conv_norm_relu6(net, &y, &format!("{name}.conv.0"), expand);
        moment = RELU6;
        layer = 1;
    }
    let depthwise = Conv::new(hidden, 3)
        .stride(stride)
        .group(hidden)
        .after(moment);
    y = conv_norm_relu6(net, &y, &format!("{name}.conv.{layer}"), depthwise);
    y = net.conv(
        &y,
        &format!("{name}.conv.{}", layer + 1),
        Conv::new(out, 1).after(RELU6),
    );
    let residual = stride == 1 && channels == out;
    let scale = if residual { RESIDUAL } else { 1.0 };
    y = net.batch_norm(&y, &format!("{name}.conv.{}", layer + 2), scale);
    if residual {
        net.add(x, &y, &format!("{name}.add"))
    } else {
        y
    }
}
