//! A roofline: what each cell computes in a second over its operations for each byte, below what the device
//! can do. Both axes are logarithmic. Drawn by a template; the table beside it says the same in numbers.

use serde::Serialize;

use crate::{
    axis::{Frame, Tick, decimals, log_share, tenth},
    marks::Mark,
    units,
};

const FRAME: Frame = Frame::of([720.0, 380.0], [92.0, 16.0, 20.0, 52.0]);

/// Rates and intensities beyond these are some mistake, and would break the arithmetic of an axis.
const DRAWABLE: std::ops::Range<f64> = 1e-3..1e21;

/// So much room is left around what is drawn, as a factor.
const ROOM: f64 = 1.6;

/// So far the slope of memory reaches below the ridge at the least, as a factor: its name needs room.
const SLOPE: f64 = 12.0;

/// Most ticks of an axis: with more, those of powers of ten are left, or of every second power and so on.
const MOST_TICKS: usize = 9;

/// More cells than this make one blot.
const MOST_POINTS: usize = 400;

/// What is to be drawn.
#[derive(Debug, Default)]
pub(crate) struct Scene {
    /// Bytes per second that the device reads.
    pub(crate) reading: f64,
    /// The precision of products, and operations per second in those.
    pub(crate) product: (String, f64),
    /// The cells.
    pub(crate) cells: Vec<Spot>,
}

/// A cell.
#[derive(Debug)]
pub(crate) struct Spot {
    /// Operations for each byte.
    pub(crate) intensity: f64,
    pub(crate) flops_per_second: f64,
    pub(crate) mark: Mark,
    /// The same in words.
    pub(crate) label: String,
}

/// The picture, in pixels.
#[derive(Debug, Serialize)]
pub(crate) struct Roofline {
    #[serde(flatten)]
    frame: Frame,
    across: Vec<Tick>,
    up: Vec<Tick>,
    /// The lines of both ceilings: of memory up to the ridge, and of arithmetic from there on.
    roofs: [Roof; 2],
    points: Vec<Point>,
    /// What is left out, in a sentence; empty when nothing is.
    cut: String,
}

/// A ceiling.
#[derive(Debug, Serialize)]
struct Roof {
    path: String,
    label: String,
    x: f64,
    y: f64,
    /// Degrees that the label is turned by.
    turn: f64,
    /// Whether the label begins at its place, or ends there.
    begins: bool,
}

/// A cell.
#[derive(Debug, Serialize)]
struct Point {
    x: f64,
    y: f64,
    mark: Mark,
    label: String,
}

/// Draws a scene; `None` where the device's ceilings, or all cells, are nothing that a picture can show.
pub(crate) fn draw(scene: &Scene) -> Option<Roofline> {
    let can_show = |value: &f64| DRAWABLE.contains(value);
    let reading = Some(scene.reading).filter(can_show)?;
    let product = Some(scene.product.1).filter(can_show)?;
    let drawable = |spot: &&Spot| can_show(&spot.intensity) && can_show(&spot.flops_per_second);
    let drawable: Vec<&Spot> = scene.cells.iter().filter(drawable).collect();
    let spots = drawable.get(..MOST_POINTS).unwrap_or(&drawable);
    if spots.is_empty() {
        return None;
    }
    let ridge = product / reading;
    let intensities = spots.iter().map(|spot| spot.intensity);
    let across = Axis::over(
        intensities.chain([ridge / SLOPE, ridge]),
        [FRAME.left, FRAME.right],
    )?;
    let rates = spots.iter().map(|spot| spot.flops_per_second);
    let up = Axis::over(
        rates.chain([product, reading * across.low]),
        [FRAME.bottom, FRAME.top],
    )?;
    let point = |spot: &&Spot| Point {
        x: across.place(spot.intensity),
        y: up.place(spot.flops_per_second),
        mark: spot.mark,
        label: spot.label.clone(),
    };
    let points: Vec<Point> = spots.iter().map(point).collect();
    Some(Roofline {
        frame: FRAME,
        roofs: roofs(reading, &scene.product, &across, &up, &points),
        points,
        across: across.ticks(units::plain),
        up: up.ticks(|rate| {
            let (scale, prefix) = units::prefix(rate);
            format!("{} {prefix}FLOP/s", units::plain(rate / scale))
        }),
        cut: if spots.len() < drawable.len() {
            let (drawn, all) = (spots.len(), drawable.len());
            format!("Drawn are the first {drawn} of {all} cells; the table has all.")
        } else {
            String::new()
        },
    })
}

