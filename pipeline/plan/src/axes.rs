//! The axes of a job's matrix, each value checked and typed.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use schema::{
    Device, EngineVariant, Mode, Optimizer, Precision, Strategy,
    manifest::{ModelChoice, OneOrMany, OptimizerChoice, Scalar},
};

use crate::{
    context::{Context, key, name},
    networks::{self, Networks, Trained, Which},
    suggest,
    tree::Step,
    user_model,
};

/// Most threads that a manifest may ask for.
const THREAD_LIMIT: u64 = 1024;

/// Most ranks or replicas that a manifest may ask for.
const WORLD_LIMIT: u64 = 1024;

/// What an axis varies. The order is that of expansion: the last varies fastest, so that the cells
/// of one network stand together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AxisKind {
    Model,
    Dimension,
    Precision,
    Device,
    Threads,
    Optimizer,
    Strategy,
    WorldSize,
    Factor,
    Engine,
}

/// A value of an axis.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Typed {
    Model(Which),
    Size(u64),
    Precision(Precision),
    Device(Device),
    Threads(u32),
    Optimizer(Optimizer),
    Strategy(Strategy),
    WorldSize(u32),
    Factor(String),
    Engine(EngineVariant),
}

/// An axis with its values.
#[derive(Debug, Clone)]
pub(crate) struct Axis {
    pub(crate) name: String,
    pub(crate) kind: AxisKind,
    /// The values of the matrix, then those that only `include` names.
    pub(crate) values: Vec<(String, Typed)>,
    /// The number of values of the matrix.
    pub(crate) base: usize,
}

impl Axis {
    /// The index of a value.
    pub(crate) fn index(&self, text: &str) -> Option<usize> {
        self.values.iter().position(|(value, _)| value == text)
    }

    /// The values' texts.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        self.values.iter().map(|(text, _)| text.as_str())
    }
}

/// The axes of the job, in the order of expansion.
pub(crate) fn resolve(context: &mut Context<'_>, networks: &mut Networks) -> Vec<Axis> {
    let job = context.job;
    let mut axes = Vec::new();
    let matrix = key("matrix");
    match &job.matrix.model {
        Some(models) => axes.extend(models_axis(context, networks, models)),
        None => context.error_with_help(
            &[name("matrix")],
            "the matrix names no model",
            format!("add `model: [resnet18]`; {}", known_models()),
        ),
    }
    if !job.matrix.axes.contains_key("engine") {
        let engines: Vec<String> = context.world.variants().collect();
        context.error_with_help(
            &[name("matrix")],
            "the matrix names no engine",
            suggest::among(
                "engine",
                engines.iter().map(String::as_str),
                "add `engine: [...]`; known are",
            ),
        );
    }
    for (axis, values) in &job.matrix.axes {
        if let Some(kind) = kind_of(context, axis) {
            axes.extend(axis_of(
                context,
                axis,
                kind,
                values,
                &[matrix.clone(), key(axis)],
            ));
        } else {
            unknown(context, axis, &[matrix.clone(), name(axis)]);
        }
    }
    axes.sort_by(|a, b| {
        let rank = |axis: &Axis| (axis.kind, axis.name != "batch");
        rank(a).cmp(&rank(b)).then_with(|| a.name.cmp(&b.name))
    });
    axes
}

fn known_models() -> String {
    let names: Vec<String> = networks::names().map(|name| format!("`{name}`")).collect();
    format!("the zoo has {}", names.join(", "))
}

/// What an axis varies; `None` when neither the matrix, a model nor an engine knows the name.
pub(crate) fn kind_of(context: &Context<'_>, axis: &str) -> Option<AxisKind> {
    let is_size = || networks::dimensions().contains(axis) || context.dimensions.contains(axis);
    own_kind(axis)
        .or_else(|| is_size().then_some(AxisKind::Dimension))
        .or_else(|| factors(context).contains(axis).then_some(AxisKind::Factor))
}

/// Whether a matrix means something else by this name than a size of a model's.
pub(crate) fn is_taken(context: &Context<'_>, name: &str) -> bool {
    own_kind(name).is_some() || factors(context).contains(name)
}

