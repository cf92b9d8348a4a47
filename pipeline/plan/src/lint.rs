//! What is worth knowing before a run: unfair comparisons, rules that match nothing, time and
//! memory that will not suffice.

use std::collections::{BTreeMap, BTreeSet};

use schema::{
    CellId, Device, Fingerprint, Plan,
    plan::{
        Claim, Comparison, PlannedCell, PlannedHeat, PlannedJob, Quantity, VERDICT_BLOCKS, Warning,
    },
};

use crate::{
    World,
    compare::Family,
    explain,
    fairness::{self, Grounds},
    together::Together,
};

/// Everything worth knowing about a job; `families` are what its comparisons come to.
pub(crate) fn lint<'a>(
    job: &PlannedJob,
    heats: &[PlannedHeat],
    families: impl Iterator<Item = &'a Family>,
    grounds: &Grounds<'_>,
) -> Vec<Warning> {
    let world = grounds.world;
    let cells = originals(heats);
    let Unfair {
        comparisons,
        claims,
        left_alone,
        left_alone_by_claims,
        one_sided,
        brought,
    } = unfair(job, heats, grounds);
    let mut notes = [comparisons, claims, left_alone, left_alone_by_claims].concat();
    notes.extend(one_sided);
    notes.extend(brought);
    notes.extend(too_few_blocks(job));
    notes.extend(too_short(job));
    for (comparison, family) in job.comparisons.iter().zip(families) {
        notes.extend(left_out(comparison, family));
    }
    notes.extend(resources(&cells, &world.fingerprint));
    notes.extend(unmetered(job, &cells, world));
    notes.extend(idle_rules(job, heats, &cells));
    notes
        .into_iter()
        .map(|message| Warning {
            job: job.id.clone(),
            message,
        })
        .collect()
}

/// What is not fair about a job, in words.
pub(crate) struct Unfair {
    pub(crate) comparisons: Vec<String>,
    pub(crate) claims: Vec<String>,
    /// In what engines differ of themselves.
    pub(crate) left_alone: Vec<String>,
    /// Likewise, of what claims alone speak of.
    pub(crate) left_alone_by_claims: Vec<String>,
    /// What is asked of one side of a comparison or a claim by a switch that the other has not.
    pub(crate) one_sided: BTreeSet<String>,
    /// What changes with the axis of a comparison or a claim.
    pub(crate) brought: BTreeSet<String>,
}

/// What is not fair about a job. Where nothing is timed, nothing can be timed unfairly.
pub(crate) fn unfair(job: &PlannedJob, heats: &[PlannedHeat], grounds: &Grounds<'_>) -> Unfair {
    let cells = originals(heats);
    let by_id: BTreeMap<&CellId, &PlannedCell> =
        cells.iter().map(|&cell| (&cell.id, cell)).collect();
    let is_timed = job.measure.blocks > 0;
    let comparisons = job.comparisons.iter().filter(|_| is_timed);
    let claims = job.claims.iter().filter(|_| is_timed);
    let compared = (job.comparisons.as_slice(), job.claims.as_slice());
    Unfair {
        comparisons: comparisons
            .clone()
            .flat_map(|comparison| fairness::unfair(comparison, &by_id, grounds))
            .collect(),
        left_alone: comparisons
            .flat_map(|comparison| fairness::left_alone(comparison, &by_id, grounds))
            .collect(),
        one_sided: match is_timed {
            true => fairness::one_sided(compared, &by_id, heats, grounds),
            false => BTreeSet::new(),
        },
        left_alone_by_claims: claims
            .clone()
            .flat_map(|claim| {
                fairness::left_alone_by_claim(claim, &job.comparisons, heats, grounds)
            })
            .collect(),
        brought: match is_timed {
            true => fairness::brought_by_axes(compared, &by_id, heats, grounds),
            false => BTreeSet::new(),
        },
        claims: claims
            .flat_map(|claim| fairness::unfair_claim(claim, &job.comparisons, heats, grounds))
            .collect(),
    }
}

/// The cells that readers see, twins left out.
fn originals<'a>(heats: impl IntoIterator<Item = &'a PlannedHeat>) -> Vec<&'a PlannedCell> {
    let cells = heats.into_iter().flat_map(|heat| &heat.cells);
    cells.filter(|cell| cell.twin_of.is_none()).collect()
}

/// The jobs whose budget is less than measuring takes what the store lacks, by their ids. What an
/// earlier job measures costs a later one nothing.
pub(crate) fn over_budget(plan: &Plan) -> BTreeMap<&str, Warning> {
    let left = Together::by_job(plan);
    let warning = |job: &PlannedJob| {
        let predicted_ns = left.get(job.id.as_str()).map_or(0, Together::ns);
        let budget_ns = job.measure.budget_ns;
        (predicted_ns > budget_ns).then(|| Warning {
            job: job.id.clone(),
            message: format!(
                "measuring takes about {}, more than the budget of {}: the last groups may not be reached",
                explain::time(predicted_ns),
                explain::time(budget_ns)
            ),
        })
    };
    let jobs = plan.jobs.iter();
    jobs.filter_map(|job| Some((job.id.as_str(), warning(job)?)))
        .collect()
}

