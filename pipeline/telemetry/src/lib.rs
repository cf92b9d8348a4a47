//! What the machine is, and what it does.
//!
//! [`fingerprint`] is what decides a speed and does not change by itself; it is part of the key of
//! every heat. [`environment`] is the state a heat found; [`load`] how busy the machine is at a
//! moment. A [`Sampler`] looks at the [`Sensors`] while rounds run, and an [`EnergyMeter`] measures
//! what a stretch of steps takes. All of it is read from files of the kernel and from NVML; what a
//! machine does not tell is absent, never zero, and says why.
#![forbid(unsafe_code)]

mod environment;
mod fingerprint;
mod gpu;
mod gpu_eyes;
mod gpu_state;
mod library_path;
mod limits;
mod load;
mod look;
mod meter;
mod probe;
mod rapl;
mod sampler;
mod sensors;
mod thermal;

pub use gpu::NVML_VARIABLE;
pub use gpu_state::{ClockSetting, GpuState};
pub use library_path::library_path;
pub use load::Times;
pub use look::{GpuLook, GpuProcess, GpuSeries, GpuSettings, Look, Series, foreign, limited};
pub use meter::{Begun, EnergyMeter, Taken};
pub use probe::Probe;
pub use sampler::{Owner, Sampler, Whose};
pub use sensors::Sensors;
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

/// What decides the clock of this machine's processors and may be set while they work, by name.
#[must_use]
pub fn clock_settings() -> BTreeMap<&'static str, String> {
    Probe::system().clock_settings()
}

/// Memory of this machine in bytes, whatever a control group leaves of it; `None` where the kernel does not tell.
#[must_use]
pub fn total_memory_bytes() -> Option<u64> {
    Probe::system().total_memory_bytes()
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

/// What this machine's processors have done until now: less of a look than [`load`] is. `None` where the kernel does
/// not tell.
#[must_use]
pub fn times() -> Option<Times> {
    Probe::system().times()
}
