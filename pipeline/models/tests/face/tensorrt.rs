//! TensorRT's view of our ONNX, without a GPU: TensorRT-RTX parses it and builds an engine for a card
//! that is not here. The long form (`PHOTOFINISH_TEST_FULL`) does so with the whole zoo.

use std::{collections::BTreeMap, fs, path::Path};

use photofinish_models::{
    Numbers,
    onnx::{self, Extensions, WriteOptions},
    quantise::{self, Form, Grids, Range, Sink, WeightBits},
    rewrite::{self, Rewriting},
    zoo,
};
use schema::{
    Graph, Precision,
    graph::{Op, Parameter},
};

use crate::support::{is_full, networks::small, python};

/// Ada Lovelace: the GeForce RTX 40 series.
const TARGET: &str = "SM89";

/// What engines are built in.
const PRECISIONS: [Precision; 3] = [Precision::Fp32, Precision::Fp16, Precision::Int8Static];

/// An engine, or why there is none.
#[derive(Debug, serde::Deserialize)]
#[serde(untagged)]
enum Answer {
    Built {
        layers: usize,
        bytes: u64,
        /// Bytes of the engine's constants by TensorRT's name of their type.
        constants: BTreeMap<String, u64>,
    },
    Refused {
        kind: String,
        reason: String,
    },
}

/// The network as ONNX with its weights; in integers, on grids as TensorRT wants them. What they are
/// found from does not matter here.
fn written(graph: &Graph, precision: Precision) -> Vec<u8> {
    let options = WriteOptions {
        opset: onnx::OPSET,
        precision,
        external: None,
        threshold: 0,
    };
    if precision != Precision::Int8Static {
        return onnx::write(graph, &options).unwrap().model;
    }
    let forms = [
        (rewrite::ATTENTION, "plain"),
        (rewrite::RECURRENT, rewrite::UNROLLED),
    ];
    let graph = spelt_out(graph, &forms);
    let range = Range {
        low: -3.0,
        high: 3.0,
    };
    let grids = Grids {
        form: Form::Symmetric,
        weights: WeightBits::Eight,
    };
    let wanted = quantise::wanted(&graph, grids.form).unwrap();
    let ranges = wanted.into_iter().map(|value| (value, range)).collect();
    let weights = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let sink = Sink {
        out: &mut weights.as_file(),
        bytes: 0,
    };
    let none = Numbers::default();
    let graph = quantise::apply(&graph, grids, &ranges, &none, sink).unwrap();
    let numbers = Numbers::open(Some(weights.path())).unwrap();
    let made = onnx::write_with(&graph, &options, Extensions::default(), &numbers);
    made.unwrap().model
}

fn spelt_out(graph: &Graph, forms: &[(&str, &str)]) -> Graph {
    let forms = forms.iter();
    let factors = forms.map(|&(factor, form)| (factor.to_owned(), form.to_owned()));
    let rewriting = Rewriting::asked_by(&factors.collect());
    rewriting.apply(graph.clone()).unwrap()
}

fn build(graph: &Graph, model: &[u8]) -> Answer {
    let folder = tempfile::TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("model.onnx");
    fs::write(&path, model).unwrap();
    let inputs = graph.inputs.iter();
    let shapes: BTreeMap<_, _> = inputs.map(|fed| (&fed.name, &fed.shape)).collect();
    let shapes = serde_json::to_string(&shapes).unwrap();
    let arguments = [path.as_path(), Path::new(&shapes), Path::new(TARGET)];
    let printed = python::run_with_tensorrt("tensorrt.py", &arguments);
    serde_json::from_str(&printed).unwrap()
}

