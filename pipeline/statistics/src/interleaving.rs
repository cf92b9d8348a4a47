//! By how much interleaving lowers the error of a ratio, from a trace of two cells whose rounds took turns
//! throughout.
//!
//! A stretch of the trace is measured in two ways, each with as many rounds of both cells and in the same
//! time: *back to back*, all rounds of the one from the first half and all of the other from the second,
//! told by the medians of both, and *interleaved*, every second round of each, told by the median of what the
//! rounds next to each other differ by, as of a block ([`crate::pair`]). Both are done once more the other way
//! round. The error
//! of a ratio is how far its logarithm is from that of the true one, and the gain is the root mean square
//! of the errors back to back ÷ that of the errors interleaved.

use schema::tables::Interval;

use crate::{interval, number::rounded, percentile};

/// A block of a trace: a turn after another, with the logarithms of the median step of both cells.
pub type Block = Vec<[f64; 2]>;

/// Sums of squared errors.
#[derive(Debug, Clone, Copy, Default)]
struct Errors {
    back_to_back: f64,
    interleaved: f64,
}

/// The gain over stretches of so many turns, where `truth` is the logarithm of the true ratio (second ÷
/// first). Blocks are independent units, stretches of one are not: the interval is that of the jackknife
/// over blocks (J. W. Tukey, "Bias and confidence in not-quite large samples", Annals of Mathematical
/// Statistics 29, 1958) of the gain's logarithm. `None` with fewer than two blocks that hold a stretch, or
/// where either way makes no error at all.
#[must_use]
pub fn gain(trace: &[Block], turns: usize, truth: f64, confidence: f64) -> Option<Interval> {
    let blocks: Vec<Errors> = trace
        .iter()
        .filter(|block| turns >= 4 && block.len() >= turns)
        .map(|block| errors(block, turns, truth))
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
        back_to_back: sum.back_to_back + errors.back_to_back,
        interleaved: sum.interleaved + errors.interleaved,
    });
    let gain = libm::log(sum.back_to_back / sum.interleaved) / 2.0;
    gain.is_finite().then_some(gain)
}

fn errors(block: &[[f64; 2]], turns: usize, truth: f64) -> Errors {
    let mut errors = Errors::default();
    for stretch in block.chunks_exact(turns) {
        let (early, late) = stretch.split_at(turns / 2);
        let (even, odd) = every_second(stretch);
        let square = |ratio: f64| (ratio - truth) * (ratio - truth);
        for (first, second) in [(early, late), (late, early)] {
            let [first, second] = [of_cell(first, 0), of_cell(second, 1)].map(middle);
            errors.back_to_back += square(second - first);
        }
        for (first, second) in [(&even, &odd), (&odd, &even)] {
            let pairs = of_cell(first, 0).zip(of_cell(second, 1));
            errors.interleaved += square(middle(pairs.map(|(first, second)| second - first)));
        }
    }
    errors
}

fn every_second(stretch: &[[f64; 2]]) -> (Vec<[f64; 2]>, Vec<[f64; 2]>) {
    let of = |rest: usize| stretch.iter().skip(rest).step_by(2).copied().collect();
    (of(0), of(1))
}

fn of_cell(turns: &[[f64; 2]], cell: usize) -> impl Iterator<Item = f64> {
    turns.iter().filter_map(move |turn| turn.get(cell)).copied()
}

fn middle(values: impl Iterator<Item = f64>) -> f64 {
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
            // Nearly normal: of flat noise the median of differences knows more than the difference of medians.
            let mut own =
                || noise * (0..4).map(|_| random.random::<f64>() - 0.5).sum::<f64>() / 2.0;
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

    #[test]
    fn too_little_says_nothing() {
        let block = vec![[0.0, 0.0]; 10];
        assert_eq!(gain(&[block.clone(), block.clone()], 20, 0.0, 0.95), None);
        // No error at all on either way.
        assert_eq!(gain(&[block.clone(), block], 10, 0.0, 0.95), None);
        assert_eq!(gain(&trace(|_| 0.0, 0.1)[..1], 20, 0.0, 0.95), None);
    }
}
