//! Models: the zoo, deterministic weights, shape inference, cost, and ONNX.
//!
//! A model is a [`schema::Graph`]: operators, shapes and a recipe for every number. This crate
//! builds graphs ([`zoo`]), checks them ([`infer`]), says what they cost ([`cost`]), makes their
//! numbers ([`fill`], [`Numbers`]), spells operators out in others ([`rewrite`]), puts them on grids
//! of integers ([`quantise`]), and writes and reads ONNX ([`onnx`]). [`sample`] is for checks.

#![forbid(unsafe_code)]

pub mod builder;
mod checkpoint;
pub mod cost;
mod error;
pub mod fill;
pub mod infer;
mod numbers;
pub mod onnx;
pub mod quantise;
mod resolve;
pub mod rewrite;
pub mod sample;
pub mod zoo;

pub use checkpoint::Checkpoint;
pub use error::ModelError;
pub use numbers::Numbers;
pub use resolve::resolve;
