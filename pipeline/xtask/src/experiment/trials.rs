//! Trials: the same measured again and again, and how often its verdict is wrong. Each may be interrupted at
//! any time, and goes on where it was, on another machine, too: every trial says where and by which revision
//! it was made.

use std::{
    fs,
    path::{Path, PathBuf},
};

use schema::tables::{Interval, Verdict};
use serde_json::Value;
use statistics::trials;

use super::{folder, place, results};
use crate::{
    bench::synthetic_engine,
    command::{cargo, output, photofinish, program, read, root, run, write},
};

/// What is tried again and again.
#[derive(Debug, Clone, Copy)]
pub(super) enum Trial {
    /// A worker against itself.
    Aa,
    /// A worker against one that takes longer.
    Planted,
    /// The quickstart.
    Quickstart,
}

impl Trial {
    const fn name(self) -> &'static str {
        match self {
            Self::Aa => "aa",
            Self::Planted => "planted",
            Self::Quickstart => "quickstart",
        }
    }

    /// How often it is tried where nobody says.
    const fn times(self) -> u32 {
        match self {
            Self::Aa => 200,
            Self::Planted => 50,
            Self::Quickstart => 5,
        }
    }

    /// Its blocks at most. Who is the same is told with few, six of them within half a minute; to find a difference
    /// may take more.
    const fn blocks(self) -> u32 {
        match self {
            Self::Planted => 48,
            Self::Aa | Self::Quickstart => 12,
        }
    }

    /// What the second of two workers takes longer, in per cent.
    const fn slower(self) -> u32 {
        match self {
            Self::Planted => 5,
            Self::Aa | Self::Quickstart => 0,
        }
    }
}

/// Two workers that compute on what a core's own cache holds, one step half a millisecond or so, and have two names.
/// Blocks follow each other at once: what slows the machine down slows down both. Rounds are many and short, since
/// neighbours come and go within tenths of a second.
fn manifest(blocks: u32) -> String {
    format!(
        "version: 1
title: An experiment
measure: {{ target: 1%, margin: 2%, budget: 10m, blocks: {blocks}, apart: 0s, rounds: 16, round: 20ms, warm_up: 200ms, ceilings: false }}
jobs:
  - id: trial
    question: Are these two the same?
    matrix: {{ model: bert_tiny, seq: 8, batch: 1, engine: [one/works, two/works] }}
    compare: {{ axis: engine, baseline: one/works }}
"
    )
}

/// Tries until there are so many trials, and says what they come to.
pub(super) fn repeat(which: Trial, times: Option<u32>) -> Result<(), String> {
    let folder = folder(which.name())?;
    let results = results()?.join(format!("{}.csv", which.name()));
    let mut tried = if results.exists() {
        statistics::results::read::<trials::Trial>(&read(&results)?)?
    } else {
        Vec::new()
    };
    let manifest = prepare(which, &folder)?;
    let times = times.unwrap_or_else(|| which.times());
    let done = tried.iter().map(|it| it.trial).max();
    for trial in done.unwrap_or(0) + 1..=times {
        println!("trial {trial} of {times}");
        tried.extend(try_once(&folder, &manifest, trial)?);
        // Whole trials or none: an interruption leaves the earlier file.
        let new = results.with_extension("new");
        write(&new, &statistics::results::write(&tried)?)?;
        fs::rename(&new, &results).map_err(|error| format!("{}: {error}", results.display()))?;
    }
    println!("{}", told(which, &tried));
    println!("every trial: {}", results.display());
    Ok(())
}

/// What is to be measured, and the workers that do it.
fn prepare(which: Trial, folder: &Path) -> Result<PathBuf, String> {
    if matches!(which, Trial::Quickstart) {
        run(program(photofinish()).args(["engines", "install"]))?;
        return Ok(root().join("jobs/quickstart.yaml"));
    }
    run(&mut cargo(&[
        "build",
        "--release",
        "--locked",
        "--workspace",
        "--bin",
        "photofinish-worker-synthetic",
    ]))?;
    // The same words for both: where a stack begins depends on them.
    let slower = which.slower().to_string();
    let engines = [
        synthetic_engine("pytorch", "eager", &[]),
        synthetic_engine("one", "works", &["--slower", "0"]),
        synthetic_engine("two", "works", &["--slower", &slower]),
    ];
    write(&folder.join("engines.toml"), &engines.concat())?;
    let path = folder.join("trial.yaml");
    write(&path, &manifest(which.blocks()))?;
    Ok(path)
}