fn too_few_blocks(job: &PlannedJob) -> Option<String> {
    let blocks = job.measure.blocks;
    let are = if blocks == 1 { "is" } else { "are" };
    let given = explain::counted(blocks as usize, "block");
    if blocks == 0 {
        let is_timed = |claim: &Claim| claim.quantity != Quantity::LargestBatch;
        return (job.claims.iter().any(is_timed))
            .then(|| "no claim can be judged: nothing is timed (`blocks: 0`)".to_owned());
    }
    (blocks < VERDICT_BLOCKS && !job.comparisons.is_empty()).then(|| {
        format!("{given} {are} too few for a verdict: all will be unclear; give at least {VERDICT_BLOCKS}")
    })
}

fn too_short(job: &PlannedJob) -> Option<String> {
    let measure = &job.measure;
    if measure.blocks == 0 {
        return None;
    }
    let rounds_ns = measure.round_ns.saturating_mul(u64::from(measure.rounds));
    let energy_ns = measure.energy_ns.unwrap_or(0);
    let least_ns = rounds_ns.saturating_add(energy_ns);
    (least_ns >= measure.timeout_ns).then(|| {
        format!(
            "no launch can end within its limit of {}: its rounds{} alone take {}",
            explain::time(measure.timeout_ns),
            if energy_ns > 0 {
                ", and its stretch for energy,"
            } else {
                ""
            },
            explain::time(least_ns)
        )
    })
}

/// Cells that a comparison does not speak of.
fn left_out(comparison: &Comparison, family: &Family) -> Vec<String> {
    let Comparison { axis, baseline, .. } = comparison;
    let mut notes = Vec::new();
    if family.alone > 0 {
        let have = if family.alone == 1 { "has" } else { "have" };
        notes.push(format!(
            "{} {have} no baseline to be held against: the job leaves out `{axis}: {baseline}` there",
            explain::counted(family.alone, "cell")
        ));
    }
    if family.strangers > 0 {
        let (are, their) = if family.strangers == 1 {
            ("is", "its")
        } else {
            ("are", "their")
        };
        notes.push(format!(
            "{} {are} not compared over `{axis}`, which {their} model, engine, precision or strategy does not know",
            explain::counted(family.strangers, "cell")
        ));
    }
    notes
}

/// Energy that is asked for and cannot be had, by device.
fn unmetered(job: &PlannedJob, cells: &[&PlannedCell], world: &World) -> Vec<String> {
    if job.measure.energy_ns.is_none() || job.measure.blocks == 0 {
        return Vec::new();
    }
    let devices: BTreeSet<Device> = cells.iter().map(|cell| cell.cell.device).collect();
    let lacking = |device: Device| {
        let reason = world.unmetered.get(&device)?;
        Some(format!("energy on {device} will be unavailable: {reason}"))
    };
    devices.into_iter().filter_map(lacking).collect()
}

fn resources(cells: &[&PlannedCell], machine: &Fingerprint) -> Vec<String> {
    let mut notes = Vec::new();
    let most = cells
        .iter()
        .map(|cell| cell.cell.threads)
        .max()
        .unwrap_or(0);
    if most > machine.logical_cpus {
        notes.push(format!(
            "{most} threads are more than the {} processors of this machine",
            machine.logical_cpus
        ));
    }
    let memory = machine.memory_gib << 30;
    let largest = cells
        .iter()
        .filter(|cell| cell.cell.device.is_cpu())
        .max_by_key(|cell| cell.predicted_bytes);
    if let Some(cell) = largest.filter(|cell| memory > 0 && cell.predicted_bytes > memory) {
        notes.push(format!(
            "{} needs about {}, more than the {} of this machine",
            cell.cell.describe(),
            explain::size(cell.predicted_bytes),
            explain::size(memory)
        ));
    }
    notes
}

/// Rules and claims that speak of no cell.
fn idle_rules(job: &PlannedJob, heats: &[PlannedHeat], cells: &[&PlannedCell]) -> Vec<String> {
    let mut notes = Vec::new();
    for allow in &job.allow {
        if !cells.iter().any(|cell| allow.covers(&cell.coordinates)) {
            let rule: Vec<String> = allow
                .coordinates
                .iter()
                .map(|(axis, value)| format!("{axis}: {value}"))
                .collect();
            notes.push(format!(
                "the rule that allows `{}` for `{}` covers no cell",
                allow.outcome,
                rule.join(", ")
            ));
        }
    }
    for claim in &job.claims {
        let speaks_of = |cells: &[&PlannedCell]| {
            let cells = || cells.iter().map(|cell| (*cell, ()));
            !claim.expect.pairs(cells()).is_empty() || !claim.expect.cells(cells()).is_empty()
        };
        let speaks = match claim.quantity {
            Quantity::LargestBatch => speaks_of(cells),
            _ => heats.iter().any(|heat| speaks_of(&originals([heat]))),
        };
        let what = match claim.expect.number {
            Some(_) => "no cell",
            None => "no pair of cells",
        };
        if !speaks {
            notes.push(format!("the claim `{}` speaks of {what}", claim.id));
        }
    }
    notes
}
