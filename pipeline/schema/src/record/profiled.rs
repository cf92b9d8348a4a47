//! Where the time of a cell's steps went.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Outcome, protocol::Profile};

/// The launch in which a cell was profiled, after its heat was measured: nothing that was timed in it
/// is a sample.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Profiled {
    /// How it ended: `measured` where there is a profile.
    pub outcome: Outcome,
    /// What the engine told, in nodes of the model's own graph: parts of what was spelt out for the
    /// cell are the node that they stand for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// The end of what the worker wrote to standard error.
    pub log: String,
}
