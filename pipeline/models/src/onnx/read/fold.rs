//! What can be computed while reading: the arithmetic of shapes, positions and masks that exporters
//! leave in a model.

mod budget;
mod made;

pub(super) use budget::Budget;

use super::{
    arithmetic::{binary, unary},
    attributes::Attributes,
    shapes,
    tensor::{self, Constant, Data, Kind},
};
use crate::infer;

/// What is said of what reads a tensor whose numbers are not read.
pub(super) const UNREAD: &str = "reads a tensor of a type that is not read";

/// The values that a node makes of constants; `None` where it is not known how.
pub(super) fn fold(
    op: &str,
    attributes: Attributes<'_>,
    inputs: &[Option<Constant>],
    budget: &mut Budget,
) -> Result<Option<Vec<Constant>>, String> {
    let is_unread = |known: &Constant| known.kind == Kind::Other;
    let keeps = ["Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze"].contains(&op);
    if !keeps && inputs.iter().flatten().any(is_unread) {
        return Err(UNREAD.to_owned());
    }
    let made = folded(op, attributes, inputs, budget)?;
    for constant in made.iter().flatten() {
        budget.check_rank(constant)?;
    }
    Ok(made)
}

fn folded(
    op: &str,
    attributes: Attributes<'_>,
    inputs: &[Option<Constant>],
    budget: &mut Budget,
) -> Result<Option<Vec<Constant>>, String> {
    let mut fold = Fold {
        attributes,
        inputs,
        budget,
    };
    let made = match op {
        "Identity" => fold.at(0)?.clone(),
        "Dropout" => {
            if let Some(training) = fold.optional(2) {
                check_dropout(training)?;
            }
            fold.at(0)?.clone()
        }
        "Cast" => fold.cast()?,
        "Reshape" => {
            let (x, spec) = (fold.at(0)?, fold.list(1)?);
            let zero_is_size = attributes.int("allowzero", 0) != 0;
            x.with_shape(shapes::reshaped(&x.shape, &spec, zero_is_size)?)
        }
        "Flatten" => {
            let x = fold.at(0)?;
            x.with_shape(flattened(&x.shape, attributes.int("axis", 1))?)
        }
        "Squeeze" | "Unsqueeze" => {
            let x = fold.at(0)?;
            let axes = fold.axes(1)?;
            let shape = match (op, axes) {
                ("Squeeze", axes) => shapes::squeezed(&x.shape, axes.as_deref())?,
                (_, Some(axes)) => shapes::unsqueezed(&x.shape, &axes)?,
                (_, None) => return Err("names no axes".to_owned()),
            };
            x.with_shape(shape)
        }
        "Transpose" => fold.transpose()?,
        "Concat" => fold.concat()?,
        "Slice" => fold.slice()?,
        "Gather" => fold.gather()?,
        "GatherND" => fold.gather_places()?,
        "GatherElements" => fold.gather_elements()?,
        "Expand" => {
            let (x, spec) = (fold.at(0)?, fold.list(1)?);
            let spec = shapes::sizes_of(&spec)?;
            let shape = infer::broadcast(&x.shape, &spec)?;
            fold.budget.expanded(x, &shape)?
        }
        "Tile" => fold.tile()?,
        "Range" => fold.range()?,
        "ConstantOfShape" => fold.constant_of_shape()?,
        "Where" => fold.choose()?,
        "Trilu" => fold.trilu()?,
        "Clip" => fold.clip()?,
        "MatMul" if fold.is_small_product() => fold.matmul()?,
        "ScatterND" => fold.scatter()?,
        "Split" => return fold.split().map(Some),
        "CumSum" => fold.running_sum()?,
        "ArgMax" => fold.place_of_largest()?,
        "ReduceProd" | "ReduceSum" | "ReduceMax" | "ReduceMin" | "ReduceMean" => fold.reduce(op)?,
        "IsNaN" => fold.is_no_number()?,
        "Sum" => fold.chain(op)?,
        "Max" | "Min" if inputs.len() != 2 => fold.chain(op)?,
        _ => match (inputs.len(), unary(op), binary(op, attributes)) {
            (1, Some(map), _) => fold.map(map)?,
            (2, _, Some(pair)) => fold.zip(op, pair)?,
            _ => return Ok(None),
        },
    };
    Ok(Some(vec![made]))
}

/// The matrix that `Flatten` makes.
pub(super) fn flattened(shape: &[u64], axis: i64) -> Result<Vec<u64>, String> {
    let at = if axis == shape.len() as i64 {
        shape.len()
    } else {
        shapes::axis(axis, shape.len())?
    };
    let (rows, columns) = shape.split_at_checked(at).ok_or("has no such axis")?;
    Ok(vec![tensor::count(rows)?, tensor::count(columns)?])
}

