//! Inception-v3 (Szegedy et al. 2016), as torchvision has it without the auxiliary head.
//!
//! torchvision's `transform_input`, which undoes one normalisation of photographs and applies
//! another, is off: it belongs to the published weights.

use schema::{Graph, graph::Op};

use super::Sizes;
use crate::{
    ModelError,
    builder::{Conv, GraphBuilder, Value, moment},
};

/// Epsilon of every batch normalisation.
const EPSILON: f32 = 1e-3;

/// Second moment behind a ReLU and a 3×3 maximum of neighbours that share most of what they see.
const POOLED: f64 = 1.2;

/// Second moment behind a ReLU and a 3×3 mean: between 0.16 (the squared mean alone, all else
/// averaged away) and ½ (all equal).
const AVERAGED: f64 = 0.3;

/// Second moment where convolutions and a maximum are joined.
const JOINED: f64 = 0.8;

/// Second moment of the mean over a channel before the classifier.
const SQUEEZED: f64 = 0.2;

/// A convolution with its name within a block.
type Layer = (&'static str, Conv);

pub(super) fn inception_v3(sizes: &Sizes<'_>) -> Result<Graph, ModelError> {
    let batch = sizes.get("batch");
    let mut net = GraphBuilder::new(sizes.name);
    let images = net.images(batch, sizes.get("image"));
    let stem = [
        ("Conv2d_1a_3x3", Conv::new(32, 3).valid().stride(2)),
        ("Conv2d_2a_3x3", Conv::new(32, 3).valid()),
        ("Conv2d_2b_3x3", Conv::new(64, 3)),
    ];
    let x = chain(&mut net, &images, "", moment::LINEAR, &stem);
    let x = max_pool(&mut net, &x, "maxpool1");
    let stem = [
        ("Conv2d_3b_1x1", Conv::new(80, 1)),
        ("Conv2d_4a_3x3", Conv::new(192, 3).valid()),
    ];
    let x = chain(&mut net, &x, "", POOLED, &stem);
    let mut x = max_pool(&mut net, &x, "maxpool2");

    let mut moment = POOLED;
    for (name, pooled) in [("Mixed_5b", 32), ("Mixed_5c", 64), ("Mixed_5d", 64)] {
        x = block_a(&mut net, &x, name, moment, pooled);
        moment = moment::RELU;
    }
    x = block_b(&mut net, &x, "Mixed_6a");
    moment = JOINED;
    for (name, width) in [
        ("Mixed_6b", 128),
        ("Mixed_6c", 160),
        ("Mixed_6d", 160),
        ("Mixed_6e", 192),
    ] {
        x = block_c(&mut net, &x, name, moment, width);
        moment = moment::RELU;
    }
    x = block_d(&mut net, &x, "Mixed_7a");
    x = block_e(&mut net, &x, "Mixed_7b", JOINED);
    x = block_e(&mut net, &x, "Mixed_7c", moment::RELU);

    let x = net.node("avgpool", Op::GlobalAveragePool, &[&x]);
    let x = net.node("dropout", Op::Dropout { ratio: 0.5 }, &[&x]);
    let x = net.node("flatten", Op::Flatten { axis: 1 }, &[&x]);
    let x = net.linear(&x, "fc", 1000, SQUEEZED, 1.0);
    net.output(&x, "logits");
    net.cross_entropy("logits", &[batch], 1000);
    net.finish()
}

/// Convolutions one after another, each normalised and behind a ReLU; the first sees values of
/// this second moment.
fn chain(
    net: &mut GraphBuilder,
    x: &Value,
    block: &str,
    mut moment: f64,
    layers: &[Layer],
) -> Value {
    let mut x = x.clone();
    for (layer, conv) in layers {
        let name = match block {
            "" => (*layer).to_owned(),
            block => format!("{block}.{layer}"),
        };
        x = conv_norm_relu(net, &x, &name, conv.after(moment));
        moment = moment::RELU;
    }
    x
}

fn conv_norm_relu(net: &mut GraphBuilder, x: &Value, name: &str, conv: Conv) -> Value {
    let y = net.conv(x, &format!("{name}.conv"), conv);
    let y = net.batch_norm_with(&y, &format!("{name}.bn"), 1.0, EPSILON);
    net.node_in_place(&format!("{name}.relu"), Op::Relu, &[&y])
}

fn max_pool(net: &mut GraphBuilder, x: &Value, name: &str) -> Value {
    let pool = Op::MaxPool {
        kernel: [3; 2],
        strides: [2; 2],
        pads: [0; 4],
        ceil_mode: false,
    };
    net.node(name, pool, &[x])
}

/// A 3×3 mean in which padding counts, and a convolution.
fn average_branch(net: &mut GraphBuilder, x: &Value, block: &str, out: u64) -> Value {
    let pool = Op::AveragePool {
        kernel: [3; 2],
        strides: [1; 2],
        pads: [1; 4],
        count_include_pad: true,
    };
    let pooled = net.node(&format!("{block}.avgpool"), pool, &[x]);
    chain(
        net,
        &pooled,
        block,
        AVERAGED,
        &[("branch_pool", Conv::new(out, 1))],
    )
}

fn join(net: &mut GraphBuilder, name: &str, branches: &[&Value]) -> Value {
    net.node(name, Op::Concat { axis: 1 }, branches)
}

/// A kernel of one row.
const fn wide(out: u64) -> Conv {
    Conv::rectangle(out, [1, 7])
}

/// A kernel of one column.
const fn tall(out: u64) -> Conv {
    Conv::rectangle(out, [7, 1])
}

fn block_a(net: &mut GraphBuilder, x: &Value, name: &str, moment: f64, pooled: u64) -> Value {
    let one = [("branch1x1", Conv::new(64, 1))];
    let five = [
        ("branch5x5_1", Conv::new(48, 1)),
        ("branch5x5_2", Conv::new(64, 5)),
    ];
    let double = [
        ("branch3x3dbl_1", Conv::new(64, 1)),
        ("branch3x3dbl_2", Conv::new(96, 3)),
        ("branch3x3dbl_3", Conv::new(96, 3)),
    ];
    let one = chain(net, x, name, moment, &one);
    let five = chain(net, x, name, moment, &five);
    let double = chain(net, x, name, moment, &double);
    let pooled = average_branch(net, x, name, pooled);
    join(
        net,
        &format!("{name}.cat"),
        &[&one, &five, &double, &pooled],
    )
}

/// Halves height and width.
fn block_b(net: &mut GraphBuilder, x: &Value, name: &str) -> Value {
    let three = [("branch3x3", Conv::new(384, 3).valid().stride(2))];
    let double = [
        ("branch3x3dbl_1", Conv::new(64, 1)),
        ("branch3x3dbl_2", Conv::new(96, 3)),
        ("branch3x3dbl_3", Conv::new(96, 3).valid().stride(2)),
    ];
    let three = chain(net, x, name, moment::RELU, &three);
    let double = chain(net, x, name, moment::RELU, &double);
    let pooled = max_pool(net, x, &format!("{name}.maxpool"));
    join(net, &format!("{name}.cat"), &[&three, &double, &pooled])
}

fn block_c(net: &mut GraphBuilder, x: &Value, name: &str, moment: f64, width: u64) -> Value {
    let one = [("branch1x1", Conv::new(192, 1))];
    let seven = [
        ("branch7x7_1", Conv::new(width, 1)),
        ("branch7x7_2", wide(width)),
        ("branch7x7_3", tall(192)),
    ];
    let double = [
        ("branch7x7dbl_1", Conv::new(width, 1)),
        ("branch7x7dbl_2", tall(width)),
        ("branch7x7dbl_3", wide(width)),
        ("branch7x7dbl_4", tall(width)),
        ("branch7x7dbl_5", wide(192)),
    ];
    let one = chain(net, x, name, moment, &one);
    let seven = chain(net, x, name, moment, &seven);
    let double = chain(net, x, name, moment, &double);
    let pooled = average_branch(net, x, name, 192);
    join(
        net,
        &format!("{name}.cat"),
        &[&one, &seven, &double, &pooled],
    )
}

/// Halves height and width again.
fn block_d(net: &mut GraphBuilder, x: &Value, name: &str) -> Value {
    let three = [
        ("branch3x3_1", Conv::new(192, 1)),
        ("branch3x3_2", Conv::new(320, 3).valid().stride(2)),
    ];
    let seven = [
        ("branch7x7x3_1", Conv::new(192, 1)),
        ("branch7x7x3_2", wide(192)),
        ("branch7x7x3_3", tall(192)),
        ("branch7x7x3_4", Conv::new(192, 3).valid().stride(2)),
    ];
    let three = chain(net, x, name, moment::RELU, &three);
    let seven = chain(net, x, name, moment::RELU, &seven);
    let pooled = max_pool(net, x, &format!("{name}.maxpool"));
    join(net, &format!("{name}.cat"), &[&three, &seven, &pooled])
}

/// The branches themselves end in a 1×3 and a 3×1 kernel side by side.
fn block_e(net: &mut GraphBuilder, x: &Value, name: &str, moment: f64) -> Value {
    let one = chain(net, x, name, moment, &[("branch1x1", Conv::new(320, 1))]);
    let three = [("branch3x3_1", Conv::new(384, 1))];
    let three = chain(net, x, name, moment, &three);
    let three = fork(net, &three, name, "branch3x3", ["2a", "2b"]);
    let double = [
        ("branch3x3dbl_1", Conv::new(448, 1)),
        ("branch3x3dbl_2", Conv::new(384, 3)),
    ];
    let double = chain(net, x, name, moment, &double);
    let double = fork(net, &double, name, "branch3x3dbl", ["3a", "3b"]);
    let pooled = average_branch(net, x, name, 192);
    join(
        net,
        &format!("{name}.cat"),
        &[&one, &three, &double, &pooled],
    )
}

/// A 1×3 and a 3×1 kernel side by side.
fn fork(net: &mut GraphBuilder, x: &Value, block: &str, branch: &str, parts: [&str; 2]) -> Value {
    let [wide, tall] = [(parts[0], [1, 3]), (parts[1], [3, 1])].map(|(part, kernel)| {
        let conv = Conv::rectangle(384, kernel).after(moment::RELU);
        conv_norm_relu(net, x, &format!("{block}.{branch}_{part}"), conv)
    });
    join(net, &format!("{block}.{branch}.cat"), &[&wide, &tall])
}
