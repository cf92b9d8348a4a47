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
    /// Whether the manifest allows the outcome. An unmeasured baseline fails even so, for then
    /// nothing can be compared.
    pub allowed: bool,
}

/// The cells that fail a run: neither measured nor allowed, and every baseline that is not measured.
#[must_use]
pub fn failures(tables: &Tables) -> Vec<Failure> {
    let baselines: BTreeSet<(&str, &CellId)> = tables
        .jobs
        .iter()
        .flat_map(|job| {
            job.comparisons
                .iter()
                .map(move |comparison| (job, comparison))
        })
        .flat_map(|(job, comparison)| {
            comparison
                .rows
                .iter()
                .map(move |row| (job.id.as_str(), &row.baseline))
        })
        .collect();
    tables
        .cells
        .iter()
        .filter(|row| !row.outcome.is_measured())
        .filter_map(|row| {
            let baseline = baselines.contains(&(row.job.as_str(), &row.id));
            (baseline || !row.allowed).then(|| Failure {
                job: row.job.clone(),
                cell: row.id.clone(),
                name: row.cell.describe_whole(),
                outcome: row.outcome.clone(),
                allowed: row.allowed,
            })
        })
        .collect()
}
