//! What a run measures of its devices besides what it was asked.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{PlannedHeat, PlannedJob};

/// How fast the devices of a run are at all: cells like others, of two networks that no manifest can
/// name, for every device, number of threads and precision that the run's own cells have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ceilings {
    /// How they are measured; it compares nothing.
    pub job: PlannedJob,
    /// One a cell, and none has a twin.
    pub heats: Vec<PlannedHeat>,
}

impl Ceilings {
    /// The id of their job, which no manifest can give to one of its own.
    pub const JOB: &str = "(ceilings)";

    /// The variant that measures them: the one that outputs are held against, which is there anyway.
    pub const ENGINE: [&str; 2] = ["pytorch", "eager"];
}
