//! The manifests that ship: each can be planned with the engines that ship.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod common;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use common::text;
use schema::plan::PlannedCell;
use serde_json::Value;

#[test]
fn every_manifest_that_ships_is_planned() {
    let jobs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../jobs");
    let folder = tempfile::tempdir().unwrap();
    let mut planned = 0;
    for place in [jobs.clone(), jobs.join("seeds")] {
        for entry in fs::read_dir(place).unwrap() {
            let manifest = entry.unwrap().path();
            if manifest.extension().is_none_or(|ending| ending != "yaml") {
                continue;
            }
            let output = Command::new(env!("CARGO_BIN_EXE_photofinish"))
                .arg("plan")
                .arg(&manifest)
                .arg("--store")
                .arg(folder.path().join("store"))
                .env("PHOTOFINISH_CONFIG", folder.path())
                .output()
                .unwrap();
            let said = text(&output);
            assert!(output.status.success(), "{}: {said}", manifest.display());
            assert!(said.contains(" cells in "), "{said}");
            planned += 1;
        }
    }
    assert!(planned >= 13, "{planned}");
}

/// What was recorded somewhere gives its site here, and no cell of it failed.
#[test]
fn every_recorded_run_gives_its_site() {
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../jobs/recorded");
    let folder = tempfile::tempdir().unwrap();
    let bundles = fs::read_dir(recorded)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let is_bundle = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "zst");
    let mut rendered = 0;
    for bundle in bundles.filter(is_bundle) {
        let output = Command::new(env!("CARGO_BIN_EXE_photofinish"))
            .args(["report", "--output-format", "json", "--bundle"])
            .arg(&bundle)
            .arg("--out")
            .arg(folder.path().join(format!("site-{rendered}")))
            .env("PHOTOFINISH_CONFIG", folder.path())
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}: {}",
            bundle.display(),
            text(&output)
        );
        let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(
            summary["failures"],
            serde_json::json!([]),
            "{}",
            bundle.display()
        );
        assert_eq!(
            summary["heats"],
            summary["sealed_heats"],
            "{}",
            bundle.display()
        );
        rendered += 1;
    }
    assert!(rendered >= 1, "{rendered}");
}

/// A precision that TensorFlow mixes stands beside one that it does not.
#[test]
fn fp32_is_compared_with_the_mixed_precision_of_an_engine() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = folder.path().join("mixed.yaml");
    for asked in ["", ", mixed_precision: \"on\""] {
        let matrix = format!(
            "model: resnet18, batch: 8, precision: [fp32, bf16], engine: tensorflow/graph{asked}"
        );
        let job = format!(
            "version: 1
jobs:
  - id: mixed
    matrix: {{ {matrix} }}
    compare: {{ axis: precision, baseline: fp32 }}
"
        );
        fs::write(&manifest, job).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_photofinish"))
            .args(["plan", "--output-format", "json"])
            .arg(&manifest)
            .arg("--store")
            .arg(folder.path().join("store"))
            .env("PHOTOFINISH_CONFIG", folder.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", text(&output));
        let plan: schema::Plan = serde_json::from_slice(&output.stdout).unwrap();
        let cells = plan.heats.iter().flat_map(|heat| &heat.cells);
        let cells = cells.filter(|cell| cell.twin_of.is_none());
        let mixed = |cell: &PlannedCell| {
            assert_eq!(cell.obstacle, None);
            let factor = cell.cell.factors.get("mixed_precision");
            (cell.cell.precision.word(), factor.cloned())
        };
        let told: Vec<_> = cells.map(mixed).collect();
        assert_eq!(told, [("fp32", None), ("bf16", Some("on".to_owned()))]);
        assert_eq!(plan.jobs[0].comparisons[0].pairs.len(), 1);
        assert_eq!(plan.warnings, []);
    }
}
