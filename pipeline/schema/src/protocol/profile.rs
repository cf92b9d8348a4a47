//! Where the time of a step goes, as an engine's own profiler tells it.
//!
//! All numbers are sums over the profiled steps, so that nothing is rounded before it is stored.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most entries of a profile: as many as a graph that is spelt out has operators.
pub const MOST_ENTRIES: usize = 100_000;

/// Longest name of an entry, in characters.
pub const MOST_NAME_CHARS: usize = 400;

/// How much to profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Profiling {
    /// Steps to run under the profiler.
    pub steps: u64,
}

/// Where the time of steps went, whatever the timing boundary of the cell: what requests and replies
/// copy is in none. A profiler slows what it looks at: nothing here is a measurement of
/// speed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Steps that were profiled.
    pub steps: u64,
    /// Their time, from before each until its result was there, in nanoseconds.
    pub wall_ns: u64,
    /// Kernels that the engine launched in them; what counts as one, the engine's documentation says.
    pub kernels: u64,
    /// What the time went to. Each moment is in one entry at most; what is in none passed between
    /// them.
    pub entries: Vec<ProfileEntry>,
}

/// Something that an engine spent time on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProfileEntry {
    /// Its name, as the engine says it.
    pub name: String,
    /// The nodes of the graph that it computed, or a part of them; none: the engine's overhead, or
    /// what is no node's, such as the optimiser of a training.
    pub nodes: BTreeSet<String>,
    /// Time spent on it, in nanoseconds.
    pub time_ns: u64,
    /// How often it was called.
    pub calls: u64,
    /// Whether it only brings numbers into another layout, precision or memory.
    pub conversion: bool,
}

impl Profile {
    /// Time of all entries together, in nanoseconds.
    #[must_use]
    pub fn entries_ns(&self) -> u64 {
        let times = self.entries.iter().map(|entry| entry.time_ns);
        times.fold(0, u64::saturating_add)
    }
}
