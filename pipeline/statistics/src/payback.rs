//! After how many steps a faster engine has earned back what it takes longer to get ready.

use schema::tables::{Payback, Verdict};

use crate::interval;

/// What a cell takes in a block, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// What getting ready takes, without what is the harness's. After n steps it has taken this, and n times
    /// a step.
    pub ready: f64,
    /// A step.
    pub step: f64,
}

/// The payback of a contender that this verdict speaks of, from the costs of baseline and contender in
/// the blocks that measured both, at this confidence. `None` where the verdict leaves open which of
/// them is faster, and where there is no block; unclear where a single one disagrees about that, or about
/// which is ready first.
///
/// With readiness R and step time s, contender c and baseline b are even after
/// n = (R_c − R_b) ÷ (s_b − s_c) steps; each block gives one n, and its interval is that of their
/// logarithms.
#[must_use]
pub fn payback(verdict: Verdict, blocks: &[[Cost; 2]], confidence: f64) -> Option<Payback> {
    let later = |[baseline, contender]: &[Cost; 2]| contender.ready - baseline.ready;
    let gained = |[baseline, contender]: &[Cost; 2]| baseline.step - contender.step;
    let is_faster = match verdict {
        Verdict::Faster => true,
        Verdict::Slower => false,
        Verdict::Same | Verdict::Unclear | Verdict::NotMeasured => return None,
    };
    if blocks.is_empty() {
        return None;
    }
    let all = |holds: &dyn Fn(&[Cost; 2]) -> bool| blocks.iter().all(holds);
    if !all(&|block| (gained(block) > 0.0) == is_faster && gained(block) != 0.0) {
        return Some(Payback::Unclear);
    }
    if all(&|block| (later(block) < 0.0) == is_faster && later(block) != 0.0) {
        return Some(match is_faster {
            true => Payback::AtOnce,
            false => Payback::Never,
        });
    }
    if !all(&|block| (later(block) > 0.0) == is_faster && later(block) != 0.0) {
        return Some(Payback::Unclear);
    }
    let logs: Vec<f64> = blocks
        .iter()
        .map(|block| libm::log(later(block) / gained(block)))
        .collect();
    let steps = interval::of_logs(&logs, confidence, 0.0)?;
    Some(if is_faster {
        Payback::After(steps)
    } else {
        Payback::Until(steps)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(ready: f64, step: f64) -> Cost {
        Cost { ready, step }
    }

    fn of(verdict: Verdict, baseline: Cost, contender: Cost) -> Option<Payback> {
        payback(verdict, &[[baseline, contender]; 6], 0.95)
    }

    #[test]
    fn what_is_ready_later_must_be_faster_to_pay() {
        let baseline = cost(1000.0, 10.0);
        assert_eq!(
            of(Verdict::Faster, baseline, cost(900.0, 5.0)),
            Some(Payback::AtOnce)
        );
        assert_eq!(
            of(Verdict::Slower, baseline, cost(2000.0, 20.0)),
            Some(Payback::Never)
        );
        // 500 more, 5 less each step.
        let Some(Payback::After(steps)) = of(Verdict::Faster, baseline, cost(1500.0, 5.0)) else {
            panic!("it pays after some steps")
        };
        assert_eq!((steps.centre, steps.blocks), (100.0, 6));
        let Some(Payback::Until(steps)) = of(Verdict::Slower, baseline, cost(400.0, 12.0)) else {
            panic!("it is ahead for some steps")
        };
        assert_eq!(steps.centre, 300.0);
    }

    #[test]
    fn it_is_unclear_where_blocks_disagree() {
        let unclear = Some(Payback::Unclear);
        let baseline = cost(1000.0, 10.0);
        assert_eq!(of(Verdict::Unclear, baseline, cost(1500.0, 5.0)), None);
        assert_eq!(payback(Verdict::Faster, &[], 0.95), None);
        let blocks = [[baseline, cost(900.0, 5.0)], [baseline, cost(1100.0, 5.0)]];
        assert_eq!(payback(Verdict::Faster, &blocks, 0.95), unclear);
        // However many agree.
        for odd in [cost(900.0, 5.0), cost(1500.0, 12.0), cost(900.0, 12.0)] {
            let mut blocks = [[baseline, cost(1500.0, 5.0)]; 24];
            blocks[7][1] = odd;
            assert_eq!(payback(Verdict::Faster, &blocks, 0.95), unclear);
        }
        assert_eq!(of(Verdict::Faster, baseline, cost(1000.0, 5.0)), unclear);
    }
}
