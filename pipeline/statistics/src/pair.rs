//! Two cells in the blocks that measured both.

use std::collections::BTreeMap;

use schema::Boundary;

use crate::{interval, percentile, samples::Steps};

/// Fewest interleaved rounds of a block whose ratios are told one by one: the median of two is their mean, which
/// one disturbed round moves.
pub const PAIRED_ROUNDS: usize = 3;

/// Differences between two cells.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Shared {
    /// ln(contender ÷ baseline), a value per block, in the order of blocks.
    pub logs: Vec<f64>,
    /// What the clock's resolution may have done to any of them.
    pub resolution: f64,
}

/// Compares block by block: steps by the number of their block, both timed at this boundary.
#[must_use]
pub fn shared(
    baseline: &BTreeMap<u32, Steps>,
    contender: &BTreeMap<u32, Steps>,
    boundary: Boundary,
) -> Shared {
    let mut shared = Shared::default();
    for (block, reference) in baseline {
        if let Some(steps) = contender.get(block) {
            shared.logs.push(log_ratio(reference, steps));
            let blurred = [reference, steps].map(|steps| {
                let shortest = steps
                    .rounds_ns
                    .iter()
                    .copied()
                    .fold(steps.step_ns, f64::min);
                interval::resolution(shortest, boundary)
            });
            shared.resolution = shared.resolution.max(blurred.iter().sum());
        }
    }
    shared
}

/// ln(contender ÷ baseline) in a block. Where rounds were interleaved, the median over the passes of what the rounds of
/// both in a pass differ by: a machine that changes its speed within a block does so for both of most such pairs
/// alike, whereas of the medians of two cells one may lie in its fast time and the other in its slow one. Elsewhere
/// the difference of the two medians.
fn log_ratio(baseline: &Steps, contender: &Steps) -> f64 {
    let rounds = baseline.rounds_ns.len();
    let paired = (rounds >= PAIRED_ROUNDS && rounds == contender.rounds_ns.len()).then(|| {
        let pairs = baseline.rounds_ns.iter().zip(&contender.rounds_ns);
        percentile::middle(pairs.map(|(reference, time)| libm::log(time / reference)))
    });
    paired
        .flatten()
        .unwrap_or_else(|| libm::log(contender.step_ns / baseline.step_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks<const N: usize>(steps: [(u32, f64); N]) -> BTreeMap<u32, Steps> {
        steps.map(|(block, step)| (block, step.into())).into()
    }

    #[test]
    fn only_shared_blocks_are_compared() {
        let shared = shared(
            &blocks([(0, 100.0), (1, 200.0), (5, 400.0)]),
            &blocks([(1, 200.0), (2, 1.0), (5, 100.0)]),
            Boundary::Step,
        );
        assert_eq!(shared.logs, [0.0, -4_f64.ln()]);
        assert_eq!(shared.resolution, 1.0 / 400.0 + 1.0 / 100.0);
    }

    /// Slow for a third of the time: most rounds of both are fast or slow together, and the medians are not.
    #[test]
    fn rounds_of_a_pass_are_compared() {
        let steps = |step_ns, rounds_ns: &[f64]| Steps {
            step_ns,
            rounds_ns: rounds_ns.to_vec(),
        };
        let baseline = steps(100.0, &[100.0, 150.0, 100.0, 100.0]);
        let contender = steps(157.5, &[105.0, 157.5, 157.5, 105.0]);
        let ratio = |baseline: &Steps, contender: &Steps| log_ratio(baseline, contender).exp();
        assert!((ratio(&baseline, &contender) - 1.05).abs() < 1e-12);
        assert!((ratio(&contender, &baseline) * 1.05 - 1.0).abs() < 1e-12);
        // Without as many rounds of both, or with few, there are medians alone.
        for (rounds, others) in [
            (&[][..], &[][..]),
            (&[1.0; 3], &[1.0; 4]),
            (&[1.0; 2], &[1.0; 2]),
        ] {
            let found = ratio(&steps(100.0, rounds), &steps(157.5, others));
            assert!((found - 1.575).abs() < 1e-12, "{found}");
        }
    }
}
