//! Models of the user's in a manifest: found, read, sized, and part of what a heat is known by.

use std::{collections::BTreeMap, fs, path::Path};

use models::onnx::{self, WriteOptions};
use photofinish_plan::{ManifestFile, World, plan};
use schema::{ModelSource, OutcomeKind, Plan, Precision};

use crate::{
    by_hand::{ByHand, FLOAT},
    support,
};

/// A folder with `nets/small.onnx`, a network for batches of this size, and a manifest.
fn folder(batch: u64) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("nets")).unwrap();
    put(folder.path(), batch);
    folder
}

fn put(folder: &Path, batch: u64) {
    put_in(folder, batch, Precision::Fp32);
}

fn put_in(folder: &Path, batch: u64, precision: Precision) {
    let dims = [("batch", batch), ("image", 64)];
    let dims = dims.map(|(name, size)| (name.to_owned(), size));
    let graph = models::zoo::build("mobilenet_v2", &BTreeMap::from(dims)).unwrap();
    let options = WriteOptions {
        opset: 17,
        precision,
        external: None,
        threshold: 0,
    };
    let model = onnx::write(&graph, &options).unwrap().model;
    fs::write(folder.join("nets/small.onnx"), model).unwrap();
}

fn planned(folder: &Path, jobs: &str) -> Result<Plan, String> {
    planned_for(&support::world(), folder, jobs)
}

fn planned_for(world: &World, folder: &Path, jobs: &str) -> Result<Plan, String> {
    let path = folder.join("jobs.yaml");
    let text = format!("version: 1\njobs:\n{jobs}");
    let path = path.to_str().unwrap();
    let told = |found: Vec<photofinish_plan::Diagnostic>| -> String {
        found
            .iter()
            .map(|diagnostic| diagnostic.render(false))
            .collect()
    };
    let file = ManifestFile::from_text(path, &text).map_err(told)?;
    plan(&[file], world).map_err(told)
}

const JOB: &str = "  - id: a
    matrix: { model: [{ onnx: nets/small.onnx }, mobilenet_v2], batch: [2], image: [64], engine: [pytorch/eager, onnxruntime/cpu] }
    compare: { axis: engine, baseline: pytorch/eager }
";

#[test]
fn a_model_of_the_users_is_planned_like_one_of_the_zoo() {
    let folder = folder(2);
    let plan = planned(folder.path(), JOB).unwrap();
    assert_eq!(plan.heats.len(), 2);
    let own = plan
        .heats
        .iter()
        .find(|heat| heat.cells[0].cell.model.source == ModelSource::Onnx);
    let own = own.unwrap();
    let zoo = plan
        .heats
        .iter()
        .find(|heat| heat.cells[0].cell.model.name == "mobilenet_v2");
    let (own_cell, zoo_cell) = (&own.cells[0], &zoo.unwrap().cells[0]);
    assert_eq!(own_cell.cell.model.name, "nets/small.onnx");
    assert_eq!(
        own_cell.cell.dims,
        BTreeMap::from([("batch".to_owned(), 2)])
    );
    assert!(own_cell.obstacle.is_none());
    assert_eq!(own_cell.parameters, zoo_cell.parameters);
    // Dropout, which the zoo's graph has, is not written, and costs nothing.
    assert_eq!(own_cell.flops, zoo_cell.flops);
    assert!(own.key_parts.contains_key("witness"));
    assert!(!zoo.unwrap().key_parts.contains_key("witness"));
}

#[test]
fn a_file_is_one_model_however_it_is_spelt() {
    let folder = folder(2);
    let job = |second: &str| {
        format!(
            "  - id: a\n    matrix: {{ model: [{{ onnx: nets/small.onnx }}, {{ onnx: {second} }}], engine: onnxruntime/cpu }}\n"
        )
    };
    for spelling in [
        "./nets/small.onnx",
        "nets//small.onnx",
        "nets/./small.onnx/",
    ] {
        let told = planned(folder.path(), &job(spelling)).unwrap_err();
        assert!(
            told.contains("is the file `nets/small.onnx`, which is"),
            "{told}"
        );
    }
    for spelling in ["nets/../nets/small.onnx", "/nets/small.onnx", "."] {
        let told = planned(folder.path(), &job(spelling)).unwrap_err();
        assert!(told.contains("cannot be used"), "{told}");
    }
}

