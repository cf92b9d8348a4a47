//! Which engines exist, what they can do, and how they are installed.
//!
//! An engine is a folder beside this crate with an `engine.toml`, or a table in the user's
//! `engines.toml`. Several folders may name the same engine, each with variants of its own: each is
//! a [`Kit`], with a worker and an installation of its own. [`Catalog`] answers every question about them: what they can do
//! ([`Catalog::descriptions`]), whether they can be used here ([`Catalog::availability`]), where
//! they stand ([`Catalog::state`]), and how their worker is started ([`Catalog::command`]).
//! [`Catalog::install`] brings the runtime into the user's cache, and [`Catalog::build_workers`]
//! builds the workers when photofinish runs from its checkout; workers written in Python come with
//! the program and are put in place. A kit may stand on the installation of another, and add a few
//! packages to it. [`Catalog::adopt`] installs without a download: by links to what a Python of the
//! user's has.
//!
//! To add an engine, add a folder with a worker's package and an `engine.toml`, and write its lock
//! file: `cargo run -p photofinish-catalog --example lock -- <folder>`. The same command updates a
//! lock file after a change of `requirements`.
//!
//! ```text
//! $PHOTOFINISH_ENGINES                         shared by all checkouts
//! ├── pytorch-4f722f1ac838/                    engine and lock hash; whole, or not there
//! │   ├── complete.json  files.json            what it must consist of
//! │   ├── site-packages/                       the unpacked wheels
//! │   └── libtorch/                            links and files of engine.toml
//! ├── pytorch-4f722f1ac838.lock                held by who installs it
//! ├── workers/photofinish_pytorch-2b8c1d90ef34/  files of a Python worker, by their hash
//! ├── cache/pytorch-91d2c7a04e5b/              what workers may keep: compiled modules and kernels
//! ├── downloads/                               whole wheels, until they are unpacked
//! └── staging/                                 attempts under way
//! ```
#![deny(unsafe_code)]

mod adopt;
mod base;
mod builtin;
mod catalog;
mod child;
mod complete;
mod cxx;
mod download;
mod error;
mod excerpt;
mod gpu;
mod guard;
mod install;
mod kit;
mod libraries;
pub mod lock;
mod merge;
mod need;
mod observe;
mod pip;
mod place;
mod python;
mod registered;
mod settings;
mod text;
mod unpack;
mod user_file;
mod vocabulary;
mod workers;

pub use catalog::{Catalog, EngineState};
pub use error::CatalogError;
pub use kit::{Kit, Sources};
pub use observe::{InstallEvent, InstallObserver};
pub use python::{Python, SUPPORTED_PYTHONS};
pub use settings::{Pip, Settings};
