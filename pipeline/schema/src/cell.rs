//! A cell: one fully resolved configuration, nothing implicit.

use std::{borrow::Cow, collections::BTreeMap, fmt, str::FromStr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Digest, Graph};

/// One fully resolved configuration: what a worker is asked to run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    /// The network.
    pub model: Model,
    /// Named dimensions, for example `batch`, `image`, `seq`.
    pub dims: BTreeMap<String, u64>,
    /// Arithmetic of weights and activations.
    pub precision: Precision,
    /// Inference or training.
    pub mode: Mode,
    /// The optimiser and its settings; present exactly when training.
    pub optimizer: Option<Optimizer>,
    /// Engine and variant.
    pub engine: EngineVariant,
    /// The language that drives the engine step by step.
    pub host_language: HostLanguage,
    /// Where it runs.
    pub device: Device,
    /// Threads that the engine may use for one operator.
    pub threads: u32,
    /// How training is spread over workers.
    pub strategy: Strategy,
    /// Into how many equal parts the batch of a step falls: ranks of `ddp`, replicas of `data_parallel`.
    pub world_size: u32,
    /// Where the clock starts and stops.
    pub boundary: Boundary,
    /// Every other switch, by name, its default included.
    pub factors: BTreeMap<String, String>,
}

impl Cell {
    /// The plainest cell of a network of the zoo on an engine driven from Rust: inference in fp32 on
    /// the CPU with one thread, every switch at its default. What a cell has otherwise is put in.
    #[must_use]
    pub fn plain(graph: &Graph, engine: EngineVariant) -> Self {
        Self {
            model: Model {
                name: graph.name.clone(),
                source: ModelSource::Zoo,
                graph: Digest::of_value(graph),
                weights: None,
            },
            dims: BTreeMap::new(),
            precision: Precision::Fp32,
            mode: Mode::Inference,
            optimizer: None,
            engine,
            host_language: HostLanguage::Rust,
            device: Device::Cpu,
            threads: 1,
            strategy: Strategy::Single,
            world_size: 1,
            boundary: Boundary::Step,
            factors: BTreeMap::new(),
        }
    }

    /// The cell's identity: the hash of all of its fields.
    #[must_use]
    pub fn id(&self) -> CellId {
        CellId(Digest::of_value(self).short())
    }

    /// What decides which switches have a part in it.
    #[must_use]
    pub const fn situation(&self) -> Situation {
        Situation {
            precision: self.precision,
            mode: self.mode,
            device: self.device,
            strategy: self.strategy,
        }
    }

    /// The batch size; 1 where the model has no such dimension.
    #[must_use]
    pub fn batch(&self) -> u64 {
        self.dims.get(BATCH).copied().unwrap_or(1)
    }

    /// Samples of a step, those of all ranks and replicas together: the batch, or, where each part has
    /// one of its own ([`SCALING`]), as many batches as there are parts.
    #[must_use]
    pub fn samples(&self) -> u64 {
        match self.scales_weakly() {
            true => self.batch().saturating_mul(self.world_size.into()),
            false => self.batch(),
        }
    }

    /// How often the network is run in a step by each worker, one time after another: into so many equal parts
    /// its share of the batch falls ([`ACCUMULATION`]).
    #[must_use]
    pub fn passes(&self) -> u32 {
        let asked = self.factors.get(ACCUMULATION);
        let asked = asked.and_then(|parts| parts.parse().ok());
        asked.unwrap_or(1)
    }

    /// Into how many equal parts the batch falls: those of all ranks or replicas, each in so many passes.
    #[must_use]
    pub fn parts(&self) -> u32 {
        let workers = match self.strategy == Strategy::Single || self.scales_weakly() {
            true => 1,
            false => self.world_size,
        };
        workers.saturating_mul(self.passes())
    }

