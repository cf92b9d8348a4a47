//! What it gains to compare rounds of one pass, on a machine that changes its speed within a block and on others.

use photofinish_statistics::{
    coverage::{ROUNDS, Rounds},
    family::confidence_of_one,
    interval, pair,
    samples::Steps,
};
use schema::Boundary;

use crate::{
    BETWEEN_S, HEATS, RATIO, holds, hundredths,
    machine::{BUSY_S, Law, Machine},
    measure, median, tenths,
};

/// A step of a baseline on a machine that nobody slows down, in nanoseconds.
const STEP_NS: f64 = 1e7;

/// The steps of a cell in a block, given their logarithms.
fn steps(logs: &[f64], rounds: usize) -> Steps {
    let median_ns = |logs: &[f64]| STEP_NS * libm::exp(median(logs));
    Steps {
        step_ns: median_ns(logs),
        rounds_ns: logs
            .chunks_exact(logs.len() / rounds)
            .map(median_ns)
            .collect(),
    }
}

/// Whether intervals of six blocks hold the ratio, and half their widths, in per cent: by the medians of both cells,
/// and by pairs of rounds.
fn heat(law: Law, rounds: u32, seed: u64) -> [(bool, f64); 2] {
    const BLOCKS: u32 = 6;
    let count = rounds as usize;
    let machine = Machine::new(law, BETWEEN_S[0], seed);
    let mut machine = machine.with_moods_of(BUSY_S).with_rounds(count);
    let blocks: Vec<[Steps; 2]> = (0..BLOCKS)
        .map(|_| machine.block(RATIO).map(|logs| steps(&logs, count)))
        .collect();
    let medians = |steps: &Steps| Steps::from(steps.step_ns);
    [medians, Steps::clone].map(|of: fn(&Steps) -> Steps| {
        let [baseline, contender] = [0, 1].map(|cell| {
            let steps = blocks.iter().map(|both: &[Steps; 2]| of(&both[cell]));
            (0..BLOCKS).zip(steps).collect()
        });
        let shared = pair::shared(&baseline, &contender, Boundary::Step);
        let confidence = confidence_of_one(&measure(BLOCKS));
        let ratio = interval::of_logs(&shared.logs, confidence, shared.resolution).unwrap();
        let half = libm::log(ratio.high.unwrap() / ratio.low.unwrap()) / 2.0;
        (holds(&ratio, libm::log(RATIO)), 100.0 * half)
    })
}

fn simulated(law: Law, rounds: u32) -> Rounds {
    let heats: Vec<_> = (0..HEATS).map(|seed| heat(law, rounds, seed)).collect();
    let held = |way: usize| {
        let held = heats.iter().filter(|heat| heat[way].0).count();
        tenths(100.0 * held as f64 / HEATS as f64)
    };
    let half = |way: usize| {
        let halves: Vec<f64> = heats.iter().map(|heat| heat[way].1).collect();
        hundredths(median(&halves))
    };
    Rounds {
        machine: law.words(),
        rounds,
        medians: held(0),
        medians_half: half(0),
        pairs: held(1),
        pairs_half: half(1),
    }
}

#[test]
fn what_rounds_gain_is_told() {
    let laws = [
        Law::Neighbours,
        Law::Independent,
        Law::HeavyTailed,
        Law::Autocorrelated,
    ];
    let kinds = laws.map(|law| [2, 4, 6, 12].map(|rounds| (law, rounds)));
    let rows = kinds.into_iter().flatten();
    let rows: Vec<Rounds> = rows.map(|(law, rounds)| simulated(law, rounds)).collect();
    for row in &rows {
        println!("{row:?}");
        assert!(row.medians >= 93.0 && row.pairs >= 93.0, "{row:?}");
    }
    assert_eq!(ROUNDS.to_vec(), rows, "the method page is old");
}
