//! What a cell asks of TensorFlow, checked and in its words.

use std::env;

use models::rewrite::{DROPOUT, RECURRENT};
use schema::{Cell, Device, Mode, Optimizer, Outcome, Precision};

use crate::{
    failure::{unavailable, unsupported},
    tensors::Float,
};

/// The name of the engine in manifests.
pub(crate) const ENGINE: &str = "tensorflow";

/// The factor that decides whether weights are constants of the graph.
const WEIGHTS: &str = "weights";

/// The factor that decides whether weights stay in fp32 while operators compute in bf16.
const MIXED_PRECISION: &str = "mixed_precision";

/// The variable by which TensorFlow is told whether to compute with oneDNN.
pub(crate) const ONEDNN: &str = "TF_ENABLE_ONEDNN_OPTS";

/// Every factor. Whether recurrent layers are spelt out, and whether dropout drops, is seen to in the
/// graph that comes.
const FACTORS: [&str; 4] = [DROPOUT, MIXED_PRECISION, RECURRENT, WEIGHTS];

/// A cell, understood.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Configuration {
    /// What XLA compiles.
    pub(crate) compilation: Compilation,
    /// Element type of weights, inputs and outputs; of activations, too, unless precision is mixed.
    pub(crate) float: Float,
    /// Whether TensorFlow has operators compute in bf16 where it thinks that safe.
    pub(crate) mixes_precision: bool,
    /// Threads of one operator.
    pub(crate) threads: i32,
    /// Where the weights are.
    pub(crate) weights: Weights,
    /// The optimiser, when training.
    pub(crate) optimizer: Option<Optimizer>,
    /// Whether each step begins and ends in the caller's memory.
    pub(crate) takes_requests: bool,
}

/// What XLA compiles: the variants of this worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compilation {
    /// Nothing.
    None,
    /// The whole step.
    Whole,
    /// Clusters of operators, as TensorFlow chooses them.
    Clusters,
}

impl Compilation {
    /// Every one.
    pub(crate) const ALL: [Self; 3] = [Self::None, Self::Whole, Self::Clusters];

    /// The variant that it is.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::None => "graph",
            Self::Whole => "xla",
            Self::Clusters => "xla-auto",
        }
    }
}

/// Where the weights are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weights {
    /// As is best for what the cell does: frozen for inference without XLA, if they fit into a
    /// graph, each as often as it is applied.
    Auto,
    /// Constants of the graph, which TensorFlow may fold into each other.
    Frozen,
    /// Variables, read in each step.
    Variables,
}

impl Configuration {
    /// Understands `cell`, or says what of it this worker does not run.
    pub(crate) fn of(cell: &Cell) -> Result<Self, Outcome> {
        let compilation = compilation(cell)?;
        worker::check_drive(cell, worker::BY_HOST, worker::ALONE)?;
        if let Device::Cuda(_) = cell.device {
            return Err(unavailable(format!(
                "the installed TensorFlow is built for the CPU; the device is {}",
                cell.device
            )));
        }
        let threads = worker::threads(cell)?;
        let mixes_precision = mixes_precision(cell, compilation, env::var(ONEDNN).ok())?;
        Ok(Self {
            compilation,
            float: if mixes_precision {
                Float::F32
            } else {
                float(cell.precision)?
            },
            mixes_precision,
            threads,
            weights: weights(cell)?,
            optimizer: worker::optimizer(cell)?,
            takes_requests: worker::takes_requests(cell),
        })
    }
}

fn compilation(cell: &Cell) -> Result<Compilation, Outcome> {
    let known = Compilation::ALL
        .into_iter()
        .find(|compilation| compilation.word() == cell.engine.variant);
    match known {
        Some(compilation) if cell.engine.engine == ENGINE => Ok(compilation),
        _ => Err(unsupported(format!(
            "this worker runs {}, not {}",
            Compilation::ALL
                .map(|known| format!("{ENGINE}/{}", known.word()))
                .join(", "),
            cell.engine
        ))),
    }
}

fn float(precision: Precision) -> Result<Float, Outcome> {
    match precision {
        Precision::Fp64 => Ok(Float::F64),
        Precision::Fp32 => Ok(Float::F32),
        Precision::Tf32 => Err(unsupported(
            "tf32 is an arithmetic of NVIDIA GPUs; the device is cpu",
        )),
        Precision::Bf16 => Err(unsupported(format!(
            "{ENGINE} is run in bf16 by mixed precision alone: give `{MIXED_PRECISION}: on`"
        ))),
        Precision::Fp16 | Precision::Int8Dynamic | Precision::Int8Static => Err(unsupported(
            format!("{ENGINE} is not run in {precision} here"),
        )),
    }
}

