//! What a claim is about.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What of two cells is held against each other, or of each cell against a number.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// The time of a step.
    #[default]
    StepTime,
    /// What the device draws while it computes, what it draws when it is idle included; of jobs with
    /// `measure: { energy: true }`.
    Power,
    /// The energy of a sample, what the device draws when it is idle subtracted; likewise.
    Energy,
    /// The most memory that was taken: of the device where the cell runs on one, else of the worker.
    Memory,
    /// The largest batch that fits into memory; of jobs with `measure: { frontier: … }`.
    LargestBatch,
    /// The share of a step that goes to the engine's kernels; of jobs with `profile: true`. It is held
    /// against a number alone.
    Kernels,
}

impl Quantity {
    /// The word used in files.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::StepTime => "step_time",
            Self::Power => "power",
            Self::Energy => "energy",
            Self::Memory => "memory",
            Self::LargestBatch => "largest_batch",
            Self::Kernels => "kernels",
        }
    }

    /// What it is called in a sentence.
    #[must_use]
    pub const fn noun(self) -> &'static str {
        match self {
            Self::StepTime => "time",
            Self::Power => "power",
            Self::Energy => "energy per sample",
            Self::Memory => "peak memory",
            Self::LargestBatch => "largest batch",
            Self::Kernels => "kernels' share of a step",
        }
    }

    /// Whether it is measured block by block, of cells of one heat; what is not has no interval of
    /// blocks.
    #[must_use]
    pub const fn is_of_blocks(self) -> bool {
        matches!(self, Self::StepTime | Self::Power | Self::Energy)
    }

    /// Whether a cell's may be held against a number.
    #[must_use]
    pub const fn has_number(self) -> bool {
        matches!(self, Self::LargestBatch | Self::Kernels)
    }

    /// Whether it is that of claims which say nothing else.
    #[must_use]
    pub fn is_step_time(&self) -> bool {
        *self == Self::StepTime
    }
}
