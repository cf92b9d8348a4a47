//! How long a job takes that ends when it has said enough, beside one that runs 100 steps of each cell,
//! again and again, until it says as much.
//!
//! Both are measured on the same cells. Of the fixed design that gives the time of a repetition and how
//! ratios scatter from one to the next; how many repetitions it takes until Student's interval is as narrow
//! as ours follows from that. Time is that of launches, from their start to the end of their rounds: parity
//! and canaries, which both have, are left out, and so are the pauses between blocks that ours has where
//! nothing else is left to measure. Twins count as time of ours; the fixed design has none,
//! and is looked at once.

use std::{fmt::Write as _, path::Path};

use schema::{
    CellId, Tables,
    tables::{CellRow, ComparisonRow, ComparisonTable, Interval, LaunchRow},
};
use statistics::interval;

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

const COLUMNS: &str = "machine,revision,job,setting,our_blocks,our_half_width,our_seconds,\
                       fixed_spread,fixed_repetitions,fixed_seconds\n";

/// A comparison by both designs.
#[derive(Debug, Clone, PartialEq)]
struct Length {
    what: String,
    /// Blocks, half-width and seconds of ours.
    ours: (u32, f64, f64),
    /// How ratios of the fixed design scatter: standard deviation of their logarithm.
    spread: f64,
    /// Repetitions that it takes.
    repetitions: u32,
    /// Seconds of one.
    repetition_s: f64,
}

impl Length {
    fn fixed_s(&self) -> f64 {
        f64::from(self.repetitions) * self.repetition_s
    }
}

/// Measures both and writes down what comparisons took.
pub(super) fn measure() -> Result<(), String> {
    let folder = folder("length")?;
    run(program(photofinish()).args(["engines", "install"]))?;
    let [ours, fixed] = [("ours", OURS), ("fixed", FIXED)];
    let (ours, fixed) = (tables(&folder, ours)?, tables(&folder, fixed)?);
    let lengths = lengths(&ours, &fixed)?;
    let (machine, revision) = place()?;
    let machine = machine.replace(',', ";");
    let mut text = COLUMNS.to_owned();
    for it in &lengths {
        let (blocks, half, seconds) = it.ours;
        let _ = writeln!(
            text,
            "{machine},{revision},{},{blocks},{half:.4},{seconds:.1},{:.4},{},{:.1}",
            it.what,
            it.spread,
            it.repetitions,
            it.fixed_s()
        );
    }
    let file = results()?.join("length.csv");
    write(&file, &text)?;
    print!("{text}");
    println!("{}", sum(&lengths));
    Ok(())
}

fn tables(folder: &Path, (name, measure): (&str, &str)) -> Result<Tables, String> {
    let manifest = folder.join(format!("{name}.yaml"));
    let head = format!("version: 1\ntitle: {name}\nmeasure: {{ {measure}, ceilings: false }}\n");
    write(&manifest, &format!("{head}{JOBS}"))?;
    let site = folder.join(format!("site-{name}"));
    let mut bench = program(photofinish());
    bench.args(["bench", "--fresh"]).arg(&manifest);
    bench.arg("--store").arg(folder.join("store"));
    run(bench.arg("--out").arg(&site))?;
    let told = read(&site.join("data/tables.json"))?;
    serde_json::from_str(&told).map_err(|error| format!("tables.json: {error}"))
}

/// The pairs of all jobs, each with its job and the comparison that it is of.
fn comparisons(tables: &Tables) -> impl Iterator<Item = (&str, &ComparisonTable, &ComparisonRow)> {
    tables.jobs.iter().flat_map(|job| {
        let of = |table| (job.id.as_str(), table);
        let tables = job.comparisons.iter().map(of);
        tables.flat_map(|(job, table)| table.rows.iter().map(move |row| (job, table, row)))
    })
}

fn lengths(ours: &Tables, fixed: &Tables) -> Result<Vec<Length>, String> {
    let lengths = comparisons(ours).map(|(job, _, row)| {
        let what = row
            .coordinates
            .iter()
            .map(|(axis, value)| format!("{axis} {value}"));
        let what = format!("{job},{}", what.collect::<Vec<_>>().join("; "));
        let lacks = |whose: &str| format!("{what}: {whose} has no ratio");
        let ratio = row.ratio.as_ref().ok_or_else(|| lacks("ours"))?;
        let half = half_width(ratio).ok_or_else(|| lacks("ours"))?;
        let same = |(id, _, other): &(&str, _, &ComparisonRow)| {
            *id == job && other.coordinates == row.coordinates
        };
        let (_, table, other) = comparisons(fixed)
            .find(same)
            .ok_or_else(|| lacks("the fixed design"))?;
        let logs = logs(fixed, job, other);
        let spread = interval::standard_deviation(&logs);
        let repetitions = interval::blocks_for(spread, libm::log1p(half), table.confidence_each);
        let repetitions = repetitions.filter(|_| logs.len() > 1);
        Ok(Length {
            ours: (ratio.blocks, half, seconds(ours, job, row)),
            spread,
            repetitions: repetitions.ok_or_else(|| lacks("the fixed design"))?,
            repetition_s: seconds(fixed, job, other) / logs.len() as f64,
            what,
        })
    });
    lengths.collect()
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
            ready_ns + warm_up + launch.rounds.iter().flatten().sum::<u64>()
        });
        launches.sum::<u64>()
    };
    (of(&row.baseline) + of(&row.contender)) as f64 / 1e9
}

/// What all comparisons come to together. A design that is fixed beforehand would repeat all of them alike, as
/// often as the worst takes, which is more; how much more, five repetitions do not tell.
fn sum(lengths: &[Length]) -> String {
    let minutes = |seconds: f64| seconds / 60.0;
    let ours: f64 = lengths.iter().map(|it| it.ours.2).sum();
    let fixed: f64 = lengths.iter().map(Length::fixed_s).sum();
    format!(
        "ours {:.1} min; 100 steps, again as often as each comparison needs: {:.1} min",
        minutes(ours),
        minutes(fixed)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fixed_design_repeats_each_as_often_as_it_takes() {
        let length = |repetitions, repetition_s| Length {
            what: "job,batch 1".to_owned(),
            ours: (6, 0.01, 60.0),
            spread: 0.01,
            repetitions,
            repetition_s,
        };
        let said = sum(&[length(3, 10.0), length(12, 20.0)]);
        let expected = "ours 2.0 min; 100 steps, again as often as each comparison needs: 4.5 min";
        assert_eq!(said, expected);
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
