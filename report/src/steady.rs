//! Launches that were measured although their step time was not steady yet.

use schema::tables::{CellRow, LaunchRow};

use crate::{
    units,
    words::{self, Badge},
};

fn was_measured(launch: &&LaunchRow) -> bool {
    launch.median_ns.is_some() && launch.warm_up.is_some()
}

fn is_unsteady(launch: &&LaunchRow) -> bool {
    was_measured(launch) && launch.warm_up.as_ref().is_some_and(|done| !done.steady)
}

/// Beside a cell's outcome, when any of its launches was not steady.
pub(crate) fn badge(row: &CellRow) -> Option<Badge> {
    row.launches
        .iter()
        .any(|launch| is_unsteady(&launch))
        .then_some(words::NOT_STEADY)
}

/// Which of a cell's launches were not steady, for its page; empty when all were.
pub(crate) fn sentence(row: &CellRow) -> String {
    let measured = row.launches.iter().filter(was_measured).count();
    match row.launches.iter().filter(is_unsteady).count() {
        0 => String::new(),
        unsteady => format!(
            "{unsteady} of {measured} launches had not become steady when the time to warm up was over."
        ),
    }
}

/// The count over the cells of a job.
pub(crate) fn count(rows: &[&CellRow]) -> String {
    let launches = || rows.iter().flat_map(|row| &row.launches);
    let measured = launches().filter(was_measured).count() as u64;
    let unsteady = launches().filter(is_unsteady).count() as u64;
    let cells = rows.iter().filter(|row| badge(row).is_some()).count() as u64;
    format!(
        "{} of {} measured launches, in {} of {} cells",
        units::count(unsteady),
        units::count(measured),
        units::count(cells),
        units::count(rows.len() as u64)
    )
}