/// What `GatherND` takes of a tensor, seen as rows of what lies behind the axes that places are over.
pub(super) struct Places {
    /// How many rows there are, and the shape of one.
    pub(super) outer: u64,
    pub(super) inner: Vec<u64>,
    /// Those that are taken, and the shape of them all.
    pub(super) rows: Vec<u64>,
    pub(super) shape: Vec<u64>,
}

/// What `GatherND` takes of a tensor of this shape.
pub(super) fn places(
    shape: &[u64],
    indices: &Constant,
    attributes: Attributes<'_>,
    budget: &mut Budget,
) -> Result<Places, String> {
    if attributes.int("batch_dims", 0) != 0 {
        return Err("takes what lies at places from each of a batch".to_owned());
    }
    let (&width, rows) = indices.shape.split_last().ok_or("names no places")?;
    let width = usize::try_from(width).unwrap_or(usize::MAX);
    let (outer, inner) = shape
        .split_at_checked(width)
        .filter(|_| width > 0)
        .ok_or_else(|| format!("names {width} axes of {shape:?}"))?;
    let strides = shapes::strides(outer);
    let taken = budget.list(indices)?;
    let taken = taken.chunks(width).map(|place| {
        let axes = place.iter().zip(outer).zip(&strides);
        axes.map(|((&at, &size), stride)| Ok(shapes::index(at, size)? * stride))
            .sum()
    });
    Ok(Places {
        outer: tensor::count(outer)?,
        inner: inner.to_vec(),
        rows: taken.collect::<Result<_, String>>()?,
        shape: [rows, inner].concat(),
    })
}

/// A node whose inputs are constants.
pub(super) struct Fold<'a> {
    pub(super) attributes: Attributes<'a>,
    pub(super) inputs: &'a [Option<Constant>],
    pub(super) budget: &'a mut Budget,
}

