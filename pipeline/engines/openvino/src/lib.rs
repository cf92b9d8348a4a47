//! The worker that hosts OpenVINO.
//!
//! The graph is written as ONNX, which OpenVINO's own front end reads, and compiled for the CPU with
//! the hint for latency. Inputs are set once, so that a step is one synchronous `infer`. The
//! library is loaded at run time, from the path that the supervisor names in
//! [`LIBRARY_VARIABLE`].

#![deny(unsafe_code)]

mod configuration;
mod engine;
mod exchange;
mod failure;
mod integers;
mod library;
mod network;
mod session;
mod tensors;

pub use engine::OpenVino;
pub use library::LIBRARY_VARIABLE;
