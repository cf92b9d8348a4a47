//! What the machine is, and what it does.
//!
//! [`fingerprint`] is what decides a speed and does not change by itself; it is part of the key of
//! every heat. [`environment`] is the state a heat found; [`load`] how busy the machine is at a
//! moment. All of it is read from files of the kernel and from NVML; what a machine does not tell
//! is absent, never zero.
#![forbid(unsafe_code)]

mod environment;
mod fingerprint;
mod gpu;
mod library_path;
mod limits;
mod load;
mod probe;
mod thermal;

pub use library_path::library_path;
pub use probe::Probe;
pub use thermal::Thermal;

use std::collections::BTreeMap;

use schema::{Environment, Fingerprint, machine::Load};

/// What this machine is.
#[must_use]
pub fn fingerprint() -> Fingerprint {
    Probe::system().fingerprint()
}

/// What the user set that changes how fast this machine is.
#[must_use]
pub fn conditions() -> BTreeMap<String, String> {
    Probe::system().conditions()
}

/// The state that this machine is in.
#[must_use]
pub fn environment() -> Environment {
    Probe::system().environment()
}

/// The processors whose time the counters of [`load`] sum up: all that run; 0 where the kernel does not
/// tell.
#[must_use]
pub fn processors() -> u32 {
    Probe::system().processors()
}

/// What the kernel tells of heat.
#[must_use]
pub fn thermal() -> Thermal {
    Probe::system().thermal()
}

/// How busy this machine is now.
#[must_use]
pub fn load() -> Load {
    Probe::system().load()
}
