//! A job's answers: its comparisons and its claims.

use std::collections::{BTreeMap, BTreeSet};

use schema::{
    CellId, Plan,
    plan::PlannedJob,
    tables::{ComparisonTable, JobTable},
};
use statistics::{family::Family, number::rounded, percentile};

use crate::{
    batches, claims,
    compare::Judge,
    effects::effects,
    error::AggregateError,
    floor::Floors,
    group::{Group, Index},
    profile,
    quantities::{Meters, Yardstick},
    scaling,
};

/// Axes that come first in a table, in this order; others follow by name, compared axes last.
const LEADING: [&str; 8] = [
    "model",
    "batch",
    "image",
    "seq",
    "target",
    "frames",
    "precision",
    "device",
];

/// The tables of all jobs, in the plan's order.
pub(crate) fn jobs(
    plan: &Plan,
    groups: &[Group<'_>],
    floors: &Floors,
) -> Result<Vec<JobTable>, AggregateError> {
    let cells = Index::new(groups);
    let meters = Meters::new(plan, groups);
    let families = plan.families();
    plan.jobs
        .iter()
        .map(|job| {
            let own: Vec<_> = groups
                .iter()
                .filter(|group| group.planned.job == job.id)
                .collect();
            let family = families.get(job.id.as_str()).copied().unwrap_or(0);
            table(job, family, &own, &cells, (floors, &meters))
        })
        .collect()
}

fn table<'a>(
    job: &PlannedJob,
    family: u32,
    groups: &[&'a Group<'a>],
    cells: &Index<'_>,
    (floors, meters): (&Floors, &Meters),
) -> Result<JobTable, AggregateError> {
    // Where nothing was to be timed, there is nothing to compare.
    let compared = match job.measure.blocks {
        0 => &[],
        _ => job.comparisons.as_slice(),
    };
    let judge = Judge {
        job,
        cells,
        floors,
        family: Family::of(&job.measure, family),
    };
    let comparisons = compared.iter().map(|comparison| judge.table(comparison));
    let comparisons: Vec<ComparisonTable> = comparisons.collect::<Result<_, _>>()?;
    let of_cells = groups.iter().flat_map(|group| group.originals());
    let batches: BTreeMap<&CellId, u64> = of_cells
        .map(|(cell, _)| (&cell.id, cell.cell.batch()))
        .collect();
    let crossovers = comparisons
        .iter()
        .flat_map(|table| batches::crossovers(table, |id| batches.get(id).copied()));
    let yardstick = Yardstick::new(&judge, groups, meters);
    let trends = batches::trends(job, groups, floors);
    let claims = job.claims.iter().map(|claim| {
        let mut row = claims::judge(claim, groups, &yardstick);
        row.reason += &claims::of_trends(&row, &trends);
        row
    });
    Ok(JobTable {
        id: job.id.clone(),
        question: job.question.clone(),
        mode: job.mode,
        measure: job.measure,
        axes: axes(job, groups),
        claims: claims.collect(),
        effects: effects(job, &comparisons),
        trends,
        crossovers: crossovers.collect(),
        scaling: scaling::rows(groups, &comparisons),
        lineups: profile::lineups(compared, &comparisons, cells),
        comparisons,
        supervisor_share: median(groups, |group| &group.supervisor_shares),
        apart_s: median(groups, |group| &group.apart_s),
        resemblance: judge.resemblance(compared),
    })
}

/// The median over all blocks of the job; of two in the middle, their mean.
fn median<'a>(groups: &[&'a Group<'a>], of: impl Fn(&'a Group<'a>) -> &'a Vec<f64>) -> Option<f64> {
    let values = groups.iter().copied().flat_map(of).copied();
    percentile::middle(values).map(rounded)
}

fn axes(job: &PlannedJob, groups: &[&Group<'_>]) -> Vec<String> {
    let named: BTreeSet<&str> = groups
        .iter()
        .flat_map(|group| group.originals())
        .flat_map(|(cell, _)| cell.coordinates.keys().map(String::as_str))
        .collect();
    let compared = |axis: &str| {
        job.comparisons
            .iter()
            .position(|comparison| comparison.axis == axis)
            .map_or(0, |at| at + 1)
    };
    let leading = |axis: &str| {
        LEADING
            .iter()
            .position(|known| *known == axis)
            .unwrap_or(LEADING.len())
    };
    let mut axes: Vec<&str> = named.into_iter().collect();
    axes.sort_by_key(|&axis| (compared(axis), leading(axis), axis));
    axes.into_iter().map(str::to_owned).collect()
}
