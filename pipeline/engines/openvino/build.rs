//! Tells the worker what it is built from.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    fingerprint::emit("photofinish-worker-openvino")
}
