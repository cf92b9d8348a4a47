//! Bytes that no exporter wrote: read, or refused with a reason, in bounded memory. Beyond the limit an allocation
//! fails, and ends the test.

#![expect(clippy::unwrap_used, reason = "a test may")]

mod support;

use std::{collections::BTreeMap, sync::Once};

use photofinish_models::{
    builder::GraphBuilder,
    onnx::{File, ReadError},
};
use proptest::prelude::*;
use schema::{
    Graph,
    graph::{ElementType, Fill, Op},
};
use support::{
    hostile, limits,
    networks::{small, written},
};

/// Reads bytes as far as they go. Of what no graph can say there is an outline, or a clear error.
fn read(bytes: &[u8]) -> Result<Graph, ReadError> {
    static BOUND: Once = Once::new();
    BOUND.call_once(|| limits::bound_memory(3 << 30));
    let file = File::from_bytes("fuzz", bytes)?;
    let sizes = file.dimensions().map(|name| (name.to_owned(), 2)).collect();
    let sizes = file
        .resolve_dims(&sizes)
        .or_else(|_| file.resolve_dims(&BTreeMap::new()))?;
    let read = file.read(&sizes).map(|reading| reading.graph);
    if let Err(unsupported @ ReadError::Unsupported { .. }) = &read {
        match file.outline(&sizes) {
            Ok(outline) => {
                assert!(outline.graph.is_outline() && outline.nodes > 0);
                assert!(!outline.graph.inputs.is_empty() && !outline.graph.outputs.is_empty());
            }
            // What it is fed cannot be said either, and what stands behind the operator is absurd, or
            // contradicts itself.
            Err(error) => assert!(
                matches!(error, ReadError::Malformed(_) | ReadError::Excessive { .. })
                    || error == *unsupported
                    || contradicts_itself(&error),
                "{error}"
            ),
        }
    }
    read
}

/// Whether an error is about operands that do not fit each other, in the words of the reader.
fn contradicts_itself(error: &ReadError) -> bool {
    let reasons = [
        "begins from a state of",
        "computes with floats and integers at once",
        "differ in their elements",
        "do not broadcast",
        "do not join",
        "holds a negative size",
        "multiplies [",
    ];
    let is_told = |reason: &str| reasons.iter().any(|known| reason.contains(known));
    matches!(error, ReadError::Unsupported { reason, .. } if is_told(reason))
}

#[test]
fn every_truncation_is_refused() {
    let bytes = written(&small("bert_tiny", 2), 17);
    // The head, where all structure is, byte by byte; the weights in strides.
    for end in (0..4096).chain((4096..bytes.len()).step_by(65_537)) {
        let end = end.min(bytes.len() - 1);
        assert!(read(&bytes[..end]).is_err(), "{end}");
    }
    assert!(read(&bytes).is_ok());
}

/// A small transformer, whole: tables, normalisation, attention, GELU.
fn tiny_text() -> Vec<u8> {
    use schema::graph::Approximation;
    let mut b = GraphBuilder::new("text");
    let ids = b.input(
        "ids",
        ElementType::Int64,
        &[1, 3],
        Fill::Integers { bound: 5 },
    );
    let x = b.embedding(&ids, "table", 5, 4, 1.0);
    let x = b.layer_norm(&x, "norm", 1e-5);
    let (heads, causal) = (2, true);
    let x = b.node("attention", Op::Attention { heads, causal }, &[&x, &x, &x]);
    let x = b.linear(&x, "up", 6, 1.0, 1.0);
    let approximate = Approximation::None;
    let x = b.node("gelu", Op::Gelu { approximate }, &[&x]);
    let x = b.gemm(&x, "down", 4, 1.0, 1.0);
    b.output(&x, "y");
    written(&b.finish().unwrap(), 17)
}

proptest! {
    #[test]
    fn random_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..2048)) {
        prop_assert!(read(&bytes).is_err());
    }

    #[test]
    fn mutated_models_are_read_or_refused(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        tiny in any::<bool>(),
    ) {
        let mut bytes = if tiny { tiny_model() } else { tiny_text() };
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        let _ = read(&bytes);
    }

    #[test]
    fn models_with_absurd_numbers_are_read_or_refused(
        nodes in prop::collection::vec(hostile::node(), 1..8),
        size in prop::sample::select(vec![0_i64, 1, 2, 3, 7, -1, i64::MAX, i64::MIN, 1 << 33]),
        input in prop::sample::select(vec![
            vec![1_i64, 3, 8, 8],
            vec![2, 2],
            vec![4],
            vec![1 << 31, 4],
            vec![1 << 20, 1 << 20],
            vec![1, 1 << 31, 1, 1],
        ]),
    ) {
        let _ = read(&hostile::model(&nodes, size, &input));
    }
}

/// A small convolution network, whole.
fn tiny_model() -> Vec<u8> {
    use photofinish_models::builder::Conv;
    let mut b = GraphBuilder::new("tiny");
    let x = b.images(1, 8);
    let x = b.conv(&x, "conv", Conv::new(4, 3).bias());
    let x = b.batch_norm(&x, "norm", 1.0);
    let x = b.node("relu", Op::Relu, &[&x]);
    let x = b.node("pool", Op::GlobalAveragePool, &[&x]);
    let x = b.node("flat", Op::Flatten { axis: 1 }, &[&x]);
    let x = b.linear(&x, "fc", 3, 0.5, 1.0);
    b.output(&x, "y");
    written(&b.finish().unwrap(), 17)
}

#[test]
fn rows_of_nothing_end() {
    let of_shape = hostile::Node {
        op: hostile::operator("ConstantOfShape"),
        reads: vec![3],
        attributes: vec![],
    };
    let repeat = |name| hostile::Node {
        op: hostile::operator(name),
        reads: vec![8, if name == "Concat" { 8 } else { 6 }],
        attributes: vec![(0, vec![1])],
    };
    // `v8` has the shape `[0, 0]`, and is repeated, or joined with itself, without end.
    for name in ["Tile", "Concat", "Expand", "Split"] {
        let nodes = [of_shape.clone(), repeat(name)];
        assert!(read(&hostile::model(&nodes, 0, &[4])).is_err(), "{name}");
    }
}

#[test]
fn the_form_is_right() {
    assert!(read(&tiny_model()).is_ok() && read(&tiny_text()).is_ok());
    // Otherwise the property above would say nothing.
    let softmax = hostile::Node {
        op: hostile::operator("Softmax"),
        reads: vec![0],
        attributes: vec![(0, vec![1])],
    };
    let flat = hostile::Node {
        op: hostile::operator("Flatten"),
        reads: vec![8],
        attributes: vec![],
    };
    let graph = read(&hostile::model(&[softmax, flat], 1, &[1, 3, 8, 8])).unwrap();
    assert_eq!(graph.nodes.len(), 2);
}
