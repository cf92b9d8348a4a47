//! The worker that hosts OpenVINO.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    worker::serve(photofinish_worker_openvino::OpenVino::default())
}
