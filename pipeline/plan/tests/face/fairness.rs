//! Comparisons that are not fair are told before the run, and fair ones are left in peace.

use std::collections::BTreeMap;

use photofinish_plan::{Diagnostic, ManifestFile, World, plan};
use schema::{
    EngineDescription, FactorDescription, HostLanguage, Mode, Plan, Precision, Refusal,
    VariantDescription,
};

use crate::{plans::planned, support};

fn words<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
    pairs.into()
}

/// What TensorFlow has no choice about.
fn fixed<const N: usize>(more: [(&str, &str); N]) -> BTreeMap<String, String> {
    let mut fixed = words([("layout", "channels_last")]);
    fixed.extend(words(more));
    fixed
}

/// TensorFlow with weights that are constants by default, with XLA, and from Python; PyTorch and ONNX
/// Runtime with what they have no choice about.
fn world() -> World {
    let mut world = support::world();
    for engine in &mut world.engines {
        for variant in &mut engine.variants {
            if engine.name == "pytorch" {
                let attention = support::factor(&["fused", "plain"]);
                variant.factors.insert("attention".to_owned(), attention);
                let recurrent = support::factor(&["fused", "unrolled"]);
                variant.factors.insert("recurrent".to_owned(), recurrent);
                variant.fixed = words([
                    ("mixed_precision", "off"),
                    ("spin", "default"),
                    ("weights", "variables"),
                ]);
            } else {
                variant.fixed = words([("layout", "nchw"), ("weights", "frozen")]);
            }
        }
    }
    let like = world.engines[0].variants[0].clone();
    let weights = |inference: &str| FactorDescription {
        auto: BTreeMap::from([
            (Mode::Inference, inference.to_owned()),
            (Mode::Training, "variables".to_owned()),
        ]),
        ..support::factor(&["auto", "frozen", "variables"])
    };
    let recurrent = ("recurrent".to_owned(), support::factor(&["unrolled"]));
    let variant = |name: &str, factors, fixed| VariantDescription {
        name: name.to_owned(),
        factors,
        fixed,
        ..like.clone()
    };
    let mixed = FactorDescription {
        precisions: vec![Precision::Bf16],
        ..support::factor(&["on"])
    };
    let variants = vec![
        variant(
            "graph",
            BTreeMap::from([
                ("weights".to_owned(), weights("frozen")),
                ("mixed_precision".to_owned(), mixed),
                recurrent.clone(),
            ]),
            fixed([("attention", "plain"), ("jit_compile", "off")]),
        ),
        variant(
            "xla",
            BTreeMap::from([
                ("weights".to_owned(), weights("variables")),
                recurrent.clone(),
            ]),
            fixed([("attention", "plain"), ("jit_compile", "on")]),
        ),
        VariantDescription {
            host_language: HostLanguage::Python,
            ..variant(
                "function",
                BTreeMap::from([
                    ("jit_compile".to_owned(), support::factor(&["off", "on"])),
                    ("attention".to_owned(), support::factor(&["fused"])),
                    recurrent,
                ]),
                fixed([("weights", "variables")]),
            )
        },
    ];
    for variant in &variants {
        make_ready(&mut world, &format!("tensorflow/{}", variant.name));
    }
    world.engines.push(EngineDescription {
        name: "tensorflow".to_owned(),
        variants,
        ..world.engines[0].clone()
    });
    world
}

/// What is not fair about the comparison of two engines.
fn told(mode: &str, matrix: &str, engines: [&str; 2]) -> Vec<String> {
    let [first, second] = engines;
    let job = format!(
        "  - id: a
    mode: {mode}
    matrix: {{ {matrix}, engine: [{first}, {second}] }}
    compare: {{ axis: engine, baseline: {first} }}
"
    );
    unfair(&job)
}

/// What a plan notices with `word` in it.
fn noticed(word: &str, jobs: &str, world: &World) -> Vec<String> {
    let warnings = planned(jobs, world).warnings.into_iter();
    let messages = warnings.map(|warning| warning.message);
    messages.filter(|message| message.contains(word)).collect()
}