/// What an axis varies whose name is no model's and no engine's to give.
fn own_kind(axis: &str) -> Option<AxisKind> {
    match axis {
        "model" => Some(AxisKind::Model),
        "precision" => Some(AxisKind::Precision),
        "device" => Some(AxisKind::Device),
        "threads" => Some(AxisKind::Threads),
        "optimizer" => Some(AxisKind::Optimizer),
        "strategy" => Some(AxisKind::Strategy),
        "world_size" => Some(AxisKind::WorldSize),
        "engine" => Some(AxisKind::Engine),
        _ => None,
    }
}

/// Every factor that some engine knows.
fn factors(context: &Context<'_>) -> BTreeSet<String> {
    let variants = context
        .world
        .engines
        .iter()
        .flat_map(|engine| &engine.variants);
    variants
        .flat_map(|variant| variant.factors.keys().cloned())
        .collect()
}

fn unknown(context: &mut Context<'_>, axis: &str, steps: &[Step]) {
    let help = match axis {
        "mode" => {
            "`mode` is a key of the job, beside `matrix`: make a job for each mode".to_owned()
        }
        "boundary" => {
            "`boundary` is a key of `measure`: times of different boundaries are never compared"
                .to_owned()
        }
        _ => {
            let (dimensions, factors) = (networks::dimensions(), factors(context));
            let fixed = [
                "model",
                "engine",
                "precision",
                "device",
                "threads",
                "optimizer",
                "strategy",
                "world_size",
            ];
            let known = fixed
                .into_iter()
                .chain(dimensions.iter().map(String::as_str))
                .chain(context.dimensions.iter().map(String::as_str))
                .chain(factors.iter().map(String::as_str));
            suggest::among(axis, known, "known axes")
        }
    };
    context.error_with_help(steps, format!("unknown axis `{axis}`"), help);
}

fn models_axis(
    context: &mut Context<'_>,
    networks: &mut Networks,
    models: &OneOrMany<ModelChoice>,
) -> Option<Axis> {
    let steps = [key("matrix"), key("model")];
    // A file is one model however it is spelt; manifests go on to call it as they spell it.
    let mut files = BTreeMap::new();
    let values = unique(
        context,
        &steps,
        models,
        |context, choice, steps| match choice {
            ModelChoice::Zoo(model, None) => model_value(context, model, steps),
            ModelChoice::Zoo(model, Some(path)) => {
                model_value(context, model, steps)?;
                let checkpoint = user_model::weights(context, networks, path, steps)?;
                let trained = Which::Trained(Rc::new(Trained::new(
                    model,
                    &user_model::plain(path),
                    checkpoint,
                )));
                Some((trained.title().into_owned(), Typed::Model(trained)))
            }
            ModelChoice::Onnx(path) => {
                let model = user_model::open(context, networks, path, steps)?;
                if let Some(before) = files.insert(model.name.clone(), path.clone())
                    && before != *path
                {
                    context.error_with_help(
                        steps,
                        format!("`{path}` is the file `{before}`, which is there already"),
                        "each value makes its own cells: keep one",
                    );
                    return None;
                }
                let dimensions = model.file.dimensions().map(str::to_owned);
                context.dimensions.extend(dimensions);
                Some((path.clone(), Typed::Model(Which::User(model))))
            }
        },
    )?;
    Some(Axis {
        name: "model".into(),
        kind: AxisKind::Model,
        base: values.len(),
        values,
    })
}

fn axis_of(
    context: &mut Context<'_>,
    axis: &str,
    kind: AxisKind,
    values: &OneOrMany<Scalar>,
    steps: &[Step],
) -> Option<Axis> {
    let of_training = match kind {
        AxisKind::Optimizer => Some("an optimiser has no part in inference"),
        AxisKind::Strategy | AxisKind::WorldSize => {
            Some("inference is not spread over workers: strategies are of training")
        }
        _ => None,
    };
    if let Some(reason) = of_training.filter(|_| context.job.mode == Mode::Inference) {
        context.error_with_help(steps, reason, "leave it out, or say `mode: training`");
        return None;
    }
    let beside = match kind {
        AxisKind::Device => context.job.device.is_some(),
        AxisKind::Threads => context.job.threads.is_some(),
        AxisKind::Precision => context.job.precision.is_some(),
        AxisKind::Optimizer => context.job.optimizer.is_some(),
        _ => false,
    };
    if beside {
        context.error_with_help(
            &[name(axis)],
            format!("`{axis}` is an axis of the matrix too"),
            "keep one of the two",
        );
    }
    let values = unique(context, steps, values, |context, value, steps| {
        typed(context, axis, kind, value, steps)
    })?;
    Some(Axis {
        name: axis.to_owned(),
        kind,
        base: values.len(),
        values,
    })
}

