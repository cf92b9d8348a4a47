//! Two cells in the blocks that measured both.

use std::collections::BTreeMap;

use schema::Boundary;

use crate::interval;

/// Differences between two cells.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Shared {
    /// ln(contender ÷ baseline), a value per block, in the order of blocks.
    pub logs: Vec<f64>,
    /// What the clock's resolution may have done to any of them.
    pub resolution: f64,
}

/// Compares block by block: step times in nanoseconds by the number of their block, both timed at this
/// boundary.
#[must_use]
pub fn shared(
    baseline: &BTreeMap<u32, f64>,
    contender: &BTreeMap<u32, f64>,
    boundary: Boundary,
) -> Shared {
    let mut shared = Shared::default();
    for (block, &reference) in baseline {
        if let Some(&time) = contender.get(block) {
            shared.logs.push(libm::log(time / reference));
            let blurred = [reference, time].map(|time| interval::resolution(time, boundary));
            shared.resolution = shared.resolution.max(blurred.iter().sum());
        }
    }
    shared
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_shared_blocks_are_compared() {
        let shared = shared(
            &BTreeMap::from([(0, 100.0), (1, 200.0), (5, 400.0)]),
            &BTreeMap::from([(1, 200.0), (2, 1.0), (5, 100.0)]),
            Boundary::Step,
        );
        assert_eq!(shared.logs, [0.0, -4_f64.ln()]);
        assert_eq!(shared.resolution, 1.0 / 400.0 + 1.0 / 100.0);
    }
}
