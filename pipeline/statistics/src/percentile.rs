//! Percentiles of whole nanoseconds, exactly.
//!
//! Definition 7 of Hyndman and Fan, "Sample quantiles in statistical packages", The American
//! Statistician 50 (1996): linear between the order statistics around `(n − 1)·p`. NumPy and
//! pandas use it by default, so a reader's own figures agree; the 50th is the usual median.

/// The percentiles that a cell shows.
pub const SHOWN: [u8; 9] = [5, 16, 25, 50, 75, 84, 90, 95, 99];

/// The `percent`-th percentile of ascending `sorted`, to the nearest nanosecond, halves up.
/// `None` without a sample, or above 100.
#[must_use]
pub fn of_sorted(sorted: &[u64], percent: u8) -> Option<u64> {
    let last = sorted.len().checked_sub(1)?;
    if percent > 100 {
        return None;
    }
    let place = last as u128 * u128::from(percent);
    let below = usize::try_from(place / 100).ok()?;
    let share = place % 100;
    let low = *sorted.get(below)?;
    let high = *sorted.get(below + 1).unwrap_or(&low);
    let rise = u128::from(high.saturating_sub(low)) * share;
    low.checked_add(u64::try_from((rise + 50) / 100).ok()?)
}

/// The median of ascending `sorted`, halves of a nanosecond kept.
#[must_use]
pub fn median(sorted: &[u64]) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let low = *sorted.get(last / 2)?;
    let high = *sorted.get(last.div_ceil(2))?;
    Some(low as f64 + high.saturating_sub(low) as f64 / 2.0)
}

/// The median of numbers in any order; of two in the middle, their mean. `None` without one.
#[must_use]
pub fn middle(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    let (below, above) = (sorted.get(last / 2)?, sorted.get(last.div_ceil(2))?);
    Some(f64::midpoint(*below, *above))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_numpy() {
        // numpy.percentile([10, 20, 30, 45], [0, 5, 25, 50, 90, 100]) = 10, 11.5, 17.5, 25, 40.5, 45
        let sorted = [10, 20, 30, 45];
        let at = |percent| of_sorted(&sorted, percent).unwrap();
        assert_eq!(
            [at(0), at(5), at(25), at(50), at(90), at(100)],
            [10, 12, 18, 25, 41, 45]
        );
    }

    #[test]
    fn the_middle_of_numbers() {
        assert_eq!(middle([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(middle([4.0, 1.0, 3.0, 0.5]), Some(2.0));
        assert_eq!(middle([]), None);
    }

    #[test]
    fn extremes_do_not_overflow() {
        assert_eq!(of_sorted(&[], 50), None);
        assert_eq!(of_sorted(&[7], 99), Some(7));
        assert_eq!(of_sorted(&[0, u64::MAX], 100), Some(u64::MAX));
        assert_eq!(of_sorted(&[u64::MAX, u64::MAX], 50), Some(u64::MAX));
        assert_eq!(of_sorted(&[1, 2], 101), None);
    }

    #[test]
    fn medians_keep_halves() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3]), Some(3.0));
        assert_eq!(median(&[3, 4]), Some(3.5));
        assert_eq!(median(&[1, 3, 100]), Some(3.0));
    }
}
