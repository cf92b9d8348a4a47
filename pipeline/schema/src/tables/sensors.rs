//! What sensors told of a cell.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Interval;
use crate::telemetry::EnergySensor;

/// Energy of a cell, where it was asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum CellEnergy {
    /// It was measured.
    Measured(EnergyFigures),
    /// Why not.
    Unavailable(String),
}

/// Energy of a cell, from a stretch of steps in each block.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EnergyFigures {
    /// What measured it.
    pub sensor: EnergySensor,
    /// Energy of a sample in joules, idle power subtracted, as its centre over blocks; `None` where a
    /// block took no more than idling does.
    pub joules: Option<Interval>,
    /// Mean power of the stretches in watts, idle power included, as its centre over blocks.
    pub watts: Interval,
    /// Idle power in watts before a block, the median.
    pub idle_watts: f64,
    /// Blocks that were measured, and whose energy was not: why not of the first of them.
    pub left_out: Option<String>,
}
