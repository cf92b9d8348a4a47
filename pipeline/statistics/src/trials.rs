//! Trials: comparisons made again and again, as `cargo xtask experiment` writes them down, and how often
//! what was said of them is wrong where the truth is known.

use std::collections::{BTreeMap, BTreeSet};

use schema::tables::Verdict;
use serde::{Deserialize, Serialize};
use statrs::distribution::{Beta, ContinuousCDF as _};

/// What a trial said of one comparison: a line of results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Number of the trial, from 1; each of its comparisons has a line.
    pub trial: u32,
    /// The processor that it ran on.
    pub machine: String,
    /// The revision that measured.
    pub revision: String,
    /// What both sides have in common, in words.
    pub setting: String,
    /// The side that was held against the baseline.
    pub contender: String,
    /// What was said.
    pub verdict: Verdict,
    /// Contender ÷ baseline; absent where it was not measured, as its ends are.
    pub ratio: Option<f64>,
    /// Lower end of its interval.
    pub ratio_low: Option<f64>,
    /// Upper end of its interval.
    pub ratio_high: Option<f64>,
    /// Blocks that it rests on.
    pub blocks: Option<u32>,
    /// Why that was said.
    pub reason: String,
}

/// Confidence of the interval of a share, by itself.
const CONFIDENCE: f64 = 0.95;

/// So many of all, and the share of all possible ones that this speaks for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// How many.
    pub count: usize,
    /// Of how many.
    pub of: usize,
    /// Lower end of the share's interval, from 0 to 1.
    pub low: f64,
    /// Upper end of it.
    pub high: f64,
}

/// How many were said to be one of these.
#[must_use]
pub fn said(trials: &[Trial], verdicts: &[Verdict]) -> Share {
    let hits = trials
        .iter()
        .filter(|trial| verdicts.contains(&trial.verdict));
    Share::new(hits.count(), trials.len())
}

/// How many intervals leave out the true ratio, of those that there are.
#[must_use]
pub fn astray(trials: &[Trial], truth: f64) -> Share {
    let held = |trial: &Trial| Some(trial.ratio_low? <= truth && truth <= trial.ratio_high?);
    let held: Vec<bool> = trials.iter().filter_map(held).collect();
    Share::new(held.iter().filter(|held| !**held).count(), held.len())
}

/// The comparisons that trials are of, in words, and of each whether it was once called faster and once
/// slower.
#[must_use]
pub fn comparisons(trials: &[Trial]) -> BTreeMap<String, bool> {
    let mut verdicts: BTreeMap<String, BTreeSet<Verdict>> = BTreeMap::new();
    for trial in trials {
        let what = format!("{}: {}", trial.setting, trial.contender);
        verdicts.entry(what).or_default().insert(trial.verdict);
    }
    let turned = |said: &BTreeSet<Verdict>| {
        said.contains(&Verdict::Faster) && said.contains(&Verdict::Slower)
    };
    let comparisons = verdicts.into_iter();
    comparisons
        .map(|(what, said)| (what, turned(&said)))
        .collect()
}

impl Share {
    /// The exact interval: what a binomial's parameter may be for so many, or so few, to come with at least
    /// half of the error's probability (C. J. Clopper and E. S. Pearson, "The use of confidence or fiducial
    /// limits illustrated in the case of the binomial", Biometrika 26, 1934).
    #[must_use]
    pub fn new(count: usize, of: usize) -> Self {
        let tail = (1.0 - CONFIDENCE) / 2.0;
        let rest = of.saturating_sub(count) as f64;
        let end = |hits: f64, misses: f64, below: f64, otherwise: f64| {
            let law = Beta::new(hits, misses).ok();
            law.map_or(otherwise, |law| law.inverse_cdf(below))
        };
        let hits = count as f64;
        Self {
            count,
            of,
            // A beta distribution has no parameter of 0: there the end is that of all shares.
            low: end(hits, rest + 1.0, tail, 0.0),
            high: end(hits + 1.0, rest, 1.0 - tail, 1.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{read, write};

    fn trial(number: u32, verdict: Verdict, ends: Option<(f64, f64)>) -> Trial {
        Trial {
            trial: number,
            machine: "A machine, of two cores".to_owned(),
            revision: "abc".to_owned(),
            setting: "batch 1, model bert_tiny".to_owned(),
            contender: "two/works".to_owned(),
            verdict,
            ratio: ends.map(|_| 1.0),
            ratio_low: ends.map(|ends| ends.0),
            ratio_high: ends.map(|ends| ends.1),
            blocks: ends.map(|_| 6),
            reason: "interval [0.99, 1.01], and so on".to_owned(),
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let trials = [
            trial(1, Verdict::Same, Some((0.99, 1.01))),
            trial(2, Verdict::NotMeasured, None),
        ];
        let text = write(&trials).unwrap();
        assert_eq!(
            text.lines().next(),
            Some(
                "trial,machine,revision,setting,contender,verdict,ratio,ratio_low,ratio_high,blocks,reason"
            )
        );
        assert_eq!(read::<Trial>(&text).unwrap(), trials);
        assert_eq!(write::<Trial>(&[]).unwrap(), "");
        assert_eq!(read::<Trial>("").unwrap(), []);
        let error = read::<Trial>(&format!("{text}3,one\n")).unwrap_err();
        assert!(error.contains("line: 4"), "{error}");
    }

    #[test]
    fn trials_are_counted() {
        let trials = [
            trial(1, Verdict::Same, Some((0.99, 1.01))),
            trial(2, Verdict::Slower, Some((1.02, 1.04))),
            trial(3, Verdict::NotMeasured, None),
        ];
        let told = |verdicts| {
            let share = said(&trials, verdicts);
            (share.count, share.of)
        };
        assert_eq!(told(&[Verdict::Slower]), (1, 3));
        assert_eq!(told(&[Verdict::Faster, Verdict::Same]), (1, 3));
        assert_eq!(told(&[]), (0, 3));
        let share = astray(&trials, 1.0);
        assert_eq!((share.count, share.of), (1, 2));
        assert_eq!(astray(&trials, 1.03).count, 1);
        assert_eq!(astray(&trials, 0.5).count, 2);
    }

    #[test]
    fn a_comparison_turns_where_it_was_called_both() {
        let mut trials = vec![
            trial(1, Verdict::Slower, None),
            trial(2, Verdict::Unclear, None),
        ];
        let what = "batch 1, model bert_tiny: two/works".to_owned();
        assert_eq!(comparisons(&trials), [(what.clone(), false)].into());
        trials.push(trial(3, Verdict::Faster, None));
        assert_eq!(comparisons(&trials), [(what, true)].into());
    }

    /// Of 0 in n, the upper end is 1 − (α/2)^(1/n); of 10 in 100, that of published tables.
    #[test]
    fn a_share_has_its_exact_interval() {
        let none = Share::new(0, 28);
        assert_eq!(none.low, 0.0);
        assert!((none.high - (1.0 - 0.025_f64.powf(1.0 / 28.0))).abs() < 1e-9);
        let all = Share::new(28, 28);
        assert!((all.low - (1.0 - none.high)).abs() < 1e-9);
        assert_eq!(all.high, 1.0);
        let some = Share::new(10, 100);
        assert!((some.low - 0.0490).abs() < 1e-4 && (some.high - 0.1762).abs() < 1e-4);
        let nothing = Share::new(0, 0);
        assert_eq!((nothing.low, nothing.high), (0.0, 1.0));
    }
}
