//! What experiments on photofinish itself found, as they lie in `jobs/experiments`.

use std::{collections::BTreeSet, time::Duration};

use schema::tables::Verdict;
use serde::Serialize;
use statistics::{
    coverage::{self, GAINED},
    lengths::{Length, Sum},
    results,
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
    lengths: Option<Lengths>,
}

/// How often the interval of a gain held it in simulations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Gained {
    machine: &'static str,
    gain: String,
    held: String,
    held_six: String,
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
    pairs: Option<Estimate>,
}

/// How long a target takes, beside a design that is fixed beforehand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Lengths {
    rows: Vec<LengthRow>,
    ours: String,
    our_run: String,
    fixed: String,
    fixed_run: String,
    places: String,
}

/// One comparison by both designs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct LengthRow {
    of: String,
    half_width: String,
    blocks: String,
    ours: String,
    repetitions: String,
    /// By the interval of what they scatter by.
    range: String,
    fixed: String,
}

impl Experiments {
    /// Those that the program carries.
    ///
    /// # Errors
    /// Names what experiment left a file that is none of its.
    pub(crate) fn read() -> Result<Self, String> {
        Self::of(&embed::experiment)
    }

    /// Those whose files are there, by name.
    fn of<'a>(file: &impl Fn(&str) -> Option<&'a str>) -> Result<Self, String> {
        let named = |name: &'static str| move |error: String| format!("{name}.csv: {error}");
        let tried = |name: &'static str| match file(name) {
            Some(text) => results::read(text).map_err(named(name)),
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
            let trace = Trace::parse(file(name)?);
            Some(trace.map(|trace| Gains::of(of, trace)).map_err(named(name)))
        });
        let lengths = file("length").map_or(Ok(Vec::new()), results::read);
        Ok(Self {
            lengths: Lengths::of(&lengths.map_err(named("length"))?),
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
            held_six: format!("{} %", units::fixed(row.held_six, 1)),
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
            places: trial_places(tried),
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
            open: Part::told(trials::said(tried, &[Verdict::Unclear])),
            places: trial_places(tried),
        })
    }
}

impl Part {
    /// Of so many trials.
    fn of(share: Share, all: usize) -> Self {
        let told = Self::told(share);
        if share.of == all {
            let count = units::count(share.count as u64);
            return Self { count, ..told };
        }
        told
    }

    fn told(share: Share) -> Self {
        let [count, of] = [share.count, share.of].map(|number| units::count(number as u64));
        let low = units::fixed(100.0 * share.low, 1);
        Self {
            count: format!("{count} of {of}"),
            range: format!("{low} to {}", units::percent(share.high)),
        }
    }
}

impl Gains {
    fn of(of: &'static str, trace: Trace) -> Self {
        let rows = trace.gains().into_iter().map(|it| GainRow {
            of: it.of,
            turns: it.turns,
            gain: it.gain.map(|gain| interval::ratio(&gain, &[1.0])),
            pairs: it.pairs.map(|pairs| interval::ratio(&pairs, &[1.0])),
        });
        Self {
            of,
            rows: rows.collect(),
            place: format!(
                "{}; {} blocks",
                trace.place,
                units::count(trace.blocks() as u64)
            ),
        }
    }
}

