//! The strip plot of a cell: every sample in the order in which it was taken, launch by launch.
//! Drawn by a template, since cells are many.

use std::fmt::Write as _;

use schema::tables::{Interval, LaunchRow};
use serde::Serialize;

use crate::{
    axis::{self, Frame, Tick, decimals, log_share, tenth},
    units,
};

const FRAME: Frame = Frame::of([720.0, 240.0], [64.0, 12.0, 12.0, 36.0]);

/// More samples than this make one blot: of each launch only some are drawn then.
const MOST_SAMPLES: usize = 3000;

/// A range wider than this factor gets a logarithmic axis.
const WIDE: f64 = 8.0;

/// The plot, in pixels.
#[derive(Debug, Serialize)]
pub(crate) struct Strip {
    #[serde(flatten)]
    frame: Frame,
    ticks: Vec<Tick>,
    /// One a launch.
    launches: Vec<Lane>,
    /// The cell's interval, from top to bottom.
    band: Option<[f64; 2]>,
    log: bool,
    /// What is left out, in a sentence; empty when nothing is.
    thinned: String,
}

/// A launch's share of the width.
#[derive(Debug, Serialize)]
struct Lane {
    x: f64,
    width: f64,
    middle: f64,
    label: String,
    /// Path of its samples: a dot is a line of no length.
    dots: String,
    /// Where its median stands.
    median: Option<f64>,
    shaded: bool,
}

/// Draws the samples; `None` when there are none.
pub(crate) fn draw<'a>(
    launches: impl IntoIterator<Item = &'a LaunchRow>,
    step: Option<&Interval>,
) -> Option<Strip> {
    let sampled: Vec<&LaunchRow> = launches
        .into_iter()
        .filter(|launch| launch.rounds.iter().any(|round| !round.is_empty()))
        .collect();
    let samples = || {
        sampled
            .iter()
            .flat_map(|launch| &launch.rounds)
            .flatten()
            .copied()
    };
    let (low, high) = (samples().min()?, samples().max()?);
    let scale = Scale::new(low as f64, high as f64);
    let total = samples().count();
    let stride = total.div_ceil(MOST_SAMPLES).max(1);
    let lane_width = (FRAME.right - FRAME.left) / sampled.len() as f64;
    let lanes = sampled.iter().enumerate().map(|(place, launch)| {
        let x = FRAME.left + lane_width * place as f64;
        Lane {
            x: tenth(x),
            width: tenth(lane_width),
            middle: tenth(x + lane_width / 2.0),
            label: label(sampled.len(), place, launch.block),
            dots: dots(launch, x, lane_width, stride, &scale),
            median: launch.median_ns.map(|median| tenth(scale.y(median as f64))),
            shaded: place % 2 == 1,
        }
    });
    let band = step
        .and_then(|step| step.low.zip(step.high))
        .filter(|(low, high)| low.is_finite() && high.is_finite() && *low > 0.0)
        .map(|(low, high)| [tenth(scale.y(high)), tenth(scale.y(low))]);
    Some(Strip {
        frame: FRAME,
        ticks: scale.ticks(),
        launches: lanes.collect(),
        band,
        log: scale.log,
        thinned: if stride > 1 {
            format!(
                "One in {stride} of {} samples is drawn, and the extremes of each launch.",
                units::count(total as u64)
            )
        } else {
            String::new()
        },
    })
}

/// Numbers of blocks, as many as have room.
fn label(lanes: usize, place: usize, block: u32) -> String {
    let every = lanes.div_ceil(24).max(1);
    if place.is_multiple_of(every) {
        (u64::from(block) + 1).to_string()
    } else {
        String::new()
    }
}

fn dots(launch: &LaunchRow, x: f64, width: f64, stride: usize, scale: &Scale) -> String {
    let samples: Vec<u64> = launch.rounds.iter().flatten().copied().collect();
    let by_value = |place: &usize| samples.get(*place);
    let extremes = [
        (0..samples.len()).min_by_key(by_value),
        (0..samples.len()).max_by_key(by_value),
    ];
    let inner = width * 0.8;
    let mut path = String::new();
    for (place, sample) in samples.iter().enumerate() {
        if !place.is_multiple_of(stride) && !extremes.contains(&Some(place)) {
            continue;
        }
        let across = x + width * 0.1 + inner * (place as f64 + 0.5) / samples.len() as f64;
        let _infallible = write!(path, "M{:.1} {:.1}h0", across, scale.y(*sample as f64));
    }
    path
}

