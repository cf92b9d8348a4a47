//! Compiles in what the worker is built from.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    fingerprint::emit("photofinish-worker-synthetic")
}
