//! The matrix: axes and their values.

use std::{borrow::Cow, collections::BTreeMap, fmt};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer,
    de::{self, MapAccess, Visitor},
};

use super::{DeviceForm, OneOrMany};
use crate::{Optimizer, Precision, Strategy, characters::is_unseen};

/// Longest word, in bytes.
const WORD_LIMIT: usize = 256;

/// Axes and their values. Every combination is a cell.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Matrix {
    /// The networks.
    pub model: Option<OneOrMany<ModelChoice>>,
    /// All other axes, by name.
    pub axes: BTreeMap<String, OneOrMany<Scalar>>,
}

/// A network: a name of the zoo, `{ zoo: name, weights: path }`, or `{ onnx: path }`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelChoice {
    /// A name of the zoo, and a file of its weights, relative to the manifest's folder.
    Zoo(String, Option<String>),
    /// A file, relative to the manifest's folder.
    Onnx(String),
}

/// A value of an axis: a word or a whole number.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scalar {
    /// A whole number.
    Number(u64),
    /// A word.
    Word(String),
}

/// Axes and the values that a cell must have there.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Coordinates(pub BTreeMap<String, OneOrMany<Scalar>>);

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Word(word) => f.write_str(word),
        }
    }
}

impl Coordinates {
    /// Adds an axis; an error when it is there already.
    pub(super) fn insert<E: de::Error>(
        &mut self,
        axis: String,
        values: OneOrMany<Scalar>,
    ) -> Result<(), E> {
        once(&mut self.0, axis, values)
    }
}

fn once<T, E: de::Error>(map: &mut BTreeMap<String, T>, key: String, value: T) -> Result<(), E> {
    if map.contains_key(&key) {
        return Err(E::custom(format_args!("the key `{key}` is there twice")));
    }
    map.insert(key, value);
    Ok(())
}

impl<'de> Deserialize<'de> for Matrix {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Axes;
        impl<'de> Visitor<'de> for Axes {
            type Value = Matrix;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a mapping from axes to values such as `{ model: [resnet18], batch: [1, 8] }`",
                )
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Matrix, A::Error> {
                let mut matrix = Matrix::default();
                while let Some(axis) = map.next_key::<String>()? {
                    if axis != "model" {
                        once(&mut matrix.axes, axis, map.next_value()?)?;
                    } else if matrix.model.replace(map.next_value()?).is_some() {
                        return Err(de::Error::duplicate_field("model"));
                    }
                }
                Ok(matrix)
            }
        }
        deserializer.deserialize_map(Axes)
    }
}

impl<'de> Deserialize<'de> for Coordinates {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Axes;
        impl<'de> Visitor<'de> for Axes {
            type Value = Coordinates;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a mapping from axes to values such as `{ model: bert_tiny, batch: 8 }`",
                )
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Coordinates, A::Error> {
                let mut coordinates = Coordinates::default();
                while let Some(axis) = map.next_key()? {
                    coordinates.insert(axis, map.next_value()?)?;
                }
                Ok(coordinates)
            }
        }
        deserializer.deserialize_map(Axes)
    }
}

fn word<E: de::Error>(text: &str) -> Result<String, E> {
    // Some letters are blank, such as the Hangul fillers.
    let fits = |c: char| (c.is_ascii_graphic() || c.is_alphanumeric()) && !is_unseen(c);
    if text.is_empty() {
        Err(E::custom("the value is empty"))
    } else if text.len() > WORD_LIMIT {
        Err(E::custom(format_args!(
            "the value has more than {WORD_LIMIT} bytes"
        )))
    } else if !text.chars().all(fits) {
        Err(E::custom(format_args!(
            "the value {text:?} holds a character that no value has"
        )))
    } else {
        Ok(text.to_owned())
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Value;
        impl Visitor<'_> for Value {
            type Value = Scalar;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a word or a whole number")
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Scalar, E> {
                Ok(Scalar::Number(number))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Scalar, E> {
                u64::try_from(number)
                    .map(Scalar::Number)
                    .map_err(|_| E::custom(format_args!("{number} is negative")))
            }

            fn visit_bool<E: de::Error>(self, value: bool) -> Result<Scalar, E> {
                Ok(Scalar::Word(value.to_string()))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Scalar, E> {
                word(text).map(Scalar::Word)
            }
        }
        deserializer.deserialize_any(Value)
    }
}

impl<'de> Deserialize<'de> for ModelChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Choice;
        impl<'de> Visitor<'de> for Choice {
            type Value = ModelChoice;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a model's name, `{ onnx: path }`, or `{ zoo: name, weights: path }`")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<ModelChoice, E> {
                Ok(ModelChoice::Zoo(word(text)?, None))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ModelChoice, A::Error> {
                #[derive(Deserialize)]
                #[serde(deny_unknown_fields)]
                struct File {
                    onnx: Option<String>,
                    zoo: Option<String>,
                    weights: Option<String>,
                }
                let File { onnx, zoo, weights } =
                    File::deserialize(de::value::MapAccessDeserializer::new(map))?;
                match (onnx, zoo, weights) {
                    (Some(path), None, None) => word(&path).map(ModelChoice::Onnx),
                    (None, Some(name), None) => Ok(ModelChoice::Zoo(word(&name)?, None)),
                    (None, Some(name), Some(path)) => {
                        Ok(ModelChoice::Zoo(word(&name)?, Some(word(&path)?)))
                    }
                    _ => Err(de::Error::custom(
                        "a model is `onnx` alone, or `zoo`, which may have `weights`",
                    )),
                }
            }
        }
        deserializer.deserialize_any(Choice)
    }
}

