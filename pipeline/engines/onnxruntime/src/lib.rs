//! The worker that hosts ONNX Runtime.
//!
//! The graph is written as ONNX, in memory, and a session is made of it. Inputs and outputs are
//! bound once, to tensors that stay where the execution provider computes, so that a step is one
//! call. The library is loaded at run time, from the path that the supervisor names in
//! [`LIBRARY_VARIABLE`].

#![forbid(unsafe_code)]

mod configuration;
mod engine;
mod exchange;
mod failure;
mod integers;
mod kernels;
mod library;
mod model;
mod profile;
mod provider;
mod session;
mod tensors;

pub use engine::OnnxRuntime;
pub use integers::asked_aside;
pub use library::LIBRARY_VARIABLE;
