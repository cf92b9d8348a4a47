//! What experiments on photofinish itself found, as they lie in `jobs/experiments`.

use std::collections::BTreeSet;

use schema::tables::Verdict;
use serde::Serialize;
use statistics::{
    coverage::{self, GAINED},
    trace::Trace,
    trials::{self, Share, Trial},
};

use crate::{
    embed,
    interval::{self, Estimate},
    units,
};

/// Those that were made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Experiments {
    known: Vec<Known>,
    repeated: Option<Repeated>,
    gains: Vec<Gains>,
    gained: Vec<Gained>,
}

/// How often the interval of a gain held it in simulations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Gained {
    machine: &'static str,
    gain: String,
    held: String,
}

/// Trials whose truth is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Known {
    what: &'static str,
    trials: String,
    right: Part,
    wrong: Part,
    open: Part,
    absent: Part,
    astray: Part,
    places: String,
}

/// A part of trials.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Part {
    /// How many they are, of how many where that is not all.
    count: String,
    /// The interval of the share that they speak for.
    range: String,
}

/// The quickstart, again and again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Repeated {
    runs: String,
    comparisons: String,
    turned: String,
    open: Part,
    places: String,
}

/// What interleaving gains by one trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Gains {
    of: &'static str,
    place: String,
    rows: Vec<GainRow>,
}

/// By two cells of it, over stretches of one length.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct GainRow {
    of: String,
    turns: usize,
    gain: Option<Estimate>,
}

impl Experiments {
    /// # Errors
    /// Names what experiment left a file that is none of its.
    pub(crate) fn read() -> Result<Self, String> {
        let named = |name: &'static str| move |error: String| format!("{name}.csv: {error}");
        let tried = |name: &'static str| match embed::experiment(name) {
            Some(text) => trials::read(text).map_err(named(name)),
            None => Ok(Vec::new()),
        };
        let known = [
            Known::of(
                "A worker against itself",
                &tried("aa")?,
                1.0,
                &[Verdict::Same],
                &[Verdict::Faster, Verdict::Slower],
            ),
            Known::of(
                "A worker against one whose steps take 5 % longer",
                &tried("planted")?,
                1.05,
                &[Verdict::Slower],
                &[Verdict::Faster, Verdict::Same],
            ),
        ];
        let traces = [
            ("drift-mobilenet", "MobileNetV2, inference"),
            ("drift-training", "ResNet-18, training"),
            ("drift-bert", "BERT-tiny, inference"),
        ];
        let gains = traces.into_iter().filter_map(|(name, of)| {
            let trace = Trace::parse(embed::experiment(name)?);
            Some(trace.map(|trace| Gains::of(of, trace)).map_err(named(name)))
        });
        Ok(Self {
            known: known.into_iter().flatten().collect(),
            repeated: Repeated::of(&tried("quickstart")?),
            gains: gains.collect::<Result<_, _>>()?,
            gained: GAINED.iter().map(Gained::from).collect(),
        })
    }
}

impl From<&coverage::Gained> for Gained {
    fn from(row: &coverage::Gained) -> Self {
        Self {
            machine: row.machine,
            gain: format!("{}×", units::fixed(row.gain, 1)),
            held: format!("{} %", units::fixed(row.held, 1)),
        }
    }
}

impl Known {
    /// `None` without a trial.
    fn of(
        what: &'static str,
        tried: &[Trial],
        truth: f64,
        right: &[Verdict],
        wrong: &[Verdict],
    ) -> Option<Self> {
        let said = |verdicts| Part::of(trials::said(tried, verdicts), tried.len());
        (!tried.is_empty()).then(|| Self {
            what,
            trials: units::count(tried.len() as u64),
            right: said(right),
            wrong: said(wrong),
            open: said(&[Verdict::Unclear]),
            absent: said(&[Verdict::NotMeasured]),
            astray: Part::of(trials::astray(tried, truth), tried.len()),
            places: places(tried),
        })
    }
}

impl Repeated {
    fn of(tried: &[Trial]) -> Option<Self> {
        let runs: BTreeSet<u32> = tried.iter().map(|it| it.trial).collect();
        let comparisons = trials::comparisons(tried);
        let turned = comparisons.values().filter(|turned| **turned).count();
        (!tried.is_empty()).then(|| Self {
            runs: units::count(runs.len() as u64),
            comparisons: units::count(comparisons.len() as u64),
            turned: units::count(turned as u64),
            open: Part::of(trials::said(tried, &[Verdict::Unclear]), 0),
            places: places(tried),
        })
    }
}

impl Part {
    fn of(share: Share, all: usize) -> Self {
        let Share {
            count,
            of,
            low,
            high,
        } = share;
        let number = |count: usize| units::count(count as u64);
        Self {
            count: if of == all {
                number(count)
            } else {
                format!("{} of {}", number(count), number(of))
            },
            range: format!(
                "{} to {}",
                units::fixed(100.0 * low, 1),
                units::percent(high)
            ),
        }
    }
}

impl Gains {
    fn of(of: &'static str, trace: Trace) -> Self {
        let rows = trace.gains().into_iter().map(|it| GainRow {
            of: it.of,
            turns: it.turns,
            gain: it.gain.map(|gain| interval::ratio(&gain, &[1.0])),
        });
        Self {
            of,
            rows: rows.collect(),
            place: trace.place,
        }
    }
}

/// The machines that trials ran on, each with how many rows are its own.
fn places(tried: &[Trial]) -> String {
    let machines: BTreeSet<&str> = tried.iter().map(|it| it.machine.as_str()).collect();
    let told = machines.into_iter().map(|machine| {
        let its = tried.iter().filter(|it| it.machine == machine);
        let revisions: BTreeSet<&str> = its.clone().map(|it| it.revision.as_str()).collect();
        let revisions: Vec<&str> = revisions.into_iter().collect();
        format!(
            "{machine} ({}, revision {})",
            units::count(its.count() as u64),
            revisions.join(", ")
        )
    });
    told.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What lies in `jobs/experiments` can be told.
    #[test]
    fn what_was_found_can_be_read() {
        let found = Experiments::read().unwrap();
        assert!(found.known.iter().all(|it| it.trials != "0"));
        assert!(found.gains.iter().all(|trace| !trace.rows.is_empty()));
    }
}