/// One trial: what was said of each of its comparisons.
fn try_once(folder: &Path, manifest: &Path, trial: u32) -> Result<Vec<trials::Trial>, String> {
    let place = place()?;
    let store = folder.join("store");
    let mut bench = program(photofinish());
    bench
        .args(["bench", "--fresh", "--output-format", "json"])
        .arg(manifest)
        .arg("--store")
        .arg(&store)
        .arg("--out")
        .arg(folder.join("site"));
    if folder.join("engines.toml").exists() {
        bench.env("PHOTOFINISH_CONFIG", folder);
    }
    let ended = output(&mut bench)?;
    let told = String::from_utf8_lossy(&ended.stdout);
    let failed = || {
        let log = String::from_utf8_lossy(&ended.stderr);
        format!("{bench:?} ended with {}: {told}{log}", ended.status)
    };
    let summary: Value = serde_json::from_str(&told).map_err(|_| failed())?;
    let rows = |name: &str| summary[name].as_array().cloned().unwrap_or_default();
    // A group that stayed disturbed is a result; a worker that failed is a broken experiment.
    let is_disturbed = |failure: &Value| failure["outcome"]["kind"] == "unstable";
    let failures = rows("failures");
    // One that was interrupted names none.
    let is_sound =
        ended.status.success() || !failures.is_empty() && failures.iter().all(is_disturbed);
    let verdicts = rows("verdicts");
    if !is_sound || verdicts.is_empty() {
        return Err(failed());
    }
    let mut gc = program(photofinish());
    gc.args(["store", "gc", "--keep", "1", "--store"]);
    let cleared = output(gc.arg(&store))?;
    if !cleared.status.success() {
        return Err(String::from_utf8_lossy(&cleared.stderr).into_owned());
    }
    // Of what stayed disturbed there is a ratio that no verdict rests on.
    let is_whole = failures.is_empty();
    let said = verdicts
        .iter()
        .map(|verdict| said(trial, &place, verdict, is_whole));
    said.collect::<Option<_>>().ok_or_else(failed)
}

/// A verdict of the summary that `bench` prints; `None` where it is none.
fn said(
    trial: u32,
    (machine, revision): &(String, String),
    verdict: &Value,
    is_whole: bool,
) -> Option<trials::Trial> {
    let text = |name: &str| verdict[name].as_str().map(str::to_owned);
    let ratio: Option<Interval> = serde_json::from_value(verdict["ratio"].clone()).ok()?;
    let ratio = ratio.filter(|_| is_whole);
    Some(trials::Trial {
        trial,
        machine: machine.clone(),
        revision: revision.clone(),
        setting: text("coordinates")?,
        contender: text("value")?,
        verdict: serde_json::from_value(verdict["verdict"].clone()).ok()?,
        ratio: ratio.as_ref().map(|it| it.centre),
        ratio_low: ratio.as_ref().and_then(|it| it.low),
        ratio_high: ratio.as_ref().and_then(|it| it.high),
        blocks: ratio.as_ref().map(|it| it.blocks),
        reason: text("reason")?,
    })
}

/// What trials come to, in a sentence.
fn told(which: Trial, tried: &[trials::Trial]) -> String {
    let truth = 1.0 + f64::from(which.slower()) / 100.0;
    let all = tried.len();
    let count = |verdict| trials::said(tried, &[verdict]).count;
    let (faster, slower) = (count(Verdict::Faster), count(Verdict::Slower));
    let unclear = count(Verdict::Unclear);
    let astray = trials::astray(tried, truth);
    let astray = format!(
        "{} of {} intervals left the truth out, of which 5 in 100 are to be expected",
        astray.count, astray.of
    );
    match which {
        Trial::Aa => format!(
            "of {all} comparisons of the same, {} had a verdict of a difference; {unclear} were unclear, {} not \
             measured; {astray}",
            faster + slower,
            count(Verdict::NotMeasured)
        ),
        Trial::Planted => format!(
            "of {all} slowdowns of 5 %, {slower} were found, {faster} told as gains, {unclear} left open; {astray}"
        ),
        Trial::Quickstart => {
            let comparisons = trials::comparisons(tried);
            format!(
                "of {} comparisons, {} turned from one run to another; {unclear} of {all} verdicts were unclear",
                comparisons.len(),
                comparisons.values().filter(|turned| **turned).count(),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(verdict: &str, ratio: Value) -> Option<trials::Trial> {
        said(
            3,
            &("a machine".to_owned(), "abc".to_owned()),
            &json!({
                "coordinates": "batch 1, model bert_tiny", "value": "two/works", "verdict": verdict,
                "ratio": ratio, "reason": "interval [0.99, 1.01], and so on",
            }),
            true,
        )
    }

    fn ratio(low: f64, high: f64) -> Value {
        json!({ "low": low, "centre": 1.0, "high": high, "blocks": 6, "confidence": 0.95 })
    }

    #[test]
    fn a_verdict_is_a_line() {
        let same = of("same", ratio(0.99, 1.01)).unwrap();
        assert_eq!(
            (same.trial, same.verdict, same.ratio_high),
            (3, Verdict::Same, Some(1.01))
        );
        let none = of("not_measured", Value::Null).unwrap();
        assert_eq!((none.ratio, none.blocks), (None, None));
        assert_eq!(of("odd", ratio(0.99, 1.01)), None);
        assert_eq!(of("same", json!("odd")), None);
    }

    #[test]
    fn what_trials_come_to_is_said() {
        let tried: Vec<_> = [("same", 0.99, 1.01), ("slower", 1.02, 1.06)]
            .into_iter()
            .filter_map(|(verdict, low, high)| of(verdict, ratio(low, high)))
            .collect();
        let aa = told(Trial::Aa, &tried);
        assert!(aa.contains("1 had a verdict of a difference"), "{aa}");
        assert!(aa.contains("1 of 2 intervals left the truth out"), "{aa}");
        let planted = told(Trial::Planted, &tried);
        assert!(
            planted.starts_with("of 2 slowdowns of 5 %, 1 were found")
                && planted.contains("1 of 2 intervals"),
            "{planted}"
        );
        let quickstart = told(Trial::Quickstart, &tried);
        assert!(
            quickstart.starts_with("of 1 comparisons, 0 turned"),
            "{quickstart}"
        );
    }
}
