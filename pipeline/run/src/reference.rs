//! Parity of every cell of a heat, judged once before any speed is measured.
//!
//! A model of the user's was read before it could be run: its graph is ours, the reference runs that
//! graph, and would agree with itself whatever was misread. So there is a witness, ONNX Runtime on
//! the user's file as it is, which must agree with the reference before any cell is judged by it.
//!
//! A file with operators that no graph has ([`schema::Graph::is_outline`]) is run as it is or not at
//! all. Its reference is ONNX Runtime with every optimisation off, and what rounding makes of it is told
//! by ONNX Runtime as its users run it.

use std::collections::BTreeMap;

use models::{quantise, rewrite};
use schema::{
    ACCUMULATION, Boundary, Cell, CellId, Device, EngineVariant, HostLanguage, ModelSource,
    Outcome, OutcomeKind, Precision, SCALING, Situation, Strategy,
    graph::Op,
    plan::PlannedCell,
    record::{HeatHeader, Parity, Quantised, Reference},
};

use crate::{
    context::{Context, Setting},
    error::Stop,
    gallery::{Asked, Gallery},
    graphs::Prepared,
    parity::{self, EXACT, Exhibits, ROUNDED},
};

/// ONNX Runtime's factor and the value by which it rewrites nothing.
const UNOPTIMISED: (&str, &str) = ("optimization", "off");

/// The factor that says what gradients are rounded to on their way to other ranks.
const COMPRESSION: &str = "gradient_compression";

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

/// Judges all cells of a heat, some on networks that were quantised for them. Identical cells (twins)
/// are judged once.
pub(crate) fn judge(
    context: &mut Context<'_>,
    setting: &Setting<'_>,
    quantised: Vec<Quantised>,
) -> Result<Reference, Stop> {
    let mut gallery = Gallery::default();
    let mut judged: BTreeMap<CellId, Judgement> = BTreeMap::new();
    let mut reference = Reference {
        parity: Vec::new(),
        obstacles: Vec::new(),
        logs: Vec::new(),
        quantised,
        starts: Vec::new(),
    };
    for planned in &setting.header.cells {
        let judgement = match (&planned.obstacle, judged.get(&planned.id)) {
            (Some(obstacle), _) => Judgement::obstacle(obstacle.clone(), None),
            (None, Some(judgement)) => judgement.clone(),
            (None, None) => {
                let judgement = judge_cell(context, setting, &mut gallery, planned)?;
                judged.insert(planned.id.clone(), judgement.clone());
                judgement
            }
        };
        reference.parity.push(judgement.parity);
        reference.obstacles.push(judgement.obstacle);
        reference.logs.push(judgement.log);
        // Twins are not launched for outputs.
        let is_first = planned.twin_of.is_none();
        let start = gallery.start(&planned.cell).filter(|_| is_first);
        reference.starts.push(start);
    }
    Ok(reference)
}