impl<'a> Fold<'a> {
    pub(super) fn at(&self, index: usize) -> Result<&'a Constant, String> {
        self.optional(index)
            .ok_or_else(|| format!("lacks its input {index}"))
    }

    pub(super) fn optional(&self, index: usize) -> Option<&'a Constant> {
        self.inputs.get(index)?.as_ref()
    }

    pub(super) fn list(&mut self, index: usize) -> Result<Vec<i64>, String> {
        let constant = self.at(index)?;
        self.budget.list(constant)
    }

    /// Axes, which came from an attribute to an input in opset 13 or 18.
    pub(super) fn axes(&mut self, index: usize) -> Result<Option<Vec<i64>>, String> {
        match (self.attributes.ints("axes"), self.optional(index)) {
            (Some(axes), _) => Ok(Some(axes.to_vec())),
            (None, Some(given)) => self.budget.list(given).map(Some),
            (None, None) => Ok(None),
        }
    }

    fn transpose(&mut self) -> Result<Constant, String> {
        let x = self.at(0)?;
        let perm = permutation(self.attributes.ints("perm"), x.shape.len())?;
        let from = shapes::strides(&x.shape);
        let pick = |list: &[u64]| -> Vec<u64> {
            perm.iter()
                .filter_map(|&axis| list.get(axis as usize).copied())
                .collect()
        };
        let (shape, steps) = (pick(&x.shape), pick(&from));
        let to = shapes::strides(&shape);
        let place = |at: u64| {
            let mut rest = at;
            let mut place = 0;
            for (to, step) in to.iter().zip(&steps) {
                place += rest / to.max(&1) * step;
                rest %= to.max(&1);
            }
            place
        };
        self.budget.pick(x, shape, place)
    }

    /// Elements along an axis, by their indices there.
    fn along(&mut self, x: &Constant, axis: usize, indices: &[u64]) -> Result<Constant, String> {
        let mut shape = x.shape.clone();
        let size = shape.get(axis).copied().unwrap_or(1);
        if indices.iter().any(|&index| index >= size) {
            return Err(format!("reads beyond axis {axis} of {:?}", x.shape));
        }
        if let Some(slot) = shape.get_mut(axis) {
            *slot = indices.len() as u64;
        }
        let inner = shapes::strides(&x.shape)
            .get(axis)
            .copied()
            .unwrap_or(1)
            .max(1);
        let taken = indices.len() as u64;
        let place = |at: u64| {
            let (within, rest) = (at % inner, at / inner);
            let index = indices.get((rest % taken) as usize).copied().unwrap_or(0);
            (rest / taken * size + index) * inner + within
        };
        self.budget.pick(x, shape, place)
    }

    fn slice(&mut self) -> Result<Constant, String> {
        let mut x = self.at(0)?.clone();
        let (starts, ends) = (self.list(1)?, self.list(2)?);
        let axes = match self.optional(3) {
            Some(_) => self.list(3)?,
            None => (0..starts.len() as i64).collect(),
        };
        let steps = match self.optional(4) {
            Some(_) => self.list(4)?,
            None => vec![1; starts.len()],
        };
        shapes::check_cuts(&[&starts, &ends, &axes, &steps])?;
        for (((start, end), axis), step) in starts.into_iter().zip(ends).zip(axes).zip(steps) {
            let axis = shapes::axis(axis, x.shape.len())?;
            let size = x.shape.get(axis).copied().unwrap_or(1);
            self.budget.take(size)?;
            let indices = shapes::sliced(size, start, end, step)?;
            x = self.along(&x, axis, &indices)?;
        }
        Ok(x)
    }

    fn gather(&mut self) -> Result<Constant, String> {
        let (x, indices) = (self.at(0)?, self.at(1)?);
        let axis = shapes::axis(self.attributes.int("axis", 0), x.shape.len())?;
        let size = x.shape.get(axis).copied().unwrap_or(1);
        let places = self.list(1)?.into_iter().map(|at| shapes::index(at, size));
        let places: Vec<u64> = places.collect::<Result<_, _>>()?;
        let taken = self.along(x, axis, &places)?;
        let (before, after) = x.shape.split_at_checked(axis).ok_or("has no such axis")?;
        let after = after.get(1..).unwrap_or_default();
        Ok(taken.with_shape([before, &indices.shape, after].concat()))
    }

    /// Of places over the first axes what lies behind them.
    fn gather_places(&mut self) -> Result<Constant, String> {
        let (x, indices) = (self.at(0)?, self.at(1)?);
        let found = places(&x.shape, indices, self.attributes, self.budget)?;
        let within = tensor::count(&found.inner)?.max(1);
        let place = |at: u64| {
            let row = found.rows.get((at / within) as usize).copied();
            row.map_or(u64::MAX, |row| {
                row.saturating_mul(within).saturating_add(at % within)
            })
        };
        self.budget.pick(x, found.shape.clone(), place)
    }

    /// Elements by their places along one axis, each for itself.
    fn gather_elements(&mut self) -> Result<Constant, String> {
        let (x, indices) = (self.at(0)?, self.at(1)?);
        let axis = shapes::axis(self.attributes.int("axis", 0), x.shape.len())?;
        let fits = indices.shape.len() == x.shape.len()
            && (indices.shape.iter().zip(&x.shape).enumerate())
                .all(|(at, (taken, there))| at == axis || taken <= there);
        if !fits {
            return Err(format!("takes {:?} of {:?}", indices.shape, x.shape));
        }
        let size = x.shape.get(axis).copied().unwrap_or(1);
        let along = self.list(1)?.into_iter().map(|at| shapes::index(at, size));
        let along: Vec<u64> = along.collect::<Result<_, _>>()?;
        let (from, to) = (shapes::strides(&x.shape), shapes::strides(&indices.shape));
        let place = |at: u64| {
            let mut rest = at;
            let mut place = 0;
            for (this, (to, from)) in to.iter().zip(&from).enumerate() {
                let index = rest / to.max(&1);
                rest %= to.max(&1);
                let index = match this == axis {
                    true => along.get(at as usize).copied().unwrap_or(0),
                    false => index,
                };
                place += index * from;
            }
            place
        };
        self.budget.pick(x, indices.shape.clone(), place)
    }

    /// An operator of two values over as many as there are.
    fn chain(&mut self, op: &str) -> Result<Constant, String> {
        let mut made = self.at(0)?.clone();
        let pairwise = if op == "Sum" { "Add" } else { op };
        for next in self.inputs.get(1..).unwrap_or_default() {
            let pair = binary(pairwise, self.attributes).ok_or("has no such pair")?;
            let inputs = [Some(made), next.clone()];
            let mut fold = Fold {
                attributes: self.attributes,
                inputs: &inputs,
                budget: &mut *self.budget,
            };
            made = fold.zip(pairwise, pair)?;
        }
        Ok(made)
    }

    fn concat(&mut self) -> Result<Constant, String> {
        let first = self.at(0)?;
        let axis = shapes::axis(self.attributes.int("axis", 0), first.shape.len())?;
        let inputs = self.inputs;
        let parts: Vec<&Constant> = inputs
            .iter()
            .map(|part| part.as_ref().ok_or("lacks an input"))
            .collect::<Result<_, _>>()?;
        let mut shape = first.shape.clone();
        let mut size = 0_u64;
        for part in &parts {
            let fits = part.kind == first.kind
                && part.shape.len() == first.shape.len()
                && (part.shape.iter().zip(&first.shape).enumerate())
                    .all(|(at, (a, b))| at == axis || a == b);
            if !fits {
                return Err(format!(
                    "{:?} and {:?} do not join",
                    first.shape, part.shape
                ));
            }
            size = size.saturating_add(part.shape.get(axis).copied().unwrap_or(0));
        }
        if let Some(slot) = shape.get_mut(axis) {
            *slot = size;
        }
        let all = self.budget.count(&shape)?;
        self.budget.take(all)?;
        let (outer, inner) = shape.split_at_checked(axis).ok_or("has no such axis")?;
        let (outer, inner) = (
            tensor::count(outer)?,
            tensor::count(inner.get(1..).unwrap_or_default())?,
        );
        let datas: Vec<(Data, u64)> = parts
            .iter()
            // Nothing joins nothing, as often as it may stand there.
            .filter(|part| part.elements() > 0)
            .map(|part| {
                let row = part
                    .shape
                    .get(axis)
                    .copied()
                    .unwrap_or(0)
                    .saturating_mul(inner);
                Ok((self.budget.data(part)?, row))
            })
            .collect::<Result<_, String>>()?;
        let (mut floats, mut integers) = (Vec::new(), Vec::new());
        // Rows of nothing may be without number.
        let outer = if all == 0 { 0 } else { outer };
        self.budget.take(outer.saturating_mul(datas.len() as u64))?;
        for row in 0..outer {
            for (data, length) in &datas {
                let range = (row * length) as usize..((row + 1) * length) as usize;
                match data {
                    Data::Floats(numbers) => {
                        floats.extend_from_slice(numbers.get(range).unwrap_or_default());
                    }
                    Data::Integers(numbers) => {
                        integers.extend_from_slice(numbers.get(range).unwrap_or_default());
                    }
                }
            }
        }
        let data = match first.kind {
            Kind::Float => Data::Floats(floats),
            _ => Data::Integers(integers),
        };
        Ok(first.like(shape, data))
    }

    fn split(&mut self) -> Result<Vec<Constant>, String> {
        let x = self.at(0)?;
        let axis = shapes::axis(self.attributes.int("axis", 0), x.shape.len())?;
        let size = x.shape.get(axis).copied().unwrap_or(1);
        let sizes = match self.optional(1) {
            Some(_) => Some(self.list(1)?),
            None => None,
        };
        let parts = parts(size, sizes.as_deref(), self.attributes)?;
        self.budget.take(size)?;
        let slices = parts.into_iter().map(|(start, end)| {
            let indices: Vec<u64> = (start..end).collect();
            self.along(x, axis, &indices)
        });
        slices.collect()
    }
}

