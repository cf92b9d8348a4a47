//! From combinations to cells: every default filled in, every obstacle known beforehand.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use models::{rewrite, zoo};
use schema::{
    Boundary, Cell, Device, EngineVariant, FactorDescription, HostLanguage, Mode, Optimizer,
    Precision, Preparation, Situation, Strategy, VariantDescription, manifest::OptimizerChoice,
    plan::PlannedCell,
};

use crate::{
    World,
    axes::{Axis, AxisKind, Typed},
    context::{Context, key, name},
    networks::{Network, Networks, Refusal, Which},
    obstacle::{obstacle, outlined, unread},
    points::Point,
    predict::{self, Preparing},
    tree::Step,
};

/// The cells of a job, and which of them each combination stands for. An axis that a model or an
/// engine does not know does not tell cells apart: its combinations share one.
#[derive(Default)]
pub(crate) struct Cells {
    pub(crate) cells: Vec<PlannedCell>,
    /// What comes before the first step of each.
    pub(crate) preparing: Vec<Preparing>,
    pub(crate) of_point: Vec<usize>,
    /// Models of the user's that no graph can say, in words.
    pub(crate) outlines: BTreeSet<String>,
}

/// The optimiser where a job names none.
const USUAL_OPTIMIZER: Optimizer = Optimizer::Sgd {
    learning_rate: 0.01,
    momentum: 0.9,
    weight_decay: 1e-4,
};

/// What holds for all cells of the job.
pub(crate) struct Shared {
    mode: Mode,
    precision: Precision,
    device: Device,
    threads: u32,
    optimizer: Optimizer,
    boundary: Boundary,
}

/// The values of axes that are not in the matrix.
pub(crate) fn shared(context: &mut Context<'_>, boundary: Boundary) -> Shared {
    let job = context.job;
    if job.mode == Mode::Inference && job.optimizer.is_some() {
        context.error_with_help(
            &[name("optimizer")],
            "an optimiser has no part in inference",
            "leave it out, or say `mode: training`",
        );
    }
    if job.threads == Some(0) {
        context.error_with_help(
            &[key("threads")],
            "0 threads compute nothing",
            "give at least 1, or leave it out for one a physical core",
        );
    }
    let device = job
        .device
        .as_ref()
        .map(|device| crate::axes::device(context, &device.to_string(), &[key("device")]));
    let usual = OptimizerChoice::named("sgd").map_or(USUAL_OPTIMIZER, |choice| choice.0);
    Shared {
        mode: job.mode,
        precision: job.precision.unwrap_or(Precision::Fp32),
        device: device.flatten().unwrap_or(Device::Cpu),
        threads: job
            .threads
            .unwrap_or(context.world.fingerprint.physical_cores.max(1)),
        optimizer: job.optimizer.map_or(usual, |choice| choice.0),
        boundary,
    }
}

/// Resolves every point; `None` when an error was noted.
pub(crate) fn resolve(
    context: &mut Context<'_>,
    axes: &[Axis],
    points: &[Point],
    shared: &Shared,
    networks: &mut Networks,
) -> Option<Cells> {
    let mut cells = Cells {
        cells: Vec::new(),
        preparing: Vec::new(),
        of_point: Vec::with_capacity(points.len()),
        outlines: BTreeSet::new(),
    };
    let mut known: BTreeMap<Vec<Option<u32>>, usize> = BTreeMap::new();
    let mut refused: BTreeSet<(String, BTreeMap<String, u64>)> = BTreeSet::new();
    let mode = context.job.mode;
    let drafts: Vec<Draft> = points
        .iter()
        .map(|point| Draft::new(context.world, axes, point, shared))
        .collect();
    networks.prepare(drafts.iter().map(|draft| (&draft.model, &draft.dims)), mode);
    for draft in drafts {
        if let Some(cell) = known.get(&draft.identity) {
            cells.of_point.push(*cell);
            continue;
        }
        match networks.get(&draft.model, &draft.dims, mode) {
            Ok(network) => {
                cells.outlines.extend(outlined(&draft.model, &network));
                known.insert(draft.identity.clone(), cells.cells.len());
                cells.of_point.push(cells.cells.len());
                let variant = context.world.variant(&draft.engine);
                let told = variant.map_or_else(Preparation::default, |known| known.preparation);
                let planned = draft.planned(context.world, mode, shared, &network);
                cells
                    .preparing
                    .push(predict::preparing(told, &planned.cell, &network));
                cells.cells.push(planned);
            }
            Err(refusal) => {
                let is_news =
                    refused.insert((draft.model.title().into_owned(), draft.dims.clone()));
                if !context.has_room() {
                    return None;
                }
                if is_news {
                    refuse(context, axes, &draft, refusal, networks);
                }
            }
        }
    }
    if !refused.is_empty() {
        return None;
    }
    refuse_idle_axes(context, axes, &cells);
    Some(cells)
}

