//! Models as exporters write them: what is read from them, run in numpy, is what ONNX Runtime makes
//! of the files themselves.

use std::{collections::BTreeMap, path::Path};

use photofinish_models::onnx::File;
use schema::graph::{Approximation, Fill, Op};

use crate::support::{
    is_full, python,
    users::{count, dims, error, read},
};

/// The models of this opset, by name, in a folder of their own.
fn exported(opset: u32) -> (tempfile::TempDir, Vec<String>) {
    let folder = tempfile::TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let opset = opset.to_string();
    let printed = python::run("exported.py", &[folder.path(), Path::new(&opset)]);
    (folder, serde_json::from_str(&printed).unwrap())
}

#[test]
fn what_is_read_computes_what_the_file_computes() {
    // Between these, operators change.
    let opsets = if is_full() {
        (13..=22).collect()
    } else {
        vec![13, 17, 18, 21]
    };
    for opset in opsets {
        let (folder, names) = exported(opset);
        assert_eq!(names.len(), 10);
        for name in names {
            for batch in [2, 3] {
                let sizes: &[(&str, u64)] = match name.as_str() {
                    "images" | "pictures" if batch == 2 => &[],
                    "images" | "pictures" => continue,
                    "vision" | "sound" | "arithmetic" | "modular" => &[("batch", batch)],
                    _ => &[("batch", batch), ("seq", 6)],
                };
                let what = format!("{name} at opset {opset}, batch {batch}");
                let graph = read(folder.path(), &name, sizes)
                    .unwrap_or_else(|error| panic!("{what}: {error}"));
                let (gelus, norms) = (
                    count(&graph, |op| matches!(op, Op::Gelu { .. })),
                    count(&graph, |op| matches!(op, Op::LayerNormalization { .. })),
                );
                match name.as_str() {
                    "vision" | "decoder" => assert_eq!((gelus, norms), (2, 5), "{what}"),
                    "encoder" => assert_eq!((gelus, norms), (0, 2), "{what}"),
                    "sound" => {
                        let found =
                            [Op::Silu, Op::HardSwish].map(|kind| count(&graph, |op| *op == kind));
                        assert_eq!(found, [1, 2], "{what}");
                    }
                    // By the input itself, below the rows of the smallest table.
                    "views" => {
                        assert_eq!(count(&graph, |op| *op == Op::Gather), 3, "{what}");
                        assert_eq!(graph.inputs[0].fill, Fill::Integers { bound: 40 }, "{what}");
                    }
                    // Frequencies, angles and the mask are constants.
                    "llama" => {
                        let found =
                            [Op::Silu, Op::Sqrt].map(|kind| count(&graph, |op| *op == kind));
                        assert_eq!(found, [2, 6], "{what}");
                    }
                    _ => {}
                }
                let error = error(folder.path(), &name, &graph);
                // Of more operators one after the other than a network has of that size.
                let bound = if name == "pictures" { 1e-5 } else { 1e-6 };
                assert!(error < bound, "{what}: {error:e}");
            }
        }
    }
}

#[test]
fn nothing_of_the_chatter_is_left() {
    let (folder, _) = exported(17);
    let graph = read(folder.path(), "decoder", &[("seq", 6)]).unwrap();
    let tanh = Op::Gelu {
        approximate: Approximation::Tanh,
    };
    assert_eq!(count(&graph, |op| *op == tanh), 2);
    // 25 operators a layer; the table of words, positions, a normalisation and the last product.
    assert_eq!(graph.nodes.len(), 2 * 25 + 4);
    // Biases are part of their products.
    let products = count(&graph, |op| *op == Op::Gemm);
    let biased = graph
        .nodes
        .iter()
        .filter(|node| node.inputs.len() == 3 && node.op == Op::Gemm);
    assert_eq!((products, biased.count()), (9, 8));
}

#[test]
fn integers_stay_below_what_they_are_rows_of() {
    let (folder, _) = exported(17);
    let graph = read(folder.path(), "encoder", &[("batch", 2), ("seq", 5)]).unwrap();
    let fills: Vec<_> = graph
        .inputs
        .iter()
        .map(|input| (input.name.as_str(), input.fill))
        .collect();
    assert_eq!(
        fills,
        [
            ("input_ids", Fill::Integers { bound: 50 }),
            // A mask: everything is seen.
            ("attention_mask", Fill::Constant { value: 1.0 }),
            ("token_type_ids", Fill::Integers { bound: 2 }),
        ]
    );
}

#[test]
fn open_sizes_are_asked_for_by_their_names() {
    let (folder, _) = exported(17);
    let file = File::open(folder.path(), "decoder.onnx").unwrap();
    assert_eq!(file.dimensions().collect::<Vec<_>>(), ["batch", "seq"]);
    let error = file.read(&BTreeMap::new()).unwrap_err().to_string();
    assert!(
        error.contains("dimension `seq`: its size is open"),
        "{error}"
    );
    // More positions than the table has.
    let error = file.read(&dims(&[("seq", 65)])).unwrap_err().to_string();
    assert!(
        error.contains("`Gather`") && error.contains("beyond an axis of 64"),
        "{error}"
    );
    let file = File::open(folder.path(), "images.onnx").unwrap();
    assert_eq!(file.dimensions().collect::<Vec<_>>(), ["batch"]);
}
