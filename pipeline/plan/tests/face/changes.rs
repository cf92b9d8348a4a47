//! What `plan --explain` says changed in a group's key.

use photofinish_plan::World;
use schema::{
    Availability, Digest, Plan,
    machine::Gpu,
    plan::{KnownState, PlannedHeat, Status},
};

use crate::{
    plans::{RACE, heat, planned, sealed},
    support,
};

/// What changed in the first group since `old`, now that the jobs are `new`.
fn changed(old: &str, new: &str) -> String {
    let mut world = support::world();
    let before = planned(old, &world);
    let heats = before.heats.iter();
    world.known = heats
        .map(|heat| sealed(heat, "2026-01-01T00:00:00Z"))
        .collect();
    match &planned(new, &world).heats[0].status {
        Status::Stale { changed } => changed.join("\n"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_changed_of_cells_is_told_once_and_by_its_own_words() {
    let training = |settings: &str| {
        format!(
            "  - id: a\n    mode: training\n    optimizer: {settings}\n    \
             matrix: {{ model: resnet18, engine: [pytorch/eager] }}\n"
        )
    };
    let sgd = |rate: &str| training(&format!("{{ sgd: {{ learning_rate: {rate} }} }}"));
    assert_eq!(
        changed(&sgd("0.1"), &sgd("0.2")),
        "cells: learning_rate=0.1 became learning_rate=0.2"
    );
    assert_eq!(
        changed(
            &sgd("0.1"),
            &sgd("0.1").replace("    matrix", "    precision: bf16\n    matrix")
        ),
        "cells: fp32 became bf16"
    );
    let threads = |list: &str| {
        format!(
            "  - id: a\n    matrix: {{ model: resnet18, threads: [{list}], engine: pytorch/eager }}\n    \
             compare: {{ axis: threads, baseline: 1 }}\n"
        )
    };
    assert_eq!(
        changed(&threads("1, 2"), &threads("1, 2, 4")),
        "cells: added resnet18 batch=1 image=224 fp32 inference on pytorch/eager, cpu, 4 threads layout=nchw"
    );
}

/// Whether a variant can be used, to be changed.
fn available<'a>(world: &'a mut World, engine: &str) -> &'a mut Availability {
    let found = world
        .availability
        .iter_mut()
        .find(|(known, _)| known.to_string() == engine);
    found.expect("the engine is in the world").1
}

#[test]
fn another_worker_of_the_same_engine_changes_no_key() {
    let mut world = support::world();
    let mut compiled = world.engines[0].variants[0].clone();
    compiled.name = "compiled".to_owned();
    world.engines[0].variants.push(compiled);
    let eager = available(&mut world, "pytorch/eager").clone();
    world
        .availability
        .insert("pytorch/compiled".parse().unwrap(), eager);
    let both = RACE.replace("onnxruntime/cpu", "pytorch/compiled");
    let keys = |text: &str, world: &World| -> Vec<Digest> {
        let plan = planned(text, world);
        plan.heats.iter().map(|heat| heat.key).collect()
    };
    let (apart, together) = (keys(RACE, &world), keys(&both, &world));
    available(&mut world, "pytorch/compiled").worker = Digest::of_bytes(b"another");
    assert_eq!(keys(RACE, &world), apart);
    assert!(
        keys(&both, &world)
            .iter()
            .all(|key| !together.contains(key))
    );
}

#[test]
fn another_compiler_of_the_machine_makes_stale_what_compiles_with_it() {
    let mut world = support::world();
    available(&mut world, "onnxruntime/cpu").compiler = Some(Digest::of_bytes(b"g++ 12"));
    let alone = "  - id: alone\n    matrix: { model: resnet18, threads: [1, 2], engine: pytorch/eager }\n    \
                 compare: { axis: threads, baseline: 1 }\n";
    let statuses = |world: &World, text: &str| -> Vec<String> {
        let told = |heat: &PlannedHeat| match &heat.status {
            Status::Stale { changed } => changed.join("\n"),
            other => format!("{other:?}"),
        };
        planned(text, world).heats.iter().map(told).collect()
    };
    for text in [RACE, alone] {
        let plan = planned(text, &world);
        let heats = plan.heats.iter();
        let known = heats.map(|heat| sealed(heat, "2026-01-01T00:00:00Z"));
        world.known.extend(known);
    }
    let all = |world: &World, text: &str, what: &str| {
        let statuses = statuses(world, text);
        assert!(
            statuses.iter().all(|told| told.starts_with(what)),
            "{statuses:?}"
        );
    };
    available(&mut world, "onnxruntime/cpu").compiler = Some(Digest::of_bytes(b"g++ 13"));
    all(&world, RACE, "compiler onnxruntime/cpu changed");
    all(&world, alone, "Cached");
    available(&mut world, "onnxruntime/cpu").compiler = None;
    all(&world, RACE, "compiler onnxruntime/cpu: no longer used");
}

#[test]
fn other_libraries_for_gpus_make_stale_what_runs_there() {
    let mut world = support::world();
    let gpu = Gpu {
        name: "A GPU".to_owned(),
        driver: "1".to_owned(),
        memory_bytes: 1 << 34,
    };
    world.fingerprint.gpus.push(gpu);
    let on = |device: &str| {
        format!(
            "  - id: {device}\n    matrix: {{ model: resnet18, device: {device}, threads: [1, 2], engine: pytorch/eager }}\n    \
             compare: {{ axis: threads, baseline: 1 }}\n"
        )
    };
    let parts = |world: &World, device: &str| {
        let plan = planned(&on(device), world);
        let heat = plan.heats.first().unwrap().clone();
        (
            heat.key,
            heat.key_parts.get("GPU libraries pytorch/eager").cloned(),
        )
    };
    let (cpu, cuda) = (parts(&world, "cpu"), parts(&world, "cuda"));
    assert_eq!((&cpu.1, &cuda.1), (&None, &None));
    let libraries = Digest::of_bytes(b"cuBLAS 13");
    available(&mut world, "pytorch/eager").gpu = Some(libraries);
    assert_eq!(parts(&world, "cpu"), cpu);
    let (key, told) = parts(&world, "cuda");
    assert_eq!(told, Some(libraries.to_string()));
    assert_ne!(key, cuda.0);
}

#[test]
fn what_changed_in_a_key_is_told_in_words() {
    let mut world = support::world();
    world.known = planned(RACE, &world)
        .heats
        .iter()
        .map(|heat| sealed(heat, "2026-01-01T00:00:00Z"))
        .collect();
    let changed = |plan: &Plan| match &heat(plan, "race/batch=1,model=resnet18").status {
        Status::Stale { changed } => changed.join("\n"),
        other => panic!("{other:?}"),
    };
    let with = |settings: &str| {
        let settings = format!("measure: {{ {settings} }}\n    compare:");
        RACE.replace("compare:", &settings)
    };
    let plan = planned(&with("budget: 1h"), &world);
    assert!(matches!(plan.heats[0].status, Status::Cached { .. }));
    // How long it goes on depends on them.
    for (judging, said) in [
        ("margin: 10%", "margin was 0.02, is 0.1"),
        ("confidence: 99%", "confidence was 0.95, is 0.99"),
    ] {
        let changed = changed(&planned(&with(judging), &world));
        assert_eq!(changed, format!("measure: {said}"));
    }
    let mut fixed = support::world();
    fixed.known = planned(&with("blocks: 6"), &fixed)
        .heats
        .iter()
        .map(|heat| sealed(heat, "2026-01-01T00:00:00Z"))
        .collect();
    for judging in ["margin: 10%", "confidence: 99%"] {
        let plan = planned(&with(&format!("blocks: 6, {judging}")), &fixed);
        assert!(
            matches!(plan.heats[0].status, Status::Cached { .. }),
            "`{judging}` only judges what was measured"
        );
    }
    // A warm-up is held against it.
    let target = RACE.replace("compare:", "measure: { target: 2% }\n    compare:");
    assert_eq!(
        changed(&planned(&target, &world)),
        "measure: target was 0.01, is 0.02"
    );

    let blocks = RACE.replace("compare:", "measure: { blocks: 12 }\n    compare:");
    assert_eq!(
        changed(&planned(&blocks, &world)),
        "measure: blocks was 48, is 12"
    );

    let threads = planned(&RACE.replace("matrix:", "threads: 2\n    matrix:"), &world);
    assert_eq!(changed(&threads), "cells: 4 threads became 2 threads");

    let mut other = world.clone();
    available(&mut other, "onnxruntime/cpu").worker = Digest::of_bytes(b"another");
    assert_eq!(
        changed(&planned(RACE, &other)),
        "worker onnxruntime/cpu changed"
    );
    other = world.clone();
    available(&mut other, "pytorch/eager").lock = None;
    assert_eq!(
        changed(&planned(RACE, &other)),
        "engine pytorch/eager changed\nreference changed"
    );
    other = world.clone();
    other.fingerprint.cpu_model = "Another processor".into();
    assert_eq!(
        changed(&planned(RACE, &other)),
        r#"machine: cpu_model was "A processor", is "Another processor""#
    );
    other = world;
    other.fingerprint.gpus.push(Gpu {
        name: "A GPU".into(),
        driver: "1".into(),
        memory_bytes: 1,
    });
    assert!(
        matches!(planned(RACE, &other).heats[0].status, Status::Cached { .. }),
        "a GPU that is not used is no part of the key"
    );
}

#[test]
fn a_heat_that_measured_nothing_is_not_the_last_of_its_group() {
    let mut world = support::world();
    let before = planned(RACE, &world);
    let twelve = RACE.replace("compare:", "measure: { blocks: 12 }\n    compare:");
    let interrupted = planned(&twelve, &world);
    let mut open = sealed(&interrupted.heats[0], "2026-01-02T00:00:00Z");
    open.state = KnownState::Open(0);
    world.known = vec![sealed(&before.heats[0], "2026-01-01T00:00:00Z"), open];
    let seven = RACE.replace("compare:", "measure: { blocks: 7 }\n    compare:");
    let changed = |world: &World| match &planned(&seven, world).heats[0].status {
        Status::Stale { changed } => changed.join("\n"),
        other => panic!("{other:?}"),
    };
    assert_eq!(changed(&world), "measure: blocks was 48, is 7");
    world.known[1].state = KnownState::Open(1);
    assert_eq!(changed(&world), "measure: blocks was 12, is 7");
}
