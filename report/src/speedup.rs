//! What more workers come to, beside what they would if each were as good as those that others are held against.

use schema::tables::{Interval, ScalingPoint, ScalingRow};

use crate::lines::{self, Plot, Point, Series};

/// A number of workers of a setting, and how often the throughput of those it is held against.
struct Told {
    workers: f64,
    times: f64,
    /// Ends of its interval; `None` of that which others are held against.
    ends: Option<[Option<f64>; 2]>,
}

/// Draws the settings of which more than one number of workers was measured; `base` is that which others are held
/// against.
pub(crate) fn draw<'a>(
    rows: impl IntoIterator<Item = (&'a ScalingRow, String)>,
    base: u32,
) -> Option<Plot> {
    let base = base.max(1);
    let told = rows
        .into_iter()
        .map(|(row, label)| (told(row, base), label));
    let told: Vec<(Vec<Told>, String)> = told.filter(|(told, _)| told.len() > 1).collect();
    let all = || told.iter().flat_map(|(points, _)| points);
    let base = f64::from(base);
    let most = all().map(|point| point.workers).reduce(f64::max)?;
    let high = |point: &Told| point.ends.and_then(|[_, high]| high);
    let highest = all().map(|point| point.times.max(high(point).unwrap_or(0.0)));
    let highest = highest.fold(most / base, f64::max).min(2.0 * most / base);
    let mut numbers: Vec<f64> = all().map(|point| point.workers).collect();
    numbers.sort_by(f64::total_cmp);
    numbers.dedup();
    let ideals = numbers.iter().map(|workers| workers / base);
    let ideals = ideals.filter(|ideal| (ideal.fract() * 100.0).fract() == 0.0);
    // Both axes begin at nothing.
    let point = |told: &Told| Point {
        x: told.workers / most,
        y: told.times / highest,
        ends: told.ends.map(|[low, high]| {
            [low.unwrap_or(0.0), high.unwrap_or(f64::INFINITY)].map(|end| end / highest)
        }),
    };
    let series = told.iter().map(|(points, label)| Series {
        label: label.clone(),
        points: points.iter().map(point).collect(),
    });
    lines::draw(
        series.collect(),
        numbers
            .iter()
            .map(|workers| (workers / most, format!("{workers}"))),
        ideals.map(|ideal| (ideal / highest, format!("{ideal}"))),
        [[0.0, 0.0], [1.0, most / base / highest]],
    )
}

/// What of a setting is measured, the number that others are held against among it.
fn told(row: &ScalingRow, base: u32) -> Vec<Told> {
    let told = row.points.iter().filter_map(|point| {
        let workers = f64::from(point.world_size);
        if point.world_size == base {
            return Some(Told {
                workers,
                times: 1.0,
                ends: None,
            });
        }
        let throughput = throughput(point, base)?;
        Some(Told {
            workers,
            times: throughput.centre,
            ends: Some([throughput.low, throughput.high]),
        })
    });
    told.collect()
}

/// Throughput as a multiple of that of the number of workers which others are held against; `None` where it is not
/// known.
pub(crate) fn throughput(point: &ScalingPoint, base: u32) -> Option<Interval> {
    let ideal = f64::from(point.world_size) / f64::from(base.max(1));
    let efficiency = point.efficiency.as_ref()?;
    let times = |end: Option<f64>| end.map(|end| end * ideal);
    Some(Interval {
        low: times(efficiency.low),
        centre: efficiency.centre * ideal,
        high: times(efficiency.high),
        ..*efficiency
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use schema::{CellId, Strategy};

    use super::*;

    fn row(points: &[(u32, Option<[Option<f64>; 3]>)]) -> ScalingRow {
        let point = |&(world_size, efficiency): &(u32, Option<[Option<f64>; 3]>)| ScalingPoint {
            world_size,
            cell: CellId("0123456789ab".to_owned()),
            samples: 8,
            efficiency: efficiency.map(|[low, centre, high]| Interval {
                low,
                centre: centre.unwrap_or_default(),
                high,
                blocks: 6,
                confidence: 0.95,
            }),
            exchange: None,
            memory_bytes: vec![],
        };
        ScalingRow {
            coordinates: BTreeMap::new(),
            strategy: Strategy::Ddp,
            points: points.iter().map(point).collect(),
        }
    }

    #[test]
    fn perfect_scaling_ends_on_the_ideal_line() {
        let ends = [Some(0.9), Some(1.0), Some(1.1)];
        let whole = row(&[(1, None), (2, Some(ends))]);
        let half = row(&[(1, None), (2, Some([None, Some(0.5), None]))]);
        let named = |row, label: &str| (row, label.to_owned());
        let plot = draw([named(&whole, "whole"), named(&half, "half")], 1).unwrap();
        let json = serde_json::to_value(&plot).unwrap();
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        let height = |path: String| path.rsplit(' ').next().unwrap().to_owned();
        let ideal = height(text(&json["reference"]));
        assert_eq!(height(text(&json["lines"][0]["path"])), ideal);
        assert_ne!(height(text(&json["lines"][1]["path"])), ideal);
        // The one that has no ends reaches over all of the plot.
        let whole = format!("{}V{}", json["bottom"], json["top"]);
        let whiskers = text(&json["lines"][1]["whiskers"]);
        assert!(whiskers.contains(&whole), "{whiskers}");
        let labels = json["columns"].as_array().unwrap().iter();
        let labels: Vec<String> = labels.map(|tick| text(&tick["label"])).collect();
        assert_eq!(labels, ["1", "2"]);
    }

    #[test]
    fn one_number_of_workers_is_no_line() {
        assert!(draw([], 1).is_none());
        let alone = row(&[(1, None), (2, None)]);
        assert!(draw([(&alone, String::new())], 1).is_none());
        let odd = row(&[(0, None), (1, None), (u32::MAX, Some([Some(f64::MAX); 3]))]);
        assert!(draw([(&odd, String::new())], 0).is_some());
    }
}
