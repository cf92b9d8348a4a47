//! A job's answers: its comparisons and its claims.

use std::collections::BTreeSet;

use schema::{Plan, plan::PlannedJob, tables::JobTable};

use crate::{
    claims,
    compare::{self, Judge},
    error::AggregateError,
    floor::Floors,
    group::{Group, Index},
    number::rounded,
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
    plan.jobs
        .iter()
        .map(|job| {
            let own: Vec<_> = groups
                .iter()
                .filter(|group| group.planned.job == job.id)
                .collect();
            table(job, &own, &cells, floors)
        })
        .collect()
}

fn table<'a>(
    job: &PlannedJob,
    groups: &[&'a Group<'a>],
    cells: &Index<'_>,
    floors: &Floors,
) -> Result<JobTable, AggregateError> {
    // Where nothing was to be timed, there is nothing to compare.
    let compared = match job.measure.blocks {
        0 => &[],
        _ => job.comparisons.as_slice(),
    };
    let planned: usize = compared
        .iter()
        .map(|comparison| comparison.pairs.len())
        .sum();
    let family = planned + claims::extra_pairs(job, groups);
    let family = u32::try_from(family).unwrap_or(u32::MAX);
    let confidence = compare::shared_confidence(job.measure.confidence, family);
    let judge = Judge {
        job,
        cells,
        floors,
        confidence,
        family,
    };
    let comparisons: Result<Vec<_>, _> = compared
        .iter()
        .map(|comparison| judge.table(comparison))
        .collect();
    let claims = job.claims.iter().map(|claim| {
        let pairs = claims::pairs(&claim.expect, groups.iter().copied());
        claims::judge(claim, &pairs, &judge)
    });
    Ok(JobTable {
        id: job.id.clone(),
        question: job.question.clone(),
        mode: job.mode,
        measure: job.measure,
        axes: axes(job, groups),
        claims: claims.collect(),
        comparisons: comparisons?,
        supervisor_share: supervisor_share(groups),
    })
}

/// The median over all blocks of the job; of two in the middle, their mean.
fn supervisor_share(groups: &[&Group<'_>]) -> Option<f64> {
    let mut shares: Vec<f64> = groups
        .iter()
        .flat_map(|group| group.supervisor_shares.iter().copied())
        .collect();
    shares.sort_by(f64::total_cmp);
    let last = shares.len().checked_sub(1)?;
    let (below, above) = (shares.get(last / 2)?, shares.get(last.div_ceil(2))?);
    Some(rounded(f64::midpoint(*below, *above)))
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
