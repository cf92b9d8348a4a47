//! The base Transformer for translation (Vaswani et al. 2017): six layers each of encoder and
//! decoder, normalised after each sum, one table of 37,000 tokens for source, target and output.
//!
//! Names are those of Hugging Face's `MarianMTModel`, without `model.` before them; like that model,
//! attention has biases (the paper's text has none: 36,864 numbers of 63,082,496), sinusoidal
//! positions have all sines before all cosines, and no position is masked but by causality. Unlike
//! it, the activation is the paper's ReLU, and logits have no bias. The table of positions holds as
//! many rows as the text is long and is added whole, without looking rows up.
//!
//! Training minimises the plain cross-entropy at every target position, without the paper's label
//! smoothing, against labels that are an input of their own. Dropout stands where the paper has it.

use schema::{
    Graph,
    graph::{ElementType, Fill, Op, Role},
};

use super::Sizes;
use crate::{
    ModelError,
    builder::{GraphBuilder, Value, moment},
};

const LAYERS: u64 = 6;
const HIDDEN: u64 = 512;
const HEADS: u64 = 8;
const INTERMEDIATE: u64 = 2048;
const VOCABULARY: u64 = 37_000;
const EPSILON: f32 = 1e-5;
const DROPOUT: Op = Op::Dropout { ratio: 0.1 };

/// Variance of embeddings: scaled by `√HIDDEN`, they have variance 1, and so have the logits.
const EMBEDDING_VARIANCE: f64 = 1.0 / HIDDEN as f64;

/// Variance of queries and keys; see the BERT family.
const QUERY_VARIANCE: f64 = 2.0;

pub(super) fn transformer_base(sizes: &Sizes<'_>) -> Result<Graph, ModelError> {
    let batch = sizes.get("batch");
    let (source, target) = (sizes.get("seq"), sizes.get("target"));
    let mut net = GraphBuilder::new(sizes.name);
    let table = net.weight("shared.weight", &[VOCABULARY, HIDDEN], EMBEDDING_VARIANCE);
    let scale = net.parameter(
        "embed_scale",
        &[1],
        Role::Constant,
        Fill::Constant {
            value: (HIDDEN as f32).sqrt(),
        },
    );
    let mut embed = |part: &str, ids: &str, length: u64| {
        let fill = Fill::Integers { bound: VOCABULARY };
        let ids = net.input(ids, ElementType::Int64, &[batch, length], fill);
        let words = net.node(&format!("{part}.embed_tokens"), Op::Gather, &[&table, &ids]);
        let words = net.node(&format!("{part}.scale"), Op::Mul, &[&words, &scale]);
        let positions = net.parameter(
            &format!("{part}.embed_positions.weight"),
            &[length, HIDDEN],
            Role::Constant,
            Fill::Sinusoids { width: HIDDEN },
        );
        let sum = net.add(&words, &positions, &format!("{part}.add_positions"));
        net.node(&format!("{part}.dropout"), DROPOUT, &[&sum])
    };
    let mut memory = embed("encoder", "input_ids", source);
    let mut x = embed("decoder", "decoder_input_ids", target);
    for index in 0..LAYERS {
        let name = format!("encoder.layers.{index}");
        memory = attention(
            &mut net,
            &memory,
            &memory,
            &format!("{name}.self_attn"),
            false,
        );
        memory = feed_forward(&mut net, &memory, &name);
    }
    for index in 0..LAYERS {
        let name = format!("decoder.layers.{index}");
        x = attention(&mut net, &x, &x, &format!("{name}.self_attn"), true);
        x = attention(
            &mut net,
            &x,
            &memory,
            &format!("{name}.encoder_attn"),
            false,
        );
        x = feed_forward(&mut net, &x, &name);
    }
    let logits = net.node("lm_head", Op::Linear, &[&x, &table]);
    net.output(&logits, "logits");
    net.cross_entropy("logits", &[batch, target], VOCABULARY);
    net.finish()
}

/// What `x` finds in `memory`, added to it and normalised.
fn attention(net: &mut GraphBuilder, x: &Value, memory: &Value, name: &str, causal: bool) -> Value {
    let own = |part: &str| format!("{name}.{part}");
    let mut project = |from: &Value, part: &str, variance| {
        net.linear(from, &own(part), HIDDEN, moment::LINEAR, variance)
    };
    let query = project(x, "q_proj", QUERY_VARIANCE);
    let key = project(memory, "k_proj", QUERY_VARIANCE);
    let value = project(memory, "v_proj", 1.0);
    let op = Op::Attention {
        heads: HEADS,
        causal,
    };
    let mixed = net.node(&own("attention"), op, &[&query, &key, &value]);
    let y = net.linear(&mixed, &own("out_proj"), HIDDEN, moment::LINEAR, 1.0);
    let y = net.node(&own("dropout"), DROPOUT, &[&y]);
    let y = net.add(x, &y, &own("add"));
    net.layer_norm(&y, &format!("{name}_layer_norm"), EPSILON)
}

fn feed_forward(net: &mut GraphBuilder, x: &Value, name: &str) -> Value {
    let own = |part: &str| format!("{name}.{part}");
    let y = net.linear(x, &own("fc1"), INTERMEDIATE, moment::LINEAR, 1.0);
    let y = net.node(&own("activation"), Op::Relu, &[&y]);
    let y = net.linear(&y, &own("fc2"), HIDDEN, moment::RELU, 1.0);
    let y = net.node(&own("dropout"), DROPOUT, &[&y]);
    let y = net.add(x, &y, &own("add"));
    net.layer_norm(&y, &own("final_layer_norm"), EPSILON)
}
