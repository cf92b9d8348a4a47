//! Documents that hold together: what later code relies on, and refuses to guess.

use std::collections::{BTreeMap, BTreeSet};

use schema::{
    Digest, Heat, Plan, RunRecord,
    plan::{PlannedCell, PlannedHeat, PlannedJob},
    record,
};

use crate::error::AggregateError;

/// Refuses a run record that this program cannot read.
pub(crate) fn record(record: &RunRecord) -> Result<(), AggregateError> {
    version("the run record", record.version, record::VERSION)?;
    version("its plan", record.plan.version, schema::plan::VERSION)?;
    plan(&record.plan)
}

fn version(document: &str, found: u32, known: u32) -> Result<(), AggregateError> {
    if found == known {
        return Ok(());
    }
    Err(AggregateError::Version {
        document: document.to_owned(),
        found,
        known,
    })
}

fn plan(plan: &Plan) -> Result<(), AggregateError> {
    let refuse = |problem: String| Err(AggregateError::Plan(problem));
    let mut jobs = BTreeSet::new();
    for job in &plan.jobs {
        if !jobs.insert(job.id.as_str()) {
            return refuse(format!("job `{}` occurs twice", job.id));
        }
        measure(job)?;
    }
    if let Some(ceilings) = &plan.ceilings {
        if !jobs.insert(ceilings.job.id.as_str()) {
            return refuse(format!(
                "job `{}` is that of the ceilings, too",
                ceilings.job.id
            ));
        }
        measure(&ceilings.job)?;
        let is_theirs = |heat: &PlannedHeat| heat.job == ceilings.job.id;
        if let Some(heat) = ceilings.heats.iter().find(|heat| !is_theirs(heat)) {
            return refuse(format!("group `{}` belongs to no ceiling", heat.group));
        }
        if let Some(heat) = plan.heats.iter().find(|heat| is_theirs(heat)) {
            return refuse(format!("group `{}` is a ceiling, and no job's", heat.group));
        }
    }
    let (mut groups, mut boundaries) = (BTreeSet::new(), BTreeMap::new());
    for heat in plan.all_heats() {
        if !groups.insert(heat.group.as_str()) {
            return refuse(format!("group `{}` occurs twice", heat.group));
        }
        if !jobs.contains(heat.job.as_str()) {
            return refuse(format!("group `{}` belongs to no job", heat.group));
        }
        twins(heat).or_else(refuse)?;
        for planned in &heat.cells {
            let boundary = planned.cell.boundary;
            let first = *boundaries.entry(heat.job.as_str()).or_insert(boundary);
            if first != boundary {
                return refuse(format!(
                    "job `{}` has cells at the boundaries `{first}` and `{boundary}`, whose times are never compared",
                    heat.job
                ));
            }
        }
    }
    Ok(())
}

fn measure(job: &PlannedJob) -> Result<(), AggregateError> {
    let measure = &job.measure;
    let confident = measure.confidence > 0.0 && measure.confidence < 1.0;
    let sensible =
        measure.margin.is_finite() && measure.margin >= 0.0 && measure.target.is_finite();
    if confident && sensible {
        return Ok(());
    }
    let problem = format!(
        "job `{}` has margin {}, target {} and confidence {}",
        job.id, measure.margin, measure.target, measure.confidence
    );
    Err(AggregateError::Plan(problem))
}

/// Every twin stands beside an original that is no twin itself and has the same configuration.
fn twins(heat: &PlannedHeat) -> Result<(), String> {
    for twin in &heat.cells {
        let Some(slot) = twin.twin_of else { continue };
        let original = heat.cells.get(slot as usize);
        if !original.is_some_and(|original| original.twin_of.is_none() && original.id == twin.id) {
            return Err(format!(
                "group `{}` has a twin of slot {slot}, which is no original of it",
                heat.group
            ));
        }
    }
    Ok(())
}

/// The heat's slot of each planned cell; refuses a heat that is not of this plan, or whose parts do
/// not fit together.
pub(crate) fn heat(
    planned: &PlannedHeat,
    digest: &Digest,
    heat: &Heat,
) -> Result<Vec<usize>, AggregateError> {
    let group = &planned.group;
    let found = heat.header.version;
    version(
        &format!("heat {digest} of group `{group}`"),
        found,
        record::VERSION,
    )?;
    fitting(planned, heat).map_err(|problem| AggregateError::Inconsistent {
        group: group.clone(),
        heat: *digest,
        problem,
    })
}

fn fitting(planned: &PlannedHeat, heat: &Heat) -> Result<Vec<usize>, String> {
    if heat.header.key != planned.key {
        return Err(format!(
            "its key is {}, the plan's {}",
            heat.header.key, planned.key
        ));
    }
    let Some(slots) = slots(planned, heat) else {
        return Err("its cells are not those of the plan".to_owned());
    };
    problem(heat).map_or(Ok(slots), Err)
}

/// The heat's slot of each planned cell, every twin beside the original that it has in the plan.
fn slots(planned: &PlannedHeat, heat: &Heat) -> Option<Vec<usize>> {
    let slots = heat.header.slots_of(&planned.cells)?;
    let is_beside = |cell: &PlannedCell, slot: &usize| {
        let original = cell.twin_of.map(|at| slots.get(at as usize).copied());
        let measured = heat.header.cells.get(*slot).and_then(|cell| cell.twin_of);
        original == measured.map(|at| Some(at as usize))
    };
    let are_beside = planned
        .cells
        .iter()
        .zip(&slots)
        .all(|(cell, slot)| is_beside(cell, slot));
    are_beside.then_some(slots)
}

fn problem(heat: &Heat) -> Option<String> {
    let cells = heat.header.cells.len();
    let counts = [
        ("parities", heat.reference.parity.len()),
        ("obstacles", heat.reference.obstacles.len()),
        ("logs of parity", heat.reference.logs.len()),
        ("outcomes", heat.footer.outcomes.len()),
    ];
    if let Some((what, count)) = counts.into_iter().find(|&(_, count)| count != cells) {
        return Some(format!("it has {count} {what} for {cells} cells"));
    }
    let frontiers = heat.footer.frontiers.len();
    if frontiers != 0 && frontiers != cells {
        return Some(format!("it has {frontiers} frontiers for {cells} cells"));
    }
    let profiles = heat.footer.profiles.len();
    if profiles != 0 && profiles != cells {
        return Some(format!("it has {profiles} profiles for {cells} cells"));
    }
    let starts = heat.reference.starts.len();
    if starts != 0 && starts != cells {
        return Some(format!("it has {starts} first launches for {cells} cells"));
    }
    let mut indices = BTreeSet::new();
    for block in &heat.blocks {
        if !indices.insert(block.index) {
            return Some(format!("block {} occurs twice", block.index));
        }
        if let Some(launch) = block
            .launches
            .iter()
            .find(|launch| launch.slot as usize >= cells)
        {
            return Some(format!(
                "block {} launches slot {} of {cells}",
                block.index, launch.slot
            ));
        }
    }
    [&heat.header.started, &heat.footer.finished]
        .into_iter()
        .find(|time| time.parse::<jiff::Timestamp>().is_err())
        .map(|time| format!("`{time}` is not a time in RFC 3339"))
}