/// What is wrong with the engine: there is none, or it does not hold the network's weights in the
/// precision.
fn fault(graph: &Graph, precision: Precision, answer: &Answer) -> Option<String> {
    let count = |it: &Parameter| it.shape.iter().product::<u64>();
    let all: u64 = graph.parameters.iter().map(count).sum();
    // Tables of rows have no grids, and stay in binary32.
    let is_table = |it: &&Parameter| {
        let mut nodes = graph.nodes.iter();
        nodes.any(|node| node.op == Op::Gather && node.inputs.first() == Some(&it.name))
    };
    let tables: u64 = graph.parameters.iter().filter(is_table).map(count).sum();
    let (kind, width, numbers, narrower) = match precision {
        Precision::Int8Static => ("int8", 1, all - tables, &[][..]),
        Precision::Fp16 => ("half", 2, all, &["int8"][..]),
        _ => ("float", 4, all, &["int8", "half"][..]),
    };
    match answer {
        Answer::Built {
            layers,
            bytes,
            constants,
        } => {
            // What holds half of them in another type all the same is no engine in the precision.
            let is_in = constants
                .get(kind)
                .is_some_and(|held| *held > numbers * width / 2)
                && !narrower.iter().any(|&kind| constants.contains_key(kind));
            let holds_all = *layers > graph.nodes.len() / 2 && *bytes >= all * width * 9 / 10;
            (!(is_in && holds_all))
                .then(|| format!("{layers} layers, {bytes} bytes, {constants:?} of constants"))
        }
        Answer::Refused { kind, reason } => Some(format!("{kind}: {reason}")),
    }
    .map(|fault| format!("{} in {precision}: {fault}", graph.name))
}

/// Whether each network becomes an engine in each precision, which is none in the others.
fn assert_built(graphs: impl IntoIterator<Item = Graph>) {
    let mut faults = Vec::new();
    for graph in graphs {
        for precision in PRECISIONS {
            let answer = build(&graph, &written(&graph, precision));
            for judged in PRECISIONS {
                let fault = fault(&graph, judged, &answer);
                if judged == precision {
                    faults.extend(fault);
                } else if fault.is_none() {
                    let name = &graph.name;
                    faults.push(format!(
                        "{name} in {precision} passes for {judged}: {answer:?}"
                    ));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn small_networks_become_engines_in_each_precision() {
    assert_built(["resnet18", "bert_tiny"].map(|name| small(name, 1)));
}

#[test]
fn the_whole_zoo_becomes_engines_in_each_precision() {
    if !is_full() {
        return;
    }
    assert_built(zoo::names().into_iter().flat_map(|name| {
        let own = small(name, 2);
        let long = spelt_out(&own, &[(rewrite::RECURRENT, rewrite::UNROLLED)]);
        let differs = long != own;
        [Some(own), differs.then_some(long)].into_iter().flatten()
    }));
}

/// The network as ONNX, with another operator in the place of the first of a name as long.
fn altered(graph: &Graph, operator: &str, other: &str) -> Vec<u8> {
    let mut model = written(graph, Precision::Fp32);
    let known = operator.as_bytes();
    let place = model.windows(known.len()).position(|word| word == known);
    model[place.unwrap()..][..known.len()].copy_from_slice(other.as_bytes());
    model
}

#[test]
fn a_file_that_no_graph_says_becomes_an_engine_as_it_is() {
    let model = altered(&small("resnet18", 1), "Relu", "Atan");
    let file = onnx::File::from_bytes("own", &model).unwrap();
    assert!(file.read(&BTreeMap::new()).is_err());
    let outline = file.outline(&BTreeMap::new()).unwrap();
    let Answer::Built { layers, .. } = build(&outline.graph, &model) else {
        panic!("no engine was built");
    };
    assert!(layers > 0);
}

#[test]
fn an_operator_that_tensorrt_does_not_take_is_named_with_its_node() {
    let graph = small("resnet18", 1);
    let model = altered(&graph, "MaxPool", "MixPool");
    let Answer::Refused { kind, reason } = build(&graph, &model) else {
        panic!("an engine was built");
    };
    assert_eq!(kind, "unsupported", "{reason}");
    let is_pool = |op: &Op| matches!(op, Op::MaxPool { .. });
    let mut nodes = graph.nodes.iter();
    let name = &nodes.find(|node| is_pool(&node.op)).unwrap().name;
    assert!(
        reason.contains(&format!("MixPool of node {name}")),
        "{reason}"
    );
}
