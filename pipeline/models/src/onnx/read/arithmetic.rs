//! Arithmetic on constants.

use std::collections::BTreeSet;

use super::{
    attributes::Attributes,
    fold::{Budget, Fold},
    shapes,
    tensor::{self, Constant, Data, Element, Kind},
};
use crate::infer;

pub(super) type Unary = fn(f32) -> f32;

pub(super) fn unary(op: &str) -> Option<Unary> {
    Some(match op {
        "Neg" => |x| -x,
        "Abs" => f32::abs,
        "Sqrt" => f32::sqrt,
        "Reciprocal" => |x| 1.0 / x,
        "Exp" => f32::exp,
        "Log" => f32::ln,
        "Floor" => f32::floor,
        "Ceil" => f32::ceil,
        "Round" => f32::round_ties_even,
        "Sin" => f32::sin,
        "Cos" => f32::cos,
        "Tanh" => f32::tanh,
        "Sigmoid" => |x| 1.0 / (1.0 + (-x).exp()),
        "Relu" => |x| x.max(0.0),
        "Sign" => |x| if x == 0.0 { 0.0 } else { x.signum() },
        "Not" => |x| x,
        _ => return None,
    })
}

/// An operator of two numbers, for floats and for integers; `None` where the latter fails.
pub(super) struct Binary {
    floats: fn(f32, f32) -> f32,
    integers: fn(i64, i64) -> Option<i64>,
    /// Whether it makes truth values.
    compares: bool,
}

pub(super) fn binary(op: &str, attributes: Attributes<'_>) -> Option<Binary> {
    let arithmetic = |floats, integers| Binary {
        floats,
        integers,
        compares: false,
    };
    let comparison = |floats, integers| Binary {
        floats,
        integers,
        compares: true,
    };
    Some(match op {
        "Add" => arithmetic(|a, b| a + b, |a, b| Some(a.wrapping_add(b))),
        "Sub" => arithmetic(|a, b| a - b, |a, b| Some(a.wrapping_sub(b))),
        "Mul" => arithmetic(|a, b| a * b, |a, b| Some(a.wrapping_mul(b))),
        "Div" => arithmetic(|a, b| a / b, i64::checked_div),
        "Pow" => arithmetic(f32::powf, |a, b| a.checked_pow(u32::try_from(b).ok()?)),
        // As in C with `fmod`, and without it as in Python: the sign is the divisor's.
        "Mod" if attributes.int("fmod", 0) != 0 => arithmetic(|a, b| a % b, i64::checked_rem),
        "Mod" => arithmetic(
            |a, b| a % b,
            |a, b| {
                let left = a.checked_rem(b)?;
                Some(if left != 0 && (left < 0) != (b < 0) {
                    left + b
                } else {
                    left
                })
            },
        ),
        "Min" => arithmetic(f32::min, |a, b| Some(a.min(b))),
        "Max" => arithmetic(f32::max, |a, b| Some(a.max(b))),
        "Equal" => comparison(|a, b| truth(a == b), |a, b| Some((a == b).into())),
        "Less" => comparison(|a, b| truth(a < b), |a, b| Some((a < b).into())),
        "LessOrEqual" => comparison(|a, b| truth(a <= b), |a, b| Some((a <= b).into())),
        "Greater" => comparison(|a, b| truth(a > b), |a, b| Some((a > b).into())),
        "GreaterOrEqual" => comparison(|a, b| truth(a >= b), |a, b| Some((a >= b).into())),
        "And" => comparison(|_, _| f32::NAN, |a, b| Some((a != 0 && b != 0).into())),
        "Or" => comparison(|_, _| f32::NAN, |a, b| Some((a != 0 || b != 0).into())),
        "Xor" => comparison(|_, _| f32::NAN, |a, b| Some(((a != 0) != (b != 0)).into())),
        _ => return None,
    })
}

const fn truth(holds: bool) -> f32 {
    if holds { 1.0 } else { 0.0 }
}

