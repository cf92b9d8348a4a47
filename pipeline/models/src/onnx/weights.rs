//! Initializers: which numbers a model carries, as which bytes, and where they lie.

use std::collections::{BTreeMap, BTreeSet};

use half::{bf16, f16};
use schema::{
    Graph,
    graph::{ElementType, GridElement, Parameter},
};

use super::{
    LARGEST_MODEL_BYTES, WriteOptions,
    proto::{DataType, StringStringEntryProto, TensorProto},
    too_large,
};
use crate::{ModelError, Numbers, infer, infer::ValueType};

/// Alignment of tensors in the external file: a page, so that readers can map them.
const ALIGNMENT_BYTES: usize = 4096;

/// What stays within the model even where the model is too large.
const SMALL_BYTES: u64 = 1024;

/// The initializers of a model, each written when it is first used.
pub(super) struct Weights<'a> {
    parameters: BTreeMap<&'a str, &'a Parameter>,
    numbers: &'a Numbers,
    /// The first numbers that could not be had.
    lacks: Option<ModelError>,
    element: DataType,
    written: BTreeSet<String>,
    taken: BTreeSet<String>,
    tensors: Vec<TensorProto>,
    external: Option<External>,
}

/// The file of large tensors.
struct External {
    location: String,
    threshold_bytes: u64,
    data: Vec<u8>,
}

impl<'a> Weights<'a> {
    pub(super) fn new(
        graph: &'a Graph,
        types: &BTreeMap<String, ValueType>,
        element: DataType,
        options: &WriteOptions,
        numbers: &'a Numbers,
    ) -> Result<Self, String> {
        let sizes = || {
            graph
                .parameters
                .iter()
                .map(|parameter| bytes_of(parameter, types, element))
        };
        let sum = |sizes: &mut dyn Iterator<Item = u64>| sizes.fold(0, u64::saturating_add);
        let external = match &options.external {
            None => {
                let bytes = sum(&mut sizes());
                if bytes > LARGEST_MODEL_BYTES {
                    return Err(too_large(bytes));
                }
                None
            }
            Some(location) => {
                let inside = sum(&mut sizes().filter(|&bytes| bytes < options.threshold));
                let threshold_bytes = if inside > LARGEST_MODEL_BYTES {
                    SMALL_BYTES
                } else {
                    options.threshold
                };
                Some(External {
                    location: location.clone(),
                    threshold_bytes,
                    data: Vec::new(),
                })
            }
        };
        let node_names = graph.nodes.iter().map(|node| node.name.clone());
        Ok(Self {
            parameters: graph
                .parameters
                .iter()
                .map(|p| (p.name.as_str(), p))
                .collect(),
            numbers,
            lacks: None,
            element,
            written: BTreeSet::new(),
            taken: types.keys().cloned().chain(node_names).collect(),
            tensors: Vec::new(),
            external,
        })
    }

    /// A name that nothing has yet, `wanted` where that is possible.
    pub(super) fn fresh(&mut self, wanted: &str) -> String {
        let mut name = wanted.to_owned();
        let mut count = 1;
        while !self.taken.insert(name.clone()) {
            count += 1;
            name = format!("{wanted}.{count}");
        }
        name
    }

