//! Whether more blocks would tell more of a pair.

use schema::{
    printed::Bounds,
    tables::{Interval, Verdict},
};

use crate::verdict;

/// What is known of a ratio at a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// Its verdict is one.
    Settled,
    /// It has none, but its interval is as narrow as was asked for: the truth is near a limit.
    Narrow,
    /// Neither: more blocks may tell.
    Open,
}

/// What an interval of a ratio says, held against these bounds, where one of this relative half-width
/// is asked for.
#[must_use]
pub fn known(ratio: &Interval, bounds: Bounds, target: f64) -> Known {
    if verdict::judge(ratio, bounds).0 != Verdict::Unclear {
        Known::Settled
    } else if is_narrow(ratio, target) {
        Known::Narrow
    } else {
        Known::Open
    }
}

/// Whether both ends of an interval are within this share of its centre.
#[must_use]
pub fn is_narrow(interval: &Interval, target: f64) -> bool {
    let centre = interval.centre;
    interval
        .low
        .zip(interval.high)
        .is_some_and(|(low, high)| (high / centre).max(centre / low) - 1.0 <= target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_settled_or_narrow_or_open() {
        let said = |low: f64, high: f64| {
            let ratio = Interval {
                low: Some(low),
                centre: (low * high).sqrt(),
                high: Some(high),
                blocks: 6,
                confidence: 0.95,
            };
            let bounds = Bounds {
                margin: 0.02,
                floor: Some(0.0),
            };
            known(&ratio, bounds, 0.01)
        };
        assert_eq!(said(1.10, 1.30), Known::Settled);
        assert_eq!(said(0.99, 1.01), Known::Settled);
        assert_eq!(said(1.015, 1.03), Known::Narrow);
        assert_eq!(said(1.015, 1.04), Known::Open);
        let endless = Interval {
            low: None,
            centre: 1.0,
            high: Some(1.0),
            blocks: 6,
            confidence: 0.95,
        };
        assert!(!is_narrow(&endless, 1.0));
    }
}
