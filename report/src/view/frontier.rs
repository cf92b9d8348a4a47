//! The largest batches that fit into memory, on a job's page.

use schema::{
    OutcomeKind,
    tables::{CellRow, Frontier, FrontierEnd, JobTable},
};
use serde::Serialize;

use super::setting::Settings;
use crate::{
    units,
    words::{self, Badge, Fact, fact},
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
            .filter_map(|row| Some((*row, row.frontier.as_ref()?)))
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
                .map(|(row, found)| line(row, found, settings.label(&row.coordinates)))
                .collect(),
        })
    }
}

/// What was found of a cell, for its page.
pub(crate) fn facts(row: &CellRow) -> Vec<Fact> {
    let Some(found) = &row.frontier else {
        return Vec::new();
    };
    let told = line(row, found, String::new());
    let mut facts = vec![
        fact("Largest batch that fits", told.fits),
        fact("Peak memory there", told.peak),
        fact("Each further sample", told.sample),
    ];
    if let Some(badge) = told.badge {
        let ended = format!("{}: {}", told.end, badge.word);
        let ended = match told.reason.as_str() {
            "" => ended,
            reason => format!("{ended}, {reason}"),
        };
        facts.push(fact("Next tried", ended));
    }
    facts
}

fn line(row: &CellRow, found: &Frontier, setting: String) -> Row {
    let or_nothing = |text: Option<String>| text.unwrap_or_else(|| units::NOTHING.to_owned());
    let sample = found.sample_bytes.filter(|bytes| bytes.is_finite());
    let end = found.end.as_ref();
    let ran_out = |end: &FrontierEnd| end.outcome.kind == OutcomeKind::OutOfMemory;
    let fits = match found.fits {
        // Not even one sample.
        None if end.is_some_and(ran_out) => Some(0),
        fits => fits,
    };
    Row {
        cell: row.id.0.clone(),
        setting,
        // Where every batch ran, the search ended before the memory did.
        fits: or_nothing(fits.map(|fits| match end {
            None => format!("≥\u{a0}{}", units::count(fits)),
            Some(_) => units::count(fits),
        })),
        fits_value: fits,
        peak: or_nothing(found.peak_bytes.map(units::bytes)),
        peak_value: found.peak_bytes,
        sample: or_nothing(sample.map(|bytes| units::bytes(bytes as u64))),
        sample_value: sample,
        end: end.map_or_else(String::new, |end| units::count(end.batch)),
        badge: end.map(|end| words::outcome(end.outcome.kind)),
        reason: end.map_or_else(String::new, |end| end.outcome.reason.clone()),
    }
}
