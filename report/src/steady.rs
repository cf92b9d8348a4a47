//! Launches that were measured although their step time was not steady yet, and blocks that do not count since
//! others disturbed them.

use std::collections::BTreeMap;

use schema::{
    OutcomeKind,
    tables::{CellRow, LaunchRow},
};

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

/// How many blocks of a job others disturbed, in words; `None` where none was.
pub(crate) fn disturbed(rows: &[&CellRow]) -> Option<String> {
    let mut of_groups: BTreeMap<&str, u64> = BTreeMap::new();
    for row in rows {
        let was_disturbed = |launch: &&LaunchRow| launch.outcome.kind == OutcomeKind::Unstable;
        let launches = row.launches.iter().filter(was_disturbed).count() as u64;
        // A block has a launch of each cell.
        let blocks = of_groups.entry(&row.group).or_default();
        *blocks = launches.max(*blocks);
    }
    let blocks = match of_groups.into_values().sum() {
        0 => return None,
        1 => "one block".to_owned(),
        more => format!("{} blocks", units::count(more)),
    };
    Some(format!(
        "{blocks}, by others on the machine: their cells' pages say by what"
    ))
}
