//! Parity of every cell of a heat, judged once before any speed is measured.

use std::collections::BTreeMap;

use schema::{
    Boundary, Cell, CellId, Device, EngineVariant, HostLanguage, Outcome, OutcomeKind, Precision,
    Strategy,
    record::{Parity, Reference},
};

use crate::{
    context::{Context, Setting},
    error::Stop,
    gallery::Gallery,
    parity::{self, Exhibits},
};

/// What is known about a cell before it is measured.
#[derive(Clone)]
struct Judgement {
    parity: Option<Parity>,
    obstacle: Option<Outcome>,
    /// Of the launch that decided.
    log: Option<String>,
}

impl Judgement {
    fn obstacle(outcome: Outcome, log: Option<String>) -> Self {
        Self {
            parity: None,
            obstacle: Some(outcome),
            log,
        }
    }
}

/// Judges all cells of a heat. Identical cells (twins) are judged once.
pub(crate) fn judge(context: &mut Context<'_>, setting: &Setting<'_>) -> Result<Reference, Stop> {
    let mut gallery = Gallery::default();
    let mut judged: BTreeMap<CellId, Judgement> = BTreeMap::new();
    let mut reference = Reference {
        parity: Vec::new(),
        obstacles: Vec::new(),
        logs: Vec::new(),
    };
    for planned in &setting.header.cells {
        let judgement = match (&planned.obstacle, judged.get(&planned.id)) {
            (Some(obstacle), _) => Judgement::obstacle(obstacle.clone(), None),
            (None, Some(judgement)) => judgement.clone(),
            (None, None) => {
                let judgement = judge_cell(context, setting, &mut gallery, &planned.cell)?;
                judged.insert(planned.id.clone(), judgement.clone());
                judgement
            }
        };
        reference.parity.push(judgement.parity);
        reference.obstacles.push(judgement.obstacle);
        reference.logs.push(judgement.log);
    }
    Ok(reference)
}

fn judge_cell(
    context: &mut Context<'_>,
    setting: &Setting<'_>,
    gallery: &mut Gallery,
    cell: &Cell,
) -> Result<Judgement, Stop> {
    if let Err(outcome) = setting.graphs.get(cell) {
        return Ok(Judgement::obstacle(outcome, None));
    }
    // The cell itself first: one that cannot run needs no reference.
    gallery.make(context, setting, cell)?;
    let log = gallery.log(cell);
    if let Err(outcome) = gallery.get(cell) {
        return Ok(Judgement::obstacle(outcome, log));
    }
    let reference = exact(context, setting, cell);
    let eager = eager(context, cell);
    for witness in [&reference, &eager] {
        gallery.make(context, setting, witness)?;
        if let Err(outcome) = gallery.get(witness) {
            let reason = format!(
                "no reference: {} ended {}: {}",
                name(witness),
                outcome.kind,
                outcome.reason
            );
            return Ok(Judgement::obstacle(
                Outcome::new(OutcomeKind::ParityUnverified, reason),
                gallery.log(witness).or(log),
            ));
        }
    }
    let (parity, obstacle) = match (
        gallery.get(&reference),
        gallery.get(&eager),
        gallery.get(cell),
    ) {
        (Ok(reference_outputs), Ok(eager_outputs), Ok(cell_outputs)) => {
            let exhibits = Exhibits {
                reference: reference_outputs,
                reference_name: &name(&reference),
                eager: eager_outputs,
                eager_name: &name(&eager),
                cell: cell_outputs,
            };
            parity::judge(&exhibits, cell.precision)
        }
        (Err(outcome), _, _) | (_, Err(outcome), _) | (_, _, Err(outcome)) => (None, Some(outcome)),
    };
    if cell.id() != eager.id() && cell.id() != reference.id() {
        gallery.discard(cell);
    }
    Ok(Judgement {
        parity,
        obstacle,
        log,
    })
}

/// PyTorch eager in fp64 on the CPU, with as many threads as any cell of the heat may use.
fn exact(context: &Context<'_>, setting: &Setting<'_>, cell: &Cell) -> Cell {
    let threads = setting
        .header
        .cells
        .iter()
        .map(|planned| planned.cell.threads)
        .max();
    Cell {
        precision: Precision::Fp64,
        device: Device::Cpu,
        threads: threads.unwrap_or(cell.threads),
        ..eager(context, cell)
    }
}

/// PyTorch eager at the cell's precision on the cell's device, every switch at its default.
fn eager(context: &Context<'_>, cell: &Cell) -> Cell {
    let engine = EngineVariant {
        engine: "pytorch".to_owned(),
        variant: "eager".to_owned(),
    };
    let mut factors = context.workers.factors(&engine);
    factors.retain(|factor, _| models::zoo::is_concerned(&cell.model.name, factor));
    Cell {
        factors,
        engine,
        host_language: HostLanguage::Rust,
        strategy: Strategy::Single,
        world_size: 1,
        boundary: Boundary::Step,
        ..cell.clone()
    }
}

/// For example `pytorch/eager fp64 on cpu`.
fn name(cell: &Cell) -> String {
    format!("{} {} on {}", cell.engine, cell.precision, cell.device)
}
