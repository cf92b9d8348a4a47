//! Run records to tables: what was measured becomes what may be said about it.
//!
//! The rules, each in the module of its name:
//! * a cell's value in a block is the median of its samples there (`slot`); blocks are the
//!   independent units, samples of one stretch are not;
//! * a ratio is the centre of ln(contender ÷ baseline) over the blocks that measured both, with a
//!   t or order-statistic interval (`interval`) at a confidence shared among all pairs of the job
//!   (`compare`);
//! * a verdict holds that interval against the margin and the noise between identical cells
//!   (`verdict`, `floor`), and below six blocks there is none;
//! * claims of sources are judged by the same intervals (`claims`).
//!
//! Same records in, same bytes out, whatever the processor: one order of every sum, logarithms
//! from `libm`, numbers rounded to six significant digits before anything is decided from them.

#![forbid(unsafe_code)]

mod cells;
mod check;
mod claims;
mod compare;
mod error;
mod export;
mod failures;
mod floor;
mod group;
mod interval;
mod jobs;
mod number;
mod percentile;
mod slot;
mod speed;
#[cfg(feature = "synthetic")]
pub mod synthetic;
mod verdict;

use schema::{Digest, Heat, RunRecord, Tables, tables};

pub use error::{AggregateError, ExportError};
pub use export::downloads;
pub use failures::{Failure, failures};
pub use interval::{ORDER_STATISTIC_BLOCKS, VERDICT_BLOCKS};

/// Whether the record of a run holds together. [`aggregate`] asks the same before it reads a heat.
///
/// # Errors
/// When the version of the record or of its plan is unknown, or the plan contradicts itself.
pub fn check(record: &RunRecord) -> Result<(), AggregateError> {
    check::record(record)
}

/// Makes the tables of a run. `heats` reads the artifact of a key and a content hash.
///
/// # Errors
/// When a document's version is unknown, a heat cannot be read, or the record, its plan or a heat
/// contradicts itself. A failed cell is no error: it is a row.
pub fn aggregate<E>(
    record: &RunRecord,
    heats: &dyn Fn(&Digest, &Digest) -> Result<Heat, E>,
) -> Result<Tables, AggregateError>
where
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    check::record(record)?;
    let plan = &record.plan;
    let groups = group::groups(record, heats)?;
    let floors = floor::floors(plan, &groups);
    let jobs = jobs::jobs(plan, &groups, &floors)?;
    let measured = group::measured_between(&groups);
    let heats = group::heats(&groups);
    let cells = cells::cells(plan, groups);
    Ok(Tables {
        version: tables::VERSION,
        title: plan.title.clone(),
        manifests: plan.manifests.clone(),
        jobs,
        cells: cells.rows,
        twins: cells.twins,
        floors: floors.into_rows(plan),
        environments: cells.environments,
        tools: cells.tools,
        measured,
        warnings: plan.warnings.clone(),
        heats,
    })
}
