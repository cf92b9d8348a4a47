//! pandas reads the samples and finds the medians that the tables print, and the noise floors.

use std::{path::PathBuf, process::Command};

use photofinish_aggregate::downloads;
use synthetic::Size;

use crate::race::tables;

const CHECK: &str = r#"
import json, math, sys
from statistics import median
import pandas as pd
folder = sys.argv[1]
samples = pd.read_parquet(f"{folder}/samples.parquet")
assert list(samples.columns) == ["job", "cell", "group", "engine", "outcome", "twin", "block", "launch", "round", "step", "sample_ns"], samples.columns
assert str(samples["sample_ns"].dtype) == "uint64" and samples["sample_ns"].notna().all()
of_twins = samples
samples = samples[samples["twin"] == 0]
medians = samples.groupby(["cell", "block"], observed=True)["sample_ns"].median()
rows = pd.read_csv(f"{folder}/cells.csv").set_index("cell")
percentile = samples.groupby("cell", observed=True)["sample_ns"].quantile(0.95)
for cell, row in rows.iterrows():
    assert abs(percentile[cell] - row["p95_ns"]) <= 0.5, (cell, percentile[cell], row["p95_ns"])
for row in json.load(open(f"{folder}/tables.json"))["cells"]:
    for launch in row["launches"]:
        assert abs(medians[row["id"], launch["block"]] - launch["median_ns"]) <= 0.5

# Floors from the samples alone, as the page on method has it. All heats have six blocks.
T5 = 2.570582
# The 20th percentile of χ² with 5 degrees of freedom.
CHI5 = 2.342534
cells = rows[["device"]]
of_twins = of_twins.join(cells, on="cell")
owner = ["job", "engine", "device"]
rounds = of_twins.groupby(owner + ["group", "cell", "twin", "block", "round"], observed=True)["sample_ns"].median()
floors = pd.read_csv(f"{folder}/floors.csv").set_index(owner)
found = {}
for (*key, twin, block), of_twin in rounds.groupby(level=list(range(7)), observed=True):
    if twin > 0:
        job, engine, device, group, cell = key
        logs = found.setdefault((job, engine, device), {}).setdefault((group, cell, twin), [])
        of_cell = rounds[(*key, 0, block)]
        logs.append(median(math.log(time / of_cell[round]) for (*_, round), time in of_twin.items()))
assert set(found) == set(floors.index), (found, floors)
for key, pairs in found.items():
    row = floors.loc[key]
    logs = [log for pair in pairs.values() for log in pair]
    n, mean = len(logs), sum(logs) / len(logs)
    assert (n, len(pairs)) == (6, 1) == (row["blocks"], row["pairs"]), (key, pairs)
    half = T5 * math.sqrt(sum((log - mean) ** 2 for log in logs) / (n - 1) / n)
    ends = (math.exp(mean - half), math.exp(mean + half))
    # What whole nanoseconds may hide is far below this.
    near = lambda a, b: abs(a - b) <= 2e-5
    assert near(ends[0], row["ratio_low"]) and near(ends[1], row["ratio_high"]), (key, ends, row)
    assert near(max(ends[1], 1 / ends[0], math.exp(abs(mean))) - 1, row["floor"]), (key, ends, row)
    launches = math.sqrt(sum(log * log for log in logs) / n / 2)
    assert near(launches, row["between_launches"]), (key, launches, row)
    scatter = math.sqrt(sum((log - mean) ** 2 for log in logs) / CHI5 / 2)
    assert near(scatter, row["launch_scatter"]), (key, scatter, row)
print(len(samples))
"#;

/// Installed once, below `target`.
fn packages() -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("pandas");
    if !folder.join("done").exists() {
        let status = Command::new("python3")
            .args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--only-binary=:all:",
                "--no-deps",
                "--target",
            ])
            .arg(&folder)
            .args(["pandas==2.3.3", "pyarrow==22.0.0"])
            // What pandas needs.
            .args(["numpy==2.4.6", "python-dateutil==4.0.0"])
            .args(["pytz==2026.6", "tzdata==2026.6"])
            .status()
            .expect("python3 starts");
        assert!(status.success(), "pip installs pandas and pyarrow");
        std::fs::write(folder.join("done"), "").unwrap();
    }
    folder
}

#[test]
fn pandas_agrees() {
    // Rounds enough for pairs of them.
    let tables = tables(&synthetic::run(Size {
        cells: 8,
        blocks: 6,
        rounds: 3,
        samples: 3,
    }));
    let folder = tempfile::tempdir().unwrap();
    let mut samples = 0;
    for download in downloads(&tables).unwrap() {
        std::fs::write(folder.path().join(&download.file), &download.bytes).unwrap();
    }
    for row in &tables.cells {
        samples += row.speed.as_ref().unwrap().samples;
    }
    let output = Command::new("python3")
        .args(["-c", CHECK])
        .arg(folder.path())
        .env("PYTHONPATH", packages())
        .output()
        .expect("python3 starts");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(
        String::from_utf8_lossy(&output.stdout).trim(),
        samples.to_string()
    );
}
