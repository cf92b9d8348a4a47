//! The "medium" language model of Zaremba, Sutskever and Vinyals (2014): two layers of 650 LSTM
//! units over words of the Penn Treebank, dropout 0.5 on what goes up, never on what goes on.
//!
//! Names are those of PyTorch's example `word_language_model`; as there, each gate has two biases
//! (the paper has one: 5,200 numbers of 19,780,400). Table and output are not tied. A step starts
//! from states of zeros: the paper carries them on from one stretch of text to the next. Training
//! minimises the cross-entropy at every position against labels that are an input of their own.

use schema::{
    Graph,
    graph::{ElementType, Fill, Op},
};

use super::Sizes;
use crate::{
    ModelError,
    builder::{GraphBuilder, Recurrent, RecurrentCell, moment},
};

const LAYERS: u64 = 2;
const HIDDEN: u64 = 650;
const VOCABULARY: u64 = 10_000;
const DROPOUT: Op = Op::Dropout { ratio: 0.5 };

pub(super) fn lstm_lm(sizes: &Sizes<'_>) -> Result<Graph, ModelError> {
    let (batch, seq) = (sizes.get("batch"), sizes.get("seq"));
    let mut net = GraphBuilder::new(sizes.name);
    let tokens = Fill::Integers { bound: VOCABULARY };
    let tokens = net.input("input_ids", ElementType::Int64, &[batch, seq], tokens);
    let words = net.embedding(&tokens, "encoder", VOCABULARY, HIDDEN, 1.0);
    let mut x = net.node("drop", DROPOUT, &[&words]);
    let mut moment = moment::LINEAR;
    for layer in 0..LAYERS {
        let lstm = Recurrent {
            cell: RecurrentCell::Lstm,
            size: HIDDEN,
            bidirectional: false,
            moment,
        };
        x = net.recurrent(&x, "rnn", layer, lstm);
        x = net.node(&format!("rnn.drop{layer}"), DROPOUT, &[&x]);
        moment = moment::LSTM;
    }
    let logits = net.linear(&x, "decoder", VOCABULARY, moment, 1.0);
    net.output(&logits, "logits");
    net.cross_entropy("logits", &[batch, seq], VOCABULARY);
    net.finish()
}