/// An optimiser by name, with its usual settings, or with settings of the user's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OptimizerChoice(pub Optimizer);

impl OptimizerChoice {
    /// The optimiser of this name with its usual settings: `sgd` is that of torchvision's
    /// reference training (learning rate 0.1 for a batch of 256, scaled to 0.01; momentum 0.9;
    /// weight decay 1e-4), `adam` that of PyTorch's defaults.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "sgd" => Some(Self(Optimizer::Sgd {
                learning_rate: 0.01,
                momentum: 0.9,
                weight_decay: 1e-4,
            })),
            "adam" => Some(Self(Optimizer::Adam {
                learning_rate: 1e-3,
                beta1: 0.9,
                beta2: 0.999,
                epsilon: 1e-8,
                weight_decay: 0.0,
            })),
            _ => None,
        }
    }

    /// Every name.
    pub const NAMES: &'static [&'static str] = &["sgd", "adam"];
}

/// Settings of SGD that a user may change.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "settings such as `{ learning_rate: 0.1 }`"
)]
struct Sgd {
    #[serde(default)]
    learning_rate: Option<Below<1000>>,
    #[serde(default)]
    momentum: Option<Below<1>>,
    #[serde(default)]
    weight_decay: Option<Below<1000>>,
}

/// Settings of Adam that a user may change.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "settings such as `{ learning_rate: 0.001 }`"
)]
struct Adam {
    #[serde(default)]
    learning_rate: Option<Below<1000>>,
    #[serde(default)]
    beta1: Option<Below<1>>,
    #[serde(default)]
    beta2: Option<Below<1>>,
    #[serde(default)]
    epsilon: Option<Below<1>>,
    #[serde(default)]
    weight_decay: Option<Below<1000>>,
}

/// A setting of an optimiser: at least 0 and less than `BOUND`.
#[derive(Debug, Clone, Copy)]
struct Below<const BOUND: u16>(f64);

impl<'de, const BOUND: u16> Deserialize<'de> for Below<BOUND> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Number<const BOUND: u16>;
        // Checked while the number is visited, so that an error stands at the number and quotes it
        // as it is written.
        impl<const BOUND: u16> Visitor<'_> for Number<BOUND> {
            type Value = Below<BOUND>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a number of at least 0 and less than {BOUND}")
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Below<BOUND>, E> {
                self.visit_f64(value as f64)
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Below<BOUND>, E> {
                self.visit_f64(value as f64)
            }

            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Below<BOUND>, E> {
                if (0.0..f64::from(BOUND)).contains(&value) {
                    return Ok(Below(value));
                }
                Err(E::invalid_value(de::Unexpected::Float(value), &self))
            }
        }
        deserializer.deserialize_f64(Number)
    }
}

impl<const BOUND: u16> JsonSchema for Below<BOUND> {
    fn schema_name() -> Cow<'static, str> {
        format!("Below{BOUND}").into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "minimum": 0, "exclusiveMaximum": BOUND })
    }
}

fn or<const BOUND: u16>(given: Option<Below<BOUND>>, usual: f64) -> f64 {
    given.map_or(usual, |Below(value)| value)
}

fn sgd(given: Sgd) -> Optimizer {
    Optimizer::Sgd {
        learning_rate: or(given.learning_rate, 0.01),
        momentum: or(given.momentum, 0.9),
        weight_decay: or(given.weight_decay, 1e-4),
    }
}

fn adam(given: Adam) -> Optimizer {
    Optimizer::Adam {
        learning_rate: or(given.learning_rate, 1e-3),
        beta1: or(given.beta1, 0.9),
        beta2: or(given.beta2, 0.999),
        epsilon: or(given.epsilon, 1e-8),
        weight_decay: or(given.weight_decay, 0.0),
    }
}

