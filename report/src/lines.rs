//! Lines through points with intervals: drawn by a template, as cells' plots are.

use std::fmt::Write as _;

use serde::Serialize;

use crate::axis::{Frame, Tick, tenth};

const FRAME: Frame = Frame::of([720.0, 300.0], [56.0, 48.0, 12.0, 40.0]);

/// Half of a whisker's end, in pixels.
const CAP: f64 = 3.0;

/// Lines lie so far beside one another where they have the same place.
const APART: f64 = 8.0;

/// Numbers at the ends of lines lie so far below one another at least.
const TEXT: f64 = 14.0;

/// More lines than this are not told apart any more; there are as many colours.
const MOST_LINES: usize = 8;

/// The plot, in pixels.
#[derive(Debug, Serialize)]
pub(crate) struct Plot {
    #[serde(flatten)]
    frame: Frame,
    columns: Vec<Tick>,
    rows: Vec<Tick>,
    /// Path of what lines are held against.
    reference: String,
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

/// A setting that becomes a line.
#[derive(Debug)]
pub(crate) struct Series {
    /// What it is called.
    pub(crate) label: String,
    /// From the left to the right.
    pub(crate) points: Vec<Point>,
}

/// A point. All numbers are shares of the plot, from its left and from its bottom; what lies outside is drawn at
/// the border.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Point {
    /// Where it stands.
    pub(crate) x: f64,
    /// How high.
    pub(crate) y: f64,
    /// Ends of its interval; `None` of that which others are held against.
    pub(crate) ends: Option<[f64; 2]>,
}

/// A plot whose marks stand at shares of it; `None` where there is nothing to draw.
pub(crate) fn draw(
    mut series: Vec<Series>,
    columns: impl IntoIterator<Item = (f64, String)>,
    rows: impl IntoIterator<Item = (f64, String)>,
    reference: [[f64; 2]; 2],
) -> Option<Plot> {
    let settings = series.len();
    series.truncate(MOST_LINES);
    let lines = series.iter().enumerate();
    let mut lines: Vec<Line> = lines
        .map(|(place, line)| self::line(place, series.len(), line))
        .collect();
    spread(&mut lines);
    let [from, to] = reference.map(|[across, up]| [FRAME.x(across), FRAME.y(up)]);
    let tick = |at: f64, label: String| Tick {
        at: tenth(at),
        label,
    };
    (!lines.is_empty()).then(|| Plot {
        frame: FRAME,
        columns: columns
            .into_iter()
            .map(|(at, label)| tick(FRAME.x(at), label))
            .collect(),
        rows: rows
            .into_iter()
            .map(|(at, label)| tick(FRAME.y(at), label))
            .collect(),
        reference: format!("M{:.1} {:.1}L{:.1} {:.1}", from[0], from[1], to[0], to[1]),
        lines,
        left_out: if settings > MOST_LINES {
            format!("Of {settings} settings the first {MOST_LINES} are drawn.")
        } else {
            String::new()
        },
    })
}

fn line(place: usize, of: usize, series: &Series) -> Line {
    let beside = APART * (place as f64 - (of as f64 - 1.0) / 2.0);
    let (mut path, mut whiskers, mut dots) = (String::new(), String::new(), String::new());
    let mut end = FRAME.y(0.0);
    for (number, point) in series.points.iter().enumerate() {
        let (x, y) = (FRAME.x(point.x) + beside, FRAME.y(point.y));
        let to = if number == 0 { 'M' } else { 'L' };
        let _infallible = write!(path, "{to}{x:.1} {y:.1}");
        let _infallible = write!(dots, "M{x:.1} {y:.1}h0");
        end = y;
        let Some(ends) = point.ends else {
            continue;
        };
        let [low, high] = ends.map(|end| FRAME.y(end));
        let (left, width) = (x - CAP, 2.0 * CAP);
        let _infallible = write!(
            whiskers,
            "M{x:.1} {low:.1}V{high:.1}M{left:.1} {low:.1}h{width:.1}M{left:.1} {high:.1}h{width:.1}"
        );
    }
    Line {
        label: series.label.clone(),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn series(points: &[(f64, f64, Option<[f64; 2]>)]) -> Series {
        let points = points.iter();
        Series {
            label: "a".to_owned(),
            points: points.map(|&(x, y, ends)| Point { x, y, ends }).collect(),
        }
    }

    #[test]
    fn lines_lie_beside_each_other_and_in_the_plot() {
        let one = series(&[(0.0, 0.5, None), (1.0, 1.0, Some([0.5, f64::INFINITY]))]);
        let other = series(&[(0.0, 0.5, None), (1.0, -2.0, None)]);
        let columns = [(0.0, "1".to_owned()), (1.0, "2".to_owned())];
        let plot = draw(vec![one, other], columns, [], [[0.0, 0.0], [1.0, 1.0]]).unwrap();
        let (left, right, top) = (FRAME.left, FRAME.right, FRAME.top);
        let (bottom, middle) = (FRAME.bottom, (FRAME.bottom + top) / 2.0);
        assert_eq!(
            plot.reference,
            format!("M{left:.1} {bottom:.1}L{right:.1} {top:.1}")
        );
        let [first, second] = plot.lines.as_slice() else {
            panic!("{plot:?}")
        };
        let path = |aside: f64, end: f64| {
            let (from, to) = (left + aside, right + aside);
            format!("M{from:.1} {middle:.1}L{to:.1} {end:.1}")
        };
        assert_eq!(first.path, path(-APART / 2.0, top));
        assert_eq!(second.path, path(APART / 2.0, bottom));
        assert!(first.whiskers.contains(&format!("{middle:.1}V{top:.1}")));
        assert!(second.whiskers.is_empty());
        let at: Vec<f64> = plot.columns.iter().map(|tick| tick.at).collect();
        assert_eq!(at, [left, right]);
    }

    #[test]
    fn there_are_as_many_lines_as_colours_and_their_numbers_are_read() {
        assert!(draw(vec![], [], [], [[0.0; 2]; 2]).is_none());
        let many = (0..9).map(|_| series(&[(0.0, 0.5, None)])).collect();
        let plot = draw(many, [], [], [[0.0; 2]; 2]).unwrap();
        assert_eq!(plot.lines.len(), MOST_LINES);
        assert_eq!(plot.left_out, "Of 9 settings the first 8 are drawn.");
        let ends: Vec<f64> = plot.lines.iter().map(|line| line.end).collect();
        assert!(ends.is_sorted() && ends[7] - ends[0] >= 7.0 * TEXT);
    }
}
