//! What axes that templates draw have in common.

/// A tenth of a pixel is as fine as anyone sees.
pub(crate) fn tenth(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// Where a value stands between the ends of a logarithmic axis, from 0 to 1. All are positive.
pub(crate) fn log_share(value: f64, low: f64, high: f64) -> f64 {
    ((value.max(low) / low).ln() / (high / low).ln()).clamp(0.0, 1.0)
}

/// The values from `low` to `high`, both positive, that are one of `mantissas` times a power of ten.
pub(crate) fn decimals(low: f64, high: f64, mantissas: &[f64]) -> Vec<f64> {
    let powers = (low.log10().floor() as i32)..=(high.log10().ceil() as i32);
    let all = powers.flat_map(|power| {
        let power = 10_f64.powi(power);
        mantissas.iter().map(move |mantissa| mantissa * power)
    });
    all.filter(|value| (low..=high).contains(value)).collect()
}
