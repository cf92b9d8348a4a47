//! Two engines that share no code but the graph agree: PyTorch in fp64, ONNX Runtime in fp32.

#![allow(clippy::unwrap_used, reason = "a test may")]

mod common;
#[path = "../../onnxruntime/tests/support/library.rs"]
mod library;
#[path = "../../onnxruntime/tests/support/zoo.rs"]
mod zoo;

use std::collections::BTreeMap;

use common::{Array, arrays, cell, load};
use library::library;
use models::rewrite::{ATTENTION, FUSED, PLAIN, RECURRENT, Rewriting, UNROLLED};
use photofinish_worker_onnxruntime::OnnxRuntime;
use schema::{EngineVariant, Graph, Outcome, OutcomeKind, Precision, protocol::Load};
use worker::{Engine as _, Session};
use zoo::{agreements, small};

fn onnx_session(graph: &Graph, precision: Precision) -> Result<Box<dyn Session>, Outcome> {
    onnx_session_with(graph, precision, BTreeMap::new())
}

fn onnx_session_with(
    graph: &Graph,
    precision: Precision,
    factors: BTreeMap<String, String>,
) -> Result<Box<dyn Session>, Outcome> {
    let mut cell = cell(graph, precision, None);
    cell.factors = factors;
    cell.engine = EngineVariant {
        engine: "onnxruntime".to_owned(),
        variant: "cpu".to_owned(),
    };
    let scratch = tempfile::tempdir().unwrap();
    let load = Load {
        cell,
        graph: graph.clone(),
        files: None,
        scratch: scratch.path().to_owned(),
    };
    OnnxRuntime::at(library())
        .load(&load)
        .map(|(session, _)| session)
}

fn onnx_outputs(graph: &Graph, precision: Precision) -> Vec<Array> {
    let mut session = onnx_session(graph, precision).unwrap();
    // The second answer comes from the same bound memory as the first.
    session.parity(1).unwrap();
    arrays(&session.parity(1).unwrap().tensors)
}

fn torch_outputs(graph: &Graph, precision: Precision, layout: &str) -> Vec<Array> {
    let mut cell = cell(graph, precision, None);
    cell.factors = BTreeMap::from([("layout".to_owned(), layout.to_owned())]);
    let (mut session, _) = load(graph, cell).unwrap();
    // Whatever ran in place must not have touched an input or a weight.
    session.step().unwrap();
    arrays(&session.parity(1).unwrap().tensors)
}

/// `‖a − b‖₂ / ‖b‖₂`.
fn relative_l2(a: &Array, b: &Array) -> f64 {
    assert_eq!(a.shape, b.shape);
    let squares = |values: &mut dyn Iterator<Item = f64>| values.map(|x| x * x).sum::<f64>();
    let difference = squares(&mut a.data.iter().zip(&b.data).map(|(a, b)| a - b));
    let size = squares(&mut b.data.iter().copied());
    assert!(size > 0.0, "an output of zeros proves nothing");
    (difference / size).sqrt()
}

fn agree(name: &str) {
    let graph = small(name);
    let reference = torch_outputs(&graph, Precision::Fp64, "nchw");
    let held_against = |what: &str, outputs: Vec<Array>, bound: f64| {
        assert_eq!(outputs.len(), reference.len(), "{name} {what}");
        for (output, reference) in outputs.iter().zip(&reference) {
            let error = relative_l2(output, reference);
            assert!(error < bound, "{name} {what}: relative L2 error {error:e}");
        }
    };
    held_against(
        "onnxruntime fp32",
        onnx_outputs(&graph, Precision::Fp32),
        1e-4,
    );
    held_against(
        "pytorch fp32",
        torch_outputs(&graph, Precision::Fp32, "nchw"),
        1e-4,
    );
    let channels_last = torch_outputs(&graph, Precision::Fp64, "channels_last");
    held_against("pytorch fp64 channels last", channels_last, 1e-10);
}

agreements! { agree:
    resnet18 resnet50 mobilenet_v2 efficientnet_b4 inception_v3 vit_b16 bert_tiny transformer_base lstm_lm deepspeech2;
    in the long form: resnet152 vgg16 bert_base distilbert_base gpt2
}

/// The graph with everything spelt out that can be.
fn spelt_out(graph: &Graph) -> Graph {
    let factors = [(RECURRENT, UNROLLED), (ATTENTION, PLAIN)];
    let factors = factors.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Rewriting::asked_by(&BTreeMap::from(factors))
        .apply(graph.clone())
        .unwrap()
}

#[test]
fn networks_compute_the_same_in_their_long_form() {
    for name in ["lstm_lm", "deepspeech2", "bert_tiny", "vit_b16", "gpt2"] {
        let graph = small(name);
        let long = spelt_out(&graph);
        assert!(long.nodes.len() > graph.nodes.len(), "{name}");
        let reference = torch_outputs(&graph, Precision::Fp64, "nchw");
        let exact = torch_outputs(&long, Precision::Fp64, "nchw");
        let error = relative_l2(&exact[0], &reference[0]);
        assert!(error < 1e-12, "{name}: relative L2 error {error:e}");
        let onnx = onnx_outputs(&long, Precision::Fp32);
        let error = relative_l2(&onnx[0], &reference[0]);
        assert!(
            error < 1e-5,
            "{name} in onnxruntime: relative L2 error {error:e}"
        );
    }
}

/// ONNX Runtime's own operator for attention, in both precisions that its CPU provider takes.
#[test]
fn onnx_runtime_s_fused_attention_agrees() {
    for (name, precision, bound) in [
        ("bert_tiny", Precision::Fp32, 1e-5),
        ("gpt2", Precision::Fp32, 1e-5),
        ("transformer_base", Precision::Fp32, 1e-5),
        ("bert_tiny", Precision::Fp16, 2e-2),
    ] {
        let graph = small(name);
        let reference = torch_outputs(&graph, Precision::Fp64, "nchw");
        let factors = BTreeMap::from([(ATTENTION.to_owned(), FUSED.to_owned())]);
        let mut session = onnx_session_with(&graph, precision, factors).unwrap();
        let outputs = arrays(&session.parity(1).unwrap().tensors);
        for (output, reference) in outputs.iter().zip(&reference) {
            let error = relative_l2(output, reference);
            assert!(
                error < bound,
                "{name} {precision}: relative L2 error {error:e}"
            );
        }
    }
}

#[test]
fn narrow_precisions_agree_as_far_as_they_reach() {
    let graph = small("resnet18");
    let reference = torch_outputs(&graph, Precision::Fp64, "nchw");
    for (what, outputs, bound) in [
        (
            "pytorch bf16",
            torch_outputs(&graph, Precision::Bf16, "nchw"),
            0.1,
        ),
        (
            "pytorch fp16",
            torch_outputs(&graph, Precision::Fp16, "nchw"),
            0.02,
        ),
        (
            "onnxruntime fp16",
            onnx_outputs(&graph, Precision::Fp16),
            0.02,
        ),
    ] {
        let error = relative_l2(&outputs[0], &reference[0]);
        assert!(error < bound, "{what}: relative L2 error {error:e}");
        assert!(error > 1e-6, "{what}: suspiciously exact, {error:e}");
    }
    // ONNX Runtime has no wider kernels than fp32 for most operators, and says so.
    let outcome = onnx_session(&graph, Precision::Fp64).err().unwrap();
    assert_eq!(outcome.kind, OutcomeKind::Unsupported, "{outcome:?}");
    assert!(outcome.reason.contains("double precision"), "{outcome:?}");
}
