//! Operators that only move numbers.

use std::collections::BTreeSet;

use schema::graph::{Border, ElementType, Op, Role};

use super::{
    fold,
    import::{Here, Import, Value, Work, first, pair},
    shapes,
    tensor::{self, Constant, Data},
};
use crate::infer;

/// A list of integers at `index`, fixed; `None` where the node has none.
fn list(
    import: &mut Import<'_>,
    inputs: &[Option<Value>],
    index: usize,
) -> Result<Option<Vec<i64>>, String> {
    match inputs.get(index) {
        Some(Some(Value::Known(constant))) => import.budget.list(constant).map(Some),
        Some(Some(Value::Made(_))) => Err(format!(
            "its input {index} is computed from numbers, and not only from shapes"
        )),
        _ => Ok(None),
    }
}

pub(super) fn node(
    import: &mut Import<'_>,
    here: Here<'_>,
    inputs: &[Option<Value>],
) -> Result<(), String> {
    let x = first(inputs)?;
    let shape = import.shape_of(x)?;
    let attributes = here.attributes;
    match here.node.op_type.as_str() {
        "Reshape" => {
            let spec = list(import, inputs, 1)?.ok_or("has no shape")?;
            let shape = shapes::reshaped(&shape, &spec, attributes.int("allowzero", 0) != 0)?;
            reshape(import, here, x, Op::Reshape { shape })
        }
        "Flatten" => {
            let axis = attributes.int("axis", 1);
            let op = if axis == 1 && shape.len() > 1 {
                Op::Flatten { axis: 1 }
            } else {
                let shape = fold::flattened(&shape, axis)?;
                Op::Reshape { shape }
            };
            reshape(import, here, x, op)
        }
        "Squeeze" | "Unsqueeze" => {
            let axes = match attributes.ints("axes") {
                Some(axes) => Some(axes.to_vec()),
                None => list(import, inputs, 1)?,
            };
            let shape = if here.node.op_type == "Squeeze" {
                shapes::squeezed(&shape, axes.as_deref())?
            } else {
                shapes::unsqueezed(&shape, &axes.ok_or("names no axes")?)?
            };
            reshape(import, here, x, Op::Reshape { shape })
        }
        "Transpose" => {
            let perm = fold::permutation(attributes.ints("perm"), shape.len())?;
            import.op(here, Op::Transpose { perm }, &[Some(x.clone())])
        }
        "Concat" => {
            let axis = shapes::axis(attributes.int("axis", 0), shape.len())? as u64;
            let is_there = |part: &&Option<Value>| match part {
                Some(Value::Known(constant)) => constant.elements() > 0,
                _ => true,
            };
            let parts: Vec<Option<Value>> = inputs.iter().filter(is_there).cloned().collect();
            match parts.as_slice() {
                [Some(only)] => import.give(here, 0, only.clone()),
                parts => import.op(here, Op::Concat { axis }, parts),
            }
        }
        "Expand" => {
            let spec = list(import, inputs, 1)?.ok_or("has no shape")?;
            let spec = shapes::sizes_of(&spec)?;
            if infer::broadcast(&shape, &spec)? == shape {
                return import.give(here, 0, x.clone());
            }
            import.op(here, Op::Expand { shape: spec }, &[Some(x.clone())])
        }
        "Slice" => slice(import, here, inputs),
        "Gather" => gather(import, here, inputs),
        "GatherND" => gather_places(import, here, inputs),
        "Tile" => tile(import, here, inputs),
        "Split" => split(import, here, inputs),
        "Pad" => pad(import, here, inputs),
        "DepthToSpace" | "SpaceToDepth" => blocks(import, here, x, &shape),
        _ => Err("moves nothing".to_owned()),
    }
}

/// The same numbers in another shape. Of an input it is remembered: rows are taken by the input itself.
fn reshape(import: &mut Import<'_>, here: Here<'_>, x: &Value, op: Op) -> Result<(), String> {
    import.op(here, op, &[Some(x.clone())])?;
    if let (Value::Made(x), Some(made)) = (x, here.node.output.first())
        && let Some(input) = import.as_fed.get(x).cloned()
    {
        import.as_fed.insert(made.clone(), input);
    }
    Ok(())
}

