//! The worker protocol: the loop that all Rust engines share, and the supervisor's side of it.
//!
//! * An engine written in Rust implements [`Engine`] and [`Session`], and its `main` is
//!   [`serve()`].
//! * The supervisor starts any worker, in any language, as a [`host::Host`].
//! * [`conformance::check`] drives any worker through the protocol, misbehaviour included.
//!
//! The messages are `schema::protocol`'s.

mod allocator;
pub mod census;
mod clock;
mod command;
pub mod conformance;
mod demands;
mod engine;
pub mod failure;
mod frame;
pub mod host;
mod library;
mod procfs;
mod products;
mod profile;
mod ranks;
mod serve;
mod spin;

pub use allocator::{ALLOCATOR, Allocator};
pub use clock::nanoseconds;
pub use command::{CACHE_VARIABLE, COMPILER_VARIABLE, CXX_VARIABLE, WorkerCommand};
pub use demands::{
    ALONE, BY_HOST, EVENTS, REQUEST, check_drive, choice, optimizer, takes_requests, threads,
};
pub use engine::{Engine, Identity, LoadReport, ParityData, Session, Tensor, Values};
pub use library::SharedLibrary;
pub use products::Products;
pub use profile::{Operator, Part, ProfileEntries, attribute, enclosing};
pub use ranks::{RANK_VARIABLES, Store, World};
pub use serve::serve;
pub use spin::{PASSIVE, SPIN, WAIT_POLICY};
