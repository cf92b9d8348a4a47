//! The crate at its face: heats, runs and bundles.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod bundles;
mod common;
mod heats;
mod leftovers;
mod pack;
mod runs;
mod strangers;