/// The values of an axis, each once; `None` if any is wrong.
fn unique<T>(
    context: &mut Context<'_>,
    steps: &[Step],
    values: &OneOrMany<T>,
    mut read: impl FnMut(&mut Context<'_>, &T, &[Step]) -> Option<(String, Typed)>,
) -> Option<Vec<(String, Typed)>> {
    if values.is_empty() {
        context.error_with_help(
            steps,
            "this axis has no values, so the matrix has no cells",
            "name at least one value, or leave the axis out",
        );
        return None;
    }
    let limit = context.world.cell_limit;
    if values.len() > limit {
        context.error_with_help(
            steps,
            format!(
                "{} values bring the plan over the limit of {limit} combinations",
                values.len()
            ),
            "name fewer values or raise the limit with --cell-limit",
        );
        return None;
    }
    let (mut found, mut seen, mut wrong) = (Vec::new(), BTreeMap::new(), false);
    for (index, value) in values.iter().enumerate() {
        if !context.has_room() {
            break;
        }
        let mut steps = steps.to_vec();
        steps.push(Step::Index(index));
        let Some((text, typed)) = read(context, value, &steps) else {
            wrong = true;
            continue;
        };
        if seen.insert(text.clone(), index).is_some() {
            context.error_with_help(
                &steps,
                format!("`{text}` is there twice"),
                "each value makes its own cells: keep one",
            );
            wrong = true;
        }
        found.push((text, typed));
    }
    (!wrong).then_some(found)
}

/// A value of an axis, typed; `None`, and an error noted, when it is wrong.
pub(crate) fn typed(
    context: &mut Context<'_>,
    axis: &str,
    kind: AxisKind,
    value: &Scalar,
    steps: &[Step],
) -> Option<(String, Typed)> {
    match (kind, value) {
        (AxisKind::Dimension, Scalar::Number(size)) => {
            if *size == 0 {
                context.error_with_help(
                    steps,
                    format!("`{axis}` 0 leaves nothing to compute"),
                    "sizes begin at 1",
                );
                return None;
            }
            Some((size.to_string(), Typed::Size(*size)))
        }
        (AxisKind::Threads, Scalar::Number(count)) => {
            let threads = within(context, steps, (*count, THREAD_LIMIT), "threads");
            threads.map(|count| (count.to_string(), Typed::Threads(count)))
        }
        (AxisKind::WorldSize, Scalar::Number(count)) => {
            let workers = within(context, steps, (*count, WORLD_LIMIT), "workers");
            workers.map(|count| (count.to_string(), Typed::WorldSize(count)))
        }
        (AxisKind::Dimension | AxisKind::Threads | AxisKind::WorldSize, Scalar::Word(word)) => {
            context.error_with_help(
                steps,
                format!("expected a whole number, found `{word}`"),
                format!("`{axis}` counts: write it like `8`, without quotes"),
            );
            None
        }
        (AxisKind::Factor, value) => factor_value(context, axis, &value.to_string(), steps),
        (_, Scalar::Number(number)) => {
            context.error(steps, format!("expected a word, found the number {number}"));
            None
        }
        (AxisKind::Model, Scalar::Word(word)) => model_value(context, word, steps),
        (AxisKind::Precision, Scalar::Word(word)) => word_value(
            context,
            "precision",
            word,
            steps,
            Precision::ALL.iter().map(|value| value.word()),
            |word| word.parse().ok().map(Typed::Precision),
        ),
        (AxisKind::Optimizer, Scalar::Word(word)) => word_value(
            context,
            "optimiser",
            word,
            steps,
            OptimizerChoice::NAMES.iter().copied(),
            |word| OptimizerChoice::named(word).map(|choice| Typed::Optimizer(choice.0)),
        ),
        (AxisKind::Strategy, Scalar::Word(word)) => word_value(
            context,
            "strategy",
            word,
            steps,
            Strategy::ALL.iter().map(|value| value.word()),
            |word| word.parse().ok().map(Typed::Strategy),
        ),
        (AxisKind::Device, Scalar::Word(word)) => {
            device(context, word, steps).map(|device| (device.to_string(), Typed::Device(device)))
        }
        (AxisKind::Engine, Scalar::Word(word)) => engine_value(context, word, steps),
    }
}

/// A number of something, of which there may be so many at most; an error is noted when it is none.
fn within(
    context: &mut Context<'_>,
    steps: &[Step],
    (count, limit): (u64, u64),
    what: &str,
) -> Option<u32> {
    let fits = (1..=limit).contains(&count).then_some(count);
    let fits = fits.and_then(|count| u32::try_from(count).ok());
    if fits.is_none() {
        context.error_with_help(
            steps,
            format!("{count} {what} are out of bounds"),
            format!("possible are 1 to {limit}"),
        );
    }
    fits
}

fn word_value<'a>(
    context: &mut Context<'_>,
    what: &str,
    word: &str,
    steps: &[Step],
    known: impl Iterator<Item = &'a str>,
    read: impl Fn(&str) -> Option<Typed>,
) -> Option<(String, Typed)> {
    let found = read(word);
    if found.is_none() {
        context.error_with_help(
            steps,
            format!("unknown {what} `{word}`"),
            suggest::among(word, known, "known are"),
        );
    }
    found.map(|typed| (word.to_owned(), typed))
}

