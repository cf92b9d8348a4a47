//! The example of CONTRIBUTING, "An engine in any language", registered as it says there: its
//! worker keeps to the protocol, and its engine computes what it claims to.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use common::{BENCH, User, assert_says, text};
use models::{
    fill,
    onnx::{self, File, WriteOptions},
    sample,
};
use schema::{
    Cell, Graph, HostLanguage, ModelSource, Precision,
    protocol::{Load, ModelFiles, Parity, Reply, Request},
};
use worker::{
    WorkerCommand,
    host::{Host, Interrupt, Limits},
};

const BATCH: u64 = 3;

/// The folder that the workers' packages are in.
fn packages() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../engines/python")
}

fn example() -> PathBuf {
    packages().join("examples")
}

/// A user who has registered the example.
fn user() -> User {
    let user = User::new();
    for name in ["worker.py", "perceptron.py"] {
        fs::copy(example().join(name), user.path("config").join(name)).unwrap();
    }
    let package = user.path("config/photofinish_worker");
    fs::create_dir(&package).unwrap();
    for file in fs::read_dir(packages().join("photofinish_worker")).unwrap() {
        let file = file.unwrap();
        // Python may have left what it compiled among them.
        if file.path().extension().is_some_and(|kind| kind == "py") {
            fs::copy(file.path(), package.join(file.file_name())).unwrap();
        }
    }
    let engines = user.path("config/engines.toml");
    let table = fs::read_to_string(example().join("engines.toml")).unwrap();
    let others = fs::read_to_string(&engines).unwrap();
    fs::write(&engines, format!("{others}\n{table}")).unwrap();
    user
}

#[test]
fn it_keeps_to_the_protocol() {
    let user = user();
    let output = user.run(&["engines", "check", "plain"]);
    assert!(output.status.success(), "{}", text(&output));
    assert_says(
        &output,
        "it refuses resnet18: operator Conv of node `conv1`",
    );
    assert_says(
        &output,
        "with perceptron, since it refuses bert_tiny: operator Gather",
    );
    assert_says(&output, "passed   outputs");
}