/// A field of a message of protobuf that holds bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let length = u8::try_from(bytes.len()).unwrap();
    [&[number << 3 | 2, length], bytes].concat()
}

/// A model whose input has an open size of this name.
fn open_model(size: &str) -> Vec<u8> {
    let value = |name: &[u8]| {
        let shape = [field(1, &field(2, size.as_bytes())), field(1, &[8, 4])].concat();
        let tensor = [vec![8, 1], field(2, &shape)].concat();
        [field(1, name), field(2, &field(1, &tensor))].concat()
    };
    let node = [field(1, b"x"), field(2, b"y"), field(4, b"Relu")].concat();
    let graph = [
        field(1, &node),
        field(2, b"g"),
        field(11, &value(b"x")),
        field(12, &value(b"y")),
    ];
    [vec![8, 8], field(7, &graph.concat()), field(8, &[16, 17])].concat()
}

/// How images lie in memory is no question where there are none.
#[test]
fn a_file_without_images_has_no_layout() {
    let folder = folder(2);
    fs::write(folder.path().join("nets/flat.onnx"), open_model("batch")).unwrap();
    for (file, has_images) in [("small", true), ("flat", false)] {
        let job = format!(
            "  - id: a\n    matrix: {{ model: {{ onnx: nets/{file}.onnx }}, batch: 2, engine: pytorch/eager }}\n"
        );
        let plan = planned(folder.path(), &job).unwrap();
        let cell = &plan.heats[0].cells[0].cell;
        assert_eq!(cell.factors.contains_key("layout"), has_images, "{file}");
    }
}

#[test]
fn a_size_that_is_called_like_an_axis_cannot_be_given() {
    let folder = folder(2);
    let job = |axes: &str| {
        format!(
            "  - id: a\n    matrix: {{ model: {{ onnx: nets/small.onnx }}, {axes}engine: onnxruntime/cpu }}\n"
        )
    };
    // The second is a switch of an engine.
    for size in ["engine", "spin"] {
        fs::write(folder.path().join("nets/small.onnx"), open_model(size)).unwrap();
        let told = planned(folder.path(), &job("")).unwrap_err();
        let what = format!("a size open that it calls `{size}`");
        assert!(told.contains(&what), "{told}");
        assert!(told.contains("export it with another name"), "{told}");
    }
    fs::write(folder.path().join("nets/small.onnx"), open_model("width")).unwrap();
    planned(folder.path(), &job("width: [8, 16], ")).unwrap();
}

#[test]
fn the_content_of_the_file_is_part_of_the_key() {
    let folder = folder(2);
    let key = || {
        let plan = planned(folder.path(), JOB).unwrap();
        let keys: Vec<_> = plan.heats.iter().map(|heat| heat.key).collect();
        keys
    };
    let before = key();
    assert_eq!(key(), before);
    let path = folder.path().join("nets/small.onnx");
    let mut bytes = fs::read(&path).unwrap();
    let last = bytes.len() - 1;
    bytes[last / 2] ^= 1;
    fs::write(&path, bytes).unwrap();
    let after = key();
    let changed = before.iter().zip(&after).filter(|(a, b)| a != b).count();
    assert_eq!(changed, 1, "that of the zoo's network stays");
}

#[test]
fn a_batch_that_the_file_does_not_have_is_pointed_at() {
    let folder = folder(2);
    let job = "  - id: a\n    matrix: { model: { onnx: nets/small.onnx }, batch: [2, 8], engine: pytorch/eager }\n";
    let told = planned(folder.path(), job).unwrap_err();
    assert!(
        told.contains("the file has 2 written in, and cannot be run with 8"),
        "{told}"
    );
    let caret = told.lines().find(|line| line.contains('^')).unwrap();
    let line = told.lines().find(|line| line.contains("matrix")).unwrap();
    assert_eq!(caret.find('^'), line.find("8]"), "{told}");
}

#[test]
fn models_of_the_users_are_not_trained() {
    let folder = folder(2);
    let job = "  - id: a\n    mode: training\n    matrix: { model: { onnx: nets/small.onnx }, engine: pytorch/eager }\n";
    let told = planned(folder.path(), job).unwrap_err();
    assert!(told.contains("what inference needs alone"), "{told}");
}

