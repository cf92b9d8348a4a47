//! A TensorFlow graph in the making.

use tensorflow::{DataType, Graph, Operation, OperationDescription, Output, Shape, Status, Tensor};

use crate::{
    configuration::Compilation,
    tensors::{Float, Host},
};

/// What TensorFlow makes, or why it does not.
pub(crate) type Made<T> = Result<T, Status>;

/// Adds operations to a graph, each under a name of its own.
pub(crate) struct Builder {
    /// The graph.
    pub(crate) graph: Graph,
    /// Element type of floating-point values.
    pub(crate) float: Float,
    /// What XLA compiles of it.
    pub(crate) compilation: Compilation,
    /// What the names of operations begin with.
    place: String,
    count: u64,
}

impl Builder {
    /// An empty graph.
    pub(crate) fn new(float: Float, compilation: Compilation) -> Self {
        Self {
            graph: Graph::new(),
            float,
            compilation,
            place: String::new(),
            count: 0,
        }
    }

    /// From here on, the names of operations tell this place: a node's name, say. (TensorFlow's
    /// errors and profiles name operations.)
    pub(crate) fn enter(&mut self, place: &str) {
        self.place = self::place(place);
    }

    /// An operation; `describe` gives it its inputs and attributes. Types that follow from the
    /// inputs need not be told.
    pub(crate) fn operation(
        &mut self,
        kind: &str,
        describe: impl FnOnce(&mut OperationDescription<'_>) -> Made<()>,
    ) -> Made<Operation> {
        self.count += 1;
        let name = if self.place.is_empty() {
            format!("{kind}_{}", self.count)
        } else {
            format!("{}/{kind}_{}", self.place, self.count)
        };
        let mut description = self.graph.new_operation(kind, &name)?;
        describe(&mut description)?;
        description.finish()
    }

    /// The first output of an operation with attributes.
    pub(crate) fn with(
        &mut self,
        kind: &str,
        inputs: &[&Output],
        describe: impl FnOnce(&mut OperationDescription<'_>) -> Made<()>,
    ) -> Made<Output> {
        let operation = self.operation(kind, |description| {
            for &input in inputs {
                description.add_input(input.clone());
            }
            describe(description)
        })?;
        Ok(operation.into())
    }

    /// The first output of an operation without attributes.
    pub(crate) fn op(&mut self, kind: &str, inputs: &[&Output]) -> Made<Output> {
        self.with(kind, inputs, |_| Ok(()))
    }

    /// Something to be fed.
    pub(crate) fn placeholder(
        &mut self,
        element: DataType,
        shape: Option<&[u64]>,
    ) -> Made<Operation> {
        let shape =
            Shape::new(shape.map(|sizes| sizes.iter().map(|&size| Some(wide(size))).collect()));
        self.operation("Placeholder", |placeholder| {
            placeholder.set_attr_type("dtype", element)?;
            Ok(placeholder.set_attr_shape("shape", &shape)?)
        })
    }

    /// A constant.
    pub(crate) fn constant(&mut self, value: Host) -> Made<Output> {
        let constant = self.operation("Const", |constant| value.hold(constant))?;
        Ok(constant.into())
    }

    /// A floating-point constant without axes.
    pub(crate) fn scalar(&mut self, value: f64) -> Made<Output> {
        self.floats(&[], &[value])
    }

    /// A floating-point constant.
    pub(crate) fn floats(&mut self, dims: &[u64], values: &[f64]) -> Made<Output> {
        let host = match self.float {
            Float::F32 => {
                // The nearest number that the type has.
                let values: Vec<f32> = values.iter().map(|&value| value as f32).collect();
                Host::F32(Tensor::new(dims).with_values(&values)?)
            }
            Float::F64 => Host::F64(Tensor::new(dims).with_values(values)?),
        };
        self.constant(host)
    }

    /// A constant list of sizes or axes.
    pub(crate) fn integers(&mut self, values: &[i32]) -> Made<Output> {
        self.indices(&[values.len() as u64], values)
    }

    /// A constant size or axis.
    pub(crate) fn integer(&mut self, value: i32) -> Made<Output> {
        self.indices(&[], &[value])
    }

    /// A constant of sizes or axes, as TensorFlow's own gradients want them: of 32 bits.
    pub(crate) fn indices(&mut self, dims: &[u64], values: &[i32]) -> Made<Output> {
        let value = Tensor::<i32>::new(dims).with_values(values)?;
        let constant = self.operation("Const", |constant| {
            constant.set_attr_type("dtype", DataType::Int32)?;
            constant.set_attr_tensor("value", value)
        })?;
        Ok(constant.into())
    }

    /// The same elements in another shape.
    pub(crate) fn reshape(&mut self, x: &Output, dims: &[u64]) -> Made<Output> {
        let dims = self.integers(&narrow(dims)?)?;
        self.op("Reshape", &[x, &dims])
    }

    /// Another order of the axes: axis `i` of the output is axis `axes[i]` of `x`.
    pub(crate) fn transpose(&mut self, x: &Output, axes: &[usize]) -> Made<Output> {
        if axes.is_sorted() {
            return Ok(x.clone());
        }
        let axes: Vec<i32> = axes.iter().map(|&axis| small(axis)).collect();
        let axes = self.integers(&axes)?;
        self.op("Transpose", &[x, &axes])
    }

    /// The mean over some axes.
    pub(crate) fn mean(&mut self, x: &Output, axes: &[i32], keep: bool) -> Made<Output> {
        let axes = self.integers(axes)?;
        self.with("Mean", &[x, &axes], |mean| {
            Ok(mean.set_attr_bool("keep_dims", keep)?)
        })
    }

    /// The value of a variable.
    pub(crate) fn read(&mut self, handle: &Output, element: DataType) -> Made<Output> {
        self.with("ReadVariableOp", &[handle], |read| {
            Ok(read.set_attr_type("dtype", element)?)
        })
    }

    /// A value that is there once all of these operations have run.
    pub(crate) fn after(&mut self, value: &Output, operations: &[Operation]) -> Made<Output> {
        self.with("Identity", &[value], |identity| {
            for operation in operations {
                identity.add_control_input(operation);
            }
            Ok(())
        })
    }
}

/// What names of operations begin with at this place: no two places have the same.
///
/// TensorFlow's names begin with a letter, a digit or a dot, and go on with those, `_`, `-` and `/`. What parts
/// a name's own words from TensorFlow's is `/`, and `-` leads in what has no place there: a number in
/// hexadecimal and another `-`.
pub(crate) fn place(name: &str) -> String {
    let mut place = String::with_capacity(name.len() + 1);
    if name.starts_with(|c: char| !c.is_ascii_alphanumeric()) {
        place.push('.');
    }
    for c in name.chars() {
        match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '.' | '_' => place.push(c),
            _ => place.push_str(&format!("-{:x}-", u32::from(c))),
        }
    }
    place
}

/// A size in TensorFlow's shapes.
pub(crate) fn wide(size: u64) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}