    /// The dimensions of the network that is run in a pass; `None` where the batch does not fall into so
    /// many equal parts ([`Cell::parts`]).
    #[must_use]
    pub fn part_dims(&self) -> Option<BTreeMap<String, u64>> {
        let (mut dims, parts) = (self.dims.clone(), u64::from(self.parts()));
        if parts != 1 {
            let batch = dims.get_mut(BATCH)?;
            if batch.checked_rem(parts)? != 0 {
                return None;
            }
            *batch /= parts;
        }
        Some(dims)
    }

    /// How many parts of a batch are computed at once, each on a device of its own where devices are GPUs.
    #[must_use]
    pub const fn at_once(&self) -> u32 {
        match self.strategy {
            Strategy::Single | Strategy::Accumulated => 1,
            Strategy::DataParallel | Strategy::Ddp => self.world_size,
        }
    }

    fn scales_weakly(&self) -> bool {
        self.strategy != Strategy::Single
            && self.factors.get(SCALING).is_some_and(|value| value == WEAK)
    }

    /// One line that names the cell to a reader, for example
    /// `resnet18 batch=1 image=224 fp32 inference on pytorch/eager, cpu, 2 threads`.
    #[must_use]
    pub fn describe(&self) -> String {
        let dims: String = self
            .dims
            .iter()
            .map(|(name, size)| format!(" {name}={size}"))
            .collect();
        let plural = if self.threads == 1 { "" } else { "s" };
        let parts = match self.strategy {
            Strategy::Single => String::new(),
            strategy => format!(", {strategy} in {}", self.world_size),
        };
        format!(
            "{}{dims} {} {} on {}, {}, {} thread{plural}{parts}",
            self.model.title(),
            self.precision,
            self.mode,
            self.engine,
            self.device,
            self.threads
        )
    }

    /// [`describe`](Self::describe) with the optimiser, its settings and the factors.
    #[must_use]
    pub fn describe_whole(&self) -> String {
        let mut text = self.describe();
        let mut tell = |name: &str, value: &dyn fmt::Display| {
            text.push_str(&format!(" {name}={value}"));
        };
        if let Some(optimizer) = &self.optimizer {
            tell("optimizer", &optimizer.name());
            for (setting, value) in optimizer.settings() {
                tell(setting, &value);
            }
        }
        for (factor, value) in &self.factors {
            tell(factor, value);
        }
        text
    }
}

/// What decides which switches of a variant have a part in a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Situation {
    /// Arithmetic of weights and activations.
    pub precision: Precision,
    /// Inference or training.
    pub mode: Mode,
    /// Where it runs.
    pub device: Device,
    /// How training is spread over workers.
    pub strategy: Strategy,
}

/// The dimension that counts samples.
pub const BATCH: &str = "batch";

/// The factor that says in how many parts, one after another, a worker runs its share of a batch: their gradients add
/// up, and are exchanged once.
pub const ACCUMULATION: &str = "gradient_accumulation";

/// The factor that says whose the batch is when ranks or replicas share a step: that of the whole step
/// (`strong`), of which the more parts there are the less each has to do, unless it is [`WEAK`].
pub const SCALING: &str = "scaling";

/// The value of [`SCALING`] by which every part has a batch of its own: the more parts, the more a step
/// does.
pub const WEAK: &str = "weak";

/// Twelve hexadecimal digits that identify a cell.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct CellId(pub String);

impl fmt::Display for CellId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A network: a name, and the hash of the graph that it stands for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// The zoo's name, or the path of the user's file in the manifest's folder.
    pub name: String,
    /// Where it came from.
    pub source: ModelSource,
    /// The hash of the resolved graph (zoo), or of the file's content (ONNX).
    pub graph: Digest,
    /// The user's weights for a network of the zoo; without them its weights are random.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<Weights>,
}

impl Model {
    /// What it is called in pages and plans: [`Model::title_of`].
    #[must_use]
    pub fn title(&self) -> Cow<'_, str> {
        let weights = self.weights.as_ref().map(|weights| weights.path.as_str());
        Self::title_of(&self.name, weights)
    }

    /// The title of a model with this name: `resnet18`, or `resnet18@trained.safetensors` where
    /// weights are given. It is the value of the `model` axis.
    #[must_use]
    pub fn title_of<'a>(name: &'a str, weights: Option<&str>) -> Cow<'a, str> {
        match weights {
            None => Cow::Borrowed(name),
            Some(weights) => Cow::Owned(format!("{name}@{weights}")),
        }
    }
}