impl<'de> Deserialize<'de> for OptimizerChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Choice;
        impl<'de> Visitor<'de> for Choice {
            type Value = OptimizerChoice;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`sgd`, `adam`, or one of them with settings such as `{ sgd: { learning_rate: 0.1 } }`")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<OptimizerChoice, E> {
                OptimizerChoice::named(text)
                    .ok_or_else(|| E::unknown_variant(text, OptimizerChoice::NAMES))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<OptimizerChoice, A::Error> {
                let Some(name) = map.next_key::<String>()? else {
                    return Err(de::Error::custom("the mapping names no optimiser"));
                };
                let optimizer = match name.as_str() {
                    "sgd" => sgd(map.next_value()?),
                    "adam" => adam(map.next_value()?),
                    other => return Err(de::Error::unknown_field(other, OptimizerChoice::NAMES)),
                };
                if map.next_key::<String>()?.is_some() {
                    return Err(de::Error::custom("one optimiser at a time"));
                }
                Ok(OptimizerChoice(optimizer))
            }
        }
        deserializer.deserialize_any(Choice)
    }
}

impl JsonSchema for OptimizerChoice {
    fn schema_name() -> Cow<'static, str> {
        "Optimizer".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let (sgd, adam) = (
            generator.subschema_for::<Sgd>(),
            generator.subschema_for::<Adam>(),
        );
        json_schema!({
            "description": "An optimiser by name, or with settings.",
            "anyOf": [
                { "enum": Self::NAMES },
                {
                    "type": "object",
                    "properties": { "sgd": sgd, "adam": adam },
                    "minProperties": 1,
                    "maxProperties": 1,
                    "additionalProperties": false,
                },
            ],
        })
    }
}

impl JsonSchema for Scalar {
    fn schema_name() -> Cow<'static, str> {
        "Scalar".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A word or a whole number.",
            "anyOf": [
                { "type": "string", "minLength": 1, "maxLength": WORD_LIMIT },
                { "type": "integer", "minimum": 0 },
                { "type": "boolean" },
            ],
        })
    }
}

impl JsonSchema for ModelChoice {
    fn schema_name() -> Cow<'static, str> {
        "Model".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A name of the zoo, which may come with weights, or a model in a file; files are relative to the manifest's folder.",
            "anyOf": [
                { "type": "string", "minLength": 1, "maxLength": WORD_LIMIT },
                {
                    "type": "object",
                    "properties": { "onnx": { "type": "string", "minLength": 1 } },
                    "required": ["onnx"],
                    "additionalProperties": false,
                },
                {
                    "type": "object",
                    "properties": {
                        "zoo": { "type": "string", "minLength": 1 },
                        "weights": { "type": "string", "minLength": 1 },
                    },
                    "required": ["zoo"],
                    "additionalProperties": false,
                },
            ],
        })
    }
}

impl JsonSchema for Coordinates {
    fn schema_name() -> Cow<'static, str> {
        "Coordinates".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let values = generator.subschema_for::<OneOrMany<Scalar>>();
        json_schema!({
            "description": "Axes and the values that a cell must have there; a value may end in `*`.",
            "type": "object",
            "minProperties": 1,
            "additionalProperties": values,
        })
    }
}

/// A list of at least one value, or a single value.
fn axis(one: &serde_json::Value, what: &str) -> serde_json::Value {
    serde_json::json!({
        "description": what,
        "anyOf": [one, { "type": "array", "items": one, "minItems": 1, "uniqueItems": true }],
    })
}

impl JsonSchema for Matrix {
    fn schema_name() -> Cow<'static, str> {
        "Matrix".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let size = serde_json::json!({ "type": "integer", "minimum": 1 });
        let engine = serde_json::json!({ "type": "string", "pattern": "^[^/*]+/[^/*]+$" });
        let optimizer = serde_json::json!({ "enum": OptimizerChoice::NAMES });
        let model = generator.subschema_for::<ModelChoice>().to_value();
        let precision = generator.subschema_for::<Precision>().to_value();
        let device = generator.subschema_for::<DeviceForm>().to_value();
        let strategy = generator.subschema_for::<Strategy>().to_value();
        let scalar = generator.subschema_for::<Scalar>().to_value();
        json_schema!({
            "description": "Axes and their values; every combination is a cell. Any other axis is a dimension of a model or a factor of an engine.",
            "type": "object",
            "properties": {
                "model": axis(&model, "The networks: names of the zoo, `{ zoo: name, weights: path }`, or `{ onnx: path }`."),
                "engine": axis(&engine, "Engine and variant, written `engine/variant`."),
                "precision": axis(&precision, "Arithmetic of weights and activations."),
                "device": axis(&device, "Where cells run."),
                "threads": axis(&size, "Threads that an engine may use for one operator."),
                "optimizer": axis(&optimizer, "Optimisers of a training job."),
                "strategy": axis(&strategy, "How training is spread over workers."),
                "world_size": axis(&size, "Ranks or replicas, into as many equal parts the batch falls; 2 where it is not said."),
                "batch": axis(&size, "Number of items in a step."),
                "image": axis(&size, "Height and width of images."),
                "seq": axis(&size, "Length of sequences."),
                "target": axis(&size, "Length of the sequences that a translation writes."),
                "frames": axis(&size, "Length of spectrograms, in steps of 10 ms."),
            },
            "required": ["model", "engine"],
            "additionalProperties": axis(&scalar, "A dimension of a model or a factor of an engine."),
        })
    }
}
