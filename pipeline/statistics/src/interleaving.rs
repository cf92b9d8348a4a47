//! By how much interleaving lowers the error of a ratio, from a trace of two cells whose rounds took turns
//! throughout.
//!
//! A stretch of the trace is measured in two ways, each with as many rounds of both cells and in the same
//! time: *back to back*, all rounds of the one from the first half and all of the other from the second,
//! and *interleaved*, every second round of each. Both are done once more the other way round. The error
//! of a ratio is how far its logarithm is from that of the true one, and the gain is the root mean square
//! of the errors back to back ÷ that of the errors interleaved.
//!
//! Either ratio is that of the medians over the rounds of both cells. By how much the error is lower still where
//! interleaved rounds are compared by pairs, as those of blocks are ([`crate::pair`]), is told apart.

use schema::tables::Interval;

use crate::{interval, number::rounded, percentile};

/// A block of a trace: a turn after another, with the logarithms of the median step of both cells.
pub type Block = Vec<[f64; 2]>;

/// Sums of squared errors, of one way to measure and of another.
#[derive(Debug, Clone, Copy, Default)]
struct Errors {
    one: f64,
    other: f64,
}

/// The gain over stretches of so many turns, where `truth` is the logarithm of the true ratio (second ÷
/// first). Blocks are independent units, stretches of one are not: the interval is that of the jackknife
/// over blocks (J. W. Tukey, "Bias and confidence in not-quite large samples", Annals of Mathematical
/// Statistics 29, 1958) of the gain's logarithm. `None` with fewer than two blocks that hold a stretch, or
/// where either way makes no error at all.
#[must_use]
pub fn gain(trace: &[Block], turns: usize, truth: f64, confidence: f64) -> Option<Interval> {
    gain_of(trace, turns, truth, confidence, [back_to_back, interleaved])
}

/// By how much pairs of rounds lower the error of an interleaved ratio further, in the same way.
#[must_use]
pub fn gain_of_pairs(
    trace: &[Block],
    turns: usize,
    truth: f64,
    confidence: f64,
) -> Option<Interval> {
    gain_of(trace, turns, truth, confidence, [interleaved, in_pairs])
}

/// The two ratios of a stretch, in logarithms, in one order of the cells and in the other.
type Way = fn(&[[f64; 2]]) -> [f64; 2];

fn gain_of(
    trace: &[Block],
    turns: usize,
    truth: f64,
    confidence: f64,
    ways: [Way; 2],
) -> Option<Interval> {
    let blocks: Vec<Errors> = trace
        .iter()
        .filter(|block| turns >= 4 && block.len() >= turns)
        .map(|block| errors(block, turns, truth, ways))
        .collect();
    let all = log_gain(blocks.iter())?;
    let n = blocks.len();
    let left_out = (0..n).map(|out| {
        let others = blocks.iter().enumerate().filter(|(at, _)| *at != out);
        // What leaving one block out changes, as a value of that block's own.
        let without = log_gain(others.map(|(_, errors)| errors))?;
        Some(n as f64 * all - (n as f64 - 1.0) * without)
    });
    let values: Vec<f64> = left_out.collect::<Option<_>>()?;
    let around = interval::of_mean(&values, confidence).filter(|_| n >= 2)?;
    Some(Interval {
        centre: rounded(libm::exp(all)),
        ..around
    })
}

fn log_gain<'a>(blocks: impl Iterator<Item = &'a Errors>) -> Option<f64> {
    let sum = blocks.fold(Errors::default(), |sum, errors| Errors {
        one: sum.one + errors.one,
        other: sum.other + errors.other,
    });
    let gain = libm::log(sum.one / sum.other) / 2.0;
    gain.is_finite().then_some(gain)
}

fn errors(block: &[[f64; 2]], turns: usize, truth: f64, ways: [Way; 2]) -> Errors {
    let mut errors = Errors::default();
    for stretch in block.chunks_exact(turns) {
        let [one, other] = ways.map(|way| {
            let squares = way(stretch).map(|ratio| (ratio - truth) * (ratio - truth));
            squares.iter().sum::<f64>()
        });
        errors.one += one;
        errors.other += other;
    }
    errors
}

fn back_to_back(stretch: &[[f64; 2]]) -> [f64; 2] {
    let (early, late) = stretch.split_at(stretch.len() / 2);
    [of_medians(early, late), of_medians(late, early)]
}

fn interleaved(stretch: &[[f64; 2]]) -> [f64; 2] {
    let (even, odd) = every_second(stretch);
    [of_medians(&even, &odd), of_medians(&odd, &even)]
}

fn in_pairs(stretch: &[[f64; 2]]) -> [f64; 2] {
    let (even, odd) = every_second(stretch);
    [of_pairs(&even, &odd), of_pairs(&odd, &even)]
}

