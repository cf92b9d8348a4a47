//! The crate at its face: networks, files of ONNX, weights and costs in, and what judges of others' make of them.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod alone;
mod branches;
mod by_hand;
mod ceilings;
mod checkpoint;
mod corners;
mod cost;
mod exported;
mod exporters_ways;
mod infer;
mod onnx;
mod quantise;
mod read;
mod rewrite;
#[path = "../support/mod.rs"]
mod support;
mod tensorrt;
mod zoo;
