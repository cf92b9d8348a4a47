//! The worker as a supervisor meets it: the conformance suite, and failures that are typed.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    time::{Duration, Instant},
};

use photofinish_worker_onnxruntime::{LIBRARY_VARIABLE, OnnxRuntime};
use schema::{
    Boundary, Cell, Device, Graph, Mode, Outcome, OutcomeKind, Precision, VariantDescription,
    protocol::{Load, Reply, Request},
};
use worker::{
    Engine as _, LoadReport, Session, WorkerCommand,
    conformance::{Check, CheckResult},
    host::{Host, Interrupt, Limits},
};

use crate::{
    grids,
    library::library,
    subject::{self, resnet18},
    zoo,
};

fn command(library: PathBuf) -> WorkerCommand {
    let library = library.display().to_string();
    WorkerCommand {
        program: PathBuf::from(env!("CARGO_BIN_EXE_photofinish-worker-onnxruntime")),
        args: vec![],
        env: BTreeMap::from([(LIBRARY_VARIABLE.to_owned(), library)]),
    }
}

fn cell(graph: &Graph) -> Cell {
    Cell {
        dims: subject::dims(),
        ..Cell::plain(graph, "onnxruntime/cpu".parse().unwrap())
    }
}

#[test]
fn the_conformance_suite_passes() {
    let variant = VariantDescription {
        reads_onnx: true,
        ..subject::variant("cpu")
    };
    let checks = subject::checks(&command(library()), "onnxruntime", "1.31.1", vec![variant]);
    let failed = |check: &&Check| matches!(check.result, CheckResult::Failed(_));
    let failed: Vec<_> = checks.iter().filter(failed).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    let passed = checks
        .iter()
        .filter(|check| check.result == CheckResult::Passed);
    assert!(passed.count() > checks.len() / 2, "{checks:#?}");
}

/// What a started worker says to `load` with this library.
fn answer(library: PathBuf) -> Result<Reply, Outcome> {
    let graph = resnet18();
    let scratch = tempfile::tempdir().unwrap();
    let load = Load {
        cell: cell(&graph),
        graph,
        files: None,
        scratch: scratch.path().to_owned(),
    };
    let (hello, answer) = subject::answer(&command(library), load);
    assert_eq!(hello.engine, "onnxruntime");
    assert_eq!(hello.variants, ["cpu", "cuda", "tensorrt"]);
    answer
}

#[test]
fn a_library_that_cannot_be_loaded_is_unavailable() {
    let folder = tempfile::tempdir().unwrap();
    let garbage = folder.path().join("libonnxruntime.so.9.9.9");
    std::fs::write(&garbage, "not a library").unwrap();
    let missing = folder.path().join("libonnxruntime.so");
    for path in [garbage, missing, PathBuf::from("libonnxruntime.so")] {
        let outcome = answer(path.clone()).unwrap_err();
        assert_eq!(outcome.kind, OutcomeKind::Unavailable, "{outcome:?}");
        assert!(outcome.reason.contains("libonnxruntime.so"), "{outcome:?}");
    }
}

fn load(graph: &Graph, cell: Cell) -> Result<(Box<dyn Session>, LoadReport), Outcome> {
    let scratch = tempfile::tempdir().unwrap();
    let load = Load {
        cell,
        graph: graph.clone(),
        files: None,
        scratch: scratch.path().to_owned(),
    };
    OnnxRuntime::at(library()).load(&load)
}

/// How the load of a small network ends after `change` to its cell.
fn refusal(change: impl FnOnce(&mut Cell)) -> Outcome {
    let graph = resnet18();
    let mut cell = cell(&graph);
    change(&mut cell);
    load(&graph, cell).err().expect("a refusal")
}

#[test]
fn what_is_not_run_is_unsupported_by_name() {
    type Change = fn(&mut Cell);
    let cases: [(Change, &str); 10] = [
        (
            |cell| cell.engine.engine = "pytorch".to_owned(),
            "pytorch/cpu",
        ),
        (|cell| cell.engine.variant = "xnnpack".to_owned(), "xnnpack"),
        (|cell| cell.mode = Mode::Training, "train"),
        (|cell| cell.precision = Precision::Bf16, "bf16"),
        (|cell| cell.precision = Precision::Tf32, "tf32"),
        (|cell| cell.device = Device::Cuda(0), "cuda:0"),
        (
            |cell| cell.boundary = Boundary::Device,
            "boundary `device` is not implemented; known: `step`, `request`",
        ),
        (
            |cell| cell.factors = BTreeMap::from([("layout".into(), "nchw".into())]),
            "layout",
        ),
        (
            |cell| cell.factors = BTreeMap::from([("calibration".into(), "minmax".into())]),
            "no part in fp32",
        ),
        (
            |cell| {
                cell.precision = Precision::Int8Static;
                cell.factors = BTreeMap::from([("calibration".into(), "entropy".into())]);
            },
            "`entropy`; known: `minmax`",
        ),
    ];
    for (change, named) in cases {
        let outcome = refusal(change);
        assert_eq!(outcome.kind, OutcomeKind::Unsupported, "{outcome:?}");
        assert!(
            outcome.reason.contains(named),
            "`{named}` is not in {outcome:?}"
        );
    }
}

