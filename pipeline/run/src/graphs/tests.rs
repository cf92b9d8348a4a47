//! A cell gets the graph, the form and the numbers that it asks for.

use models::{
    quantise::{self, Form, WeightBits},
    zoo,
};
use schema::{Model, ModelSource, Precision, graph::Role};

use super::*;

/// A cell of the LSTM language model with this value of `recurrent`.
fn planned(recurrent: &str) -> PlannedCell {
    let dims = zoo::resolve_dims("lstm_lm", &[("seq".to_owned(), 3)].into()).unwrap();
    let graph = zoo::build("lstm_lm", &dims).unwrap();
    crate::sample::planned(Cell {
        dims,
        factors: [(rewrite::RECURRENT.to_owned(), recurrent.to_owned())].into(),
        ..Cell::plain(&graph, "any/any".parse().unwrap())
    })
}

/// A manifest that lies in a folder.
fn manifest(folder: &Path) -> ManifestSource {
    ManifestSource {
        path: folder.join("jobs.yaml").to_string_lossy().into_owned(),
        text: String::new(),
    }
}

fn of(planned: &PlannedCell) -> Graphs {
    Graphs {
        prepared: prepare(&[], std::slice::from_ref(planned), None),
        onnx: RefCell::default(),
        folder: None,
        logs: BTreeMap::new(),
    }
}

#[test]
fn a_cell_gets_the_form_it_asks_for_and_the_reference_the_model_s_own() {
    let [long, own] = ["unrolled", "fused"].map(planned);
    // The heat has nothing but the spelt-out form; its reference is the model's own.
    let graphs = of(&long);
    let layers = |cell: &Cell| {
        let nodes = graphs.get(cell).unwrap().graph.nodes.iter();
        nodes
            .filter(|node| rewrite::decides(rewrite::RECURRENT, &node.op))
            .count()
    };
    assert_eq!((layers(&long.cell), layers(&own.cell)), (0, 2));
}

/// As an engine that has no kernel for recurrent layers needs it.
#[test]
fn a_file_of_the_user_s_is_spelt_out_over_the_same_numbers() {
    let source = planned("unrolled").cell;
    let graph = models::resolve(&source.model, &source.dims, source.mode).unwrap();
    let options = onnx::WriteOptions {
        opset: 21,
        precision: Precision::Fp32,
        external: None,
        threshold: 0,
    };
    let folder = tempfile::tempdir().unwrap();
    let written = onnx::write(&graph, &options).unwrap();
    fs::write(folder.path().join("words.onnx"), written.model).unwrap();
    let file = onnx::File::open(folder.path(), "words.onnx").unwrap();
    let mut planned = planned("unrolled");
    planned.cell.model = Model {
        name: "words.onnx".to_owned(),
        source: ModelSource::Onnx,
        graph: file.digest(),
        weights: None,
    };
    planned.cell.dims = BTreeMap::from([("batch".to_owned(), 1)]);
    let manifest = manifest(folder.path());
    let scratch = tempfile::tempdir().unwrap();
    let cells = std::slice::from_ref(&planned);
    let prepared = prepare(&[manifest], cells, Some(scratch.path()));
    let get = |rewriting| {
        let key = (network(&planned.cell), rewriting, None);
        prepared.get(&key).unwrap().as_ref().unwrap()
    };
    let [own, long] = [Rewriting::default(), asked(&planned.cell)].map(get);
    let layers = |prepared: &Prepared| {
        let nodes = prepared.graph.nodes.iter();
        nodes
            .filter(|node| rewrite::decides(rewrite::RECURRENT, &node.op))
            .count()
    };
    assert_eq!((layers(own), layers(long)), (2, 0));
    let weights = |prepared: &Prepared| prepared.files.as_ref().unwrap().weights.clone();
    assert_eq!(weights(own), weights(long));
    // The weights once, and a copy of the file.
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 2);
    // The witness is not among the cells, and has its engine's own factors.
    let mut witness = planned.cell.clone();
    let forms = [(rewrite::RECURRENT, "fused"), (rewrite::ATTENTION, "plain")];
    witness.factors = forms
        .map(|(name, form)| (name.to_owned(), form.to_owned()))
        .into();
    assert_eq!(asked(&witness), Rewriting::default());
}

#[test]
fn a_network_of_the_zoo_takes_the_user_s_weights() {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("own.safetensors");
    let source = planned("fused").cell;
    let graph = models::resolve(&source.model, &source.dims, source.mode).unwrap();
    let content = models::sample::safetensors(&graph, |_| 1.0).unwrap();
    fs::write(&own, &content).unwrap();
    let manifests = [manifest(folder.path())];
    let trained = ["fused", "unrolled"].map(|form| {
        let mut planned = planned(form);
        planned.cell.model.weights = Some(Weights {
            path: "own.safetensors".to_owned(),
            content: Digest::of_bytes(&content),
        });
        planned
    });
    let scratch = tempfile::tempdir().unwrap();
    let cells = [&trained[..], &[planned("fused")]].concat();
    let prepare = || Graphs {
        prepared: prepare(&manifests, &cells, Some(scratch.path())),
        onnx: RefCell::default(),
        folder: None,
        logs: BTreeMap::new(),
    };
    let graphs = prepare();
    for planned in &trained {
        let prepared = graphs.get(&planned.cell).unwrap();
        let numbers =
            models::Numbers::open(prepared.files.as_ref().map(|files| files.weights.as_path()));
        let numbers = numbers.unwrap();
        let held = prepared.graph.parameters.iter();
        for weight in held.filter(|parameter| parameter.role != Role::Constant) {
            let held = numbers.floats(weight).unwrap();
            let are_ones = held.iter().all(|&number| number == 1.0);
            assert!(are_ones, "{}", weight.name);
        }
    }
    assert!(graphs.get(&cells[2].cell).unwrap().files.is_none());
    // The plan was made for other numbers.
    let mut other = content;
    *other.last_mut().unwrap() ^= 1;
    fs::write(&own, &other).unwrap();
    fs::remove_dir_all(scratch.path()).unwrap();
    fs::create_dir(scratch.path()).unwrap();
    let refused = prepare();
    let outcome = refused.get(&trained[0].cell).err().unwrap();
    assert_eq!(outcome.kind, OutcomeKind::Unavailable);
    assert!(
        outcome
            .reason
            .contains("has changed since the plan was made"),
        "{outcome:?}"
    );
    assert!(refused.get(&cells[2].cell).is_ok());
}

