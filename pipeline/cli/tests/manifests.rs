//! The manifests that ship: each can be planned with the engines that ship.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod common;

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use common::text;
use schema::{SCALING, plan::PlannedCell};
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

/// What the program prints with these arguments, in a folder of its own configuration.
fn printed(folder: &Path, arguments: &[&OsStr]) -> Vec<u8> {
    let output = Command::new(env!("CARGO_BIN_EXE_photofinish"))
        .args(arguments)
        .env("PHOTOFINISH_CONFIG", folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", text(&output));
    output.stdout
}

/// The plan of a manifest, nothing of it measured.
fn planned(folder: &Path, manifest: &Path) -> schema::Plan {
    let store = folder.join("store");
    let [plan, format, json, place] =
        ["plan", "--output-format", "json", "--store"].map(OsStr::new);
    let arguments = [plan, format, json, manifest.as_ref(), place, store.as_ref()];
    serde_json::from_slice(&printed(folder, &arguments)).unwrap()
}

/// What a seed is called, without its ending.
fn name(path: &Path) -> String {
    let name = path.file_name().unwrap().to_string_lossy();
    name.split('.').next().unwrap_or_default().to_owned()
}

/// The comment before a manifest.
fn head(manifest: &Path) -> String {
    let text = fs::read_to_string(manifest).unwrap();
    let lines = text.lines().take_while(|line| line.starts_with('#'));
    let words: Vec<&str> = lines
        .map(|line| line.trim_start_matches(['#', ' ']))
        .collect();
    words.join(" ")
}

/// The time of a seed for a CPU, by prediction: within the hour that its head promises.
const HOUR_NS: u64 = 3_600_000_000_000;

#[test]
fn every_manifest_that_ships_is_planned() {
    let folder = tempfile::tempdir().unwrap();
    let plan = |manifest: &Path| planned(folder.path(), manifest);
    let (own, seeds) = (files(&jobs(), "yaml"), files(&jobs().join("seeds"), "yaml"));
    assert_eq!((own.len(), seeds.len()), (15, 23));
    for manifest in own {
        assert!(!plan(&manifest).heats.is_empty(), "{}", manifest.display());
    }
    for manifest in seeds {
        let name = manifest.display();
        let plan = plan(&manifest);
        let told: Vec<&str> = plan.warnings.iter().map(|known| &*known.message).collect();
        let unfair: Vec<&&str> = told.iter().filter(|told| told.contains("fair")).collect();
        assert!(unfair.is_empty(), "{name}: {unfair:?}");
        assert!(plan.jobs.iter().any(|job| !job.claims.is_empty()), "{name}");
        let idle = told.iter().find(|told| told.contains("speaks of no"));
        assert_eq!(idle, None, "{name}");
        for claim in plan.jobs.iter().flat_map(|job| &job.claims) {
            assert!(
                !claim.source.is_empty() && !claim.states.is_empty(),
                "{name}"
            );
        }
        let is_for_cpu = name.to_string().ends_with("-cpu.yaml");
        let mut cells = plan.heats.iter().flat_map(|heat| &heat.cells);
        assert!(
            cells.all(|cell| cell.cell.device.is_cpu() == is_for_cpu),
            "{name}"
        );
        if is_for_cpu {
            are_in_the_table(&plan, &sizes(&manifest), &name.to_string());
        }
        // Ceilings among them.
        let predicted = plan.distinct_heats().map(|heat| heat.predicted_ns);
        let predicted = predicted.sum::<u64>();
        // Half as wide, vectors take twice as long: predictions are of the machine that plans.
        if is_for_cpu && std::arch::is_x86_feature_detected!("avx512f") {
            assert!(predicted < HOUR_NS, "{name}: {predicted} ns");
        }
    }
}

/// The table of sizes in the comment before a manifest: numbers by network.
fn sizes(manifest: &Path) -> BTreeMap<String, BTreeSet<u64>> {
    let text = fs::read_to_string(manifest).unwrap();
    let rows = text.lines().map_while(|line| line.strip_prefix('#'));
    let rows = rows.filter_map(|row| row.trim().split_once(' '));
    let zoo = models::zoo::names();
    rows.filter(|(network, _)| zoo.contains(network))
        .map(|(network, row)| {
            let numbers = row.split(|mark: char| !mark.is_ascii_digit());
            let numbers = numbers.filter_map(|number| number.parse().ok());
            (network.to_owned(), numbers.collect())
        })
        .collect()
}

/// Whether the table names the networks of a plan, all and no others, and each of their sizes.
fn are_in_the_table(plan: &schema::Plan, table: &BTreeMap<String, BTreeSet<u64>>, manifest: &str) {
    let cells = plan.heats.iter().flat_map(|heat| &heat.cells);
    let zoo = models::zoo::names();
    let is_sought = plan.jobs.iter().any(|job| job.measure.frontier.is_some());
    let mut networks = BTreeSet::new();
    for PlannedCell { cell, .. } in cells {
        let network = &cell.model.name;
        // Ceilings are none.
        if !zoo.contains(&network.as_str()) {
            continue;
        }
        networks.insert(network.clone());
        // Sought, or what a worker has of it.
        let is_open = cell.factors.contains_key(SCALING) || is_sought;
        for (dim, size) in &cell.dims {
            let is_there = table.get(network).is_some_and(|row| row.contains(size));
            assert!(
                is_there || (dim == "batch" && is_open),
                "{manifest}: {dim} {size} of {network} is not in its table of sizes"
            );
        }
    }
    let named: BTreeSet<String> = table.keys().cloned().collect();
    assert_eq!(named, networks, "{manifest}");
}

/// Whoever has no GPU asks the same of two cores, at the sizes that the head names.
#[test]
fn every_seed_for_a_gpu_has_a_twin_for_a_cpu() {
    let seeds = files(&jobs().join("seeds"), "yaml");
    let names: Vec<String> = seeds.iter().map(|path| name(path)).collect();
    for (seed, manifest) in names.iter().zip(&seeds) {
        let head = head(manifest);
        if seed.ends_with("-cpu") {
            assert!(head.contains("network  "), "{seed} has no table of sizes");
            continue;
        }
        let twin = format!("{seed}-cpu");
        assert!(names.contains(&twin), "{twin} is not there");
        assert!(head.contains(&twin), "{seed} does not name {twin}");
    }
}

/// What a line of the recorded runs' README that starts so names.
fn listed<'a>(readme: &'a str, start: &str) -> BTreeSet<&'a str> {
    let line = readme.lines().find_map(|line| line.strip_prefix(start));
    // Every other part is between two marks of code.
    let parts = line.into_iter().flat_map(|line| line.split('`'));
    parts.skip(1).step_by(2).collect()
}

