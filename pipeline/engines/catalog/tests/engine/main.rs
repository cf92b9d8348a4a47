//! Engines as the catalogue has them: found, installed, adopted and registered.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod adopt;
mod base;
mod common;
mod install;
mod kill;
mod kits;
mod lock;
mod needs;
mod network;
mod pip_settings;
mod registered;
mod user_files;
mod workers;
