//! pandas reads the samples and finds the medians that the tables print.

use std::{path::PathBuf, process::Command};

use photofinish_aggregate::downloads;

use crate::race::{run, tables};

const CHECK: &str = r#"
import json, sys
import pandas as pd
folder = sys.argv[1]
samples = pd.read_parquet(f"{folder}/samples.parquet")
assert list(samples.columns) == ["job", "cell", "group", "engine", "outcome", "block", "launch", "round", "step", "sample_ns"], samples.columns
assert str(samples["sample_ns"].dtype) == "uint64" and samples["sample_ns"].notna().all()
medians = samples.groupby(["cell", "block"], observed=True)["sample_ns"].median()
rows = pd.read_csv(f"{folder}/cells.csv").set_index("cell")
percentile = samples.groupby("cell", observed=True)["sample_ns"].quantile(0.95)
for cell, row in rows.iterrows():
    assert abs(percentile[cell] - row["p95_ns"]) <= 0.5, (cell, percentile[cell], row["p95_ns"])
for row in json.load(open(f"{folder}/tables.json"))["cells"]:
    for launch in row["launches"]:
        assert abs(medians[row["id"], launch["block"]] - launch["median_ns"]) <= 0.5
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
                "--target",
            ])
            .arg(&folder)
            .args(["pandas==2.3.3", "pyarrow==22.0.0"])
            .status()
            .expect("python3 starts");
        assert!(status.success(), "pip installs pandas and pyarrow");
        std::fs::write(folder.join("done"), "").unwrap();
    }
    folder
}

#[test]
fn pandas_agrees() {
    let tables = tables(&run(4, 6));
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
