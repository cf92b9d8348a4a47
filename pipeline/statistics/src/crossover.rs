//! From which size on another one is ahead.

use schema::tables::{Crossover, Verdict};

use crate::number::rounded;

/// Where the lead between two changes over sizes that ascend: at each, the ratio of their times as seen
/// (contender ÷ baseline) and the verdict about it. `None` where one of them is ahead at no size.
///
/// The lead changes between the last size at which one is beyond doubt ahead and the first at which the
/// other is: verdicts of a job hold together, and so this holds with them. In between the place is
/// estimated where the logarithm of the ratio as seen goes through 0, straight from size to size on a
/// logarithmic scale of sizes.
#[must_use]
pub fn crossover(sizes: &[(u64, f64, Verdict)]) -> Option<Crossover> {
    let known = sizes
        .iter()
        .enumerate()
        .filter_map(|(at, (_, _, verdict))| {
            let is_ahead = match verdict {
                Verdict::Faster => true,
                Verdict::Slower => false,
                Verdict::Same | Verdict::Unclear | Verdict::NotMeasured => return None,
            };
            Some((at, is_ahead))
        });
    let known: Vec<(usize, bool)> = known.collect();
    let mut changes = known.windows(2).filter_map(|two| match two {
        [(from, was), (to, is)] if was != is => Some((*from, *to, *was)),
        _ => None,
    });
    let (from, to, contender_first) = changes.next()?;
    if changes.next().is_some() {
        return Some(Crossover::Several);
    }
    let ((low, ..), (high, ..)) = (sizes.get(from)?, sizes.get(to)?);
    Some(Crossover::Between {
        low: *low,
        centre: rounded(zero(sizes.get(from..=to)?)?),
        high: *high,
        contender_first,
    })
}

/// Where the ratio is 1: the first place between two sizes where it passes from one side to the other.
fn zero(sizes: &[(u64, f64, Verdict)]) -> Option<f64> {
    let seen: Vec<[f64; 2]> = sizes
        .iter()
        .map(|(size, ratio, _)| [libm::log(*size as f64), libm::log(*ratio)])
        .filter(|point| point.iter().all(|number| number.is_finite()))
        .collect();
    seen.windows(2).find_map(|two| match two {
        [[size, ratio], [next_size, next_ratio]]
            if ratio * next_ratio <= 0.0 && ratio != next_ratio =>
        {
            let share = ratio / (ratio - next_ratio);
            Some(libm::exp(size + share * (next_size - size)))
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use Verdict::{Faster, NotMeasured, Same, Slower, Unclear};

    #[test]
    fn the_lead_changes_between_two_verdicts() {
        let sizes = [
            (1, 0.5, Faster),
            (2, 0.8, Faster),
            (4, 0.98, Unclear),
            (8, 1.25, Slower),
            (16, 2.0, Slower),
        ];
        let Some(Crossover::Between {
            low,
            centre,
            high,
            contender_first,
        }) = crossover(&sizes)
        else {
            panic!("the lead changes once")
        };
        assert_eq!((low, high, contender_first), (2, 8, true));
        // From ln 4 on, ln 2 · 0.0202 ÷ (0.0202 + 0.2231).
        assert!((centre - 4.237).abs() < 0.001, "{centre}");
    }

    #[test]
    fn the_other_way_round_it_is_the_same_place() {
        let there = [(1, 0.5, Faster), (2, 1.0, Same), (4, 2.0, Slower)];
        let back = there.map(|(size, ratio, verdict)| {
            let verdict = match verdict {
                Faster => Slower,
                Slower => Faster,
                other => other,
            };
            (size, 1.0 / ratio, verdict)
        });
        let of = |contender_first| Crossover::Between {
            low: 1,
            centre: 2.0,
            high: 4,
            contender_first,
        };
        assert_eq!(crossover(&there), Some(of(true)));
        assert_eq!(crossover(&back), Some(of(false)));
    }

    #[test]
    fn without_two_leaders_there_is_none() {
        assert_eq!(crossover(&[]), None);
        assert_eq!(crossover(&[(1, 0.5, Faster), (2, 0.5, Faster)]), None);
        assert_eq!(crossover(&[(1, 0.5, Faster), (2, 1.5, Unclear)]), None);
        let gone = [
            (1, 0.5, Faster),
            (2, f64::NAN, NotMeasured),
            (4, 1.5, Slower),
        ];
        assert!(matches!(
            crossover(&gone),
            Some(Crossover::Between {
                low: 1,
                high: 4,
                ..
            })
        ));
    }

    #[test]
    fn a_lead_that_comes_and_goes_is_told_as_such() {
        let sizes = [(1, 0.5, Faster), (2, 1.5, Slower), (4, 0.5, Faster)];
        assert_eq!(crossover(&sizes), Some(Crossover::Several));
    }
}