/// Where a network of the zoo is run that no matrix asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) device: Device,
    pub(crate) threads: u32,
    pub(crate) precision: Precision,
}

/// The cell that infers by such a network on an engine, at the boundary `step` and with every switch at its
/// default.
pub(crate) fn unasked(
    world: &World,
    model: &str,
    network: &Rc<Network>,
    engine: &EngineVariant,
    place: Place,
) -> (PlannedCell, Preparing) {
    let Place {
        device,
        threads,
        precision,
    } = place;
    let shared = Shared {
        mode: Mode::Inference,
        precision,
        device,
        threads,
        optimizer: USUAL_OPTIMIZER,
        boundary: Boundary::Step,
    };
    let mut draft = Draft::of_shared(&shared);
    draft.model = Which::Zoo(model.to_owned());
    draft.engine = engine.clone();
    let variant = world.variant(engine);
    draft.fill_factors(variant);
    draft.coordinates = BTreeMap::from([
        ("model".to_owned(), model.to_owned()),
        ("device".to_owned(), device.to_string()),
        ("threads".to_owned(), threads.to_string()),
        ("precision".to_owned(), precision.to_string()),
    ]);
    let planned = draft.planned(world, Mode::Inference, &shared, network);
    let told = variant.map_or_else(Preparation::default, |known| known.preparation);
    let preparing = predict::preparing(told, &planned.cell, network);
    (planned, preparing)
}

/// An axis that no model and no engine of the job knows varies nothing.
fn refuse_idle_axes(context: &mut Context<'_>, axes: &[Axis], cells: &Cells) {
    for axis in axes {
        let is_known = |cell: &PlannedCell| cell.coordinates.contains_key(&axis.name);
        if cells.cells.iter().any(is_known) {
            continue;
        }
        let (owner, what) = match axis.kind {
            AxisKind::Dimension => ("a model".to_owned(), "dimension"),
            AxisKind::Factor => {
                let whose = whose(context.world, &axis.name, context.job.mode, cells);
                (whose, "factor")
            }
            AxisKind::WorldSize => ("a strategy of several workers".to_owned(), "size"),
            _ => continue,
        };
        context.error_with_help(
            &[key("matrix"), name(&axis.name)],
            format!("the job lacks {owner} with the {what} `{}`", axis.name),
            format!("leave the axis out, or add {owner} that has it"),
        );
    }
}

/// What has a factor: an engine, one in the modes, on the devices or in the precisions that alone it
/// is about, or a model with what it is about.
fn whose(world: &World, factor: &str, mode: Mode, cells: &Cells) -> String {
    let has = |planned: &PlannedCell| {
        let cell = &planned.cell;
        let known = world.variant(&cell.engine);
        let known = known.and_then(|variant| variant.factors.get(factor));
        known.is_some_and(|known| known.scope().has(cell.situation()))
    };
    let is_of_the_job = cells.cells.iter().any(has);
    if is_of_the_job && zoo::is_about_some(factor) {
        return "a model".to_owned();
    }
    let variants = world.engines.iter().flat_map(|engine| &engine.variants);
    let knowing: Vec<_> = variants
        .filter_map(|variant| variant.factors.get(factor))
        .collect();
    let modes: BTreeSet<Mode> = knowing
        .iter()
        .flat_map(|known| &known.modes)
        .copied()
        .collect();
    if !modes.is_empty() && !modes.contains(&mode) {
        let modes: Vec<String> = modes.iter().map(|mode| format!("`{mode}`")).collect();
        return format!("the mode {}, and an engine", modes.join(" or "));
    }
    let devices: BTreeSet<&str> = knowing
        .iter()
        .flat_map(|known| known.devices.iter().map(String::as_str))
        .collect();
    let mut own = cells.cells.iter().map(|planned| planned.cell.device.kind());
    if !devices.is_empty() && !own.any(|kind| devices.contains(kind)) {
        let devices: Vec<String> = devices.iter().map(|kind| format!("`{kind}`")).collect();
        return format!("the device {}, and an engine", devices.join(" or "));
    }
    let strategies: BTreeSet<Strategy> = knowing
        .iter()
        .flat_map(|known| &known.strategies)
        .copied()
        .collect();
    let mut own = cells.cells.iter().map(|planned| planned.cell.strategy);
    if !strategies.is_empty() && !own.any(|strategy| strategies.contains(&strategy)) {
        let strategies: Vec<String> =
            (strategies.iter().map(|known| format!("`{known}`"))).collect();
        return format!("the strategy {}, and an engine", strategies.join(" or "));
    }
    if rewrite::is_about_operators(factor) {
        return "a model whose engine has it, too,".to_owned();
    }
    if knowing.iter().any(|known| known.precisions.is_empty()) {
        return "an engine".to_owned();
    }
    let about = knowing.iter().flat_map(|known| &known.precisions);
    let about: BTreeSet<Precision> = about.copied().collect();
    let about: Vec<String> = about.iter().map(|known| format!("`{known}`")).collect();
    format!("an engine in precision {}", about.join(" or "))
}

