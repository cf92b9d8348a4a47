//! Small run records whose block medians are given.

use photofinish_aggregate::{AggregateError, aggregate};
use schema::{
    Heat, Tables,
    record::{HeatResult, Launch},
    tables::ComparisonRow,
};
use synthetic::{Size, Synthetic};

/// A run of `groups` groups of two cells, `blocks` blocks each; group 0 holds twins of both.
pub(crate) fn run(groups: u32, blocks: u32) -> Synthetic {
    synthetic::run(Size {
        cells: 2 * groups,
        blocks,
        rounds: 2,
        samples: 3,
    })
}

/// Times of six blocks that agree.
pub(crate) const EVEN: [u64; 6] = [1_000_000; 6];

/// One group: the original and its twin take these times in their blocks, to the nanosecond.
pub(crate) fn race(baseline: &[u64], contender: &[u64]) -> Synthetic {
    assert_eq!(baseline.len(), contender.len());
    let mut run = run(1, u32::try_from(baseline.len()).unwrap());
    for (slot, times) in [(0, baseline), (1, contender), (2, baseline), (3, contender)] {
        set_times(&mut run, 0, slot, times);
    }
    run
}

/// The heat of a group of the plan.
pub(crate) fn heat(run: &mut Synthetic, group: usize) -> &mut Heat {
    let HeatResult::Sealed(digest) = &run.record.heats[group].heat else {
        panic!("group {group} was not measured");
    };
    run.heats.get_mut(digest).unwrap()
}

/// The launch of a slot in a block.
pub(crate) fn launch(run: &mut Synthetic, group: usize, block: usize, slot: u32) -> &mut Launch {
    let launches = &mut heat(run, group).blocks[block].launches;
    launches
        .iter_mut()
        .find(|launch| launch.slot == slot)
        .unwrap()
}

/// Makes every sample of a slot in a block the given one.
pub(crate) fn set_times(run: &mut Synthetic, group: usize, slot: u32, times: &[u64]) {
    for (block, &time) in times.iter().enumerate() {
        for round in &mut launch(run, group, block, slot).rounds {
            round.samples_ns.fill(time);
        }
    }
}

pub(crate) fn try_tables(run: &Synthetic) -> Result<Tables, AggregateError> {
    aggregate(&run.record, &|key, heat| run.heat(key, heat))
}

pub(crate) fn tables(run: &Synthetic) -> Tables {
    try_tables(run).unwrap()
}

/// The only comparison of a race.
pub(crate) fn only_row(tables: &Tables) -> &ComparisonRow {
    let [row] = tables.jobs[0].comparisons[0].rows.as_slice() else {
        panic!("one row expected");
    };
    row
}
