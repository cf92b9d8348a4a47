//! What a cell asks of PyTorch, checked and in its words.

use models::{
    quantise, rewrite,
    zoo::{AUTOTUNE, LAYOUT},
};
use schema::{
    ACCUMULATION, Boundary, Cell, Mode, Optimizer, Outcome, Precision, SCALING, Strategy,
};
use tch::Kind;
use worker::{ALLOCATOR, Allocator, SPIN};

use crate::{
    failure::unsupported,
    ranks::{self, Compression, Exchanging, USUAL_BUCKET_MIB},
};

/// The name of the engine in manifests.
pub(crate) const ENGINE: &str = "pytorch";

/// Operator by operator.
pub(crate) const EAGER: &str = "eager";

/// Compiled by AOTInductor.
const AOT: &str = "aot";

/// The variants of this worker.
pub(crate) const VARIANTS: [&str; 2] = [EAGER, AOT];

/// Every factor. What is fused, what is spelt out, what drops and what is rounded is decided in the
/// graph that comes.
const FACTORS: [&str; 17] = [
    ACCUMULATION,
    ALLOCATOR,
    rewrite::ATTENTION,
    AUTOTUNE,
    BUCKET,
    quantise::CALIBRATION,
    rewrite::DROPOUT,
    BUCKET_VIEWS,
    COMPRESSION,
    quantise::GRID,
    LAYOUT,
    MIXED_PRECISION,
    rewrite::RECURRENT,
    SCALING,
    SPIN,
    STATIC_GRAPH,
    quantise::WEIGHT_BITS,
];

/// Whether weights stay in fp32.
const MIXED_PRECISION: &str = "mixed_precision";

/// The factors of the reducer.
const BUCKET: &str = "bucket_mib";
const BUCKET_VIEWS: &str = "gradient_as_bucket_view";
const COMPRESSION: &str = "gradient_compression";
const STATIC_GRAPH: &str = "static_graph";

/// The size of a bucket that is searched for before the first step.
const SEARCHED: &str = "auto";

/// A cell, understood.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Configuration {
    /// Whether AOTInductor compiles the network.
    pub(crate) compiled: bool,
    /// Element type of weights and activations.
    pub(crate) kind: Kind,
    /// Whether operators compute in bfloat16 under autocast, whatever weights are.
    pub(crate) autocast: bool,
    /// Whether products of binary32 may be rounded to TF32.
    pub(crate) tf32: bool,
    /// Whether cuDNN tries every algorithm of a convolution and keeps the fastest; `None` on a CPU,
    /// which has no cuDNN.
    pub(crate) autotune: Option<bool>,
    /// Whether images lie in memory with channels last.
    pub(crate) channels_last: bool,
    /// Threads of one operator.
    pub(crate) threads: i32,
    /// Whether idle threads sleep at once, or as libgomp has it by default; `None` where the cell leaves
    /// that to the environment.
    pub(crate) sleeps: Option<bool>,
    /// The optimiser, when training.
    pub(crate) optimizer: Option<Optimizer>,
    /// Where the clock of a step starts and stops.
    pub(crate) boundary: Boundary,
    /// How the batch is spread.
    pub(crate) strategy: Strategy,
    /// Over how many workers.
    pub(crate) workers: u32,
    /// In how many parts, one after another, each of them runs its share.
    pub(crate) passes: u32,
    /// How ranks exchange gradients.
    pub(crate) exchanging: Exchanging,
    /// Whether the size of a bucket is searched for before the first step.
    pub(crate) searches_bucket: bool,
}

impl Configuration {
    /// Understands `cell`, or says what of it this worker does not run.
    pub(crate) fn of(cell: &Cell) -> Result<Self, Outcome> {
        let variant = cell.engine.variant.as_str();
        if cell.engine.engine != ENGINE || !VARIANTS.contains(&variant) {
            return Err(unsupported(format!(
                "this worker runs {ENGINE}/{}, not {}",
                VARIANTS.join(&format!(" and {ENGINE}/")),
                cell.engine
            )));
        }
        let strategies = if variant == EAGER {
            Strategy::ALL
        } else {
            worker::ALONE
        };
        worker::check_drive(cell, Boundary::ALL, strategies)?;
        quantise::check(cell).map_err(unsupported)?;
        let threads = worker::threads(cell)?;
        check_factors(cell)?;
        Allocator::without_arena(cell)?;
        let autocast = autocast(cell)?;
        Ok(Self {
            compiled: variant == AOT,
            kind: if autocast { Kind::Float } else { kind(cell)? },
            autocast,
            tf32: cell.precision == Precision::Tf32,
            autotune: autotune(cell, variant)?,
            channels_last: worker::choice(cell, LAYOUT, ["nchw", "channels_last"])?,
            threads,
            sleeps: sleeps(cell, variant)?,
            optimizer: worker::optimizer(cell)?,
            boundary: cell.boundary,
            strategy: cell.strategy,
            workers: cell.world_size,
            passes: passes(cell)?,
            exchanging: exchanging(cell)?,
            searches_bucket: cell.factors.get(BUCKET).is_some_and(|it| it == SEARCHED),
        })
    }
}