/// Room that a name takes: pixels of a character, of a line, and of half a mark.
const CHARACTER: f64 = 7.5;
const LINE: f64 = 20.0;
const HALF_A_MARK: f64 = 6.0;

/// Whether marks lie where a name would stand that is written over a level line, from `left` to `right`.
fn is_covered(points: &[Point], [left, right]: [f64; 2], level: f64) -> bool {
    let is_beside = |x: f64| x > left - HALF_A_MARK && x < right + HALF_A_MARK;
    let is_above = |y: f64| y > level - LINE - HALF_A_MARK && y < level + HALF_A_MARK;
    points
        .iter()
        .any(|point| is_beside(point.x) && is_above(point.y))
}

fn roofs(
    reading: f64,
    (name, product): &(String, f64),
    across: &Axis,
    up: &Axis,
    points: &[Point],
) -> [Roof; 2] {
    let intensities = [across.low, product / reading];
    let [x1, x2] = intensities.map(|intensity| across.place(intensity));
    let [y1, y2] = intensities.map(|intensity| up.place(reading * intensity));
    let right = across.place(across.high);
    // Over the line, a little from its beginning.
    let along = 0.06;
    let memory = Roof {
        path: format!("M{x1} {y1}L{x2} {y2}"),
        label: format!("memory: {}", units::quantity(reading, "B/s")),
        x: tenth(x1 + (x2 - x1) * along),
        y: tenth(y1 + (y2 - y1) * along),
        turn: tenth((y2 - y1).atan2(x2 - x1).to_degrees()),
        begins: true,
    };
    let label = format!("{name}: {}", units::quantity(*product, "FLOP/s"));
    let long = CHARACTER * label.chars().count() as f64;
    // At the end of its line, unless cells are drawn there and its beginning is free.
    let is_free = |from: f64| !is_covered(points, [from, from + long], y2);
    let begins = !is_free(right - long) && x2 + long <= right && is_free(x2);
    let arithmetic = Roof {
        path: format!("M{x2} {y2}H{right}"),
        label,
        x: if begins { x2 } else { right },
        y: y2,
        turn: 0.0,
        begins,
    };
    [memory, arithmetic]
}

/// A logarithmic axis.
#[derive(Debug)]
struct Axis {
    low: f64,
    high: f64,
    /// Where both ends stand, in pixels.
    ends: [f64; 2],
}

impl Axis {
    /// An axis with room for all of these.
    fn over(values: impl Iterator<Item = f64>, ends: [f64; 2]) -> Option<Self> {
        let (low, high) = values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        (low > 0.0 && low.is_finite() && high.is_finite()).then(|| Self {
            low: low / ROOM,
            high: high * ROOM,
            ends,
        })
    }

    fn place(&self, value: f64) -> f64 {
        let [first, last] = self.ends;
        tenth(first + (last - first) * log_share(value, self.low, self.high))
    }

