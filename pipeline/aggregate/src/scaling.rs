//! How training scales with the number of workers that share it: cells of a heat that are equal in all else.

use std::collections::BTreeMap;

use schema::{
    Cell, CellId, Strategy,
    plan::PlannedCell,
    protocol::{Exchanges, StepExchanges},
    tables::{ComparisonTable, ExchangeRow, Interval, ScalingPoint, ScalingRow},
};
use statistics::{number::rounded, percentile};

use crate::{
    group::{Entry, Group},
    slot::Slot,
};

/// The axis whose values are numbers of workers.
const AXIS: &str = "world_size";

/// What workers make of a job's cells, in the plan's order: those that are spread, each with what ranks
/// exchanged, and how much of the workers is made use of where the job compares their numbers.
pub(crate) fn rows(groups: &[&Group<'_>], comparisons: &[ComparisonTable]) -> Vec<ScalingRow> {
    let mut rows: Vec<(BTreeMap<String, String>, Vec<Entry<'_>>)> = Vec::new();
    for group in groups {
        for (cell, slot) in group.originals() {
            if cell.cell.strategy == Strategy::Single {
                continue;
            }
            let mut coordinates = cell.coordinates.clone();
            coordinates.remove(AXIS);
            let entry = Entry { cell, slot };
            match rows.iter_mut().find(|(known, _)| *known == coordinates) {
                Some((_, entries)) => entries.push(entry),
                None => rows.push((coordinates, vec![entry])),
            }
        }
    }
    let ratios = ratios(comparisons);
    let row = |(coordinates, mut entries): (BTreeMap<String, String>, Vec<Entry<'_>>)| {
        entries.sort_by_key(|entry| entry.cell.cell.world_size);
        let strategy = entries.first()?.cell.cell.strategy;
        let points = entries.iter().map(|entry| point(entry, &entries, &ratios));
        Some(ScalingRow {
            coordinates,
            strategy,
            points: points.collect(),
        })
    };
    rows.into_iter().filter_map(row).collect()
}

/// Step times of contenders ÷ those of baselines with another number of workers, by both.
type Ratios<'a> = BTreeMap<(&'a CellId, &'a CellId), Interval>;

fn ratios(comparisons: &[ComparisonTable]) -> Ratios<'_> {
    let over_workers = comparisons.iter().filter(|table| table.axis == AXIS);
    let rows = over_workers.flat_map(|table| &table.rows);
    rows.filter_map(|row| Some(((&row.baseline, &row.contender), row.ratio?)))
        .collect()
}

fn point(entry: &Entry<'_>, entries: &[Entry<'_>], ratios: &Ratios<'_>) -> ScalingPoint {
    let PlannedCell { id, cell, .. } = entry.cell;
    let efficiency = entries.iter().find_map(|base| {
        let ratio = ratios.get(&(&base.cell.id, id))?;
        efficiency(&base.cell.cell, cell, ratio)
    });
    ScalingPoint {
        world_size: cell.world_size,
        cell: id.clone(),
        samples: cell.samples(),
        efficiency,
        exchange: exchange(&entry.slot.exchanges),
        memory_bytes: memory(entry.slot),
    }
}

/// The throughput of the one for each of its workers ÷ that of the other: (samples ÷ (workers · step)) ÷ the
/// same of the base.
fn efficiency(base: &Cell, other: &Cell, ratio: &Interval) -> Option<Interval> {
    let of_each = |cell: &Cell| cell.samples() as f64 / f64::from(cell.world_size.max(1));
    let scale = of_each(other) / of_each(base);
    let turned = |ratio: f64| rounded(scale / ratio);
    (ratio.centre > 0.0).then(|| Interval {
        low: ratio.high.map(turned),
        centre: turned(ratio.centre),
        high: ratio.low.filter(|low| *low > 0.0).map(turned),
        blocks: ratio.blocks,
        confidence: ratio.confidence,
    })
}

/// What ranks exchange: medians over the steps of all ranks in all launches that count.
fn exchange(told: &[Exchanges]) -> Option<ExchangeRow> {
    let steps: Vec<&StepExchanges> = told
        .iter()
        .flat_map(|exchanges| exchanges.ranks.iter().flatten())
        .collect();
    let median = |of: &dyn Fn(&StepExchanges) -> f64| {
        let values = steps.iter().map(|step| of(step));
        percentile::middle(values).map(rounded)
    };
    let share = |part_ns: u64, whole_ns: u64| part_ns as f64 / whole_ns.max(1) as f64;
    Some(ExchangeRow {
        bytes: median(&|step| step.bytes() as f64)? as u64,
        buckets: median(&|step| step.buckets.len() as f64)? as u32,
        communication: median(&|step| share(step.communication_ns(), step.wall_ns))?,
        hidden: median(&|step| share(step.hidden_ns(), step.communication_ns()))?,
        steps: u32::try_from(steps.len()).unwrap_or(u32::MAX),
        middling: middling(told),
    })
}

