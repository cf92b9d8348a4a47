//! By how much interleaving lowers the error of a ratio: traces of engines whose rounds take turns for
//! minutes, and what they come to.

use std::{collections::BTreeMap, fmt::Write as _};

use schema::tables::Interval;
use serde_json::Value;
use statistics::{
    percentile,
    trace::{AGAIN, Gain, Trace},
};

use super::{folder, place, results};
use crate::command::{photofinish, program, read, run, write};

/// Three pairs of engines, each for some minutes: an inference that goes through memory, a training, and
/// an inference of short steps.
const DRIFT: &str = "version: 1
title: Traces of drift
measure: { blocks: 12, rounds: 60, round: 200ms, round_steps: 1, warm_up: 3s, budget: 2h, disturbed: keep, ceilings: false }
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
pub(super) fn trace() -> Result<(), String> {
    let folder = folder("drift")?;
    run(program(photofinish()).args(["engines", "install"]))?;
    let manifest = folder.join("drift.yaml");
    write(&manifest, DRIFT)?;
    let site = folder.join("site");
    let (machine, revision) = place()?;
    let mut bench = program(photofinish());
    bench.args(["bench", "--fresh"]).arg(&manifest);
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
        let twins = twins.map(|twin| (format!("{}{AGAIN}", word(&twin["engine"])), twin));
        let columns: Vec<(String, Value)> = cells.chain(twins).collect();
        let turns = turns(&columns)?;
        let text = format!(
            "# {machine}, revision {revision}\n{}",
            lines(&columns, &turns)
        );
        let file = results()?.join(format!("drift-{id}.csv"));
        write(&file, &text)?;
        println!("{id}: {}", file.display());
        for gain in Trace::parse(&text)?.gains() {
            println!("  {}", told(&gain));
        }
    }
    Ok(())
}

fn told(gain: &Gain) -> String {
    let Gain {
        of,
        turns,
        gain,
        pairs,
    } = gain;
    let times = |gain: &Interval| {
        let (low, high) = (gain.low.unwrap_or(0.0), gain.high.unwrap_or(f64::INFINITY));
        format!("{} times [{low}, {high}]", gain.centre)
    };
    match (gain, pairs) {
        (Some(gain), Some(pairs)) => format!(
            "{of}, {turns} turns: errors back to back are {} those interleaved, and those are {} what pairs of turns make",
            times(gain),
            times(pairs)
        ),
        _ => format!("{of}, {turns} turns: too short to tell"),
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
fn lines(columns: &[(String, Value)], turns: &Turns) -> String {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
        assert_eq!(lines(&columns, &found), text);
        assert!(Trace::parse(text).is_ok());
        let apart = [columns[0].clone(), ("e/f".to_owned(), cell(2, [[1; 3]; 2]))];
        assert!(turns(&apart).is_err());
    }
}