/// The passes of a step, of which all but one exchange nothing.
fn passes(cell: &Cell) -> Result<u32, Outcome> {
    let asked = cell.factors.get(ACCUMULATION).map_or("1", String::as_str);
    let passes = asked.parse().ok().filter(|&passes| passes > 0);
    let passes = passes.ok_or_else(|| {
        unsupported(format!(
            "{ACCUMULATION} is `{asked}`; known: whole numbers from 1 on"
        ))
    })?;
    if passes == 1 {
        return Ok(passes);
    }
    let by = cell.strategy;
    let is_run = cell.mode == Mode::Training && by != Strategy::DataParallel;
    if !is_run || cell.engine.variant == AOT {
        let (engine, mode) = (&cell.engine, cell.mode);
        return Err(unsupported(format!(
            "`{ACCUMULATION}` is about training by {ENGINE}/{EAGER}, in one process or by `ddp`; this is {mode} on \
             {engine} by `{by}`"
        )));
    }
    if cell.strategy == Strategy::Ddp && worker::choice(cell, STATIC_GRAPH, ["off", "on"])? {
        // PyTorch exchanges the first iteration of such a graph after its first pass.
        return Err(unsupported(format!(
            "`{STATIC_GRAPH}: on` is a promise that gradients of each pass are exchanged"
        )));
    }
    Ok(passes)
}

fn exchanging(cell: &Cell) -> Result<Exchanging, Outcome> {
    let of_ddp = [BUCKET, BUCKET_VIEWS, COMPRESSION, STATIC_GRAPH];
    let is_asked = |factor: &&str| cell.factors.contains_key(*factor);
    if cell.strategy != Strategy::Ddp
        && let Some(factor) = of_ddp.iter().find(|factor| is_asked(factor))
    {
        let strategy = cell.strategy;
        return Err(unsupported(format!(
            "`{factor}` is about how ranks of `ddp` exchange gradients; the strategy is `{strategy}`"
        )));
    }
    let value = |factor: &str| cell.factors.get(factor).map(String::as_str);
    let bucket_mib = bucket(value(BUCKET))?;
    let compression = match value(COMPRESSION) {
        None | Some("none") => Compression::None,
        Some("fp16") => Compression::Fp16,
        Some("bf16") => Compression::Bf16,
        Some(other) => {
            return Err(unsupported(format!(
                "{COMPRESSION} is `{other}`; known: `none`, `fp16`, `bf16`"
            )));
        }
    };
    Ok(Exchanging {
        bucket_mib: ranks::asked(bucket_mib),
        bucket_views: worker::choice(cell, BUCKET_VIEWS, ["off", "on"])?,
        static_graph: worker::choice(cell, STATIC_GRAPH, ["off", "on"])?,
        compression,
    })
}

/// How many MiB a bucket holds, at first where that is searched for.
fn bucket(asked: Option<&str>) -> Result<u32, Outcome> {
    let Some(asked) = asked.filter(|asked| *asked != SEARCHED) else {
        return Ok(USUAL_BUCKET_MIB);
    };
    let known = asked.parse().ok().filter(|mib| (1..=4096).contains(mib));
    known.ok_or_else(|| {
        unsupported(format!(
            "{BUCKET} is `{asked}`; known: `{SEARCHED}`, and whole numbers from 1 to 4096"
        ))
    })
}

fn autocast(cell: &Cell) -> Result<bool, Outcome> {
    let mixes = worker::choice(cell, MIXED_PRECISION, ["off", "on"])?;
    if mixes && cell.precision != Precision::Bf16 {
        return Err(unsupported(format!(
            "`{MIXED_PRECISION}: on` keeps weights in fp32 and computes in bf16: ask for precision bf16"
        )));
    }
    if mixes && cell.engine.variant == AOT {
        return Err(unsupported(format!(
            "`{MIXED_PRECISION}` is for {ENGINE}/{EAGER}, not {}",
            cell.engine
        )));
    }
    Ok(mixes)
}

fn kind(cell: &Cell) -> Result<Kind, Outcome> {
    match cell.precision {
        Precision::Fp64 => Ok(Kind::Double),
        Precision::Fp32 => Ok(Kind::Float),
        // A simulation, for parity alone: grids in floats, and in double precision, since sums of
        // integers are exact.
        Precision::Int8Dynamic | Precision::Int8Static if cell.mode == Mode::Training => {
            Err(unsupported(format!("{} is for inference", cell.precision)))
        }
        Precision::Int8Dynamic | Precision::Int8Static => Ok(Kind::Double),
        Precision::Bf16 => Ok(Kind::BFloat16),
        Precision::Fp16 => Ok(Kind::Half),
        Precision::Tf32 if cell.device.is_cpu() => Err(unsupported(
            "tf32 is an arithmetic of NVIDIA GPUs; the device is cpu",
        )),
        Precision::Tf32 => Ok(Kind::Float),
    }
}

