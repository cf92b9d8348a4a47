//! What engines that read ONNX are given: a copy of the user's file and of the weights beside it, which
//! no later change of the user's reaches.

#![allow(clippy::unwrap_used, reason = "a test may")]

use std::{collections::BTreeMap, fs, path::Path};

use photofinish_models::{
    onnx::{self, File, WriteOptions},
    zoo,
};
use schema::Precision;

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
