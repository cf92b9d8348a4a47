//! The worker protocol and the loop that all Rust engines share.

mod command;

pub use command::WorkerCommand;
