//! Two engines that share no code but the graph agree on every network of the zoo.

use models::rewrite::{RECURRENT, Rewriting, UNROLLED};
use photofinish_worker_openvino::OpenVino;
use schema::{Graph, OutcomeKind, Precision, protocol::Load};
use worker::Engine as _;

use crate::{
    library::library,
    openvino_library::openvino,
    outputs::{self, Array, cell, onnx_outputs, outputs, relative_l2},
    zoo::{agreements, small},
};

fn openvino_outputs(graph: &Graph, factors: &[(&str, &str)]) -> Vec<Array> {
    let mut cell = cell(graph, "openvino", "cpu");
    cell.factors = factors
        .iter()
        .map(|&(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    outputs(&mut OpenVino::at(openvino()), graph, cell)
}

fn close(actual: &[Array], expected: &[Array], what: &str) {
    assert_eq!(actual.len(), expected.len(), "{what}");
    for (actual, expected) in actual.iter().zip(expected) {
        let error = relative_l2(actual, expected);
        assert!(error < 1e-4, "{what}: relative L2 error {error:e}");
    }
}

fn agree(name: &str) {
    let graph = small(name);
    close(
        &openvino_outputs(&graph, &[]),
        &onnx_outputs(&graph, library()),
        name,
    );
}

agreements! { agree:
    resnet18 resnet50 resnet152 vgg16 mobilenet_v2 efficientnet_b4 inception_v3 vit_b16
    bert_tiny bert_base distilbert_base gpt2 transformer_base lstm_lm deepspeech2
}

#[test]
fn recurrent_layers_agree_when_they_are_spelt_out() {
    for name in ["lstm_lm", "deepspeech2"] {
        let graph = small(name);
        let expected = onnx_outputs(&graph, library());
        let factors = [(RECURRENT.to_owned(), UNROLLED.to_owned())];
        let long = Rewriting::asked_by(&factors.into()).apply(graph).unwrap();
        let actual = openvino_outputs(&long, &[(RECURRENT, UNROLLED)]);
        close(&actual, &expected, name);
    }
}

/// A CPU without bf16 is not measured in fp32 under its name, nor imitating it; where it has bf16, the
/// outputs show it.
#[test]
fn a_narrow_precision_is_computed_in_or_refused() {
    let graph = small("resnet18");
    let expected = onnx_outputs(&graph, library());
    let narrow = [Precision::Bf16, Precision::Fp16];
    for precision in narrow {
        let mut cell = cell(&graph, "openvino", "cpu");
        cell.precision = precision;
        let load = Load {
            cell,
            graph: graph.clone(),
            files: None,
            scratch: std::env::temp_dir(),
        };
        match OpenVino::at(openvino()).load(&load) {
            Ok((mut session, report)) => {
                let word = match precision {
                    Precision::Bf16 => "bf16",
                    _ => "f16",
                };
                assert_eq!(report.settings["inference precision"], word);
                let actual = outputs::arrays(&session.parity(1).unwrap().tensors);
                let error = relative_l2(&actual[0], &expected[0]);
                let roundoff = precision.unit_roundoff();
                assert!(
                    error > roundoff / 10.0 && error < 0.1,
                    "{precision}: {error:e}"
                );
            }
            Err(outcome) => {
                assert_eq!(outcome.kind, OutcomeKind::Unsupported, "{outcome:?}");
                assert!(outcome.reason.contains("this CPU"), "{outcome:?}");
            }
        }
    }
}
