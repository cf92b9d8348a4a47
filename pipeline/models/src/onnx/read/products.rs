//! Products of constants, and what is put into them: positions times frequencies, and the masks of
//! shifted windows.

use super::{
    fold::Fold,
    shapes,
    tensor::{Constant, Data, Kind},
};
use crate::infer;

/// Most products of numbers that are worth computing while reading. What is larger is a product of
/// weights, and is left to the engines.
const SMALL: u64 = 1 << 22;

impl Fold<'_> {
    /// Whether a product is one of positions and the like.
    pub(super) fn is_small_product(&self) -> bool {
        let (Ok(a), Ok(b)) = (self.at(0), self.at(1)) else {
            return false;
        };
        let columns = b.shape.last().copied().unwrap_or(0);
        a.kind == Kind::Float
            && b.kind == Kind::Float
            && a.shape.len() >= 2
            && b.shape.len() >= 2
            && a.elements().saturating_mul(columns) <= SMALL
            && b.elements() <= SMALL
    }

    /// The product of two stacks of matrices, summed in binary64.
    pub(super) fn matmul(&mut self) -> Result<Constant, String> {
        let (a, b) = (self.at(0)?, self.at(1)?);
        let (&[ref left @ .., rows, inner], &[ref right @ .., depth, columns]) =
            (a.shape.as_slice(), b.shape.as_slice())
        else {
            return Err(format!("multiplies {:?} and {:?}", a.shape, b.shape));
        };
        if inner != depth {
            return Err(format!("multiplies {:?} and {:?}", a.shape, b.shape));
        }
        let stack = infer::broadcast(left, right)?;
        let whole = |sizes: [u64; 2]| [stack.as_slice(), &sizes].concat();
        let (a, b) = (
            self.budget.expanded(a, &whole([rows, inner]))?,
            self.budget.expanded(b, &whole([inner, columns]))?,
        );
        let shape = whole([rows, columns]);
        let made = self.budget.count(&shape)?;
        self.budget.take(made.saturating_mul(inner.max(1)))?;
        let (Data::Floats(a), Data::Floats(b)) = (self.budget.data(&a)?, self.budget.data(&b)?)
        else {
            return Err("multiplies matrices of integers".to_owned());
        };
        let sum = |at: u64| {
            let (matrix, column) = (at / columns, at % columns);
            let (stacked, row) = (matrix / rows, matrix % rows);
            let term = |k: u64| {
                let a = a.get(((stacked * rows + row) * inner + k) as usize);
                let b = b.get(((stacked * inner + k) * columns + column) as usize);
                f64::from(a.copied().unwrap_or(0.0)) * f64::from(b.copied().unwrap_or(0.0))
            };
            (0..inner).map(term).sum::<f64>() as f32
        };
        let numbers = (0..made).map(sum).collect();
        Ok(Constant::floats(shape, numbers))
    }

    /// A copy of the data with slices of it replaced.
    pub(super) fn scatter(&mut self) -> Result<Constant, String> {
        let reduction = self.attributes.text("reduction", "none");
        if reduction != "none" {
            return Err(format!("adds what it scatters: `{reduction}`"));
        }
        let (data, indices, updates) = (self.at(0)?, self.at(1)?, self.at(2)?);
        let wrong = || {
            format!(
                "scatters {:?} by {:?} into {:?}",
                updates.shape, indices.shape, data.shape
            )
        };
        let (&depth, places) = indices.shape.split_last().ok_or_else(wrong)?;
        let (named, slice) = usize::try_from(depth)
            .ok()
            .and_then(|depth| data.shape.split_at_checked(depth))
            .ok_or_else(wrong)?;
        if updates.kind != data.kind || updates.shape != [places, slice].concat() {
            return Err(wrong());
        }
        let length = self.budget.count(slice)?;
        let steps = shapes::strides(&data.shape);
        let starts = self.list(1)?;
        let starts: Vec<u64> = starts
            .chunks(named.len().max(1))
            .map(|index| {
                let mut parts = index.iter().zip(named).zip(&steps);
                parts.try_fold(0_u64, |sum, ((&at, &size), &step)| {
                    Ok::<u64, String>(sum + shapes::index(at, size)? * step)
                })
            })
            .collect::<Result<_, _>>()?;
        fn replaced<T: Copy>(mut all: Vec<T>, new: &[T], starts: &[u64], length: u64) -> Vec<T> {
            let length = length as usize;
            for (&start, slice) in starts.iter().zip(new.chunks(length.max(1))) {
                let start = start as usize;
                if let Some(room) = all.get_mut(start..start + slice.len()) {
                    room.copy_from_slice(slice);
                }
            }
            all
        }
        let made = match (self.budget.data(data)?, self.budget.data(updates)?) {
            (Data::Floats(all), Data::Floats(new)) => {
                Data::Floats(replaced(all, &new, &starts, length))
            }
            (Data::Integers(all), Data::Integers(new)) => {
                Data::Integers(replaced(all, &new, &starts, length))
            }
            _ => return Err(wrong()),
        };
        Ok(data.like(data.shape.clone(), made))
    }
}