/// The vertical axis.
#[derive(Debug)]
struct Scale {
    low: f64,
    high: f64,
    log: bool,
}

impl Scale {
    fn new(low: f64, high: f64) -> Self {
        let log = low > 0.0 && high / low > WIDE;
        if log {
            return Self {
                low: low / 1.1,
                high: high * 1.1,
                log,
            };
        }
        // A cell that is steady to a thousandth must not look wild: at least 2 % are shown.
        let middle = f64::midpoint(low, high);
        let half = ((high - low) * 0.55).max(middle * 0.01).max(0.5);
        Self {
            low: (middle - half).max(0.0),
            high: middle + half,
            log,
        }
    }

    fn y(&self, value: f64) -> f64 {
        let share = if self.log {
            log_share(value, self.low, self.high)
        } else {
            (value - self.low) / (self.high - self.low)
        };
        FRAME.y(share)
    }

    fn ticks(&self) -> Vec<Tick> {
        let labelled = if self.log {
            self.log_times()
        } else {
            axis::times(self.low, self.high)
        };
        let tick = |(value, label)| Tick {
            at: tenth(self.y(value)),
            label,
        };
        labelled.into_iter().map(tick).collect()
    }

    fn log_times(&self) -> Vec<(f64, String)> {
        let values = decimals(self.low, self.high, &[1.0, 2.0, 5.0]);
        let (scale, unit) = units::time_unit(self.high);
        let every = values.len().div_ceil(8).max(1);
        let label = |value: f64| {
            let number = format!("{:.3}", value / scale);
            let number = number.trim_end_matches('0').trim_end_matches('.');
            (value, format!("{number} {unit}"))
        };
        values.into_iter().step_by(every).map(label).collect()
    }
}

#[cfg(test)]
mod tests {
    use schema::{Outcome, record::Canary};

    use super::*;

    fn launch(block: u32, rounds: Vec<Vec<u64>>) -> LaunchRow {
        LaunchRow {
            block,
            outcome: Outcome::measured(),
            median_ns: rounds.first().and_then(|round| round.first()).copied(),
            warm_up: None,
            canaries: [Canary {
                copy_ns: 1,
                matmul_ns: 1,
            }; 2],
            rounds,
            log: String::new(),
        }
    }

    #[test]
    fn every_sample_is_inside_the_plot() {
        for samples in [
            vec![0, 0],
            vec![5],
            vec![1, u64::MAX],
            vec![14_000_000, 14_100_000, 40_000_000],
            vec![0, u64::MAX],
        ] {
            let strip = draw(&[launch(0, vec![samples.clone()])], None).unwrap();
            let lane = &strip.launches[0];
            assert_eq!(lane.dots.matches('M').count(), samples.len());
            for dot in lane.dots.split('M').skip(1) {
                let (x, y) = dot.trim_end_matches("h0").split_once(' ').unwrap();
                let (x, y): (f64, f64) = (x.parse().unwrap(), y.parse().unwrap());
                assert!(
                    (FRAME.left..=FRAME.right).contains(&x)
                        && (FRAME.top..=FRAME.bottom).contains(&y),
                    "{samples:?} {x} {y}"
                );
            }
        }
    }

    #[test]
    fn nothing_sampled_nothing_drawn() {
        assert!(draw(&[], None).is_none());
        assert!(draw(&[launch(0, vec![vec![], vec![]])], None).is_none());
    }

    #[test]
    fn many_samples_are_thinned_and_extremes_kept() {
        let mut samples: Vec<u64> = vec![1000; 10_000];
        samples[4_999] = 1500;
        let strip = draw(&[launch(0, vec![samples])], None).unwrap();
        let drawn = strip.launches[0].dots.matches('M').count();
        assert!(strip.thinned.contains("One in 4"));
        assert!((2500..2503).contains(&drawn), "{drawn}");
    }

    #[test]
    fn ticks_are_round_and_few() {
        let labels = |low: f64, high: f64| {
            Scale::new(low, high)
                .ticks()
                .into_iter()
                .map(|tick| tick.label)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            labels(14.1e6, 15.3e6),
            [
                "14.2 ms", "14.4 ms", "14.6 ms", "14.8 ms", "15.0 ms", "15.2 ms"
            ]
        );
        assert_eq!(
            labels(1e6, 90e6),
            ["1 ms", "2 ms", "5 ms", "10 ms", "20 ms", "50 ms"]
        );
    }
}
