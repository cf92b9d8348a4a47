//! The worker as a supervisor meets it: the conformance suite, and failures that are typed.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use photofinish_worker_tensorflow::LIBRARY_VARIABLE;
use schema::{
    Boundary, Cell, Device, Graph, HostLanguage, Mode, Outcome, OutcomeKind, Precision,
    VariantDescription,
    graph::Op,
    protocol::{Load, Reply},
};
use worker::{
    WorkerCommand,
    conformance::{Check, CheckResult},
};

use crate::{
    common::{self, cell, fed, load, single},
    subject,
};

const VARIANTS: [&str; 3] = ["graph", "xla", "xla-auto"];

/// The worker, with the library of this folder.
fn command(folder: &Path) -> WorkerCommand {
    WorkerCommand {
        program: PathBuf::from(env!("CARGO_BIN_EXE_photofinish-worker-tensorflow")),
        args: vec![],
        env: BTreeMap::from([(LIBRARY_VARIABLE.to_owned(), folder.display().to_string())]),
    }
}

/// Where the tests find the library: `.cargo/config.toml` says so.
fn installed() -> PathBuf {
    let folder = std::env::var_os(LIBRARY_VARIABLE).expect("run cargo inside the checkout");
    PathBuf::from(folder)
}

#[test]
fn the_conformance_suite_passes() {
    let variant = |name| VariantDescription {
        modes: vec![Mode::Inference, Mode::Training],
        ..subject::variant(name)
    };
    let variants = VARIANTS.map(variant).to_vec();
    let checks = subject::checks(&command(&installed()), "tensorflow", "2.21.0", variants);
    // It runs on CPUs alone, which have no events, and in one process.
    let unsound = |check: &&Check| {
        check.result != CheckResult::Passed && !["device", "ranks"].contains(&check.name)
    };
    let unsound: Vec<_> = checks.iter().filter(unsound).collect();
    assert!(unsound.is_empty(), "{unsound:#?}");
}

#[test]
fn hello_names_the_version_and_the_sources() {
    let hello = subject::hello(&command(&installed()));
    assert_eq!(hello.engine, "tensorflow");
    let version = hello.versions.get("tensorflow").map(String::as_str);
    assert_eq!(version, Some("2.21.0"));
    assert!(hello.worker.is_some());
    assert_eq!(hello.variants, VARIANTS);
}

/// What a started worker says to `load` with the library of this folder.
fn answer(folder: &Path) -> Result<Reply, Outcome> {
    let graph = relu();
    let load = Load {
        cell: cell(&graph, Precision::Fp32, None),
        graph,
        files: None,
        scratch: std::env::temp_dir(),
    };
    let (hello, answer) = subject::answer(&command(folder), load);
    assert!(hello.versions.is_empty(), "{:?}", hello.versions);
    answer
}

/// The library is never looked for elsewhere: another one would be measured under this name.
#[test]
fn a_library_that_cannot_be_loaded_is_unavailable() {
    let folder = tempfile::tempdir().unwrap();
    let garbage = folder.path().join("garbage");
    std::fs::create_dir(&garbage).unwrap();
    std::fs::write(garbage.join("libtensorflow.so"), "not a library").unwrap();
    // A library, but another one: this process's C library is at hand.
    let other = folder.path().join("other");
    std::fs::create_dir(&other).unwrap();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let libc = maps
        .lines()
        .filter_map(|line| line.split_whitespace().last())
        .find(|path| path.contains("libc.so"))
        .unwrap();
    std::os::unix::fs::symlink(libc, other.join("libtensorflow.so")).unwrap();
    let missing = folder.path().join("missing");
    for path in [&garbage, &other, &missing, Path::new("tensorflow")] {
        let outcome = answer(path).unwrap_err();
        assert_eq!(outcome.kind, OutcomeKind::Unavailable, "{outcome:?}");
        let named = path.display().to_string();
        assert!(outcome.reason.contains(&named), "{outcome:?}");
    }
}

fn relu() -> Graph {
    single(Op::Relu, &[fed("x", &[2])])
}

/// How the load of `graph` ends after `change` to its cell.
fn refusal(graph: &Graph, change: impl FnOnce(&mut Cell)) -> (OutcomeKind, String) {
    let mut cell = cell(graph, Precision::Fp32, None);
    change(&mut cell);
    let outcome = load(graph, cell).err().expect("a refusal");
    (outcome.kind, outcome.reason)
}