/// Elements `start..end` of an axis; the value itself where those are all.
fn part(
    import: &mut Import<'_>,
    here: Here<'_>,
    x: Value,
    axis: usize,
    start: u64,
    end: u64,
) -> Result<Value, String> {
    let size = import.shape_of(&x)?.get(axis).copied().unwrap_or(1);
    if start == 0 && end == size {
        return Ok(x);
    }
    if start >= end {
        return Err(format!("keeps nothing of axis {axis}"));
    }
    let axis = axis as u64;
    let work = Work::Op(Op::Slice { axis, start, end });
    import.between(here, "part", work, &[Some(x)])
}

/// Most runs of neighbours that are joined: each is copied by an operator of its own.
const MOST_RUNS: usize = 64;

/// The elements of an axis at these places: runs of neighbours, joined.
fn taken(
    import: &mut Import<'_>,
    here: Here<'_>,
    x: &Value,
    axis: usize,
    places: &[u64],
) -> Result<Value, String> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for &at in places {
        match runs.last_mut() {
            Some((_, end)) if *end == at => *end += 1,
            _ => runs.push((at, at + 1)),
        }
    }
    match runs.as_slice() {
        [] => Err("takes nothing".to_owned()),
        &[(start, end)] => part(import, here, x.clone(), axis, start, end),
        many if many.len() > MOST_RUNS => Err(format!(
            "takes elements that are not neighbours, of {} places apart",
            many.len()
        )),
        many => {
            let parts = many
                .iter()
                .map(|&(start, end)| part(import, here, x.clone(), axis, start, end).map(Some));
            let parts: Vec<Option<Value>> = parts.collect::<Result<_, _>>()?;
            let work = Work::Op(Op::Concat { axis: axis as u64 });
            import.between(here, "taken", work, &parts)
        }
    }
}

/// A value several times along its axes.
fn tile(import: &mut Import<'_>, here: Here<'_>, inputs: &[Option<Value>]) -> Result<(), String> {
    let mut x = first(inputs)?.clone();
    let times = list(import, inputs, 1)?.ok_or("has no numbers of times")?;
    if times.len() != import.shape_of(&x)?.len() {
        return Err(format!("repeats {} axes", times.len()));
    }
    for (axis, times) in times.into_iter().enumerate() {
        let shape = import.shape_of(&x)?;
        x = match (usize::try_from(times).unwrap_or(0), shape.get(axis)) {
            (0, _) => return Err(format!("repeats axis {axis} {times} times")),
            (1, _) => x,
            (times, Some(1)) => {
                let mut shape = shape;
                if let Some(size) = shape.get_mut(axis) {
                    *size = times as u64;
                }
                import.between(here, "wide", Work::Op(Op::Expand { shape }), &[Some(x)])?
            }
            (times, _) if times > MOST_RUNS => {
                return Err(format!("repeats axis {axis} {times} times"));
            }
            (times, _) => {
                let parts = vec![Some(x); times];
                let work = Work::Op(Op::Concat { axis: axis as u64 });
                import.between(here, "wide", work, &parts)?
            }
        };
    }
    import.give(here, 0, x)
}

