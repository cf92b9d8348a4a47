//! What a plan holds: cells, groups, twins, keys, statuses, warnings.

use std::collections::{BTreeMap, BTreeSet};

use photofinish_plan::{ManifestFile, World, explain, plan};
use schema::{
    Availability, Digest, EngineVariant, Outcome, OutcomeKind, Plan, Precision,
    machine::Gpu,
    plan::{Claim, KnownState, PlannedCell, PlannedHeat, Quantity, Relation, Status},
};

use crate::{
    plans::{RACE, heat, planned, sealed},
    support,
};

/// Keeps a text as a snapshot, without what the zoo's own figures decide.
fn snapshot(name: &str, text: &str) {
    let hidden = vec![
        (r"\b[0-9a-f]{12}\b", "[cell]"),
        (r" *\b[0-9]+(\.[0-9])? (µs|ms|s|min|h)\b", " [time]"),
        (r" *\b[0-9]+(\.[0-9])? [MG]iB\b", " [size]"),
    ];
    insta::with_settings!({ filters => hidden, omit_expression => true }, {
        insta::assert_snapshot!(name, text);
    });
}

/// Axis, baseline and number of pairs of the families of a plan's first job.
fn families(plan: &Plan) -> Vec<(&str, &str, usize)> {
    let families = plan.jobs[0].comparisons.iter();
    families
        .map(|family| (&*family.axis, &*family.baseline, family.pairs.len()))
        .collect()
}

#[test]
fn cells_leave_nothing_implicit() {
    let plan = planned(
        "  - id: a\n    mode: training\n    matrix: { model: resnet18, engine: pytorch/eager }\n",
        &support::world(),
    );
    let mut cell = plan.heats[0].cells[0].cell.clone();
    cell.model.graph = Digest::of_bytes(b"whatever the zoo builds");
    insta::assert_json_snapshot!(cell);
}

#[test]
fn compared_cells_share_a_heat_and_one_twin() {
    let plan = planned(RACE, &support::world());
    let groups: Vec<&str> = plan.heats.iter().map(|heat| heat.group.as_str()).collect();
    assert_eq!(
        groups,
        [
            "race/batch=1,model=resnet18",
            "race/batch=8,model=resnet18",
            "race/batch=1,model=bert_tiny",
            "race/batch=8,model=bert_tiny"
        ]
    );
    let mut engines = BTreeSet::new();
    for heat in &plan.heats {
        let twins: Vec<_> = heat
            .cells
            .iter()
            .filter_map(|cell| Some((cell, cell.twin_of?)))
            .collect();
        let [(twin, slot)] = twins.as_slice() else {
            panic!("{} has {} twins", heat.group, twins.len());
        };
        let original = &heat.cells[*slot as usize];
        assert_eq!((&original.id, &original.cell), (&twin.id, &twin.cell));
        engines.insert(twin.cell.engine.to_string());
    }
    assert_eq!(engines.len(), 2, "every engine gets a noise floor");
    assert_eq!(plan.cell_count(), 8);
    let pairs = &plan.jobs[0].comparisons[0].pairs;
    assert!(
        pairs
            .iter()
            .all(|pair| pair.value == "onnxruntime/cpu" && pair.coordinates.len() == 2)
    );
    for pair in pairs {
        let ids: Vec<_> = heat(&plan, &pair.group)
            .cells
            .iter()
            .map(|cell| &cell.id)
            .collect();
        assert!(ids.contains(&&pair.baseline) && ids.contains(&&pair.contender));
    }
}

#[test]
fn without_comparison_each_cell_is_a_heat_without_twin() {
    let plan = planned(
        "  - id: a\n    matrix: { model: resnet18, batch: [1, 2, 3], engine: pytorch/eager }\n",
        &support::world(),
    );
    assert_eq!(plan.heats.len(), 3);
    assert!(plan.heats.iter().all(|heat| heat.cells.len() == 1));
}

#[test]
fn adding_to_a_matrix_leaves_other_groups_as_they_are() {
    let world = support::world();
    let few = planned(RACE, &world);
    // Those that were measured: twins are dealt out anew among the others.
    let known = few.heats.iter();
    let known = known.map(|heat| sealed(heat, "2026-01-01T00:00:00Z"));
    let after = World {
        known: known.collect(),
        ..world
    };
    let many = planned(&RACE.replace("batch: [1, 8]", "batch: [1, 4, 8]"), &after);
    for old in &few.heats {
        assert_eq!(heat(&many, &old.group).key, old.key, "{}", old.group);
    }
}

