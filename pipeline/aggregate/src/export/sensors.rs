//! Columns of what sensors told of a cell.

use schema::tables::{CellEnergy, CellRow};

use super::csv::{decimal, interval, number, pairs, text};

/// Their names.
pub(super) const COLUMNS: [&str; 13] = [
    "energy_j",
    "energy_j_low",
    "energy_j_high",
    "energy_blocks",
    "power_w",
    "idle_w",
    "energy_unavailable",
    "worker_cpus",
    "cpu_mhz",
    "package_w",
    "gpu_w",
    "gpu_sm_mhz",
    "gpu_limited",
];

/// Their values.
pub(super) fn values(row: &CellRow) -> Vec<String> {
    let (energy, lacking) = match &row.energy {
        Some(CellEnergy::Measured(figures)) => (Some(figures), None),
        Some(CellEnergy::Unavailable(reason)) => (None, Some(reason)),
        None => (None, None),
    };
    let joules = energy.and_then(|energy| energy.joules.as_ref());
    let [centre, low, high, ..] = interval(joules);
    let told = row.telemetry.as_ref();
    let gpu = told.and_then(|told| told.gpu.as_ref());
    let limited = gpu.map(|gpu| {
        let limited = gpu.limited.iter();
        let words = limited.map(|(limit, share)| (limit.word().to_owned(), share));
        pairs(&words.collect())
    });
    vec![
        centre,
        low,
        high,
        number(energy.map(|energy| energy.watts.blocks)),
        decimal(energy.map(|energy| energy.watts.centre)),
        decimal(energy.map(|energy| energy.idle_watts)),
        lacking.map_or_else(String::new, text),
        decimal(told.and_then(|told| told.worker_cpus)),
        decimal(told.and_then(|told| told.cpu_mhz)),
        decimal(told.and_then(|told| told.package_watts)),
        decimal(gpu.and_then(|gpu| gpu.watts)),
        decimal(gpu.and_then(|gpu| gpu.sm_mhz)),
        limited.unwrap_or_default(),
    ]
}