#[test]
fn a_link_is_not_followed() {
    let folder = folder(2);
    std::os::unix::fs::symlink("small.onnx", folder.path().join("nets/link.onnx")).unwrap();
    let job = "  - id: a\n    matrix: { model: { onnx: nets/link.onnx }, engine: pytorch/eager }\n";
    let told = planned(folder.path(), job).unwrap_err();
    assert!(told.contains("through a link"), "{told}");
}

/// A folder as [`folder`]'s, its network with an operator that no graph has.
fn folder_with_an_outline() -> tempfile::TempDir {
    let folder = folder(2);
    let path = folder.path().join("nets/small.onnx");
    // As long as the name that it takes the place of.
    let bytes = fs::read(&path).unwrap();
    let (from, to) = (b"GlobalAveragePool", b"GlobalLpPoolOther");
    let mut bytes = bytes;
    let at = bytes
        .windows(from.len())
        .position(|window| window == from)
        .unwrap();
    bytes[at..at + from.len()].copy_from_slice(to);
    fs::write(&path, bytes).unwrap();
    folder
}

#[test]
fn an_operator_that_no_graph_has_is_left_to_engines_that_read_onnx() {
    let folder = folder_with_an_outline();
    let plan = planned(folder.path(), JOB).unwrap();
    let cells = plan.heats.iter().flat_map(|heat| &heat.cells);
    let own: Vec<_> = cells
        .filter(|cell| cell.cell.model.source == ModelSource::Onnx && cell.twin_of.is_none())
        .collect();
    assert_eq!(own.len(), 2);
    for cell in own {
        assert!(cell.is_outline());
        assert_eq!((cell.flops, cell.bytes, cell.parameters), (0, 0, 0));
        assert!(cell.predicted_step_ns > 0);
        if cell.cell.engine.engine == "onnxruntime" {
            assert_eq!(cell.obstacle, None);
            continue;
        }
        let obstacle = cell.obstacle.as_ref().unwrap();
        assert_eq!(obstacle.kind, OutcomeKind::Unsupported);
        let reason = &obstacle.reason;
        assert!(
            reason.contains("operator `GlobalLpPoolOther` of node"),
            "{reason}"
        );
        assert!(
            reason.contains("pytorch/eager does not read ONNX itself"),
            "{reason}"
        );
    }
    let said: Vec<_> = plan
        .warnings
        .iter()
        .map(|warning| &warning.message)
        .collect();
    let is_said = |message: &&&String| {
        message.contains("`nets/small.onnx` is run as it is, in fp32")
            && message.contains("`GlobalLpPoolOther`")
    };
    assert_eq!(said.iter().filter(is_said).count(), 1, "{said:?}");
}

#[test]
fn a_file_that_is_run_as_it_is_has_one_precision() {
    let folder = folder_with_an_outline();
    let job = "  - id: a
    matrix: { model: { onnx: nets/small.onnx }, precision: [fp32, fp16], engine: onnxruntime/cpu }
";
    let plan = planned(folder.path(), job).unwrap();
    let mut cells = plan.heats.iter().flat_map(|heat| &heat.cells);
    let obstacle = |precision| {
        let cell = cells.find(|cell| cell.cell.precision == precision);
        cell.unwrap().obstacle.clone()
    };
    let [own, other] = [Precision::Fp32, Precision::Fp16].map(obstacle);
    assert_eq!(own, None);
    let reason = other.unwrap().reason;
    assert!(
        reason.contains("run as it is, and that is in fp32: ask for `precision: fp32`"),
        "{reason}"
    );
}

/// A machine whose ONNX Runtime has kernels in double precision.
fn world_in_double() -> World {
    let mut world = support::world();
    let engines = world.engines.iter_mut();
    for variant in engines.flat_map(|engine| &mut engine.variants) {
        if !variant.precisions.contains(&Precision::Fp64) {
            variant.precisions.push(Precision::Fp64);
        }
    }
    world
}

