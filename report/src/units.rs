//! Numbers as a reader meets them: SI units, memory in powers of 1024, sensible digits, nothing
//! that is not a number.

pub(crate) use schema::printed::{floor, percent as chosen};

/// Stands where there is no number.
pub(crate) const NOTHING: &str = "–";

/// Between thousands: a narrow space at which no line breaks.
const THOUSANDS: char = '\u{202f}';

const TIME: &[(f64, &str)] = &[(1.0, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s")];
const BYTES: &[(f64, &str)] = &[
    (1.0, "B"),
    (1024.0, "KiB"),
    (1_048_576.0, "MiB"),
    (1_073_741_824.0, "GiB"),
    (1_099_511_627_776.0, "TiB"),
    (1_125_899_906_842_624.0, "PiB"),
];
const PLAIN: &[(f64, &str)] = &[
    (1.0, ""),
    (1e3, "k"),
    (1e6, "M"),
    (1e9, "G"),
    (1e12, "T"),
    (1e15, "P"),
];

const ENERGY: &[(f64, &str)] = &[
    (1e-9, "nJ"),
    (1e-6, "µJ"),
    (1e-3, "mJ"),
    (1.0, "J"),
    (1e3, "kJ"),
];

/// The unit in which an energy reads best, and how many joules it has.
pub(crate) fn energy_unit(joules: f64) -> (f64, &'static str) {
    unit_of(joules, ENERGY)
}

/// A power with three significant digits, for example `243 W`.
pub(crate) fn watts(watts: f64) -> String {
    scaled(watts, &[(1.0, "W")], "")
}

/// A clock, for example `1 980 MHz`.
pub(crate) fn megahertz(mhz: f64) -> String {
    format!("{} MHz", rate(mhz))
}

/// A duration with three significant digits, for example `14.5 ms`.
pub(crate) fn time(ns: f64) -> String {
    scaled(ns, TIME, "")
}

/// A whole number of nanoseconds, likewise.
pub(crate) fn time_ns(ns: u64) -> String {
    time(ns as f64)
}

/// A long duration as people say it, for example `4 min` or `1 h 30 min`.
pub(crate) fn span(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    if seconds < 60 {
        return time_ns(ns);
    }
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let mut parts = Vec::new();
    for (value, unit) in [(hours, "h"), (minutes, "min"), (seconds, "s")] {
        if value > 0 && parts.len() < 2 {
            parts.push(format!("{value} {unit}"));
        }
    }
    parts.join(" ")
}

/// A size with three significant digits, for example `298 MiB`: in powers of 1024, as manifests
/// and reasons count memory.
pub(crate) fn bytes(bytes: u64) -> String {
    scaled(bytes as f64, BYTES, "")
}

/// A quantity with a unit, scaled by an SI prefix, for example `1.82 GFLOP/s`.
pub(crate) fn quantity(value: f64, unit: &str) -> String {
    scaled(value, PLAIN, unit)
}

/// The prefix with which a quantity reads best, and the factor that it stands for.
pub(crate) fn prefix(value: f64) -> (f64, &'static str) {
    unit_of(value, PLAIN)
}

/// A number that needs no unit: three significant digits, fewer where they are zeros.
pub(crate) fn plain(value: f64) -> String {
    let text = rate(value);
    if text.contains('.') {
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    text
}

/// A rate that needs no prefix below a million, for example `1 240`.
pub(crate) fn rate(value: f64) -> String {
    if !value.is_finite() {
        return NOTHING.to_owned();
    }
    if value.abs() >= 1e6 {
        return scaled(value, PLAIN, "");
    }
    if value.abs() >= 1000.0 {
        return count(value.round() as u64);
    }
    significant(value)
}

/// A ratio, for example `1.04×`.
pub(crate) fn times(ratio: f64) -> String {
    if ratio.is_finite() {
        format!("{}×", fixed(ratio, 2))
    } else {
        NOTHING.to_owned()
    }
}

/// A number of things that are whole in the mean or not, for example `69` or `1.33`.
pub(crate) fn mean_count(count: f64) -> String {
    if count.is_finite() && count >= 0.0 && count.fract() == 0.0 {
        self::count(count as u64)
    } else {
        rate(count)
    }
}

/// A number with a fixed count of decimals.
pub(crate) fn fixed(value: f64, decimals: usize) -> String {
    if value.is_finite() {
        format!("{value:.decimals$}")
    } else {
        NOTHING.to_owned()
    }
}

/// A whole number with its thousands set apart.
pub(crate) fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3 * THOUSANDS.len_utf8());
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(THOUSANDS);
        }
        text.push(digit);
    }
    text
}

/// A share as a percentage with at most two significant decimals, for example `1.2 %`.
pub(crate) fn percent(share: f64) -> String {
    let value = share * 100.0;
    if !value.is_finite() {
        return NOTHING.to_owned();
    }
    let text = match value.abs() {
        0.0..0.095 => format!("{value:.2}"),
        0.095..9.95 => format!("{value:.1}"),
        1e7.. => format!("{value:.1e}"),
        _ => format!("{value:.0}"),
    };
    let text = match text.strip_suffix(".0").or_else(|| text.strip_suffix(".00")) {
        Some(whole) => whole,
        None => &text,
    };
    format!("{text} %")
}

/// A confidence: close to one, it keeps three digits of what sets it apart from one.
pub(crate) fn confidence(share: f64) -> String {
    if !share.is_finite() {
        return NOTHING.to_owned();
    }
    let decimals = (-magnitude(1.0 - share)).clamp(0.0, 12.0) as usize;
    let text = format!("{:.decimals$}", share * 100.0);
    let text = match text.split_once('.') {
        Some(_) => text.trim_end_matches('0').trim_end_matches('.'),
        None => &text,
    };
    format!("{text} %")
}

