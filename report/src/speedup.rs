//! What more workers come to, beside what they would if each were as good as those that others are held against:
//! drawn by a template, as cells' plots are.

use std::fmt::Write as _;

use schema::tables::{Interval, ScalingRow};
use serde::Serialize;

use crate::axis::{Tick, tenth};

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 48.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 40.0;

/// Half of a whisker's end, in pixels.
const CAP: f64 = 3.0;

/// Settings lie so far beside one another where they have the same number of workers.
const APART: f64 = 8.0;

/// Numbers at the ends of lines lie so far below one another at least.
const TEXT: f64 = 14.0;

/// More settings than this are not told apart any more; there are as many colours.
const MOST_LINES: usize = 8;

/// The plot, in pixels.
#[derive(Debug, Serialize)]
pub(crate) struct Speedup {
    width: f64,
    height: f64,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    /// Numbers of workers.
    columns: Vec<Tick>,
    /// How often the throughput of the first.
    rows: Vec<Tick>,
    /// Path of what as many workers would come to.
    ideal: String,
    lines: Vec<Line>,
    /// What is left out, in a sentence; empty when nothing is.
    left_out: String,
}

/// A setting.
#[derive(Debug, Serialize)]
struct Line {
    label: String,
    /// Number of the colour, and less by one than what stands at its end.
    colour: usize,
    path: String,
    whiskers: String,
    /// Path of its points: a dot is a line of no length.
    dots: String,
    /// Where its number stands.
    end: f64,
}

/// A number of workers of a setting, and how often the throughput of those it is held against.
struct Point {
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
) -> Option<Speedup> {
    let told = rows
        .into_iter()
        .map(|(row, label)| (points(row, base.max(1)), label));
    let mut told: Vec<(Vec<Point>, String)> = told.filter(|(told, _)| told.len() > 1).collect();
    let settings = told.len();
    told.truncate(MOST_LINES);
    let all = || told.iter().flat_map(|(points, _)| points);
    let base = f64::from(base.max(1));
    let most = all().map(|point| point.workers).reduce(f64::max)?;
    let high = |point: &Point| point.ends.and_then(|[_, high]| high);
    let highest = all().map(|point| point.times.max(high(point).unwrap_or(0.0)));
    let highest = highest.fold(most / base, f64::max).min(2.0 * most / base);
    let scale = Scale { most, highest };
    let mut numbers: Vec<f64> = all().map(|point| point.workers).collect();
    numbers.sort_by(f64::total_cmp);
    numbers.dedup();
    let tick = |at: f64, value: f64| Tick {
        at: tenth(at),
        label: format!("{value}"),
    };
    let columns = numbers.iter();
    let columns = columns.map(|&workers| tick(scale.x(workers), workers));
    let ideals = numbers.iter().map(|workers| workers / base);
    let ideals = ideals.filter(|ideal| (ideal.fract() * 100.0).fract() == 0.0);
    let ideal = [(0.0, 0.0), (most, most / base)];
    let [from, to] = ideal.map(|(workers, times)| [scale.x(workers), scale.y(times)]);
    let lines = told
        .iter()
        .enumerate()
        .map(|(place, (points, label))| line(place, told.len(), points, label, &scale));
    let mut lines: Vec<Line> = lines.collect();
    spread(&mut lines);
    Some(Speedup {
        width: WIDTH,
        height: HEIGHT,
        left: LEFT,
        right: WIDTH - RIGHT,
        top: TOP,
        bottom: HEIGHT - BOTTOM,
        columns: columns.collect(),
        rows: ideals.map(|ideal| tick(scale.y(ideal), ideal)).collect(),
        ideal: format!("M{:.1} {:.1}L{:.1} {:.1}", from[0], from[1], to[0], to[1]),
        lines,
        left_out: if settings > MOST_LINES {
            format!("Of {settings} settings the first {MOST_LINES} are drawn.")
        } else {
            String::new()
        },
    })
}

/// What of a setting is measured, the number that others are held against among it.
fn points(row: &ScalingRow, base: u32) -> Vec<Point> {
    let told = row.points.iter().filter_map(|point| {
        let workers = f64::from(point.world_size);
        if point.world_size == base {
            return Some(Point {
                workers,
                times: 1.0,
                ends: None,
            });
        }
        let ideal = workers / f64::from(base);
        let Interval {
            low, centre, high, ..
        } = point.efficiency.as_ref()?;
        Some(Point {
            workers,
            times: centre * ideal,
            ends: Some([low, high].map(|end| end.map(|end| end * ideal))),
        })
    });
    told.collect()
}

