//! What makes a run red.

use std::collections::BTreeSet;

use schema::{CellId, Outcome, Tables};

/// A cell whose outcome the manifest does not allow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The job.
    pub job: String,
    /// The cell.
    pub cell: CellId,
    /// The cell in one line.
    pub name: String,
    /// How it ended.
    pub outcome: Outcome,
    /// Whether the manifest allows the outcome. A baseline fails even so where a contender that was
    /// measured, or should have been, lacks it.
    pub allowed: bool,
}

/// The cells that fail a run: neither complete nor allowed; and every baseline that is not complete,
/// even if it is allowed, unless all that was to be held against it ended unmeasured and allowed as
/// well: then the manifest announced that there may be nothing to compare.
#[must_use]
pub fn failures(tables: &Tables) -> Vec<Failure> {
    let cells = tables.cells.iter();
    let excused: BTreeSet<(&str, &CellId)> = cells
        .filter(|row| !row.outcome.kind.is_complete() && row.allowed)
        .map(|row| (row.job.as_str(), &row.id))
        .collect();
    let rows = tables.jobs.iter().flat_map(|job| {
        let rows = job.comparisons.iter().flat_map(|it| &it.rows);
        rows.map(|row| (job.id.as_str(), row))
    });
    let missed: BTreeSet<(&str, &CellId)> = rows
        .filter(|(job, row)| !excused.contains(&(job, &row.contender)))
        .map(|(job, row)| (job, &row.baseline))
        .collect();
    tables
        .cells
        .iter()
        .filter(|row| !row.outcome.kind.is_complete())
        .filter_map(|row| {
            let is_missed = missed.contains(&(row.job.as_str(), &row.id));
            (is_missed || !row.allowed).then(|| Failure {
                job: row.job.clone(),
                cell: row.id.clone(),
                name: row.cell.describe_whole(),
                outcome: row.outcome.clone(),
                allowed: row.allowed,
            })
        })
        .collect()
}
