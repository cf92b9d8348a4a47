//! Models as PyTorch's own exporters write them, with open sizes by both and with fixed ones. The long
//! form (`PHOTOFINISH_TEST_FULL`) has more networks, and each with either sizes from either exporter.

#![allow(clippy::unwrap_used, reason = "a test may")]

mod support;

use std::path::Path;

use schema::{Graph, graph::Op};
use support::{
    is_full, python,
    users::{count, error, read},
};

/// A file that was written.
#[derive(serde::Deserialize)]
struct Export {
    name: String,
    /// The dimensions that are open, in alphabetical order.
    dims: Vec<String>,
}

/// Operators that only move numbers.
fn moves(graph: &Graph) -> usize {
    count(graph, |op| {
        matches!(op, Op::Reshape { .. } | Op::Transpose { .. })
    })
}

#[test]
fn what_pytorch_exports_is_read_as_it_computes() {
    let folder = tempfile::TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let extent = if is_full() { "all" } else { "few" };
    let arguments = [folder.path(), Path::new(extent)];
    let printed = python::run_with_pytorch("pytorch_exports.py", &arguments);
    let exports: Vec<Export> = serde_json::from_str(&printed).unwrap();
    assert!(exports.len() >= 10, "{printed}");
    for way in ["torchscript-dynamic", "dynamo-dynamic", "dynamo-static"] {
        assert!(exports.iter().any(|it| it.name.ends_with(way)), "{way}");
    }
    for Export { name, dims: open } in exports {
        // Exported with batch 2 and 6 positions.
        let other = |dim: &String| if dim == "batch" { 3 } else { 5 };
        let sizes: Vec<(&str, u64)> = open.iter().map(|dim| (dim.as_str(), other(dim))).collect();
        assert_eq!(
            open.contains(&"batch".to_owned()),
            name.contains("dynamic"),
            "{name}"
        );
        let graph =
            read(folder.path(), &name, &sizes).unwrap_or_else(|error| panic!("{name}: {error}"));
        let error = error(folder.path(), &name, &graph);
        assert!(error < 2e-6, "{name}: {error:e}");
        let layers = match name.split('-').next() {
            Some("lstm" | "lstm_states" | "gru_states") => 2,
            Some("lstm_one" | "gru") => 1,
            _ => continue,
        };
        let recurrent = |op: &Op| matches!(op, Op::Lstm { .. } | Op::Gru { .. });
        assert_eq!(count(&graph, recurrent), layers, "{name}");
        // What turned time and batch around each layer has come to nothing.
        if !name.contains("states") {
            assert_eq!(moves(&graph), 0, "{name}");
        }
    }
}
