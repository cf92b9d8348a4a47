//! The table of cells.

use std::collections::{BTreeMap, BTreeSet};

use schema::{
    Boundary, Environment, Plan,
    plan::{Allow, PlannedCell, PlannedHeat, PlannedJob},
    record::Tool,
    tables::{CellRow, TwinRow},
};

use statistics::family::confidence_of_one;

use crate::{
    frontier,
    group::{Group, Origin},
    profile, sensors,
    slot::Slot,
    speed,
};

/// Rows, with the machines and the tools that they refer to.
pub(crate) struct Cells {
    pub(crate) rows: Vec<CellRow>,
    pub(crate) twins: Vec<TwinRow>,
    pub(crate) environments: Vec<Environment>,
    pub(crate) tools: Vec<Tool>,
}

/// The rows of all cells, in the order of jobs and, within a job, of the plan's groups. A cell
/// that stands in two groups of a job has the row of the first.
pub(crate) fn cells(plan: &Plan, groups: Vec<Group<'_>>) -> Cells {
    let mut cells = Cells {
        rows: Vec::new(),
        twins: Vec::new(),
        environments: Vec::new(),
        tools: Vec::new(),
    };
    let mut of_job: BTreeMap<&str, Vec<Group<'_>>> = BTreeMap::new();
    for group in groups {
        of_job.entry(&group.planned.job).or_default().push(group);
    }
    for job in &plan.jobs {
        let mut seen = BTreeSet::new();
        for Group {
            planned,
            slots,
            origin,
            ..
        } in of_job.remove(job.id.as_str()).unwrap_or_default()
        {
            let (environment, tool) = origin.as_ref().map(|origin| cells.register(origin)).unzip();
            let mut numbers: BTreeMap<u32, u32> = BTreeMap::new();
            for (cell, slot) in planned.cells.iter().zip(slots) {
                if let Some(original) = cell.twin_of {
                    let number = numbers.entry(original).or_default();
                    *number += 1;
                    cells.twins.push(twin(job, planned, cell, *number, slot));
                } else if seen.insert(&cell.id) {
                    let mut row = row(job, cell, slot);
                    row.group.clone_from(&planned.group);
                    row.environment = environment;
                    row.tool = tool;
                    row.started = origin.as_ref().map(|origin| origin.started.clone());
                    row.load = origin.as_ref().map(|origin| origin.load.clone());
                    row.alone = origin.as_ref().and_then(|origin| origin.alone.clone());
                    row.seed = origin
                        .as_ref()
                        .map(|origin| format!("{:016x}", origin.seed));
                    row.stopped = origin.as_ref().map(|origin| origin.stopped.clone());
                    cells.rows.push(row);
                }
            }
        }
    }
    cells
}

impl Cells {
    /// The indices of a heat's machine and of its tool, entered when they are new. Machines are
    /// the same whatever their load; the first heat's stays in the entry, each cell keeps its own.
    pub(crate) fn register(&mut self, origin: &Origin) -> (u32, u32) {
        let same = |known: &Tool| *known == origin.tool;
        let tool = self.tools.iter().position(same).unwrap_or_else(|| {
            self.tools.push(origin.tool.clone());
            self.tools.len() - 1
        });
        let same = |known: &Environment| {
            Environment {
                load: known.load.clone(),
                ..origin.environment.clone()
            } == *known
        };
        let index = self.environments.iter().position(same).unwrap_or_else(|| {
            self.environments.push(origin.environment.clone());
            self.environments.len() - 1
        });
        let number = |index| u32::try_from(index).unwrap_or(u32::MAX);
        (number(index), number(tool))
    }
}

fn twin(
    job: &PlannedJob,
    heat: &PlannedHeat,
    planned: &PlannedCell,
    number: u32,
    slot: Slot,
) -> TwinRow {
    TwinRow {
        job: job.id.clone(),
        group: heat.group.clone(),
        // A twin has the identity of its original.
        cell: planned.id.clone(),
        engine: planned.cell.engine.to_string(),
        device: planned.cell.device.to_string(),
        number,
        outcome: slot.outcome,
        launches: slot.launches,
    }
}

/// What the row says of the cell itself; its heat is entered by the caller, and its roof once all
/// ceilings are known.
fn row(job: &PlannedJob, planned: &PlannedCell, slot: Slot) -> CellRow {
    let kind = slot.outcome.kind;
    let confidence = confidence_of_one(&job.measure);
    let speed = speed::speed(planned, &slot, confidence);
    // A profile is of the step alone, by the host's clock: it cannot be held against one that is timed from
    // request to reply, or by a device.
    let steps = speed
        .as_ref()
        .filter(|_| planned.cell.boundary == Boundary::Step);
    let profile = slot.profiled.as_ref();
    let profile = profile.map(|it| profile::cell(it, steps));
    let energy = sensors::energy(&slot.energy, planned.cell.samples(), confidence);
    let allowed = |allow: &Allow| allow.outcome == kind && allow.covers(&planned.coordinates);
    CellRow {
        job: job.id.clone(),
        group: String::new(),
        id: planned.id.clone(),
        cell: planned.cell.clone(),
        coordinates: planned.coordinates.clone(),
        allowed: kind.is_complete() || job.allow.iter().any(allowed),
        energy: energy.filter(|_| speed.is_some()),
        telemetry: sensors::telemetry(&slot.telemetry),
        speed,
        outcome: slot.outcome,
        parity: slot.parity,
        parity_log: slot.parity_log,
        roof: None,
        memory: slot.memory,
        frontier: slot
            .frontier
            .map(|sought| frontier::frontier(sought, planned.cell.device)),
        loaded: slot.loaded,
        first: slot.first,
        start_ns: slot.start_ns,
        flops: planned.flops,
        bytes: planned.bytes,
        parameters: planned.parameters,
        versions: slot.versions,
        environment: None,
        tool: None,
        started: None,
        load: None,
        alone: None,
        seed: None,
        stopped: None,
        launches: slot.launches,
        profile,
    }
}