    /// 1, 2 and 5 times every power of ten, or as many of these as have room.
    fn ticks(&self, print: impl Fn(f64) -> String) -> Vec<Tick> {
        let mut ticks = decimals(self.low, self.high, &[1.0, 2.0, 5.0]);
        if ticks.len() > MOST_TICKS {
            ticks = decimals(self.low, self.high, &[1.0]);
        }
        let every = ticks.len().div_ceil(MOST_TICKS).max(1);
        let ticks = ticks.into_iter().step_by(every);
        ticks
            .map(|tick| Tick {
                at: self.place(tick),
                label: print(tick),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spot(intensity: f64, flops_per_second: f64) -> Spot {
        Spot {
            intensity,
            flops_per_second,
            mark: Mark::default(),
            label: "a cell".to_owned(),
        }
    }

    fn scene(cells: Vec<Spot>) -> Scene {
        Scene {
            reading: 20e9,
            product: ("fp32".to_owned(), 100e9),
            cells,
        }
    }

    #[test]
    fn a_cell_at_its_ceiling_stands_on_the_line() {
        let drawn = draw(&scene(vec![spot(1.0, 20e9), spot(50.0, 100e9)])).unwrap();
        let [memory, fp32] = &drawn.roofs;
        assert_eq!(fp32.label, "fp32: 100 GFLOP/s");
        let [bound_by_memory, bound_by_arithmetic] = drawn.points.as_slice() else {
            panic!("{:?}", drawn.points);
        };
        assert!((bound_by_arithmetic.y - fp32.y).abs() < 0.2, "{drawn:?}");
        // On a line from the beginning of the slope to its end.
        let numbers: Vec<f64> = memory
            .path
            .split(['M', 'L', ' '])
            .filter_map(|number| number.parse().ok())
            .collect();
        let [x1, y1, x2, y2] = numbers[..] else {
            panic!("{}", memory.path)
        };
        let share = (bound_by_memory.x - x1) / (x2 - x1);
        let wanted = y1 + (y2 - y1) * share;
        assert!((wanted - bound_by_memory.y).abs() < 0.5, "{drawn:?}");
        assert!(memory.turn < 0.0);
    }

    #[test]
    fn the_name_of_a_ceiling_stands_where_no_cell_does() {
        let name = |cells: &[f64]| {
            let cells = cells.iter().map(|it| spot(*it, 100e9)).collect();
            let drawn = draw(&scene(cells)).unwrap();
            let [_, roof] = &drawn.roofs;
            (roof.begins, roof.x < drawn.frame.right)
        };
        assert_eq!(name(&[0.1]), (false, false));
        assert_eq!(name(&[2000.0]), (true, true));
        // Where there are cells at both ends, it stays.
        assert_eq!(name(&[10.0, 2000.0]), (false, false));
    }

    #[test]
    fn every_cell_is_inside_the_picture() {
        for cells in [
            vec![spot(0.001, 1e3)],
            vec![spot(1e-5, 1e20), spot(1e15, 1.0)],
            vec![
                spot(1.0, 1e9),
                spot(f64::NAN, 1e9),
                spot(1.0, f64::INFINITY),
            ],
        ] {
            let drawn = draw(&scene(cells)).unwrap();
            for point in &drawn.points {
                assert!((FRAME.left..=FRAME.right).contains(&point.x), "{point:?}");
                assert!((FRAME.top..=FRAME.bottom).contains(&point.y), "{point:?}");
            }
            for ticks in [&drawn.across, &drawn.up] {
                assert!((1..=MOST_TICKS).contains(&ticks.len()), "{ticks:?}");
            }
        }
    }

    #[test]
    fn nothing_to_show_is_not_drawn() {
        assert!(draw(&scene(Vec::new())).is_none());
        assert!(draw(&scene(vec![spot(0.0, 1e9)])).is_none());
        let cells = || vec![spot(1.0, 1e9)];
        for reading in [0.0, f64::NAN, f64::INFINITY] {
            let scene = Scene {
                reading,
                ..scene(cells())
            };
            assert!(draw(&scene).is_none());
        }
        let lacking = Scene {
            product: (String::new(), 0.0),
            ..scene(cells())
        };
        assert!(draw(&lacking).is_none());
    }

    #[test]
    fn of_too_many_cells_the_first_are_drawn() {
        let cells = (1..=500).map(|number| spot(f64::from(number), 1e9));
        let drawn = draw(&scene(cells.collect())).unwrap();
        assert_eq!(drawn.points.len(), MOST_POINTS);
        assert!(drawn.cut.contains("400 of 500"), "{}", drawn.cut);
    }
}
