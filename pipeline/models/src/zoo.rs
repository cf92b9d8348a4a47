//! The zoo: networks by name.
//!
//! Architectures, parameter names and parameter counts are those of torchvision and of Hugging
//! Face Transformers; each family's file says where ours departs from them.
//!
//! A graph of the image families serves inference and training alike: its loss and labels are
//! there for training, and dropout is the identity in inference; so do those of GPT-2, of the
//! Transformer and of the recurrent networks. The BERT family and DistilBERT get a classification head, and with it a loss, in
//! training only ([`build_for`]): the base model that inference runs has none.

mod bert;
pub mod ceilings;
mod deepspeech2;
mod dims;
mod distilbert;
mod drawing;
mod efficientnet;
mod gpt2;
mod inception;
mod lstm_lm;
mod mobilenet;
mod resnet;
mod transformer;
mod vgg;
mod vit;

use std::collections::BTreeMap;

use schema::{Graph, Mode, graph::Op};

use crate::{
    ModelError,
    infer::{self, ValueType},
    rewrite,
};
pub use dims::resolve_dims;
pub use drawing::{Drawings, Summary};

/// A network's name, its dimensions and where they stand in the graph, and how to build it.
struct Entry {
    name: &'static str,
    /// Of the factors that are about some networks alone, those that are about this one.
    factors: &'static [&'static str],
    dims: &'static [dims::Dim],
    sized: &'static [drawing::Sized],
    build: fn(&Sizes<'_>) -> Result<Graph, ModelError>,
}

/// What a family builds from: sizes are resolved and within their limits.
struct Sizes<'a> {
    name: &'a str,
    dims: &'a BTreeMap<String, u64>,
    mode: Mode,
}

impl Sizes<'_> {
    /// A dimension of the model. Resolving has put it there.
    fn get(&self, dim: &str) -> u64 {
        self.dims.get(dim).copied().unwrap_or(1)
    }
}

/// Every network, in the order in which lists show them.
const ENTRIES: &[Entry] = &[
    Entry {
        name: "resnet18",
        factors: &[LAYOUT],
        dims: dims::IMAGE_224,
        sized: drawing::IMAGES,
        build: resnet::resnet18,
    },
    Entry {
        name: "resnet50",
        factors: &[LAYOUT],
        dims: dims::IMAGE_224,
        sized: drawing::IMAGES,
        build: resnet::resnet50,
    },
    Entry {
        name: "resnet152",
        factors: &[LAYOUT],
        dims: dims::IMAGE_224,
        sized: drawing::IMAGES,
        build: resnet::resnet152,
    },
    Entry {
        name: "vgg16",
        factors: &[LAYOUT, rewrite::DROPOUT],
        dims: dims::IMAGE_VGG,
        sized: drawing::IMAGES,
        build: vgg::vgg16,
    },
    Entry {
        name: "mobilenet_v2",
        factors: &[LAYOUT, rewrite::DROPOUT],
        dims: dims::IMAGE_224,
        sized: drawing::IMAGES,
        build: mobilenet::mobilenet_v2,
    },
    Entry {
        name: "efficientnet_b4",
        factors: &[LAYOUT, rewrite::DROPOUT],
        dims: dims::IMAGE_380,
        sized: drawing::IMAGES,
        build: efficientnet::efficientnet_b4,
    },
    Entry {
        name: "inception_v3",
        factors: &[LAYOUT, rewrite::DROPOUT],
        dims: dims::IMAGE_299,
        sized: drawing::IMAGES,
        build: inception::inception_v3,
    },
    Entry {
        name: "vit_b16",
        factors: &[LAYOUT, rewrite::ATTENTION],
        dims: dims::IMAGE_VIT,
        sized: drawing::VIT,
        build: vit::vit_b16,
    },
    Entry {
        name: "bert_tiny",
        factors: &[rewrite::ATTENTION, rewrite::DROPOUT],
        dims: dims::TEXT,
        sized: drawing::TEXT,
        build: bert::bert_tiny,
    },
    Entry {
        name: "bert_base",
        factors: &[rewrite::ATTENTION, rewrite::DROPOUT],
        dims: dims::TEXT,
        sized: drawing::TEXT,
        build: bert::bert_base,
    },
    Entry {
        name: "distilbert_base",
        factors: &[rewrite::ATTENTION, rewrite::DROPOUT],
        dims: dims::TEXT,
        sized: drawing::PLAIN_TEXT,
        build: distilbert::distilbert_base,
    },
    Entry {
        name: "gpt2",
        factors: &[rewrite::ATTENTION, rewrite::DROPOUT],
        dims: dims::LONG_TEXT,
        sized: drawing::GENERATION,
        build: gpt2::gpt2,
    },
    Entry {
        name: "transformer_base",
        factors: &[rewrite::ATTENTION, rewrite::DROPOUT],
        dims: dims::TRANSLATION,
        sized: drawing::TRANSLATION,
        build: transformer::transformer_base,
    },
    Entry {
        name: "lstm_lm",
        factors: &[rewrite::RECURRENT, rewrite::DROPOUT],
        dims: dims::SENTENCES,
        sized: drawing::SENTENCES,
        build: lstm_lm::lstm_lm,
    },
    Entry {
        name: "deepspeech2",
        factors: &[LAYOUT, rewrite::RECURRENT],
        dims: dims::SPEECH,
        sized: drawing::SPEECH,
        build: deepspeech2::deepspeech2,
    },
];