/// The step of middling length among all, by rank. A step is as long as its slowest rank's.
fn middling(told: &[Exchanges]) -> Vec<StepExchanges> {
    let of_launch = |exchanges: &Exchanges| -> Vec<Vec<StepExchanges>> {
        let noted = exchanges.ranks.iter().map(Vec::len).min().unwrap_or(0);
        let step = |place| {
            let ranks = exchanges.ranks.iter();
            ranks
                .filter_map(|steps| steps.get(place).cloned())
                .collect()
        };
        (0..noted).map(step).collect()
    };
    let mut steps: Vec<Vec<StepExchanges>> = told.iter().flat_map(of_launch).collect();
    steps.sort_by_key(|ranks| ranks.iter().map(|step| step.wall_ns).max());
    let middle = steps.len() / 2;
    steps.into_iter().nth(middle).unwrap_or_default()
}

/// The most memory of each rank.
fn memory(slot: &Slot) -> Vec<u64> {
    let first = slot.memory.iter();
    let others = slot.memory.iter().flat_map(|memory| &memory.other_ranks);
    first
        .chain(others)
        .map(|memory| {
            memory
                .peak_device_bytes
                .unwrap_or(memory.peak_resident_bytes)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use schema::{BATCH, Graph, SCALING, WEAK, protocol::BucketExchange};

    use super::*;

    #[test]
    fn what_each_worker_gets_done_is_held_against_one_alone() {
        let planned = |world_size, weak: bool| {
            let graph = Graph {
                name: "any".to_owned(),
                inputs: Vec::new(),
                parameters: Vec::new(),
                nodes: Vec::new(),
                outputs: Vec::new(),
                loss: None,
            };
            let weak = weak.then(|| (SCALING.to_owned(), WEAK.to_owned()));
            Cell {
                strategy: Strategy::Ddp,
                world_size,
                dims: [(BATCH.to_owned(), 8)].into(),
                factors: weak.into_iter().collect(),
                ..Cell::plain(&graph, "any/any".parse().unwrap())
            }
        };
        let ratio = |centre| Interval {
            low: Some(centre / 1.25),
            centre,
            high: None,
            blocks: 6,
            confidence: 0.95,
        };
        let told = |weak, centre| {
            let found = efficiency(&planned(1, weak), &planned(2, weak), &ratio(centre)).unwrap();
            (found.low, found.centre, found.high)
        };
        // Half the time is all that two workers can make of a batch, and the same of two batches.
        assert_eq!(told(false, 0.5), (None, 1.0, Some(1.25)));
        assert_eq!(told(true, 1.0), (None, 1.0, Some(1.25)));
        assert_eq!(told(true, 2.0).1, 0.5);
        assert_eq!(
            efficiency(&planned(1, true), &planned(2, true), &ratio(0.0)),
            None
        );
    }

    #[test]
    fn what_is_exchanged_is_told_by_medians() {
        assert_eq!(exchange(&[]), None);
        let step = |wall_ns, ended_ns| StepExchanges {
            wall_ns,
            backward_ns: 10,
            buckets: vec![
                BucketExchange {
                    bucket: 0,
                    bytes: 1000,
                    began_ns: 20,
                    ended_ns: 60,
                },
                BucketExchange {
                    bucket: 1,
                    bytes: 24,
                    began_ns: 60,
                    ended_ns,
                },
            ],
        };
        let told = Exchanges {
            ranks: vec![
                vec![step(100, 80), step(200, 100)],
                vec![step(100, 80), step(100, 80)],
            ],
        };
        let row = exchange(&[told]).unwrap();
        assert_eq!((row.bytes, row.buckets, row.steps), (1024, 2, 4));
        assert!((row.communication - 0.6).abs() < 1e-9);
        assert!((row.hidden - 40.0 / 60.0).abs() < 1e-6);
    }

    #[test]
    fn a_step_is_as_long_as_its_slowest_rank_s() {
        let step = |wall_ns| StepExchanges {
            wall_ns,
            backward_ns: 0,
            buckets: Vec::new(),
        };
        let launch = |ranks: [&[u64]; 2]| Exchanges {
            ranks: ranks
                .map(|steps| steps.iter().copied().map(step).collect())
                .into(),
        };
        let of = |told: &[Exchanges]| -> Vec<u64> {
            middling(told).iter().map(|step| step.wall_ns).collect()
        };
        // By the first rank it would be the last of the three.
        let told = launch([&[100, 200, 150], &[300, 100, 100]]);
        assert_eq!(of(&[told]), [200, 100]);
        // Of all launches; a step that a rank does not tell of is none.
        let told = [
            launch([&[5], &[1]]),
            launch([&[7, 9], &[8]]),
            launch([&[6], &[6]]),
        ];
        assert_eq!(of(&told), [6, 6]);
        assert_eq!(of(&[]), [0; 0]);
        assert_eq!(of(&[launch([&[], &[1]])]), [0; 0]);
    }
}
