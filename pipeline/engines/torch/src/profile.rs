//! Where the time of a step goes, operator by operator; on a GPU, kernel by kernel.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use schema::{
    Outcome,
    protocol::{Profile, ProfileEntry},
};
use worker::{ProfileEntries, nanoseconds};

use crate::{device::Place, recorder::Recorder};

/// What of a step is no node's, in the order of the places behind those of the nodes.
const PHASES: [&str; 2] = ["loss", "optimizer"];

/// The place of the loss behind so many nodes.
pub(crate) const fn loss(nodes: usize) -> usize {
    nodes
}

/// The place of the optimiser behind so many nodes.
pub(crate) const fn optimizer(nodes: usize) -> usize {
    nodes + 1
}

/// Runs so many steps, each of which says where it is, and tells where their time went. `nodes` are
/// those of the places; [`loss`] and [`optimizer`] come behind them.
pub(crate) fn profile(
    device: Place,
    nodes: &[&str],
    steps: u64,
    mut step: impl FnMut(&Recorder) -> Result<(), Outcome>,
) -> Result<Profile, Outcome> {
    let recorder = Recorder::new(device)?;
    if recorder.warms_up() {
        step(&recorder)?;
    }
    recorder.start()?;
    let mut wall = Duration::ZERO;
    for _ in 0..steps {
        let start = Instant::now();
        step(&recorder)?;
        wall += start.elapsed();
    }
    let (rows, launched) = recorder.end()?;
    let mut entries = ProfileEntries::default();
    for row in rows {
        let node = row.place.and_then(|place| nodes.get(place));
        let phase = row.place.and_then(|place| place.checked_sub(nodes.len()));
        let name = match phase.and_then(|phase| PHASES.get(phase)) {
            Some(phase) => format!("{phase}: {}", row.name),
            None => row.name,
        };
        let nodes: BTreeSet<String> = node.map(|node| (*node).to_owned()).into_iter().collect();
        entries.add(ProfileEntry {
            name,
            nodes,
            time_ns: row.time_ns,
            calls: row.calls,
            conversion: row.converts,
        });
    }
    entries.finish(steps, nanoseconds(wall), launched)
}
