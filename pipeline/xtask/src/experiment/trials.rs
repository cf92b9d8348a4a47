//! Trials: the same measured again and again, and how often its verdict is wrong. Each may be interrupted at
//! any time, and goes on where it was, on another machine, too: every trial says where and by which revision
//! it was made.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

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

    /// What the second of two workers takes longer, in per cent.
    const fn slower(self) -> u32 {
        match self {
            Self::Planted => 5,
            Self::Aa | Self::Quickstart => 0,
        }
    }
}

/// Two workers that do real work on memory, one step some milliseconds, and have two names. A trial takes
/// some twenty seconds, twelve blocks at most, which follow each other at once: what slows the machine down slows
/// down both.
const MANIFEST: &str = "version: 1
title: An experiment
measure: { target: 1%, margin: 2%, budget: 3m, blocks: 12, apart: 0s, round: 100ms, warm_up: 1s, ceilings: false }
jobs:
  - id: trial
    question: Are these two the same?
    matrix: { model: bert_tiny, seq: 8, batch: 1, engine: [one/works, two/works] }
    compare: { axis: engine, baseline: one/works }
";

const COLUMNS: &str =
    "trial,machine,revision,setting,contender,verdict,ratio,ratio_low,ratio_high,blocks,reason\n";

/// A verdict of a trial.
#[derive(Debug, Clone, PartialEq)]
struct Tried {
    trial: u32,
    /// What is compared, in words.
    what: String,
    verdict: String,
    /// Whether its interval leaves 1 out.
    differs: bool,
}

/// Tries until there are so many trials, and says what they come to.
pub(super) fn repeat(which: Trial, times: Option<u32>) -> Result<(), String> {
    let folder = folder(which.name())?;
    let results = results()?.join(format!("{}.csv", which.name()));
    let mut text = if results.exists() {
        read(&results)?
    } else {
        COLUMNS.to_owned()
    };
    let manifest = prepare(which, &folder)?;
    let times = times.unwrap_or_else(|| which.times());
    let done = tried(&text)?.iter().map(|it| it.trial).max();
    for trial in done.unwrap_or(0) + 1..=times {
        println!("trial {trial} of {times}");
        text.push_str(&try_once(&folder, &manifest, trial)?);
        // Whole trials or none: an interruption leaves the earlier file.
        let new = results.with_extension("new");
        write(&new, &text)?;
        fs::rename(&new, &results).map_err(|error| format!("{}: {error}", results.display()))?;
    }
    println!("{}", verdict(which, &tried(&text)?));
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
    let manifest = folder.join("trial.yaml");
    write(&manifest, MANIFEST)?;
    Ok(manifest)
}

/// One trial, as lines of the results.
fn try_once(folder: &Path, manifest: &Path, trial: u32) -> Result<String, String> {
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
    let is_sound = ended.status.success() || rows("failures").iter().all(is_disturbed);
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
    let place = place()?;
    let lines = verdicts.iter().map(|verdict| line(trial, &place, verdict));
    Ok(lines.collect())
}

fn line(trial: u32, place: &str, verdict: &Value) -> String {
    let text = |name: &str| verdict[name].as_str().unwrap_or_default().replace(',', ";");
    let number = |name: &str| match &verdict["ratio"][name] {
        Value::Null => String::new(),
        number => number.to_string(),
    };
    format!(
        "{trial},{place},{},{},{},{},{},{},{},{}\n",
        text("coordinates"),
        text("value"),
        text("verdict"),
        number("centre"),
        number("low"),
        number("high"),
        number("blocks"),
        text("reason"),
    )
}

/// The verdicts of earlier trials.
fn tried(text: &str) -> Result<Vec<Tried>, String> {
    let rows = text.lines().skip(1).map(|line| {
        let fields: Vec<&str> = line.split(',').collect();
        let [trial, _, _, setting, contender, verdict, _, low, high, ..] = fields.as_slice() else {
            return Err(format!("no line of results: {line}"));
        };
        let end = |text: &str| text.parse::<f64>().ok();
        Ok(Tried {
            trial: trial.parse().map_err(|_| format!("no trial: {line}"))?,
            what: format!("{setting}: {contender}"),
            verdict: (*verdict).to_owned(),
            differs: end(low).is_some_and(|low| low > 1.0)
                || end(high).is_some_and(|high| high < 1.0),
        })
    });
    rows.collect()
}

/// What trials come to, in a sentence.
fn verdict(which: Trial, tried: &[Tried]) -> String {
    let all = tried.len();
    let count = |holds: &dyn Fn(&Tried) -> bool| tried.iter().filter(|it| holds(it)).count();
    let [faster, slower, unclear] =
        ["faster", "slower", "unclear"].map(|word| count(&|it| it.verdict == word));
    match which {
        Trial::Aa => format!(
            "of {all} comparisons of the same, {} had a verdict of a difference and {} an interval without 1, \
             of which 5 in 100 are to be expected; {unclear} were unclear, {} not measured",
            faster + slower,
            count(&|it| it.differs),
            count(&|it| it.verdict == "not_measured")
        ),
        Trial::Planted => {
            format!(
                "of {all} slowdowns of 5 %, {slower} were found, {faster} told as gains, {unclear} left open"
            )
        }
        Trial::Quickstart => {
            let mut verdicts: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
            for it in tried {
                verdicts.entry(&it.what).or_default().insert(&it.verdict);
            }
            let turned = verdicts
                .values()
                .filter(|words| words.contains("faster") && words.contains("slower"));
            format!(
                "of {} comparisons, {} turned from one run to another; {unclear} of {all} verdicts were unclear",
                verdicts.len(),
                turned.count(),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(verdict: &str, low: f64, high: f64) -> String {
        line(
            3,
            "a machine,abc",
            &json!({
                "coordinates": "batch 1, model bert_tiny", "value": "two/works", "verdict": verdict,
                "ratio": { "low": low, "centre": 1.0, "high": high, "blocks": 6 },
                "reason": "interval [0.99, 1.01], and so on",
            }),
        )
    }

    #[test]
    fn what_is_written_is_read_again() {
        let text = format!(
            "{COLUMNS}{}{}",
            of("same", 0.99, 1.01),
            of("slower", 1.02, 1.04)
        );
        let tried = tried(&text).unwrap();
        assert_eq!(
            tried.iter().map(|it| it.differs).collect::<Vec<_>>(),
            [false, true]
        );
        assert_eq!(tried[0].what, "batch 1; model bert_tiny: two/works");
        assert_eq!((tried[1].trial, tried[1].verdict.as_str()), (3, "slower"));
        assert!(super::tried(&format!("{COLUMNS}3,one\n")).is_err());
        let said = verdict(Trial::Aa, &tried);
        assert!(
            said.contains("1 had a verdict of a difference and 1 an interval"),
            "{said}"
        );
        let said = verdict(Trial::Planted, &tried);
        assert!(
            said.starts_with("of 2 slowdowns of 5 %, 1 were found"),
            "{said}"
        );
        let said = verdict(Trial::Quickstart, &tried);
        assert!(said.starts_with("of 1 comparisons, 0 turned"), "{said}");
    }
}
