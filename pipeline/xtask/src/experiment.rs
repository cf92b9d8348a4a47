//! Experiments on photofinish itself: how often its verdicts are wrong where the truth is known, whether
//! they repeat themselves, and what interleaving gains. They take hours of a machine that does nothing else;
//! each may be interrupted at any time, and goes on where it was, on another machine, too: every trial says
//! where and by which revision it was made.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use clap::ValueEnum;
use serde_json::Value;
use statistics::{interleaving, percentile};

use crate::{
    bench::synthetic_engine,
    command::{cargo, output, photofinish, program, read, root, run, target, write},
};

/// What is tried.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Experiment {
    /// A worker held against itself: every `faster` or `slower` is false
    Aa,
    /// A worker held against one that takes 5 % longer: every verdict but `slower` misses it
    Planted,
    /// The quickstart, again and again: verdicts should not turn
    Quickstart,
    /// Traces of engines whose rounds take turns for minutes, and what interleaving gains by them
    Drift,
}

impl Experiment {
    const fn name(self) -> &'static str {
        match self {
            Self::Aa => "aa",
            Self::Planted => "planted",
            Self::Quickstart => "quickstart",
            Self::Drift => "drift",
        }
    }

    /// How often it is tried where nobody says.
    const fn trials(self) -> u32 {
        match self {
            Self::Aa => 200,
            Self::Planted => 50,
            Self::Quickstart => 5,
            Self::Drift => 1,
        }
    }

    /// What the second of two workers takes longer, in per cent.
    const fn slower(self) -> u32 {
        match self {
            Self::Planted => 5,
            Self::Aa | Self::Quickstart | Self::Drift => 0,
        }
    }
}

/// Two workers that do real work on memory, one step some milliseconds, and have two names. A trial takes
/// some twenty seconds, twelve blocks at most.
const MANIFEST: &str = "version: 1
title: An experiment
measure: { target: 1%, margin: 2%, budget: 3m, blocks: 12, round: 100ms, warm_up: 1s, ceilings: false }
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
///
/// # Errors
/// When a trial cannot be run, or an earlier one cannot be read.
pub(crate) fn experiment(experiment: Experiment, trials: Option<u32>) -> Result<(), String> {
    let folder = target().join("experiments").join(experiment.name());
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    run(&mut cargo(&["build", "--release", "--locked"]))?;
    if matches!(experiment, Experiment::Drift) {
        return drift(&folder);
    }
    let results = results()?.join(format!("{}.csv", experiment.name()));
    let mut text = if results.exists() {
        read(&results)?
    } else {
        COLUMNS.to_owned()
    };
    let manifest = prepare(experiment, &folder)?;
    let trials = trials.unwrap_or_else(|| experiment.trials());
    let done = tried(&text)?.iter().map(|it| it.trial).max();
    for trial in done.unwrap_or(0) + 1..=trials {
        println!("trial {trial} of {trials}");
        text.push_str(&try_once(&folder, &manifest, trial)?);
        // Whole trials or none: an interruption leaves the earlier file.
        let new = results.with_extension("new");
        write(&new, &text)?;
        fs::rename(&new, &results).map_err(|error| format!("{}: {error}", results.display()))?;
    }
    println!("{}", verdict(experiment, &tried(&text)?));
    println!("every trial: {}", results.display());
    Ok(())
}

/// Where results are kept, to be committed. Nothing is built from what lies there.
fn results() -> Result<PathBuf, String> {
    let folder = root().join("jobs/experiments");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(folder)
}

