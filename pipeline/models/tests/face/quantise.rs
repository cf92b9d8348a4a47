//! Quantised networks before ONNX Runtime, whose kernels for integers must compute what numpy
//! computes on the same grids, and beside its own quantiser. The long form (`PHOTOFINISH_TEST_FULL`)
//! has more networks.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use photofinish_models::{
    Numbers, onnx,
    quantise::{self, EIGHT, Form, Grids, Range, SEVEN, Sink, WEIGHT_BITS, WeightBits, census},
    rewrite::Rewriting,
};
use schema::{Cell, Device, Graph, Precision, graph::Fill};
use tempfile::TempDir;

use crate::support::{
    is_full,
    judge::{described, documented_recipe, held_against, options, save, scratch},
    networks::small,
    python,
};

/// The network as ONNX Runtime's cells have it.
fn network(name: &str, batch: u64) -> Graph {
    let factors = [("attention", "plain"), ("recurrent", "unrolled")];
    let factors = factors.map(|(name, form)| (name.to_owned(), form.to_owned()));
    let rewriting = Rewriting::asked_by(&factors.into());
    rewriting.apply(small(name, batch)).unwrap()
}

/// The network in the form, and the folder with its weights.
struct Quantised {
    graph: Graph,
    folder: TempDir,
}

/// The form with weights that this processor multiplies as they are.
fn grids(form: Form) -> Grids {
    Grids {
        form,
        weights: WeightBits::safe_here(),
    }
}

impl Quantised {
    fn of(graph: &Graph, form: Form) -> Self {
        let folder = scratch();
        let ranges = ranges(graph, form, folder.path());
        let path = folder.path().join("weights");
        let mut out = fs::File::create(&path).unwrap();
        let sink = Sink {
            out: &mut out,
            bytes: 0,
        };
        let graph =
            quantise::apply(graph, grids(form), &ranges, &Numbers::default(), sink).unwrap();
        Self { graph, folder }
    }

    /// The network as ONNX, in a file of this name.
    fn save(&self, name: &str) -> PathBuf {
        let weights = self.folder.path().join("weights");
        let numbers = Numbers::open(Some(&weights)).unwrap();
        let options = options(21, Precision::Int8Static);
        let extensions = onnx::Extensions::default();
        let written = onnx::write_with(&self.graph, &options, extensions, &numbers).unwrap();
        let path = self.folder.path().join(name);
        fs::write(&path, written.model).unwrap();
        path
    }
}

/// Ranges as ONNX Runtime sees them.
fn ranges(graph: &Graph, form: Form, folder: &Path) -> BTreeMap<String, Range> {
    let wanted = quantise::wanted(graph, form).unwrap();
    if wanted.is_empty() {
        return BTreeMap::new();
    }
    let plain = save(folder, graph, &options(21, Precision::Fp32));
    let [json, recipe] = described(graph, folder);
    let names = folder.join("wanted.json");
    fs::write(&names, serde_json::to_vec(&wanted).unwrap()).unwrap();
    let mode = Path::new("ranges");
    let printed = python::run("quantiser.py", &[mode, &json, &recipe, &plain, &names]);
    let ranges: BTreeMap<String, (f64, f64)> = serde_json::from_str(&printed).unwrap();
    let range = |(name, (low, high))| (name, Range { low, high });
    ranges.into_iter().map(range).collect()
}

/// What ONNX Runtime makes of a network: its error beside floats, and its operators.
type Made = (f64, BTreeMap<String, u64>);

/// What it makes of both our forms, and of its own static and dynamic quantiser's.
fn beside_its_own(graph: &Graph) -> [Made; 4] {
    let folder = scratch();
    let plain = save(folder.path(), graph, &options(21, Precision::Fp32));
    let [json, recipe] = described(graph, folder.path());
    let forms = [Form::Asymmetric, Form::Dynamic].map(|form| Quantised::of(graph, form));
    let [ours, dynamic] = forms.each_ref().map(|form| form.save("quantised.onnx"));
    let mode = Path::new("compare");
    let bits = match WeightBits::safe_here() {
        WeightBits::Eight => EIGHT,
        WeightBits::Seven => SEVEN,
    };
    let files = [
        mode,
        &json,
        &recipe,
        &plain,
        Path::new(bits),
        &ours,
        &dynamic,
    ];
    let printed = python::run("quantiser.py", &files);
    let made: Vec<Made> = serde_json::from_str(&printed).unwrap();
    made.try_into().unwrap()
}

