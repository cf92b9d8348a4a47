//! The worker as a supervisor meets it: the conformance suite, and failures that are typed.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use photofinish_worker_openvino::{LIBRARY_VARIABLE, OpenVino};
use schema::{
    Boundary, Cell, Device, Graph, HostLanguage, Mode, Outcome, OutcomeKind, Precision,
    VariantDescription,
    protocol::{Hello, Load, Reply},
};
use worker::{Engine as _, LoadReport, Session, WorkerCommand, conformance::CheckResult};

use crate::{
    grids,
    openvino_library::openvino,
    outputs,
    subject::{self, resnet18},
    zoo,
};

fn command(library: &Path) -> WorkerCommand {
    let library = library.display().to_string();
    WorkerCommand {
        program: PathBuf::from(env!("CARGO_BIN_EXE_photofinish-worker-openvino")),
        args: vec![],
        env: BTreeMap::from([(LIBRARY_VARIABLE.to_owned(), library)]),
    }
}

fn cell(graph: &Graph) -> Cell {
    outputs::cell(graph, "openvino", "cpu")
}

#[test]
fn the_conformance_suite_passes() {
    let variant = VariantDescription {
        reads_onnx: true,
        ..subject::variant("cpu")
    };
    let checks = subject::checks(&command(&openvino()), "openvino", "2026.4.1", vec![variant]);
    let unsound: Vec<_> = checks
        .iter()
        .filter(|check| check.result != CheckResult::Passed)
        // It trains nothing, and a CPU has no events.
        .filter(|check| !["training", "device", "ranks"].contains(&check.name))
        .collect();
    assert!(unsound.is_empty(), "{unsound:#?}");
}

/// What a started worker says at first, and then to `load`, with this library.
fn answer(library: &Path) -> (Hello, Result<Reply, Outcome>) {
    let graph = resnet18();
    let scratch = tempfile::tempdir().unwrap();
    let load = Load {
        cell: cell(&graph),
        graph,
        files: None,
        scratch: scratch.path().to_owned(),
    };
    subject::answer(&command(library), load)
}

#[test]
fn what_is_in_force_is_told() {
    let (hello, answer) = answer(&openvino());
    assert_eq!(hello.engine, "openvino");
    assert_eq!(hello.versions["openvino"], "2026.4.1");
    assert_eq!(hello.variants, ["cpu"]);
    assert!(hello.worker.is_some());
    let Reply::Loaded(loaded) = answer.unwrap() else {
        panic!("no `loaded`");
    };
    assert_eq!(loaded.threads, Some(1));
    assert!(loaded.compile_ns > 0);
    for (name, value) in [
        ("inference precision", "f32"),
        ("performance hint", "LATENCY"),
        ("streams", "1"),
        ("threads", "1"),
    ] {
        assert_eq!(loaded.settings[name], value, "{name}");
    }
    // Defaults of OpenVINO's, whatever they are here.
    for name in [
        "execution mode",
        "hyper-threading",
        "threads pinned to cores",
    ] {
        assert!(loaded.settings.contains_key(name), "{:?}", loaded.settings);
    }
}

#[test]
fn threads_are_not_bound_where_they_are_to_be_free() {
    let graph = resnet18();
    let mut cell = cell(&graph);
    let free = ("affinity".to_owned(), "free".to_owned());
    cell.factors.extend([free]);
    let (mut session, report) = load(&graph, cell).unwrap();
    assert_eq!(report.settings["threads pinned to cores"], "NO");
    session.step().unwrap();
}

/// Rounding to the grids and computing in floats between would give the same outputs.
#[test]
fn what_is_computed_in_integers_is_told() {
    let graph = resnet18();
    let mut cell = cell(&graph);
    let (_session, report) = load(&graph, cell.clone()).unwrap();
    assert!(!report.settings.contains_key("arithmetic"));
    cell.precision = Precision::Int8Static;
    let (_session, report) = load(&graph, cell).unwrap();
    assert_eq!(
        report.settings["arithmetic"], "stored as int8, computed in fp32",
        "it is on no grids"
    );
    assert_eq!(arithmetic("resnet18"), "int8 in 21 of 21 products");
    // Its two attentions are on no grids; where the plugin makes one operator of each, it does not count their
    // products.
    let transformer = arithmetic("bert_tiny");
    assert!(
        transformer.starts_with("int8 in 13 of ") && transformer.contains("fp32"),
        "{transformer}"
    );
}

/// What numbers are computed in where the network is on grids.
fn arithmetic(name: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let precision = Precision::Int8Static;
    let (graph, files) = grids::on_grids(&zoo::small(name), precision, folder.path());
    let load = Load {
        cell: Cell {
            precision,
            ..cell(&graph)
        },
        graph,
        files: Some(files),
        scratch: folder.path().to_owned(),
    };
    let (_session, report) = OpenVino::at(openvino()).load(&load).unwrap();
    report.settings["arithmetic"].clone()
}

#[test]
fn a_library_that_cannot_be_loaded_is_unavailable() {
    let folder = tempfile::tempdir().unwrap();
    let garbage = folder.path().join("libopenvino_c.so.1");
    std::fs::write(&garbage, "not a library").unwrap();
    let missing = folder.path().join("libopenvino_c.so");
    // A library, but another one: this process's C library is at hand.
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let libc = maps
        .lines()
        .filter_map(|line| line.split_whitespace().last())
        .find(|path| path.contains("libc.so"))
        .unwrap();
    let relative = Path::new("libopenvino_c.so");
    for path in [&garbage, &missing, Path::new(libc), relative] {
        let (hello, answer) = answer(path);
        assert!(hello.versions.is_empty(), "{:?}", hello.versions);
        let outcome = answer.unwrap_err();
        assert_eq!(outcome.kind, OutcomeKind::Unavailable, "{outcome:?}");
        let named = path.file_name().unwrap().to_str().unwrap();
        assert!(outcome.reason.contains(named), "{outcome:?}");
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
    OpenVino::at(openvino()).load(&load)
}

#[test]
fn what_is_not_run_is_unsupported_by_name() {
    type Change = fn(&mut Cell);
    let cases: [(Change, &str); 11] = [
        (
            |cell| cell.engine.engine = "pytorch".to_owned(),
            "pytorch/cpu",
        ),
        (
            |cell| cell.engine.variant = "gpu".to_owned(),
            "openvino/gpu",
        ),
        (|cell| cell.mode = Mode::Training, "train"),
        (
            |cell| cell.precision = Precision::Int8Dynamic,
            "int8-dynamic",
        ),
        (|cell| cell.precision = Precision::Tf32, "tf32"),
        (|cell| cell.precision = Precision::Fp64, "fp64"),
        (|cell| cell.device = Device::Cuda(0), "cuda:0"),
        (
            |cell| cell.boundary = Boundary::Device,
            "boundary `device` is not implemented; known: `step`, `request`",
        ),
        (|cell| cell.host_language = HostLanguage::Python, "Rust"),
        (|cell| cell.threads = 0, "threads"),
        (
            |cell| cell.factors = BTreeMap::from([("layout".into(), "nchw".into())]),
            "layout",
        ),
    ];
    let graph = resnet18();
    for (change, named) in cases {
        let mut cell = cell(&graph);
        change(&mut cell);
        let outcome = load(&graph, cell).err().expect("a refusal");
        assert_eq!(outcome.kind, OutcomeKind::Unsupported, "{outcome:?}");
        assert!(
            outcome.reason.contains(named),
            "`{named}` is not in {outcome:?}"
        );
    }
}