/// A job that compares cells of one network over an axis.
fn of_resnet(device: &str, matrix: &str, axis: &str) -> String {
    format!(
        "  - id: a
    device: {device}
    matrix: {{ model: resnet18, {matrix} }}
    compare: {{ axis: {axis} }}
"
    )
}

fn unfair(jobs: &str) -> Vec<String> {
    let messages = noticed("is not fair: ", jobs, &world()).into_iter();
    messages
        .filter_map(|message| Some(message.split_once("is not fair: ")?.1.to_owned()))
        .collect()
}

const NOTHING: [&str; 0] = [];

/// What engines are told to differ in of themselves.
fn left(matrix: &str, engines: [&str; 2]) -> Vec<String> {
    let [first, second] = engines;
    let job = format!(
        "  - id: a
    matrix: {{ {matrix}, engine: [{first}, {second}] }}
    compare: {{ axis: engine, baseline: {first} }}
"
    );
    noticed("as their users get them", &job, &world())
}

#[test]
fn what_engines_do_of_themselves_is_told() {
    let engines = ["pytorch/eager", "tensorflow/graph"];
    assert_eq!(
        left("model: resnet18", engines),
        [
            "pytorch/eager and tensorflow/graph run as their users get them, and differ in layout (nchw and \
          channels_last), weights (variables and frozen)"
        ]
    );
    assert_eq!(
        left("model: [resnet18, bert_tiny]", engines),
        [
            "pytorch/eager and tensorflow/graph run as their users get them, and differ in attention (fused and \
          plain), layout (nchw and channels_last), weights (variables and frozen)"
        ]
    );
    // What is asked for is held against what the other does, or the same.
    let asked = "model: resnet18, layout: channels_last, weights: variables";
    assert_eq!(left(asked, engines), NOTHING);
    // Variants of one engine are told apart by their axis alone, and are not fair else.
    assert_eq!(
        left("model: resnet18", ["tensorflow/graph", "tensorflow/xla"]),
        NOTHING
    );
}

/// What no cell of the two has a part in is not told, though both engines say how they do it.
#[test]
fn what_a_network_or_a_precision_has_no_part_in_is_not_told() {
    let mut world = world();
    for (engine, own) in [
        ("onnxruntime", ["nchw", "fused", "on"]),
        ("tensorflow", ["channels_last", "plain", "off"]),
    ] {
        let engine = world
            .engines
            .iter_mut()
            .find(|it| it.name == engine)
            .unwrap();
        let switches = ["layout", "attention", "mixed_precision"].into_iter();
        for variant in &mut engine.variants {
            variant.precisions = vec![Precision::Fp32, Precision::Bf16];
            for (switch, value) in switches.clone().zip(own) {
                variant.factors.remove(switch);
                variant.fixed.insert(switch.to_owned(), value.to_owned());
            }
        }
    }
    let told = |matrix: &str, word: &str| {
        let job = format!(
            "  - id: a
    matrix: {{ {matrix}, engine: [onnxruntime/cpu, tensorflow/graph] }}
    compare: {{ axis: engine, baseline: onnxruntime/cpu }}
"
        );
        let told = noticed("as their users get them", &job, &world);
        told.iter().any(|it| it.contains(word))
    };
    assert!(told("model: resnet18", "layout"));
    assert!(!told("model: lstm_lm", "layout"));
    assert!(told("model: bert_tiny", "attention"));
    assert!(!told("model: resnet18", "attention"));
    assert!(told("model: resnet18, precision: bf16", "mixed_precision"));
    assert!(!told("model: resnet18", "mixed_precision"));
}

/// Every engine as it is: nobody asked for anything else.
#[test]
fn what_engines_do_of_themselves_is_what_their_users_get() {
    for engines in [
        ["pytorch/eager", "tensorflow/graph"],
        ["pytorch/eager", "onnxruntime/cpu"],
        ["tensorflow/graph", "onnxruntime/cpu"],
    ] {
        for model in ["resnet18", "bert_tiny"] {
            let matrix = format!("model: {model}");
            assert_eq!(told("inference", &matrix, engines), NOTHING);
        }
    }
}

