//! Files that declare other sizes of an output than it has, as exporters and hands leave them: they run.

use std::{collections::BTreeMap, fs};

use models::onnx::File;
use photofinish_worker_onnxruntime::OnnxRuntime;
use schema::{
    Cell,
    protocol::{Load, ModelFiles},
};
use worker::Engine as _;

use crate::{
    by_hand::{ByHand, FLOAT},
    library::library,
    wire::{BATCH, described_as},
};

#[test]
fn what_is_declared_of_outputs_does_not_bind() {
    let columns: Vec<f32> = (0..32_u8).map(|at| f32::from(at) - 16.0).collect();
    // As if the batch had been opened by hand, and the output forgotten; and with more axes than there are.
    for declared in [vec![1, 4], vec![BATCH, 5], vec![1, 1, 4]] {
        let bytes = ByHand::default()
            .fed("x", FLOAT, &[BATCH, 8])
            .floats("w", &[8, 4], &columns)
            .node("MatMul", &["x", "w"], "y")
            .node("Relu", &["y"], "z")
            .described(&described_as("y", FLOAT, &declared))
            .made("z");
        let folder = tempfile::tempdir().unwrap();
        let model = folder.path().join("model.onnx");
        fs::write(&model, bytes).unwrap();
        let own = File::open(folder.path(), "model.onnx").unwrap();
        let reading = own
            .read(&BTreeMap::from([("batch".to_owned(), 3)]))
            .unwrap();
        let numbers = folder.path().join("numbers");
        reading
            .write_weights(&mut fs::File::create(&numbers).unwrap())
            .unwrap();
        let load = Load {
            cell: Cell::plain(&reading.graph, "onnxruntime/cpu".parse().unwrap()),
            graph: reading.graph,
            files: Some(ModelFiles {
                weights: numbers,
                onnx: Some(model),
                precision: own.precision(),
            }),
            scratch: folder.path().to_owned(),
        };
        let (mut session, _) = OnnxRuntime::at(library()).load(&load).unwrap();
        session.step().unwrap();
        let made = session.parity(1).unwrap().tensors;
        let shapes: Vec<&[u64]> = made.iter().map(|tensor| &*tensor.shape).collect();
        assert_eq!(shapes, [[3, 4], [3, 4]], "{declared:?}");
    }
}
