//! The worker that hosts PyTorch through libtorch: eagerly, node by node, as a Python user's module
//! would, or as AOTInductor compiled the network (`aot`).
//!
//! A graph is lowered once (`lower`) to a `program` over numbered values, so that a step looks
//! nothing up and decides nothing. In place is what PyTorch users do in place (`overwrite`). A
//! step of inference runs in inference mode; it is synchronous on a CPU, and ends with a
//! synchronisation of the device on a GPU. Nothing is read back. What its timing boundary adds is in `edges`.
//! How training spreads the parts of a batch is in `strategy`, what ranks share in `ranks`.

mod aot;
mod arithmetic;
mod configuration;
mod device;
mod edges;
mod engine;
mod events;
mod exchange;
mod failure;
mod geometry;
mod inference;
mod kernel;
mod kineto;
mod kinks;
mod lower;
mod optimizer;
mod overwrite;
mod package;
mod parity;
mod profile;
mod program;
mod ranks;
mod recorder;
mod recurrent;
mod shim;
mod strategy;
mod tape;
mod training;
mod values;

pub use engine::Torch;