#[test]
fn double_precision_is_for_files_that_are_in_it_on_onnx_runtime() {
    let job = "  - id: a
    precision: fp64
    matrix: { model: [{ onnx: nets/small.onnx }, mobilenet_v2], batch: 2, image: 64, engine: [pytorch/eager, onnxruntime/cpu] }
";
    let folder = folder(2);
    for own in [Precision::Fp32, Precision::Fp64] {
        put_in(folder.path(), 2, own);
        let plan = planned_for(&world_in_double(), folder.path(), job).unwrap();
        let cells = plan.heats.iter().flat_map(|heat| &heat.cells);
        let cells: Vec<_> = cells.filter(|cell| cell.twin_of.is_none()).collect();
        let on_onnx_runtime = || {
            let cells = cells.iter();
            cells.filter(|cell| cell.cell.engine.engine == "onnxruntime")
        };
        assert_eq!(on_onnx_runtime().count(), 2, "{own}");
        for cell in on_onnx_runtime() {
            let is_own = cell.cell.model.source == ModelSource::Onnx;
            if is_own && own == Precision::Fp64 {
                assert_eq!(cell.obstacle, None);
                continue;
            }
            let obstacle = cell.obstacle.as_ref().unwrap();
            assert_eq!(obstacle.kind, OutcomeKind::Unsupported);
            let words = "it runs files that are in it, and no other network";
            assert!(obstacle.reason.contains(words), "{obstacle:?}");
        }
        let zoo = cells.iter().find(|cell| {
            cell.cell.engine.engine == "pytorch" && cell.cell.model.source == ModelSource::Zoo
        });
        assert_eq!(zoo.unwrap().obstacle, None);
    }
}

#[test]
fn what_a_file_is_fed_counts_where_nothing_else_is_known_of_its_memory() {
    let folder = folder(2);
    let memory = |sizes: &[i64]| {
        let file = ByHand::default()
            .fed("x", FLOAT, sizes)
            .node("Atan", &["x"], "y")
            .made("y");
        fs::write(folder.path().join("nets/small.onnx"), file).unwrap();
        let job = "  - id: a
    matrix: { model: { onnx: nets/small.onnx }, engine: onnxruntime/cpu }
";
        let plan = planned(folder.path(), job).unwrap();
        let cell = &plan.heats[0].cells[0];
        assert!(cell.is_outline());
        cell.predicted_bytes
    };
    let small = memory(&[1, 64]);
    assert!(small < 1 << 30, "{small}");
    let large = memory(&[1, i64::from(i32::MAX), 64]);
    assert!(large > 512 << 30, "{large}");
}

#[test]
fn the_largest_batch_is_not_sought_where_the_file_has_one_written_in() {
    let folder = folder(1);
    let job = "  - id: a
    measure: { frontier: 64, memory_limit: 1GiB }
    matrix: { model: [mobilenet_v2, { onnx: nets/small.onnx }], engine: onnxruntime/cpu }
";
    let told = planned(folder.path(), job).unwrap_err();
    assert!(
        told.contains(
            "`nets/small.onnx` has no open dimension `batch`: its batch is fixed in the file"
        ),
        "{told}"
    );
    assert!(told.contains("export it with an open first axis"), "{told}");
    fs::write(folder.path().join("nets/small.onnx"), open_model("N")).unwrap();
    planned(folder.path(), job).unwrap();
}

#[test]
fn a_model_of_the_users_can_be_named_in_lists() {
    let folder = folder(2);
    let job = "  - id: a
    matrix: { model: [{ onnx: nets/small.onnx }, bert_tiny], seq: [16, 32], engine: [pytorch/eager] }
    exclude: [{ model: bert_tiny, seq: 32 }]
    include: [{ model: nets/small.onnx, seq: 16, engine: onnxruntime/cpu }]
";
    let plan = planned(folder.path(), job).unwrap();
    // The file has no `seq`: both sizes are one cell.
    assert_eq!(plan.cell_count(), 3);
}

/// A file of weights for the zoo's network, all zero.
fn put_weights(path: &Path, network: &str) {
    let dims = models::zoo::resolve_dims(network, &BTreeMap::new()).unwrap();
    let graph = models::zoo::build(network, &dims).unwrap();
    let content = models::sample::safetensors(&graph, |_| 0.0).unwrap();
    fs::write(path, content).unwrap();
}

const WITH_WEIGHTS: &str = "  - id: a
    matrix: { model: [{ zoo: mobilenet_v2, weights: own.safetensors }, mobilenet_v2], batch: [2], image: [64], engine: [pytorch/eager, onnxruntime/cpu] }
    compare: { axis: engine, baseline: pytorch/eager }
