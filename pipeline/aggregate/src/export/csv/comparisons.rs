//! What is said of pairs: verdicts, and when it pays to be ready later.

use schema::{
    Tables,
    tables::{FirstPayback, FirstSteps, Interval, Payback},
};

use super::{Sheet, decimal, interval, number, pairs, text};
use crate::ExportError;

const COMPARISONS: [&str; 25] = [
    "job",
    "axis",
    "baseline_value",
    "value",
    "coordinates",
    "baseline",
    "contender",
    "ratio",
    "ratio_low",
    "ratio_high",
    "blocks",
    "confidence",
    "widened",
    "family",
    "floor",
    "verdict",
    "reason",
    "payback",
    "payback_steps",
    "payback_steps_low",
    "payback_steps_high",
    "first_payback",
    "first_payback_steps",
    "first_payback_cold",
    "without_calibration",
];

pub(in crate::export) fn comparisons(tables: &Tables) -> Result<Vec<u8>, ExportError> {
    let mut sheet = Sheet::new("comparisons.csv", &COMPARISONS)?;
    for job in &tables.jobs {
        for comparison in &job.comparisons {
            for row in &comparison.rows {
                let mut values = vec![
                    text(&job.id),
                    text(&comparison.axis),
                    text(&comparison.baseline),
                    text(&row.value),
                    pairs(&row.coordinates),
                    text(&row.baseline),
                    text(&row.contender),
                ];
                values.extend(interval(row.ratio.as_ref()));
                values.push(row.is_widened.to_string());
                values.push(number(Some(comparison.family)));
                values.push(decimal(row.floor));
                values.push(text(row.verdict.word()));
                values.push(text(&row.reason));
                let (word, steps) = payback(row.payback.as_ref());
                let [centre, low, high, ..] = interval(steps);
                values.extend([word, centre, low, high]);
                values.extend(first_payback(row.first_payback.as_ref()));
                values.push(row.without_calibration.to_string());
                sheet.row(values)?;
            }
        }
    }
    sheet.finish()
}

const BREAK_EVENS: [&str; 17] = [
    "job",
    "axis",
    "coordinates",
    "early",
    "early_cell",
    "late",
    "late_cell",
    "payback",
    "steps",
    "steps_low",
    "steps_high",
    "blocks",
    "confidence",
    "first_payback",
    "first_payback_steps",
    "first_payback_cold",
    "without_calibration",
];

pub(in crate::export) fn break_evens(tables: &Tables) -> Result<Vec<u8>, ExportError> {
    let mut sheet = Sheet::new("break_evens.csv", &BREAK_EVENS)?;
    for job in &tables.jobs {
        for comparison in &job.comparisons {
            for row in &comparison.break_evens {
                let mut values = vec![
                    text(&job.id),
                    text(&comparison.axis),
                    pairs(&row.coordinates),
                    text(&row.early),
                    text(&row.early_cell),
                    text(&row.late),
                    text(&row.late_cell),
                ];
                let (word, steps) = payback(Some(&row.warm));
                values.push(word);
                values.extend(interval(steps));
                values.extend(first_payback(row.first.as_ref()));
                values.push(row.without_calibration.to_string());
                sheet.row(values)?;
            }
        }
    }
    sheet.finish()
}

/// When it pays to be ready later, in the launches of blocks, and the steps where they are a number.
fn payback(payback: Option<&Payback>) -> (String, Option<&Interval>) {
    let (word, steps) = match payback {
        None => ("", None),
        Some(Payback::AtOnce) => ("at_once", None),
        Some(Payback::After(steps)) => ("after", Some(steps)),
        Some(Payback::Until(steps)) => ("until", Some(steps)),
        Some(Payback::Never) => ("never", None),
        Some(Payback::Unclear) => ("unclear", None),
    };
    (text(word), steps)
}

/// When it pays at the first start.
fn first_payback(first: Option<&FirstPayback>) -> [String; 3] {
    let Some(first) = first else {
        return std::array::from_fn(|_| String::new());
    };
    let (word, steps) = match first.payback {
        FirstSteps::AtOnce => ("at_once", None),
        FirstSteps::After(steps) => ("after", Some(steps)),
        FirstSteps::Until(steps) => ("until", Some(steps)),
        FirstSteps::Never => ("never", None),
    };
    [text(word), decimal(steps), first.is_cold.to_string()]
}
