//! Factors that decide in which form an engine gets an operator.

use std::collections::{BTreeMap, BTreeSet};

use photofinish_plan::{ManifestFile, World, plan};
use schema::{Mode, plan::Warning};

use crate::{plans::planned, support};

/// What the plan of these jobs complains of.
fn refusal(jobs: &str, world: &World) -> String {
    let text = format!("version: 1\njobs:\n{jobs}");
    let file = ManifestFile::from_text("test.yaml", &text).expect("sound YAML");
    let found = plan(&[file], world).expect_err("a refusal");
    found[0].render(false)
}

/// The world with engines that can spell operators out.
fn world_of_forms() -> World {
    let mut world = support::world();
    let values = [
        ("pytorch", ["fused", "plain"]),
        ("onnxruntime", ["plain", "fused"]),
    ];
    for (name, attention) in values {
        let mut engines = world.engines.iter_mut();
        let engine = engines
            .find(|engine| engine.name == name)
            .expect("an engine of the world");
        for variant in &mut engine.variants {
            for (factor, values) in [
                ("attention", attention),
                ("recurrent", ["fused", "unrolled"]),
            ] {
                let description = support::factor(&values);
                variant.factors.insert(factor.to_owned(), description);
            }
        }
    }
    world
}

/// What decides about an operator says nothing about a network without it.
#[test]
fn a_factor_of_an_operator_multiplies_only_the_networks_that_have_it() {
    let world = world_of_forms();
    let plan = planned(
        "  - id: a
    matrix: { model: [resnet18, lstm_lm, bert_tiny], recurrent: [fused, unrolled], engine: pytorch/eager }
    compare: { axis: recurrent, baseline: fused }
",
        &world,
    );
    let cells: Vec<_> = plan.heats.iter().flat_map(|heat| &heat.cells).collect();
    let mut told: Vec<_> = cells
        .iter()
        .filter(|cell| cell.twin_of.is_none())
        .map(|cell| (cell.cell.model.name.as_str(), cell.cell.factors.clone()))
        .collect();
    told.sort();
    let factors = |pairs: &[(&str, &str)]| {
        let pairs = pairs
            .iter()
            .map(|&(name, value)| (name.to_owned(), value.to_owned()));
        pairs.collect::<BTreeMap<String, String>>()
    };
    let layout = ("layout", "nchw");
    assert_eq!(
        told,
        [
            ("bert_tiny", factors(&[("attention", "fused")])),
            ("lstm_lm", factors(&[("recurrent", "fused")])),
            ("lstm_lm", factors(&[("recurrent", "unrolled")])),
            ("resnet18", factors(&[layout])),
        ]
    );
    let comparison = &plan.jobs[0].comparisons[0];
    assert_eq!(comparison.pairs.len(), 1);
    // Both forms are the same network.
    let graphs: BTreeSet<_> = cells
        .iter()
        .filter(|cell| cell.cell.model.name == "lstm_lm")
        .map(|cell| cell.cell.model.graph)
        .collect();
    assert_eq!(graphs.len(), 1);
}

/// Layouts of images are no two cells of a network of words.
#[test]
fn a_layout_varies_nothing_without_images() {
    let plan = planned(
        "  - id: a
    matrix: { model: [resnet18, bert_tiny], layout: [nchw, channels_last], engine: pytorch/eager }
",
        &world_of_forms(),
    );
    let cells: Vec<_> = plan.heats.iter().flat_map(|heat| &heat.cells).collect();
    let of = |name: &str| {
        let cells = cells.iter().filter(|cell| cell.twin_of.is_none());
        cells.filter(|cell| cell.cell.model.name == name).count()
    };
    assert_eq!((of("resnet18"), of("bert_tiny")), (2, 1));
    let job = "  - id: a
    matrix: { model: bert_tiny, layout: [nchw, channels_last], engine: pytorch/eager }
";
    let complaint = refusal(job, &world_of_forms());
    assert!(complaint.contains("lacks a model"), "{complaint}");
}

#[test]
fn a_factor_of_an_operator_that_no_network_has_is_refused() {
    let job = "  - id: a
    matrix: { model: resnet18, attention: [fused, plain], engine: pytorch/eager }
";
    let complaint = refusal(job, &world_of_forms());
    assert!(complaint.contains("lacks a model"), "{complaint}");
    assert!(complaint.contains("`attention`"), "{complaint}");
}

/// PyTorch has a kernel for attention, ONNX has none: that is what each one's users get. Who asks
/// for a form gets both engines in it, or is told.
#[test]
fn an_engine_s_own_form_of_an_operator_is_no_unfairness() {
    let job = |more: &str| {
        format!(
            "  - id: a
    matrix: {{ model: bert_tiny, {more}engine: [pytorch/eager, onnxruntime/cpu] }}
    compare: {{ axis: engine }}
"
        )
    };
    for more in ["", "attention: plain, "] {
        let plan = planned(&job(more), &world_of_forms());
        let unfair = |warning: &&Warning| warning.message.contains("not fair");
        assert_eq!(plan.warnings.iter().find(unfair), None);
    }
}

/// What of a file of the user's can be spelt out is what the file has.
#[test]
fn a_factor_of_an_operator_is_about_the_users_files_that_have_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |model: &str, dims: &[(&str, u64)]| {
        let dims = dims.iter().map(|&(name, size)| (name.to_owned(), size));
        let graph = models::zoo::build(model, &dims.collect()).expect("a network");
        let options = models::onnx::WriteOptions {
            opset: 17,
            precision: schema::Precision::Fp32,
            external: None,
            threshold: 0,
        };
        let written = models::onnx::write(&graph, &options).expect("a model");
        std::fs::write(folder.path().join(format!("{model}.onnx")), written.model).expect("room");
    };
    write("lstm_lm", &[("batch", 1), ("seq", 3)]);
    write("resnet18", &[("batch", 1), ("image", 32)]);
    let text = "version: 1
