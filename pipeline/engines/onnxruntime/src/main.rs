//! The worker that hosts ONNX Runtime.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use photofinish_worker_onnxruntime::{OnnxRuntime, asked_aside};

fn main() -> ExitCode {
    asked_aside().unwrap_or_else(|| worker::serve(OnnxRuntime::of_program()))
}