/// A file of weights.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Weights {
    /// Its path in the manifest's folder.
    pub path: String,
    /// The hash of its content.
    pub content: Digest,
}

/// Where a network came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ModelSource {
    /// The zoo that ships with photofinish.
    Zoo,
    /// An ONNX file of the user's.
    Onnx,
}

macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        pub enum $name {
            $($(#[$variant_meta])* #[serde(rename = $word)] $variant,)+
        }

        impl $name {
            /// Every value, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The word used in manifests, files and pages.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.word())
            }
        }

        impl FromStr for $name {
            type Err = UnknownWord;

            fn from_str(text: &str) -> Result<Self, UnknownWord> {
                Self::ALL
                    .iter()
                    .copied()
                    .find(|value| value.word() == text)
                    .ok_or_else(|| UnknownWord(text.to_owned()))
            }
        }
    };
}

/// A word that is none of an enumeration's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown word `{0}`")]
pub struct UnknownWord(pub String);

words! {
    /// Arithmetic of weights and activations.
    Precision {
        /// IEEE binary64: the reference of parity, never a contestant on a GPU.
        Fp64 = "fp64",
        /// IEEE binary32.
        Fp32 = "fp32",
        /// Binary32 with multiplicands rounded to 10 bits of mantissa (NVIDIA tensor cores).
        Tf32 = "tf32",
        /// bfloat16.
        Bf16 = "bf16",
        /// IEEE binary16.
        Fp16 = "fp16",
        /// Products of 8-bit integers, each activation's grid found in every step; the rest is
        /// binary32.
        Int8Dynamic = "int8-dynamic",
        /// Products of 8-bit integers, and what lies between them, on grids found beforehand by
        /// calibration; the rest is binary32.
        Int8Static = "int8-static",
    }
}

/// The environment variable by which NVIDIA's libraries are kept from TF32, whoever asks for it:
/// where it is `0`.
pub const TF32_OVERRIDE: &str = "NVIDIA_TF32_OVERRIDE";

/// Whether [`TF32_OVERRIDE`] keeps libraries from TF32 where it has this value.
#[must_use]
pub fn forbids_tf32(value: &str) -> bool {
    value.trim() == "0"
}

impl Precision {
    /// Unit roundoff ε of the precision's arithmetic: half the distance from 1 to the next number;
    /// for 8-bit integers half a step of a grid of 256, as a share of what the grid spans.
    #[must_use]
    pub const fn unit_roundoff(self) -> f64 {
        match self {
            Self::Fp64 => 1.0 / (1_u64 << 53) as f64,
            Self::Fp32 => 1.0 / (1_u64 << 24) as f64,
            Self::Tf32 | Self::Fp16 => 1.0 / (1_u64 << 11) as f64,
            Self::Bf16 => 1.0 / (1_u64 << 8) as f64,
            Self::Int8Dynamic | Self::Int8Static => 1.0 / (1_u64 << 9) as f64,
        }
    }

    /// Bytes of a number; of integers, those that products are computed from.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Fp64 => 8,
            Self::Fp32 | Self::Tf32 => 4,
            Self::Bf16 | Self::Fp16 => 2,
            Self::Int8Dynamic | Self::Int8Static => 1,
        }
    }

    /// Whether products are computed in 8-bit integers.
    #[must_use]
    pub const fn is_int8(self) -> bool {
        matches!(self, Self::Int8Dynamic | Self::Int8Static)
    }
}

words! {
    /// What a step does.
    Mode {
        /// One forward pass.
        Inference = "inference",
        /// One iteration: forward, loss, backward, optimiser.
        Training = "training",
    }
}