jobs:
  - id: a
    matrix:
      model: [{ onnx: lstm_lm.onnx }, { onnx: resnet18.onnx }]
      recurrent: [fused, unrolled]
      engine: pytorch/eager
";
    let path = folder.path().join("jobs.yaml");
    let file = ManifestFile::from_text(path.to_str().expect("UTF-8"), text).expect("sound YAML");
    let plan = plan(&[file], &world_of_forms()).expect("a plan");
    let cells = plan.heats.iter().flat_map(|heat| &heat.cells);
    let told: BTreeSet<_> = cells
        .map(|planned| {
            let form = planned.cell.factors.get("recurrent").map(String::as_str);
            (planned.cell.model.name.as_str(), form)
        })
        .collect();
    let expected = [
        ("lstm_lm.onnx", Some("fused")),
        ("lstm_lm.onnx", Some("unrolled")),
        ("resnet18.onnx", None),
    ];
    assert_eq!(told, BTreeSet::from(expected));
}

/// A world whose PyTorch has one factor more.
fn world_with(factor: &str, description: &schema::FactorDescription) -> World {
    let mut world = support::world();
    let engine = world
        .engines
        .iter_mut()
        .find(|known| known.name == "pytorch");
    for variant in &mut engine.expect("an engine of the world").variants {
        let factors = &mut variant.factors;
        factors.insert(factor.to_owned(), description.clone());
    }
    world
}

/// Dropout has a part in training alone.
#[test]
fn a_factor_of_a_mode_is_on_no_cell_of_another() {
    let description = schema::FactorDescription {
        modes: vec![Mode::Training],
        ..support::factor(&["on", "off"])
    };
    let world = world_with("dropout", &description);
    let job = |mode: &str, models: &str, more: &str| {
        format!(
            "  - id: a
    mode: {mode}
    matrix: {{ model: {models}, batch: 2, {more}engine: pytorch/eager }}
"
        )
    };
    let told = |mode: &str, more: &str| -> Vec<(String, Option<String>)> {
        let plan = planned(&job(mode, "[resnet18, vgg16]", more), &world);
        let cells = plan.heats.iter().flat_map(|heat| &heat.cells);
        let mut told: Vec<_> = cells
            .filter(|cell| cell.twin_of.is_none())
            .map(|cell| {
                (
                    cell.cell.model.name.clone(),
                    cell.cell.factors.get("dropout").cloned(),
                )
            })
            .collect();
        told.sort();
        told
    };
    let pair = |model: &str, dropout: Option<&str>| (model.to_owned(), dropout.map(str::to_owned));
    let [plain, none] = [pair("resnet18", None), pair("vgg16", None)];
    let [on, off] = ["on", "off"].map(|value| pair("vgg16", Some(value)));
    assert_eq!(told("training", ""), [plain.clone(), on.clone()]);
    assert_eq!(
        told("training", "dropout: [on, off], "),
        [plain.clone(), off, on]
    );
    assert_eq!(told("inference", ""), [plain, none]);
    let complaint = refusal(&job("inference", "vgg16", "dropout: off, "), &world);
    assert!(complaint.contains("the mode `training`"), "{complaint}");
    let complaint = refusal(&job("training", "resnet18", "dropout: off, "), &world);
    assert!(complaint.contains("lacks a model"), "{complaint}");
}

/// What cuDNN tries has a part on GPUs alone, and in networks that have convolutions.
#[test]
fn a_factor_of_a_device_is_on_no_cell_of_another() {
    let description = schema::FactorDescription {
        devices: vec!["cuda".to_owned()],
        ..support::factor(&["off", "on"])
    };
    let world = world_with("autotune", &description);
    let job = |devices: &str, models: &str, more: &str| {
        format!(
            "  - id: a
    matrix: {{ model: {models}, batch: 2, device: {devices}, {more}engine: pytorch/eager }}
"
        )
    };
    let told = |devices: &str, more: &str| -> Vec<(String, String, Option<String>)> {
        let plan = planned(&job(devices, "[resnet18, bert_tiny]", more), &world);
        let cells = plan.heats.iter().flat_map(|heat| &heat.cells);
        let mut told: Vec<_> = cells
            .filter(|cell| cell.twin_of.is_none())
            .map(|cell| {
                (
                    cell.cell.model.name.clone(),
                    cell.cell.device.kind().to_owned(),
                    cell.cell.factors.get("autotune").cloned(),
                )
            })
            .collect();
        told.sort();
        told
    };
    let cell = |model: &str, device: &str, value: Option<&str>| {
        (
            model.to_owned(),
            device.to_owned(),
            value.map(str::to_owned),
        )
    };
    let plain = |device| cell("bert_tiny", device, None);
    let on_cpu = cell("resnet18", "cpu", None);
    let [off, on] = ["off", "on"].map(|value| cell("resnet18", "cuda", Some(value)));
    assert_eq!(told("cpu", ""), [plain("cpu"), on_cpu.clone()]);
    assert_eq!(told("cuda", ""), [plain("cuda"), off.clone()]);
    assert_eq!(
        told("[cpu, cuda]", "autotune: [off, on], "),
        [plain("cpu"), plain("cuda"), on_cpu, off, on]
    );
    let complaint = refusal(&job("cpu", "resnet18", "autotune: on, "), &world);
    assert!(complaint.contains("the device `cuda`"), "{complaint}");
    let complaint = refusal(&job("cuda", "bert_tiny", "autotune: on, "), &world);
    assert!(complaint.contains("lacks a model"), "{complaint}");
}
