//! What it gains to compare rounds of one pass, on a machine that changes its speed within a block and on others.

use photofinish_statistics::{
    coverage::{ROUNDS, Rounds},
    samples::Steps,
};

use crate::{
    BETWEEN_S, HEATS, Heated, RATIO, holds, hundredths, interval_of_one,
    machine::{Law, Machine},
    measure, median, tenths,
};

/// Whether intervals of six blocks hold the ratio, and half their widths, in per cent: by the medians of both cells,
/// and by pairs of rounds.
fn heat(law: Law, rounds: u32, seed: u64) -> [(bool, f64); 2] {
    const BLOCKS: u32 = 6;
    let mut machine = Machine::new(law, BETWEEN_S[1], seed).with_rounds(rounds);
    let pairs = Heated::of(&mut machine, RATIO, BLOCKS);
    let pooled = |(block, steps): (&u32, &Steps)| (*block, Steps::from(steps.step_ns));
    let medians = Heated(
        pairs
            .0
            .each_ref()
            .map(|cell| cell.iter().map(pooled).collect()),
    );
    [medians, pairs].map(|heated| {
        let ratio = interval_of_one(&heated.shared(), &measure(BLOCKS));
        let half = libm::log(ratio.high.unwrap() / ratio.low.unwrap()) / 2.0;
        (holds(&ratio, libm::log(RATIO) + law.bias()), 100.0 * half)
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
    let kinds = Law::ALL.map(|law| [2, 4, 6, 12].map(|rounds| (law, rounds)));
    let rows = kinds.into_iter().flatten();
    let rows: Vec<Rounds> = rows.map(|(law, rounds)| simulated(law, rounds)).collect();
    for row in &rows {
        println!("{row:?}");
        assert!(row.medians >= 93.0 && row.pairs >= 93.0, "{row:?}");
    }
    assert_eq!(ROUNDS.to_vec(), rows, "the method page is old");
}
