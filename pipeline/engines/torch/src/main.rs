//! engines/torch
fn main() {}
