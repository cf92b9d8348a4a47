//! Constants of which little stands in the file: counted, repeated, filled, masked.

use super::{
    Fold, shapes,
    tensor::{Constant, Data},
};

impl Fold<'_> {
    pub(super) fn tile(&mut self) -> Result<Constant, String> {
        let mut x = self.at(0)?.clone();
        let times = self.list(1)?;
        if times.len() != x.shape.len() {
            let (axes, numbers) = (x.shape.len(), times.len());
            return Err(format!("repeats {axes} axes by {numbers} numbers"));
        }
        for (axis, times) in times.into_iter().enumerate() {
            let size = x.shape.get(axis).copied().unwrap_or(1);
            let times = u64::try_from(times).map_err(|_| "repeats less than never")?;
            self.budget.take(size.saturating_mul(times))?;
            // Repeating nothing would never end.
            let times = if size == 0 { 0 } else { times };
            let indices: Vec<u64> = (0..times).flat_map(|_| 0..size).collect();
            x = self.along(&x, axis, &indices)?;
        }
        Ok(x)
    }

    pub(super) fn range(&mut self) -> Result<Constant, String> {
        let data: Vec<Data> = (0..3)
            .map(|at| self.at(at).and_then(|x| self.budget.data(x)))
            .collect::<Result<_, _>>()?;
        match data.as_slice() {
            [
                Data::Integers(start),
                Data::Integers(limit),
                Data::Integers(step),
            ] => {
                let (&[start], &[limit], &[step]) = (&**start, &**limit, &**step) else {
                    return Err("reads lists where numbers belong".to_owned());
                };
                let span = i128::from(limit) - i128::from(start);
                let step_wide = i128::from(step);
                if step == 0 {
                    return Err("counts by steps of 0".to_owned());
                }
                // Rounded up, away from the start.
                let count = (span + step_wide - step_wide.signum()) / step_wide;
                let count = u64::try_from(count.max(0)).unwrap_or(u64::MAX);
                self.budget.take(count)?;
                let numbers = (0..count as i64).map(|at| start.wrapping_add(at.wrapping_mul(step)));
                Ok(self
                    .at(0)?
                    .like(vec![count], Data::Integers(numbers.collect())))
            }
            [Data::Floats(start), Data::Floats(limit), Data::Floats(step)] => {
                let (&[start], &[limit], &[step]) = (&**start, &**limit, &**step) else {
                    return Err("reads lists where numbers belong".to_owned());
                };
                let count = ((limit - start) / step).ceil().max(0.0);
                if !count.is_finite() {
                    return Err("counts without end".to_owned());
                }
                let count = count as u64;
                self.budget.take(count)?;
                let numbers = (0..count).map(|at| start + at as f32 * step);
                Ok(Constant::floats(vec![count], numbers.collect()))
            }
            _ => Err("mixes floats and integers".to_owned()),
        }
    }

    pub(super) fn constant_of_shape(&mut self) -> Result<Constant, String> {
        let shape = shapes::sizes_of(&self.list(0)?)?;
        let count = self.budget.count(&shape)?;
        self.budget.take(count)?;
        let value = match self.attributes.tensor("value") {
            Some(value) => {
                let nowhere = &mut |_: &str| Err("its value lies beside the model".to_owned());
                Constant::read(value, nowhere)?
            }
            None => Constant::floats(vec![1], vec![0.0]),
        };
        let data = match self.budget.data(&value)? {
            Data::Floats(numbers) => match *numbers {
                [number] => Data::Floats(vec![number; count as usize]),
                _ => return Err("repeats more than one number".to_owned()),
            },
            Data::Integers(numbers) => match *numbers {
                [number] => Data::Integers(vec![number; count as usize]),
                _ => return Err("repeats more than one number".to_owned()),
            },
        };
        Ok(value.like(shape, data))
    }

    /// The upper or lower triangle of each matrix, the rest zero.
    pub(super) fn trilu(&mut self) -> Result<Constant, String> {
        let x = self.at(0)?;
        let &[.., rows, columns] = &*x.shape else {
            return Err(format!("takes a triangle of {:?}", x.shape));
        };
        let shift = match self.optional(1) {
            Some(_) => self.list(1)?.first().copied().unwrap_or(0),
            None => 0,
        };
        let upper = self.attributes.int("upper", 1) != 0;
        let kept = |at: usize| {
            let at = at as u64 % rows.saturating_mul(columns).max(1);
            let distance = (at % columns) as i64 - (at / columns) as i64;
            if upper {
                distance >= shift
            } else {
                distance <= shift
            }
        };
        fn masked<T: Default>(numbers: Vec<T>, kept: impl Fn(usize) -> bool) -> Vec<T> {
            let mask = |(at, number)| if kept(at) { number } else { T::default() };
            numbers.into_iter().enumerate().map(mask).collect()
        }
        let data = match self.budget.data(x)? {
            Data::Floats(numbers) => Data::Floats(masked(numbers, kept)),
            Data::Integers(numbers) => Data::Integers(masked(numbers, kept)),
        };
        Ok(x.like(x.shape.clone(), data))
    }
}
