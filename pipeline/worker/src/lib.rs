//! The worker protocol: the loop that all Rust engines share, and the supervisor's side of it.
//!
//! * An engine written in Rust implements [`Engine`] and [`Session`], and its `main` is
//!   [`serve()`].
//! * The supervisor starts any worker, in any language, as a [`host::Host`].
//! * [`conformance::check`] drives any worker through the protocol, misbehaviour included.
//!
//! The messages are `schema::protocol`'s.

mod command;
pub mod conformance;
mod demands;
mod engine;
mod frame;
pub mod host;
mod procfs;
mod serve;

pub use command::{CACHE_VARIABLE, COMPILER_VARIABLE, CXX_VARIABLE, WorkerCommand};
pub use demands::{check_drive, threads};
pub use engine::{Engine, Identity, LoadReport, ParityData, Session, Tensor, Values};
pub use serve::serve;