";

#[test]
fn a_network_of_the_zoo_with_weights_is_another_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("own.safetensors");
    put_weights(&path, "mobilenet_v2");
    let first = planned(folder.path(), WITH_WEIGHTS).unwrap();
    assert_eq!(first.heats.len(), 2);
    let has_weights =
        |heat: &&schema::plan::PlannedHeat| heat.cells[0].cell.model.weights.is_some();
    let own = first.heats.iter().find(has_weights).unwrap();
    let zoo = first.heats.iter().find(|heat| !has_weights(heat)).unwrap();
    let title = "mobilenet_v2@own.safetensors";
    assert_eq!(own.cells[0].coordinates["model"], title);
    assert!(own.cells[0].cell.describe().starts_with(title));
    assert_eq!(own.cells[0].cell.model.graph, zoo.cells[0].cell.model.graph);
    assert_eq!(own.cells[0].flops, zoo.cells[0].flops);
    let again = WITH_WEIGHTS.replace(
        "own.safetensors }",
        "own.safetensors }, { zoo: mobilenet_v2, weights: ./own.safetensors }",
    );
    assert_ne!(again, WITH_WEIGHTS);
    let told = planned(folder.path(), &again).unwrap_err();
    assert!(
        told.contains(&format!("`{title}` is there twice")),
        "{told}"
    );
    // Other numbers, other heat; that of the zoo's own stays.
    let mut content = fs::read(&path).unwrap();
    *content.last_mut().unwrap() = 1;
    fs::write(&path, content).unwrap();
    let second = planned(folder.path(), WITH_WEIGHTS).unwrap();
    let keys = |plan: &Plan| -> Vec<_> {
        let heats = plan.heats.iter();
        heats.map(|heat| (has_weights(&heat), heat.key)).collect()
    };
    for ((own, one), (_, other)) in keys(&first).into_iter().zip(keys(&second)) {
        assert_eq!(own, one != other);
    }
}

#[test]
fn weights_that_are_not_the_network_s_are_told_with_their_place() {
    let folder = tempfile::tempdir().unwrap();
    let refusal = |jobs: &str| planned(folder.path(), jobs).unwrap_err();
    let said = refusal(WITH_WEIGHTS);
    assert!(
        said.contains("the file of weights `own.safetensors` cannot be used"),
        "{said}"
    );
    assert!(said.contains("jobs.yaml:4:"), "{said}");
    fs::write(folder.path().join("own.safetensors"), "short").unwrap();
    let said = refusal(WITH_WEIGHTS);
    assert!(
        said.contains("a whole file of safetensors is expected"),
        "{said}"
    );
    put_weights(&folder.path().join("own.safetensors"), "resnet18");
    let said = refusal(WITH_WEIGHTS);
    assert!(
        said.contains("`own.safetensors`: of the 262 tensors of mobilenet_v2 it lacks"),
        "{said}"
    );
    let lone = WITH_WEIGHTS.replace("zoo: mobilenet_v2, ", "");
    let said = refusal(&lone);
    assert!(
        said.contains("a model is `onnx` alone, or `zoo`, which may have `weights`"),
        "{said}"
    );
}

/// Names in a file are text of its own, and no line of the terminal.
#[test]
fn what_a_file_names_stays_on_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let name = "y\nfake: verified\u{1b}[2J";
    let bytes = ByHand::default()
        .fed("x", FLOAT, &[2, 4])
        .node("Celu", &["x"], name)
        .made(name);
    fs::write(folder.path().join("odd.onnx"), bytes).unwrap();
    let job = "  - id: a\n    matrix: { model: [{ onnx: odd.onnx }], engine: [pytorch/eager, onnxruntime/cpu] }\n";
    let plan = planned(folder.path(), job).unwrap();
    let cells = plan.heats.iter().flat_map(|heat| &heat.cells);
    let obstacles = cells.filter_map(|cell| cell.obstacle.as_ref());
    let mut told: Vec<&str> = obstacles.map(|outcome| &*outcome.reason).collect();
    told.extend(plan.warnings.iter().map(|warning| &*warning.message));
    assert!(
        told.iter().any(|told| told.contains("fake: verified")),
        "{told:?}"
    );
    for told in told {
        assert!(!told.contains(char::is_control), "{told:?}");
    }
}