#[test]
fn a_value_that_is_asked_for_is_held_against_what_others_have_no_choice_about() {
    let cases = [
        (
            "resnet18, layout: nchw",
            ["pytorch/eager", "tensorflow/graph"],
            "layout differs between pytorch/eager (nchw) and tensorflow/graph (channels_last)",
        ),
        (
            "resnet18, layout: channels_last",
            ["pytorch/eager", "tensorflow/graph"],
            "",
        ),
        (
            "resnet18, layout: channels_last",
            ["onnxruntime/cpu", "pytorch/eager"],
            "layout differs between onnxruntime/cpu (nchw) and pytorch/eager (channels_last)",
        ),
        (
            "resnet18, spin: \"off\"",
            ["pytorch/eager", "onnxruntime/cpu"],
            "spin differs between pytorch/eager (default) and onnxruntime/cpu (off)",
        ),
        (
            "resnet18, weights: variables",
            ["pytorch/eager", "tensorflow/graph"],
            "",
        ),
        (
            "resnet18, weights: variables",
            ["onnxruntime/cpu", "tensorflow/graph"],
            "weights differs between onnxruntime/cpu (frozen) and tensorflow/graph (variables)",
        ),
        // Constants are constants, whatever leads to them.
        (
            "resnet18, weights: auto",
            ["onnxruntime/cpu", "tensorflow/graph"],
            "",
        ),
        (
            "bert_tiny, attention: fused",
            ["pytorch/eager", "tensorflow/graph"],
            "attention differs between pytorch/eager (fused) and tensorflow/graph (plain)",
        ),
        (
            "bert_tiny, attention: plain",
            ["pytorch/eager", "tensorflow/graph"],
            "",
        ),
        // What nobody says anything about is no difference that is known.
        (
            "resnet18, optimization: \"off\"",
            ["pytorch/eager", "onnxruntime/cpu"],
            "",
        ),
    ];
    for (model, engines, expected) in cases {
        let found = told("inference", &format!("model: {model}"), engines);
        let expected: &[&str] = if expected.is_empty() {
            &[]
        } else {
            &[expected]
        };
        assert_eq!(found, expected, "{model}");
    }
}

