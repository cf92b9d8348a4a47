//! Plan to run records: takes the heats of a plan in order, measures those that the store lacks,
//! and survives whatever a worker does.
//!
//! A heat is measured so: first calibration of what is quantised and parity, once; then blocks. In
//! each block
//! every cell is launched afresh, in random order, warmed up and stopped; then its rounds are
//! interleaved with those of the others; then it leaves. A block is kept as soon as it is complete,
//! so that an interrupted heat loses at most the block in flight. A worker that fails costs its
//! own cell; the others go on. At fixed numbers of blocks it is asked whether the heat has said enough.

#![forbid(unsafe_code)]

mod block;
mod calibration;
mod canary;
mod clock;
mod context;
mod disturbance;
mod energy;
mod error;
mod estimate;
mod frontier;
mod gallery;
mod gpu;
mod graphs;
mod heat;
mod home;
mod identical;
mod jury;
mod lane;
mod launch;
mod observer;
mod options;
mod order;
mod parity;
mod profile;
mod reference;
#[cfg(test)]
mod sample;
mod slurm;
mod sweep;
mod tally;
mod tensors;
mod top1;
mod workers;

/// Version of the procedure by which a heat is measured: what is warmed up, discarded, interleaved
/// and judged, and how. Part of the key of every heat; to be raised when any of it changes.
pub const PROCEDURE: u32 = 18;

pub use disturbance::look_around;
pub use error::RunError;
pub use identical::{Identical, identical};
pub use observer::{Event, Observer, Phase};
pub use options::Options;
pub use slurm::{Launching, Machine, Part, is_left_on_slurm, on_slurm};
pub use sweep::run;
pub use workers::Workers;