/// Points at the dimension that a model refuses, or at the model.
fn refuse(
    context: &mut Context<'_>,
    axes: &[Axis],
    draft: &Draft,
    refusal: Refusal,
    networks: &mut Networks,
) {
    let mode = context.job.mode;
    // What is wrong at every size is no size's fault.
    let by_size = networks.get(&draft.model, &BTreeMap::new(), mode).is_ok();
    let culprit = draft.dims.iter().filter(|_| by_size).find(|(name, size)| {
        let alone = BTreeMap::from([((*name).clone(), **size)]);
        networks.get(&draft.model, &alone, mode).is_err()
    });
    let (axis, value) = culprit.map_or(
        ("model", draft.model.title().into_owned()),
        |(name, size)| (name, size.to_string()),
    );
    let Refusal { reason, help } = refusal;
    let message = format!(
        "the model `{}` cannot be built so: {reason}",
        draft.model.title()
    );
    let steps = place(context, axes, axis, &value);
    match help {
        Some(help) => context.error_with_help(&steps, message, help),
        None => context.error(&steps, message),
    }
}

/// Where a job names a value of an axis: in its matrix, or, where that has other values only, in
/// the entry of `include` that brings it.
fn place(context: &Context<'_>, axes: &[Axis], axis: &str, value: &str) -> Vec<Step> {
    let known = axes.iter().find(|known| known.name == axis);
    let at = known.and_then(|known| Some((known.index(value)?, known.base)));
    let entries = context.job.include.iter().enumerate();
    let included = entries.filter_map(|(entry, coordinates)| {
        let mut values = coordinates.0.get(axis)?.iter();
        let index = values.position(|named| named.to_string() == value)?;
        Some([
            key("include"),
            Step::Index(entry),
            key(axis),
            Step::Index(index),
        ])
    });
    match at {
        Some((index, base)) if index < base => {
            vec![key("matrix"), key(axis), Step::Index(index)]
        }
        _ => included
            .map(Vec::from)
            .next()
            .unwrap_or_else(|| vec![key("matrix"), key(axis)]),
    }
}

/// A point on its way to a cell.
struct Draft {
    /// Index of each axis's value; `None` where the axis does not apply.
    identity: Vec<Option<u32>>,
    coordinates: BTreeMap<String, String>,
    model: Which,
    dims: BTreeMap<String, u64>,
    engine: EngineVariant,
    mode: Mode,
    precision: Precision,
    device: Device,
    threads: u32,
    optimizer: Optimizer,
    strategy: Strategy,
    /// Ranks or replicas, where the batch falls into parts.
    world_size: u32,
    factors: BTreeMap<String, String>,
}

/// Ranks or replicas where a job says no number: the fewest that have something to exchange.
const USUAL_WORLD: u32 = 2;

impl Draft {
    /// What all have in common: no model and no engine yet.
    fn of_shared(shared: &Shared) -> Self {
        Self {
            identity: Vec::new(),
            coordinates: BTreeMap::new(),
            model: Which::Zoo(String::new()),
            dims: BTreeMap::new(),
            engine: EngineVariant {
                engine: String::new(),
                variant: String::new(),
            },
            mode: shared.mode,
            precision: shared.precision,
            device: shared.device,
            threads: shared.threads,
            optimizer: shared.optimizer,
            strategy: Strategy::Single,
            world_size: USUAL_WORLD,
            factors: BTreeMap::new(),
        }
    }

