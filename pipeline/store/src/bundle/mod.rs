//! Bundles: portable archives of artifacts, from which a site is rebuilt byte for byte.
//!
//! A bundle is a tar archive in zstd. First `manifest.json`, then in the order of their names
//! `extra/<name>`, `heats/<key>/<sha256>.heat.zst` and `run.zst`. It holds plain files only, each
//! named in the manifest with its size and hash; nothing in it depends on the time, the user or the
//! machine of packing. It carries data, never anything executable.

mod first;
mod manifest;
mod open;
mod pack;

pub use first::looks_like;
pub use manifest::{BundledFile, Manifest, VERSION};
pub use open::{Check, Opened};
pub use pack::pack;

/// Begins the names of folders into which bundles are unpacked.
pub(crate) const PREFIX: &str = "bundle-";
