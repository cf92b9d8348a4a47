//! Deep Speech 2 (Amodei et al. 2016) as `deepspeech.pytorch` 2.0 has it by default: two
//! convolutions over frequency and time, five bidirectional GRUs of 800 units whose directions are
//! added, batch normalisation before each but the first, and 29 characters for each frame.
//!
//! The input is a spectrogram `[batch, 1, frequency, frames]` with 161 frequencies (windows of 20 ms
//! at 16 kHz); the first convolution leaves half the frames. All sequences are of full length, so
//! that nothing is masked. Training minimises the cross-entropy of each frame against a label of its
//! own, not the published loss, which aligns a text with the frames (CTC). Where the published code
//! folds batch and time into one axis to normalise, ours turns features and time.
//!
//! Scales before a clipping at 20 start near 8, so that it really happens (to about one value in a
//! hundred and sixty) and an engine that clips wrongly is found out.

use schema::{
    Graph,
    graph::{ElementType, Fill, Op},
};

use super::Sizes;
use crate::{
    ModelError,
    builder::{Conv, GraphBuilder, Recurrent, RecurrentCell, Value, moment},
};

/// Frequencies of a spectrogram: half of a window of 320 samples, and the mean.
pub(super) const FREQUENCIES: u64 = 161;
const CHANNELS: u64 = 32;
const LAYERS: u64 = 5;
const HIDDEN: u64 = 800;
/// Letters, space, apostrophe and blank.
const CHARACTERS: u64 = 29;

/// Scale before a clipping.
const WIDE: f32 = 8.0;

/// Second moment behind it: 8²/2, less what the clipping takes.
const CLIPPED: f64 = 31.2;

pub(super) fn deepspeech2(sizes: &Sizes<'_>) -> Result<Graph, ModelError> {
    let (batch, frames) = (sizes.get("batch"), sizes.get("frames"));
    let mut net = GraphBuilder::new(sizes.name);
    let bound = 3_f32.sqrt();
    let fill = Fill::Uniform {
        low: -bound,
        high: bound,
    };
    let shape = [batch, 1, FREQUENCIES, frames];
    let spectrogram = net.input("input", ElementType::Float, &shape, fill);
    let first = Conv::rectangle(CHANNELS, [41, 11]).stride(2).bias();
    let x = conv_norm_clip(&mut net, &spectrogram, 0, first);
    let second = Conv::rectangle(CHANNELS, [21, 11]).strides([2, 1]).bias();
    let x = conv_norm_clip(&mut net, &x, 3, second.after(CLIPPED));

    let turn = Op::Transpose {
        perm: vec![0, 3, 1, 2],
    };
    let x = net.node("transpose", turn, &[&x]);
    let mut x = net.node("flatten", Op::Flatten { axis: 2 }, &[&x]);
    for layer in 0..LAYERS {
        let name = format!("rnns.{layer}");
        if layer > 0 {
            x = batch_norm(&mut net, &x, &format!("{name}.batch_norm.module"));
        }
        let moment = if layer == 0 { CLIPPED } else { moment::LINEAR };
        x = gru(&mut net, &x, &name, moment);
    }
    let x = batch_norm(&mut net, &x, "fc.0.module.0");
    // Both directions of a GRU, added, and normalised by statistics near 0 and 1.
    let variance = 1.0 / (HIDDEN as f64 * 2.0 * moment::GRU);
    let weight = net.weight("fc.0.module.1.weight", &[CHARACTERS, HIDDEN], variance);
    let logits = net.node("fc.0.module.1", Op::Linear, &[&x, &weight]);
    net.output(&logits, "logits");
    let left = net.size(&x, 1);
    net.cross_entropy("logits", &[batch, left], CHARACTERS);
    net.finish()
}

fn conv_norm_clip(net: &mut GraphBuilder, x: &Value, index: u64, conv: Conv) -> Value {
    let own = |index: u64| format!("conv.seq_module.{index}");
    let y = net.conv(x, &own(index), conv);
    let y = net.batch_norm(&y, &own(index + 1), WIDE);
    let clip = Op::Clip {
        min: 0.0,
        max: 20.0,
    };
    net.node_in_place(&own(index + 2), clip, &[&y])
}

/// Normalises `[batch, time, feature]` feature by feature.
fn batch_norm(net: &mut GraphBuilder, x: &Value, name: &str) -> Value {
    let turn = Op::Transpose {
        perm: vec![0, 2, 1],
    };
    let y = net.node(&format!("{name}.features_first"), turn.clone(), &[x]);
    let y = net.batch_norm(&y, name, 1.0);
    net.node(&format!("{name}.time_first"), turn, &[&y])
}

/// A bidirectional layer whose directions are added.
fn gru(net: &mut GraphBuilder, x: &Value, name: &str, moment: f64) -> Value {
    let layer = Recurrent {
        cell: RecurrentCell::Gru,
        size: HIDDEN,
        bidirectional: true,
        moment,
    };
    let both = net.recurrent(x, &format!("{name}.rnn"), 0, layer);
    let [forward, backward] = [("forward", 0), ("backward", 1)].map(|(part, index)| {
        let part_of = Op::Slice {
            axis: 2,
            start: index * HIDDEN,
            end: (index + 1) * HIDDEN,
        };
        net.node(&format!("{name}.{part}"), part_of, &[&both])
    });
    net.add(&forward, &backward, &format!("{name}.sum"))
}