/// A network that the example has no operators for.
const BEYOND: &str = "version: 1
measure: { blocks: 1, rounds: 1, round: 5ms, warm_up: 5ms }
jobs:
  - id: beyond
    matrix: { model: bert_tiny, seq: 8, precision: fp64, engine: [pytorch/eager, plain/python] }
    allow: [{ engine: plain/*, outcome: unsupported }]
";

#[test]
fn a_network_that_it_lacks_an_operator_for_is_unsupported() {
    let user = user();
    user.manifest(BEYOND);
    let summary = user.json(&BENCH);
    assert_eq!(summary["measured_heats"], 2, "{summary:#}");
    let pages = user.files("site");
    let says = |page: &[u8]| String::from_utf8_lossy(page).contains("operator Gather of node");
    assert!(pages.iter().any(|(_, page)| says(page)), "no page says why");
}

#[test]
fn a_worker_that_asks_for_onnx_finds_each_network_in_a_file() {
    let user = user();
    let change = |name: &str, from: &str, to: &str| {
        let path = user.path("config").join(name);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(path, text.replacen(from, to, 1)).unwrap();
    };
    // What it cannot read would end its cells as crashed, which nothing here allows.
    change(
        "worker.py",
        "        start = perf_counter_ns()\n",
        "        files, name = load.files, load.graph.outputs[0].encode()\n        \
         assert files.precision == load.cell.precision and not open(files.weights).read()\n        \
         assert name in open(files.onnx, 'rb').read()\n        start = perf_counter_ns()\n",
    );
    change(
        "engines.toml",
        "[engines.plain]\n",
        "[engines.plain]\nonnx = true\n",
    );
    let output = user.run(&["engines", "check", "plain"]);
    assert!(output.status.success(), "{}", text(&output));
    user.manifest(BEYOND);
    assert_eq!(user.json(&BENCH)["measured_heats"], 2);
}

/// What the example is sent for a graph.
fn load(graph: Graph, files: Option<ModelFiles>, scratch: &Path) -> Load {
    let mut cell = Cell {
        dims: BTreeMap::from([("batch".to_owned(), BATCH)]),
        precision: Precision::Fp64,
        host_language: HostLanguage::Python,
        ..Cell::plain(&graph, "plain/python".parse().unwrap())
    };
    if files.is_some() {
        cell.model.source = ModelSource::Onnx;
    }
    Load {
        cell,
        graph,
        files,
        scratch: scratch.to_owned(),
    }
}

/// The outputs that the example gives.
fn outputs(load: Load) -> Vec<f64> {
    let interrupt = Interrupt::new().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let command = WorkerCommand {
        program: PathBuf::from("python3"),
        args: vec![example().join("worker.py").display().to_string()],
        env: BTreeMap::from([
            ("PYTHONPATH".to_owned(), packages().display().to_string()),
            // Nothing is left behind in the checkout.
            ("PYTHONDONTWRITEBYTECODE".to_owned(), "1".to_owned()),
        ]),
    };
    let mut host = Host::start(&command, &Limits::default(), &interrupt).unwrap();
    host.hello(deadline).unwrap();
    let path = load.scratch.join("outputs");
    host.request(&Request::Load(Box::new(load)), deadline)
        .unwrap();
    let parity = Request::Parity(Parity::plain(path.clone(), 1));
    let Reply::Parity(outputs) = host.request(&parity, deadline).unwrap() else {
        panic!("no outputs");
    };
    assert_eq!(outputs.tensors[0].shape, [BATCH, 10]);
    assert_eq!(host.finish(deadline).outcome, None);
    let bytes = fs::read(path).unwrap();
    let (numbers, rest) = bytes.as_chunks();
    assert!(rest.is_empty());
    numbers
        .iter()
        .map(|bytes| f64::from_le_bytes(*bytes))
        .collect()
}

/// The perceptron in double precision.
fn expected(graph: &Graph) -> Vec<f64> {
    let wide = |numbers: Vec<f32>| -> Vec<f64> { numbers.into_iter().map(f64::from).collect() };
    let parameter = |index: usize| wide(fill::parameter(&graph.parameters[index]));
    let linear = |x: &[f64], weight: &[f64], bias: &[f64]| -> Vec<f64> {
        let width = weight.len() / bias.len();
        let dot =
            |row: &[f64], column: &[f64]| row.iter().zip(column).map(|(a, b)| a * b).sum::<f64>();
        x.chunks(width)
            .flat_map(|row| {
                let columns = weight.chunks(width).zip(bias);
                columns.map(move |(column, b)| dot(row, column) + b)
            })
            .collect()
    };
    let input = &graph.inputs[0];
    let count = usize::try_from(input.shape.iter().product::<u64>()).unwrap();
    let x = wide(fill::floats(&input.name, &input.fill, count));
    let hidden = linear(&x, &parameter(0), &parameter(1));
    let hidden: Vec<f64> = hidden.into_iter().map(|x| x.max(0.0)).collect();
    linear(&hidden, &parameter(2), &parameter(3))
}

fn assert_close(actual: &[f64], expected: &[f64]) {
    assert_eq!(actual.len(), expected.len());
    for (a, b) in actual.iter().zip(expected) {
        assert!((a - b).abs() < 1e-14, "{a} is not {b}");
    }
}

#[test]
fn it_computes_what_the_network_says() {
    let scratch = tempfile::tempdir().unwrap();
    let graph = sample::perceptron(BATCH).unwrap();
    let actual = outputs(load(graph.clone(), None, scratch.path()));
    assert_close(&actual, &expected(&graph));
}

#[test]
fn it_reads_the_weights_of_a_user_s_file() {
    let scratch = tempfile::tempdir().unwrap();
    let graph = sample::perceptron(BATCH).unwrap();
    let options = WriteOptions {
        opset: 17,
        precision: Precision::Fp32,
        external: None,
        threshold: 0,
    };
    let model = onnx::write(&graph, &options).unwrap().model;
    fs::write(scratch.path().join("mine.onnx"), model).unwrap();
    let file = File::open(scratch.path(), "mine.onnx").unwrap();
    let reading = file.read(&BTreeMap::new()).unwrap();
    let weights = scratch.path().join("numbers");
    reading
        .write_weights(&mut fs::File::create(&weights).unwrap())
        .unwrap();
    let files = ModelFiles {
        weights,
        onnx: Some(scratch.path().join("mine.onnx")),
        precision: file.precision(),
    };
    // The input of a file has another recipe than that of the sample.
    let input = reading.graph.inputs[0].clone();
    let actual = outputs(load(reading.graph, Some(files), scratch.path()));
    let graph = Graph {
        inputs: vec![input],
        ..graph
    };
    assert_close(&actual, &expected(&graph));
}
