//! One error for all that a job's page asserts.

use schema::Measure;

/// Confidence of each of `family` intervals that hold together with `confidence`, whichever of `looks`
/// looks at them ends the measuring: Bonferroni over both, in the form of Dunn, "Multiple comparisons
/// among means", JASA 56 (1961). An interval that holds at every look with the rest of the error holds
/// at the one that a rule picks by what it sees, whatever the rule.
pub(crate) fn confidence_each(confidence: f64, family: u32, looks: u32) -> f64 {
    let parts = f64::from(family.max(1)) * f64::from(looks.max(1));
    let each = 1.0 - (1.0 - confidence) / parts;
    // 0.05 has no finite binary form: twelve digits print what was meant.
    let printed = format!("{each:.12}").parse().unwrap_or(each);
    let sharpest = 1.0 - f64::EPSILON;
    if printed < sharpest {
        printed
    } else {
        each.min(sharpest)
    }
}

/// Confidence of an interval that no other shares its error with, of a cell's step time say: it holds
/// with the job's confidence, whichever look ended the measuring. That between twins, which pools heats
/// of several looks, is made at the same and holds about as often.
#[must_use]
pub fn confidence_of_one(measure: &Measure) -> f64 {
    confidence_each(measure.confidence, 1, looks(measure))
}

/// Confidence of each interval of a job with so many verdicts.
#[must_use]
pub fn confidence_of_each(measure: &Measure, family: u32) -> f64 {
    confidence_each(measure.confidence, family, looks(measure))
}

/// Confidence of what is said about each of so many lines ([`crate::trend`]), which share the error of a
/// job among themselves and with no verdict.
#[must_use]
pub fn confidence_of_line(measure: &Measure, lines: u32) -> f64 {
    confidence_each(measure.confidence, lines, looks(measure))
}

fn looks(measure: &Measure) -> u32 {
    u32::try_from(measure.looks().len()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval;

    #[test]
    fn the_error_is_shared_and_never_vanishes() {
        assert_eq!(confidence_each(0.95, 0, 0), 0.95);
        assert_eq!(confidence_each(0.95, 1, 1), 0.95);
        assert_eq!(confidence_each(0.95, 12, 1), 0.995_833_333_333);
        assert_eq!(confidence_each(0.95, 3, 4), 0.995_833_333_333);
        let sharp = confidence_each(1.0 - f64::EPSILON / 2.0, u32::MAX, 4);
        assert!(sharp < 1.0, "{sharp}");
        let ratio = interval::of_logs(&[0.0, 0.01, 0.02, 0.0, 0.01, 0.02], sharp, 0.0).unwrap();
        assert!(ratio.low.is_some() && ratio.high.is_some(), "{ratio:?}");
    }
}