/// A run answers the manifest of its name as it is today, or the README says that it does not.
#[test]
fn recorded_runs_are_of_their_manifests_or_listed() {
    let readme = fs::read_to_string(jobs().join("recorded/README.md")).unwrap();
    let (own, seeds) = (jobs(), jobs().join("seeds"));
    let mut other = BTreeSet::new();
    for bundle in files(&jobs().join("recorded"), "zst") {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("store");
        let [bundled, open, store] = ["bundle", "open", "--store"].map(OsStr::new);
        printed(
            folder.path(),
            &[bundled, open, bundle.as_ref(), store, place.as_ref()],
        );
        let store = store::Store::open(&place).unwrap();
        let (_, run) = store.latest_run().unwrap().unwrap();
        let file = format!("{}.yaml", name(&bundle));
        let folders = [&own, &seeds];
        let text = folders
            .into_iter()
            .find_map(|folder| fs::read_to_string(folder.join(&file)).ok());
        let texts = run.plan.manifests.iter().map(|it| Some(it.text.as_str()));
        if !texts.eq([text.as_deref()]) {
            other.insert(name(&bundle));
        }
    }
    let other: BTreeSet<&str> = other.iter().map(String::as_str).collect();
    assert_eq!(
        other,
        listed(&readme, "Of another manifest than the one of today: ")
    );
}

