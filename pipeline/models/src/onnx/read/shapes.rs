//! Shapes as ONNX's operators spell them: axes that count from the end, sizes that are to be found.

use crate::infer::MAX_RANK;

/// A place that may count from the end of so many, as one that counts from the start.
pub(super) const fn from_start(place: i64, size: u64) -> i64 {
    if place < 0 {
        place.saturating_add_unsigned(size)
    } else {
        place
    }
}

/// An axis that may count from the end, as an index.
pub(super) fn axis(axis: i64, rank: usize) -> Result<usize, String> {
    usize::try_from(from_start(axis, rank as u64))
        .ok()
        .filter(|&found| found < rank)
        .ok_or_else(|| format!("axis {axis} does not exist in {rank} axes"))
}

/// An index of an axis of this size, which may count from the end, as one that exists.
pub(super) fn index(index: i64, size: u64) -> Result<u64, String> {
    u64::try_from(from_start(index, size))
        .ok()
        .filter(|&found| found < size)
        .ok_or_else(|| format!("reads element {index} beyond an axis of {size}"))
}

/// The shape that `Reshape` makes: 0 keeps a size, −1 takes what is left.
pub(super) fn reshaped(from: &[u64], spec: &[i64], zero_is_size: bool) -> Result<Vec<u64>, String> {
    if spec.len() > MAX_RANK {
        return Err(format!(
            "makes {} axes, at most {MAX_RANK} are possible",
            spec.len()
        ));
    }
    let mut shape = Vec::with_capacity(spec.len());
    let mut open = None;
    for (at, &size) in spec.iter().enumerate() {
        shape.push(match size {
            -1 if open.replace(at).is_some() => {
                return Err(format!("{spec:?} leaves two sizes open"));
            }
            -1 => 1,
            0 if !zero_is_size => *from
                .get(at)
                .ok_or_else(|| format!("{spec:?} keeps axis {at}, which {from:?} lacks"))?,
            _ => u64::try_from(size).map_err(|_| format!("{spec:?} holds a negative size"))?,
        });
    }
    let product = |sizes: &[u64]| sizes.iter().try_fold(1_u64, |p, &size| p.checked_mul(size));
    let differ = || format!("{from:?} and {spec:?} differ in their elements");
    let (all, given) = (
        product(from).ok_or_else(differ)?,
        product(&shape).ok_or_else(differ)?,
    );
    if let Some(slot) = open.and_then(|at| shape.get_mut(at)) {
        if given == 0 || all % given != 0 {
            return Err(differ());
        }
        *slot = all / given;
    } else if all != given {
        return Err(differ());
    }
    Ok(shape)
}

/// Sizes, all given.
pub(super) fn sizes_of(sizes: &[i64]) -> Result<Vec<u64>, String> {
    if sizes.len() > MAX_RANK {
        return Err(format!(
            "makes {} axes, at most {MAX_RANK} are possible",
            sizes.len()
        ));
    }
    let size =
        |&size: &i64| u64::try_from(size).map_err(|_| format!("makes an axis of size {size}"));
    sizes.iter().map(size).collect()
}

/// The shape without these axes, which are of size 1; without all such if none is named.
pub(super) fn squeezed(from: &[u64], axes: Option<&[i64]>) -> Result<Vec<u64>, String> {
    let Some(axes) = axes.filter(|axes| !axes.is_empty()) else {
        return Ok(from.iter().copied().filter(|&size| size != 1).collect());
    };
    let gone: Vec<usize> = axes
        .iter()
        .map(|&named| axis(named, from.len()))
        .collect::<Result<_, _>>()?;
    for &at in &gone {
        if from.get(at) != Some(&1) {
            return Err(format!("axis {at} of {from:?} is not of size 1"));
        }
    }
    let kept = from.iter().enumerate().filter(|(at, _)| !gone.contains(at));
    Ok(kept.map(|(_, &size)| size).collect())
}

