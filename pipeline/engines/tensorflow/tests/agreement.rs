//! Two engines that share no code but the graph agree on every network of the zoo.

#![allow(clippy::unwrap_used, reason = "a test may")]

mod common;
#[path = "../../onnxruntime/tests/support/library.rs"]
mod library;
#[path = "../../onnxruntime/tests/support/zoo.rs"]
mod zoo;

use common::{onnx_outputs, outputs, relative_l2};
use library::library;
use models::rewrite::{RECURRENT, Rewriting, UNROLLED};
use schema::{OutcomeKind, Precision};
use zoo::{agreements, small};

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

agreements! { agree:
    resnet18 resnet50 resnet152 vgg16 mobilenet_v2 efficientnet_b4 inception_v3 vit_b16
    bert_tiny bert_base distilbert_base gpt2 transformer_base lstm_lm deepspeech2
}

/// Where the processor has bf16, the outputs show that it was used; elsewhere the cell is refused, and
/// not computed in fp32 under another name.
#[test]
fn mixed_precision_computes_in_bf16_or_is_refused() {
    let graph = small("resnet18");
    let expected = onnx_outputs(&graph, library());
    let mut cell = common::cell(&graph, Precision::Bf16, None);
    let on = ("mixed_precision".to_owned(), "on".to_owned());
    cell.factors.extend([on]);
    match common::load(&graph, cell) {
        Ok((mut session, report)) => {
            session.step().unwrap();
            let actual = common::arrays(&session.parity(1).unwrap().tensors);
            let error = relative_l2(&actual[0], &expected[0]);
            let roundoff = Precision::Bf16.unit_roundoff();
            assert!(error > roundoff / 10.0 && error < 0.1, "{error:e}");
            assert!(report.settings["element type"].contains("bfloat16"));
        }
        Err(outcome) => {
            assert_eq!(outcome.kind, OutcomeKind::Unsupported, "{outcome:?}");
            assert!(outcome.reason.contains("compute in fp32"), "{outcome:?}");
        }
    }
}
