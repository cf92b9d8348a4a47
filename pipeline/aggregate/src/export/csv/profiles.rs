//! Where the time goes, entry by entry.

use schema::Tables;

use super::{Sheet, decimal, number, text};
use crate::ExportError;

const PROFILES: [&str; 14] = [
    "job",
    "cell",
    "engine",
    "coordinates",
    "profiled_steps",
    "profiled_step_ns",
    "slowdown",
    "kernels",
    "entry",
    "nodes",
    "time_ns",
    "share",
    "calls",
    "conversion",
];

pub(in crate::export) fn profiles(tables: &Tables) -> Result<Vec<u8>, ExportError> {
    let mut sheet = Sheet::new("profiles.csv", &PROFILES)?;
    for cell in &tables.cells {
        let told = cell.profile.as_ref();
        let Some(told) = told.and_then(|profile| profile.told.as_ref()) else {
            continue;
        };
        for entry in &told.entries {
            sheet.row([
                text(&cell.job),
                text(&cell.id),
                text(&cell.cell.engine),
                super::pairs(&cell.coordinates),
                number(Some(told.steps)),
                decimal(Some(told.wall_ns)),
                decimal(told.slowdown),
                decimal(Some(told.kernels)),
                text(&entry.name),
                text(entry.nodes.join(" ")),
                decimal(Some(entry.time_ns)),
                decimal(Some(entry.share)),
                decimal(Some(entry.calls)),
                number(Some(entry.conversion)),
            ])?;
        }
    }
    sheet.finish()
}