/// Whether precision is mixed, which only a processor with bf16 can be asked for, and only where the
/// pass of Grappler's that does it runs: elsewhere TensorFlow would go on in fp32, whose outputs are
/// within the bounds of bf16. `onednn` is what [`ONEDNN`] is set to.
fn mixes_precision(
    cell: &Cell,
    compilation: Compilation,
    onednn: Option<String>,
) -> Result<bool, Outcome> {
    match cell.factors.get(MIXED_PRECISION).map(String::as_str) {
        None | Some("off") => return Ok(false),
        Some("on") => {}
        Some(other) => {
            return Err(unsupported(format!(
                "{MIXED_PRECISION} is `{other}`; known: `off`, `on`"
            )));
        }
    }
    if cell.precision != Precision::Bf16 {
        return Err(unsupported(format!(
            "mixed precision computes in bf16, and {} is asked for: give `precision: bf16`",
            cell.precision
        )));
    }
    if compilation == Compilation::Whole {
        return Err(unsupported(
            "precision is mixed by Grappler, which leaves alone what XLA compiles as a whole, and TensorFlow would \
             compute in fp32; `tensorflow/graph` and `tensorflow/xla-auto` are run so",
        ));
    }
    if let Some(value) = onednn.filter(|value| is_off(value)) {
        return Err(unsupported(format!(
            "{ONEDNN}={value} turns off oneDNN, for which alone TensorFlow mixes in bf16, and it would \
             compute in fp32: unset it"
        )));
    }
    if !std::arch::is_x86_feature_detected!("avx512bf16") {
        return Err(unsupported(
            "this processor has no instructions for bf16 (AVX512_BF16), and TensorFlow would compute in fp32",
        ));
    }
    Ok(true)
}

/// Whether TensorFlow reads a switch of the environment as off (`ReadBoolFromEnvVar`).
fn is_off(value: &str) -> bool {
    ["0", "false"].contains(&value.to_ascii_lowercase().as_str())
}

fn weights(cell: &Cell) -> Result<Weights, Outcome> {
    let is_unknown = |name: &&String| !FACTORS.contains(&name.as_str());
    if let Some(name) = cell.factors.keys().find(is_unknown) {
        return Err(unsupported(format!(
            "factor `{name}` is not known to {}; known: `{}`",
            cell.engine,
            FACTORS.join("`, `")
        )));
    }
    match (cell.factors.get(WEIGHTS).map(String::as_str), cell.mode) {
        (None | Some("auto"), _) => Ok(Weights::Auto),
        (Some("variables"), _) => Ok(Weights::Variables),
        (Some("frozen"), Mode::Inference) => Ok(Weights::Frozen),
        (Some("frozen"), Mode::Training) => Err(unsupported("frozen weights cannot be trained")),
        (Some(other), _) => Err(unsupported(format!(
            "{WEIGHTS} is `{other}`; known: `auto`, `frozen`, `variables`"
        ))),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use schema::OutcomeKind;

    use super::*;

    /// A cell that this worker runs.
    pub(crate) fn cell() -> Cell {
        let graph = models::sample::perceptron(1).unwrap();
        Cell::plain(&graph, "tensorflow/graph".parse().unwrap())
    }

    #[test]
    fn weights_are_frozen_only_where_nothing_trains_them() {
        let mut cell = cell();
        assert_eq!(weights(&cell), Ok(Weights::Auto));
        cell.factors.insert(WEIGHTS.to_owned(), "frozen".to_owned());
        assert_eq!(weights(&cell), Ok(Weights::Frozen));
        cell.mode = Mode::Training;
        let outcome = weights(&cell).unwrap_err();
        assert_eq!(outcome.kind, OutcomeKind::Unsupported);
        cell.factors.insert(WEIGHTS.to_owned(), "thawed".to_owned());
        assert!(weights(&cell).unwrap_err().reason.contains("thawed"));
    }

    #[test]
    fn precision_is_mixed_in_bf16_alone() {
        let mut cell = cell();
        let refused = |cell: &Cell| Configuration::of(cell).unwrap_err().reason;
        cell.factors
            .insert(MIXED_PRECISION.to_owned(), "on".to_owned());
        assert!(refused(&cell).contains("give `precision: bf16`"));
        cell.precision = Precision::Bf16;
        for variant in ["graph", "xla-auto"] {
            cell.engine.variant = variant.to_owned();
            match Configuration::of(&cell) {
                Ok(configuration) => {
                    assert!(configuration.mixes_precision);
                    assert_eq!(configuration.float, Float::F32);
                }
                Err(outcome) => assert!(outcome.reason.contains("compute in fp32"), "{outcome:?}"),
            }
        }
        cell.engine.variant = "xla".to_owned();
        assert!(refused(&cell).contains("Grappler"));
        cell.engine.variant = "graph".to_owned();
        cell.factors
            .insert(MIXED_PRECISION.to_owned(), "off".to_owned());
        assert!(refused(&cell).contains("give `mixed_precision: on`"));
        cell.factors
            .insert(MIXED_PRECISION.to_owned(), "half".to_owned());
        assert!(refused(&cell).contains("`half`"));
    }

    #[test]
    fn precision_is_not_mixed_without_onednn() {
        let mut cell = cell();
        cell.precision = Precision::Bf16;
        let on = (MIXED_PRECISION.to_owned(), "on".to_owned());
        cell.factors.extend([on]);
        let ask = |value: Option<&str>| {
            mixes_precision(&cell, Compilation::None, value.map(str::to_owned))
        };
        let usual = ask(None);
        for value in ["0", "false", "False"] {
            let outcome = ask(Some(value)).unwrap_err();
            assert_eq!(outcome.kind, OutcomeKind::Unsupported);
            let said = format!("{ONEDNN}={value}");
            assert!(outcome.reason.contains(&said), "{}", outcome.reason);
        }
        for value in ["1", "true"] {
            assert_eq!(ask(Some(value)), usual);
        }
    }

    #[test]
    fn variants_are_known_by_their_words() {
        let mut cell = cell();
        for known in Compilation::ALL {
            cell.engine.variant = known.word().to_owned();
            assert_eq!(compilation(&cell), Ok(known));
        }
        cell.engine.variant = "eager".to_owned();
        let outcome = compilation(&cell).unwrap_err();
        assert!(outcome.reason.contains("tensorflow/eager"), "{outcome:?}");
    }
}
