//! Two engines that share no code but the graph agree on every network of the zoo.

#![allow(clippy::unwrap_used, reason = "a test may")]

mod common;
#[path = "../../onnxruntime/tests/support/library.rs"]
mod library;

use common::{onnx_outputs, outputs, relative_l2};
use library::library;
use models::rewrite::{RECURRENT, Rewriting, UNROLLED};
use schema::{Graph, Precision};

fn small(name: &str) -> Graph {
    let dims: &[(&str, u64)] = match name {
        "bert_tiny" | "bert_base" | "distilbert_base" | "gpt2" => &[("batch", 2), ("seq", 16)],
        "transformer_base" => &[("batch", 2), ("seq", 16), ("target", 11)],
        "lstm_lm" => &[("batch", 2), ("seq", 5)],
        "deepspeech2" => &[("batch", 2), ("frames", 13)],
        "vgg16" => &[("batch", 1), ("image", 224)],
        "vit_b16" => &[("batch", 2), ("image", 48)],
        "inception_v3" => &[("batch", 2), ("image", 75)],
        _ => &[("batch", 2), ("image", 64)],
    };
    let dims = dims.iter().map(|&(name, size)| (name.to_owned(), size));
    models::zoo::build(name, &dims.collect()).unwrap()
}

fn agree(name: &str) {
    let graph = small(name);
    let expected = onnx_outputs(&graph, library());
    // TensorFlow is sent recurrent layers spelt out.
    let factors = [(RECURRENT.to_owned(), UNROLLED.to_owned())];
    let graph = Rewriting::asked_by(&factors.into()).apply(graph).unwrap();
    for weights in ["frozen", "variables"] {
        let actual = outputs(&graph, Precision::Fp32, "graph", weights);
        assert_eq!(actual.len(), expected.len(), "{name}");
        for (actual, expected) in actual.iter().zip(&expected) {
            let error = relative_l2(actual, expected);
            assert!(
                error < 1e-4,
                "{name} {weights}: relative L2 error {error:e}"
            );
        }
    }
}

macro_rules! agreements {
    ($($name:ident)+) => {
        $(
            #[test]
            fn $name() {
                agree(stringify!($name));
            }
        )+

        #[test]
        fn the_whole_zoo_is_tested() {
            let tested = [$(stringify!($name)),+];
            for name in models::zoo::names() {
                assert!(tested.contains(&AsRef::<str>::as_ref(&name)), "{name} is not");
            }
        }
    };
}

agreements! {
    resnet18 resnet50 resnet152 vgg16 mobilenet_v2 efficientnet_b4 inception_v3 vit_b16
    bert_tiny bert_base distilbert_base gpt2 transformer_base lstm_lm deepspeech2
}
