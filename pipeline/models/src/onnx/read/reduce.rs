//! Axes that become one number each: their mean, sum, largest, smallest, or length.

use schema::graph::Op;

use super::{
    import::{Here, Import, Value, Work, first},
    shapes,
    tensor::Constant,
};

/// What becomes of the numbers along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reduction {
    Mean,
    Sum,
    Largest,
    Smallest,
    /// The root of the sum of squares.
    Length,
}

impl Reduction {
    /// That of an operator, and how what it makes is called.
    fn of(op: &str) -> Result<(Self, &'static str), String> {
        Ok(match op {
            "ReduceMean" | "GlobalAveragePool" => (Self::Mean, "mean"),
            "ReduceSum" => (Self::Sum, "sum"),
            "ReduceMax" | "GlobalMaxPool" => (Self::Largest, "largest"),
            "ReduceMin" => (Self::Smallest, "smallest"),
            "ReduceL2" => (Self::Length, "length"),
            _ => return Err("reduces nothing".to_owned()),
        })
    }
}

/// Neighbouring axes of a value: those before them, they themselves, those behind; each as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Merged {
    before: u64,
    reduced: u64,
    behind: u64,
}

impl Merged {
    fn of(shape: &[u64], axes: &[usize]) -> Result<Self, String> {
        let merged = |part: Option<&[u64]>| {
            let sizes = part.unwrap_or_default().iter();
            sizes.fold(1_u64, |product, &size| product.saturating_mul(size))
        };
        match axes {
            &[first, .., last] if last - first + 1 != axes.len() => Err(format!(
                "reduces axes {axes:?} of {}, which are no neighbours",
                shape.len()
            )),
            &[axis, ..] => Ok(Self {
                before: merged(shape.get(..axis)),
                reduced: merged(shape.get(axis..axis + axes.len())),
                behind: merged(shape.get(axis + axes.len()..)),
            }),
            [] => Err("reduces no axis".to_owned()),
        }
    }
}

/// Reduces the axes that the node names, or all behind the channels for a global pool.
pub(super) fn reduce(
    import: &mut Import<'_>,
    here: Here<'_>,
    inputs: &[Option<Value>],
) -> Result<(), String> {
    let x = first(inputs)?;
    let shape = import.shape_of(x)?;
    let rank = shape.len();
    let (reduction, part) = Reduction::of(&here.node.op_type)?;
    let is_pool = here.node.op_type.starts_with("Global");
    let axes = match (here.attributes.ints("axes"), inputs.get(1)) {
        _ if is_pool => (2..rank as i64).collect(),
        (Some(axes), _) => axes.to_vec(),
        (None, Some(Some(Value::Known(axes)))) => import.budget.list(axes)?,
        (None, Some(Some(Value::Made(_)))) => {
            return Err(format!("takes the {part} of computed axes"));
        }
        (None, _) => Vec::new(),
    };
    if axes.is_empty() && here.attributes.int("noop_with_empty_axes", 0) != 0 {
        // The length of one number is its amount, and whether an engine takes it differs.
        if reduction == Reduction::Length {
            return Err("takes the length along no axis (`noop_with_empty_axes`)".to_owned());
        }
        return import.give(here, 0, x.clone());
    }
    let axes = if axes.is_empty() && !is_pool {
        (0..rank as i64).collect()
    } else {
        axes
    };
    let axes = axes.iter().map(|&axis| shapes::axis(axis, rank));
    let mut axes: Vec<usize> = axes.collect::<Result<_, _>>()?;
    axes.sort_unstable();
    axes.dedup();
    let merged = Merged::of(&shape, &axes)?;
    let made = match reduction {
        Reduction::Mean => mean(import, here, x, &shape, &axes, merged)?,
        Reduction::Sum => sum(import, here, x, &axes, merged, 1.0)?,
        Reduction::Largest => largest(import, here, x, &shape, &axes, merged)?,
        Reduction::Smallest => {
            let negated = negated(import, here, x)?;
            let made = largest(import, here, &negated, &shape, &axes, merged)?;
            self::negated(import, here, &made)?
        }
        Reduction::Length => {
            let both = [Some(x.clone()), Some(x.clone())];
            let squares = import.between(here, "squares", Work::Op(Op::Mul), &both)?;
            let sum = sum(import, here, &squares, &axes, merged, 1.0)?;
            import.between(here, "root", Work::Sqrt, &[Some(sum)])?
        }
    };
    let keeps = is_pool || here.attributes.int("keepdims", 1) != 0;
    let sizes = shape.iter().enumerate();
    let shape: Vec<u64> = sizes
        .filter_map(|(at, &size)| match (axes.contains(&at), keeps) {
            (true, true) => Some(1),
            (true, false) => None,
            (false, _) => Some(size),
        })
        .collect();
    if import.shape_of(&made)? == shape {
        return import.give(here, 0, made);
    }
    import.op(here, Op::Reshape { shape }, &[Some(made)])
}