fn slice(import: &mut Import<'_>, here: Here<'_>, inputs: &[Option<Value>]) -> Result<(), String> {
    let mut x = first(inputs)?.clone();
    let starts = list(import, inputs, 1)?.ok_or("has no starts")?;
    let ends = list(import, inputs, 2)?.ok_or("has no ends")?;
    let axes = list(import, inputs, 3)?.unwrap_or_else(|| (0..starts.len() as i64).collect());
    let steps = list(import, inputs, 4)?.unwrap_or_else(|| vec![1; starts.len()]);
    shapes::check_cuts(&[&starts, &ends, &axes, &steps])?;
    let cuts = || starts.iter().zip(&ends).zip(&axes).zip(&steps);
    if let Some(nothing) = nothing(import, &x, cuts().map(|(((a, b), c), d)| [*a, *b, *c, *d]))? {
        return import.give(here, 0, nothing);
    }
    let mut cut = BTreeSet::new();
    for (((start, end), axis), step) in starts.into_iter().zip(ends).zip(axes).zip(steps) {
        let shape = import.shape_of(&x)?;
        let axis = shapes::axis(axis, shape.len())?;
        if !cut.insert(axis) {
            return Err(format!("slices axis {axis} twice"));
        }
        let size = shape.get(axis).copied().unwrap_or(1);
        let Some(forward) = u64::try_from(step).ok().filter(|&step| step > 0) else {
            import.budget.take(size)?;
            let places = shapes::sliced(size, start, end, step)?;
            x = taken(import, here, &x, axis, &places)?;
            continue;
        };
        let at = |place: i64| shapes::from_start(place, size).clamp(0, size as i64) as u64;
        let (first, last) = (at(start), at(end));
        x = match last.saturating_sub(first).div_ceil(forward) {
            count @ 2.. if forward > 1 => every(import, here, x, axis, first, count, forward)?,
            1 => part(import, here, x, axis, first, first + 1)?,
            _ => part(import, here, x, axis, first, last)?,
        };
    }
    import.give(here, 0, x)
}

/// What is left where nothing is: exporters cut off what does not turn in a rotary embedding, of which there
/// may be nothing, and join it again. Each cut has a start, an end, an axis and a step.
fn nothing(
    import: &Import<'_>,
    x: &Value,
    cuts: impl Iterator<Item = [i64; 4]>,
) -> Result<Option<Value>, String> {
    let mut shape = import.shape_of(x)?;
    for [start, end, axis, step] in cuts.filter(|&[.., step]| step > 0) {
        let axis = shapes::axis(axis, shape.len())?;
        let at = |place: i64, size: u64| shapes::from_start(place, size).clamp(0, size as i64);
        if let Some(size) = shape.get_mut(axis) {
            let kept = (at(end, *size) - at(start, *size)).max(0) as u64;
            *size = kept.div_ceil(step.unsigned_abs());
        }
    }
    let is_left = tensor::count(&shape)? > 0 || import.type_of(x)?.element != ElementType::Float;
    Ok((!is_left).then(|| Value::Known(Constant::floats(shape, Vec::new()))))
}

/// Of an axis `count` elements, each `step` behind the one before: a column of a table whose rows
/// are as long as a step.
fn every(
    import: &mut Import<'_>,
    here: Here<'_>,
    x: Value,
    axis: usize,
    start: u64,
    count: u64,
    step: u64,
) -> Result<Value, String> {
    let shape = import.shape_of(&x)?;
    let size = shape.get(axis).copied().unwrap_or(1);
    let span = count.saturating_mul(step);
    // The table of all would have a last row that is not whole: that one's element is joined to the others.
    let Some(room) = size.checked_sub(span) else {
        let last = start + (count - 1) * step;
        let before = match count - 1 {
            1 => part(import, here, x.clone(), axis, start, start + 1)?,
            fewer => every(import, here, x.clone(), axis, start, fewer, step)?,
        };
        let last = part(import, here, x, axis, last, last + 1)?;
        let work = Work::Op(Op::Concat { axis: axis as u64 });
        return import.between(here, "every", work, &[Some(before), Some(last)]);
    };
    // The last step may reach beyond the axis: then the table begins before the first element.
    let first = start.min(room);
    let x = part(import, here, x, axis, first, first + span)?;
    let (before, after) = shape.split_at_checked(axis).ok_or("has no such axis")?;
    let after = after.get(1..).unwrap_or_default();
    let reshaped = |import: &mut Import<'_>, x: Value, sizes: &[u64]| {
        let shape = [before, sizes, after].concat();
        import.between(here, "rows", Work::Op(Op::Reshape { shape }), &[Some(x)])
    };
    let table = reshaped(import, x, &[count, step])?;
    let column = start - first;
    let taken = part(import, here, table, axis + 1, column, column + 1)?;
    reshaped(import, taken, &[count])
}

