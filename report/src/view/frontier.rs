//! The largest batches that fit into memory, on a job's page.

use schema::{
    Outcome, OutcomeKind,
    tables::{CellRow, JobTable},
};
use serde::Serialize;

use super::setting::Settings;
use crate::{
    units,
    words::{self, Badge},
};

/// The largest batches of a job's cells, in the order of its cells.
#[derive(Debug, Serialize)]
pub(crate) struct Frontiers {
    /// What all rows share; may be empty.
    shared: String,
    /// What a worker may take, in words; empty where only the machine limits it.
    limit: String,
    /// The largest batch that was to be tried.
    most: String,
    rows: Vec<Row>,
}

/// A cell.
#[derive(Debug, Serialize)]
struct Row {
    /// Name of its page.
    cell: String,
    setting: String,
    fits: String,
    /// To sort by.
    fits_value: Option<u64>,
    peak: String,
    peak_value: Option<u64>,
    sample: String,
    sample_value: Option<f64>,
    /// The batch that did not run; empty where all did.
    end: String,
    /// Present with it.
    badge: Option<Badge>,
    reason: String,
}

impl Frontiers {
    /// `None` where the job does not seek them, or no cell got as far.
    pub(crate) fn new(job: &JobTable, rows: &[&CellRow]) -> Option<Self> {
        let most = job.measure.frontier?;
        let found: Vec<_> = rows
            .iter()
            .filter_map(|row| Some((*row, Found::of(row)?)))
            .collect();
        let coordinates = found.iter().map(|(row, _)| &row.coordinates);
        let settings = Settings::of(coordinates, &job.axes, "");
        let limit = job.measure.memory_limit_bytes;
        (!found.is_empty()).then(|| Self {
            shared: settings.shared(),
            limit: limit.map_or_else(String::new, units::bytes),
            most: units::count(most),
            rows: found
                .iter()
                .map(|(row, found)| line(row, *found, settings.label(&row.coordinates)))
                .collect(),
        })
    }
}

/// What is known of a cell's largest batch.
#[derive(Debug, Clone, Copy)]
struct Found<'a> {
    fits: Option<u64>,
    peak_bytes: Option<u64>,
    sample_bytes: Option<f64>,
    /// The batch that did not run, and what became of it.
    end: Option<(u64, &'a Outcome)>,
}

impl<'a> Found<'a> {
    /// `None` where nothing was sought: the cell failed before, and not for want of memory.
    fn of(row: &'a CellRow) -> Option<Self> {
        if let Some(sought) = &row.frontier {
            let end = sought.end.as_ref();
            return Some(Self {
                fits: sought.fits,
                peak_bytes: sought.peak_bytes,
                sample_bytes: sought.sample_bytes,
                end: end.map(|end| (end.batch, &end.outcome)),
            });
        }
        // Where its outputs were asked for, its own batch did not fit.
        (row.outcome.kind == OutcomeKind::OutOfMemory).then(|| Self {
            fits: None,
            peak_bytes: None,
            sample_bytes: None,
            end: Some((row.cell.batch(), &row.outcome)),
        })
    }
}

fn line(row: &CellRow, found: Found<'_>, setting: String) -> Row {
    let or_nothing = |text: Option<String>| text.unwrap_or_else(|| units::NOTHING.to_owned());
    let sample = found.sample_bytes.filter(|bytes| bytes.is_finite());
    Row {
        cell: row.id.0.clone(),
        setting,
        fits: or_nothing(found.fits.map(units::count)),
        fits_value: found.fits,
        peak: or_nothing(found.peak_bytes.map(units::bytes)),
        peak_value: found.peak_bytes,
        sample: or_nothing(sample.map(|bytes| units::bytes(bytes as u64))),
        sample_value: sample,
        end: found
            .end
            .map_or_else(String::new, |(batch, _)| units::count(batch)),
        badge: found.end.map(|(_, outcome)| words::outcome(outcome.kind)),
        reason: found
            .end
            .map_or_else(String::new, |(_, outcome)| outcome.reason.clone()),
    }
}