/// The number of a list of one.
const fn only<T: Copy>(numbers: &[T]) -> Option<T> {
    match numbers {
        &[number] => Some(number),
        _ => None,
    }
}

/// A constant as numbers of the element type of this number.
pub(super) fn cast(x: &Constant, code: i32, budget: &mut Budget) -> Result<Constant, String> {
    let element = Element::of(code)?;
    let is_wide = element.kind == Kind::Bool || code == Element::INT64;
    if x.kind == element.kind && is_wide {
        return Ok(x.widened());
    }
    let data = budget.data(x)?;
    let data = match (data, element.kind) {
        (Data::Floats(numbers), Kind::Float) => {
            Data::Floats(numbers.into_iter().map(|x| narrowed(x, code)).collect())
        }
        (Data::Floats(numbers), Kind::Integer) => {
            let integer = |x: f32| {
                // What C++ makes of others is not defined. Of the logarithm of zero, say, which a
                // choice behind it passes over, x86 makes this.
                if code == Element::INT64 && x.is_infinite() {
                    return Ok(i64::MIN);
                }
                let found = x as i64;
                (x.abs() < 2_f32.powi(63) && found == element.integer(found))
                    .then_some(found)
                    .ok_or_else(|| format!("casts {x} to integers that do not reach so far"))
            };
            let numbers = numbers.into_iter().map(integer);
            Data::Integers(numbers.collect::<Result<_, _>>()?)
        }
        (Data::Floats(numbers), Kind::Bool) => {
            Data::Integers(numbers.into_iter().map(|x| i64::from(x != 0.0)).collect())
        }
        (Data::Integers(numbers), Kind::Float) => {
            let float = |x: i64| narrowed(x as f32, code);
            Data::Floats(numbers.into_iter().map(float).collect())
        }
        (Data::Integers(numbers), Kind::Bool) => {
            Data::Integers(numbers.into_iter().map(|x| i64::from(x != 0)).collect())
        }
        (Data::Integers(numbers), Kind::Integer) => {
            let numbers = numbers.into_iter().map(|x| element.integer(x));
            Data::Integers(numbers.collect())
        }
        (_, Kind::Other) => return Err(format!("casts to element type {code}")),
    };
    Ok(Constant::of(element, x.shape.clone(), data))
}