fn check_factors(cell: &Cell) -> Result<(), Outcome> {
    let is_unknown = |name: &&String| !FACTORS.contains(&name.as_str());
    if let Some(name) = cell.factors.keys().find(is_unknown) {
        return Err(unsupported(format!(
            "factor `{name}` is not known to {}; known: `{}`",
            cell.engine,
            FACTORS.join("`, `")
        )));
    }
    Ok(())
}

fn autotune(cell: &Cell, variant: &str) -> Result<Option<bool>, Outcome> {
    let is_asked = cell.factors.contains_key(AUTOTUNE);
    if is_asked && cell.device.is_cpu() {
        return Err(unsupported(format!(
            "`{AUTOTUNE}` is about cuDNN's convolutions; the device is cpu"
        )));
    }
    if is_asked && variant == AOT {
        return Err(unsupported(format!(
            "`{AUTOTUNE}` is for {ENGINE}/{EAGER}, not {}",
            cell.engine
        )));
    }
    let tries = worker::choice(cell, AUTOTUNE, ["off", "on"])?;
    Ok((!cell.device.is_cpu()).then_some(tries))
}

/// Whether idle threads are to sleep at once; `None` where nobody asks.
fn sleeps(cell: &Cell, variant: &str) -> Result<Option<bool>, Outcome> {
    if !cell.factors.contains_key(SPIN) {
        return Ok(None);
    }
    if !cell.device.is_cpu() {
        return Err(unsupported(format!(
            "`{SPIN}` is about threads that compute on a CPU; the device is {}",
            cell.device
        )));
    }
    if variant == AOT {
        return Err(unsupported(format!(
            "`{SPIN}` is for {ENGINE}/{EAGER}, not {}",
            cell.engine
        )));
    }
    worker::choice(cell, SPIN, ["default", "off"]).map(Some)
}

#[cfg(test)]
mod tests {
    use schema::Device;

    use super::*;

    fn cell(variant: &str, device: Device, factor: &str, asked: Option<&str>) -> Cell {
        let graph = models::sample::perceptron(1).unwrap();
        let engine = format!("{ENGINE}/{variant}").parse().unwrap();
        let asked = asked.map(|value| (factor.to_owned(), value.to_owned()));
        Cell {
            device,
            host_language: schema::HostLanguage::Rust,
            factors: asked.into_iter().collect(),
            ..Cell::plain(&graph, engine)
        }
    }

    #[test]
    fn cudnn_tries_its_algorithms_where_it_is_there_and_asked_to() {
        let asked = |variant, device, value| {
            let configuration = Configuration::of(&cell(variant, device, AUTOTUNE, value));
            configuration.map(|known| known.autotune)
        };
        let gpu = Device::Cuda(0);
        assert_eq!(asked(EAGER, Device::Cpu, None), Ok(None));
        assert_eq!(asked(EAGER, gpu, None), Ok(Some(false)));
        assert_eq!(asked(EAGER, gpu, Some("off")), Ok(Some(false)));
        assert_eq!(asked(EAGER, gpu, Some("on")), Ok(Some(true)));
        assert_eq!(asked(AOT, gpu, None), Ok(Some(false)));
        for (variant, device, value, named) in [
            (EAGER, Device::Cpu, "off", "the device is cpu"),
            (EAGER, gpu, "maybe", "autotune is `maybe`"),
            (AOT, gpu, "on", "pytorch/aot"),
        ] {
            let outcome = asked(variant, device, Some(value)).unwrap_err();
            assert_eq!(outcome.kind, schema::OutcomeKind::Unsupported);
            assert!(outcome.reason.contains(named), "{}", outcome.reason);
        }
    }

    #[test]
    fn idle_threads_of_a_cpu_sleep_where_they_are_asked_to() {
        let asked = |variant, device, value| {
            let configuration = Configuration::of(&cell(variant, device, SPIN, value));
            configuration.map(|known| known.sleeps)
        };
        assert_eq!(asked(EAGER, Device::Cpu, None), Ok(None));
        assert_eq!(asked(AOT, Device::Cpu, None), Ok(None));
        assert_eq!(asked(EAGER, Device::Cpu, Some("default")), Ok(Some(false)));
        assert_eq!(asked(EAGER, Device::Cpu, Some("off")), Ok(Some(true)));
        for (variant, device, value, named) in [
            (EAGER, Device::Cuda(0), "off", "the device is cuda:0"),
            (
                EAGER,
                Device::Cpu,
                "on",
                "spin is `on`; known: `default`, `off`",
            ),
            (AOT, Device::Cpu, "off", "pytorch/aot"),
        ] {
            let outcome = asked(variant, device, Some(value)).unwrap_err();
            assert_eq!(outcome.kind, schema::OutcomeKind::Unsupported);
            assert!(outcome.reason.contains(named), "{}", outcome.reason);
        }
    }
}
