//! engines/onnxruntime
fn main() {}