    fn new(world: &World, axes: &[Axis], point: &Point, shared: &Shared) -> Self {
        let mut draft = Self::of_shared(shared);
        // The model, the engine, the precision, the device and the strategy first: they decide which
        // other axes apply.
        for (axis, index) in axes.iter().zip(point) {
            match axis.values.get(*index as usize) {
                Some((_, Typed::Model(model))) => draft.model.clone_from(model),
                Some((_, Typed::Engine(engine))) => draft.engine.clone_from(engine),
                Some((_, Typed::Precision(precision))) => draft.precision = *precision,
                Some((_, Typed::Device(device))) => draft.device = *device,
                Some((_, Typed::Strategy(strategy))) => draft.strategy = *strategy,
                _ => {}
            }
        }
        let variant = world.variant(&draft.engine);
        for (axis, index) in axes.iter().zip(point) {
            let applies = match axis.kind {
                AxisKind::Dimension => draft.model.has_dimension(&axis.name),
                AxisKind::Factor => {
                    let known = variant.and_then(|variant| variant.factors.get(&axis.name));
                    known.is_some_and(|factor| draft.is_concerned(&axis.name, factor))
                }
                AxisKind::WorldSize => draft.strategy != Strategy::Single,
                _ => true,
            };
            draft.identity.push(applies.then_some(*index));
            if let (true, Some((text, typed))) = (applies, axis.values.get(*index as usize)) {
                draft.coordinates.insert(axis.name.clone(), text.clone());
                draft.set(&axis.name, typed);
            }
        }
        draft.fill_factors(variant);
        draft
    }

    /// Every switch of the variant that is not set yet, at its default.
    fn fill_factors(&mut self, variant: Option<&VariantDescription>) {
        let Some(variant) = variant else {
            return;
        };
        for (factor, description) in &variant.factors {
            if !self.is_concerned(factor, description) {
                continue;
            }
            let default = variant.default_of(factor, self.situation());
            if let Some(default) = default {
                self.factors
                    .entry(factor.clone())
                    .or_insert_with(|| default.to_owned());
            }
        }
    }

    /// Whether a factor has a part in the model at the precision, in the mode and on the device.
    fn is_concerned(&self, factor: &str, description: &FactorDescription) -> bool {
        self.model.is_concerned(factor) && description.scope().has(self.situation())
    }

    fn situation(&self) -> Situation {
        Situation {
            precision: self.precision,
            mode: self.mode,
            device: self.device,
            strategy: self.strategy,
        }
    }

    fn set(&mut self, axis: &str, value: &Typed) {
        match value {
            Typed::Size(size) => drop(self.dims.insert(axis.to_owned(), *size)),
            Typed::Precision(precision) => self.precision = *precision,
            Typed::Device(device) => self.device = *device,
            Typed::Threads(threads) => self.threads = *threads,
            Typed::Optimizer(optimizer) => self.optimizer = *optimizer,
            Typed::Strategy(strategy) => self.strategy = *strategy,
            Typed::WorldSize(size) => self.world_size = *size,
            Typed::Factor(value) => drop(self.factors.insert(axis.to_owned(), value.clone())),
            Typed::Model(_) | Typed::Engine(_) => {}
        }
    }

    fn planned(
        self,
        world: &World,
        mode: Mode,
        shared: &Shared,
        network: &Rc<Network>,
    ) -> PlannedCell {
        let variant = world.variant(&self.engine);
        let cell = Cell {
            model: self.model.model(network.graph),
            dims: network.dims.clone(),
            precision: self.precision,
            mode,
            optimizer: (mode == Mode::Training).then_some(self.optimizer),
            host_language: variant.map_or(HostLanguage::Other, |variant| variant.host_language),
            engine: self.engine,
            device: self.device,
            threads: self.threads,
            strategy: self.strategy,
            world_size: match self.strategy {
                Strategy::Single => 1,
                _ => self.world_size,
            },
            boundary: shared.boundary,
            factors: self.factors,
        };
        // Networks are counted at the batch of the cell.
        let batches = cell.samples() / cell.batch().max(1);
        PlannedCell {
            id: cell.id(),
            coordinates: self.coordinates,
            twin_of: None,
            obstacle: variant
                .and_then(|variant| obstacle(world, variant, &cell, network))
                .or_else(|| unread(variant, &cell, network)),
            predicted_step_ns: predict::step_ns(&cell, network, &world.fingerprint),
            predicted_bytes: predict::memory_bytes(&cell, network),
            flops: network.flops.saturating_mul(batches),
            bytes: network.bytes.saturating_mul(batches),
            parameters: network.parameters,
            cell,
        }
    }
}
