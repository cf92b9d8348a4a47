//! engines/synthetic
fn main() {}