/// A small error in powers of ten, for example `3.1 × 10⁻⁷`.
pub(crate) fn error(value: f64) -> String {
    if !value.is_finite() {
        return NOTHING.to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    let text = format!("{value:.1e}");
    let Some((mantissa, exponent)) = text.split_once('e') else {
        return text;
    };
    if exponent == "0" {
        return mantissa.to_owned();
    }
    let raised: String = exponent.chars().map(superscript).collect();
    format!("{mantissa} × 10{raised}")
}

fn superscript(digit: char) -> char {
    match digit {
        '-' => '⁻',
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        '0' | '4'..='9' => {
            char::from_u32(0x2070 + digit.to_digit(10).unwrap_or(0)).unwrap_or(digit)
        }
        other => other,
    }
}

/// `log10` of a number, rounded down; 0 for zero and for what is no number.
fn magnitude(value: f64) -> f64 {
    let exponent = value.abs().log10().floor();
    if exponent.is_finite() { exponent } else { 0.0 }
}

/// The unit in which a duration reads best, and how many nanoseconds it has.
pub(crate) fn time_unit(ns: f64) -> (f64, &'static str) {
    unit_of(ns, TIME)
}

fn unit_of(value: f64, units: &[(f64, &'static str)]) -> (f64, &'static str) {
    units
        .iter()
        .rev()
        // 999.6 µs prints as 1000 µs: it belongs to the next unit.
        .find(|(scale, _)| value.abs() >= scale * 0.9995)
        .or_else(|| units.first())
        .copied()
        .unwrap_or((1.0, ""))
}

fn scaled(value: f64, units: &[(f64, &'static str)], suffix: &str) -> String {
    if !value.is_finite() {
        return NOTHING.to_owned();
    }
    let (scale, prefix) = unit_of(value, units);
    let number = if scale == 1.0 && value.fract() == 0.0 {
        format!("{value:.0}")
    } else {
        significant(value / scale)
    };
    match (prefix, suffix) {
        ("", "") => number,
        _ => format!("{number} {prefix}{suffix}"),
    }
}

/// Three significant digits.
fn significant(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size < 0.9995 => format!("{value:.3}"),
        size if size < 9.995 => format!("{value:.2}"),
        size if size < 99.95 => format!("{value:.1}"),
        size if size < 1e7 => format!("{value:.0}"),
        _ => format!("{value:.1e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_choose_their_unit() {
        for (ns, text) in [
            (0.0, "0 ns"),
            (1.0, "1 ns"),
            (999.0, "999 ns"),
            (999.9, "1.00 µs"),
            (14_512_345.0, "14.5 ms"),
            (999_960.0, "1.00 ms"),
            (3_200_000_000.0, "3.20 s"),
            (f64::NAN, "–"),
            (f64::INFINITY, "–"),
        ] {
            assert_eq!(time(ns), text, "{ns}");
        }
    }

    #[test]
    fn long_times_are_said_in_two_words() {
        assert_eq!(span(240_000_000_000), "4 min");
        assert_eq!(span(5_400_000_000_000), "1 h 30 min");
        assert_eq!(span(61_000_000_000), "1 min 1 s");
        assert_eq!(span(59_000_000_000), "59.0 s");
    }

    #[test]
    fn sizes_counts_and_rates() {
        assert_eq!(bytes(312_400_000), "298 MiB");
        assert_eq!(bytes(23 << 30), "23.0 GiB");
        assert_eq!(bytes(1023 << 20), "1023 MiB");
        assert_eq!(bytes((1 << 30) - 1), "1.00 GiB");
        assert_eq!(bytes(17), "17 B");
        assert_eq!(count(11_689_512), "11\u{202f}689\u{202f}512");
        assert_eq!(count(999), "999");
        assert_eq!(rate(68.97), "69.0");
        assert_eq!(rate(12_345.6), "12\u{202f}346");
        assert_eq!(quantity(1.82e9, "FLOP/s"), "1.82 GFLOP/s");
        assert_eq!(rate(f64::NEG_INFINITY), "–");
        assert_eq!(quantity(f64::MAX, "FLOP/s"), "1.8e293 PFLOP/s");
    }

    #[test]
    fn shares_and_errors() {
        assert_eq!(percent(0.05), "5 %");
        assert_eq!(percent(0.0123), "1.2 %");
        assert_eq!(percent(0.000_4), "0.04 %");
        assert_eq!(percent(0.0), "0 %");
        assert_eq!(percent(f64::MAX), "–");
        assert_eq!(percent(1e300), "1.0e302 %");
        assert_eq!(confidence(0.95), "95 %");
        assert_eq!(confidence(0.996_875), "99.688 %");
        assert_eq!(confidence(0.9999), "99.99 %");
        assert_eq!(confidence(0.999_999_999_9), "99.99999999 %");
        assert_eq!(chosen(0.125), "12.5 %");
        assert_eq!(chosen(0.999), "99.9 %");
        assert_eq!(chosen(0.998_75), confidence(0.998_75));
        assert_eq!(confidence(f64::NAN), "–");
        assert_eq!(error(3.14e-7), "3.1 × 10⁻⁷");
        assert_eq!(error(2.0), "2.0");
        assert_eq!(error(1234.0), "1.2 × 10³");
        assert_eq!(error(f64::NAN), "–");
    }
}