#[test]
fn the_order_of_a_list_decides_nothing_that_is_measured() {
    let world = support::world();
    // Names of groups draw twins: several, so that in one of them an engine comes off badly.
    for id in 'a'..='h' {
        let job = format!(
            "  - id: {id}
    matrix: {{ model: [resnet18, bert_tiny], spin: [default, off], engine: [pytorch/eager, onnxruntime/cpu] }}
    compare: [{{ axis: engine }}, {{ axis: spin }}]
"
        );
        let other = job
            .replace("resnet18, bert_tiny", "bert_tiny, resnet18")
            .replace("default, off", "off, default")
            .replace(
                "pytorch/eager, onnxruntime/cpu",
                "onnxruntime/cpu, pytorch/eager",
            );
        let (plan, turned) = (planned(&job, &world), planned(&other, &world));
        assert_eq!(plan.heats.len(), 2);
        for old in &plan.heats {
            let new = heat(&turned, &old.group);
            assert_eq!(new.key, old.key, "{}", old.group);
            assert_ne!(new.cells, old.cells, "what is shown follows the manifest");
        }
        assert_ne!(plan.heats[0].group, turned.heats[0].group);
    }
}

/// An axis that an engine does not know does not multiply its cells, and each of the other's
/// values is held against it.
#[test]
fn a_factor_multiplies_only_the_engines_that_know_it() {
    let plan = planned("  - id: a
    matrix: { model: [resnet18], image: [64, 96, 128], layout: [nchw, channels_last], engine: [pytorch/eager, onnxruntime/cpu] }
    compare: { axis: engine, baseline: onnxruntime/cpu }
", &support::world());
    assert_eq!(plan.cell_count(), 3 * (2 + 1));
    assert_eq!(plan.heats.len(), 3);
    let layouts: Vec<_> = plan.jobs[0].comparisons[0]
        .pairs
        .iter()
        .map(|pair| pair.coordinates["layout"].as_str())
        .collect();
    assert_eq!(
        layouts,
        [
            "nchw",
            "channels_last",
            "nchw",
            "channels_last",
            "nchw",
            "channels_last"
        ]
    );
}

#[test]
fn two_comparisons_make_two_families_in_one_heat() {
    let plan = planned(
        "  - id: a
    matrix: { model: resnet18, precision: [fp32, fp16], engine: [pytorch/eager, onnxruntime/cpu] }
    compare: [{ axis: engine }, { axis: precision, baseline: fp32 }]
",
        &support::world(),
    );
    assert_eq!((plan.heats.len(), plan.cell_count()), (1, 4));
    assert_eq!(
        families(&plan),
        [("engine", "pytorch/eager", 2), ("precision", "fp32", 2)]
    );
}

#[test]
fn include_adds_and_exclude_removes() {
    let plan = planned(
        "  - id: a
    matrix: { model: [resnet18, bert_tiny], batch: [1, 8], engine: pytorch/eager }
    exclude: { model: bert*, batch: 8 }
    include: [{ model: vgg16, batch: 2 }, { model: bert_tiny, batch: [8, 16] }]
",
        &support::world(),
    );
    let cells: Vec<_> = plan.heats.iter().map(|heat| heat.group.as_str()).collect();
    assert_eq!(
        cells,
        [
            "a/batch=1,engine=pytorch/eager,model=resnet18",
            "a/batch=8,engine=pytorch/eager,model=resnet18",
            "a/batch=1,engine=pytorch/eager,model=bert_tiny",
            "a/batch=8,engine=pytorch/eager,model=bert_tiny",
            "a/batch=16,engine=pytorch/eager,model=bert_tiny",
            "a/batch=2,engine=pytorch/eager,model=vgg16",
        ]
    );
}

#[test]
fn what_cannot_run_is_planned_with_its_reason() {
    let mut world = support::world();
    let jobs = "  - id: a
    matrix: { model: resnet18, precision: [fp32, bf16, fp16, tf32], device: [cpu, cuda], engine: [pytorch/eager, onnxruntime/cpu] }
    compare: { axis: engine }
";
    snapshot("what_cannot_run", &explain(&planned(jobs, &world), false));
    world.fingerprint.gpus.push(Gpu {
        name: "A GPU".into(),
        driver: "1".into(),
        memory_bytes: 1 << 34,
    });
    let onnxruntime: EngineVariant = "onnxruntime/cpu".parse().unwrap();
    let missing = Availability {
        missing: Some("it is not installed".into()),
        ..world.availability[&onnxruntime].clone()
    };
    world.availability.insert(onnxruntime, missing);
    let plan = planned(jobs, &world);
    let mut outcomes: BTreeMap<String, OutcomeKind> = BTreeMap::new();
    for cell in plan
        .heats
        .iter()
        .flat_map(|heat| &heat.cells)
        .filter(|cell| cell.twin_of.is_none())
    {
        let c = &cell.coordinates;
        let name = format!("{} {} {}", c["engine"], c["device"], c["precision"]);
        outcomes.insert(
            name,
            cell.obstacle
                .as_ref()
                .map_or(OutcomeKind::Measured, |outcome| outcome.kind),
        );
    }
    assert_eq!(outcomes["pytorch/eager cuda:0 fp32"], OutcomeKind::Measured);
    assert_eq!(outcomes["pytorch/eager cuda:0 tf32"], OutcomeKind::Measured);
    assert_eq!(outcomes["pytorch/eager cpu tf32"], OutcomeKind::Unsupported);
    assert_eq!(
        outcomes["onnxruntime/cpu cpu fp32"],
        OutcomeKind::Unavailable
    );
    assert_eq!(
        outcomes["onnxruntime/cpu cuda:0 fp32"],
        OutcomeKind::Unsupported
    );
}

#[test]
fn a_limit_within_which_nothing_can_end_is_told_of() {
    let job = |measure: &str| {
        let job = format!(
            "  - id: a\n    measure: {{ {measure} }}\n    matrix: {{ model: resnet18, engine: pytorch/eager }}\n"
        );
        let plan = planned(&job, &support::world());
        let told = plan.warnings.into_iter().map(|warning| warning.message);
        told.collect::<Vec<_>>()
    };
    let told = job("timeout: 4s, round: 2s, rounds: 2");
    assert_eq!(
        told,
        ["no launch can end within its limit of 4.0 s: its rounds alone take 4.0 s"]
    );
    assert!(job("timeout: 5s, round: 2s, rounds: 2").is_empty());
}

#[test]
fn no_tf32_where_the_user_keeps_libraries_from_it() {
    let mut world = support::world();
    world.fingerprint.gpus.push(Gpu {
        name: "A GPU".into(),
        driver: "1".into(),
        memory_bytes: 1 << 34,
    });
    let jobs = "  - id: a
    matrix: { model: resnet18, precision: [fp32, tf32], device: cuda, engine: pytorch/eager }
    compare: { axis: precision, baseline: fp32 }
";
    let obstacles = |world: &World| -> BTreeMap<Precision, Option<Outcome>> {
        let cells = planned(jobs, world).heats;
        let cells = cells.into_iter().flat_map(|heat| heat.cells);
        cells
            .map(|cell| (cell.cell.precision, cell.obstacle))
            .collect()
    };
    assert!(obstacles(&world).values().all(Option::is_none));
    let off = ("NVIDIA_TF32_OVERRIDE".to_owned(), "0".to_owned());
    world.conditions.extend([off]);
    let kept = obstacles(&world);
    assert_eq!(kept[&Precision::Fp32], None);
    let outcome = kept[&Precision::Tf32].clone().unwrap();
    assert_eq!(outcome.kind, OutcomeKind::Unavailable);
    assert!(
        outcome.reason.contains("NVIDIA_TF32_OVERRIDE=0"),
        "{outcome:?}"
    );
}

#[test]
fn events_are_of_gpus_and_of_engines_that_know_them() {
    let mut world = support::world();
    world.fingerprint.gpus.push(Gpu {
        name: "A GPU".into(),
        driver: "1".into(),
        memory_bytes: 1 << 34,
    });
    let jobs = "  - id: a
    matrix: { model: resnet18, device: [cpu, cuda], engine: [pytorch/eager, onnxruntime/cuda] }
    measure: { boundary: device }
";
    let cells = planned(jobs, &world).heats;
    let cells = cells.into_iter().flat_map(|heat| heat.cells);
    let told: BTreeMap<(String, String), Option<(OutcomeKind, String)>> = cells
        .map(|planned| {
            let place = (
                planned.cell.engine.to_string(),
                planned.cell.device.to_string(),
            );
            let obstacle = planned
                .obstacle
                .map(|outcome| (outcome.kind, outcome.reason));
            (place, obstacle)
        })
        .collect();
    let of = |engine: &str, device: &str| &told[&(engine.to_owned(), device.to_owned())];
    let refused = |reason: &str| Some((OutcomeKind::Unsupported, reason.to_owned()));
    assert_eq!(of("pytorch/eager", "cuda:0"), &None);
    assert_eq!(
        of("pytorch/eager", "cpu"),
        &refused("boundary `device` is between events of a GPU; the device is cpu")
    );
    assert_eq!(
        of("onnxruntime/cuda", "cuda:0"),
        &refused("onnxruntime/cuda cannot be timed at the boundary `device`")
    );
    assert_eq!(
        of("onnxruntime/cuda", "cpu"),
        &refused("onnxruntime/cuda does not run on cpu")
    );
}

#[test]
fn a_heat_is_cached_stale_open_or_new() {
    let mut world = support::world();
    let first = planned(RACE, &world);
    assert!(first.heats.iter().all(|heat| heat.status == Status::New));

    world.known = first
        .heats
        .iter()
        .map(|heat| sealed(heat, "2026-01-01T00:00:00Z"))
        .collect();
    world
        .known
        .push(sealed(&first.heats[0], "2026-02-01T00:00:00Z"));
    let second = planned(RACE, &world);
    let newest = Digest::of_bytes(b"2026-02-01T00:00:00Z");
    assert_eq!(second.heats[0].status, Status::Cached { heat: newest });
    assert!(
        second
            .heats
            .iter()
            .all(|heat| matches!(heat.status, Status::Cached { .. }))
    );

    world.fresh = Some(Vec::new());
    let Status::Stale { changed } = &planned(RACE, &world).heats[0].status else {
        panic!("fresh measures again");
    };
    assert_eq!(changed, &["nothing: a fresh heat was asked for"]);
    // What a fresh run left that was interrupted is not measured again.
    let mut open = sealed(&first.heats[1], "2026-03-01T00:00:00Z");
    open.state = KnownState::Open(4);
    let anew = sealed(&first.heats[0], "2026-03-01T00:00:00Z");
    world.fresh = Some(vec![anew, open.clone()]);
    world.known.push(open.clone());
    let gone_on_with = planned(RACE, &world);
    let newest = Digest::of_bytes(b"2026-03-01T00:00:00Z");
    assert_eq!(
        gone_on_with.heats[0].status,
        Status::Cached { heat: newest }
    );
    assert_eq!(gone_on_with.heats[1].status, Status::Open { blocks: 4 });
    // What was begun before the fresh run is no part of it.
    world.fresh = Some(Vec::new());
    assert!(matches!(
        planned(RACE, &world).heats[1].status,
        Status::Stale { .. }
    ));
    world.fresh = None;

    world.known = vec![open];
    assert_eq!(
        planned(RACE, &world).heats[1].status,
        Status::Open { blocks: 4 }
    );
}

#[test]
fn claims_and_rules_are_resolved() {
    let plan = planned("  - id: a
    matrix: { model: [resnet18, bert_tiny], batch: [1, 8], engine: [pytorch/eager, onnxruntime/cpu] }
    compare: { axis: engine }
    allow: [{ engine: onnxruntime/*, batch: [1, 8], outcome: [crashed, timed_out] }, { outcome: unavailable }]
    claims: { id: c, source: s, states: t, expect: 'pytorch/eager > onnxruntime/cpu at batch 1, model resnet18' }
", &support::world());
    let job = &plan.jobs[0];
    let expect = &job.claims[0].expect;
    assert_eq!(
        (expect.axis.as_str(), expect.relation),
        ("engine", Relation::Greater)
    );
    assert_eq!(
        expect.at,
        BTreeMap::from([
            ("batch".into(), "1".into()),
            ("model".into(), "resnet18".into())
        ])
    );
    assert_eq!(job.allow.len(), 5);
    assert!(
        plan.heats
            .iter()
            .flat_map(|heat| &heat.cells)
            .all(|cell| job.allow[4].covers(&cell.coordinates))
    );
}

#[test]
fn a_claim_may_speak_of_most_pairs() {
    let claimed = |expect: &str| {
        let jobs = format!(
            "  - id: a
    matrix: {{ model: [resnet18, mobilenet_v2], engine: [pytorch/eager, onnxruntime/cpu] }}
    compare: {{ axis: engine }}
    claims: {{ id: c, source: s, states: t, expect: '{expect}' }}
"
        );
        planned(&jobs, &support::world()).jobs[0].claims[0]
            .expect
            .clone()
    };
    let most = claimed("mostly  onnxruntime/cpu < pytorch/eager");
    assert!(most.mostly);
    assert_eq!(most.text, "mostly onnxruntime/cpu < pytorch/eager");
    assert_eq!((most.left.as_str(), most.times), ("onnxruntime/cpu", 1.0));
    assert!(!claimed("onnxruntime/cpu < pytorch/eager").mostly);
}

#[test]
fn a_claim_may_speak_of_a_time_per_sample() {
    let plan = planned(
        "  - id: a
    matrix: { model: resnet18, batch: [1, 8], engine: pytorch/eager }
    compare: { axis: batch }
    claims: { id: c, source: s, states: t, expect: '8 < 7.5 * 1 at model resnet18' }
",
        &support::world(),
    );
    let expect = &plan.jobs[0].claims[0].expect;
    assert_eq!((expect.left.as_str(), expect.right.as_str()), ("8", "1"));
    assert_eq!(expect.times, 7.5);
    assert_eq!(expect.text, "8 < 7.5 * 1 at model resnet18");
}

#[test]
fn a_claim_may_speak_of_something_else_than_step_times() {
    let claimed = |job: &str, quantity: &str, expect: &str| {
        let jobs = format!(
            "  - id: a
    matrix: {{ model: [resnet18, mobilenet_v2], engine: [pytorch/eager, onnxruntime/cpu] }}
{job}
    claims: {{ id: c, source: s, states: t, quantity: {quantity}, expect: '{expect}' }}
"
        );
        let plan = planned(&jobs, &support::world());
        let families = plan.families().into_values().next();
        let idle = plan
            .warnings
            .iter()
            .filter(|it| it.message.contains("speaks of no"));
        (plan.jobs[0].claims[0].clone(), families, idle.count())
    };
    let frontier = "    measure: { frontier: 64, memory_limit: 1GiB }";
    let profiled = "    profile: true";
    let compared = "    compare: { axis: engine }";
    // Nothing is compared where batches are sought, and none of it is timed.
    let (claim, family, idle) = claimed(frontier, "largest_batch", "mobilenet_v2 > resnet18");
    assert_eq!(
        (claim.quantity, family, idle),
        (Quantity::LargestBatch, Some(0), 0)
    );
    assert_eq!(claim.expect.axis, "model");
    let (claim, ..) = claimed(frontier, "largest_batch", "mostly < 512 at model resnet18");
    assert_eq!(
        (claim.expect.number, claim.expect.mostly),
        (Some(512.0), true)
    );
    assert_eq!(claim.expect.text, "mostly < 512 at model resnet18");
    let (claim, _, idle) = claimed(profiled, "kernels", "> 50%");
    assert_eq!((claim.expect.number, idle), (Some(0.5), 0));
    assert_eq!(claim.expect.relation, Relation::Greater);
    let (claim, family, _) = claimed(compared, "memory", "onnxruntime/cpu < pytorch/eager");
    assert_eq!((claim.quantity, family), (Quantity::Memory, Some(2)));
    // What nobody says is about step times, in plans of old, too.
    let (claim, ..) = claimed(compared, "step_time", "onnxruntime/cpu < pytorch/eager");
    let written = serde_json::to_value(&claim).unwrap();
    assert_eq!(
        (written.get("quantity"), written["expect"].get("number")),
        (None, None)
    );
    assert_eq!(serde_json::from_value::<Claim>(written).unwrap(), claim);
}

#[test]
fn lint_warns_before_the_run() {
    let plan = planned(
        "  - id: a
    threads: 64
    measure: { blocks: 3, budget: 1s }
    matrix: { model: [resnet18, vgg16], batch: [1, 4096], engine: [pytorch/eager, onnxruntime/cpu] }
    exclude: { model: resnet18, batch: 1, engine: pytorch/eager }
    compare: { axis: engine }
    allow: { engine: tensorrt/*, outcome: unavailable }
",
        &support::world(),
    );
    let notes: Vec<&str> = plan
        .warnings
        .iter()
        .map(|warning| warning.message.as_str())
        .collect();
    snapshot("warnings", &notes.join("\n"));
}

#[test]
fn cells_outside_a_comparison_are_told_with_the_true_reason() {
    let notes = |more: &str| -> Vec<String> {
        let job = format!(
            "  - id: a
    matrix: {{ model: [resnet18, bert_tiny], image: [64, 128], engine: [pytorch/eager, onnxruntime/cpu] }}
    compare: {{ axis: image, baseline: 64 }}
{more}"
        );
        let plan = planned(&job, &support::world());
        let warnings = plan.warnings.into_iter();
        warnings.map(|warning| warning.message).collect()
    };
    let strangers = "2 cells are not compared over `image`, which their model, engine, precision or strategy does not know";
    assert_eq!(notes(""), [strangers]);
    // Whatever else is left out, BERT has no such axis.
    assert_eq!(
        notes("    exclude: { model: bert_tiny, image: 64 }\n"),
        [strangers]
    );
    assert_eq!(
        notes("    include: { model: resnet18, image: 32, engine: pytorch/eager }\n"),
        [strangers]
    );
    assert_eq!(
        notes("    exclude: { model: resnet18, image: 64, engine: pytorch/eager }\n"),
        [
            "1 cell has no baseline to be held against: the job leaves out `image: 64` there",
            strangers
        ]
    );
}

#[test]
fn a_heat_that_two_jobs_share_counts_once() {
    let jobs = "  - { id: a, matrix: { model: resnet18, batch: [1, 8], engine: pytorch/eager } }
  - { id: b, measure: { budget: 1s }, matrix: { model: resnet18, batch: 8, engine: pytorch/eager } }
";
    let mut world = support::world();
    let plan = planned(jobs, &world);
    assert_eq!((plan.heats.len(), plan.cell_count()), (3, 2));
    assert_eq!(plan.heats[1].key, plan.heats[2].key);
    assert!(plan.warnings.is_empty(), "{:?}", plan.warnings);
    let text = explain(&plan, false);
    assert!(text.contains("measured once, with a/batch=8"), "{text}");
    let last = text.lines().last().unwrap();
    assert!(
        last.starts_with("2 cells in 2 groups, 0 cached; about "),
        "{last}"
    );
    let alone = planned(jobs.lines().next().unwrap(), &world);
    assert!(explain(&alone, false).ends_with(&format!("{last}\n")));
    world.known = vec![sealed(&plan.heats[1], "2026-01-01T00:00:00Z")];
    let text = explain(&planned(jobs, &world), false);
    assert!(text.contains("2 cells in 2 groups, 1 cached; "), "{text}");
}

#[test]
fn a_budget_is_held_against_what_is_left() {
    let jobs = RACE.replace("compare:", "measure: { budget: 1s }\n    compare:");
    let mut world = support::world();
    let plan = planned(&jobs, &world);
    let [warning] = plan.warnings.as_slice() else {
        panic!("{:?}", plan.warnings);
    };
    assert!(warning.message.contains("more than the budget of 1.0 s"));
    let known = |heat: &PlannedHeat| sealed(heat, "2026-01-01T00:00:00Z");
    world.known = plan.heats.iter().map(known).collect();
    assert!(planned(&jobs, &world).warnings.is_empty());
    world.fresh = Some(Vec::new());
    assert_eq!(planned(&jobs, &world).warnings, plan.warnings);
}

#[test]
fn too_few_blocks_are_counted_in_words_that_agree() {
    let note = |blocks: u32| {
        let settings = format!("measure: {{ blocks: {blocks} }}\n    compare:");
        let plan = planned(&RACE.replace("compare:", &settings), &support::world());
        plan.warnings[0].message.clone()
    };
    assert!(note(1).starts_with("1 block is too few"), "{}", note(1));
    assert!(note(2).starts_with("2 blocks are too few"), "{}", note(2));
}

#[test]
fn plans_are_equal_byte_for_byte_and_explained_within_the_width() {
    let world = support::world();
    let (first, second) = (planned(RACE, &world), planned(RACE, &world));
    assert_eq!(
        serde_json::to_vec(&first).unwrap(),
        serde_json::to_vec(&second).unwrap()
    );
    let text = explain(&first, true);
    assert!(
        text.lines().all(|line| line.chars().count() <= 100),
        "{text}"
    );
    snapshot("explained", &text);
}

/// Only that it is done; the time is what the example `plan_manifests` tells.
#[test]
fn ten_thousand_cells_are_planned() {
    let numbers = |count: u32| {
        (1..=count)
            .map(|number| number.to_string())
            .collect::<Vec<_>>()
            .join(", ")
    };
    let jobs = format!(
        "  - id: large\n    matrix: {{ model: [resnet18, bert_tiny], batch: [{}], threads: [{}], precision: [fp32, fp16], engine: [pytorch/eager, onnxruntime/cpu] }}\n    compare: {{ axis: engine }}\n",
        numbers(25),
        numbers(50)
    );
    let plan = planned(&jobs, &support::world());
    assert_eq!((plan.cell_count(), plan.heats.len()), (10_000, 5_000));
}

#[test]
fn conditions_and_procedure_are_parts_of_the_key() {
    let text =
        "version: 1\njobs:\n  - { id: a, matrix: { model: resnet18, engine: pytorch/eager } }\n";
    let key = |world: &World| {
        let file = ManifestFile::from_text("a.yaml", text).unwrap();
        plan(&[file], world).unwrap().heats[0].key
    };
    let world = support::world();
    let mut other = support::world();
    other
        .conditions
        .insert("MALLOC_TRIM_THRESHOLD_".to_owned(), "1".to_owned());
    assert_ne!(key(&world), key(&other));
    let mut newer = support::world();
    newer.procedure += 1;
    assert_ne!(key(&world), key(&newer));
}

/// What lies between two blocks is told where no others fill it: five gaps of a first look.
#[test]
fn time_between_the_blocks_of_a_lone_group_is_predicted() {
    let told = |apart: &str, status: Status| {
        let measure =
            format!("measure: {{ blocks: 6, apart: {apart}, ceilings: false }}\n    compare:");
        let mut plan = planned(&RACE.replace("compare:", &measure), &support::world());
        for heat in &mut plan.heats {
            heat.status = status.clone();
            heat.predicted_ns = 60_000_000_000;
        }
        if let Some(heat) = plan.heats.first_mut() {
            heat.status = Status::New;
        }
        explain(&plan, false)
    };
    let digest = Digest::of_bytes(b"a heat");
    let cached = Status::Cached { heat: digest };
    let lone = told("5m", cached.clone());
    assert!(lone.contains("about 26 min to measure"), "{lone}");
    let at_once = told("0s", cached);
    assert!(at_once.contains("about 60 s to measure"), "{at_once}");
    // Four groups of a minute fill more than four gaps of ten seconds.
    let full = told("10s", Status::New);
    assert!(full.contains("about 4.0 min to measure"), "{full}");
}

#[test]
fn what_is_there_or_cannot_run_takes_no_time() {
    let mut plan = planned(RACE, &support::world());
    for heat in &mut plan.heats {
        heat.status = Status::Cached { heat: heat.key };
    }
    let text = explain(&plan, false);
    assert!(text.ends_with("4 cached; nothing to measure\n"), "{text}");
    for heat in &mut plan.heats {
        heat.status = Status::New;
        heat.predicted_ns = 0;
    }
    let text = explain(&plan, false);
    assert!(text.ends_with("0 cached; nothing to measure\n"), "{text}");
    let group = text
        .lines()
        .find(|line| line.contains("batch=8,model=bert_tiny"));
    let words: Vec<&str> = group.unwrap().split_whitespace().collect();
    assert_eq!(words[2..4], ["new", "-"]);
}

#[test]
fn the_sign_of_a_zero_and_the_notation_of_a_number_make_no_other_cell() {
    let cells = |settings: &str| {
        let job = format!(
            "  - {{ id: a, mode: training, matrix: {{ model: resnet18, engine: pytorch/eager }}, \
             optimizer: {{ sgd: {{ {settings} }} }} }}\n"
        );
        planned(&job, &support::world()).heats[0].cells.clone()
    };
    let plain = cells("momentum: 0, learning_rate: 16");
    for zero in ["-0.0", "0.0", "-0e3"] {
        assert_eq!(
            cells(&format!("momentum: {zero}, learning_rate: 16"))[0].id,
            plain[0].id
        );
    }
}

#[test]
fn budgets_are_those_of_each_job() {
    let job = |id: &str, batch: u32, budget: &str| {
        format!(
            "  - {{ id: {id}, measure: {{ budget: {budget} }}, \
             matrix: {{ model: resnet18, batch: {batch}, engine: pytorch/eager }} }}\n"
        )
    };
    // What `c` asks for is measured with `a`.
    let jobs = [
        ("a", 1, "1s"),
        ("b", 2, "1h"),
        ("c", 1, "1s"),
        ("d", 4, "1s"),
    ];
    let jobs = jobs.map(|(id, batch, budget)| job(id, batch, budget));
    let plan = planned(&jobs.concat(), &support::world());
    let warned: Vec<&str> = plan.warnings.iter().map(|it| it.job.as_str()).collect();
    assert_eq!(warned, ["a", "d"]);
}

/// A base, and what leaves it in one axis at a time, or in two.
#[test]
fn axes_are_varied_around_their_first_values() {
    let job = |more: &str| {
        format!(
            "  - id: factors
    matrix:
      model: [resnet18, mobilenet_v2]
      engine: pytorch/eager
      threads: [2, 1]
      layout: [nchw, channels_last]
    vary: [threads, layout]
{more}"
        )
    };
    let around = |plan: &Plan| {
        let cells = plan.heats.iter().flat_map(|heat| &heat.cells);
        let cells = cells.filter(|cell| cell.twin_of.is_none());
        let of = |cell: &PlannedCell| {
            let [threads, layout] =
                ["threads", "layout"].map(|axis| cell.coordinates[axis].clone());
            format!("{threads} {layout}")
        };
        cells.map(of).collect::<BTreeSet<String>>()
    };
    let plan = planned(&job(""), &support::world());
    let star = ["1 nchw", "2 channels_last", "2 nchw"].map(str::to_owned);
    assert_eq!(around(&plan), BTreeSet::from(star));
    // A base and what leaves it are measured together, one network after another.
    assert_eq!(plan.heats.len(), 2);
    let base = [("layout", "nchw"), ("threads", "2")];
    let base = base.map(|(axis, value)| (axis.to_owned(), value.to_owned()));
    assert_eq!(plan.jobs[0].vary, BTreeMap::from(base));
    assert_eq!(
        families(&plan),
        [("threads", "2", 2), ("layout", "nchw", 2)]
    );

    let plan = planned(&job("    pairs: true\n"), &support::world());
    assert_eq!(around(&plan).len(), 4);
    assert_eq!(plan.jobs[0].comparisons[0].pairs.len(), 4);

    // What the job compares besides is its own; with the base it is there once.
    let baselines = |compare: &str| {
        let plan = planned(
            &job(&format!("    compare: {compare}\n")),
            &support::world(),
        );
        let families = plan.jobs[0].comparisons.iter();
        let baselines: Vec<_> = families.map(|family| family.baseline.clone()).collect();
        baselines
    };
    assert_eq!(
        baselines("{ axis: threads, baseline: 1 }"),
        ["1", "2", "nchw"]
    );
    assert_eq!(baselines("{ axis: threads, baseline: 2 }"), ["2", "nchw"]);

    // What is included leaves the base in no more axes than the rest.
    let more = job("    include: { batch: 4 }\n");
    let more = more.replace("      engine:", "      batch: 1\n      engine:");
    let plan = planned(&more, &support::world());
    let cells = plan.heats.iter().flat_map(|heat| &heat.cells);
    let cells = cells.filter(|cell| cell.twin_of.is_none());
    assert_eq!(cells.count(), 2 * (3 + 3));
}