words! {
    /// The language that drives the engine.
    HostLanguage {
        /// A Rust worker.
        Rust = "rust",
        /// A Python worker.
        Python = "python",
        /// Anything else that speaks the protocol.
        Other = "other",
    }
}

words! {
    /// How training is spread over workers. In all but the first the batch falls into equal parts, as
    /// many as the world size, and batch norm takes its statistics of each part alone; what is kept of
    /// them for later are those of the first part.
    Strategy {
        /// One process, one device, the batch as it is.
        Single = "single",
        /// The same, the parts of the batch one after another, their gradients added up: what the two
        /// below compute, with nothing in parallel.
        Accumulated = "accumulated",
        /// One process: in every step the network is replicated, the batch scattered, the replicas
        /// run by a thread each, their outputs gathered, and gradients flow back to the one network.
        DataParallel = "data_parallel",
        /// A process for each part (a rank), which average their gradients in buckets while the backward
        /// pass goes on.
        Ddp = "ddp",
    }
}

words! {
    /// Where the clock starts and stops. Pages never compare across boundaries.
    Boundary {
        /// Inputs and outputs stay on the device; host clock around launch and synchronise.
        Step = "step",
        /// Inputs and outputs stay on the device; from an event on its stream to another, around the work of a
        /// step. Of GPUs alone.
        Device = "device",
        /// Host memory in, host memory out: inputs are copied from the caller's memory in every step, and
        /// outputs (of a training step, the loss) back to it.
        Request = "request",
    }
}

impl Boundary {
    /// Whether steps on this device can be timed so: only GPUs have events.
    #[must_use]
    pub const fn exists_on(self, device: Device) -> bool {
        match self {
            Self::Step | Self::Request => true,
            Self::Device => !device.is_cpu(),
        }
    }
}

/// An engine and one of its variants, written `engine/variant`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
#[schemars(with = "String")]
pub struct EngineVariant {
    /// For example `pytorch`.
    pub engine: String,
    /// For example `eager`.
    pub variant: String,
}

impl fmt::Display for EngineVariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.engine, self.variant)
    }
}

impl FromStr for EngineVariant {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        match text.split_once('/') {
            Some((engine, variant))
                if !engine.is_empty() && !variant.is_empty() && !variant.contains('/') =>
            {
                Ok(Self {
                    engine: engine.to_owned(),
                    variant: variant.to_owned(),
                })
            }
            _ => Err(UnknownWord(text.to_owned())),
        }
    }
}

impl Serialize for EngineVariant {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for EngineVariant {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse()
            .map_err(|_| serde::de::Error::custom(format!("`{text}` is not engine/variant")))
    }
}

/// A device: `cpu`, or `cuda:N`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
#[schemars(with = "String")]
pub enum Device {
    /// The processors of this machine.
    Cpu,
    /// The CUDA device of this index.
    Cuda(u32),
}

impl Device {
    /// Whether it is a CPU.
    #[must_use]
    pub const fn is_cpu(self) -> bool {
        matches!(self, Self::Cpu)
    }

    /// The kind without an index: `cpu` or `cuda`.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cuda(_) => "cuda",
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(index) => write!(f, "cuda:{index}"),
        }
    }
}

impl FromStr for Device {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        match text {
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda(0)),
            _ => text
                .strip_prefix("cuda:")
                // Numbers are read with a sign, too.
                .filter(|index| index.bytes().all(|byte| byte.is_ascii_digit()))
                .and_then(|index| index.parse().ok())
                .map(Self::Cuda)
                .ok_or_else(|| UnknownWord(text.to_owned())),
        }
    }
}