fn count(operators: &BTreeMap<String, u64>, wanted: &[&str]) -> u64 {
    wanted.iter().filter_map(|name| operators.get(*name)).sum()
}

/// Every number is at the same place of its grid: 4e-8 to 2e-7 were seen. What the grids themselves cost,
/// and what one that is misread would, is over a hundredth.
const SAME: f64 = 1e-5;

/// A number that the last bit of binary32 puts on the other side of a step moves many behind it: one in
/// MobileNetV2's first block moves the outputs by 1.9 %. ResNet-18's are off by 0.6 % on grids found in
/// every step, and by 2.2 % on symmetric ones, which are not ONNX Runtime's. That is as much as the
/// grids cost, so a bound as wide as this shows no more than that the file is read and run.
const ONE_STEP_OFF: f64 = 0.05;

#[test]
fn onnx_runtime_computes_on_the_grids_that_the_graph_says() {
    // A transformer in the symmetric form is for TensorRT alone: ONNX Runtime gets lost among its own
    // rewritings there (a zero point without a sign for integers with one).
    //
    // With weights of seven bits one of BERT's 3,072 integers falls on the other side of a step where the
    // first attention ends, and the outputs are off by 1.2 %; products that saturate were off by 24 %.
    let text = match WeightBits::safe_here() {
        WeightBits::Eight => SAME,
        WeightBits::Seven => ONE_STEP_OFF,
    };
    let mut forms = vec![
        ("resnet18", Form::Asymmetric, SAME),
        ("bert_tiny", Form::Asymmetric, text),
        ("bert_tiny", Form::Dynamic, SAME),
    ];
    if is_full() {
        forms.extend([
            ("resnet18", Form::Symmetric, ONE_STEP_OFF),
            ("resnet18", Form::Dynamic, ONE_STEP_OFF),
            ("mobilenet_v2", Form::Asymmetric, ONE_STEP_OFF),
        ]);
    }
    for (name, form, most) in forms {
        let quantised = Quantised::of(&network(name, 2), form);
        let file = quantised.save("quantised.onnx");
        let recipe = quantised.folder.path().join("recipe.py");
        fs::write(recipe, documented_recipe()).unwrap();
        let found = held_against(&quantised.graph, &[file], quantised.folder.path());
        let (error, output) = &found.errors[0];
        println!("{name} {form:?}: off by {error:.2e} in {output}");
        assert!(*error < most, "{name} {form:?}: {error}");
    }
}

#[test]
fn convolutions_are_as_near_as_those_of_onnx_runtime_s_own_quantiser() {
    let mut networks = vec![("resnet18", 20)];
    if is_full() {
        networks.push(("mobilenet_v2", 52));
    }
    for (name, convolutions) in networks {
        let graph = network(name, 2);
        let [ours, dynamic, own, own_dynamic] = beside_its_own(&graph);
        assert!(
            ours.0 < 1.2 * own.0 && ours.0 > 0.001,
            "{name}: {ours:?} {own:?}"
        );
        assert!(
            dynamic.0 < 1.2 * own_dynamic.0,
            "{name}: {dynamic:?} {own_dynamic:?}"
        );
        // Nothing is left in floats without being told.
        assert_eq!(count(&ours.1, &["QLinearConv"]), convolutions, "{ours:?}");
        assert_eq!(
            count(&ours.1, &["Conv", "FusedConv", "Relu", "Clip"]),
            0,
            "{ours:?}"
        );
        assert_eq!(count(&ours.1, &["QGemm"]), 1, "{ours:?}");
        assert_eq!(
            count(&dynamic.1, &["ConvInteger"]),
            convolutions,
            "{dynamic:?}"
        );
    }
}

#[test]
fn transformers_are_as_near_as_those_of_onnx_runtime_s_own_quantiser() {
    let graph = network("bert_tiny", 2);
    let [ours, dynamic, own, own_dynamic] = beside_its_own(&graph);
    assert!(ours.0 < 1.2 * own.0 && ours.0 > 0.001, "{ours:?} {own:?}");
    assert!(
        dynamic.0 < 1.2 * own_dynamic.0,
        "{dynamic:?} {own_dynamic:?}"
    );
    assert_eq!(count(&ours.1, &["MatMul", "Gemm"]), 0, "{ours:?}");
    assert_eq!(count(&dynamic.1, &["Gemm"]), 0, "{dynamic:?}");
}