fn of_medians(of_first: &[[f64; 2]], of_second: &[[f64; 2]]) -> f64 {
    median(of_second, 1) - median(of_first, 0)
}

fn of_pairs(of_first: &[[f64; 2]], of_second: &[[f64; 2]]) -> f64 {
    let pairs = of_first.iter().zip(of_second);
    let ratios = pairs.map(|([first, _], [_, second])| second - first);
    percentile::middle(ratios).unwrap_or(f64::NAN)
}

fn every_second(stretch: &[[f64; 2]]) -> (Vec<[f64; 2]>, Vec<[f64; 2]>) {
    let of = |rest: usize| stretch.iter().skip(rest).step_by(2).copied().collect();
    (of(0), of(1))
}

/// The median over turns of one cell.
fn median(turns: &[[f64; 2]], cell: usize) -> f64 {
    let values = turns.iter().filter_map(|turn| turn.get(cell)).copied();
    percentile::middle(values).unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use rand::{RngExt as _, SeedableRng as _};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    /// Two cells of the same speed whose turns share a drift, each with noise of its own.
    fn trace(drift: impl Fn(usize) -> f64, noise: f64) -> Vec<Block> {
        let mut random = ChaCha8Rng::seed_from_u64(3);
        let mut turn = |at: usize| {
            let mut own = || noise * (random.random::<f64>() - 0.5);
            let shared = drift(at);
            [shared + own(), shared + own()]
        };
        (0..8).map(|_| (0..100).map(&mut turn).collect()).collect()
    }

    #[test]
    fn drift_is_what_interleaving_helps_against() {
        let drifting = gain(&trace(|at| at as f64 * 1e-3, 1e-3), 20, 0.0, 0.95).unwrap();
        assert!(drifting.low.unwrap() > 5.0, "{drifting:?}");
        assert_eq!(drifting.blocks, 8);
        let steady = gain(&trace(|_| 0.0, 0.1), 20, 0.0, 0.95).unwrap();
        assert!(
            steady.low.unwrap() < 1.0 && steady.high.unwrap() > 1.0,
            "{steady:?}"
        );
        assert!(steady.high.unwrap() < 2.0, "{steady:?}");
    }

    /// Two turns of a drift of 1 a turn: back to back the halves lie 2 apart, interleaved 1.
    #[test]
    fn the_gain_by_hand() {
        let block: Vec<[f64; 2]> = (0..4).map(|at| [f64::from(at); 2]).collect();
        let found = gain(&[block.clone(), block.clone(), block], 4, 0.0, 0.95).unwrap();
        assert!(
            (found.centre - 2.0).abs() < 1e-4 && found.low.unwrap() > 1.999,
            "{found:?}"
        );
        assert!(found.high.unwrap() < 2.001, "{found:?}");
    }

    /// A jackknife's values are lopsided where few blocks have most of the error, however many there are: the
    /// interval is one of their mean, and holds the gain.
    #[test]
    fn the_gain_of_many_blocks_lies_in_its_interval() {
        let mut random = ChaCha8Rng::seed_from_u64(5);
        let mut turn = |at: usize| {
            let shared = f64::from(u8::from(at % 331 > 300)) * 0.08;
            let mut own = || 1e-3 * (random.random::<f64>() - 0.5);
            [shared + own(), shared + own()]
        };
        let turns: Vec<[f64; 2]> = (0..800).map(&mut turn).collect();
        let blocks: Vec<Block> = turns.chunks(20).map(<[_]>::to_vec).collect();
        let found = gain(&blocks, 20, 0.0, 0.95).unwrap();
        assert!(
            found.low.unwrap() < found.centre && found.centre < found.high.unwrap(),
            "{found:?}"
        );
    }

    /// What jumps within stretches: half of the turns are slow, and a pair of neighbours is mostly so together.
    #[test]
    fn pairs_are_what_helps_against_jumps() {
        let jumping = trace(|at| f64::from(u8::from(at % 14 >= 7)) * 0.5, 1e-3);
        let [pairs, interleaving] =
            [gain_of_pairs, gain].map(|gain| gain(&jumping, 20, 0.0, 0.95).unwrap());
        assert!(pairs.low.unwrap() > 2.0, "{pairs:?}");
        assert!(interleaving.centre < pairs.centre, "{interleaving:?}");
        let steady = gain_of_pairs(&trace(|_| 0.0, 0.1), 20, 0.0, 0.95).unwrap();
        assert!(steady.centre < 2.0, "{steady:?}");
    }

    #[test]
    fn too_little_says_nothing() {
        let block = vec![[0.0, 0.0]; 10];
        assert_eq!(gain(&[block.clone(), block.clone()], 20, 0.0, 0.95), None);
        // No error at all on either way.
        assert_eq!(gain(&[block.clone(), block], 10, 0.0, 0.95), None);
        assert_eq!(gain(&trace(|_| 0.0, 0.1)[..1], 20, 0.0, 0.95), None);
    }
}