impl Serialize for Device {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Device {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// An optimiser and its settings.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Optimizer {
    /// Stochastic gradient descent with momentum and L2 penalty:
    /// `v ← momentum·v + (g + weight_decay·w)`, `w ← w − learning_rate·v`.
    Sgd {
        /// Step length.
        learning_rate: f64,
        /// Share of the last step's velocity that is kept.
        momentum: f64,
        /// Weight of the L2 penalty.
        weight_decay: f64,
    },
    /// Adam (Kingma and Ba 2015), with bias correction and L2 penalty added to the gradient.
    Adam {
        /// Step length.
        learning_rate: f64,
        /// Decay of the first moment.
        beta1: f64,
        /// Decay of the second moment.
        beta2: f64,
        /// Added to the root of the second moment.
        epsilon: f64,
        /// Weight of the L2 penalty.
        weight_decay: f64,
    },
}

impl Optimizer {
    /// The word a manifest uses for it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Sgd { .. } => "sgd",
            Self::Adam { .. } => "adam",
        }
    }

    /// Its settings, by the words a manifest uses for them.
    #[must_use]
    pub fn settings(&self) -> Vec<(&'static str, f64)> {
        match *self {
            Self::Sgd {
                learning_rate,
                momentum,
                weight_decay,
            } => vec![
                ("learning_rate", learning_rate),
                ("momentum", momentum),
                ("weight_decay", weight_decay),
            ],
            Self::Adam {
                learning_rate,
                beta1,
                beta2,
                epsilon,
                weight_decay,
            } => vec![
                ("learning_rate", learning_rate),
                ("beta1", beta1),
                ("beta2", beta2),
                ("epsilon", epsilon),
                ("weight_decay", weight_decay),
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_round_trip() {
        for precision in Precision::ALL {
            assert_eq!(precision.word().parse(), Ok(*precision));
            assert_eq!(
                serde_json::to_string(precision).unwrap(),
                format!("\"{precision}\"")
            );
        }
        assert!("float32".parse::<Precision>().is_err());
    }

    #[test]
    fn workers_split_a_batch_and_passes_their_shares_of_it() {
        let engine: EngineVariant = "e/v".parse().unwrap();
        let graph = Graph {
            name: "n".to_owned(),
            inputs: vec![],
            parameters: vec![],
            nodes: vec![],
            outputs: vec![],
            loss: None,
        };
        let plain = Cell::plain(&graph, engine);
        let batch = |strategy, world_size, passes: &str, scaling: Option<&str>| {
            let passes = (ACCUMULATION.to_owned(), passes.to_owned());
            let scaling = scaling.map(|value| (SCALING.to_owned(), value.to_owned()));
            let cell = Cell {
                strategy,
                world_size,
                dims: [(BATCH.to_owned(), 24)].into(),
                factors: scaling.into_iter().chain([passes]).collect(),
                ..plain.clone()
            };
            cell.part_dims().and_then(|dims| dims.get(BATCH).copied())
        };
        assert_eq!(batch(Strategy::Single, 1, "1", None), Some(24));
        assert_eq!(batch(Strategy::Single, 1, "4", None), Some(6));
        assert_eq!(batch(Strategy::Ddp, 3, "1", None), Some(8));
        assert_eq!(batch(Strategy::Ddp, 3, "4", None), Some(2));
        // Each has a batch of its own.
        assert_eq!(batch(Strategy::Ddp, 3, "4", Some(WEAK)), Some(6));
        for (world_size, passes) in [(3, "16"), (5, "1"), (0, "1"), (3, "0")] {
            assert_eq!(batch(Strategy::Ddp, world_size, passes, None), None);
        }
    }

    #[test]
    fn engine_variants_are_two_words() {
        let pair: EngineVariant = "pytorch/eager".parse().unwrap();
        assert_eq!(
            (pair.engine.as_str(), pair.variant.as_str()),
            ("pytorch", "eager")
        );
        for bad in ["pytorch", "/eager", "pytorch/", "a/b/c", ""] {
            assert!(bad.parse::<EngineVariant>().is_err(), "{bad}");
        }
    }

    #[test]
    fn devices_are_named() {
        assert_eq!("cuda".parse(), Ok(Device::Cuda(0)));
        assert_eq!("cuda:3".parse(), Ok(Device::Cuda(3)));
        for bad in ["gpu", "cuda:", "cuda:-1", "cuda:x", ""] {
            assert!(bad.parse::<Device>().is_err(), "{bad}");
        }
    }
}
