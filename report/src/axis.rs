//! What axes that templates draw have in common.

use serde::Serialize;

use crate::units;

/// A plot in a picture, all in pixels from its upper left corner.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Frame {
    /// The picture's size.
    pub(crate) width: f64,
    pub(crate) height: f64,
    /// The plot's sides.
    pub(crate) left: f64,
    pub(crate) right: f64,
    pub(crate) top: f64,
    pub(crate) bottom: f64,
}

impl Frame {
    /// A picture of a width and a height, with a plot that leaves so much free on the left, right, top and bottom.
    pub(crate) const fn of(
        [width, height]: [f64; 2],
        [left, right, top, bottom]: [f64; 4],
    ) -> Self {
        Self {
            width,
            height,
            left,
            right: width - right,
            top,
            bottom: height - bottom,
        }
    }

    /// Where a share of the plot's width lies; what is outside lies at the border.
    pub(crate) const fn x(&self, share: f64) -> f64 {
        self.left + (self.right - self.left) * share.clamp(0.0, 1.0)
    }

    /// The same of its height, from the bottom.
    pub(crate) const fn y(&self, share: f64) -> f64 {
        self.bottom - (self.bottom - self.top) * share.clamp(0.0, 1.0)
    }
}

/// A mark of an axis.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Tick {
    /// Where it stands, in pixels.
    pub(crate) at: f64,
    /// What is written at it.
    pub(crate) label: String,
}

/// Round times from `low` to `high`, in nanoseconds, with their labels: three at least where they are apart, and
/// eight at most.
pub(crate) fn times(low: f64, high: f64) -> Vec<(f64, String)> {
    let (step, values) = round(low, high);
    let (scale, unit) = units::time_unit(high);
    let decimals = decimals_of(step / scale);
    let values = values.into_iter();
    values
        .map(|value| (value, format!("{:.decimals$} {unit}", value / scale)))
        .collect()
}

/// A round step, and its multiples from `low`, which is not negative, to `high`: three at least where they are
/// apart, and eight at most.
pub(crate) fn round(low: f64, high: f64) -> (f64, Vec<f64>) {
    let most = (high - low) / 3.0;
    let power = 10_f64.powf(most.log10().floor());
    let nice = [5.0, 2.0, 1.0].map(|nice| nice * power);
    let step = nice.into_iter().find(|step| *step <= most).unwrap_or(most);
    let first = (low / step).ceil() as u64;
    let values = (first..first.saturating_add(8)).map(|count| count as f64 * step);
    (step, values.filter(|value| *value <= high).collect())
}

/// How many decimals it takes to tell multiples of a step apart.
pub(crate) fn decimals_of(step: f64) -> usize {
    (-step.log10().floor()).clamp(0.0, 6.0) as usize
}

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