fn split(import: &mut Import<'_>, here: Here<'_>, inputs: &[Option<Value>]) -> Result<(), String> {
    let x = first(inputs)?;
    let shape = import.shape_of(x)?;
    let axis = shapes::axis(here.attributes.int("axis", 0), shape.len())?;
    let sizes = list(import, inputs, 1)?;
    let size = shape.get(axis).copied().unwrap_or(1);
    let parts = fold::parts(size, sizes.as_deref(), here.attributes)?;
    for (output, (start, end)) in parts.into_iter().enumerate() {
        let made = part(import, here, x.clone(), axis, start, end)?;
        import.give(here, output, made)?;
    }
    Ok(())
}

/// Rows of a table by integers that are fed, or elements of an axis by fixed ones.
fn gather(import: &mut Import<'_>, here: Here<'_>, inputs: &[Option<Value>]) -> Result<(), String> {
    let (x, indices) = pair(inputs)?;
    let shape = import.shape_of(x)?;
    let axis = shapes::axis(here.attributes.int("axis", 0), shape.len())?;
    let chosen = match indices {
        Value::Known(chosen) => chosen,
        Value::Made(name) => {
            let input = import.fed_behind(name).cloned().ok_or(
                "takes rows by integers that are fed and then worked with otherwise than cut, turned or reshaped",
            )?;
            // An engine that reads the file itself takes them, whatever is read here.
            import.bound(&input, shape.get(axis).copied().unwrap_or(1))?;
            let &[_, width] = shape.as_slice() else {
                return Err(format!("takes rows of {shape:?}, which is no table"));
            };
            if axis != 0 {
                return Err("takes columns by integers that are fed".to_owned());
            }
            let table = import.operand(x, Role::Weight)?;
            if !import.as_fed.contains_key(name) {
                let operands = [Some(Value::Made(table)), Some(indices.clone())];
                return import.op(here, Op::Gather, &operands);
            }
            let is_as_fed = input == *name;
            let operands = [Some(Value::Made(table)), Some(Value::Made(input))];
            if is_as_fed {
                return import.op(here, Op::Gather, &operands);
            }
            let taken = import.between(here, "rows", Work::Op(Op::Gather), &operands)?;
            let mut shape = import.shape_of(indices)?;
            shape.push(width);
            return import.op(here, Op::Reshape { shape }, &[Some(taken)]);
        }
    };
    let Data::Integers(places) = import.budget.data(chosen)? else {
        return Err("takes elements by floats".to_owned());
    };
    let size = shape.get(axis).copied().unwrap_or(1);
    let places = places.into_iter().map(|at| shapes::index(at, size));
    let places: Vec<u64> = places.collect::<Result<_, _>>()?;
    let taken = taken(import, here, x, axis, &places)?;
    let (before, after) = shape.split_at_checked(axis).ok_or("has no such axis")?;
    let after = after.get(1..).unwrap_or_default();
    shaped(import, here, taken, [before, &chosen.shape, after].concat())
}

/// What lies at fixed places over the first axes: of each sequence the last token that is no padding, say.
fn gather_places(
    import: &mut Import<'_>,
    here: Here<'_>,
    inputs: &[Option<Value>],
) -> Result<(), String> {
    let (x, places) = pair(inputs)?;
    let Value::Known(places) = places else {
        return Err("takes what lies at places that are computed".to_owned());
    };
    let shape = import.shape_of(x)?;
    let found = fold::places(&shape, places, here.attributes, &mut import.budget)?;
    let flat = [&[found.outer][..], &found.inner].concat();
    let work = Work::Op(Op::Reshape { shape: flat });
    let flat = import.between(here, "rows", work, &[Some(x.clone())])?;
    let taken = taken(import, here, &flat, 0, &found.rows)?;
    shaped(import, here, taken, found.shape)
}

/// The same numbers in this shape as the node's output.
fn shaped(
    import: &mut Import<'_>,
    here: Here<'_>,
    x: Value,
    shape: Vec<u64>,
) -> Result<(), String> {
    if import.shape_of(&x)? == shape {
        return import.give(here, 0, x);
    }
    import.op(here, Op::Reshape { shape }, &[Some(x)])
}

