//! Ranks of PyTorch's `DistributedDataParallel`, driven from Rust beside those driven from Python.
//!
//! Ranks that exchange are not stopped, so the two sides take turns as launches: one begins in one
//! pair of launches, the other in the next. A pair gives a ratio, and the pairs an interval.

use std::{collections::BTreeMap, path::Path, time::Instant};

use catalog::Catalog;
use schema::{Cell, Graph, Mode, Optimizer, Precision, Strategy, tables::Interval};
use statistics::interval;
use worker::WorkerCommand;

use crate::{
    Result, contest,
    race::{self, PATIENCE},
};

/// Ours first, and what it is held against.
const SIDES: [&str; 2] = ["pytorch/eager", "pytorch/python-eager"];

/// Of the interval that is told.
const CONFIDENCE: f64 = 0.95;

/// A step is of so many samples, all ranks together, as large as those of small image benchmarks.
const BATCH: u64 = 8;
const IMAGE: u64 = 64;

/// Steps that are timed in a launch take at least so long, after warm-up of half of it.
const TIMED_NS: u64 = 6_000_000_000;

/// What one side does in each launch.
struct Side {
    command: WorkerCommand,
    cell: Cell,
}

impl Side {
    fn new(catalog: &Catalog, variant: &str, graph: &Graph, ranks: u32) -> Result<Self> {
        let cell = contest::cell(catalog, (variant, Precision::Fp32), graph, BATCH, 1)?;
        Ok(Self {
            command: contest::worker(catalog, variant)?,
            cell: Cell {
                mode: Mode::Training,
                optimizer: Some(Optimizer::Sgd {
                    learning_rate: 0.01,
                    momentum: 0.9,
                    weight_decay: 0.0,
                }),
                strategy: Strategy::Ddp,
                world_size: ranks,
                ..cell
            },
        })
    }

    /// The median step of a launch, in nanoseconds.
    fn step_ns(&self, graph: &Graph, scratch: &Path) -> Result<f64> {
        let load = contest::load(self.cell.clone(), graph, scratch)?;
        let mut host = race::loaded(&self.command, &load)?;
        race::times(&mut host, 5, TIMED_NS / 2)?;
        let samples = race::times(&mut host, 5, TIMED_NS)?;
        let _ended = host.finish(Instant::now() + PATIENCE);
        Ok(race::median(
            samples.into_iter().map(|sample| sample as f64).collect(),
        ))
    }
}

/// Prints the ratio of a step of ResNet-18's training over pairs of launches, with its interval.
pub(crate) fn all(catalog: &Catalog, ranks: u32, pairs: usize) -> Result<()> {
    let part = BATCH / u64::from(ranks);
    if part * u64::from(ranks) != BATCH {
        return Err(format!("a batch of {BATCH} does not fall into {ranks} equal parts").into());
    }
    let dims = [("batch".to_owned(), part), ("image".to_owned(), IMAGE)];
    let dims = BTreeMap::from(dims);
    let graph = models::zoo::build_for("resnet18", &dims, Mode::Training)?;
    let scratch = tempfile::tempdir()?;
    let [ours, other] = SIDES.map(|variant| Side::new(catalog, variant, &graph, ranks));
    let sides = [ours?, other?];
    let mut steps_ns: [Vec<f64>; 2] = [vec![], vec![]];
    for pair in 0..pairs {
        for side in [pair % 2, 1 - pair % 2] {
            steps_ns[side].push(sides[side].step_ns(&graph, scratch.path())?);
        }
    }
    println!("{}", told(ranks, &steps_ns));
    Ok(())
}

fn told(ranks: u32, [ours, other]: &[Vec<f64>; 2]) -> String {
    let logs: Vec<f64> = ours.iter().zip(other).map(|(a, b)| (a / b).ln()).collect();
    let ratio = match interval::of_logs(&logs, CONFIDENCE, 0.0) {
        Some(Interval {
            low: Some(low),
            centre,
            high: Some(high),
            ..
        }) => format!("{centre:.3} ({low:.3} to {high:.3})"),
        _ => "not to be told".to_owned(),
    };
    let [ours_ns, other_ns] = [ours, other].map(|steps| race::median(steps.clone()));
    format!(
        "resnet18 batch {BATCH} image {IMAGE}, ddp over {ranks} ranks: {} {:.2} ms, {} {:.2} ms, ratio \
         {ratio} over {} pairs of launches",
        SIDES[0],
        ours_ns / 1e6,
        SIDES[1],
        other_ns / 1e6,
        ours.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_comes_with_its_interval() {
        let steps = [vec![100e6, 102e6, 98e6, 100e6], vec![100e6; 4]];
        let line = told(2, &steps);
        assert!(line.contains("ratio 1.000 (0.9"), "{line}");
        assert!(line.contains("over 4 pairs"), "{line}");
        // One pair has no interval.
        let line = told(2, &[vec![1e6], vec![1e6]]);
        assert!(line.contains("not to be told"), "{line}");
    }
}