fn line(place: usize, of: usize, points: &[Point], label: &str, scale: &Scale) -> Line {
    let beside = APART * (place as f64 - (of as f64 - 1.0) / 2.0);
    let (mut path, mut whiskers, mut dots) = (String::new(), String::new(), String::new());
    let mut end = scale.y(0.0);
    for (number, point) in points.iter().enumerate() {
        let (x, y) = (scale.x(point.workers) + beside, scale.y(point.times));
        let to = if number == 0 { 'M' } else { 'L' };
        let _infallible = write!(path, "{to}{x:.1} {y:.1}");
        let _infallible = write!(dots, "M{x:.1} {y:.1}h0");
        end = y;
        let Some([low, high]) = point.ends else {
            continue;
        };
        let low = scale.y(low.unwrap_or(0.0));
        let high = scale.y(high.unwrap_or(f64::INFINITY));
        let (left, width) = (x - CAP, 2.0 * CAP);
        let _infallible = write!(
            whiskers,
            "M{x:.1} {low:.1}V{high:.1}M{left:.1} {low:.1}h{width:.1}M{left:.1} {high:.1}h{width:.1}"
        );
    }
    Line {
        label: label.to_owned(),
        colour: place,
        path,
        whiskers,
        dots,
        end,
    }
}

/// Moves numbers that lie on one another apart, downwards.
fn spread(lines: &mut [Line]) {
    let mut places: Vec<&mut f64> = lines.iter_mut().map(|line| &mut line.end).collect();
    places.sort_by(|one, other| one.total_cmp(other));
    let mut free = f64::NEG_INFINITY;
    for place in places {
        *place = tenth(place.max(free));
        free = *place + TEXT;
    }
}

/// Both axes begin at nothing.
struct Scale {
    most: f64,
    highest: f64,
}

impl Scale {
    fn x(&self, workers: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * (workers / self.most).clamp(0.0, 1.0)
    }

    fn y(&self, times: f64) -> f64 {
        let share = (times / self.highest).clamp(0.0, 1.0);
        HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use schema::{CellId, Strategy, tables::ScalingPoint};

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
    fn perfect_scaling_lies_on_the_ideal_line() {
        let whole = row(&[(1, None), (2, Some([Some(0.9), Some(1.0), Some(1.1)]))]);
        let half = row(&[(1, None), (2, Some([None, Some(0.5), None]))]);
        let drawn = draw(
            [(&whole, "whole".to_owned()), (&half, "half".to_owned())],
            1,
        )
        .unwrap();
        let x = |workers: f64| LEFT + (WIDTH - LEFT - RIGHT) * workers / 2.0;
        let y = |times: f64| HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * times / 2.2;
        let ideal = format!("M{:.1} {:.1}L{:.1} {:.1}", x(0.0), y(0.0), x(2.0), y(2.0));
        assert_eq!(drawn.ideal, ideal);
        let [first, second] = drawn.lines.as_slice() else {
            panic!("{drawn:?}")
        };
        let aside = APART / 2.0;
        let path = |end: f64, beside: f64| {
            let (from, to) = (x(1.0) + beside, x(2.0) + beside);
            format!("M{from:.1} {:.1}L{to:.1} {:.1}", y(1.0), y(end))
        };
        assert_eq!(first.path, path(2.0, -aside));
        assert_eq!(second.path, path(1.0, aside));
        // The one that has no ends reaches over all of the plot.
        let all = format!("{:.1}V{TOP:.1}", HEIGHT - BOTTOM);
        assert!(second.whiskers.contains(&all), "{}", second.whiskers);
        let labels: Vec<&str> = drawn
            .columns
            .iter()
            .map(|tick| tick.label.as_str())
            .collect();
        assert_eq!(labels, ["1", "2"]);
    }

    #[test]
    fn one_number_of_workers_is_no_line() {
        assert!(draw([], 1).is_none());
        let alone = row(&[(1, None), (2, None)]);
        assert!(draw([(&alone, String::new())], 1).is_none());
        let odd = row(&[(0, None), (1, None), (u32::MAX, Some([Some(f64::MAX); 3]))]);
        let many = (0..9).map(|_| (&odd, String::new()));
        let drawn = draw(many, 0).unwrap();
        assert_eq!(drawn.lines.len(), MOST_LINES);
        assert_eq!(drawn.left_out, "Of 9 settings the first 8 are drawn.");
        let ends: Vec<f64> = drawn.lines.iter().map(|line| line.end).collect();
        assert!(ends.is_sorted() && ends[7] - ends[0] >= 7.0 * TEXT);
    }
}