    /// The parameter of this name.
    pub(super) fn parameter(&self, name: &str) -> Option<&'a Parameter> {
        self.parameters.get(name).copied()
    }

    /// Writes the parameter of this name if there is one and it is not written yet.
    pub(super) fn used(&mut self, name: &str) {
        let Some(&parameter) = self.parameters.get(name) else {
            return;
        };
        if !self.written.insert(name.to_owned()) {
            return;
        }
        match infer::parameter_element(parameter) {
            ElementType::Float => {
                let values = self.numbers.floats(parameter);
                let values = self.had(values);
                self.floats(name.to_owned(), &parameter.shape, &values);
            }
            ElementType::Int64 => {
                let values = self.numbers.integers(parameter);
                let values = self.had(values);
                self.integers(name.to_owned(), &parameter.shape, &values);
            }
        }
    }

    /// Numbers, or none: why is told in the end.
    fn had<T>(&mut self, numbers: Result<Vec<T>, ModelError>) -> Vec<T> {
        numbers.unwrap_or_else(|error| {
            self.lacks.get_or_insert(error);
            Vec::new()
        })
    }

    /// The transpose of a weight `[rows, columns]`, by the name under which it was written; `None`
    /// where `name` is no weight.
    pub(super) fn transposed(&mut self, name: &str) -> Option<String> {
        let &parameter = self.parameters.get(name)?;
        let [rows, columns] = *parameter.shape else {
            return None;
        };
        let own = format!("{name}.transposed");
        if self.written.contains(&own) {
            return Some(own);
        }
        if self.taken.contains(&own) {
            // The graph has a value of that name: leave the transposing to the engine.
            return None;
        }
        self.taken.insert(own.clone());
        self.written.insert(own.clone());
        let values = self.numbers.floats(parameter);
        let values = self.had(values);
        let width = columns as usize;
        let mut turned = Vec::with_capacity(values.len());
        for column in 0..width {
            turned.extend(values.iter().skip(column).step_by(width));
        }
        self.floats(own.clone(), &[columns, rows], &turned);
        Some(own)
    }

    /// Writes floats in the precision of the model.
    pub(super) fn floats(&mut self, name: String, shape: &[u64], values: &[f32]) {
        let bytes = match self.element {
            DataType::Double => encode(values, |value| f64::from(value).to_le_bytes()),
            DataType::Float16 => encode(values, |value| f16::from_f32(value).to_le_bytes()),
            DataType::BFloat16 => encode(values, |value| bf16::from_f32(value).to_le_bytes()),
            _ => encode(values, f32::to_le_bytes),
        };
        self.tensor(name, self.element, shape, bytes);
    }

    /// Writes integers.
    pub(super) fn integers(&mut self, name: String, shape: &[u64], values: &[i64]) {
        self.tensor(
            name,
            DataType::Int64,
            shape,
            encode(values, i64::to_le_bytes),
        );
    }

    /// Writes integers of a grid.
    pub(super) fn grid(
        &mut self,
        name: String,
        shape: &[u64],
        element: GridElement,
        values: &[i64],
    ) {
        let (element, bytes) = match element {
            GridElement::Int8 => (DataType::Int8, encode(values, |v| (v as i8).to_le_bytes())),
            GridElement::Uint8 => (DataType::Uint8, encode(values, |v| [v as u8])),
            GridElement::Int32 => (
                DataType::Int32,
                encode(values, |v| (v as i32).to_le_bytes()),
            ),
        };
        self.tensor(name, element, shape, bytes);
    }

    /// The numbers of a parameter, whatever form they are written in.
    pub(super) fn numbers_of(&mut self, parameter: &Parameter) -> Vec<f32> {
        let numbers = self.numbers.floats(parameter);
        self.had(numbers)
    }

    fn tensor(&mut self, name: String, element: DataType, shape: &[u64], bytes: Vec<u8>) {
        let mut tensor = TensorProto {
            dims: shape.iter().map(|&size| size as i64).collect(),
            data_type: element as i32,
            name,
            ..TensorProto::default()
        };
        match &mut self.external {
            Some(file) if bytes.len() as u64 >= file.threshold_bytes => {
                let offset = file.data.len().next_multiple_of(ALIGNMENT_BYTES);
                file.data.resize(offset, 0);
                file.data.extend_from_slice(&bytes);
                tensor.external_data = vec![
                    StringStringEntryProto::new("location", &file.location),
                    StringStringEntryProto::new("offset", &offset.to_string()),
                    StringStringEntryProto::new("length", &bytes.len().to_string()),
                ];
                tensor.data_location = Some(1);
            }
            _ => tensor.raw_data = Some(bytes.into()),
        }
        self.tensors.push(tensor);
    }

    /// The initializers, and the file of large ones where any went there.
    pub(super) fn finish(self) -> Result<(Vec<TensorProto>, Option<Vec<u8>>), String> {
        if let Some(error) = self.lacks {
            return Err(error.to_string());
        }
        let data = self
            .external
            .map(|file| file.data)
            .filter(|data| !data.is_empty());
        Ok((self.tensors, data))
    }
}

fn bytes_of(parameter: &Parameter, types: &BTreeMap<String, ValueType>, element: DataType) -> u64 {
    types.get(&parameter.name).map_or(0, |value| {
        let element = match value.element {
            ElementType::Float => element,
            ElementType::Int64 => DataType::Int64,
        };
        value.elements().saturating_mul(element.bytes())
    })
}

/// Numbers one after another. Written over an array of the final size, which vectorises.
fn encode<T: Copy, const N: usize>(values: &[T], to_bytes: impl Fn(T) -> [u8; N]) -> Vec<u8> {
    let mut bytes = vec![[0; N]; values.len()];
    for (slot, &value) in bytes.iter_mut().zip(values) {
        *slot = to_bytes(value);
    }
    bytes.into_flattened()
}
