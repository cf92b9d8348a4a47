//! What workers make of a job's cells, on its page: how training scales with their number, and what they exchange.

use schema::{
    CellId,
    tables::{JobTable, ScalingPoint, ScalingRow},
};
use serde::Serialize;

use super::setting::Settings;
use crate::{
    interval::{self, Estimate},
    lines::Plot,
    speedup, units,
};

/// The axis of numbers of workers.
pub(super) const AXIS: &str = "world_size";

/// The table.
#[derive(Debug, Serialize)]
pub(crate) struct Scaling {
    /// What all rows share; may be empty.
    shared: String,
    rows: Vec<Row>,
    /// How throughput grows; `None` where fewer than two numbers of workers are compared.
    curve: Option<Plot>,
    /// Whether any ranks tell what they exchange.
    is_exchanged: bool,
}

/// A setting with a number of workers.
#[derive(Debug, Serialize)]
struct Row {
    setting: String,
    cell: CellId,
    workers: u32,
    samples: String,
    /// As a multiple of that with the number of workers which others are held against.
    throughput: Option<Estimate>,
    efficiency: Option<Estimate>,
    communication: Option<String>,
    hidden: Option<String>,
    /// For example `44.6 MiB in 3 buckets`.
    exchanged: Option<String>,
    memory: String,
}

impl Scaling {
    /// `None` where no training of the job is spread.
    pub(crate) fn new(job: &JobTable) -> Option<Self> {
        if job.scaling.is_empty() {
            return None;
        }
        let coordinates = job.scaling.iter().map(|row| &row.coordinates);
        let settings = Settings::of(coordinates, &job.axes, AXIS);
        let compared = job.comparisons.iter().find(|it| it.axis == AXIS);
        let base: Option<u32> = compared.and_then(|it| it.baseline.parse().ok());
        let rows = job.scaling.iter().flat_map(|row| {
            let settings = &settings;
            row.points
                .iter()
                .map(move |point| line(row, point, settings, base))
        });
        let rows: Vec<Row> = rows.collect();
        let named = job.scaling.iter().map(|row| (row, named(row, &settings)));
        Some(Self {
            shared: settings.shared(),
            curve: base.and_then(|base| speedup::draw(named, base)),
            is_exchanged: rows.iter().any(|row| row.exchanged.is_some()),
            rows,
        })
    }
}

/// What tells the setting from the others.
fn named(row: &ScalingRow, settings: &Settings<'_>) -> String {
    let label = settings.label(&row.coordinates);
    match label.is_empty() {
        true => row.strategy.to_string(),
        false => label,
    }
}

fn line(row: &ScalingRow, point: &ScalingPoint, settings: &Settings<'_>, base: Option<u32>) -> Row {
    let exchange = point.exchange.as_ref();
    let throughput = base.and_then(|base| speedup::throughput(point, base));
    Row {
        setting: named(row, settings),
        cell: point.cell.clone(),
        workers: point.world_size,
        samples: units::count(point.samples),
        throughput: throughput.map(|times| interval::ratio(&times, &[])),
        efficiency: point.efficiency.as_ref().map(interval::share),
        communication: exchange.map(|told| units::percent(told.communication)),
        hidden: exchange
            .filter(|told| told.communication > 0.0)
            .map(|told| units::percent(told.hidden)),
        exchanged: exchange.map(|told| {
            let plural = if told.buckets == 1 { "" } else { "s" };
            format!(
                "{} in {} bucket{plural}",
                units::bytes(told.bytes),
                told.buckets
            )
        }),
        memory: match point.memory_bytes.as_slice() {
            [] => units::NOTHING.to_owned(),
            told => {
                let told: Vec<String> = told.iter().map(|&bytes| units::bytes(bytes)).collect();
                told.join(", ")
            }
        },
    }
}