#[test]
fn grids_are_as_the_cell_wants_them() {
    let cell = |precision, grid: &str| {
        let mut cell = planned("unrolled").cell;
        cell.precision = precision;
        let grid = [(quantise::GRID.to_owned(), grid.to_owned())];
        cell.factors.extend(grid);
        cell
    };
    let form = |cell: &Cell| Quantisation::asked_by(cell).map(|asked| asked.grids.form);
    let [static_, dynamic] = [Precision::Int8Static, Precision::Int8Dynamic];
    let symmetric = cell(static_, quantise::SYMMETRIC);
    assert_eq!(form(&symmetric), Some(Form::Symmetric));
    assert_eq!(quantise::check(&symmetric), Ok(()));
    let asymmetric = cell(static_, quantise::ASYMMETRIC);
    assert_eq!(form(&asymmetric), Some(Form::Asymmetric));
    let silent = Cell {
        factors: BTreeMap::new(),
        ..symmetric
    };
    assert_eq!(form(&silent), Some(Form::Asymmetric));
    let unknown = quantise::check(&cell(static_, "crooked")).unwrap_err();
    assert!(
        unknown.contains("known: `asymmetric`, `symmetric`"),
        "{unknown}"
    );
    let idle = quantise::check(&cell(dynamic, quantise::SYMMETRIC)).unwrap_err();
    assert!(idle.contains("no part in int8-dynamic"), "{idle}");
    // Every form has weights.
    for precision in [static_, dynamic] {
        let mut asks = silent.clone();
        asks.precision = precision;
        let bits = |cell: &Cell| Quantisation::asked_by(cell).map(|asked| asked.grids.weights);
        for (value, weights) in [("8", WeightBits::Eight), ("7", WeightBits::Seven)] {
            asks.factors = [(quantise::WEIGHT_BITS.to_owned(), value.to_owned())].into();
            assert_eq!(quantise::check(&asks), Ok(()));
            assert_eq!(bits(&asks), Some(weights));
        }
        asks.precision = Precision::Fp32;
        assert!(quantise::check(&asks).is_err());
    }
}

#[test]
fn onnx_is_written_once_for_each_form_and_precision() {
    let [long, own] = ["unrolled", "fused"].map(planned);
    let graphs = Graphs {
        folder: Some(tempfile::tempdir().unwrap()),
        prepared: prepare(&[], &[long.clone(), own.clone()], None),
        onnx: RefCell::default(),
        logs: BTreeMap::new(),
    };
    let written = |cell: &Cell, precision| {
        let load = Load {
            cell: Cell {
                precision,
                ..cell.clone()
            },
            graph: graphs.get(cell).unwrap().graph.clone(),
            files: None,
            scratch: "/nonexistent".into(),
        };
        graphs.onnx(&load).unwrap().onnx.unwrap()
    };
    let first = written(&own.cell, Precision::Fp32);
    let bytes = fs::read(&first).unwrap();
    fs::remove_file(&first).unwrap();
    assert_eq!(written(&own.cell, Precision::Fp32), first);
    assert!(!first.exists(), "it was written again");
    let half = fs::read(written(&own.cell, Precision::Fp16)).unwrap();
    assert!(half.len() < bytes.len() * 6 / 10);
    assert_ne!(
        fs::read(written(&long.cell, Precision::Fp32)).unwrap(),
        bytes
    );
    let refused = of(&own);
    let load = Load {
        cell: own.cell.clone(),
        graph: refused.get(&own.cell).unwrap().graph.clone(),
        files: None,
        scratch: "/nonexistent".into(),
    };
    assert_eq!(
        refused.onnx(&load).unwrap_err().kind,
        OutcomeKind::Unavailable
    );
}

#[test]
fn a_form_that_is_too_large_is_unsupported_and_says_so() {
    let mut planned = planned("unrolled");
    planned.cell.model.name = "deepspeech2".to_owned();
    planned.cell.dims =
        zoo::resolve_dims("deepspeech2", &[("frames".to_owned(), 4000)].into()).unwrap();
    let graph = zoo::build("deepspeech2", &planned.cell.dims).unwrap();
    planned.cell.model.graph = Digest::of_value(&graph);
    let graphs = of(&planned);
    let outcome = graphs.get(&planned.cell).err().unwrap();
    assert_eq!(outcome.kind, OutcomeKind::Unsupported);
    assert!(outcome.reason.contains("shorter sequence"), "{outcome:?}");
}
