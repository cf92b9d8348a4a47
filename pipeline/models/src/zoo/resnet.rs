//! ResNet (He et al. 2016), as torchvision has it: version 1.5, whose bottlenecks step on the 3×3
//! convolution.
//!
//! The last scale of each residual block starts near `1/√(2·blocks)` instead of 1, so that the sum
//! of all blocks adds as much as the stem (compare Zhang et al. 2019, "Fixup").

use schema::{Graph, graph::Op};

use super::Sizes;
use crate::{
    ModelError,
    builder::{Conv, GraphBuilder, Value, moment},
};

/// Output channels of a stage are its width times this in bottlenecks.
const EXPANSION: u64 = 4;

pub(super) fn resnet18(sizes: &Sizes<'_>) -> Result<Graph, ModelError> {
    resnet(sizes, [2, 2, 2, 2], basic_block)
}

pub(super) fn resnet50(sizes: &Sizes<'_>) -> Result<Graph, ModelError> {
    resnet(sizes, [3, 4, 6, 3], bottleneck)
}

pub(super) fn resnet152(sizes: &Sizes<'_>) -> Result<Graph, ModelError> {
    resnet(sizes, [3, 8, 36, 3], bottleneck)
}

/// A residual block: where it stands, its width, its step, and the last scale.
struct Block {
    name: String,
    width: u64,
    stride: u64,
    last_scale: f32,
}

fn resnet(
    sizes: &Sizes<'_>,
    depths: [u64; 4],
    block: fn(&mut GraphBuilder, &Value, &Block) -> Value,
) -> Result<Graph, ModelError> {
    let batch = sizes.get("batch");
    let mut net = GraphBuilder::new(sizes.name);
    let images = net.images(batch, sizes.get("image"));
    let x = net.conv(&images, "conv1", Conv::new(64, 7).stride(2));
    let x = net.batch_norm(&x, "bn1", 1.0);
    let x = net.node_in_place("relu", Op::Relu, &[&x]);
    let pool = Op::MaxPool {
        kernel: [3; 2],
        strides: [2; 2],
        pads: [1; 4],
        ceil_mode: false,
    };
    let mut x = net.node("maxpool", pool, &[&x]);

    let last_scale = (1.0 / (2.0 * depths.iter().sum::<u64>() as f64).sqrt()) as f32;
    for (stage, (depth, width)) in depths.into_iter().zip([64, 128, 256, 512]).enumerate() {
        for index in 0..depth {
            let stride = if stage > 0 && index == 0 { 2 } else { 1 };
            let name = format!("layer{}.{index}", stage + 1);
            x = block(
                &mut net,
                &x,
                &Block {
                    name,
                    width,
                    stride,
                    last_scale,
                },
            );
        }
    }

    let x = net.node("avgpool", Op::GlobalAveragePool, &[&x]);
    let x = net.node("flatten", Op::Flatten { axis: 1 }, &[&x]);
    let x = net.linear(&x, "fc", 1000, moment::RELU, 1.0);
    net.output(&x, "logits");
    net.cross_entropy("logits", &[batch], 1000);
    net.finish()
}

fn basic_block(net: &mut GraphBuilder, x: &Value, block: &Block) -> Value {
    let Block {
        name,
        width,
        stride,
        last_scale,
    } = block;
    let first = Conv::new(*width, 3).stride(*stride).after(moment::RELU);
    let y = net.conv(x, &format!("{name}.conv1"), first);
    let y = net.batch_norm(&y, &format!("{name}.bn1"), 1.0);
    let y = net.node_in_place(&format!("{name}.relu1"), Op::Relu, &[&y]);
    let y = net.conv(
        &y,
        &format!("{name}.conv2"),
        Conv::new(*width, 3).after(moment::RELU),
    );
    let y = net.batch_norm(&y, &format!("{name}.bn2"), *last_scale);
    join(net, x, &y, name, *width, *stride)
}

fn bottleneck(net: &mut GraphBuilder, x: &Value, block: &Block) -> Value {
    let Block {
        name,
        width,
        stride,
        last_scale,
    } = block;
    let out = width * EXPANSION;
    let y = net.conv(
        x,
        &format!("{name}.conv1"),
        Conv::new(*width, 1).after(moment::RELU),
    );
    let y = net.batch_norm(&y, &format!("{name}.bn1"), 1.0);
    let y = net.node_in_place(&format!("{name}.relu1"), Op::Relu, &[&y]);
    let middle = Conv::new(*width, 3).stride(*stride).after(moment::RELU);
    let y = net.conv(&y, &format!("{name}.conv2"), middle);
    let y = net.batch_norm(&y, &format!("{name}.bn2"), 1.0);
    let y = net.node_in_place(&format!("{name}.relu2"), Op::Relu, &[&y]);
    let y = net.conv(
        &y,
        &format!("{name}.conv3"),
        Conv::new(out, 1).after(moment::RELU),
    );
    let y = net.batch_norm(&y, &format!("{name}.bn3"), *last_scale);
    join(net, x, &y, name, out, *stride)
}

/// Adds the shortcut, projected where the shape changes.
fn join(net: &mut GraphBuilder, x: &Value, y: &Value, name: &str, out: u64, stride: u64) -> Value {
    let sum = format!("{name}.add");
    let joined = if stride != 1 || net.size(x, 1) != out {
        let projection = Conv::new(out, 1).stride(stride).after(moment::RELU);
        let shortcut = net.conv(x, &format!("{name}.downsample.0"), projection);
        let shortcut = net.batch_norm(&shortcut, &format!("{name}.downsample.1"), 1.0);
        net.add_to(y, &shortcut, &sum)
    } else {
        net.add_to(y, x, &sum)
    };
    net.node_in_place(&format!("{name}.relu"), Op::Relu, &[&joined])
}
