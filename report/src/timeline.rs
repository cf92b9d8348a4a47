//! A step of several ranks: what each computes, and which buckets of gradients are on their way meanwhile.
//! Drawn by a template, as cells' other plots are.

use std::fmt::Write as _;

use schema::protocol::StepExchanges;
use serde::Serialize;

use crate::{
    axis::{self, Tick, tenth},
    units,
};

const WIDTH: f64 = 720.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 28.0;
const TOP: f64 = 6.0;
const BOTTOM: f64 = 24.0;

/// Heights of the bar of what is computed, of that of buckets, and of a rank with its margin.
const COMPUTED: f64 = 16.0;
const EXCHANGED: f64 = 10.0;
const RANK: f64 = 40.0;

/// More ranks than this are not told apart any more.
const MOST_RANKS: usize = 16;

/// The plot, in pixels.
#[derive(Debug, Serialize)]
pub(crate) struct Timeline {
    width: f64,
    height: f64,
    top: f64,
    bottom: f64,
    ticks: Vec<Tick>,
    ranks: Vec<Lane>,
    /// What is left out, in a sentence; empty when nothing is.
    left_out: String,
    /// How long the step took, of its slowest rank.
    step: String,
}

/// A rank: paths of bars, each empty where there is nothing of it.
#[derive(Debug, Serialize)]
struct Lane {
    label: String,
    middle: f64,
    forward: String,
    backward: String,
    rest: String,
    /// Every other bucket, so that neighbours are told apart.
    buckets: [String; 2],
}

/// Draws a step; `None` where no rank tells of any.
pub(crate) fn draw(ranks: &[StepExchanges]) -> Option<Timeline> {
    let longest = ranks.iter().map(|step| step.wall_ns).max()?;
    let drawn = ranks.get(..MOST_RANKS).unwrap_or(ranks);
    let scale = Scale(longest.max(1) as f64);
    let lanes = drawn
        .iter()
        .enumerate()
        .map(|(rank, step)| lane(rank, step, &scale));
    let height = TOP + RANK * drawn.len() as f64 + BOTTOM;
    let tick = |(value, label)| Tick {
        at: tenth(scale.x(value)),
        label,
    };
    Some(Timeline {
        width: WIDTH,
        height,
        top: TOP,
        bottom: height - BOTTOM,
        ticks: axis::times(0.0, scale.0).into_iter().map(tick).collect(),
        ranks: lanes.collect(),
        left_out: if drawn.len() < ranks.len() {
            format!(
                "Of {} ranks the first {} are drawn.",
                ranks.len(),
                drawn.len()
            )
        } else {
            String::new()
        },
        step: units::time_ns(longest),
    })
}

fn lane(rank: usize, step: &StepExchanges, scale: &Scale) -> Lane {
    let top = TOP + RANK * rank as f64;
    let began = step.backward_ns;
    // The last bucket is handed over when its last gradient is there.
    let last = step.buckets.iter().map(|bucket| bucket.began_ns).max();
    let ended = last.unwrap_or(began).max(began);
    let mut buckets = [String::new(), String::new()];
    for (place, bucket) in step.buckets.iter().enumerate() {
        let path = scale.bar(
            top + COMPUTED + 2.0,
            EXCHANGED,
            bucket.began_ns,
            bucket.ended_ns,
        );
        if let Some(paths) = buckets.get_mut(place % 2) {
            paths.push_str(&path);
        }
    }
    Lane {
        label: format!("rank {rank}"),
        middle: top + (COMPUTED + EXCHANGED) / 2.0,
        forward: scale.bar(top, COMPUTED, 0, began),
        backward: scale.bar(top, COMPUTED, began, ended),
        rest: scale.bar(top, COMPUTED, ended, step.wall_ns),
        buckets,
    }
}

/// The axis of time: its end, in nanoseconds.
#[derive(Debug)]
struct Scale(f64);

impl Scale {
    fn x(&self, ns: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * (ns / self.0).clamp(0.0, 1.0)
    }

    /// The path of a bar; empty where it would have no width.
    fn bar(&self, top: f64, height: f64, began_ns: u64, ended_ns: u64) -> String {
        let (left, right) = (self.x(began_ns as f64), self.x(ended_ns as f64));
        let mut path = String::new();
        if ended_ns > began_ns {
            let width = right - left;
            let _infallible = write!(
                path,
                "M{left:.1} {top:.1}h{width:.1}v{height:.1}h-{width:.1}z"
            );
        }
        path
    }
}

#[cfg(test)]
mod tests {
    use schema::protocol::BucketExchange;

    use super::*;

    fn step(wall_ns: u64, backward_ns: u64, buckets: &[(u64, u64)]) -> StepExchanges {
        let bucket = |(place, &(began_ns, ended_ns)): (usize, &(u64, u64))| BucketExchange {
            bucket: place as u64,
            bytes: 4,
            began_ns,
            ended_ns,
        };
        StepExchanges {
            wall_ns,
            backward_ns,
            buckets: buckets.iter().enumerate().map(bucket).collect(),
        }
    }

    #[test]
    fn bars_lie_on_one_axis_within_the_plot() {
        let steps = [
            step(
                1_000_000,
                400_000,
                &[(600_000, 800_000), (700_000, 900_000)],
            ),
            step(500_000, 100_000, &[(200_000, 9_000_000)]),
        ];
        let timeline = draw(&steps).unwrap();
        let [first, second] = timeline.ranks.as_slice() else {
            panic!("{timeline:?}")
        };
        // The plot is 628 wide: backward from 0.4 to 0.7 of it.
        assert_eq!(first.forward, "M64.0 6.0h251.2v16.0h-251.2z");
        assert_eq!(first.backward, "M315.2 6.0h188.4v16.0h-188.4z");
        assert_eq!(first.rest, "M503.6 6.0h188.4v16.0h-188.4z");
        assert_eq!(first.buckets[0], "M440.8 24.0h125.6v10.0h-125.6z");
        assert_eq!(first.buckets[1], "M503.6 24.0h125.6v10.0h-125.6z");
        // The other's own end is the middle, and nothing leaves the plot, whatever is told.
        assert_eq!(second.rest, "M189.6 46.0h188.4v16.0h-188.4z");
        assert_eq!(second.buckets[0], "M189.6 64.0h502.4v10.0h-502.4z");
        assert_eq!(timeline.step, units::time_ns(1_000_000));
        assert!(timeline.left_out.is_empty());
    }

    #[test]
    fn whatever_is_told_is_drawn() {
        assert!(draw(&[]).is_none());
        for odd in [
            step(0, 0, &[]),
            step(1, u64::MAX, &[(u64::MAX, 0)]),
            step(u64::MAX, 0, &[(0, u64::MAX)]),
        ] {
            let timeline = draw(&vec![odd; 17]).unwrap();
            assert_eq!(timeline.ranks.len(), MOST_RANKS);
            assert_eq!(timeline.left_out, "Of 17 ranks the first 16 are drawn.");
        }
    }
}
