//! BERT (Devlin et al. 2019), as Hugging Face's `BertModel` has it, with pooler.
//!
//! All positions take part: there is no attention mask. Dropout of attention probabilities is left
//! out, since the attention operator has none; all other dropout is there. Training adds dropout
//! and a two-class head on the pooled output, as `BertForSequenceClassification` does, under the
//! names that it has there; the names of the base model carry no `bert.` before them in either
//! mode, so that both start from the same numbers.

use schema::{
    Graph, Mode,
    graph::{Approximation, ElementType, Fill, Op, Role},
};

use super::Sizes;
use crate::{
    ModelError,
    builder::{GraphBuilder, Value, moment},
};

/// Sizes that tell members of the family apart.
struct Config {
    layers: u64,
    hidden: u64,
    heads: u64,
    intermediate: u64,
}

pub(super) const VOCABULARY: u64 = 30_522;
pub(super) const POSITIONS: u64 = 512;
const TOKEN_TYPES: u64 = 2;
pub(super) const CLASSES: u64 = 2;
pub(super) const EPSILON: f32 = 1e-12;
pub(super) const DROPOUT: Op = Op::Dropout { ratio: 0.1 };

/// Variance of embeddings: that of Hugging Face's initial weights.
pub(super) const EMBEDDING_VARIANCE: f64 = 0.02 * 0.02;

/// Variance of queries and keys. Attention scores then have variance 4, so that a few positions
/// stand out; at 1 attention would hardly differ from a mean over all of them.
pub(super) const QUERY_VARIANCE: f64 = 2.0;

/// Two layers of width 128: the smallest of the models of Turc et al. (2019).
pub(super) fn bert_tiny(sizes: &Sizes<'_>) -> Result<Graph, ModelError> {
    bert(
        sizes,
        &Config {
            layers: 2,
            hidden: 128,
            heads: 2,
            intermediate: 512,
        },
    )
}

pub(super) fn bert_base(sizes: &Sizes<'_>) -> Result<Graph, ModelError> {
    bert(
        sizes,
        &Config {
            layers: 12,
            hidden: 768,
            heads: 12,
            intermediate: 3072,
        },
    )
}

fn bert(sizes: &Sizes<'_>, config: &Config) -> Result<Graph, ModelError> {
    let (batch, seq) = (sizes.get("batch"), sizes.get("seq"));
    let mut net = GraphBuilder::new(sizes.name);
    let mut x = embeddings(&mut net, config, batch, seq);
    for index in 0..config.layers {
        x = layer(&mut net, &x, &format!("encoder.layer.{index}"), config);
    }
    let first = net.node(
        "pooler.first_token",
        Op::Slice {
            axis: 1,
            start: 0,
            end: 1,
        },
        &[&x],
    );
    let first = net.node("pooler.squeeze", Op::Squeeze { axis: 1 }, &[&first]);
    let pooled = net.linear(&first, "pooler.dense", config.hidden, moment::LINEAR, 1.0);
    let pooled = net.node("pooler.activation", Op::Tanh, &[&pooled]);
    match sizes.mode {
        Mode::Inference => {
            net.output(&x, "last_hidden_state");
            net.output(&pooled, "pooler_output");
        }
        Mode::Training => {
            let pooled = net.node("dropout", DROPOUT, &[&pooled]);
            let logits = net.linear(&pooled, "classifier", CLASSES, moment::LINEAR, 1.0);
            net.output(&logits, "logits");
            net.cross_entropy("logits", &[batch], CLASSES);
        }
    }
    net.finish()
}

/// Sum of the embeddings of tokens, token types and positions, normalised.
fn embeddings(net: &mut GraphBuilder, config: &Config, batch: u64, seq: u64) -> Value {
    let tokens = Fill::Integers { bound: VOCABULARY };
    let tokens = net.input("input_ids", ElementType::Int64, &[batch, seq], tokens);
    let one_segment = Fill::Constant { value: 0.0 };
    let types = net.input(
        "token_type_ids",
        ElementType::Int64,
        &[batch, seq],
        one_segment,
    );
    let positions = net.parameter(
        "embeddings.position_ids",
        &[1, seq],
        Role::Constant,
        Fill::Positions,
    );
    let mut table = |ids: &Value, name: &str, rows: u64| {
        let name = format!("embeddings.{name}");
        net.embedding(ids, &name, rows, config.hidden, EMBEDDING_VARIANCE)
    };
    let words = table(&tokens, "word_embeddings", VOCABULARY);
    let positions = table(&positions, "position_embeddings", POSITIONS);
    let types = table(&types, "token_type_embeddings", TOKEN_TYPES);
    let sum = net.add(&words, &types, "embeddings.add_types");
    let sum = net.add_to(&sum, &positions, "embeddings.add_positions");
    let sum = net.layer_norm(&sum, "embeddings.LayerNorm", EPSILON);
    net.node("embeddings.dropout", DROPOUT, &[&sum])
}

/// One encoder layer, normalised after each sum.
fn layer(net: &mut GraphBuilder, x: &Value, name: &str, config: &Config) -> Value {
    let hidden = config.hidden;
    let own = |part: &str| format!("{name}.attention.self.{part}");
    let query = net.linear(x, &own("query"), hidden, moment::LINEAR, QUERY_VARIANCE);
    let key = net.linear(x, &own("key"), hidden, moment::LINEAR, QUERY_VARIANCE);
    let value = net.linear(x, &own("value"), hidden, moment::LINEAR, 1.0);
    let op = Op::Attention {
        heads: config.heads,
        causal: false,
    };
    let mixed = net.node(&own("attention"), op, &[&query, &key, &value]);
    let mixed = sublayer_output(
        net,
        &mixed,
        x,
        &format!("{name}.attention.output"),
        hidden,
        1.0,
    );
    let inner = net.linear(
        &mixed,
        &format!("{name}.intermediate.dense"),
        config.intermediate,
        moment::LINEAR,
        1.0,
    );
    let inner = net.node(
        &format!("{name}.intermediate.activation"),
        Op::Gelu {
            approximate: Approximation::None,
        },
        &[&inner],
    );
    sublayer_output(
        net,
        &inner,
        &mixed,
        &format!("{name}.output"),
        hidden,
        moment::GELU,
    )
}

/// Projection, dropout, residual sum, normalisation: the end of both halves of a layer.
fn sublayer_output(
    net: &mut GraphBuilder,
    y: &Value,
    residual: &Value,
    name: &str,
    hidden: u64,
    moment: f64,
) -> Value {
    let y = net.linear(y, &format!("{name}.dense"), hidden, moment, 1.0);
    let y = net.node(&format!("{name}.dropout"), DROPOUT, &[&y]);
    let y = net.add(&y, residual, &format!("{name}.add"));
    net.layer_norm(&y, &format!("{name}.LayerNorm"), EPSILON)
}
