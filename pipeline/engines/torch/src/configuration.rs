//! What a cell asks of PyTorch, checked and in its words.

use models::{quantise, rewrite, zoo::LAYOUT};
use schema::{Cell, Mode, Optimizer, Outcome, Precision};
use tch::Kind;

use crate::failure::unsupported;

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
const FACTORS: [&str; 6] = [
    rewrite::ATTENTION,
    quantise::CALIBRATION,
    rewrite::DROPOUT,
    quantise::GRID,
    LAYOUT,
    rewrite::RECURRENT,
];

/// A cell, understood.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Configuration {
    /// Whether AOTInductor compiles the network.
    pub(crate) compiled: bool,
    /// Element type of weights and activations.
    pub(crate) kind: Kind,
    /// Whether products of binary32 may be rounded to TF32.
    pub(crate) tf32: bool,
    /// Whether images lie in memory with channels last.
    pub(crate) channels_last: bool,
    /// Threads of one operator.
    pub(crate) threads: i32,
    /// The optimiser, when training.
    pub(crate) optimizer: Option<Optimizer>,
    /// Whether each step begins and ends in the caller's memory.
    pub(crate) takes_requests: bool,
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
        worker::check_drive(cell)?;
        quantise::check(cell).map_err(unsupported)?;
        let threads = worker::threads(cell)?;
        Ok(Self {
            compiled: variant == AOT,
            kind: kind(cell)?,
            tf32: cell.precision == Precision::Tf32,
            channels_last: channels_last(cell)?,
            threads,
            optimizer: worker::optimizer(cell)?,
            takes_requests: worker::takes_requests(cell),
        })
    }
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

fn channels_last(cell: &Cell) -> Result<bool, Outcome> {
    let is_unknown = |name: &&String| !FACTORS.contains(&name.as_str());
    if let Some(name) = cell.factors.keys().find(is_unknown) {
        return Err(unsupported(format!(
            "factor `{name}` is not known to {}; known: `{}`",
            cell.engine,
            FACTORS.join("`, `")
        )));
    }
    match cell.factors.get(LAYOUT).map(String::as_str) {
        None | Some("nchw") => Ok(false),
        Some("channels_last") => Ok(true),
        Some(other) => Err(unsupported(format!(
            "{LAYOUT} is `{other}`; known: `nchw`, `channels_last`"
        ))),
    }
}