#[test]
fn all_products_are_on_grids() {
    let mut names = vec!["mobilenet_v2", "bert_tiny"];
    if is_full() {
        names.extend(["resnet18", "efficientnet_b4", "inception_v3", "vit_b16"]);
        names.extend(["gpt2", "transformer_base", "lstm_lm"]);
    }
    for name in names {
        let mut graph = network(name, 1);
        for parameter in &mut graph.parameters {
            // Which operators are quantised does not depend on numbers, and these are soon made.
            if let Fill::Uniform { high, .. } = parameter.fill {
                parameter.fill = Fill::Constant { value: high };
            }
        }
        for form in [Form::Asymmetric, Form::Symmetric, Form::Dynamic] {
            let range = Range {
                low: -1.0,
                high: 3.0,
            };
            let wanted = quantise::wanted(&graph, form).unwrap();
            let ranges = wanted.into_iter().map(|value| (value, range)).collect();
            let mut out = Vec::new();
            let sink = Sink {
                out: &mut out,
                bytes: 0,
            };
            let made =
                quantise::apply(&graph, grids(form), &ranges, &Numbers::default(), sink).unwrap();
            let count = census(&made);
            println!("{name} {form:?}: {count:?}");
            if form != Form::Dynamic {
                // The first position of each layer multiplies an initial state, which is a constant.
                let constants = if name == "lstm_lm" { 2 } else { 0 };
                assert_eq!(
                    count.quantised + constants,
                    count.products,
                    "{name} {form:?}"
                );
            }
            assert!(
                count.quantised * 3 >= count.products * 2,
                "{name}: {count:?}"
            );
            assert_eq!(made.outputs, graph.outputs);
            assert_eq!(made.inputs, graph.inputs);
        }
    }
}

#[test]
fn weights_of_seven_bits_are_on_steps_twice_as_wide() {
    let graph = network("bert_tiny", 1);
    let [eight, seven] = [WeightBits::Eight, WeightBits::Seven].map(|weights| {
        let mut out = Vec::new();
        let sink = Sink {
            out: &mut out,
            bytes: 0,
        };
        let form = Form::Dynamic;
        let grids = Grids { form, weights };
        let made = quantise::apply(&graph, grids, &BTreeMap::new(), &Numbers::default(), sink);
        made.unwrap();
        // Nothing but the scales of weights is put down.
        let scales = out
            .chunks(4)
            .map(|scale| f32::from_le_bytes(scale.try_into().unwrap()));
        scales.collect::<Vec<_>>()
    });
    assert!(eight.len() > 1000 && eight.len() == seven.len());
    for (eight, seven) in eight.iter().zip(seven) {
        let wider = f64::from(seven) / f64::from(*eight);
        assert!((wider - 127.0 / 63.0).abs() < 1e-6, "{wider}");
    }
}

#[test]
fn only_eight_bits_on_a_processor_may_saturate() {
    let mut cell = Cell::plain(&network("bert_tiny", 1), "any/any".parse().unwrap());
    let is_warned = |cell: &Cell| quantise::may_saturate(cell).is_some();
    assert!(!is_warned(&cell));
    cell.precision = Precision::Int8Dynamic;
    assert_eq!(
        is_warned(&cell),
        WeightBits::safe_here() == WeightBits::Seven
    );
    cell.device = Device::Cuda(0);
    assert!(!is_warned(&cell));
    cell.device = Device::Cpu;
    cell.factors = [(WEIGHT_BITS.to_owned(), SEVEN.to_owned())].into();
    assert!(!is_warned(&cell));
}

#[test]
fn ranges_that_lack_or_lie_are_named() {
    let graph = network("bert_tiny", 1);
    let wanted = quantise::wanted(&graph, Form::Asymmetric).unwrap();
    let refused = |ranges: &BTreeMap<String, Range>| {
        let mut out = Vec::new();
        let sink = Sink {
            out: &mut out,
            bytes: 0,
        };
        let numbers = Numbers::default();
        let error = quantise::apply(&graph, grids(Form::Asymmetric), ranges, &numbers, sink);
        error.unwrap_err().to_string()
    };
    let error = refused(&BTreeMap::new());
    assert!(error.contains("its range is not known"), "{error}");
    for (low, high) in [(f64::NAN, 1.0), (1.0, -1.0)] {
        let range = Range { low, high };
        let ranges = wanted.iter().map(|value| (value.clone(), range)).collect();
        let error = refused(&ranges);
        assert!(error.contains("no range to quantise"), "{error}");
    }
}
