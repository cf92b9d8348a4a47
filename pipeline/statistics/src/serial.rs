//! Whether blocks are independent, which every interval takes them to be: whether what a comparison says in one
//! block resembles what it said in the block before.

use schema::{plan::VERDICT_BLOCKS, tables::Resemblance};

use crate::{interval, number::rounded, pair::Shared};

/// How many standard deviations above what is expected a correlation is no chance any more.
pub const NO_CHANCE: f64 = 3.0;

/// Correlation of the differences of pairs, block by block in their order, with those a block later: the mean over
/// pairs of [`VERDICT_BLOCKS`] and more, each weighed by how much it knows. `None` without such a pair.
///
/// Of n independent normal values around their own mean it is −1/n on average, with a variance of
/// (n − 2)² ÷ (n² (n − 1)) (P. A. P. Moran, "Some theorems on time series II", Biometrika 35, 1948). The deviation is
/// that of pairs that are independent of each other; those of one heat that share a baseline are not quite.
#[must_use]
pub fn resemblance<'a>(pairs: impl IntoIterator<Item = &'a Shared>) -> Option<Resemblance> {
    let (mut weights, mut found, mut expected, mut count) = (0.0, 0.0, 0.0, 0_u32);
    for pair in pairs {
        let n = pair.logs.len() as f64;
        let Some(correlation) = following(pair) else {
            continue;
        };
        let weight = n * n * (n - 1.0) / ((n - 2.0) * (n - 2.0));
        weights += weight;
        found += weight * correlation;
        expected -= weight / n;
        count += 1;
    }
    (count > 0).then(|| Resemblance {
        correlation: rounded(found / weights),
        expected: rounded(expected / weights),
        deviation: rounded(weights.sqrt().recip()),
        pairs: count,
    })
}

/// Whether blocks resemble those before them by more than chance has them.
#[must_use]
pub fn is_no_chance(found: &Resemblance) -> bool {
    found.correlation > found.expected + NO_CHANCE * found.deviation
}

/// Of too few values there is none, nor of such that agree as far as a clock, or a number, tells them apart.
fn following(Shared { logs, resolution }: &Shared) -> Option<f64> {
    let least = resolution.max(1e-12);
    if logs.len() < VERDICT_BLOCKS as usize || interval::standard_deviation(logs) <= least {
        return None;
    }
    let mean = interval::mean(&interval::in_order(logs))?;
    let off: Vec<f64> = logs.iter().map(|log| log - mean).collect();
    let squares: f64 = off.iter().map(|off| off * off).sum();
    let products: f64 = off.iter().zip(off.iter().skip(1)).map(|(a, b)| a * b).sum();
    Some(products / squares).filter(|correlation| correlation.is_finite())
}

#[cfg(test)]
mod tests {
    use rand::{RngExt as _, SeedableRng as _};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    /// Pairs of so many blocks, of which each keeps so much of the one before it.
    fn pairs(count: usize, blocks: usize, kept: f64) -> Vec<Vec<f64>> {
        let mut random = ChaCha8Rng::seed_from_u64(7);
        let mut normal = move || (0..12).map(|_| random.random::<f64>() - 0.5).sum::<f64>();
        let mut pair = || {
            let mut last = normal();
            let next = |_| {
                last = kept * last + (1.0 - kept * kept).sqrt() * normal();
                last
            };
            (0..blocks).map(next).collect()
        };
        (0..count).map(|_| pair()).collect()
    }

    fn of(pairs: &[Vec<f64>]) -> Option<Resemblance> {
        let shared = |logs: &Vec<f64>| Shared {
            logs: logs.clone(),
            resolution: 1e-3,
        };
        resemblance(&pairs.iter().map(shared).collect::<Vec<_>>())
    }

    #[test]
    fn by_hand() {
        // Off their mean by −1, 1, −1, 1, −1, 1: five products of −1, six squares of 1.
        let found = of(&[vec![0.0, 2.0, 0.0, 2.0, 0.0, 2.0]]).unwrap();
        assert_eq!((found.correlation, found.pairs), (-0.833_333, 1));
        // √(16 ÷ (36 · 5)).
        assert_eq!((found.expected, found.deviation), (-0.166_667, 0.298_142));
    }

    #[test]
    fn independent_blocks_have_what_is_expected_of_them() {
        for blocks in [6, 12, 48] {
            let found = of(&pairs(2000, blocks, 0.0)).unwrap();
            let off = (found.correlation - found.expected) / found.deviation;
            assert!(off.abs() < 3.0 && !is_no_chance(&found), "{found:?}");
        }
        // Where the deviation is right, some 5 in 100 small families are beyond two of it.
        let all = pairs(2000, 6, 0.0);
        let is_beyond = |family: &&[Vec<f64>]| {
            let found = of(family).unwrap();
            (found.correlation - found.expected).abs() > 2.0 * found.deviation
        };
        let beyond = all.chunks(10).filter(is_beyond).count();
        assert!((2..=20).contains(&beyond), "{beyond} of 200");
    }

    #[test]
    fn moods_that_last_are_seen() {
        let found = of(&pairs(40, 6, 0.7)).unwrap();
        assert!(is_no_chance(&found), "{found:?}");
    }

    #[test]
    fn what_says_nothing_is_left_out() {
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[vec![0.1; 6], vec![0.0, 1.0, 0.0, 1.0, 0.0]]), None);
        assert_eq!(of(&[vec![f64::NAN; 6]]), None);
        let agreeing: Vec<f64> = (0..6).map(|block| 1e-4 * f64::from(block)).collect();
        assert_eq!(of(&[agreeing]), None);
    }
}
