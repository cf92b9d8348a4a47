//! The worker as a supervisor meets it: the conformance suite, and failures that are typed.

#![allow(clippy::unwrap_used, reason = "a test may")]

mod common;
#[path = "../../onnxruntime/tests/support/subject.rs"]
#[expect(dead_code, reason = "these tests use a part of it")]
mod subject;

use std::{
    collections::BTreeMap,
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use common::{cell, load, operand, single};
use schema::{
    Boundary, Cell, Device, Graph, HostLanguage, Mode, OutcomeKind, Precision, Strategy,
    VariantDescription,
    graph::Op,
    protocol::{Load, Measure, Reply, Request},
};
use worker::{
    WorkerCommand,
    conformance::{Check, CheckResult},
    host::{Host, Interrupt, Limits},
};

fn command() -> WorkerCommand {
    WorkerCommand {
        program: PathBuf::from(env!("CARGO_BIN_EXE_photofinish-worker-torch")),
        args: vec![],
        env: BTreeMap::new(),
    }
}

#[test]
fn the_conformance_suite_passes() {
    let variant = VariantDescription {
        devices: vec!["cpu".to_owned(), "cuda".to_owned()],
        modes: vec![Mode::Inference, Mode::Training],
        boundaries: Boundary::ALL.to_vec(),
        strategies: vec![Strategy::Single, Strategy::Ddp],
        ..subject::variant("eager")
    };
    let checks = subject::checks(&command(), "pytorch", "2.11.0", vec![variant]);
    let unsound = |check: &&Check| match &check.result {
        CheckResult::Passed => false,
        // Where there is no GPU.
        CheckResult::Skipped(reason) => check.name != "device" || !reason.contains("cuda:0"),
        CheckResult::Failed(_) => true,
    };
    let unsound: Vec<_> = checks.iter().filter(unsound).collect();
    assert!(unsound.is_empty(), "{unsound:#?}");
}

#[test]
fn hello_names_the_version_and_the_sources() {
    let hello = subject::hello(&command());
    assert_eq!(hello.engine, "pytorch");
    assert_eq!(
        hello.versions.get("torch").map(String::as_str),
        Some("2.11.0")
    );
    assert!(hello.worker.is_some());
    assert_eq!(hello.variants, ["eager", "aot"]);
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
    let graph = single(Op::Relu, &[operand("x", &[2])]);
    let factor = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
    type Change = Box<dyn FnOnce(&mut Cell)>;
    let (autotune, diagonal) = (factor("autotune", "on"), factor("layout", "diagonal"));
    let (spin, arena) = (factor("spin", "on"), factor("allocator", "arena"));
    let unknown = factor("haste", "on");
    let cases: Vec<(Change, &str)> = vec![
        (
            Box::new(|cell| cell.engine.variant = "compiled".to_owned()),
            "pytorch/compiled",
        ),
        (
            Box::new(|cell| cell.engine.engine = "tensorflow".to_owned()),
            "tensorflow/eager",
        ),
        (
            Box::new(|cell| cell.host_language = HostLanguage::Python),
            "Rust",
        ),
        (Box::new(|cell| cell.world_size = 2), "world_size"),
        (
            Box::new(|cell| cell.boundary = Boundary::Device),
            "boundary `device` is between events of a GPU; the device is cpu",
        ),
        (Box::new(|cell| cell.threads = 0), "threads"),
        (Box::new(|cell| cell.precision = Precision::Tf32), "tf32"),
        (
            Box::new(move |cell| cell.factors = autotune),
            "`autotune` is about cuDNN's convolutions",
        ),
        (
            Box::new(move |cell| cell.factors = spin),
            "spin is `on`; known: `default`, `off`",
        ),
        (
            Box::new(move |cell| cell.factors = unknown),
            "`haste` is not",
        ),
        (Box::new(move |cell| cell.factors = diagonal), "diagonal"),
        (
            Box::new(move |cell| cell.factors = arena),
            "allocator is `arena`; known: `system`, `keep`",
        ),
        (Box::new(|cell| cell.mode = Mode::Training), "optimizer"),
    ];
    for (change, named) in cases {
        let (kind, reason) = refusal(&graph, change);
        assert_eq!(kind, OutcomeKind::Unsupported, "{reason}");
        assert!(reason.contains(named), "`{named}` is not in: {reason}");
    }
}

/// Minor page faults of a process so far (proc_pid_stat(5)).
fn faults(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    fields.split(' ').nth(7).unwrap().parse().unwrap()
}

/// Page faults of a step that makes 64 MiB.
fn faults_of_a_step(allocator: &str) -> u64 {
    const STEPS: u64 = 8;
    let graph = single(Op::Relu, &[operand("x", &[16, 1 << 20])]);
    let mut cell = cell(&graph, Precision::Fp32, None);
    cell.factors = BTreeMap::from([("allocator".to_owned(), allocator.to_owned())]);
    let scratch = tempfile::tempdir().unwrap();
    let load = Load {
        cell,
        graph,
        files: None,
        scratch: scratch.path().to_owned(),
    };
    let steps = Measure {
        discard: 2,
        min_steps: STEPS,
        min_ns: 0,
        max_steps: STEPS,
    };
    let interrupt = Interrupt::new().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut host = Host::start(&command(), &Limits::default(), &interrupt).unwrap();
    host.hello(deadline).unwrap();
    let loaded = host.request(&Request::Load(Box::new(load)), deadline);
    assert!(matches!(loaded, Ok(Reply::Loaded(_))), "{loaded:?}");
    host.request(&Request::Measure(steps), deadline).unwrap();
    let before = faults(host.pid());
    host.request(&Request::Measure(steps), deadline).unwrap();
    let taken = faults(host.pid()) - before;
    assert_eq!(host.finish(deadline).outcome, None);
    taken / STEPS
}

#[test]
fn memory_that_is_kept_is_not_paid_for_again() {
    // Pages are of 2 MiB at most where they are of 4 KiB at least. The kernel may take some away of itself.
    let system = faults_of_a_step("system");
    let kept = faults_of_a_step("keep");
    assert!(system >= 30 && kept * 8 < system, "{kept} {system}");
}

/// What the worker of a cell that asks `spin` tells of its idle threads, started for `told` where that is another.
fn idle_threads(spin: &str, told: &str) -> Result<String, (OutcomeKind, String)> {
    let graph = single(Op::Relu, &[operand("x", &[2])]);
    let asked = |value: &str| Cell {
        factors: BTreeMap::from([("spin".to_owned(), value.to_owned())]),
        ..cell(&graph, Precision::Fp32, None)
    };
    let scratch = tempfile::tempdir().unwrap();
    let load = Load {
        cell: asked(spin),
        graph: graph.clone(),
        files: None,
        scratch: scratch.path().to_owned(),
    };
    let interrupt = Interrupt::new().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let command = command().for_cell(&asked(told));
    let mut host = Host::start(&command, &Limits::default(), &interrupt).unwrap();
    host.hello(deadline).unwrap();
    let loaded = host.request(&Request::Load(Box::new(load)), deadline);
    assert_eq!(host.finish(deadline).outcome, None);
    match loaded {
        Ok(Reply::Loaded(loaded)) => Ok(loaded.spin),
        Ok(other) => panic!("{other:?}"),
        Err(outcome) => Err((outcome.kind, outcome.reason)),
    }
}

#[test]
fn idle_threads_wait_as_the_launch_has_it() {
    assert_eq!(
        idle_threads("off", "off").as_deref(),
        Ok("OMP_WAIT_POLICY=passive")
    );
    let usual = idle_threads("default", "default").unwrap();
    assert!(usual.contains("default"), "{usual}");
    for (spin, told) in [("off", "default"), ("default", "off")] {
        let (kind, reason) = idle_threads(spin, told).unwrap_err();
        assert_eq!(kind, OutcomeKind::Unavailable, "{reason}");
        assert!(reason.contains("OMP_WAIT_POLICY=passive"), "{reason}");
    }
}

#[test]
fn a_device_that_is_not_there_is_unavailable() {
    let graph = single(Op::Relu, &[operand("x", &[2])]);
    let (kind, reason) = refusal(&graph, |cell| cell.device = Device::Cuda(9999));
    assert_eq!(kind, OutcomeKind::Unavailable, "{reason}");
    assert!(reason.to_lowercase().contains("cuda"), "{reason}");
}

#[test]
fn a_wrong_graph_is_refused_and_its_node_named() {
    let mut graph = single(Op::Relu, &[operand("x", &[2])]);
    graph.nodes[0].inputs = vec!["nothing".to_owned()];
    let (kind, reason) = refusal(&graph, |_| ());
    assert_eq!(kind, OutcomeKind::Unsupported, "{reason}");
    assert!(
        reason.contains("node") && reason.contains("nothing"),
        "{reason}"
    );
}

/// 4 TiB: more than any machine gives.
#[test]
fn out_of_memory_is_said_by_that_name_and_survived() {
    let graph = single(
        Op::Add,
        &[operand("x", &[1 << 20, 1]), operand("y", &[1, 1 << 20])],
    );
    let (mut session, _) = load(&graph, cell(&graph, Precision::Fp32, None)).unwrap();
    for _ in 0..2 {
        let outcome = session.step().unwrap_err();
        assert_eq!(outcome.kind, OutcomeKind::OutOfMemory, "{outcome:?}");
        assert!(outcome.reason.starts_with("Add node: "), "{outcome:?}");
    }
}

#[test]
fn the_report_tells_what_is_in_force() {
    let graph = single(Op::Relu, &[operand("x", &[2])]);
    let mut cell = cell(&graph, Precision::Fp32, None);
    cell.threads = 2;
    let (_session, report) = load(&graph, cell).unwrap();
    assert_eq!(report.threads, Some(2));
    assert_eq!(report.settings["inter-op threads"], "1");
    assert_eq!(report.settings["TF32"], "off");
    assert!(!report.spin.is_empty());
    assert!(!report.settings.contains_key("arithmetic"));
    let (_session, report) = load(&graph, self::cell(&graph, Precision::Bf16, None)).unwrap();
    let arithmetic = &report.settings["arithmetic"];
    assert!(arithmetic.contains("bfloat16"), "{arithmetic}");
}
