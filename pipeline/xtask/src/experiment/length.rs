//! How long a job takes that ends when it has said enough, beside one that runs 100 steps of each cell,
//! again and again, until it says as much.
//!
//! Both are measured on the same cells. Of the fixed design that gives the time of a repetition and how
//! ratios scatter from one to the next; how many repetitions it takes until Student's interval is as narrow
//! as ours is extrapolated from that, and told with the interval that so few repetitions leave. Time is that of
//! launches, from their start to the end of their rounds, without parity and canaries, which both have. A record
//! keeps no time of the steps that rounds discard: they count as so many median steps, of both. Whole runs are told
//! besides, by the clock: of ours as it was, the pauses between blocks among it where nothing else is left to measure;
//! of the fixed design as it was, by as many times as the comparison that needs most needs more repetitions than
//! were made, since a run repeats all of them alike. Twins count as time of ours; the fixed design has none, and is
//! looked at once.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use schema::{
    CellId, Tables,
    plan::{REWARM_STEPS, rewarm_steps},
    tables::{CellRow, ComparisonRow, ComparisonTable, Interval, LaunchRow},
};
use statistics::{
    interval,
    lengths::{Length, Sum},
};

use super::{folder, place, results};
use crate::command::{photofinish, program, read, run, write};

/// What is asked, but for how it is measured. Steps take from a millisecond to a quarter of a second.
const JOBS: &str = "jobs:
  - id: inference
    matrix: { model: [resnet18, mobilenet_v2, bert_tiny], batch: [1, 8], engine: [pytorch/eager, onnxruntime/cpu] }
    compare: { axis: engine, baseline: pytorch/eager }
  - id: training
    mode: training
    matrix: { model: resnet18, batch: 8, engine: [pytorch/eager, tensorflow/graph] }
    compare: { axis: engine, baseline: pytorch/eager }
";

/// Ours: as many blocks as it takes, disturbed ones among them, as the other design has them.
const OURS: &str = "target: 1%, margin: 2%, budget: 2h, disturbed: keep";

/// Repetitions of 100 steps, each in a launch of its own: as many as may be without twins.
const FIXED: &str = "blocks: 5, rounds: 1, round: 1ms, round_steps: 100, budget: 2h";

/// Of the interval of what repetitions scatter by.
const SPREAD_CONFIDENCE: f64 = 0.95;

/// Measures both and writes down what comparisons took.
pub(super) fn measure() -> Result<(), String> {
    let folder = folder("length")?;
    run(program(photofinish()).args(["engines", "install"]))?;
    let place = place()?;
    let ours = tables(&folder, ("ours", OURS))?;
    let fixed = tables(&folder, ("fixed", FIXED))?;
    let found = found(&place, &ours, &fixed)?;
    let file = results()?.join("length.csv");
    let text = statistics::results::write(&found)?;
    write(&file, &text)?;
    print!("{text}");
    println!("{}", told(Sum::of(&found)));
    Ok(())
}

/// What a design comes to, and how long its run took.
fn tables(folder: &Path, (name, measure): (&str, &str)) -> Result<(Tables, Duration), String> {
    let manifest = folder.join(format!("{name}.yaml"));
    let head = format!("version: 1\ntitle: {name}\nmeasure: {{ {measure}, ceilings: false }}\n");
    write(&manifest, &format!("{head}{JOBS}"))?;
    let site = folder.join(format!("site-{name}"));
    let mut bench = program(photofinish());
    bench.args(["bench", "--fresh"]).arg(&manifest);
    bench.arg("--store").arg(folder.join("store"));
    let begun = Instant::now();
    run(bench.arg("--out").arg(&site))?;
    let took = begun.elapsed();
    let told = read(&site.join("data/tables.json"))?;
    let tables = serde_json::from_str(&told).map_err(|error| format!("tables.json: {error}"))?;
    Ok((tables, took))
}

/// The pairs of all jobs, each with its job and the comparison that it is of.
fn comparisons(tables: &Tables) -> impl Iterator<Item = (&str, &ComparisonTable, &ComparisonRow)> {
    tables.jobs.iter().flat_map(|job| {
        let of = |table| (job.id.as_str(), table);
        let tables = job.comparisons.iter().map(of);
        tables.flat_map(|(job, table)| table.rows.iter().map(move |row| (job, table, row)))
    })
}

/// A comparison by both designs.
struct Both<'a> {
    job: &'a str,
    row: &'a ComparisonRow,
    setting: String,
    /// Blocks that ours took, and half of the width of its interval.
    blocks: u32,
    half: f64,
    again: Again,
}

