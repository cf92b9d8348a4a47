//! GPT-2 small (Radford et al. 2019), as Hugging Face's `GPT2LMHeadModel` has it: the weights of the
//! output are the table of tokens.
//!
//! Names carry no `transformer.` before them. Dropout of attention probabilities is left out, since
//! the attention operator has none; all other dropout is there. Training minimises the cross-entropy
//! at every position against labels that are an input of their own, each the token after its
//! position: nothing is shifted here, and no position is left without a label. The activation is the
//! tanh approximation as one operator; the published code (`gelu_new`) spells it out in eight.

use schema::{
    Graph,
    graph::{Approximation, ElementType, Fill, Op, Role},
};

use super::Sizes;
use crate::{
    ModelError,
    builder::{GraphBuilder, Value, moment},
};

const LAYERS: u64 = 12;
const HIDDEN: u64 = 768;
const HEADS: u64 = 12;
const INTERMEDIATE: u64 = 3072;
const VOCABULARY: u64 = 50_257;
const POSITIONS: u64 = 1024;
const EPSILON: f32 = 1e-5;
const DROPOUT: Op = Op::Dropout { ratio: 0.1 };

/// Variance of embeddings, with which the logits have variance 1.
const EMBEDDING_VARIANCE: f64 = 1.0 / HIDDEN as f64;

/// Variance of queries, keys and values, which are one product; see the BERT family.
const QUERY_VARIANCE: f64 = 2.0;

/// Variance that each half of a layer adds, so that all add up to 1: the paper's scaling of weights
/// at initialisation, too.
const RESIDUAL_VARIANCE: f64 = 1.0 / (2 * LAYERS) as f64;

pub(super) fn gpt2(sizes: &Sizes<'_>) -> Result<Graph, ModelError> {
    let (batch, seq) = (sizes.get("batch"), sizes.get("seq"));
    let mut net = GraphBuilder::new(sizes.name);
    let tokens = Fill::Integers { bound: VOCABULARY };
    let tokens = net.input("input_ids", ElementType::Int64, &[batch, seq], tokens);
    let positions = net.parameter("position_ids", &[1, seq], Role::Constant, Fill::Positions);
    let table = net.weight("wte.weight", &[VOCABULARY, HIDDEN], EMBEDDING_VARIANCE);
    let words = net.node("wte", Op::Gather, &[&table, &tokens]);
    let positions = net.embedding(&positions, "wpe", POSITIONS, HIDDEN, EMBEDDING_VARIANCE);
    let x = net.add(&words, &positions, "add_positions");
    let mut x = net.node("drop", DROPOUT, &[&x]);
    for index in 0..LAYERS {
        x = layer(&mut net, &x, &format!("h.{index}"));
    }
    let x = net.layer_norm(&x, "ln_f", EPSILON);
    let logits = net.node("lm_head", Op::Linear, &[&x, &table]);
    net.output(&logits, "logits");
    net.cross_entropy("logits", &[batch, seq], VOCABULARY);
    net.finish()
}

fn layer(net: &mut GraphBuilder, x: &Value, name: &str) -> Value {
    let y = net.layer_norm(x, &format!("{name}.ln_1"), EPSILON);
    let y = attention(net, &y, &format!("{name}.attn"));
    let x = net.add(&y, x, &format!("{name}.attn.add"));

    let y = net.layer_norm(&x, &format!("{name}.ln_2"), EPSILON);
    let own = |part: &str| format!("{name}.mlp.{part}");
    let y = net.gemm(&y, &own("c_fc"), INTERMEDIATE, moment::LINEAR, 1.0);
    let gelu = Op::Gelu {
        approximate: Approximation::Tanh,
    };
    let y = net.node(&own("act"), gelu, &[&y]);
    let y = net.gemm(&y, &own("c_proj"), HIDDEN, moment::GELU, RESIDUAL_VARIANCE);
    let y = net.node(&own("dropout"), DROPOUT, &[&y]);
    net.add(&x, &y, &own("add"))
}

/// Query, key and value are the parts of one product.
fn attention(net: &mut GraphBuilder, x: &Value, name: &str) -> Value {
    let own = |part: &str| format!("{name}.{part}");
    let all = net.gemm(
        x,
        &own("c_attn"),
        3 * HIDDEN,
        moment::LINEAR,
        QUERY_VARIANCE,
    );
    let [query, key, value] = [("query", 0), ("key", 1), ("value", 2)].map(|(part, index)| {
        let part_of = Op::Slice {
            axis: 2,
            start: index * HIDDEN,
            end: (index + 1) * HIDDEN,
        };
        net.node(&own(part), part_of, &[&all])
    });
    let op = Op::Attention {
        heads: HEADS,
        causal: true,
    };
    let mixed = net.node(&own("attention"), op, &[&query, &key, &value]);
    let y = net.gemm(
        &mixed,
        &own("c_proj"),
        HIDDEN,
        QUERY_VARIANCE,
        RESIDUAL_VARIANCE,
    );
    net.node(&own("resid_dropout"), DROPOUT, &[&y])
}