/// Names of all networks that manifests may name; [`ceilings`] has two more.
#[must_use]
pub fn names() -> Vec<&'static str> {
    ENTRIES.iter().map(|entry| entry.name).collect()
}

/// The factor that decides how values with four axes lie in memory: images, and sounds with a channel.
pub const LAYOUT: &str = "layout";

/// The factor that decides whether a convolution's algorithm is chosen by trying all of them: what has
/// images, or sounds with a channel, has convolutions.
pub const AUTOTUNE: &str = "autotune";

/// Whether a factor is about what only some networks have.
#[must_use]
pub fn is_about_some(factor: &str) -> bool {
    factor == LAYOUT || factor == AUTOTUNE || rewrite::is_about_operators(factor)
}

/// Whether a factor says anything about the network `name`: one that decides about an operator says
/// nothing about a network without it. Of names that are not in the zoo nothing is known, and so
/// any factor may.
#[must_use]
pub fn is_concerned(name: &str, factor: &str) -> bool {
    let known = if factor == AUTOTUNE { LAYOUT } else { factor };
    !is_about_some(factor) || entry(name).map_or(true, |entry| entry.factors.contains(&known))
}

/// The network `name` for inference. Missing dimensions take their defaults.
///
/// # Errors
/// An unknown name or dimension, or a size that the network cannot have.
pub fn build(name: &str, dims: &BTreeMap<String, u64>) -> Result<Graph, ModelError> {
    build_for(name, dims, Mode::Inference)
}

/// The network `name` for a mode. Missing dimensions take their defaults.
///
/// # Errors
/// As [`build`]; and in training, sizes that leave batch normalisation a single value a channel.
pub fn build_for(
    name: &str,
    dims: &BTreeMap<String, u64>,
    mode: Mode,
) -> Result<Graph, ModelError> {
    let dims = resolve_dims(name, dims)?;
    let graph = (entry(name)?.build)(&Sizes {
        name,
        dims: &dims,
        mode,
    })?;
    if mode == Mode::Training {
        check_trainable(&graph)?;
    }
    Ok(graph)
}

fn entry(name: &str) -> Result<&'static Entry, ModelError> {
    ENTRIES
        .iter()
        .chain(ceilings::ENTRIES)
        .find(|entry| entry.name == name)
        .ok_or_else(|| ModelError::UnknownModel {
            name: name.to_owned(),
            suggestion: dims::nearest(name, names()),
            known: names().join(", "),
        })
}

/// Batch statistics need two values a channel; PyTorch refuses to train otherwise.
fn check_trainable(graph: &Graph) -> Result<(), ModelError> {
    let types = infer::shapes(graph)?;
    for node in &graph.nodes {
        let Op::BatchNormalization { .. } = node.op else {
            continue;
        };
        let value = node.inputs.first().and_then(|name| types.get(name));
        if value.is_some_and(has_one_value_a_channel) {
            return Err(ModelError::Node {
                graph: graph.name.clone(),
                node: node.name.clone(),
                op: node.op.name(),
                reason: "sees one value a channel, and training needs two: \
                         take a larger batch or image"
                    .to_owned(),
            });
        }
    }
    Ok(())
}

fn has_one_value_a_channel(value: &ValueType) -> bool {
    matches!(value.shape.as_slice(), [1, _, rest @ ..] if rest.iter().all(|&size| size == 1))
}
