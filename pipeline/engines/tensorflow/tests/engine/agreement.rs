//! Two engines that share no code but the graph agree on every network of the zoo.

use models::rewrite::{RECURRENT, Rewriting, UNROLLED};
use schema::{Graph, Optimizer, Outcome, OutcomeKind, Precision};
use worker::ParityData;

use crate::{
    common::{self, Array, onnx_outputs, outputs, relative_l2},
    library::library,
    zoo::{agreements, small},
};

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
    resnet18 resnet50 mobilenet_v2 efficientnet_b4 inception_v3 vit_b16 bert_tiny transformer_base lstm_lm deepspeech2;
    in the long form: resnet152 vgg16 bert_base distilbert_base gpt2
}

/// What a variant tells when it mixes precision, if it does on this processor.
fn mixed(
    graph: &Graph,
    variant: &str,
    optimizer: Option<Optimizer>,
) -> Result<ParityData, Outcome> {
    let mut cell = common::cell(graph, Precision::Bf16, optimizer);
    cell.engine.variant = variant.to_owned();
    let on = ("mixed_precision".to_owned(), "on".to_owned());
    cell.factors.extend([on]);
    let (mut session, report) = common::load(graph, cell)?;
    session.step()?;
    assert!(report.settings["arithmetic"].starts_with("bf16 in the operators"));
    let compiles = report.settings["XLA"].starts_with("clusters");
    assert_eq!(compiles, variant == "xla-auto");
    session.parity(3)
}

/// Where the processor has bf16, numbers show that it was used; elsewhere the cell is refused, and
/// not computed in fp32 under another name.
fn assert_mixed(told: Result<ParityData, Outcome>, expected: &[Array], what: &str) {
    match told {
        Ok(told) => {
            let roundoff = Precision::Bf16.unit_roundoff();
            let all = |arrays: &[Array]| {
                let numbers = arrays.iter().flat_map(|array| array.data.iter().copied());
                let data: Vec<f64> = numbers.collect();
                Array {
                    shape: vec![data.len() as u64],
                    data,
                }
            };
            let error = relative_l2(&all(&common::arrays(&told.tensors)), &all(expected));
            assert!(error > roundoff / 10.0 && error < 0.1, "{what}: {error:e}");
        }
        Err(outcome) => {
            assert_eq!(outcome.kind, OutcomeKind::Unsupported, "{outcome:?}");
            assert!(outcome.reason.contains("compute in fp32"), "{outcome:?}");
        }
    }
}

#[test]
fn mixed_precision_computes_in_bf16_or_is_refused() {
    for network in ["resnet18", "bert_tiny"] {
        let graph = small(network);
        let expected = onnx_outputs(&graph, library());
        for variant in ["graph", "xla-auto", "xla"] {
            let told = mixed(&graph, variant, None);
            assert!(variant != "xla" || told.is_err());
            assert_mixed(told, &expected, &format!("{network} {variant}"));
        }
    }
}

#[test]
fn mixed_precision_trains_in_bf16_or_is_refused() {
    let graph = models::sample::perceptron(4).unwrap();
    let sgd = Optimizer::Sgd {
        learning_rate: 0.1,
        momentum: 0.9,
        weight_decay: 0.0,
    };
    let cell = common::cell(&graph, Precision::Fp32, Some(sgd));
    let (mut session, _) = common::load(&graph, cell).unwrap();
    let expected = common::arrays(&session.parity(3).unwrap().tensors);
    for variant in ["graph", "xla-auto"] {
        let told = mixed(&graph, variant, Some(sgd));
        assert_mixed(told, &expected, variant);
    }
}