/// An axis or another small number.
pub(crate) fn small(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// Sizes in 32 bits.
pub(crate) fn narrow(sizes: &[u64]) -> Made<Vec<i32>> {
    sizes
        .iter()
        .map(|&size| {
            i32::try_from(size).map_err(|_| {
                Status::new_set_lossy(
                    tensorflow::Code::Unimplemented,
                    &format!("a size of {size} is above 2^31 − 1"),
                )
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn places_are_as_different_as_names() {
        assert_eq!(place("layer1.0.conv1"), "layer1.0.conv1");
        assert_eq!(place(""), "");
        let names = [
            "",
            ".",
            "_",
            "-",
            "a",
            "a.b",
            "a_b",
            "a-b",
            "a/b",
            "a b",
            "a-2f-b",
            "a-2f",
            "/a",
            "_a",
            "._a",
            "..a",
            ".a",
            "7",
            "_7",
            "-7",
            "7.",
            "\u{3bb}",
            "\u{1f600}",
            "3bb",
            "-3bb-",
        ];
        let places: BTreeSet<String> = names.iter().map(|name| place(name)).collect();
        assert_eq!(places.len(), names.len());
        for place in places.iter().filter(|place| !place.is_empty()) {
            let fit = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
            assert!(place.chars().all(fit), "{place}");
            let begins = |c: char| c.is_ascii_alphanumeric() || c == '.';
            assert!(place.starts_with(begins), "{place}");
        }
    }
}
