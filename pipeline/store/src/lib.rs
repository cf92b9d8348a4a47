//! Artifacts: content-addressed, atomic, verified; one writer at a time; portable bundles.
//!
//! Everything lies below one folder (`.photofinish` by default):
//!
//! | path | content |
//! |---|---|
//! | `format` | version of this layout; written first, so that a folder without it is no store |
//! | `lock` | held by the writer; says who it is |
//! | `heats/<key>/key.json` | the group, and the parts that the key is the hash of |
//! | `heats/<key>/<started>-<sha256>.heat.zst` | a sealed heat: [`schema::record::HeatLine`]s as JSON lines, compressed; the hash is that of the file. One that a bundle brought ends in `.opened.heat.zst`, and answers its run alone |
//! | `heats/<key>/open/NNN-<sha256>.json` | a heat being measured: one line a file, each complete and verifiable alone |
//! | `runs/NNNNNN-<sha256>.run.zst` | run records, numbered in the order of writing; `.interrupted.run.zst` where the run did not come to its end |
//! | `tables/<key>`, `site/<key>` | what later stages made, by the key that they choose |
//! | `aside/` | corrupt artifacts, each with the reason for which it was set aside |
//! | `parts/` | what a cluster's tasks measure for this store, each into a store of its own; gone when it is taken over |
//! | `fresh.json` | a `--fresh` run in progress, so that it can be resumed |
//! | `tmp/` | what is being written: `write-*`, `scratch-*`, `bundle-*`; the next writer removes these |
//!
//! A file appears whole or not at all: it is written under `tmp/`, flushed to the disk, renamed,
//! and its folder flushed. Reading needs no lock and changes nothing; what changes the store is a
//! method of [`WriterLock`]. Content hashes are verified on every read.

#![forbid(unsafe_code)]

mod artifact;
mod aside;
mod atomic;
pub mod bundle;
mod codec;
mod error;
mod fresh;
mod gc;
mod heat;
mod journal;
mod known;
mod layout;
mod lock;
mod parts;
mod runs;
mod stamp;

pub use artifact::ArtifactKind;
pub use error::{Corrupt, StoreError};
pub use fresh::Fresh;
pub use gc::GcReport;
pub use journal::Journal;
pub use known::Known;
pub use layout::Store;
pub use lock::{Holder, WriterLock};
pub use runs::KnownRun;
pub use stamp::now;
