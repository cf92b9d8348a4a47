//! Numbers as they are written.

/// Significant digits of every computed number in the tables.
///
/// Sums run in a fixed order and logarithms come from `libm`, so equal samples give equal bits;
/// what is left to differ (the quantile of Student's t goes through the system's mathematical
/// library) is some 10⁻¹⁵, which nine digits fewer hide. Six digits are more than any
/// measurement here carries.
pub const DIGITS: usize = 6;

/// `value` rounded to [`DIGITS`] significant decimal digits; ties go as the exact binary value says.
#[must_use]
pub fn rounded(value: f64) -> f64 {
    if !value.is_finite() {
        return value;
    }
    // Printing and reading back are both correctly rounded: no factor of ten adds an error.
    format!("{value:.*e}", DIGITS - 1).parse().unwrap_or(value)
}

/// The largest number of [`DIGITS`] digits that is not above `value`.
#[must_use]
pub fn rounded_down(value: f64) -> f64 {
    let near = rounded(value);
    if near <= value || !near.is_finite() {
        return near;
    }
    // One unit of the last digit: the power of ten of the value, less the digits after the point.
    let exponent = format!("{value:e}")
        .split_once('e')
        .and_then(|(_, exponent)| exponent.parse::<i32>().ok());
    let unit = exponent.and_then(|exponent| {
        let last = exponent.checked_sub(DIGITS as i32 - 1)?;
        format!("1e{last}").parse::<f64>().ok()
    });
    unit.map_or(near, |unit| rounded(near - unit))
}

/// The smallest number of [`DIGITS`] digits that is not below `value`.
#[must_use]
pub fn rounded_up(value: f64) -> f64 {
    -rounded_down(-value)
}

/// A finite number from the system's mathematical library without its last digits, which depend on the
/// processor.
pub(crate) fn portable(value: f64) -> Option<f64> {
    let value: f64 = format!("{value:.11e}").parse().ok()?;
    value.is_finite().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_digits_are_kept() {
        assert_eq!(rounded(0.123_456_78), 0.123_457);
        assert_eq!(rounded(14_512_345.6), 14_512_300.0);
        assert_eq!(rounded(-2.000_000_4), -2.0);
        assert_eq!(rounded(0.0), 0.0);
        assert_eq!(rounded(1e300), 1e300);
        assert!(rounded(f64::NAN).is_nan());
    }

    #[test]
    fn ends_of_intervals_are_rounded_outward() {
        assert_eq!(rounded_down(0.492_590_6), 0.492_59);
        assert_eq!(rounded_down(0.492_599_9), 0.492_599);
        assert_eq!(rounded_up(0.507_436_2), 0.507_437);
        assert_eq!(rounded_up(1.000_002), 1.000_01);
        assert_eq!(rounded_down(0.999_999_8), 0.999_999);
        assert_eq!(rounded_up(9_999_999.0), 1e7);
        for exact in [1.0, 0.5, 0.05, 123_456.0, 0.0, -2.5] {
            assert_eq!((rounded_down(exact), rounded_up(exact)), (exact, exact));
        }
        assert_eq!(rounded_up(f64::INFINITY), f64::INFINITY);
    }
}
