//! Where the time goes: a cell's profile, and two of them layer by layer.
//!
//! Times are of one step, in nanoseconds, the mean over those that were profiled. They come from a
//! launch of its own whose profiler slows what it looks at: they are no speeds, and do not add up to
//! one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Place;
use crate::Outcome;

/// What became of profiling a cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CellProfile {
    /// `measured`, or why there is no profile.
    pub outcome: Outcome,
    /// What it told.
    pub told: Option<ToldProfile>,
    /// End of the log of that launch.
    pub log: String,
}

/// Where the time of a cell's steps went.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToldProfile {
    /// Steps that were profiled.
    pub steps: u64,
    /// Time of a step under the profiler: `nodes_ns`, `conversions_ns`, `overhead_ns` and `between_ns`
    /// together.
    pub wall_ns: f64,
    /// That, divided by the centre of the cell's step time: what the profiler costs. `None` without a
    /// speed.
    pub slowdown: Option<f64>,
    /// Kernels launched in a step, as the engine counts them.
    pub kernels: f64,
    /// Calls in a step that only bring numbers into another layout, precision or memory.
    pub conversions: f64,
    /// Time of all of those, whether or not they are a node's.
    pub converting_ns: f64,
    /// Time of what computes nodes of the graph, their conversions included.
    pub nodes_ns: f64,
    /// Time of conversions that are no node's.
    pub conversions_ns: f64,
    /// Time of whatever else is no node's.
    pub overhead_ns: f64,
    /// Time of a step that no entry tells of: the engine between its kernels.
    pub between_ns: f64,
    /// The entries, the longest first.
    pub entries: Vec<ProfileRow>,
}

/// An entry of a profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProfileRow {
    /// Its name, as the engine says it.
    pub name: String,
    /// The nodes of the model's graph that it computes, or a part of them; none: no node's.
    pub nodes: Vec<String>,
    /// Its time in a step.
    pub time_ns: f64,
    /// That, as a share of the step's.
    pub share: f64,
    /// Calls in a step.
    pub calls: f64,
    /// Whether it only converts.
    pub conversion: bool,
}

/// Two cells of a comparison, layer by layer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Lineup {
    /// The pair.
    pub place: Place,
    /// A step under the profiler.
    pub step: Compared,
    /// The contender's step under its profiler ÷ the baseline's under its own: no ratio of speeds, which the row of the
    /// pair has.
    pub ratio: f64,
    /// Steps under the profiler, divided by measured ones, of the baseline and of the contender: what profilers cost.
    /// `None` without a speed.
    pub slowdowns: [Option<f64>; 2],
    /// Which layers make what was measured between the two.
    pub naming: Naming,
    /// The layers, those first whose times differ most.
    pub layers: Vec<Layer>,
    /// What is no layer's: conversions, overhead, and the time between entries.
    pub conversions: Compared,
    /// Likewise.
    pub overhead: Compared,
    /// Likewise.
    pub between: Compared,
    /// Kernels of a step: the baseline's and the contender's.
    pub kernels: [f64; 2],
    /// Conversions of a step, likewise.
    pub converting: [f64; 2],
}

/// Whether a line-up tells what makes the difference between two cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Naming {
    /// So many layers, from the first on, make at least half of what all layers and the rest differ by; 0 where all of
    /// them make less.
    Layers(u32),
    /// The verdict of the pair is neither faster nor slower: there is no difference to be made.
    NoDifference,
    /// A profiler costs more than half of what was measured between the two, or the profiled ratio lies on the other side
    /// of 1.
    Profilers,
}

/// The smallest set of nodes that both engines compute by kernels of its own: where one has fused
/// what the other has not, all that is fused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Layer {
    /// The nodes, by name.
    pub nodes: Vec<String>,
    /// Their time.
    pub time: Compared,
}

/// The same of two cells.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Compared {
    /// The baseline's time.
    pub baseline_ns: f64,
    /// The contender's.
    pub contender_ns: f64,
    /// The contender's less the baseline's.
    pub difference_ns: f64,
    /// The size of the difference, as a share of all such sizes, whatever their sign.
    pub share: f64,
}