fn found(
    (machine, revision): &(String, String),
    (ours, run): &(Tables, Duration),
    (fixed, fixed_run): &(Tables, Duration),
) -> Result<Vec<Length>, String> {
    let both = both(ours, fixed)?;
    let times = both.iter().map(|it| it.again.times).fold(0.0, f64::max);
    let lengths = both.into_iter().map(|it| Length {
        machine: machine.clone(),
        revision: revision.clone(),
        job: it.job.to_owned(),
        our_blocks: it.blocks,
        our_half_width: rounded(it.half, 4),
        our_seconds: rounded(seconds(ours, it.job, it.row), 1),
        our_run_seconds: rounded(run.as_secs_f64(), 1),
        fixed_spread: rounded(it.again.spread, 4),
        fixed_repetitions: it.again.repetitions,
        fixed_repetitions_low: it.again.low,
        fixed_repetitions_high: it.again.high,
        fixed_seconds: rounded(it.again.seconds, 1),
        fixed_run_seconds: rounded(times * fixed_run.as_secs_f64(), 1),
        setting: it.setting,
    });
    Ok(lengths.collect())
}

/// All comparisons of ours, each with that of the fixed design.
fn both<'a>(ours: &'a Tables, fixed: &Tables) -> Result<Vec<Both<'a>>, String> {
    let both = comparisons(ours).map(|(job, _, row)| {
        let setting = row
            .coordinates
            .iter()
            .map(|(axis, value)| format!("{axis} {value}"));
        let setting = setting.collect::<Vec<_>>().join(", ");
        let lacks = |whose: &str| format!("{job}, {setting}: {whose} has no ratio");
        let ratio = row.ratio.as_ref().ok_or_else(|| lacks("ours"))?;
        let half = half_width(ratio).ok_or_else(|| lacks("ours"))?;
        let same = |(id, _, other): &(&str, _, &ComparisonRow)| {
            *id == job && other.coordinates == row.coordinates
        };
        let (_, table, other) = comparisons(fixed)
            .find(same)
            .ok_or_else(|| lacks("the fixed design"))?;
        let logs = logs(fixed, job, other);
        let took = seconds(fixed, job, other);
        let again = again(&logs, took, half, table.confidence_each);
        let again = again.ok_or_else(|| lacks("the fixed design"))?;
        Ok(Both {
            job,
            row,
            setting,
            blocks: ratio.blocks,
            half,
            again,
        })
    });
    both.collect()
}

/// What the fixed design takes.
#[derive(Debug)]
struct Again {
    spread: f64,
    repetitions: u32,
    /// Fewest and most, by the interval of what repetitions scatter by; `None`: no number of them is enough.
    low: u32,
    high: Option<u32>,
    /// As many times as were made.
    times: f64,
    seconds: f64,
}

/// How often repetitions that came to these logarithms of ratios, in `seconds` together, are to be made until
/// Student's interval is so narrow; `None` where one alone was made, or no number of them is enough.
fn again(logs: &[f64], seconds: f64, half: f64, confidence: f64) -> Option<Again> {
    let spread = interval::standard_deviation(logs);
    let [least, most] = interval::of_deviation(spread, logs.len(), SPREAD_CONFIDENCE)?;
    let enough = |spread| interval::blocks_for(spread, libm::log1p(half), confidence);
    let repetitions = enough(spread)?;
    let times = f64::from(repetitions) / logs.len() as f64;
    Some(Again {
        spread,
        repetitions,
        low: enough(least)?,
        high: enough(most),
        times,
        seconds: times * seconds,
    })
}

fn rounded(value: f64, decimals: u32) -> f64 {
    let tens = f64::from(10_u32.pow(decimals));
    (value * tens).round() / tens
}

fn half_width(ratio: &Interval) -> Option<f64> {
    let (low, high) = ratio.low.zip(ratio.high)?;
    Some((high / ratio.centre).max(ratio.centre / low) - 1.0)
}

fn cell<'a>(tables: &'a Tables, job: &str, id: &CellId) -> Option<&'a CellRow> {
    tables
        .cells
        .iter()
        .find(|row| row.job == job && row.id == *id)
}

/// Logarithms of contender ÷ baseline, repetition by repetition.
fn logs(tables: &Tables, job: &str, row: &ComparisonRow) -> Vec<f64> {
    let medians = |id| cell(tables, job, id).map_or(&[][..], |row| &row.launches);
    let baseline = medians(&row.baseline);
    let pairs = medians(&row.contender).iter().filter_map(|launch| {
        let other = baseline.iter().find(|other| other.block == launch.block)?;
        let log = |launch: &LaunchRow| launch.median_ns.map(|ns| libm::log(ns as f64));
        Some(log(launch)? - log(other)?)
    });
    pairs.collect()
}

/// Nanoseconds that the rounds of a launch took, by its samples; what they discarded are so many median steps.
fn rounds_ns(launch: &LaunchRow) -> u64 {
    let warm_up = launch.warm_up.as_ref();
    let step_ns = warm_up.and_then(|it| it.total_ns.checked_div(it.steps));
    // As many as a run asks for, which goes by the same steps.
    let discarded = step_ns.map_or(REWARM_STEPS, rewarm_steps) * launch.rounds.len() as u64;
    let samples = launch.rounds.iter().flatten().sum::<u64>();
    samples + discarded * launch.median_ns.unwrap_or(0)
}