fn judge_cell(
    context: &mut Context<'_>,
    setting: &Setting<'_>,
    gallery: &mut Gallery,
    planned: &PlannedCell,
) -> Result<Judgement, Stop> {
    let cell = &planned.cell;
    if let Err(outcome) = setting.graphs.get(cell) {
        return Ok(Judgement::obstacle(outcome, setting.graphs.log(cell)));
    }
    // The cell itself first: one that cannot run needs no reference.
    gallery.make(context, setting, planned)?;
    let log = gallery.log(cell);
    if let Err(outcome) = gallery.get(cell) {
        return Ok(Judgement::obstacle(outcome, log));
    }
    let standards = Standards::of(context, setting, cell);
    let Standards {
        reference,
        eager,
        own_file,
        ..
    } = &standards;
    for witness in [reference, eager] {
        gallery.make_standard(context, setting, witness)?;
        if let Err(outcome) = gallery.standard(witness) {
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
    if let Some(own_file) = own_file
        .as_ref()
        .filter(|own_file| own_file.id() != cell.id())
    {
        let judgement = testify(context, setting, gallery, reference, own_file)?;
        if let Some(judgement) = judgement {
            return Ok(judgement);
        }
    }
    let (mut parity, mut obstacle) = compare(gallery, &standards, cell);
    let failed = |outcome: &Outcome| outcome.kind == OutcomeKind::ParityFailed;
    if cell.optimizer.is_some() && parity.is_some() && obstacle.as_ref().is_some_and(failed) {
        let across_kinks = standards.across_kinks(cell);
        gallery.make_standard(context, setting, across_kinks)?;
        if let Err(outcome) = gallery.standard(across_kinks) {
            let reason = format!(
                "whether rounding next to a kink explains its gradients is not known: {} ended {}: {}",
                name(&standards.reference),
                outcome.kind,
                outcome.reason
            );
            let outcome = Outcome::new(OutcomeKind::ParityUnverified, reason);
            return Ok(Judgement::obstacle(outcome, log));
        }
        (parity, obstacle) = compare(gallery, &standards, cell);
    }
    let is_off = parity.as_ref().is_some_and(|it| it.error > it.bound);
    if let Some(outcome) = obstacle
        .as_mut()
        .filter(|outcome| is_off && failed(outcome))
        && let Some(hint) = quantise::may_saturate(cell)
    {
        outcome.reason.push_str("; ");
        outcome.reason.push_str(hint);
    }
    let kept = [Some(reference), Some(eager), own_file.as_ref()];
    if kept
        .into_iter()
        .flatten()
        .all(|kept| kept.id() != cell.id())
    {
        gallery.discard(cell);
    }
    Ok(Judgement {
        parity,
        obstacle,
        log,
    })
}

/// What a cell's outputs are held against.
struct Standards {
    reference: Cell,
    /// Tells what rounding makes of right outputs.
    eager: Cell,
    /// By how much less rounding moves the cell.
    eager_scale: f64,
    least_roundoffs: f64,
    /// Runs the user's own file, where the reference runs what was read from it.
    own_file: Option<Cell>,
    /// How many numbers each running statistic is a mean of, by its name.
    summands: BTreeMap<String, u64>,
}

impl Standards {
    fn of(context: &Context<'_>, setting: &Setting<'_>, cell: &Cell) -> Self {
        let own_file = match setting.graphs.get(cell) {
            Ok(Prepared {
                graph,
                files: Some(files),
            }) if cell.model.source == ModelSource::Onnx => {
                let own_file = on_own_file(context, cell, files.precision);
                if graph.is_outline() {
                    return Self {
                        reference: unoptimised(Cell {
                            threads: most_threads(setting.header, cell),
                            ..own_file.clone()
                        }),
                        eager: own_file,
                        eager_scale: 1.0,
                        least_roundoffs: ROUNDED,
                        own_file: None,
                        summands: BTreeMap::new(),
                    };
                }
                Some(own_file)
            }
            _ => None,
        };
        let telling = telling(cell);
        Self {
            reference: exact(context, setting, cell),
            eager_scale: rounded_to(cell).unit_roundoff() / telling.precision.unit_roundoff(),
            eager: eager(context, &telling),
            least_roundoffs: least_roundoffs(cell),
            own_file,
            summands: summands(setting, cell),
        }
    }
}

/// How many numbers each running statistic of the cell's network is a mean of: one for each place of
/// each sample.
fn summands(setting: &Setting<'_>, cell: &Cell) -> BTreeMap<String, u64> {
    let mut summands = BTreeMap::new();
    let trained = cell.optimizer.and_then(|_| setting.graphs.get(cell).ok());
    let Some(Prepared { graph, .. }) = trained else {
        return summands;
    };
    let Ok(types) = models::infer::shapes(graph) else {
        return summands;
    };
    for node in &graph.nodes {
        if let (Op::BatchNormalization { .. }, [x, _, _, statistics @ ..]) =
            (&node.op, node.inputs.as_slice())
        {
            let channels = types.get(x).and_then(|x| x.shape.get(1).copied());
            let numbers = types.get(x).map_or(1, |x| x.elements());
            let of_each = numbers.checked_div(channels.unwrap_or(1)).unwrap_or(1);
            summands.extend(statistics.iter().map(|name| (name.clone(), of_each)));
        }
    }
    summands
}

impl Standards {
    /// What tells how far the gradients of the cell may jump.
    fn across_kinks(&self, cell: &Cell) -> Asked<'_> {
        Asked {
            cell: &self.reference,
            across_kinks: Some(cell.precision),
        }
    }
}

/// The cell whose roundings tell how far rounding moves this one. In training roundings grow, and PyTorch
/// eager in fp64 is the reference itself: there eager in fp32 tells how.
fn telling(cell: &Cell) -> Cell {
    let precision = match (cell.optimizer, cell.precision) {
        (Some(_), Precision::Fp64) => Precision::Fp32,
        (_, precision) => precision,
    };
    Cell {
        precision,
        ..cell.clone()
    }
}

/// What numbers of the cell are rounded to at the coarsest: gradients may be on their way to other ranks.
fn rounded_to(cell: &Cell) -> Precision {
    let compression = cell.factors.get(COMPRESSION);
    let compressed: Option<Precision> = compression.and_then(|word| word.parse().ok());
    let coarser =
        |precision: &Precision| precision.unit_roundoff() > cell.precision.unit_roundoff();
    compressed.filter(coarser).unwrap_or(cell.precision)
}

/// What a reference in fp64 is off by, for this cell. One in fp64 is held against its like.
fn least_roundoffs(cell: &Cell) -> f64 {
    match cell.precision {
        Precision::Fp64 => ROUNDED,
        _ => EXACT,
    }
}

/// Holds a cell's outputs against those of the reference.
fn compare(
    gallery: &Gallery,
    standards: &Standards,
    cell: &Cell,
) -> (Option<Parity>, Option<Outcome>) {
    let Standards {
        reference,
        eager,
        eager_scale,
        least_roundoffs,
        summands,
        ..
    } = standards;
    let eager_name = match *eager_scale == 1.0 {
        true => name(eager),
        false => format!("{}, scaled to {},", name(eager), rounded_to(cell)),
    };
    // A cell that comes here has outputs, and a witness of the file is a standard.
    match (
        gallery.standard(reference),
        gallery.standard(eager),
        gallery.standard(cell),
    ) {
        (Ok(reference_outputs), Ok(eager_outputs), Ok(cell_outputs)) => {
            let exhibits = Exhibits {
                reference: reference_outputs,
                reference_name: &name(reference),
                least_roundoffs: *least_roundoffs,
                eager: eager_outputs,
                eager_name: &eager_name,
                eager_scale: *eager_scale,
                cell: cell_outputs,
                optimizer: cell.optimizer,
                summands,
                across_kinks: gallery.standard(standards.across_kinks(cell)).ok(),
            };
            parity::judge(&exhibits, rounded_to(cell))
        }
        (Err(outcome), _, _) | (_, Err(outcome), _) | (_, _, Err(outcome)) => (None, Some(outcome)),
    }
}

/// Whether ONNX Runtime on the user's own file agrees with the reference on our reading of it;
/// otherwise what keeps the cell from being measured.
fn testify(
    context: &mut Context<'_>,
    setting: &Setting<'_>,
    gallery: &mut Gallery,
    reference: &Cell,
    own_file: &Cell,
) -> Result<Option<Judgement>, Stop> {
    let eager = eager(context, own_file);
    for needed in [own_file, &eager] {
        gallery.make_standard(context, setting, needed)?;
        if let Err(outcome) = gallery.standard(needed) {
            let reason = format!(
                "no witness of the file itself: {} ended {}: {}",
                name(needed),
                outcome.kind,
                outcome.reason
            );
            let outcome = Outcome::new(OutcomeKind::ParityUnverified, reason);
            return Ok(Some(Judgement::obstacle(outcome, gallery.log(needed))));
        }
    }
    let standards = Standards {
        reference: reference.clone(),
        eager,
        eager_scale: 1.0,
        least_roundoffs: least_roundoffs(own_file),
        own_file: None,
        summands: BTreeMap::new(),
    };
    let (_, obstacle) = compare(gallery, &standards, own_file);
    Ok(obstacle.map(|outcome| {
        // Without a reference nothing is said of the reading: generated inputs may be none that the network
        // makes numbers of.
        let what = match outcome.kind {
            OutcomeKind::ParityFailed => "our reading of the file comes to something else",
            _ => "what it makes of generated inputs tells nothing",
        };
        let reason = format!(
            "{} runs the file itself, and {what}: {}",
            name(own_file),
            outcome.reason
        );
        Judgement::obstacle(Outcome::new(outcome.kind, reason), gallery.log(own_file))
    }))
}

/// ONNX Runtime on the CPU, every switch at its default, in the precision of the user's file, so
/// that it takes the file as it is.
fn on_own_file(context: &Context<'_>, cell: &Cell, precision: Precision) -> Cell {
    let engine = EngineVariant {
        engine: "onnxruntime".to_owned(),
        variant: "cpu".to_owned(),
    };
    let own_file = Cell {
        engine,
        precision,
        device: Device::Cpu,
        host_language: HostLanguage::Rust,
        strategy: Strategy::Single,
        world_size: 1,
        boundary: Boundary::Step,
        ..cell.clone()
    };
    Cell {
        factors: (context.workers).factors(&own_file.engine, own_file.situation()),
        ..own_file
    }
}

/// ONNX Runtime running the operators of the file one by one, as the file has them.
fn unoptimised(mut cell: Cell) -> Cell {
    let (factor, level) = UNOPTIMISED;
    cell.factors.insert(factor.to_owned(), level.to_owned());
    cell
}

/// PyTorch eager in fp64 on the CPU, with as many threads as any cell of the heat may use.
fn exact(context: &Context<'_>, setting: &Setting<'_>, cell: &Cell) -> Cell {
    let plain = Cell {
        precision: Precision::Fp64,
        device: Device::Cpu,
        threads: most_threads(setting.header, cell),
        ..cell.clone()
    };
    eager(context, &plain)
}

/// As many threads as any cell of the heat may use.
pub(crate) fn most_threads(header: &HeatHeader, cell: &Cell) -> u32 {
    let cells = header.cells.iter();
    let most = cells.map(|planned| planned.cell.threads).max();
    most.unwrap_or(cell.threads)
}

/// PyTorch eager at the cell's precision on the cell's device, every switch at its default. A
/// network that is quantised is the cell's own, in the same form and on the same grids: what is
/// computed in integers there is simulated in floats here.
pub(crate) fn eager(context: &Context<'_>, cell: &Cell) -> Cell {
    let engine = EngineVariant {
        engine: "pytorch".to_owned(),
        variant: "eager".to_owned(),
    };
    // What is spread over ranks, replicas or passes is run in one process, part after part.
    let strategy = match cell.strategy {
        Strategy::Single if cell.passes() == 1 => Strategy::Single,
        _ => Strategy::Accumulated,
    };
    let situation = Situation {
        strategy,
        ..cell.situation()
    };
    let mut factors = context.workers.factors(&engine, situation);
    for factor in [SCALING, ACCUMULATION] {
        let asked = cell.factors.get(factor);
        factors.extend(asked.map(|value| (factor.to_owned(), value.clone())));
    }
    // How idle threads wait changes no output, and an environment that says so itself, in which a worker would
    // refuse to be asked for anything else, must not cost a run its reference.
    factors.remove(worker::SPIN);
    factors.retain(|factor, _| models::zoo::is_concerned(&cell.model.name, factor));
    if cell.precision.is_int8() {
        let forms = [rewrite::ATTENTION, rewrite::RECURRENT];
        for factor in forms.into_iter().chain(quantise::FACTORS) {
            match cell.factors.get(factor) {
                Some(value) => drop(factors.insert(factor.to_owned(), value.clone())),
                None => drop(factors.remove(factor)),
            }
        }
    }
    Cell {
        factors,
        engine,
        host_language: HostLanguage::Rust,
        strategy,
        boundary: Boundary::Step,
        ..cell.clone()
    }
}

/// For example `pytorch/eager fp64 on cpu`.
pub(crate) fn name(cell: &Cell) -> String {
    let (factor, level) = UNOPTIMISED;
    let is_plain = cell.factors.get(factor).is_some_and(|set| set == level);
    let how = if is_plain { ", optimization off" } else { "" };
    format!("{} {} on {}{how}", cell.engine, cell.precision, cell.device)
}

#[cfg(test)]
mod tests {
    use schema::Optimizer;

    use super::*;

    #[test]
    fn only_a_cell_of_the_reference_s_own_precision_meets_its_roundings() {
        let graph = models::sample::perceptron(1).unwrap();
        let plain = Cell::plain(&graph, "any/any".parse().unwrap());
        for &precision in Precision::ALL {
            let cell = Cell {
                precision,
                ..plain.clone()
            };
            let is_like = precision == Precision::Fp64;
            assert_eq!(least_roundoffs(&cell) > 0.0, is_like, "{precision}");
            assert_eq!(telling(&cell).precision, precision);
            let trained = Cell {
                optimizer: Some(Optimizer::Sgd {
                    learning_rate: 0.01,
                    momentum: 0.9,
                    weight_decay: 0.0,
                }),
                ..cell
            };
            let tells = if is_like { Precision::Fp32 } else { precision };
            assert_eq!(telling(&trained).precision, tells);
        }
    }
}
