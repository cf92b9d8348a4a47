//! The engine as its worker drives it, with the library.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod agreement;
#[path = "../common/mod.rs"]
mod common;
#[path = "../../../onnxruntime/tests/support/library.rs"]
mod library;
mod operators;
#[path = "../../../onnxruntime/tests/support/subject.rs"]
mod subject;
mod training;
mod worker;
#[path = "../../../onnxruntime/tests/support/zoo.rs"]
mod zoo;
