//! What an engine is and can do, and whether this machine has it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Boundary, Cell, Digest, HostLanguage, Mode, ModelSource, Precision, Situation, Strategy,
};

/// A runtime under test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EngineDescription {
    /// The word used in manifests, for example `onnxruntime`.
    pub name: String,
    /// The name shown to readers, for example `ONNX Runtime`.
    pub title: String,
    /// Pinned version of the runtime, for example `1.31.1`; empty where the user supplies it.
    pub version: String,
    /// One sentence about it.
    pub summary: String,
    /// Ways of running the graph.
    pub variants: Vec<VariantDescription>,
}

impl EngineDescription {
    /// The variant of this name.
    #[must_use]
    pub fn variant(&self, name: &str) -> Option<&VariantDescription> {
        self.variants.iter().find(|variant| variant.name == name)
    }
}

impl VariantDescription {
    /// The default of every factor that has a part in such cells.
    #[must_use]
    pub fn defaults(&self, situation: Situation) -> BTreeMap<String, String> {
        let factors = self.factors.iter();
        let concerned = factors.filter(|(_, factor)| factor.scope().has(situation));
        concerned
            .filter_map(|(name, _)| {
                let default = self.default_of(name, situation)?;
                Some((name.clone(), default.to_owned()))
            })
            .collect()
    }

    /// The default of a factor in such cells: the first of its values that is not refused there whatever
    /// else a cell asks for. `None` of a factor that the variant does not have.
    #[must_use]
    pub fn default_of(&self, factor: &str, situation: Situation) -> Option<&str> {
        let values = &self.factors.get(factor)?.values;
        let is_refused = |value: &&String| {
            self.refuses.iter().any(|refusal| {
                let alone = refusal.networks.is_empty() && refusal.factors.len() == 1;
                let about = refusal.factors.get(factor).filter(|_| alone);
                about.is_some_and(|about| about.contains(value)) && refusal.scope().has(situation)
            })
        };
        let taken = values.iter().find(|value| !is_refused(value));
        taken.or(values.first()).map(String::as_str)
    }
}

/// A way of running the graph, with what it can do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VariantDescription {
    /// The word used in manifests, for example `eager`.
    pub name: String,
    /// One sentence about it.
    pub summary: String,
    /// The language that drives it.
    pub host_language: HostLanguage,
    /// Kinds of device: `cpu`, `cuda`.
    pub devices: Vec<String>,
    /// Precisions.
    pub precisions: Vec<Precision>,
    /// Why it does not compute in others that somebody may ask for; none of `precisions`.
    #[serde(default)]
    pub lacks: BTreeMap<Precision, String>,
    /// Modes.
    pub modes: Vec<Mode>,
    /// How it spreads training over workers: [`Strategy::Single`] where nothing is said.
    #[serde(default = "alone")]
    pub strategies: Vec<Strategy>,
    /// Timing boundaries.
    pub boundaries: Vec<Boundary>,
    /// Whether it reads ONNX itself, and so runs files of the user's whose operators no graph has
    /// ([`crate::Graph::is_outline`]).
    #[serde(default)]
    pub reads_onnx: bool,
    /// Whether it compiles with the C++ compiler of the machine, which then is a part of the keys of
    /// its heats.
    #[serde(default)]
    pub compiles_cxx: bool,
    /// What comes before its first step, for predictions.
    #[serde(default)]
    pub preparation: Preparation,
    /// Switches that this variant knows, by name.
    #[serde(default)]
    pub factors: BTreeMap<String, FactorDescription>,
    /// What this variant does where others have a switch that it lacks, in their words: the name of
    /// the factor and the value. What is fair to compare is judged by it, and nothing is run by it.
    #[serde(default)]
    pub fixed: BTreeMap<String, String>,
    /// Networks of the zoo that it runs, where these are not all: no other, and no file of the user's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<String>,
    /// What it cannot run although it knows each part of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refuses: Vec<Refusal>,
}

/// Cells that a variant cannot run although it knows each part of them: all that is named here holds of
/// such a cell, and what is left empty of any.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Refusal {
    /// Why, in words for a reader.
    pub reason: String,
    /// Precisions.
    #[serde(default)]
    pub precisions: Vec<Precision>,
    /// Modes.
    #[serde(default)]
    pub modes: Vec<Mode>,
    /// Kinds of device: `cpu`, `cuda`.
    #[serde(default)]
    pub devices: Vec<String>,
    /// Strategies.
    #[serde(default)]
    pub strategies: Vec<Strategy>,
    /// Networks of the zoo.
    #[serde(default)]
    pub networks: Vec<String>,
    /// Values of factors, one of each factor's.
    #[serde(default)]
    pub factors: BTreeMap<String, Vec<String>>,
}

