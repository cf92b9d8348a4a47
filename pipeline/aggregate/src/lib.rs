//! Run records to tables: what was measured becomes what may be said about it.
//!
//! What blocks allow to say is decided in [`statistics`]; here it is asked of every cell (`slot`), of
//! every pair (`compare`), of the twins of every engine (`floor`) and of batches (`batches`), and claims
//! of sources are judged by the same intervals, or by what else they are about (`claims`, `quantities`). Profiles are lined up layer by layer (`profile`):
//! they explain, and judge nothing.
//!
//! Same records in, same bytes out, whatever the processor.

#![forbid(unsafe_code)]

mod batches;
mod ceilings;
mod cells;
mod check;
mod claims;
mod compare;
mod effects;
mod error;
mod export;
mod failures;
mod floor;
mod frontier;
mod group;
mod jobs;
mod profile;
mod quantities;
mod scaling;
mod sensors;
mod slot;
mod speed;

use schema::{Digest, Heat, RunRecord, Tables, tables};

pub use error::{AggregateError, ExportError};
pub use export::downloads;
pub use failures::{Failure, failures};

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
    let groups = group::groups(record, &plan.heats, heats)?;
    let of_ceilings = plan.ceilings.as_ref().map(|ceilings| &ceilings.heats);
    let of_ceilings = of_ceilings.map(|planned| group::groups(record, planned, heats));
    let of_ceilings = of_ceilings.transpose()?.unwrap_or_default();
    let floors = floor::floors(plan, &groups);
    let jobs = jobs::jobs(plan, &groups, &floors)?;
    let all = || groups.iter().chain(&of_ceilings);
    let measured = group::measured_between(all);
    let heats = group::heats(all());
    let mut cells = cells::cells(plan, groups);
    let ceilings = ceilings::rows(of_ceilings, &mut cells);
    ceilings::judge(&mut cells.rows, &ceilings);
    Ok(Tables {
        version: tables::VERSION,
        title: plan.title.clone(),
        manifests: plan.manifests.clone(),
        jobs,
        cells: cells.rows,
        twins: cells.twins,
        floors: floors.into_rows(plan),
        ceilings,
        environments: cells.environments,
        tools: cells.tools,
        measured,
        warnings: plan.warnings.clone(),
        heats,
    })
}