#[test]
fn what_is_not_run_is_unsupported_by_name() {
    let factor = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
    type Change = Box<dyn FnOnce(&mut Cell)>;
    let (layout, thawed) = (factor("layout", "nchw"), factor("weights", "thawed"));
    let cases: Vec<(Change, &str)> = vec![
        (
            Box::new(|cell| cell.engine.variant = "eager".to_owned()),
            "tensorflow/eager",
        ),
        (
            Box::new(|cell| cell.engine.engine = "pytorch".to_owned()),
            "pytorch/graph",
        ),
        (
            Box::new(|cell| cell.host_language = HostLanguage::Python),
            "Rust",
        ),
        (Box::new(|cell| cell.world_size = 2), "world_size"),
        (
            Box::new(|cell| cell.boundary = Boundary::Device),
            "boundary `device` is not implemented; known: `step`, `request`",
        ),
        (Box::new(|cell| cell.threads = 0), "threads"),
        (Box::new(|cell| cell.precision = Precision::Tf32), "tf32"),
        (Box::new(|cell| cell.precision = Precision::Bf16), "bf16"),
        (Box::new(move |cell| cell.factors = layout), "layout"),
        (Box::new(move |cell| cell.factors = thawed), "thawed"),
        (Box::new(|cell| cell.mode = Mode::Training), "optimizer"),
    ];
    for (change, named) in cases {
        let (kind, reason) = refusal(&relu(), change);
        assert_eq!(kind, OutcomeKind::Unsupported, "{reason}");
        assert!(reason.contains(named), "`{named}` is not in: {reason}");
    }
}

#[test]
fn a_device_that_is_not_there_is_unavailable() {
    let (kind, reason) = refusal(&relu(), |cell| cell.device = Device::Cuda(0));
    assert_eq!(kind, OutcomeKind::Unavailable, "{reason}");
    assert!(reason.contains("cuda:0"), "{reason}");
}

#[test]
fn a_wrong_graph_is_refused_and_its_node_named() {
    let mut graph = relu();
    graph.nodes[0].inputs = vec!["nothing".to_owned()];
    let (kind, reason) = refusal(&graph, |_| ());
    assert_eq!(kind, OutcomeKind::Unsupported, "{reason}");
    assert!(
        reason.contains("node0") && reason.contains("nothing"),
        "{reason}"
    );
}

/// 4 TiB: more than any machine gives.
#[test]
fn out_of_memory_is_said_by_that_name_and_survived() {
    let graph = single(Op::Add, &[fed("x", &[1 << 20, 1]), fed("y", &[1, 1 << 20])]);
    let (mut session, _) = load(&graph, cell(&graph, Precision::Fp32, None)).unwrap();
    for _ in 0..2 {
        let outcome = session.step().unwrap_err();
        assert_eq!(outcome.kind, OutcomeKind::OutOfMemory, "{outcome:?}");
        assert!(outcome.reason.contains("node0"), "{outcome:?}");
    }
}

#[test]
fn frozen_weights_that_no_graph_can_hold_are_refused() {
    let mut graph = single(
        Op::Gather,
        &[
            common::held("table", &[1 << 18, 1 << 11]),
            common::indices("i", &[1], 4),
        ],
    );
    let frozen = BTreeMap::from([("weights".to_owned(), "frozen".to_owned())]);
    let (kind, reason) = refusal(&graph, |cell| cell.factors = frozen.clone());
    assert_eq!(kind, OutcomeKind::Unsupported, "{reason}");
    assert!(reason.contains("weights: variables"), "{reason}");
    graph.parameters[0].shape = vec![4, 4];
    let mut cell = cell(&graph, Precision::Fp32, None);
    cell.factors = frozen;
    let (_session, report) = load(&graph, cell).unwrap();
    assert_eq!(report.settings["weights"], "constants");
}

#[test]
fn weights_are_where_a_user_of_the_variant_has_them() {
    let graph = single(Op::Add, &[fed("x", &[2]), common::held("w", &[2])]);
    for (variant, expected) in [
        ("graph", "constants"),
        ("xla", "variables"),
        ("xla-auto", "variables"),
    ] {
        let mut cell = cell(&graph, Precision::Fp32, None);
        cell.engine.variant = variant.to_owned();
        let (_session, report) = load(&graph, cell).unwrap();
        assert_eq!(report.settings["weights"], expected, "{variant}");
    }
}

#[test]
fn the_report_tells_what_is_in_force() {
    let mut cell = cell(&relu(), Precision::Fp64, None);
    cell.threads = 2;
    cell.engine.variant = "xla".to_owned();
    let (_session, report) = load(&relu(), cell).unwrap();
    assert_eq!(report.settings["intra-op threads"], "2");
    assert_eq!(report.settings["inter-op threads"], "1");
    assert_eq!(report.settings["element type"], "double");
    assert!(report.settings["XLA"].contains("whole"));
    assert!(!report.spin.is_empty());
}