/// A border of one number, or of what is next to the end.
fn pad(import: &mut Import<'_>, here: Here<'_>, inputs: &[Option<Value>]) -> Result<(), String> {
    let x = first(inputs)?;
    let rank = import.shape_of(x)?.len();
    let given = list(import, inputs, 1)?.ok_or("has no padding")?;
    let axes = list(import, inputs, 3)?.unwrap_or_else(|| (0..rank as i64).collect());
    if given.len() != 2 * axes.len() {
        return Err(format!("has {} sides for {} axes", given.len(), axes.len()));
    }
    let (front, back) = given.split_at(axes.len());
    let (mut begins, mut ends) = (vec![0; rank], vec![0; rank]);
    for ((axis, front), back) in axes.into_iter().zip(front).zip(back) {
        let axis = shapes::axis(axis, rank)?;
        for (sides, &side) in [(&mut begins, front), (&mut ends, back)] {
            let side = u64::try_from(side).map_err(|_| "takes elements away")?;
            if let Some(slot) = sides.get_mut(axis) {
                *slot = side;
            }
        }
    }
    if begins.iter().chain(&ends).all(|&side| side == 0) {
        return import.give(here, 0, x.clone());
    }
    let border = match here.attributes.text("mode", "constant") {
        "constant" => match inputs.get(2) {
            Some(Some(Value::Known(number))) => {
                let number = number.scalar().ok_or("its border is no number")?;
                Border::Constant {
                    value: number as f32,
                }
            }
            Some(Some(Value::Made(_))) => return Err("computes its border".to_owned()),
            _ => Border::Constant { value: 0.0 },
        },
        // PyTorch reflects the last axes of a value, all but the first, or the first two.
        "reflect" => {
            let sides = begins.iter().zip(&ends);
            let padded = sides.take_while(|(begin, end)| (**begin, **end) == (0, 0));
            if padded.count() == 0 {
                return Err("reflects the first axis".to_owned());
            }
            Border::Reflect
        }
        other => return Err(format!("makes its border by the rule `{other}`")),
    };
    let op = Op::Pad {
        begins,
        ends,
        border,
    };
    import.op(here, op, &[Some(x.clone())])
}

/// Channels that become squares of pixels, or the other way round: the axes of the squares change
/// their place.
fn blocks(import: &mut Import<'_>, here: Here<'_>, x: &Value, shape: &[u64]) -> Result<(), String> {
    let &[n, c, h, w] = shape else {
        return Err(format!("{shape:?} is no image"));
    };
    let side = here.attributes.int("blocksize", 0);
    let b = u64::try_from(side).ok().filter(|&side| side > 0);
    let b = b.ok_or("has no `blocksize`")?;
    let square = b.checked_mul(b).ok_or("its squares are too large")?;
    let spreads = here.node.op_type == "DepthToSpace";
    let fits = if spreads {
        c.is_multiple_of(square)
    } else {
        h.is_multiple_of(b) && w.is_multiple_of(b)
    };
    if !fits {
        return Err(format!("squares of {b} do not divide {shape:?}"));
    }
    let of = |size: u64, times: u64| size.checked_mul(times).ok_or("makes too large an image");
    let (apart, perm, made) = match here.attributes.text("mode", "DCR") {
        "CRD" if spreads => (
            [n, c / square, b, b, h, w],
            [0, 1, 4, 2, 5, 3],
            [n, c / square, of(h, b)?, of(w, b)?],
        ),
        "DCR" if spreads => (
            [n, b, b, c / square, h, w],
            [0, 3, 4, 1, 5, 2],
            [n, c / square, of(h, b)?, of(w, b)?],
        ),
        other if spreads => return Err(format!("takes squares apart by the rule `{other}`")),
        _ => (
            [n, c, h / b, b, w / b, b],
            [0, 3, 5, 1, 2, 4],
            [n, of(c, square)?, h / b, w / b],
        ),
    };
    let apart = Op::Reshape {
        shape: apart.to_vec(),
    };
    let apart = import.between(here, "apart", Work::Op(apart), &[Some(x.clone())])?;
    let turn = Op::Transpose {
        perm: perm.to_vec(),
    };
    let turned = import.between(here, "turned", Work::Op(turn), &[Some(apart)])?;
    let shape = made.to_vec();
    import.op(here, Op::Reshape { shape }, &[Some(turned)])
}
