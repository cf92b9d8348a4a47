//! Ratios of step times over an axis of numbers: the sizes of a bucket of gradients, threads.

use std::collections::BTreeMap;

use schema::tables::{ComparisonTable, Interval};

use crate::{
    axis::{self, log_share},
    lines::{self, Plot, Point, Series},
};

/// Fewer values than this are no curve.
const FEWEST: usize = 3;

/// Ends of intervals are drawn up to so many times as far from 1 as the farthest ratio.
const BEYOND: f64 = 2.0;

/// What the plot has above and below what is drawn, as a share of it.
const ROOM: f64 = 0.05;

/// Draws a family of verdicts whose axis is one of numbers; `settings` says what tells each of its rows from
/// those of other lines. `None` where too few of its values are numbers. What is none is left out.
pub(crate) fn draw<'a>(
    table: &ComparisonTable,
    settings: impl IntoIterator<Item = &'a str>,
) -> Option<Plot> {
    let base = number(&table.baseline)?;
    let mut lines: Vec<(&str, Vec<(f64, Interval)>)> = Vec::new();
    for (row, setting) in table.rows.iter().zip(settings) {
        let (Some(at), Some(ratio)) = (number(&row.value), row.ratio) else {
            continue;
        };
        if !(ratio.centre.is_finite() && ratio.centre > 0.0) {
            continue;
        }
        match lines.iter_mut().find(|(known, _)| *known == setting) {
            Some((_, points)) => points.push((at, ratio)),
            None => lines.push((setting, vec![(at, ratio)])),
        }
    }
    let all = || lines.iter().flat_map(|(_, points)| points);
    let mut values: Vec<f64> = all().map(|(at, _)| *at).chain([base]).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    if values.len() < FEWEST {
        return None;
    }
    let [low, high] = heights(all().map(|(_, ratio)| ratio));
    if !high.is_finite() {
        return None;
    }
    let (left, right) = (*values.first()?, *values.last()?);
    let up = |ratio: f64| (ratio - low) / (high - low);
    let across = |value: f64| log_share(value, left, right);
    let point = |at: f64, y: f64, ends| Point {
        x: across(at),
        y: up(y),
        ends,
    };
    let series = lines.iter().map(|(label, points)| {
        let mut drawn: BTreeMap<u64, Point> = points
            .iter()
            .map(|(at, ratio)| {
                let ends = [
                    ratio.low.map_or(0.0, up),
                    ratio.high.map_or(f64::INFINITY, up),
                ];
                // Positive numbers lie in the order of their bits.
                (at.to_bits(), point(*at, ratio.centre, Some(ends)))
            })
            .collect();
        drawn.insert(base.to_bits(), point(base, 1.0, None));
        Series {
            label: (*label).to_owned(),
            points: drawn.into_values().collect(),
        }
    });
    let (step, rows) = axis::round(low.max(0.0), high);
    let decimals = axis::decimals_of(step);
    lines::draw(
        series.collect(),
        values
            .iter()
            .map(|value| (across(*value), format!("{value}"))),
        rows.iter()
            .map(|ratio| (up(*ratio), format!("{ratio:.decimals$}"))),
        [[0.0, up(1.0)], [1.0, up(1.0)]],
    )
}

/// What the plot reaches over: all ratios, and what is near of their intervals.
fn heights<'a>(ratios: impl Iterator<Item = &'a Interval> + Clone) -> [f64; 2] {
    let centres = ratios.clone().map(|ratio| ratio.centre);
    let farthest = centres.fold(0.0_f64, |far, centre| far.max((centre - 1.0).abs()));
    let reach = farthest.max(0.01) * BEYOND;
    let ends = ratios.flat_map(|ratio| [ratio.low, Some(ratio.centre), ratio.high]);
    let near = ends.flatten().filter(|end| (end - 1.0).abs() <= reach);
    let [low, high] = near.fold([1.0_f64; 2], |[low, high], end| {
        [low.min(end), high.max(end)]
    });
    let room = (high - low).max(0.01) * ROOM;
    [low - room, high + room]
}

/// A value of the axis, where it is a positive number.
fn number(value: &str) -> Option<f64> {
    let is_one = |number: &f64| number.is_finite() && *number > 0.0;
    value.parse().ok().filter(is_one)
}

#[cfg(test)]
mod tests {
    use schema::{
        CellId,
        tables::{ComparisonRow, Verdict},
    };

    use super::*;

    fn table(baseline: &str, rows: &[(&str, f64)]) -> ComparisonTable {
        let row = |&(value, centre): &(&str, f64)| ComparisonRow {
            coordinates: BTreeMap::new(),
            baseline: CellId("a".to_owned()),
            contender: CellId("b".to_owned()),
            value: value.to_owned(),
            ratio: Some(Interval {
                low: Some(centre * 0.99),
                centre,
                high: None,
                blocks: 6,
                confidence: 0.99,
            }),
            is_widened: false,
            floor: None,
            verdict: Verdict::Unclear,
            reason: String::new(),
            payback: None,
            first_payback: None,
            without_calibration: false,
        };
        ComparisonTable {
            break_evens: Vec::new(),
            axis: "bucket_mib".to_owned(),
            baseline: baseline.to_owned(),
            family: 1,
            confidence_each: 0.95,
            rows: rows.iter().map(row).collect(),
        }
    }

    fn drawn(baseline: &str, rows: &[(&str, f64)]) -> Option<serde_json::Value> {
        let table = table(baseline, rows);
        let plot = draw(&table, rows.iter().map(|_| "the only setting"))?;
        Some(serde_json::to_value(plot).unwrap())
    }

    #[test]
    fn values_stand_in_the_order_of_their_sizes() {
        let rows = [("100", 1.04), ("1", 1.2), ("auto", 0.9), ("4", 0.96)];
        let plot = drawn("25", &rows).unwrap();
        let labels = plot["columns"].as_array().unwrap().iter();
        let labels: Vec<&str> = labels.map(|tick| tick["label"].as_str().unwrap()).collect();
        assert_eq!(labels, ["1", "4", "25", "100"]);
        let path = plot["lines"][0]["path"].as_str().unwrap();
        let places: Vec<&str> = path[1..].split('L').collect();
        assert_eq!(places.len(), 4);
        let x = |place: &str| place.split(' ').next().unwrap().parse::<f64>().unwrap();
        assert!(places.windows(2).all(|pair| x(pair[0]) < x(pair[1])));
        // What others are held against stands on the line of 1.
        let height = |place: &str| place.split(' ').nth(1).unwrap().to_owned();
        let reference = plot["reference"].as_str().unwrap();
        assert_eq!(height(places[2]), reference.rsplit(' ').next().unwrap());
    }

    #[test]
    fn words_and_pairs_are_no_curve() {
        assert!(drawn("fused", &[("1", 0.5), ("2", 0.7), ("3", 1.0)]).is_none());
        assert!(drawn("1", &[("2", 0.5), ("auto", 0.7)]).is_none());
        assert!(drawn("1", &[("2", f64::NAN), ("4", 0.7)]).is_none());
        assert!(drawn("1", &[("2", 1.0), ("4", 1.0)]).is_some());
        assert!(drawn("1", &[("2", f64::MAX), ("4", 1e-300)]).is_none());
    }
}