/// Refuses a dropout that is told to drop: in a model that is exported for inference it is not.
pub(super) fn check_dropout(training: &Constant) -> Result<(), String> {
    match training.scalar() {
        Some(0.0) => Ok(()),
        _ => Err("drops as in training; export the model for inference".to_owned()),
    }
}

/// An order of axes; all turned around if none is given.
pub(super) fn permutation(perm: Option<&[i64]>, rank: usize) -> Result<Vec<u64>, String> {
    let Some(perm) = perm else {
        return Ok((0..rank as u64).rev().collect());
    };
    let mut sorted = perm.to_vec();
    sorted.sort_unstable();
    if sorted.iter().copied().eq(0..rank as i64) {
        Ok(perm.iter().map(|&axis| axis as u64).collect())
    } else {
        Err(format!("{perm:?} is no order of {rank} axes"))
    }
}

/// Where each part of a split begins and ends.
pub(super) fn parts(
    size: u64,
    sizes: Option<&[i64]>,
    attributes: Attributes<'_>,
) -> Result<Vec<(u64, u64)>, String> {
    let outputs = attributes.0.output.len() as u64;
    let sizes: Vec<u64> = match sizes {
        Some(sizes) => sizes
            .iter()
            .map(|&size| u64::try_from(size).map_err(|_| format!("a part of size {size}")))
            .collect::<Result<_, _>>()?,
        // All alike but the last, which takes what is left.
        None => {
            let part = size.div_ceil(outputs.max(1));
            let left = |at: u64| size.saturating_sub(at.saturating_mul(part)).min(part);
            (0..outputs).map(left).collect()
        }
    };
    let mut at = 0_u64;
    let mut parts = Vec::with_capacity(sizes.len());
    for part in sizes {
        let end = at.checked_add(part).filter(|&end| end <= size);
        let end = end.ok_or_else(|| format!("splits an axis of {size} beyond its end"))?;
        parts.push((at, end));
        at = end;
    }
    if at == size && parts.len() as u64 == outputs {
        Ok(parts)
    } else {
        Err(format!(
            "splits an axis of {size} into {} parts",
            parts.len()
        ))
    }
}
