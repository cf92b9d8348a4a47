//! The worker that hosts TensorFlow through its C interface.
//!
//! A graph is lowered (`lower`) to TensorFlow's operators as a TensorFlow user would write it:
//! images and activations with channels last, filters and dense weights in TensorFlow's own order,
//! normalisation, GELU and attention composed as Keras composes them. A step is one run of a
//! session: inputs were made once and are fed without a copy, outputs are fetched without one.
//!
//! The library is loaded at run time, from the folder that the supervisor names in
//! [`LIBRARY_VARIABLE`].

#![forbid(unsafe_code)]

mod builder;
mod configuration;
mod engine;
mod exchange;
mod export;
mod failure;
mod form;
mod inference;
mod library;
mod lower;
mod network;
mod optimizer;
mod profile;
mod proto;
mod tensors;
mod trace;
mod training;

pub use engine::TensorFlow;
pub use export::{GraphFile, inference_graph};
pub use library::LIBRARY_VARIABLE;
