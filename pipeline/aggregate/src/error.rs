//! What aggregating can fail on.

use schema::{CellId, Digest};

/// Why no tables could be made.
#[derive(Debug, thiserror::Error)]
pub enum AggregateError {
    /// A document is of a version that this program does not read.
    #[error("{document} has version {found}, and this program reads version {known}")]
    Version {
        /// Which document.
        document: String,
        /// Its version.
        found: u32,
        /// The version known here.
        known: u32,
    },
    /// A heat that the run names could not be read.
    #[error("heat {heat} of group `{group}` cannot be read")]
    Unreadable {
        /// The group.
        group: String,
        /// The hash of the artifact's content.
        heat: Digest,
        /// What reading it said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A heat contradicts itself or the plan.
    #[error("heat {heat} of group `{group}` does not hold together: {problem}")]
    Inconsistent {
        /// The group.
        group: String,
        /// The hash of the artifact's content.
        heat: Digest,
        /// What is wrong.
        problem: String,
    },
    /// The plan inside the run record contradicts itself.
    #[error("the run record's plan does not hold together: {0}")]
    Plan(String),
    /// A comparison names a cell that its group does not have.
    #[error("job `{job}` compares cell {cell}, which group `{group}` does not have")]
    UnknownCell {
        /// The job.
        job: String,
        /// The group.
        group: String,
        /// The cell.
        cell: CellId,
    },
}

/// Why a download could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// As JSON.
    #[error("failed to write {file} as JSON")]
    Json {
        /// The file.
        file: String,
        /// Why.
        source: serde_json::Error,
    },
    /// As comma-separated values.
    #[error("failed to write {file} as comma-separated values")]
    Csv {
        /// The file.
        file: String,
        /// Why.
        source: csv::Error,
    },
    /// As Parquet.
    #[error("failed to write {file} as Parquet")]
    Parquet {
        /// The file.
        file: String,
        /// Why.
        source: parquet::errors::ParquetError,
    },
}

impl AggregateError {
    /// What whoever measured can do about it; who reads the runs of others cannot.
    #[must_use]
    pub const fn advice(&self) -> &'static str {
        match self {
            Self::Version { .. } => "use the photofinish that wrote it, or measure again",
            Self::Unreadable { .. } => "run again to measure it anew",
            Self::Inconsistent { .. } => "run with --fresh to measure it anew",
            Self::Plan(_) | Self::UnknownCell { .. } => "plan and run again",
        }
    }
}