/// The shape with axes of size 1 at these places of it.
pub(super) fn unsqueezed(from: &[u64], axes: &[i64]) -> Result<Vec<u64>, String> {
    let rank = from.len() + axes.len();
    if rank > MAX_RANK {
        return Err(format!(
            "makes {rank} axes, at most {MAX_RANK} are possible"
        ));
    }
    let mut is_new = vec![false; rank];
    for &named in axes {
        let at = axis(named, rank)?;
        match is_new.get_mut(at) {
            Some(slot) if !*slot => *slot = true,
            _ => return Err(format!("axis {named} is inserted twice")),
        }
    }
    let mut old = from.iter().copied();
    let size = |new: bool| if new { 1 } else { old.next().unwrap_or(1) };
    Ok(is_new.into_iter().map(size).collect())
}

/// Whether a slice says as much of each of its axes: where it starts and ends, which it is, its steps.
pub(super) fn check_cuts(lists: &[&[i64]]) -> Result<(), String> {
    let lengths: Vec<usize> = lists.iter().map(|list| list.len()).collect();
    if lengths.windows(2).all(|two| two.first() == two.last()) {
        Ok(())
    } else {
        Err(format!("slices by lists of {lengths:?} numbers"))
    }
}

/// Indices that a slice of an axis takes.
pub(super) fn sliced(size: u64, start: i64, end: i64, step: i64) -> Result<Vec<u64>, String> {
    if step == 0 {
        return Err("slices by steps of 0".to_owned());
    }
    if size == 0 {
        return Ok(Vec::new());
    }
    let (start, end) = (from_start(start, size), from_start(end, size));
    let size = i64::try_from(size).map_err(|_| format!("axis of size {size}"))?;
    let (low, high) = if step > 0 { (0, size) } else { (-1, size - 1) };
    // From behind, an end of −size−1 or less is before the first element; a start is at it.
    let (start, end) = (start.clamp(0, high), end.clamp(low, high));
    let mut taken = Vec::new();
    let mut at = start;
    while (step > 0 && at < end) || (step < 0 && at > end) {
        taken.push(at as u64);
        at = at.saturating_add(step);
    }
    Ok(taken)
}

/// Distance of neighbours along each axis, row-major.
pub(super) fn strides(shape: &[u64]) -> Vec<u64> {
    let mut strides = vec![1_u64; shape.len()];
    for at in (1..shape.len()).rev() {
        let next = strides.get(at).copied().unwrap_or(1);
        let size = shape.get(at).copied().unwrap_or(1);
        if let Some(slot) = strides.get_mut(at - 1) {
            *slot = next.saturating_mul(size);
        }
    }
    strides
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_found_as_onnx_means_them() {
        assert_eq!(reshaped(&[2, 3, 4], &[0, -1], false), Ok(vec![2, 12]));
        assert_eq!(reshaped(&[0, 3], &[0, 3], true), Ok(vec![0, 3]));
        assert!(reshaped(&[6], &[-1, -1], false).is_err());
        assert!(reshaped(&[6], &[4], false).is_err());
        assert!(reshaped(&[u64::MAX, u64::MAX], &[-1], false).is_err());
        assert_eq!(squeezed(&[1, 2, 1], None), Ok(vec![2]));
        assert_eq!(squeezed(&[1, 2, 1], Some(&[])), Ok(vec![2]));
        assert_eq!(squeezed(&[1, 2, 1], Some(&[-1])), Ok(vec![1, 2]));
        assert!(squeezed(&[1, 2], Some(&[1])).is_err());
        assert_eq!(unsqueezed(&[2], &[0, -1]), Ok(vec![1, 2, 1]));
        assert!(unsqueezed(&[2], &[0, 0]).is_err());
        assert_eq!(strides(&[2, 3, 4]), [12, 4, 1]);
    }

    #[test]
    fn slices_count_from_both_ends() {
        assert_eq!(sliced(5, 1, i64::MAX, 1), Ok(vec![1, 2, 3, 4]));
        assert_eq!(sliced(5, -2, 9, 1), Ok(vec![3, 4]));
        assert_eq!(sliced(5, -1, i64::MIN, -2), Ok(vec![4, 2, 0]));
        assert_eq!(sliced(5, 3, 1, 1), Ok(vec![]));
        assert_eq!(sliced(5, -100, -200, -1), Ok(vec![0]));
        assert_eq!(sliced(5, -100, i64::MAX, 4), Ok(vec![0, 4]));
        assert_eq!(sliced(0, 3, -200, -1), Ok(vec![]));
        assert!(sliced(5, 0, 5, 0).is_err());
    }
}