/// Seconds that the launches of a pair and of its twins took, from their start to the end of their rounds.
fn seconds(tables: &Tables, job: &str, row: &ComparisonRow) -> f64 {
    let of = |id: &CellId| {
        let Some(row) = cell(tables, job, id) else {
            return 0;
        };
        let loaded = row.loaded.as_ref().map_or(0, |it| {
            it.fill_ns + it.build_ns + it.compile_ns + it.first_step_ns
        });
        let ready_ns = row.start_ns.unwrap_or(0) + loaded;
        let twins = tables
            .twins
            .iter()
            .filter(|twin| twin.job == job && twin.cell == *id);
        let launches = row
            .launches
            .iter()
            .chain(twins.flat_map(|twin| &twin.launches));
        let launches = launches.map(|launch| {
            let warm_up = launch.warm_up.as_ref().map_or(0, |it| it.total_ns);
            ready_ns + warm_up + rounds_ns(launch)
        });
        launches.sum::<u64>()
    };
    (of(&row.baseline) + of(&row.contender)) as f64 / 1e9
}

/// What all comparisons come to together, in a sentence.
fn told(sum: Sum) -> String {
    let sums = [sum.ours, sum.fixed, sum.our_run, sum.fixed_run];
    let [ours, fixed, run, fixed_run] = sums.map(|seconds| seconds / 60.0);
    format!(
        "launches of ours {ours:.1} min; of 100 steps, again as often as each comparison needs, {fixed:.1} min\n\
         the whole run of ours {run:.1} min; of 100 steps, all of them again as often as one needs, \
         {fixed_run:.1} min (extrapolated)"
    )
}

#[cfg(test)]
mod tests {
    use schema::{Outcome, protocol::WarmUpDone, record::Canary};

    use super::*;

    #[test]
    fn what_both_designs_take_is_said() {
        let sum = Sum {
            ours: 120.0,
            our_run: 300.0,
            fixed: 270.0,
            fixed_run: 900.0,
        };
        let expected = "launches of ours 2.0 min; of 100 steps, again as often as each comparison needs, 4.5 min\n\
                        the whole run of ours 5.0 min; of 100 steps, all of them again as often as one needs, \
                        15.0 min (extrapolated)";
        assert_eq!(told(sum), expected);
        assert_eq!(rounded(0.123_46, 4), 0.1235);
    }

    /// Student's quantile for 18 is 2.110, and 2.110 · 0.02 / √18 = 0.009946, below log 1.01 = 0.009950; for 17
    /// it is 2.120, which makes 0.0103. By χ² of four degrees of freedom, which lies between 0.4844 and 11.143, the
    /// scatter is between 0.01198 and 0.05747: 2.306 · 0.01198 / √9 = 0.0092, where 8 make 0.01002, and
    /// 1.9784 · 0.05747 / √131 = 0.00993, where 130 make 0.00997.
    #[test]
    fn a_fixed_design_is_repeated_as_often_as_it_takes() {
        let logs = [0.02, -0.02, 0.02, -0.02, 0.0];
        let told = again(&logs, 50.0, 0.01, 0.95).unwrap();
        assert!((told.spread - 0.02).abs() < 1e-12, "{told:?}");
        assert_eq!(told.repetitions, 18);
        assert_eq!((told.low, told.high), (9, Some(131)));
        assert!((told.times - 3.6).abs() < 1e-12, "{told:?}");
        assert!((told.seconds - 180.0).abs() < 1e-9, "{told:?}");
        // Where they scatter by so much, more may be needed than anybody would measure.
        let wide = logs.map(|log| 50.0 * log);
        assert_eq!(again(&wide, 50.0, 0.01, 0.95).unwrap().high, None);
        assert!(again(&logs[..1], 50.0, 0.01, 0.95).is_none());
    }

    #[test]
    fn discarded_steps_take_time_too() {
        let launch = |warm_up| LaunchRow {
            block: 0,
            outcome: Outcome::measured(),
            median_ns: Some(12_000_000),
            warm_up,
            canaries: [Canary {
                copy_ns: 1,
                matmul_ns: 1,
            }; 2],
            rounds: vec![vec![11_000_000, 12_000_000], vec![12_000_000, 15_000_000]],
            log: String::new(),
        };
        let warm_up = WarmUpDone {
            steps: 10,
            total_ns: 100_000_000,
            steady: true,
        };
        // Three steps of 10 ms last 30 ms, before each of two rounds.
        assert_eq!(rounds_ns(&launch(Some(warm_up))), 50_000_000 + 72_000_000);
        assert_eq!(rounds_ns(&launch(None)), 50_000_000 + 48_000_000);
    }

    #[test]
    fn the_wider_side_counts() {
        let ratio = |low, high| Interval {
            low,
            centre: 1.0,
            high,
            blocks: 6,
            confidence: 0.95,
        };
        let half = half_width(&ratio(Some(0.8), Some(1.1))).unwrap();
        assert!((half - 0.25).abs() < 1e-12, "{half}");
        assert_eq!(half_width(&ratio(None, Some(1.1))), None);
    }
}
