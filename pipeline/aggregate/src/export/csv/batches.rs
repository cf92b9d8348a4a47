//! What is said of lines of batches: trends, and where the lead changes.

use schema::{Tables, tables::Crossover};

use super::{Sheet, decimal, interval, number, pairs, text};
use crate::ExportError;

const TRENDS: [&str; 22] = [
    "job",
    "coordinates",
    "direction",
    "reason",
    "p",
    "knee",
    "knee_low",
    "knee_high",
    "line_confidence",
    "largest_over_smallest",
    "largest_over_smallest_low",
    "largest_over_smallest_high",
    "largest_over_smallest_confidence",
    "widened",
    "floor",
    "batch",
    "cell",
    "ratio",
    "ratio_low",
    "ratio_high",
    "blocks",
    "confidence",
];

pub(in crate::export) fn trends(tables: &Tables) -> Result<Vec<u8>, ExportError> {
    let mut sheet = Sheet::new("trends.csv", &TRENDS)?;
    for job in &tables.jobs {
        for row in &job.trends {
            let line = [
                text(&job.id),
                pairs(&row.coordinates),
                text(row.direction.word()),
                text(&row.reason),
                decimal(row.p),
                number(row.knee.map(|knee| knee.centre)),
                number(row.knee.map(|knee| knee.low)),
                number(row.knee.map(|knee| knee.high)),
                decimal(Some(row.confidence)),
                decimal(row.ends.map(|ends| ends.centre)),
                decimal(row.ends.and_then(|ends| ends.low)),
                decimal(row.ends.and_then(|ends| ends.high)),
                decimal(row.ends.map(|ends| ends.confidence)),
                row.is_widened.to_string(),
                decimal(row.floor),
            ];
            if row.sizes.is_empty() {
                let nothing = TRENDS.iter().skip(line.len()).map(|_| String::new());
                sheet.row(line.iter().cloned().chain(nothing))?;
            }
            for size in &row.sizes {
                let own = [number(Some(size.batch)), text(&size.cell)];
                let ratio = interval(size.ratio.as_ref());
                sheet.row(line.iter().cloned().chain(own).chain(ratio))?;
            }
        }
    }
    sheet.finish()
}

const CROSSOVERS: [&str; 9] = [
    "job",
    "axis",
    "baseline_value",
    "value",
    "coordinates",
    "crossover",
    "batch",
    "batch_low",
    "batch_high",
];

pub(in crate::export) fn crossovers(tables: &Tables) -> Result<Vec<u8>, ExportError> {
    let mut sheet = Sheet::new("crossovers.csv", &CROSSOVERS)?;
    for job in &tables.jobs {
        for row in &job.crossovers {
            let place = match row.crossover {
                Crossover::Several => {
                    [text("several"), String::new(), String::new(), String::new()]
                }
                Crossover::Between {
                    low,
                    centre,
                    high,
                    contender_first,
                } => [
                    text(if contender_first {
                        "contender_first"
                    } else {
                        "baseline_first"
                    }),
                    decimal(Some(centre)),
                    number(Some(low)),
                    number(Some(high)),
                ],
            };
            let pair = [
                text(&job.id),
                text(&row.axis),
                text(&row.baseline),
                text(&row.value),
                pairs(&row.coordinates),
            ];
            sheet.row(pair.into_iter().chain(place))?;
        }
    }
    sheet.finish()
}
