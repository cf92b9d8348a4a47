//! VGG-16 without normalisation (Simonyan and Zisserman 2015), as torchvision has it.
//!
//! torchvision pools adaptively to 7×7 before the classifier: the identity at 224 pixels, where
//! ours has no node, and the mean of whole windows at multiples of 224.

use schema::{Graph, graph::Op};

use super::Sizes;
use crate::{
    ModelError,
    builder::{Conv, GraphBuilder, moment},
};

/// Channels of the convolutions of each stage; a pooling ends each stage.
const STAGES: [&[u64]; 5] = [
    &[64, 64],
    &[128, 128],
    &[256, 256, 256],
    &[512, 512, 512],
    &[512, 512, 512],
];

/// Second moment behind a ReLU and a 2×2 maximum of neighbours that share most of what they see:
/// between ½ (all equal) and 1.55 (all independent).
const POOLED: f64 = 1.2;

pub(super) fn vgg16(sizes: &Sizes<'_>) -> Result<Graph, ModelError> {
    let (batch, image) = (sizes.get("batch"), sizes.get("image"));
    let mut net = GraphBuilder::new(sizes.name);
    let mut x = net.images(batch, image);
    let mut moment = moment::LINEAR;
    let mut index = 0;
    for stage in STAGES {
        for &out in stage {
            let conv = Conv::new(out, 3).bias().after(moment);
            x = net.conv(&x, &format!("features.{index}"), conv);
            x = net.node_in_place(&format!("features.{}", index + 1), Op::Relu, &[&x]);
            moment = moment::RELU;
            index += 2;
        }
        let pool = Op::MaxPool {
            kernel: [2; 2],
            strides: [2; 2],
            pads: [0; 4],
            ceil_mode: false,
        };
        x = net.node(&format!("features.{index}"), pool, &[&x]);
        moment = POOLED;
        index += 1;
    }

    let window = image / 224;
    if window > 1 {
        let pool = Op::AveragePool {
            kernel: [window; 2],
            strides: [window; 2],
            pads: [0; 4],
            count_include_pad: true,
        };
        x = net.node("avgpool", pool, &[&x]);
    }
    x = net.node("flatten", Op::Flatten { axis: 1 }, &[&x]);
    for index in [0, 3] {
        x = net.linear(&x, &format!("classifier.{index}"), 4096, moment, 1.0);
        x = net.node_in_place(&format!("classifier.{}", index + 1), Op::Relu, &[&x]);
        x = net.node(
            &format!("classifier.{}", index + 2),
            Op::Dropout { ratio: 0.5 },
            &[&x],
        );
        moment = moment::RELU;
    }
    let x = net.linear(&x, "classifier.6", 1000, moment, 1.0);
    net.output(&x, "logits");
    net.cross_entropy("logits", &[batch], 1000);
    net.finish()
}