/// What one alone can be told to do otherwise than its users get it, no manifest makes equal.
#[test]
fn switches_that_one_side_alone_has_are_told() {
    let of = |matrix: &str, compared: &str| {
        let job = format!(
            "  - id: a
    matrix: {{ model: resnet18, {matrix}, engine: [pytorch/eager, onnxruntime/cpu] }}
{compared}"
        );
        noticed("no such switch", &job, &world())
    };
    let compared = "    compare: { axis: engine, baseline: pytorch/eager }\n";
    let told =
        "`optimization: off` is asked of onnxruntime/cpu, and pytorch/eager has no such switch";
    assert_eq!(of("optimization: \"off\"", compared), [told]);
    // A claim about a pair that no comparison tells of.
    let claimed = "  - id: a
    matrix: { model: resnet18, optimization: \"off\", engine: [pytorch/eager, onnxruntime/cpu, tensorflow/graph] }
    compare: { axis: engine, baseline: tensorflow/graph }
    claims: [{ id: c, source: s, states: t, expect: onnxruntime/cpu < pytorch/eager }]
";
    let of_tensorflow = told.replace("pytorch/eager", "tensorflow/graph");
    assert_eq!(
        noticed("no such switch", claimed, &world()),
        [told, of_tensorflow.as_str()]
    );
    // What its users get, what both know, and what is the axis.
    assert_eq!(of("optimization: all", compared), NOTHING);
    assert_eq!(of("spin: \"off\"", compared), NOTHING);
    let levels = "    compare: { axis: optimization, baseline: all }\n";
    assert_eq!(of("optimization: [all, \"off\"]", levels), NOTHING);
}

/// Users get the first value that is not refused in their precision: who asks for it asks for nothing else.
#[test]
fn what_users_get_in_a_precision_is_no_wish() {
    let mut world = world();
    let engine = world.engines.iter_mut().find(|it| it.name == "onnxruntime");
    let variant = &mut engine.unwrap().variants[0];
    variant.precisions.push(Precision::Bf16);
    variant.refuses.push(Refusal {
        reason: "it is not done".to_owned(),
        precisions: vec![Precision::Bf16],
        factors: BTreeMap::from([("optimization".to_owned(), vec!["all".to_owned()])]),
        ..Refusal::default()
    });
    let wishes = |precision: &str, value: &str| {
        let job = format!(
            "  - id: a
    matrix: {{ model: resnet18, precision: {precision}, optimization: \"{value}\", engine: [pytorch/eager, onnxruntime/cpu] }}
    compare: {{ axis: engine, baseline: pytorch/eager }}
"
        );
        noticed("no such switch", &job, &world).len()
    };
    let values = support::world().engines[1].variants[0].factors["optimization"]
        .values
        .clone();
    let [first, second, ..] = values.as_slice() else {
        panic!("{values:?}");
    };
    assert_eq!((wishes("fp32", first), wishes("fp32", second)), (0, 1));
    assert_eq!((wishes("bf16", first), wishes("bf16", second)), (1, 0));
}

#[test]
fn variants_of_an_engine_are_told_apart_by_their_axis_alone() {
    let graph_and_xla = ["tensorflow/graph", "tensorflow/xla"];
    let folded = "weights differs between tensorflow/graph (frozen) and tensorflow/xla (variables)";
    assert_eq!(
        told("inference", "model: resnet18", graph_and_xla),
        [folded]
    );
    assert_eq!(told("training", "model: resnet18", graph_and_xla), NOTHING);
    assert_eq!(
        told(
            "inference",
            "model: resnet18, weights: variables",
            graph_and_xla
        ),
        NOTHING
    );
    // How much is spelt out, and so whether weights are frozen, is not known beforehand.
    assert_eq!(told("inference", "model: lstm_lm", graph_and_xla), NOTHING);

    let graph_and_function = ["tensorflow/graph", "tensorflow/function"];
    let language =
        "host language differs between tensorflow/graph (rust) and tensorflow/function (python)";
    let folded =
        "weights differs between tensorflow/graph (frozen) and tensorflow/function (variables)";
    assert_eq!(
        told("inference", "model: resnet18", graph_and_function),
        [language, folded]
    );
    assert_eq!(
        told("training", "model: resnet18", graph_and_function),
        [language]
    );

    let xla_and_function = ["tensorflow/xla", "tensorflow/function"];
    let language =
        "host language differs between tensorflow/xla (rust) and tensorflow/function (python)";
    let compiled = "jit_compile differs between tensorflow/xla (on) and tensorflow/function (off)";
    assert_eq!(
        told("inference", "model: resnet18", xla_and_function),
        [language, compiled]
    );
    assert_eq!(
        told(
            "inference",
            "model: resnet18, jit_compile: \"on\"",
            xla_and_function
        ),
        [language]
    );
    // A kernel of their own is what some variants are for.
    let forms = told("training", "model: bert_tiny", graph_and_function);
    assert_eq!(forms.len(), 1, "{forms:?}");
}

/// Half of bf16 is another precision.
#[test]
fn what_a_precision_means_is_part_of_it() {
    let engines = ["pytorch/eager", "tensorflow/graph"];
    let mixed = "mixed_precision differs between pytorch/eager (off) and tensorflow/graph (on)";
    assert_eq!(
        told("inference", "model: resnet18, precision: bf16", engines),
        [mixed]
    );
    assert_eq!(told("inference", "model: resnet18", engines), NOTHING);
}

#[test]
fn what_is_compared_differs() {
    let found = unfair(
        "  - id: a
    matrix: { model: resnet18, weights: [auto, variables], engine: tensorflow/graph }
    compare: { axis: weights }
",
    );
    assert_eq!(found, NOTHING);
    let found = unfair(
        "  - id: a
    matrix: { model: resnet18, threads: [1, 2], precision: [fp32, bf16], engine: tensorflow/graph }
    compare: [{ axis: threads }, { axis: precision }]
",
    );
    assert_eq!(found, NOTHING);
}

/// A claim about two that are each held against a third is judged on pairs that no comparison has.
#[test]
fn a_claim_is_told_of_what_its_own_pairs_differ_in() {
    let told = |expect: &str| -> Vec<String> {
        let job = format!(
            "  - id: a
    matrix: {{ model: resnet18, engine: [pytorch/eager, tensorflow/graph, tensorflow/xla] }}
    compare: {{ axis: engine, baseline: pytorch/eager }}
    claims: {{ id: c, source: s, states: t, expect: '{expect}' }}
"
        );
        noticed("is not judged fairly", &job, &world())
    };
    assert_eq!(
        told("tensorflow/xla < tensorflow/graph"),
        [
            "the claim `c` is not judged fairly: weights differs between tensorflow/xla (variables) and tensorflow/graph (frozen)"
        ]
    );
    assert_eq!(told("tensorflow/xla < pytorch/eager"), NOTHING);
}

/// A manifest without its first line, planned.
fn try_plan(rest: &str, world: &World) -> Result<Plan, Vec<Diagnostic>> {
    let file = ManifestFile::from_text("test.yaml", &format!("version: 1\n{rest}"))?;
    plan(&[file], world)
}

#[test]
fn what_is_not_fair_is_refused_where_the_manifest_says_so() {
    let jobs = |unfair: &str| {
        format!(
            "measure: {{ unfair: {unfair} }}
jobs:
  - id: a
    matrix: {{ model: resnet18, layout: nchw, engine: [pytorch/eager, tensorflow/graph] }}
    compare: {{ axis: engine, baseline: pytorch/eager }}
"
        )
    };
    let unfair = |jobs: &str| {
        let warnings = try_plan(jobs, &world()).unwrap().warnings.into_iter();
        warnings
            .filter(|it| it.message.contains("is not fair"))
            .count()
    };
    assert_eq!(unfair(&jobs("warn")), 1);
    let errors = try_plan(&jobs("refuse"), &world()).unwrap_err();
    let [error] = errors.as_slice() else {
        panic!("one error: {errors:?}")
    };
    assert!(
        error.message.contains("layout differs between"),
        "{error:?}"
    );
    assert_eq!((error.line, error.column), (Some(6), Some(5)));
    // A job may be more lenient than its manifest.
    let lenient = jobs("refuse").replace(
        "    compare:",
        "    measure: { unfair: warn }\n    compare:",
    );
    assert_eq!(unfair(&lenient), 1);
    let fair = jobs("refuse").replace("layout: nchw", "layout: channels_last");
    assert_eq!(unfair(&fair), 0);
    // What nobody asked for is let alone, unless the manifest is strict.
    let strict = fair.replace("refuse", "strict");
    let errors = try_plan(&strict, &world()).unwrap_err();
    let [error] = errors.as_slice() else {
        panic!("one error: {errors:?}")
    };
    assert!(
        error
            .message
            .contains("differ in weights (variables and frozen)"),
        "{error:?}"
    );
    assert_eq!((error.line, error.column), (Some(6), Some(5)));
    let equal = strict.replace(
        "layout: channels_last",
        "layout: channels_last, weights: variables",
    );
    assert_eq!(unfair(&equal), 0);
}

/// Has a variant installed as the others are.
fn make_ready(world: &mut World, variant: &str) {
    let ready = world.availability.values().next();
    let ready = ready.expect("an engine").clone();
    let name = variant.parse().expect("a name");
    world.availability.insert(name, ready);
}

/// PyTorch compiled, with CUDA graphs in one of its modes, beside itself without a compiler.
#[test]
fn what_a_value_brings_with_it_is_held_against_what_others_do() {
    let mut world = world();
    let pytorch = world.engines.iter_mut().find(|it| it.name == "pytorch");
    let pytorch = pytorch.expect("an engine");
    let eager = &mut pytorch.variants[0];
    let off = || ("cuda_graphs".to_owned(), "off".to_owned());
    eager.fixed.extend([off()]);
    let mut compiled = eager.clone();
    compiled.name = "compiled".to_owned();
    compiled.fixed.remove("cuda_graphs");
    let brings = |value: &str| words([("cuda_graphs", value)]);
    let modes = FactorDescription {
        brings: BTreeMap::from([
            ("default".to_owned(), brings("off")),
            ("reduce-overhead".to_owned(), brings("on")),
        ]),
        ..support::factor(&["default", "reduce-overhead"])
    };
    compiled.factors.insert("compile_mode".to_owned(), modes);
    pytorch.variants.push(compiled);
    let onnxruntime = world.engines.iter_mut().find(|it| it.name == "onnxruntime");
    for variant in &mut onnxruntime.expect("an engine").variants {
        variant.fixed.extend([off()]);
    }
    make_ready(&mut world, "pytorch/compiled");

    let told = |device: &str, matrix: &str, axis: &str| -> Vec<String> {
        noticed("cuda_graphs", &of_resnet(device, matrix, axis), &world)
    };
    let both = "engine: [pytorch/eager, pytorch/compiled]";
    let replayed = format!("{both}, compile_mode: reduce-overhead");
    assert_eq!(
        told("cuda", &replayed, "engine"),
        [
            "the comparison over engine is not fair: cuda_graphs differs between pytorch/eager (off) and pytorch/compiled (on)"
        ]
    );
    assert_eq!(told("cuda", both, "engine"), NOTHING);
    assert_eq!(told("cpu", &replayed, "engine"), NOTHING);
    // It comes with the axis.
    let modes = "engine: pytorch/compiled, compile_mode: [default, reduce-overhead]";
    assert_eq!(
        told("cuda", modes, "compile_mode"),
        [
            "reduce-overhead differs from default in cuda_graphs as well (on and off), which a comparison over compile_mode cannot tell apart"
        ]
    );
    // Whoever asks for the one asks for the other, of whatever engine.
    let others = "engine: [onnxruntime/cuda, pytorch/compiled], compile_mode: reduce-overhead";
    assert_eq!(
        told("cuda", others, "engine"),
        [
            "the comparison over engine is not fair: cuda_graphs differs between onnxruntime/cuda (off) and pytorch/compiled (on)"
        ]
    );
}

/// Engines on a GPU, of which one tries kernels where it is asked to, one always and one never.
fn world_of_tuners() -> World {
    let mut world = world();
    for engine in &mut world.engines {
        for variant in &mut engine.variants {
            let always = match engine.name.as_str() {
                "pytorch" => {
                    let autotune = FactorDescription {
                        devices: vec!["cuda".to_owned()],
                        ..support::factor(&["off", "on"])
                    };
                    variant.factors.insert("autotune".to_owned(), autotune);
                    continue;
                }
                "onnxruntime" => "on",
                _ => "off",
            };
            variant.fixed.extend(words([("autotune", always)]));
        }
    }
    world
}

#[test]
fn whether_kernels_are_tried_is_held_against_what_others_do() {
    let world = world_of_tuners();
    let told = |device: &str, engines: [&str; 2], matrix: &str| -> Vec<String> {
        let [first, second] = engines;
        let job = format!(
            "  - id: a
    device: {device}
    matrix: {{ engine: [{first}, {second}], {matrix} }}
    compare: {{ axis: engine }}
"
        );
        noticed("autotune", &job, &world)
    };
    let engines = ["pytorch/eager", "onnxruntime/cuda"];
    assert_eq!(
        told("cuda", engines, "model: resnet18"),
        [
            "pytorch/eager and onnxruntime/cuda run as their users get them, and differ in autotune (off and on), weights (variables and frozen)"
        ]
    );
    assert_eq!(
        told("cuda", engines, "model: resnet18, autotune: \"off\""),
        [
            "the comparison over engine is not fair: autotune differs between pytorch/eager (off) and onnxruntime/cuda (on)"
        ]
    );
    let asked = "model: resnet18, autotune: \"on\"";
    assert_eq!(told("cuda", engines, asked), NOTHING);
    // Where there are no convolutions, and where there is no GPU, nothing is tried by anybody.
    assert_eq!(told("cuda", engines, "model: bert_tiny"), NOTHING);
    let engines = ["tensorflow/graph", "onnxruntime/cpu"];
    assert_eq!(told("cpu", engines, "model: resnet18"), NOTHING);
}

/// A mode of compiling that tries kernels, whatever the switch of the library below it says.
#[test]
fn what_a_value_brings_goes_before_the_switch_itself() {
    let mut world = world_of_tuners();
    let pytorch = world.engines.iter_mut().find(|it| it.name == "pytorch");
    let pytorch = pytorch.expect("an engine");
    let mut compiled = pytorch.variants[0].clone();
    compiled.name = "compiled".to_owned();
    let modes = FactorDescription {
        brings: BTreeMap::from([("max-autotune".to_owned(), words([("autotune", "on")]))]),
        ..support::factor(&["default", "max-autotune"])
    };
    compiled.factors.insert("compile_mode".to_owned(), modes);
    pytorch.variants.push(compiled);
    make_ready(&mut world, "pytorch/compiled");
    let told = |device: &str, matrix: &str, axis: &str| -> Vec<String> {
        noticed(" autotune ", &of_resnet(device, matrix, axis), &world)
    };
    let both = "engine: [pytorch/eager, pytorch/compiled], compile_mode: max-autotune";
    assert_eq!(
        told("cuda", both, "engine"),
        [
            "the comparison over engine is not fair: autotune differs between pytorch/eager (off) and pytorch/compiled (on)"
        ]
    );
    let tried = format!("{both}, autotune: \"on\"");
    assert_eq!(told("cuda", &tried, "engine"), NOTHING);
    assert_eq!(told("cpu", both, "engine"), NOTHING);
    let modes = "engine: pytorch/compiled, compile_mode: [default, max-autotune]";
    assert_eq!(
        told("cuda", modes, "compile_mode"),
        [
            "max-autotune differs from default in autotune as well (on and off), which a comparison over compile_mode cannot tell apart"
        ]
    );
}

/// TensorFlow keeps memory in a pool of its own where the processor has it compute with oneDNN: that is held against
/// who keeps nothing, and against nobody who keeps it.
#[test]
fn an_allocator_of_an_engine_s_own_is_told_beside_one_that_keeps_nothing() {
    let mut world = world();
    for engine in &mut world.engines {
        for variant in &mut engine.variants {
            let does = match engine.name.as_str() {
                "pytorch" => {
                    let allocator = support::factor(&["system", "keep"]);
                    variant.factors.insert("allocator".to_owned(), allocator);
                    continue;
                }
                "tensorflow" => "own",
                _ => "arena",
            };
            variant.fixed.extend(words([("allocator", does)]));
        }
    }
    let told = |other: &str, matrix: &str| -> Vec<String> {
        let job = format!(
            "  - id: a
    matrix: {{ model: resnet18, engine: [{other}, tensorflow/graph], {matrix} }}
    compare: {{ axis: engine }}
"
        );
        noticed("allocator", &job, &world)
    };
    assert_eq!(
        told("pytorch/eager", "batch: 1"),
        [
            "pytorch/eager and tensorflow/graph run as their users get them, and differ in allocator (system and own), layout (nchw and channels_last), weights (variables and frozen)"
        ]
    );
    assert_eq!(
        told("pytorch/eager", "allocator: system"),
        [
            "the comparison over engine is not fair: allocator differs between pytorch/eager (system) and tensorflow/graph (own)"
        ]
    );
    assert_eq!(told("pytorch/eager", "allocator: keep"), NOTHING);
    assert_eq!(told("onnxruntime/cpu", "batch: 1"), NOTHING);
}

/// What a library does with memory is told of variants of one engine, too, and is no unfair switch.
#[test]
fn who_keeps_memory_is_left_to_the_library() {
    let mut world = world();
    for engine in &mut world.engines {
        for variant in &mut engine.variants {
            if engine.name == "pytorch" {
                let allocator = support::factor(&["system", "keep"]);
                variant.factors.insert("allocator".to_owned(), allocator);
            } else {
                let arena = ("allocator".to_owned(), "arena".to_owned());
                variant.fixed.extend([arena]);
            }
        }
    }
    let told = |world: &World, other: &str, matrix: &str| -> Vec<String> {
        let job = format!(
            "  - id: a
    matrix: {{ model: resnet18, engine: [pytorch/eager, {other}], {matrix} }}
    compare: {{ axis: engine }}
"
        );
        noticed("allocator", &job, world)
    };
    assert_eq!(
        told(&world, "onnxruntime/cpu", "batch: 1"),
        [
            "pytorch/eager and onnxruntime/cpu run as their users get them, and differ in allocator (system and arena), weights (variables and frozen)"
        ]
    );
    // So do variants of one engine, of which one runs what another library runs.
    let pytorch = world.engines.iter_mut().find(|it| it.name == "pytorch");
    let variants = &mut pytorch.expect("an engine").variants;
    let mut exported = variants[0].clone();
    exported.name = "exported".to_owned();
    exported.factors.remove("allocator");
    let arena = ("allocator".to_owned(), "arena".to_owned());
    exported.fixed.extend([arena]);
    variants.push(exported);
    make_ready(&mut world, "pytorch/exported");
    assert_eq!(
        told(&world, "pytorch/exported", "batch: 1"),
        [
            "pytorch/eager and pytorch/exported run as their users get them, and differ in allocator (system and arena)"
        ]
    );
    // Memory that is kept is kept, whoever keeps it.
    assert_eq!(told(&world, "onnxruntime/cpu", "allocator: keep"), NOTHING);
    assert_eq!(
        told(&world, "onnxruntime/cpu", "allocator: system"),
        [
            "the comparison over engine is not fair: allocator differs between pytorch/eager (system) and onnxruntime/cpu (arena)"
        ]
    );
}

/// A claim about two that are each held against a third.
#[test]
fn what_is_left_to_the_engines_of_a_claim_is_told() {
    let jobs = |unfair: &str| {
        format!(
            "measure: {{ unfair: {unfair}, ceilings: false }}
jobs:
  - id: a
    matrix: {{ model: resnet18, weights: variables, layout: channels_last, engine: [tensorflow/graph, pytorch/eager, onnxruntime/cpu] }}
    compare: {{ axis: engine, baseline: tensorflow/graph }}
    claims: {{ id: c, source: s, states: t, expect: 'pytorch/eager < onnxruntime/cpu' }}
"
        )
    };
    let mut world = world();
    for engine in &mut world.engines {
        for variant in &mut engine.variants {
            let affinity = match engine.name.as_str() {
                "onnxruntime" => "default",
                _ => "free",
            };
            let affinity = ("affinity".to_owned(), affinity.to_owned());
            variant.fixed.extend([affinity]);
        }
    }
    let warnings = try_plan(&jobs("warn"), &world).unwrap().warnings;
    let told: Vec<_> = warnings.iter().map(|it| it.message.as_str()).collect();
    let expected = "the claim `c`: pytorch/eager and onnxruntime/cpu run as their users get them, and \
                    differ in affinity (free and default), weights (variables and frozen)";
    assert!(told.contains(&expected), "{told:?}");
    let errors = try_plan(&jobs("strict"), &world).unwrap_err();
    let at_claims = errors.iter().filter(|error| error.message == expected);
    assert_eq!(at_claims.count(), 1, "{errors:?}");
}
