//! The table of a job's cells.

use std::collections::BTreeMap;

use schema::tables::CellRow;
use serde::Serialize;

use super::sensors::{self, EnergyView};
use crate::{
    interval::{self, Estimate},
    steady, units,
    words::{self, Badge},
};

/// A cell as a row.
#[derive(Debug, Serialize)]
pub(crate) struct Line {
    pub(crate) id: String,
    /// Its coordinates, in the order of the columns.
    pub(crate) coordinates: Vec<String>,
    pub(crate) step: Option<Estimate>,
    pub(crate) step_value: Option<f64>,
    pub(crate) rate: String,
    pub(crate) rate_value: Option<f64>,
    pub(crate) p95: String,
    pub(crate) p95_value: Option<u64>,
    pub(crate) parity: String,
    pub(crate) parity_value: Option<f64>,
    /// What it is computed in, where that is not its precision throughout.
    pub(crate) computed: Option<String>,
    /// Precisions of integers: how many rows choose as the reference's.
    pub(crate) top1: Option<String>,
    pub(crate) memory: String,
    /// Of a cell on a GPU: the most that its process took of the host's.
    pub(crate) host_memory: Option<String>,
    pub(crate) memory_value: Option<u64>,
    /// Where it was asked for.
    pub(crate) energy: Option<EnergyView>,
    pub(crate) badge: Badge,
    /// Present when a launch was measured before it was steady.
    pub(crate) unsteady: Option<Badge>,
    pub(crate) reason: String,
}

/// The row of a cell.
pub(crate) fn line(row: &CellRow, axes: &[String]) -> Line {
    let speed = row.speed.as_ref();
    let p95 = speed.and_then(|speed| percentile(&speed.percentiles_ns, 95));
    let top1 = row.parity.as_ref().and_then(|parity| parity.top1);
    let parity = row.parity.as_ref().map(|parity| parity.error);
    let memory = peak_bytes(row);
    let or_nothing = |text: Option<String>| text.unwrap_or_else(|| units::NOTHING.to_owned());
    Line {
        id: row.id.0.clone(),
        coordinates: axes
            .iter()
            .map(|axis| row.coordinates.get(axis).cloned().unwrap_or_default())
            .collect(),
        step: speed.map(|speed| interval::step_time(&speed.step_ns)),
        step_value: speed
            .map(|speed| speed.step_ns.centre)
            .filter(|value| value.is_finite()),
        rate: or_nothing(speed.map(|speed| units::rate(speed.items_per_second))),
        rate_value: speed
            .map(|speed| speed.items_per_second)
            .filter(|value| value.is_finite()),
        p95: or_nothing(p95.map(units::time_ns)),
        p95_value: p95,
        parity: or_nothing(parity.map(units::error)),
        parity_value: parity.filter(|value| value.is_finite()),
        computed: computed(row),
        top1: top1.map(words::top1),
        memory: or_nothing(memory.map(units::bytes)),
        host_memory: row
            .memory
            .as_ref()
            .filter(|_| !row.cell.device.is_cpu())
            .map(|memory| units::bytes(memory.peak_resident_bytes)),
        memory_value: memory,
        energy: sensors::energy(row),
        badge: words::ending(row),
        unsteady: steady::badge(row),
        reason: row.outcome.reason.clone(),
    }
}

fn computed(row: &CellRow) -> Option<String> {
    let told = row.got_ready()?.computed_in(row.cell.precision);
    told.map(str::to_owned)
}

/// Peak memory where the cell ran, as far as it is told.
pub(crate) fn peak_bytes(row: &CellRow) -> Option<u64> {
    row.memory.as_ref()?.peak_bytes(row.cell.device)
}

/// A percentile, by whichever name it goes: `p95` or `95`.
pub(crate) fn percentile(percentiles: &BTreeMap<String, u64>, rank: u8) -> Option<u64> {
    percentiles
        .get(&format!("p{rank}"))
        .or_else(|| percentiles.get(&rank.to_string()))
        .copied()
}
