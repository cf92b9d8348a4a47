//! The worker that hosts ONNX Runtime.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    worker::serve(photofinish_worker_onnxruntime::OnnxRuntime::default())
}