impl Fold<'_> {
    pub(super) fn cast(&mut self) -> Result<Constant, String> {
        let code = i32::try_from(self.attributes.int("to", 0)).unwrap_or(0);
        cast(self.at(0)?, code, self.budget)
    }

    pub(super) fn map(&mut self, map: Unary) -> Result<Constant, String> {
        let x = self.at(0)?;
        let data = match (self.budget.data(x)?, x.kind) {
            (Data::Floats(numbers), _) => Data::Floats(numbers.into_iter().map(map).collect()),
            (Data::Integers(numbers), Kind::Bool) => {
                Data::Integers(numbers.into_iter().map(|x| i64::from(x == 0)).collect())
            }
            // Negation and size are all that integers have here, and both are exact in binary32
            // for the sizes that shapes are made of.
            (Data::Integers(numbers), _) => {
                if numbers.iter().any(|x| x.unsigned_abs() > 1 << 24) {
                    return Err("computes with integers above 2^24 as floats".to_owned());
                }
                Data::Integers(numbers.into_iter().map(|x| map(x as f32) as i64).collect())
            }
        };
        Ok(x.like(x.shape.clone(), data))
    }

    pub(super) fn is_no_number(&mut self) -> Result<Constant, String> {
        let x = self.at(0)?;
        let Data::Floats(numbers) = self.budget.data(x)? else {
            return Err("asks for what is no number, of integers".to_owned());
        };
        let found = numbers.into_iter().map(|x| i64::from(x.is_nan()));
        let data = Data::Integers(found.collect());
        Ok(Constant::new(Kind::Bool, x.shape.clone(), data))
    }

    /// Numbers within bounds, either of which may be left open.
    pub(super) fn clip(&mut self) -> Result<Constant, String> {
        let x = self.at(0)?;
        let [low, high] = [1, 2].map(|at| match self.optional(at) {
            Some(bound) => self.budget.data(bound).map(Some),
            None => Ok(None),
        });
        let wrong = "has bounds that are no numbers of its kind";
        let data = match (self.budget.data(x)?, low?, high?) {
            (Data::Floats(numbers), low, high) => {
                let bound = |bound: Option<Data>, open| match bound {
                    None => Some(open),
                    Some(Data::Floats(bound)) => only(&bound),
                    Some(Data::Integers(_)) => None,
                };
                let low = bound(low, f32::MIN).ok_or(wrong)?;
                let high = bound(high, f32::MAX).ok_or(wrong)?;
                Data::Floats(numbers.into_iter().map(|x| x.max(low).min(high)).collect())
            }
            (Data::Integers(numbers), low, high) => {
                let bound = |bound: Option<Data>, open| match bound {
                    None => Some(open),
                    Some(Data::Integers(bound)) => only(&bound),
                    Some(Data::Floats(_)) => None,
                };
                let low = bound(low, i64::MIN).ok_or(wrong)?;
                let high = bound(high, i64::MAX).ok_or(wrong)?;
                Data::Integers(numbers.into_iter().map(|x| x.max(low).min(high)).collect())
            }
        };
        Ok(x.like(x.shape.clone(), data))
    }

    pub(super) fn zip(&mut self, op: &str, pair: Binary) -> Result<Constant, String> {
        let (a, b) = (self.at(0)?, self.at(1)?);
        let shape = infer::broadcast(&a.shape, &b.shape)?;
        let (a, b) = (
            self.budget.expanded(a, &shape)?,
            self.budget.expanded(b, &shape)?,
        );
        let data = match (self.budget.data(&a)?, self.budget.data(&b)?) {
            (Data::Floats(a), Data::Floats(b)) => {
                let made = a.into_iter().zip(b).map(|(a, b)| (pair.floats)(a, b));
                if pair.compares {
                    Data::Integers(made.map(|x| x as i64).collect())
                } else {
                    Data::Floats(made.collect())
                }
            }
            (Data::Integers(a), Data::Integers(b)) => a
                .into_iter()
                .zip(b)
                .map(|(a, b)| (pair.integers)(a, b))
                .collect::<Option<_>>()
                .map(Data::Integers)
                .ok_or_else(|| format!("{op} of these integers has no result"))?,
            (Data::Floats(a), Data::Integers(b)) if op == "Pow" => {
                let powers = b.into_iter().map(|b| b as f32);
                let made = a.into_iter().zip(powers);
                Data::Floats(made.map(|(a, b)| (pair.floats)(a, b)).collect())
            }
            _ => return Err("mixes floats and integers".to_owned()),
        };
        Ok(if pair.compares {
            Constant::new(Kind::Bool, shape, data)
        } else {
            a.like(shape, data)
        })
    }

    pub(super) fn choose(&mut self) -> Result<Constant, String> {
        let (which, a, b) = (self.at(0)?, self.at(1)?, self.at(2)?);
        let shape = infer::broadcast(&infer::broadcast(&which.shape, &a.shape)?, &b.shape)?;
        let mut wide = |x: &Constant| {
            let x = self.budget.expanded(x, &shape)?;
            self.budget.data(&x)
        };
        let data = match (wide(which)?, wide(a)?, wide(b)?) {
            (Data::Integers(which), Data::Floats(a), Data::Floats(b)) => {
                Data::Floats(chosen(&which, a, b))
            }
            (Data::Integers(which), Data::Integers(a), Data::Integers(b)) => {
                Data::Integers(chosen(&which, a, b))
            }
            _ => return Err("mixes floats and integers".to_owned()),
        };
        Ok(a.like(shape, data))
    }

    pub(super) fn running_sum(&mut self) -> Result<Constant, String> {
        let x = self.at(0)?;
        let axis = self.list(1)?.first().copied().ok_or("names no axis")?;
        let axis = shapes::axis(axis, x.shape.len())?;
        if self.attributes.int("exclusive", 0) != 0 || self.attributes.int("reverse", 0) != 0 {
            return Err("an exclusive or reversed running sum is not computed".to_owned());
        }
        let size = x.shape.get(axis).copied().unwrap_or(1).max(1) as usize;
        let step = shapes::strides(&x.shape)
            .get(axis)
            .copied()
            .unwrap_or(1)
            .max(1) as usize;
        fn summed<T: Copy>(
            mut numbers: Vec<T>,
            size: usize,
            step: usize,
            add: fn(T, T) -> T,
        ) -> Vec<T> {
            for at in step..numbers.len() {
                if !(at / step).is_multiple_of(size)
                    && let Some(&before) = numbers.get(at - step)
                    && let Some(number) = numbers.get_mut(at)
                {
                    *number = add(*number, before);
                }
            }
            numbers
        }
        let data = match self.budget.data(x)? {
            Data::Floats(numbers) => Data::Floats(summed(numbers, size, step, |a, b| a + b)),
            Data::Integers(numbers) => {
                Data::Integers(summed(numbers, size, step, i64::wrapping_add))
            }
        };
        Ok(x.like(x.shape.clone(), data))
    }

    /// Where along an axis the largest number is, the first or the last of equals.
    pub(super) fn place_of_largest(&mut self) -> Result<Constant, String> {
        let x = self.at(0)?;
        let axis = shapes::axis(self.attributes.int("axis", 0), x.shape.len())?;
        let takes_last = self.attributes.int("select_last_index", 0) != 0;
        let Data::Integers(numbers) = self.budget.data(x)? else {
            return Err("looks for the largest of floats".to_owned());
        };
        let (outer, inner) = x.shape.split_at_checked(axis).ok_or("has no such axis")?;
        let (&size, inner) = inner.split_first().ok_or("has no such axis")?;
        let (count, step) = (tensor::count(outer)?, tensor::count(inner)?);
        if size == 0 {
            return Err("looks for the largest of nothing".to_owned());
        }
        self.budget.take(count.saturating_mul(step))?;
        let mut places = Vec::new();
        for at in 0..count.saturating_mul(step) {
            let start = at.checked_div(step).unwrap_or(0) * step * size + at % step.max(1);
            let along = (0..size).map(|place| {
                let number = numbers.get((start + place * step) as usize);
                (number.copied().unwrap_or(i64::MIN), place as i64)
            });
            let found = match takes_last {
                true => along.max_by_key(|&(number, _)| number),
                false => along.rev().max_by_key(|&(number, _)| number),
            };
            places.push(found.map_or(0, |(_, place)| place));
        }
        let kept: &[u64] = match self.attributes.int("keepdims", 1) != 0 {
            true => &[1],
            false => &[],
        };
        let shape = [outer, kept, inner].concat();
        Ok(Constant::integers(shape, places))
    }

    /// Over some axes, or all of them where none is named.
    pub(super) fn reduce(&mut self, op: &str) -> Result<Constant, String> {
        let x = self.at(0)?;
        let axes = self.axes(1)?.unwrap_or_default();
        if axes.is_empty() && self.attributes.int("noop_with_empty_axes", 0) != 0 {
            return Ok(x.clone());
        }
        let rank = x.shape.len();
        let named = axes.iter().map(|&axis| shapes::axis(axis, rank));
        let mut named: BTreeSet<usize> = named.collect::<Result<_, _>>()?;
        if named.is_empty() {
            named = (0..rank).collect();
        }
        let sizes = || x.shape.iter().copied().enumerate();
        let left: Vec<u64> = sizes()
            .map(|(axis, size)| if named.contains(&axis) { 1 } else { size })
            .collect();
        let count = self.budget.count(&left)?;
        self.budget.take(count)?;
        let each = x.elements().checked_div(count).unwrap_or(0);
        if each == 0 && count > 0 && !matches!(op, "ReduceSum" | "ReduceProd") {
            return Err("reduces nothing".to_owned());
        }
        let (from, to) = (shapes::strides(&x.shape), shapes::strides(&left));
        let place = |at: usize| {
            let mut rest = at as u64;
            let mut place = 0;
            for ((from, to), left) in from.iter().zip(&to).zip(&left) {
                // The one that is left of a reduced axis is its first.
                place += (rest / from.max(&1)).min(left.saturating_sub(1)) * to;
                rest %= from.max(&1);
            }
            place as usize
        };
        fn reduced<T: Copy>(
            numbers: &[T],
            count: u64,
            start: Option<T>,
            place: impl Fn(usize) -> usize,
            join: fn(T, T) -> T,
        ) -> Option<Vec<T>> {
            let mut made: Vec<Option<T>> = vec![start; usize::try_from(count).ok()?];
            for (at, &number) in numbers.iter().enumerate() {
                let slot = made.get_mut(place(at))?;
                *slot = Some(slot.map_or(number, |before| join(before, number)));
            }
            made.into_iter().collect()
        }
        let made = match (self.budget.data(x)?, op) {
            (Data::Integers(numbers), "ReduceProd" | "ReduceSum") => {
                let wide: Vec<i128> = numbers.into_iter().map(i128::from).collect();
                let (start, join): (i128, fn(i128, i128) -> i128) = match op {
                    "ReduceProd" => (1, i128::saturating_mul),
                    _ => (0, i128::saturating_add),
                };
                let made = reduced(&wide, count, Some(start), place, join);
                // What does not fit engines make different numbers of.
                let fitting = |number: i128| {
                    let number = i64::try_from(number).ok()?;
                    (x.narrowed(number) == number).then_some(number)
                };
                let made =
                    made.map(|made| made.into_iter().map(fitting).collect::<Option<Vec<_>>>());
                match made {
                    Some(None) => {
                        return Err("makes integers that are too large for their type".to_owned());
                    }
                    made => made.flatten().map(Data::Integers),
                }
            }
            (Data::Integers(numbers), "ReduceMax") => {
                reduced(&numbers, count, None, place, i64::max).map(Data::Integers)
            }
            (Data::Integers(numbers), "ReduceMin") => {
                reduced(&numbers, count, None, place, i64::min).map(Data::Integers)
            }
            (Data::Integers(_), _) => return Err("takes the mean of integers".to_owned()),
            (Data::Floats(numbers), "ReduceMax") => {
                reduced(&numbers, count, None, place, f32::max).map(Data::Floats)
            }
            (Data::Floats(numbers), "ReduceMin") => {
                reduced(&numbers, count, None, place, f32::min).map(Data::Floats)
            }
            (Data::Floats(numbers), _) => {
                // In binary64, rounded once.
                let wide: Vec<f64> = numbers.into_iter().map(f64::from).collect();
                let (start, join): (f64, fn(f64, f64) -> f64) = match op {
                    "ReduceProd" => (1.0, |a, b| a * b),
                    _ => (0.0, |a, b| a + b),
                };
                let share = if op == "ReduceMean" { each as f64 } else { 1.0 };
                let made = reduced(&wide, count, Some(start), place, join);
                made.map(|made| {
                    Data::Floats(made.into_iter().map(|sum| (sum / share) as f32).collect())
                })
            }
        };
        let shape = match self.attributes.int("keepdims", 1) != 0 {
            true => left,
            false => sizes()
                .filter(|(axis, _)| !named.contains(axis))
                .map(|(_, size)| size)
                .collect(),
        };
        Ok(x.like(shape, made.ok_or("reduces nothing")?))
    }
}

fn chosen<T>(which: &[i64], a: Vec<T>, b: Vec<T>) -> Vec<T> {
    let pick = |((&which, a), b)| if which != 0 { a } else { b };
    which.iter().zip(a).zip(b).map(pick).collect()
}

/// A float after a cast to this element type.
fn narrowed(x: f32, code: i32) -> f32 {
    match code {
        Element::FLOAT16 => half::f16::from_f32(x).to_f32(),
        Element::BFLOAT16 => half::bf16::from_f32(x).to_f32(),
        _ => x,
    }
}