/// What was recorded somewhere gives its site here, and no cell of it failed.
#[test]
fn every_recorded_run_gives_its_site() {
    let folder = tempfile::tempdir().unwrap();
    let bundles = files(&jobs().join("recorded"), "zst");
    let names: Vec<String> = bundles.iter().map(|path| name(path)).collect();
    let seeds = files(&jobs().join("seeds"), "yaml");
    // What is still to be measured on a quiet machine is said where the others are listed.
    let readme = fs::read_to_string(jobs().join("recorded/README.md")).unwrap();
    let owed = listed(&readme, "Not recorded yet: ");
    for seed in seeds.iter().map(|path| name(path)) {
        let is_due = seed.ends_with("-cpu");
        let is_owed = owed.contains(seed.as_str());
        assert_eq!(is_owed, is_due && !names.contains(&seed), "{seed}");
    }
    for (rendered, bundle) in bundles.iter().enumerate() {
        let site = folder.path().join(format!("site-{rendered}"));
        let [report, format, json, from, to] =
            ["report", "--output-format", "json", "--bundle", "--out"].map(OsStr::new);
        let arguments = [
            report,
            format,
            json,
            from,
            bundle.as_ref(),
            to,
            site.as_ref(),
        ];
        let printed = printed(folder.path(), &arguments);
        let summary: Value = serde_json::from_slice(&printed).unwrap();
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
        let plan = planned(folder.path(), &manifest);
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

/// Cells that no launch can run, each with a part of the reason that its plan shall give.
const NEVER: &str = "version: 1
measure: { ceilings: false }
jobs:
  - id: xla
    matrix: { model: bert_tiny, precision: bf16, engine: [tensorflow/keras, tensorflow/function], jit_compile: [off, on] }
  - id: keras
    matrix: { model: bert_tiny, precision: bf16, engine: tensorflow/keras }
  - id: frozen
    mode: training
    matrix: { model: resnet18, engine: [tensorflow/graph, tensorflow/xla, tensorflow/xla-auto], weights: [auto, frozen] }
  - id: parts
    mode: training
    matrix: { model: bert_tiny, batch: [3, 4], engine: [transformers/model, transformers/trainer], gradient_accumulation: [1, 2] }
  - id: levels
    matrix: { model: resnet18, precision: [fp32, int8-static], engine: onnxruntime/cpu, optimization: [all, extended, basic, off] }
  - id: graphs
    matrix: { model: bert_tiny, engine: pytorch/compiled, compile_mode: [default, reduce-overhead] }
  - id: classes
    matrix: { model: [transformer_base, resnet18, bert_tiny], engine: [transformers/model, transformers/onnxruntime] }
  - id: softmax
    matrix: { model: [vit_b16, bert_tiny], engine: [transformers/model, transformers/pipeline], precision: [fp64, fp32], attention: [fused, plain] }
";

#[test]
fn what_no_launch_can_run_is_told_by_the_plan() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = folder.path().join("never.yaml");
    fs::write(&manifest, NEVER).unwrap();
    let plan = planned(folder.path(), &manifest);
    for (job, refused, of, reason) in [
        ("xla", 2, 4, "give `jit_compile: off`"),
        ("keras", 0, 1, ""),
        ("frozen", 3, 6, "frozen weights cannot be trained"),
        ("parts", 2, 8, "cannot be split into 2 equal parts"),
        ("levels", 2, 8, "below `optimization: extended`"),
        ("graphs", 1, 2, "of which a CPU has none"),
        ("classes", 4, 6, "of the zoo it runs `bert_base`"),
        ("softmax", 2, 16, "`attention: plain` is not fp64"),
    ] {
        let heats = plan.heats.iter().filter(|heat| heat.job == job);
        let cells: Vec<&PlannedCell> = heats.flat_map(|heat| &heat.cells).collect();
        let told: Vec<_> = cells
            .iter()
            .filter_map(|cell| cell.obstacle.as_ref())
            .filter(|obstacle| obstacle.kind == schema::OutcomeKind::Unsupported)
            .collect();
        assert_eq!((told.len(), cells.len()), (refused, of), "{job}: {told:?}");
        for obstacle in told {
            assert!(obstacle.reason.contains(reason), "{job}: {obstacle:?}");
        }
    }
}
