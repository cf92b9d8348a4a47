//! ViT-B/16 (Dosovitskiy et al. 2021), as Hugging Face's `ViTForImageClassification` has it: patches
//! of 16×16 pixels, normalised before each half of a layer, 1000 classes, no pooler.
//!
//! The names of the base model carry no `vit.` before them; those of the head are as they are there.
//! The published configuration drops nothing out in training, so no dropout is there. A table of
//! positions has a row for each patch: other image sizes make another network.

use schema::{
    Graph,
    graph::{Approximation, Op},
};

use super::Sizes;
use crate::{
    ModelError,
    builder::{Conv, GraphBuilder, Value, moment},
};

const LAYERS: u64 = 12;
const HIDDEN: u64 = 768;
const HEADS: u64 = 12;
const INTERMEDIATE: u64 = 3072;
const CLASSES: u64 = 1000;
const EPSILON: f32 = 1e-12;

/// Height and width of a patch.
pub(super) const PATCH: u64 = 16;

/// Variance of positions, beside patches of variance 1.
const POSITION_VARIANCE: f64 = 0.25;

/// Variance of queries and keys; see the BERT family.
const QUERY_VARIANCE: f64 = 2.0;

/// Variance that each half of a layer adds, so that all add as much as they start from.
const RESIDUAL_VARIANCE: f64 = 1.0 / (2 * LAYERS) as f64;

pub(super) fn vit_b16(sizes: &Sizes<'_>) -> Result<Graph, ModelError> {
    let batch = sizes.get("batch");
    let mut net = GraphBuilder::new(sizes.name);
    let images = net.images(batch, sizes.get("image"));
    let mut x = embeddings(&mut net, &images, batch);
    for index in 0..LAYERS {
        x = layer(&mut net, &x, &format!("encoder.layer.{index}"));
    }
    let x = net.layer_norm(&x, "layernorm", EPSILON);
    let first = Op::Slice {
        axis: 1,
        start: 0,
        end: 1,
    };
    let first = net.node("class_token", first, &[&x]);
    let first = net.node("squeeze", Op::Squeeze { axis: 1 }, &[&first]);
    let logits = net.linear(&first, "classifier", CLASSES, moment::LINEAR, 1.0);
    net.output(&logits, "logits");
    net.cross_entropy("logits", &[batch], CLASSES);
    net.finish()
}

/// Patches in a row behind the class token, each with its position.
fn embeddings(net: &mut GraphBuilder, images: &Value, batch: u64) -> Value {
    let patch = Conv::new(HIDDEN, PATCH).valid().stride(PATCH).bias();
    let patches = "embeddings.patch_embeddings";
    let x = net.conv(images, &format!("{patches}.projection"), patch);
    let x = net.node(
        &format!("{patches}.flatten"),
        Op::Flatten { axis: 2 },
        &[&x],
    );
    let turn = Op::Transpose {
        perm: vec![0, 2, 1],
    };
    let x = net.node(&format!("{patches}.transpose"), turn, &[&x]);
    let token = net.weight("embeddings.cls_token", &[1, 1, HIDDEN], 1.0);
    let expand = Op::Expand {
        shape: vec![batch, 1, HIDDEN],
    };
    let token = net.node("embeddings.expand", expand, &[&token]);
    let x = net.node("embeddings.cat", Op::Concat { axis: 1 }, &[&token, &x]);
    let shape = [1, net.size(&x, 1), HIDDEN];
    let positions = net.weight("embeddings.position_embeddings", &shape, POSITION_VARIANCE);
    net.add(&x, &positions, "embeddings.add")
}

fn layer(net: &mut GraphBuilder, x: &Value, name: &str) -> Value {
    let normal = net.layer_norm(x, &format!("{name}.layernorm_before"), EPSILON);
    let own = |part: &str| format!("{name}.attention.attention.{part}");
    let mut project =
        |part: &str, variance| net.linear(&normal, &own(part), HIDDEN, moment::LINEAR, variance);
    let query = project("query", QUERY_VARIANCE);
    let key = project("key", QUERY_VARIANCE);
    let value = project("value", 1.0);
    let op = Op::Attention {
        heads: HEADS,
        causal: false,
    };
    let mixed = net.node(&own("attention"), op, &[&query, &key, &value]);
    let y = net.linear(
        &mixed,
        &format!("{name}.attention.output.dense"),
        HIDDEN,
        moment::LINEAR,
        RESIDUAL_VARIANCE,
    );
    let x = net.add(&y, x, &format!("{name}.attention.add"));

    let y = net.layer_norm(&x, &format!("{name}.layernorm_after"), EPSILON);
    let y = net.linear(
        &y,
        &format!("{name}.intermediate.dense"),
        INTERMEDIATE,
        moment::LINEAR,
        1.0,
    );
    let gelu = Op::Gelu {
        approximate: Approximation::None,
    };
    let y = net.node(&format!("{name}.intermediate.activation"), gelu, &[&y]);
    let y = net.linear(
        &y,
        &format!("{name}.output.dense"),
        HIDDEN,
        moment::GELU,
        RESIDUAL_VARIANCE,
    );
    net.add(&y, &x, &format!("{name}.output.add"))
}
