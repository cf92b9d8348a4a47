//! The worker that hosts PyTorch through libtorch.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    worker::serve(photofinish_worker_torch::Torch::default())
}
