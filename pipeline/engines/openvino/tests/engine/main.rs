//! The engine as its worker drives it, with the library.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod agreement;
#[path = "../../../../models/tests/support/by_hand.rs"]
#[expect(dead_code, reason = "these tests use a part of it")]
mod by_hand;
#[path = "../../../onnxruntime/tests/support/grids.rs"]
mod grids;
#[path = "../../../onnxruntime/tests/support/library.rs"]
mod library;
mod onnx_files;
#[path = "../support/library.rs"]
mod openvino_library;
#[path = "../../../onnxruntime/tests/support/outputs.rs"]
mod outputs;
#[path = "../../../onnxruntime/tests/support/subject.rs"]
#[expect(dead_code, reason = "these tests use a part of it")]
mod subject;
#[path = "../../../../models/tests/support/wire.rs"]
#[expect(dead_code, reason = "these tests use a part of it")]
mod wire;
mod worker;
#[path = "../../../onnxruntime/tests/support/zoo.rs"]
mod zoo;
