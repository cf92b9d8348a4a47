//! What devices can do at most, and what cells make of that: the roofline model (Williams, Waterman and
//! Patterson, CACM 52 (2009)), both of its roofs measured.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Interval;
use crate::{Device, Outcome, Precision};

/// How fast a device is at one thing, with some number of threads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CeilingRow {
    /// At what.
    pub kind: CeilingKind,
    /// Where.
    pub device: Device,
    /// Threads that the engine was given.
    pub threads: u32,
    /// Arithmetic of the product, and the numbers that were read.
    pub precision: Precision,
    /// How large the work was: rows of the matrices, MiB that were read in fp32.
    pub dims: BTreeMap<String, u64>,
    /// How its cell ended.
    pub outcome: Outcome,
    /// Operations of a step (a multiply-add counts as two), or bytes that it reads and writes, by its
    /// time: per second. `None` without a speed.
    pub rate: Option<Interval>,
    /// The group whose heat measured it.
    pub group: String,
    /// Index into `Tables::environments`; `None` when it never started.
    pub environment: Option<u32>,
    /// When its heat began, RFC 3339: the store may have had it before the run.
    pub started: Option<String>,
    /// When its heat ended, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<String>,
    /// From the beginning of a block to that of the next, in seconds: the median. Blocks that follow each other at
    /// once tell of one mood of the machine. `None` with fewer than two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apart_s: Option<f64>,
}

/// What a ceiling is of.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum CeilingKind {
    /// Multiplying matrices: floating-point operations per second.
    Product,
    /// Reading memory: bytes per second.
    Reading,
}

impl CeilingKind {
    /// The word used in files.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Product => "product",
            Self::Reading => "reading",
        }
    }
}

/// What a cell makes of its device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Roof {
    /// Bytes that a step must move at least, in the cell's precision, by its time; `None` where a part of
    /// the numbers are integers and a part are not.
    pub bytes_per_second: Option<f64>,
    /// Floating-point operations for each of those bytes; `None` likewise.
    pub intensity: Option<f64>,
    /// How much that is of what the device can do.
    pub share: ShareOfCeiling,
}

/// How much of what its device can do a cell makes use of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ShareOfCeiling {
    /// So much.
    Known(Share),
    /// Why it is not known.
    Unknown(String),
}

/// A share of a ceiling.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// The time that a step would take at the ceiling ÷ the time that it takes. May be above 1: least
    /// traffic is counted as if nothing stayed in a cache.
    pub share: Interval,
    /// The ceiling that it is of: the lower one at this cell's intensity. What binds the cell,
    /// [`Share::bound_by`] says.
    pub bound: Bound,
    /// Floating-point operations per second that the ceiling allows at this intensity.
    pub allowed_flops_per_second: f64,
}

/// One of both ceilings: what keeps a step from being faster, where it is the lower one.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Arithmetic.
    Compute,
    /// Moving numbers between memory and processor.
    Memory,
}

impl Share {
    /// Whether the whole interval lies above 1: whatever keeps a step from being faster, it is not this ceiling.
    #[must_use]
    pub fn is_above(&self) -> bool {
        self.share.low.is_some_and(|low| low > 1.0)
    }

    /// What keeps a step from being faster; `None` where it is faster than the ceiling lets it be.
    #[must_use]
    pub fn bound_by(&self) -> Option<Bound> {
        (!self.is_above()).then_some(self.bound)
    }
}

impl Bound {
    /// The word used in files and pages.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Memory => "memory",
        }
    }
}