impl Lengths {
    /// `None` without a comparison.
    fn of(lengths: &[Length]) -> Option<Self> {
        let seconds = |seconds: f64| {
            let span = Duration::try_from_secs_f64(seconds).unwrap_or_default();
            units::span(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
        };
        let range = |it: &Length| {
            let low = units::count(it.fixed_repetitions_low.into());
            it.fixed_repetitions_high.map_or_else(
                || format!("{low} and more"),
                |high| format!("{low} to {}", units::count(high.into())),
            )
        };
        let row = |it: &Length| LengthRow {
            of: format!("{}: {}", it.job, it.setting),
            half_width: format!("{} %", units::fixed(100.0 * it.our_half_width, 2)),
            blocks: units::count(it.our_blocks.into()),
            ours: seconds(it.our_seconds),
            repetitions: units::count(it.fixed_repetitions.into()),
            range: range(it),
            fixed: seconds(it.fixed_seconds),
        };
        let sum = Sum::of(lengths);
        let places = lengths.iter().map(|it| (&*it.machine, &*it.revision));
        (!lengths.is_empty()).then(|| Self {
            rows: lengths.iter().map(row).collect(),
            ours: seconds(sum.ours),
            our_run: seconds(sum.our_run),
            fixed: seconds(sum.fixed),
            fixed_run: seconds(sum.fixed_run),
            places: told_places(places),
        })
    }
}

fn trial_places(tried: &[Trial]) -> String {
    told_places(tried.iter().map(|it| (&*it.machine, &*it.revision)))
}

/// The machines that rows of results are of, given each with its revision, and how many rows are their own.
fn told_places<'a>(rows: impl Iterator<Item = (&'a str, &'a str)> + Clone) -> String {
    let machines: BTreeSet<&str> = rows.clone().map(|(machine, _)| machine).collect();
    let told = machines.into_iter().map(|machine| {
        let its = rows.clone().filter(|(its, _)| *its == machine);
        let revisions: BTreeSet<&str> = its.clone().map(|(_, revision)| revision).collect();
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
pub(crate) mod tests {
    use super::*;

    /// Two trials that went right, one that was disturbed, and one that found a difference.
    const TRIALS: &str = "\
trial,machine,revision,setting,contender,verdict,ratio,ratio_low,ratio_high,blocks,reason
1,One,abc,batch 1,two/works,same,1.001,0.99,1.01,6,inside
2,One,abc,batch 1,two/works,unclear,,,,,disturbed
3,One,def,batch 1,two/works,same,1.002,1.001,1.01,6,inside
4,Other,def,batch 1,two/works,slower,1.05,1.03,1.07,12,outside
";

    const LENGTHS: &str = "\
machine,revision,job,setting,our_blocks,our_half_width,our_seconds,our_run_seconds,fixed_spread,fixed_repetitions,\
fixed_repetitions_low,fixed_repetitions_high,fixed_seconds,fixed_run_seconds
One,abc,inference,\"batch 1, model bert_tiny\",6,0.0099,60.0,400.5,0.02,16,8,131,90.0,1800.0
One,abc,training,\"batch 8, model resnet18\",12,0.0101,120.0,400.5,0.03,40,16,,400.0,1800.0
";

    /// As if these had been made.
    pub(crate) fn made() -> Experiments {
        let file = |name: &str| match name {
            "aa" | "planted" | "quickstart" => Some(TRIALS),
            "drift-bert" => Some("# One, revision abc\nblock,turn,a/b,c/d\n0,0,1,2\n0,1,2,4\n"),
            "length" => Some(LENGTHS),
            _ => None,
        };
        Experiments::of(&file).unwrap()
    }

    #[test]
    fn trials_are_told_by_what_is_right_of_them() {
        let Experiments {
            known,
            repeated,
            gains,
            lengths,
            ..
        } = made();
        let counts = |row: &Known| {
            [&row.right, &row.wrong, &row.open, &row.absent, &row.astray]
                .map(|part| part.count.clone())
        };
        assert_eq!(counts(&known[0]), ["2", "1", "1", "0", "2 of 3"]);
        // Where 5 % were planted, both that were called the same are wrong.
        assert_eq!(counts(&known[1]), ["1", "2", "1", "0", "2 of 3"]);
        assert_eq!(known[0].open.range, "0.6 to 81 %");
        let places = "One (3, revision abc, def); Other (1, revision def)";
        assert_eq!(known[0].places, places);
        let repeated = repeated.unwrap();
        assert_eq!(
            (repeated.runs.as_str(), repeated.comparisons.as_str()),
            ("4", "1")
        );
        assert_eq!(
            (repeated.turned.as_str(), repeated.open.count.as_str()),
            ("0", "1 of 4")
        );
        assert_eq!(
            (gains.len(), gains[0].of, gains[0].rows.len()),
            (1, "BERT-tiny, inference", 2)
        );
        assert_eq!(gains[0].rows[0].gain, None);
        let lengths = lengths.unwrap();
        let row = &lengths.rows[1];
        assert_eq!(
            [&row.of, &row.half_width, &row.blocks, &row.repetitions],
            ["training: batch 8, model resnet18", "1.01 %", "12", "40"]
        );
        let ranges = [&lengths.rows[0].range, &row.range];
        assert_eq!(ranges, ["8 to 131", "16 and more"]);
        let spans = [&lengths.our_run, &lengths.fixed_run];
        assert_eq!(spans, ["6 min 40 s", "30 min"]);
        assert_eq!(lengths.places, "One (2, revision abc)");
    }

    #[test]
    fn a_file_that_is_none_is_named() {
        for name in ["aa", "drift-training", "length"] {
            let file = |asked: &str| (asked == name).then_some("nonsense\n1\n");
            let error = Experiments::of(&file).unwrap_err();
            assert!(error.starts_with(name), "{error}");
        }
    }

    /// What lies in `jobs/experiments` can be told, and all of it is.
    #[test]
    fn what_was_found_can_be_read() {
        let found = Experiments::read().unwrap();
        let are_there = ["aa", "planted"].map(|name| embed::experiment(name).is_some());
        let expected = are_there.iter().filter(|is_there| **is_there).count();
        assert_eq!(found.known.len(), expected);
        assert_eq!(
            found.lengths.is_some(),
            embed::experiment("length").is_some()
        );
        assert_eq!(found.gains.len(), 3);
        assert!(found.gains.iter().all(|trace| trace.rows.len() == 6));
    }
}