impl Refusal {
    /// What it is about.
    #[must_use]
    pub fn scope(&self) -> Scope<'_> {
        Scope {
            precisions: &self.precisions,
            modes: &self.modes,
            devices: &self.devices,
            strategies: &self.strategies,
        }
    }

    /// Whether it holds of a cell.
    #[must_use]
    pub fn concerns(&self, cell: &Cell) -> bool {
        let model = &cell.model;
        let mut factors = self.factors.iter();
        (self.scope()).has(cell.situation())
            && (self.networks.is_empty()
                || model.source == ModelSource::Zoo && self.networks.contains(&model.name))
            && factors.all(|(factor, values)| {
                let asked = cell.factors.get(factor);
                asked.is_some_and(|asked| values.contains(asked))
            })
    }
}

/// Cells that a factor, or a refusal, is about; of a list that is empty, all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scope<'a> {
    /// Their precisions.
    pub precisions: &'a [Precision],
    /// Their modes.
    pub modes: &'a [Mode],
    /// The kinds of their devices: `cpu`, `cuda`.
    pub devices: &'a [String],
    /// Their strategies.
    pub strategies: &'a [Strategy],
}

impl Scope<'_> {
    /// Whether a cell in this situation is one of them.
    #[must_use]
    pub fn has(&self, situation: Situation) -> bool {
        let Situation {
            precision,
            mode,
            device,
            strategy,
        } = situation;
        let mut devices = self.devices.iter();
        (self.precisions.is_empty() || self.precisions.contains(&precision))
            && (self.modes.is_empty() || self.modes.contains(&mode))
            && (self.devices.is_empty() || devices.any(|kind| kind == device.kind()))
            && (self.strategies.is_empty() || self.strategies.contains(&strategy))
    }
}

/// The strategy of engines that know no other.
fn alone() -> Vec<Strategy> {
    vec![Strategy::Single]
}

/// What a launch takes before its first step, roughly: the base of predictions, and of nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Preparation {
    /// Starting the worker and loading the engine's libraries, in milliseconds.
    pub start_ms: u32,
    /// What inference does for each parameter, in nanoseconds: making it, placing it, folding it.
    pub parameter_ns: u32,
    /// What is done for each operator in each launch, compiling for one, in milliseconds.
    pub operator_ms: u32,
    /// What is done once, however few operators there are, since later launches find what became of it, in
    /// milliseconds: starting a compiler, for one.
    pub kept_ms: u32,
    /// What is done for each operator once, since later launches find what became of it, in
    /// milliseconds.
    pub kept_operator_ms: u32,
}

impl Default for Preparation {
    /// Of a worker that is a program, and compiles nothing.
    fn default() -> Self {
        Self {
            start_ms: 700,
            parameter_ns: 4,
            operator_ms: 0,
            kept_ms: 0,
            kept_operator_ms: 0,
        }
    }
}

/// The value of a factor that leaves the choice to the engine.
pub const AUTO: &str = "auto";

/// A switch whose effect can be studied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FactorDescription {
    /// Its values; the first is the default, or the first that is not refused
    /// ([`VariantDescription::default_of`]).
    pub values: Vec<String>,
    /// What it does, in one sentence.
    pub summary: String,
    /// Precisions that it has a part in: cells of others are without it. Empty where that is all.
    #[serde(default)]
    pub precisions: Vec<Precision>,
    /// Modes that it has a part in, likewise.
    #[serde(default)]
    pub modes: Vec<Mode>,
    /// Kinds of device that it has a part on, likewise: `cpu`, `cuda`.
    #[serde(default)]
    pub devices: Vec<String>,
    /// Strategies that it has a part in, likewise.
    #[serde(default)]
    pub strategies: Vec<Strategy>,
    /// Which of the other values [`AUTO`] usually comes to, by mode.
    #[serde(default)]
    pub auto: BTreeMap<Mode, String>,
    /// What a value brings with it, in the words of switches of others, or of one of the variant's own, which
    /// comes to that then whatever it is set to: by value, their names and values. What is fair to compare is
    /// judged by it, as by [`VariantDescription::fixed`].
    #[serde(default)]
    pub brings: BTreeMap<String, BTreeMap<String, String>>,
    /// The dimension that each of its values divides, as a number of equal parts: `batch`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub divides: Option<String>,
}

impl FactorDescription {
    /// What it has a part in.
    #[must_use]
    pub fn scope(&self) -> Scope<'_> {
        Scope {
            precisions: &self.precisions,
            modes: &self.modes,
            devices: &self.devices,
            strategies: &self.strategies,
        }
    }
}

/// Whether an engine can be used on this machine, and what its key in the store is made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Availability {
    /// Hash of the engine's lock file; absent where the user supplies the engine.
    pub lock: Option<Digest>,
    /// What the worker is built from: sources, locked crates, compiler and flags; for a
    /// registered worker, its command line and the hash of its files.
    pub worker: Digest,
    /// What tells the machine's C++ compiler from others, whether or not there is one; absent where
    /// the variant compiles nothing with it.
    pub compiler: Option<Digest>,
    /// What the libraries are installed from that it takes from another engine's packages on a GPU; absent
    /// where it takes none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<Digest>,
    /// Why it cannot be used; `None` when it is ready, or when `engines install` makes it so.
    pub missing: Option<String>,
}
