//! How to run a plan.

use std::collections::BTreeSet;

use schema::{Digest, record::Tool};
use telemetry::Sensors;

/// How to run a plan.
#[derive(Debug, Clone)]
pub struct Options {
    /// Measure every heat anew, beside those that the store has. An interrupted fresh run is gone
    /// on with by the next one over the same heats.
    pub fresh: bool,
    /// What measures; kept with every heat.
    pub tool: Tool,
    /// What tells powers, clocks and heat while it measures.
    pub sensors: Sensors,
    /// The keys of the heats that are measured; of the plan's others nothing is. `None`: all.
    pub only: Option<BTreeSet<Digest>>,
}