/// What is to be measured, and the workers that do it.
fn prepare(experiment: Experiment, folder: &Path) -> Result<PathBuf, String> {
    if matches!(experiment, Experiment::Quickstart) {
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
    let slower = experiment.slower().to_string();
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

/// The machine, and the revision that measures on it.
fn place() -> Result<String, String> {
    let mut doctor = program(photofinish());
    doctor.args(["doctor", "--quick", "--output-format", "json"]);
    let told = output(&mut doctor)?.stdout;
    let machine: Value = serde_json::from_slice(&told).map_err(|error| error.to_string())?;
    let machine = machine["environment"]["fingerprint"]["cpu_model"].as_str();
    let mut git = program("git");
    git.args(["describe", "--always", "--dirty", "--exclude=*"]);
    let revision = String::from_utf8_lossy(&output(&mut git)?.stdout)
        .trim()
        .to_owned();
    Ok(format!(
        "{},{revision}",
        machine.unwrap_or_default().replace(',', ";")
    ))
}

/// Three pairs of engines, each for some minutes: an inference that goes through memory, a training, and
/// an inference of short steps.
const DRIFT: &str = "version: 1
title: Traces of drift
measure: { blocks: 6, rounds: 100, round: 200ms, round_steps: 1, warm_up: 3s, budget: 2h, disturbed: keep, ceilings: false }
jobs:
  - id: mobilenet
    matrix: { model: mobilenet_v2, engine: [pytorch/eager, onnxruntime/cpu] }
    compare: { axis: engine, baseline: pytorch/eager }
  - id: training
    mode: training
    matrix: { model: resnet18, image: 64, batch: 4, engine: [pytorch/eager, tensorflow/graph] }
    compare: { axis: engine, baseline: pytorch/eager }
  - id: bert
    matrix: { model: bert_tiny, seq: 64, engine: [onnxruntime/cpu, openvino/cpu] }
    compare: { axis: engine, baseline: onnxruntime/cpu }
";

/// Measures the traces and writes each down: the median step of every round, in nanoseconds, of both
/// engines and of the twin of one of them.
fn drift(folder: &Path) -> Result<(), String> {
    run(program(photofinish()).args(["engines", "install"]))?;
    let manifest = folder.join("drift.yaml");
    write(&manifest, DRIFT)?;
    let site = folder.join("site");
    let mut bench = program(photofinish());
    bench.arg("bench").arg(&manifest);
    bench.arg("--store").arg(folder.join("store"));
    run(bench.arg("--out").arg(&site))?;
    let tables = read(&site.join("data/tables.json"))?;
    let tables: Value = serde_json::from_str(&tables).map_err(|error| error.to_string())?;
    let rows = |name: &str| tables[name].as_array().cloned().unwrap_or_default();
    for job in rows("jobs") {
        let id = job["id"].as_str().unwrap_or_default();
        let own = |row: &Value| row["job"] == job["id"];
        let cells = rows("cells").into_iter().filter(own);
        let cells = cells.map(|cell| (word(&cell["cell"]["engine"]), cell));
        let twins = rows("twins").into_iter().filter(own);
        let twins = twins.map(|twin| (format!("{} again", word(&twin["engine"])), twin));
        let columns: Vec<(String, Value)> = cells.chain(twins).collect();
        let turns = turns(&columns)?;
        let file = folder.join(format!("drift-{id}.csv"));
        write(&file, &trace(&columns, &turns))?;
        println!("{id}: {}", file.display());
        for (of, [first, second]) in pairs(&columns) {
            for stretch in STRETCHES {
                let gain = gain(&turns, first, second, stretch);
                println!("  {of}, {stretch} turns: {gain}");
            }
        }
    }
    Ok(())
}

/// Turns of a stretch: about ten seconds, and a whole block.
const STRETCHES: [usize; 2] = [20, 100];

/// Pairs of cells to tell the gain of: the two engines, and each cell and its twin.
fn pairs(columns: &[(String, Value)]) -> Vec<(String, [usize; 2])> {
    let mut pairs = Vec::new();
    for (second, (name, _)) in columns.iter().enumerate() {
        for (first, (earlier, _)) in columns.iter().enumerate().take(second) {
            let is_twin = *name == format!("{earlier} again");
            let are_engines = !name.ends_with(" again") && !earlier.ends_with(" again");
            if is_twin || are_engines {
                pairs.push((format!("{name} against {earlier}"), [first, second]));
            }
        }
    }
    pairs
}

/// The gain of interleaving over stretches of so many turns, in words. The truth is what the whole trace
/// says.
fn gain(turns: &Turns, first: usize, second: usize, stretch: usize) -> String {
    let log = |cells: &Vec<u64>, at: usize| cells.get(at).map(|ns| (*ns as f64).ln());
    let pair = |cells: &Vec<u64>| Some([log(cells, first)?, log(cells, second)?]);
    let blocks = turns
        .iter()
        .map(|block| block.iter().filter_map(pair).collect());
    let blocks: Vec<interleaving::Block> = blocks.collect();
    let logs = blocks.iter().flatten().map(|[one, other]| other - one);
    let truth = percentile::middle(logs).unwrap_or(0.0);
    match interleaving::gain(&blocks, stretch, truth, 0.95) {
        Some(gain) => format!(
            "errors back to back are {} times those interleaved [{}, {}]",
            gain.centre,
            gain.low.unwrap_or(0.0),
            gain.high.unwrap_or(f64::INFINITY)
        ),
        None => "too short to tell".to_owned(),
    }
}

fn word(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// By block and turn, the median step of each cell in nanoseconds.
type Turns = Vec<Vec<Vec<u64>>>;

/// The turns in which all cells were measured.
fn turns(columns: &[(String, Value)]) -> Result<Turns, String> {
    let mut blocks: BTreeMap<u64, Vec<Vec<u64>>> = BTreeMap::new();
    for (_, cell) in columns {
        for launch in cell["launches"].as_array().into_iter().flatten() {
            let rounds = launch["rounds"].as_array().into_iter().flatten();
            let medians: Option<Vec<u64>> = rounds.map(median).collect();
            let medians = medians.ok_or("a round without a sample")?;
            let block = blocks.entry(launch["block"].as_u64().unwrap_or(0));
            block.or_default().push(medians);
        }
    }
    let whole = blocks
        .into_values()
        .filter(|cells| cells.len() == columns.len());
    let turns = whole.map(|cells| {
        let shortest = cells.iter().map(Vec::len).min().unwrap_or(0);
        let turn = |at: usize| {
            cells
                .iter()
                .filter_map(|cell| cell.get(at).copied())
                .collect()
        };
        (0..shortest).map(turn).collect::<Vec<Vec<u64>>>()
    });
    let turns: Turns = turns.filter(|block| !block.is_empty()).collect();
    if turns.is_empty() {
        return Err("a trace without a turn of all its cells".to_owned());
    }
    Ok(turns)
}

fn median(round: &Value) -> Option<u64> {
    let samples = round.as_array().into_iter().flatten();
    let mut samples: Vec<u64> = samples.filter_map(Value::as_u64).collect();
    samples.sort_unstable();
    percentile::of_sorted(&samples, 50)
}

/// A trace as text: a line a turn, a column a cell.
fn trace(columns: &[(String, Value)], turns: &Turns) -> String {
    let names = columns.iter().map(|(name, _)| name.as_str());
    let mut text = format!("block,turn,{}\n", names.collect::<Vec<_>>().join(","));
    for (block, of_block) in turns.iter().enumerate() {
        for (turn, cells) in of_block.iter().enumerate() {
            let cells: Vec<String> = cells.iter().map(u64::to_string).collect();
            let _ = writeln!(text, "{block},{turn},{}", cells.join(","));
        }
    }
    text
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
fn verdict(experiment: Experiment, tried: &[Tried]) -> String {
    let all = tried.len();
    let count = |holds: &dyn Fn(&Tried) -> bool| tried.iter().filter(|it| holds(it)).count();
    let [faster, slower, unclear] =
        ["faster", "slower", "unclear"].map(|word| count(&|it| it.verdict == word));
    match experiment {
        Experiment::Aa => format!(
            "of {all} comparisons of the same, {} had a verdict of a difference and {} an interval without 1, \
             of which 5 in 100 are to be expected; {unclear} were unclear, {} not measured",
            faster + slower,
            count(&|it| it.differs),
            count(&|it| it.verdict == "not_measured")
        ),
        Experiment::Planted => {
            format!(
                "of {all} slowdowns of 5 %, {slower} were found, {faster} told as gains, {unclear} left open"
            )
        }
        Experiment::Drift => format!("{all} verdicts"),
        Experiment::Quickstart => {
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
    fn a_trace_has_a_line_a_turn() {
        let cell = |block: u64, times: [[u64; 3]; 2]| {
            json!({ "launches": [
                { "block": 7, "rounds": [] },
                { "block": block, "rounds": times },
            ] })
        };
        let columns = [
            ("a/b".to_owned(), cell(1, [[3, 1, 2], [6, 5, 4]])),
            ("c/d".to_owned(), cell(1, [[3, 1, 2], [6, 5, 4]])),
            ("a/b again".to_owned(), cell(1, [[7, 8, 9], [1, 1, 1]])),
        ];
        let found = turns(&columns).unwrap();
        let text = "block,turn,a/b,c/d,a/b again\n0,0,2,2,8\n0,1,5,5,1\n";
        assert_eq!(trace(&columns, &found), text);
        let pairs: Vec<_> = pairs(&columns).into_iter().map(|(_, pair)| pair).collect();
        assert_eq!(pairs, [[0, 1], [0, 2]]);
        assert_eq!(gain(&found, 0, 1, 20), "too short to tell");
        let apart = [columns[0].clone(), ("e/f".to_owned(), cell(2, [[1; 3]; 2]))];
        assert!(turns(&apart).is_err());
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
        let said = verdict(Experiment::Aa, &tried);
        assert!(
            said.contains("1 had a verdict of a difference and 1 an interval"),
            "{said}"
        );
        let said = verdict(Experiment::Planted, &tried);
        assert!(
            said.starts_with("of 2 slowdowns of 5 %, 1 were found"),
            "{said}"
        );
        let said = verdict(Experiment::Quickstart, &tried);
        assert!(said.starts_with("of 1 comparisons, 0 turned"), "{said}");
    }
}
