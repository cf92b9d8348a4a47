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

/// The folder of the manifests.
fn jobs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../jobs")
}

/// Files of a folder with an ending.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|found| found == ending))
        .collect();
    paths.sort();
    paths
}

/// The time of a seed for a CPU, by prediction: within the hour that its head promises.
const HOUR_NS: u64 = 3_600_000_000_000;

#[test]
fn every_manifest_that_ships_is_planned() {
    let folder = tempfile::tempdir().unwrap();
    let plan = |manifest: &Path| -> schema::Plan {
        let output = Command::new(env!("CARGO_BIN_EXE_photofinish"))
            .args(["plan", "--output-format", "json"])
            .arg(manifest)
            .arg("--store")
            .arg(folder.path().join("store"))
            .env("PHOTOFINISH_CONFIG", folder.path())
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}: {}",
            manifest.display(),
            text(&output)
        );
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let (own, seeds) = (files(&jobs(), "yaml"), files(&jobs().join("seeds"), "yaml"));
    assert_eq!((own.len(), seeds.len()), (5, 12));
    for manifest in own {
        assert!(!plan(&manifest).heats.is_empty(), "{}", manifest.display());
    }
    for manifest in seeds {
        let name = manifest.display();
        let plan = plan(&manifest);
        let told: Vec<&str> = plan.warnings.iter().map(|known| &*known.message).collect();
        let unfair: Vec<&&str> = told.iter().filter(|told| told.contains("fair")).collect();
        assert!(unfair.is_empty(), "{name}: {unfair:?}");
        let claims = plan.jobs.iter().map(|job| job.claims.len());
        assert!(claims.sum::<usize>() > 0, "{name}");
        let predicted = plan.heats.iter().map(|heat| heat.predicted_ns).sum::<u64>();
        if name.to_string().ends_with("-cpu.yaml") {
            assert!(predicted < HOUR_NS, "{name}: {predicted} ns");
        }
    }
}

/// What was recorded somewhere gives its site here, and no cell of it failed.
#[test]
fn every_recorded_run_gives_its_site() {
    let folder = tempfile::tempdir().unwrap();
    let bundles = files(&jobs().join("recorded"), "zst");
    let name = |path: &Path| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.split('.').next().unwrap_or_default().to_owned()
    };
    let names: Vec<String> = bundles.iter().map(|path| name(path)).collect();
    let seeds = files(&jobs().join("seeds"), "yaml");
    for seed in seeds.iter().map(|path| name(path)) {
        // These two are not recorded yet.
        let is_due = seed.ends_with("-cpu") && !seed.starts_with("transformers");
        assert!(!is_due || names.contains(&seed), "{seed} is not recorded");
    }
    for (rendered, bundle) in bundles.iter().enumerate() {
        let output = Command::new(env!("CARGO_BIN_EXE_photofinish"))
            .args(["report", "--output-format", "json", "--bundle"])
            .arg(bundle)
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
    }
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