fn model_value(context: &mut Context<'_>, model: &str, steps: &[Step]) -> Option<(String, Typed)> {
    word_value(context, "model", model, steps, networks::names(), |word| {
        networks::names()
            .any(|name| name == word)
            .then(|| Typed::Model(Which::Zoo(word.to_owned())))
    })
}

/// A device; an error is noted when it is none.
pub(crate) fn device(context: &mut Context<'_>, word: &str, steps: &[Step]) -> Option<Device> {
    let device = word.parse().ok();
    if device.is_none() {
        context.error_with_help(
            steps,
            format!("unknown device `{word}`"),
            suggest::among(word, ["cpu", "cuda", "cuda:1"], "known are"),
        );
    }
    device
}

fn factor_value(
    context: &mut Context<'_>,
    factor: &str,
    value: &str,
    steps: &[Step],
) -> Option<(String, Typed)> {
    let variants = context
        .world
        .engines
        .iter()
        .flat_map(|engine| &engine.variants);
    let known: Vec<&String> = variants
        .filter_map(|variant| variant.factors.get(factor))
        .flat_map(|factor| &factor.values)
        .collect();
    if known.iter().any(|known| *known == value) {
        return Some((value.to_owned(), Typed::Factor(value.to_owned())));
    }
    let help = suggest::among(value, known.into_iter().map(String::as_str), "known values");
    context.error_with_help(
        steps,
        format!("unknown value `{value}` of `{factor}`"),
        help,
    );
    None
}

fn engine_value(context: &mut Context<'_>, word: &str, steps: &[Step]) -> Option<(String, Typed)> {
    let world = context.world;
    if let Ok(engine) = word.parse::<EngineVariant>()
        && world.variant(&engine).is_some()
    {
        return Some((engine.to_string(), Typed::Engine(engine)));
    }
    let (name, variant) = word
        .split_once('/')
        .map_or((word, None), |(name, variant)| (name, Some(variant)));
    let Some(engine) = world.engines.iter().find(|engine| engine.name == name) else {
        let names = world.engines.iter().map(|engine| engine.name.as_str());
        context.error_with_help(
            steps,
            format!("unknown engine `{name}`"),
            suggest::among(name, names, "known engines"),
        );
        return None;
    };
    let choices: Vec<String> = engine
        .variants
        .iter()
        .map(|variant| format!("{}/{}", engine.name, variant.name))
        .collect();
    let choices = choices.iter().map(String::as_str);
    let (message, help) = match variant {
        None => (
            format!("`{name}` is an engine without its variant"),
            suggest::among(word, choices, "write one of"),
        ),
        Some(variant) => (
            format!("the engine `{name}` has no variant `{variant}`"),
            suggest::among(word, choices, "its variants"),
        ),
    };
    context.error_with_help(steps, message, help);
    None
}