/// What numbers are computed in, as the worker's own program finds out for a network on grids.
fn arithmetic(name: &str, precision: Precision) -> String {
    let folder = tempfile::tempdir().unwrap();
    let (graph, files) = grids::on_grids(&zoo::small(name), precision, folder.path());
    let scratch = folder.path().join("scratch");
    std::fs::create_dir(&scratch).unwrap();
    let load = Load {
        cell: Cell {
            precision,
            ..Cell::plain(&graph, "onnxruntime/cpu".parse().unwrap())
        },
        graph,
        files: Some(files),
        scratch: scratch.clone(),
    };
    let interrupt = Interrupt::new().unwrap();
    let deadline = Instant::now() + Duration::from_secs(300);
    let mut host = Host::start(&command(library()), &Limits::default(), &interrupt).unwrap();
    host.hello(deadline).unwrap();
    let answer = host.request(&Request::Load(Box::new(load)), deadline);
    assert_eq!(
        std::fs::read_dir(&scratch).unwrap().count(),
        0,
        "what was written down is gone"
    );
    assert_eq!(host.finish(deadline).outcome, None);
    match answer.unwrap() {
        Reply::Loaded(loaded) => loaded.settings["arithmetic"].clone(),
        other => panic!("{other:?}"),
    }
}

/// Rounding to the grids and computing in floats between would give the same outputs.
#[test]
fn what_is_computed_in_integers_is_told() {
    for precision in [Precision::Int8Static, Precision::Int8Dynamic] {
        let convolutions = arithmetic("resnet18", precision);
        assert_eq!(convolutions, "int8 in 21 of 21 products");
        // Attention is two products in each layer.
        let transformer = arithmetic("bert_tiny", precision);
        assert_eq!(transformer, "int8 in 13 of 17 products, fp32 in 4");
    }
}

/// A worker that is no program of its own does not know, and says so.
#[test]
fn what_is_not_known_of_integers_is_not_claimed() {
    let graph = resnet18();
    let mut cell = cell(&graph);
    cell.precision = Precision::Int8Static;
    let (_session, report) = load(&graph, cell).unwrap();
    let told = &report.settings["arithmetic"];
    assert!(told.contains("where that is, is not known"), "{told}");
}

/// The pinned wheel is the CPU build: its folder has no such providers.
#[test]
fn a_provider_that_is_not_there_is_unavailable_and_its_library_named() {
    for variant in ["cuda", "tensorrt"] {
        let outcome = refusal(|cell| {
            cell.engine.variant = variant.to_owned();
            cell.device = Device::Cuda(0);
        });
        assert_eq!(outcome.kind, OutcomeKind::Unavailable, "{outcome:?}");
        let library = format!("libonnxruntime_providers_{variant}.so");
        assert!(outcome.reason.contains(&library), "{outcome:?}");
    }
}

#[test]
fn every_level_of_optimisation_gives_the_same_answer() {
    let graph = resnet18();
    let run = |name: &str, value: &str| {
        let mut cell = cell(&graph);
        cell.factors.insert(name.to_owned(), value.to_owned());
        let (mut session, report) = load(&graph, cell).unwrap();
        session.step().unwrap();
        let parity = session.parity(1).unwrap();
        assert_eq!(session.parity(1).unwrap(), parity, "a second call differs");
        (parity.tensors, report)
    };
    let numbers = |tensors: &[worker::Tensor]| match &tensors[0].values {
        worker::Values::F32(values) => values.clone(),
        worker::Values::F64(_) => panic!("fp32 was asked for"),
    };
    let (all, report) = run("optimization", "all");
    assert_eq!(report.settings["graph optimization"], "all");
    assert!(report.spin.starts_with("spin"), "{}", report.spin);
    let all = numbers(&all);
    assert_eq!(all.len(), 1000);
    let size = all
        .iter()
        .fold(0.0_f32, |most, value| most.max(value.abs()));
    for (name, value) in [
        ("optimization", "extended"),
        ("optimization", "basic"),
        ("optimization", "off"),
        ("spin", "off"),
        ("allocator", "system"),
        ("allocator", "keep"),
    ] {
        let (tensors, report) = run(name, value);
        let close = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-4 * size;
        assert!(
            all.iter().zip(&numbers(&tensors)).all(close),
            "{name}={value}"
        );
        if name == "spin" {
            assert!(report.spin.starts_with("sleep"), "{}", report.spin);
        }
        let arena = match name {
            "allocator" => "off",
            _ => "on (default)",
        };
        assert_eq!(report.settings["memory arena"], arena);
    }
}
