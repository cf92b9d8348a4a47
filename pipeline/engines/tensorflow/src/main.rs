//! The worker that hosts TensorFlow.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    worker::serve(photofinish_worker_tensorflow::TensorFlow)
}
