//! What engines that read ONNX are given: a copy of the user's file and of the weights beside it, which
//! no later change of the user's reaches.

#![allow(clippy::unwrap_used, reason = "a test may")]

mod support;

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write as _},
    path::Path,
};

use photofinish_models::{
    onnx::{self, File, WriteOptions},
    zoo,
};
use schema::Precision;
use support::{
    by_hand::{ByHand, FLOAT},
    limits,
    wire::{field, number_field},
};

/// `nets/mine.onnx` with its weights in `nets/mine.bin`.
fn put(folder: &Path) -> File {
    let dims = zoo::resolve_dims("bert_tiny", &BTreeMap::from([("seq".to_owned(), 4)]));
    let graph = zoo::build("bert_tiny", &dims.unwrap()).unwrap();
    let options = WriteOptions {
        opset: 17,
        precision: Precision::Fp32,
        external: Some("mine.bin".to_owned()),
        threshold: 0,
    };
    let written = onnx::write(&graph, &options).unwrap();
    let nets = folder.join("nets");
    fs::create_dir(&nets).unwrap();
    fs::write(nets.join("mine.onnx"), written.model).unwrap();
    fs::write(nets.join("mine.bin"), written.data.unwrap()).unwrap();
    File::open(folder, "nets/mine.onnx").unwrap()
}

#[test]
fn a_copy_is_the_model_that_was_read() {
    let (own, ours) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = put(own.path());
    // The model was read whole: what becomes of it afterwards does not matter.
    fs::write(own.path().join("nets/mine.onnx"), "another").unwrap();
    let copy = file.copy_to(ours.path()).unwrap();
    assert_eq!(copy, ours.path().join("mine.onnx"));
    let copied = File::open(ours.path(), "mine.onnx").unwrap();
    assert_eq!(copied.digest(), file.digest());
}

#[test]
fn weights_that_changed_meanwhile_are_not_copied() {
    let (own, ours) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = put(own.path());
    let weights = own.path().join("nets/mine.bin");
    let mut bytes = fs::read(&weights).unwrap();
    bytes[0] ^= 1;
    fs::write(&weights, bytes).unwrap();
    let error = file.copy_to(ours.path()).unwrap_err();
    assert!(
        error.to_string().contains("`mine.bin` has changed"),
        "{error}"
    );
}

/// A tensor of floats that is all of a file beside the model.
fn beside(name: &str, dims: &[u64], location: &str) -> Vec<u8> {
    let mut tensor = Vec::new();
    for &size in dims {
        number_field(1, size, &mut tensor);
    }
    number_field(2, FLOAT, &mut tensor);
    field(8, name.as_bytes(), &mut tensor);
    let mut entry = Vec::new();
    field(1, b"location", &mut entry);
    field(2, location.as_bytes(), &mut entry);
    field(13, &entry, &mut tensor);
    number_field(14, 1, &mut tensor);
    tensor
}

/// `model.onnx`: the sum of a list of 2^18 and of so many others, each of which is all of the file beside
/// it, by the names that are given in turn.
fn sums(folder: &Path, tensors: usize, names: &[&str]) -> Result<File, onnx::ReadError> {
    let weights = fs::File::create(folder.join("w.bin")).unwrap();
    weights.set_len(1 << 20).unwrap();
    let mut file = ByHand::default().fed("x", FLOAT, &[1 << 18]);
    let mut last = "x".to_owned();
    for at in 0..tensors {
        let name = format!("w{at}");
        let tensor = beside(&name, &[1 << 18], names[at % names.len()]);
        let sum = format!("sum{at}");
        file = file.tensor(&tensor).node("Add", &[&last, &name], &sum);
        last = sum;
    }
    fs::write(folder.join("model.onnx"), file.made(&last)).unwrap();
    File::open(folder, "model.onnx")
}

#[test]
fn a_file_that_is_spelt_twice_is_copied_once() {
    let (own, ours) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = sums(own.path(), 2, &["w.bin", "./w.bin"]).unwrap();
    file.copy_to(ours.path()).unwrap();
    let copied = File::open(ours.path(), "model.onnx").unwrap();
    assert_eq!(copied.digest(), file.digest());
}

#[test]
fn tensors_that_lie_upon_one_another_are_refused() {
    let own = tempfile::tempdir().unwrap();
    assert!(sums(own.path(), 8, &["w.bin"]).is_ok());
    // Each of them would be written for the workers.
    let error = sums(own.path(), 9, &["w.bin"]).unwrap_err().to_string();
    assert!(error.contains("lie upon one another"), "{error}");
}

/// Counts what is written, and keeps the end of it.
#[derive(Default)]
struct End {
    bytes: u64,
    last: Vec<u8>,
}

impl io::Write for End {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes += bytes.len() as u64;
        self.last.extend(bytes);
        let kept = self.last.len().saturating_sub(4);
        self.last.drain(..kept);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Two gibibytes are what a message of ONNX's may have; weights beside it may have more, and are never in memory
/// as a whole.
#[test]
fn weights_above_two_gibibytes_are_read() {
    const WIDTH: u64 = 1 << 14;
    const HEIGHT: u64 = (1 << 15) + 1;
    if !support::is_full() {
        return;
    }
    let own = tempfile::tempdir().unwrap();
    let mut weights = fs::File::create(own.path().join("w.bin")).unwrap();
    for row in 0..HEIGHT {
        // Another number in each row.
        let row = (row as f32).to_le_bytes().repeat(1 << 14);
        weights.write_all(&row).unwrap();
    }
    drop(weights);
    let model = ByHand::default()
        .fed("x", FLOAT, &[1, 1 << 15 | 1])
        .tensor(&beside("w", &[HEIGHT, WIDTH], "w.bin"))
        .node("MatMul", &["x", "w"], "y");
    fs::write(own.path().join("model.onnx"), model.made("y")).unwrap();
    limits::bound_memory(1 << 29);
    let file = File::open(own.path(), "model.onnx").unwrap();
    let reading = file.read(&BTreeMap::new()).unwrap();
    assert_eq!(reading.graph.parameters.len(), 1);
    let mut end = End::default();
    reading.write_weights(&mut end).unwrap();
    assert_eq!(end.bytes, HEIGHT * WIDTH * 4);
    assert_eq!(end.last, ((HEIGHT - 1) as f32).to_le_bytes());
}
