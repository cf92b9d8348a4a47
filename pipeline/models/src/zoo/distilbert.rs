//! DistilBERT (Sanh et al. 2019), as Hugging Face's `DistilBertModel` has it: half of BERT's layers,
//! no token types, no pooler.
//!
//! All positions take part: there is no attention mask. Dropout of attention probabilities is left
//! out, since the attention operator has none; all other dropout is there. Training adds the
//! two-class head of `DistilBertForSequenceClassification`, under the names that it has there; the
//! names of the base model carry no `distilbert.` before them in either mode, so that both start
//! from the same numbers.

use schema::{
    Graph, Mode,
    graph::{Approximation, ElementType, Fill, Op, Role},
};

use super::{
    Sizes,
    bert::{CLASSES, DROPOUT, EMBEDDING_VARIANCE, EPSILON, POSITIONS, QUERY_VARIANCE, VOCABULARY},
};
use crate::{
    ModelError,
    builder::{GraphBuilder, Value, moment},
};

const LAYERS: u64 = 6;
const HIDDEN: u64 = 768;
const HEADS: u64 = 12;
const INTERMEDIATE: u64 = 3072;

pub(super) fn distilbert_base(sizes: &Sizes<'_>) -> Result<Graph, ModelError> {
    let (batch, seq) = (sizes.get("batch"), sizes.get("seq"));
    let mut net = GraphBuilder::new(sizes.name);
    let mut x = embeddings(&mut net, batch, seq);
    for index in 0..LAYERS {
        x = layer(&mut net, &x, &format!("transformer.layer.{index}"));
    }
    match sizes.mode {
        Mode::Inference => net.output(&x, "last_hidden_state"),
        Mode::Training => {
            let first = Op::Slice {
                axis: 1,
                start: 0,
                end: 1,
            };
            let first = net.node("first_token", first, &[&x]);
            let first = net.node("squeeze", Op::Squeeze { axis: 1 }, &[&first]);
            let y = net.linear(&first, "pre_classifier", HIDDEN, moment::LINEAR, 1.0);
            let y = net.node("relu", Op::Relu, &[&y]);
            let y = net.node("dropout", Op::Dropout { ratio: 0.2 }, &[&y]);
            let logits = net.linear(&y, "classifier", CLASSES, moment::RELU, 1.0);
            net.output(&logits, "logits");
            net.cross_entropy("logits", &[batch], CLASSES);
        }
    }
    net.finish()
}

/// Sum of the embeddings of tokens and positions, normalised.
fn embeddings(net: &mut GraphBuilder, batch: u64, seq: u64) -> Value {
    let tokens = Fill::Integers { bound: VOCABULARY };
    let tokens = net.input("input_ids", ElementType::Int64, &[batch, seq], tokens);
    let positions = net.parameter(
        "embeddings.position_ids",
        &[1, seq],
        Role::Constant,
        Fill::Positions,
    );
    let mut table = |ids: &Value, name: &str, rows: u64| {
        let name = format!("embeddings.{name}");
        net.embedding(ids, &name, rows, HIDDEN, EMBEDDING_VARIANCE)
    };
    let words = table(&tokens, "word_embeddings", VOCABULARY);
    let positions = table(&positions, "position_embeddings", POSITIONS);
    let sum = net.add(&words, &positions, "embeddings.add");
    let sum = net.layer_norm(&sum, "embeddings.LayerNorm", EPSILON);
    net.node("embeddings.dropout", DROPOUT, &[&sum])
}

/// One layer, normalised after each sum.
fn layer(net: &mut GraphBuilder, x: &Value, name: &str) -> Value {
    let own = |part: &str| format!("{name}.attention.{part}");
    let mut project =
        |part: &str, variance| net.linear(x, &own(part), HIDDEN, moment::LINEAR, variance);
    let query = project("q_lin", QUERY_VARIANCE);
    let key = project("k_lin", QUERY_VARIANCE);
    let value = project("v_lin", 1.0);
    let op = Op::Attention {
        heads: HEADS,
        causal: false,
    };
    let mixed = net.node(&own("attention"), op, &[&query, &key, &value]);
    let y = net.linear(&mixed, &own("out_lin"), HIDDEN, moment::LINEAR, 1.0);
    let y = net.add(&y, x, &own("add"));
    let x = net.layer_norm(&y, &format!("{name}.sa_layer_norm"), EPSILON);

    let own = |part: &str| format!("{name}.ffn.{part}");
    let y = net.linear(&x, &own("lin1"), INTERMEDIATE, moment::LINEAR, 1.0);
    let gelu = Op::Gelu {
        approximate: Approximation::None,
    };
    let y = net.node(&own("activation"), gelu, &[&y]);
    let y = net.linear(&y, &own("lin2"), HIDDEN, moment::GELU, 1.0);
    let y = net.node(&own("dropout"), DROPOUT, &[&y]);
    let y = net.add(&y, &x, &own("add"));
    net.layer_norm(&y, &format!("{name}.output_layer_norm"), EPSILON)
}