fn mean(
    import: &mut Import<'_>,
    here: Here<'_>,
    x: &Value,
    shape: &[u64],
    axes: &[usize],
    merged: Merged,
) -> Result<Value, String> {
    match axes {
        [2, 3] if shape.len() == 4 => {
            let work = Work::Op(Op::GlobalAveragePool);
            import.between(here, "mean", work, &[Some(x.clone())])
        }
        // What a layer normalisation that was taken apart begins with.
        [axis] if axis + 1 == shape.len() => {
            import.between(here, "mean", Work::Mean, &[Some(x.clone())])
        }
        _ => sum(import, here, x, axes, merged, 1.0 / merged.reduced as f32),
    }
}

/// A sum of what is taken so many times: a product with a column, or from the left with a row.
fn sum(
    import: &mut Import<'_>,
    here: Here<'_>,
    x: &Value,
    axes: &[usize],
    merged: Merged,
    times: f32,
) -> Result<Value, String> {
    let Merged {
        before,
        reduced,
        behind,
    } = merged;
    let numbers = import.budget.filled(reduced, times)?;
    let factor = |shape| Some(Value::Known(Constant::floats(shape, numbers)));
    let rank = import.shape_of(x)?.len();
    // A product takes any axes before those that it multiplies.
    let fits = |behind: usize| matches!(axes, [axis] if axis + behind == rank);
    if fits(1) || (behind == 1 && !fits(2)) {
        let rows = match fits(1) {
            true => x.clone(),
            false => shaped(import, here, x, vec![before, reduced])?,
        };
        let factors = [Some(rows), factor(vec![reduced, 1])];
        let made = import.between(here, "sum", Work::Op(Op::Gemm), &factors)?;
        import.sums_up(&made, x);
        return Ok(made);
    }
    let rows = match fits(2) {
        true => x.clone(),
        false => shaped(import, here, x, vec![before, reduced, behind])?,
    };
    let factors = [factor(vec![1, reduced]), Some(rows)];
    let made = import.between(here, "sum", Work::Op(Op::MatMul), &factors)?;
    import.sums_up(&made, x);
    Ok(made)
}

/// The largest number of a window over all of the axes.
fn largest(
    import: &mut Import<'_>,
    here: Here<'_>,
    x: &Value,
    shape: &[u64],
    axes: &[usize],
    merged: Merged,
) -> Result<Value, String> {
    let (image, kernel) = match (shape, axes) {
        (&[_, _, height, width], [2, 3]) => (x.clone(), [height, width]),
        _ => {
            let shape = vec![merged.before, 1, merged.reduced, merged.behind];
            (shaped(import, here, x, shape)?, [merged.reduced, 1])
        }
    };
    let pool = Op::MaxPool {
        kernel,
        strides: [1, 1],
        pads: [0; 4],
        ceil_mode: false,
    };
    import.between(here, "largest", Work::Op(pool), &[Some(image)])
}

fn negated(import: &mut Import<'_>, here: Here<'_>, x: &Value) -> Result<Value, String> {
    let factor = Value::Known(import.scalar(-1.0));
    let factors = [Some(x.clone()), Some(factor)];
    import.between(here, "negated", Work::Op(Op::Mul), &factors)
}

/// The value in another shape, itself where that is its own.
fn shaped(
    import: &mut Import<'_>,
    here: Here<'_>,
    x: &Value,
    shape: Vec<u64>,
) -> Result<Value, String> {
    if import.shape_of(x)? == shape {
        return Ok(x.clone());
    }
    import.between(
        here,
        "merged",
        Work::Op(Op::Reshape { shape }),
        &[Some(x.clone())],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_one_axis() {
        let merged = |axes: &[usize]| Merged::of(&[2, 3, 5, 7], axes);
        let of = |before, reduced, behind| {
            Ok(Merged {
                before,
                reduced,
                behind,
            })
        };
        assert_eq!(merged(&[1]), of(2, 3, 35));
        assert_eq!(merged(&[1, 2]), of(2, 15, 7));
        assert_eq!(merged(&[0, 1, 2, 3]), of(1, 210, 1));
        assert_eq!(merged(&[3]), of(30, 7, 1));
        assert!(merged(&[0, 2]).is_err());
        assert!(merged(&[]).is_err());
    }
}
