//! What is planned besides a manifest's own cells, so that they can be held against what the device can
//! do at most.

use std::collections::BTreeSet;

use photofinish_plan::{ManifestFile, World, explain, plan};
use schema::{
    Device, OutcomeKind, Plan, Precision,
    machine::Gpu,
    plan::{Ceilings, PlannedCell, Status},
};

use crate::support;

/// A manifest of one job with these settings, planned.
fn planned(measure: &str, job: &str, world: &World) -> Plan {
    let text = format!(
        "version: 1\nmeasure: {{ {measure} }}\njobs:\n  - id: race\n    matrix: {{ {job} }}\n"
    );
    let file = ManifestFile::from_text("test.yaml", &text)
        .unwrap_or_else(|found| panic!("{}", found[0].render(false)));
    plan(&[file], world).unwrap_or_else(|found| panic!("{}", found[0].render(false)))
}

fn cells(plan: &Plan) -> Vec<&PlannedCell> {
    let ceilings = plan.ceilings.as_ref().expect("it has ceilings");
    let cells = ceilings.heats.iter().flat_map(|heat| &heat.cells);
    cells.collect()
}

/// Network, threads and precision of each.
fn told(plan: &Plan) -> BTreeSet<(String, u32, Precision)> {
    let told = |it: &&PlannedCell| {
        let cell = &it.cell;
        (cell.model.name.clone(), cell.threads, cell.precision)
    };
    cells(plan).iter().map(told).collect()
}

#[test]
fn each_place_has_a_product_in_its_precisions_and_one_pass_over_memory() {
    let job = "model: bert_tiny, threads: [1, 2], precision: [fp32, bf16], engine: pytorch/eager";
    let plan = planned("", job, &support::world());
    let of = |name: &str, threads, precision| (name.to_owned(), threads, precision);
    let wanted = [1, 2].into_iter().flat_map(|threads| {
        [
            of("ceiling_product", threads, Precision::Fp32),
            of("ceiling_product", threads, Precision::Bf16),
            of("ceiling_reading", threads, Precision::Fp32),
        ]
    });
    assert_eq!(told(&plan), wanted.collect());
    let heats = &plan.ceilings.as_ref().unwrap().heats;
    assert_eq!(heats.len(), 6);
    for heat in heats {
        assert!(heat.group.starts_with(Ceilings::JOB), "{}", heat.group);
        assert!(heat.cells.iter().all(|cell| cell.twin_of.is_none()));
        assert_eq!(heat.cells[0].cell.engine.to_string(), "pytorch/eager");
        assert!(plan.job(&heat.job).is_some());
    }
    // They are counted apart from what was asked, and are told of.
    assert_eq!(plan.cell_count(), 4);
    let text = explain(&plan, false);
    assert!(text.contains(Ceilings::JOB), "{text}");
    assert!(text.contains("4 cells in 10 groups, 0 cached"), "{text}");
}

#[test]
fn a_product_takes_no_longer_than_a_round_has_time_for() {
    let mut world = support::world();
    let steps = |threads: u32, precision: Precision, world: &World| {
        let job = format!(
            "model: bert_tiny, threads: {threads}, precision: {precision}, engine: pytorch/eager"
        );
        let plan = planned("", &job, world);
        let product = cells(&plan)
            .into_iter()
            .find(|it| it.cell.model.name == "ceiling_product");
        let product = product.unwrap();
        (product.cell.dims["size"], product.predicted_step_ns)
    };
    let (small, small_ns) = steps(1, Precision::Fp32, &world);
    let (large, large_ns) = steps(4, Precision::Fp32, &world);
    assert!(small <= large && small >= 512, "{small} {large}");
    assert!(small_ns <= 100_000_000 && large_ns <= 100_000_000);
    // Without instructions for it, PyTorch multiplies in fp16 a hundred times as slowly.
    assert_eq!(steps(4, Precision::Fp16, &world).0, 512);
    world
        .fingerprint
        .cpu_features
        .push("avx512_fp16".to_owned());
    assert!(steps(4, Precision::Fp16, &world).0 > 512);
    world.fingerprint.cpu_features.clear();
    assert_eq!(steps(4, Precision::Bf16, &world).0, 512);
    world.fingerprint.cpu_features.push("avx512f".to_owned());
    assert!(steps(4, Precision::Bf16, &world).0 > 512);
}

#[test]
fn the_more_memory_a_machine_has_the_more_is_read() {
    let mut world = support::world();
    let mut read_mib = |memory_gib| {
        world.fingerprint.memory_gib = memory_gib;
        let plan = planned("", "model: bert_tiny, engine: pytorch/eager", &world);
        let reading = cells(&plan).into_iter();
        let mut reading = reading.filter(|it| it.cell.model.name == "ceiling_reading");
        reading.next().map(|it| it.cell.dims["mib"])
    };
    assert_eq!(read_mib(2), Some(128));
    assert_eq!(read_mib(8), Some(256));
    assert_eq!(read_mib(128), Some(2048));
    assert_eq!(read_mib(2048), Some(4096));
}

#[test]
fn who_wants_none_or_only_tries_something_out_gets_none() {
    let job = "model: bert_tiny, engine: pytorch/eager";
    let world = support::world();
    let has = |measure: &str| planned(measure, job, &world).ceilings.is_some();
    assert!(has(""));
    assert!(!has("ceilings: false"));
    assert!(!has("blocks: 2"));
    assert!(has("blocks: 2, ceilings: true"));
    assert!(!has("blocks: 0, ceilings: true"));
    // The settings that a manifest gives its own cells are none of theirs.
    let key = |measure: &str| planned(measure, job, &world).ceilings.unwrap().heats[0].key;
    assert_eq!(
        key(""),
        key("blocks: 24, round: 50ms, target: 1%, margin: 4%")
    );
    // But for one: who keeps what was disturbed has such a ceiling to himself.
    assert_ne!(key(""), key("disturbed: keep"));
}

/// Their blocks are half a minute apart as those of other heats, whatever a job says of its own, unless nobody
/// who asks has any time between blocks.
#[test]
fn blocks_lie_apart_and_that_is_predicted() {
    let job = "model: bert_tiny, engine: pytorch/eager";
    let world = support::world();
    let of = |measure: &str| planned(measure, job, &world).ceilings.unwrap();
    let apart = |measure: &str| of(measure).job.measure.apart_ns;
    assert_eq!(
        ["", "apart: 5s", "apart: 2m"].map(apart),
        [30_000_000_000; 3]
    );
    assert_eq!(
        ["apart: 0s", "blocks: 2, ceilings: true"].map(apart),
        [0; 2]
    );
    let keys = ["", "apart: 2m", "apart: 0s"].map(|measure| of(measure).heats[0].key);
    assert_eq!(keys[0], keys[1]);
    assert_ne!(keys[0], keys[2]);

    // One that the store lacks takes five gaps, and none besides what others wait anyway.
    let left = |cached: fn(&Plan) -> usize| {
        let mut plan = planned("", job, &world);
        let count = cached(&plan);
        for heat in plan.all_heats_mut() {
            heat.predicted_ns = 10_000_000_000;
        }
        for heat in plan.all_heats_mut().take(count) {
            heat.status = Status::Cached { heat: heat.key };
        }
        explain(&plan, false)
    };
    let one = left(|plan| plan.all_heats().count() - 1);
    assert!(one.contains("about 2.7 min to measure"), "{one}");
    let all = left(|_| 0);
    assert!(all.contains("about 2.7 min to measure"), "{all}");
    let none = left(|plan| plan.all_heats().count());
    assert!(none.contains("nothing to measure"), "{none}");
}

#[test]
fn what_cannot_be_judged_asks_for_none() {
    let mut world = support::world();
    let integers = "model: bert_tiny, precision: int8-static, engine: pytorch/eager";
    assert_eq!(planned("", integers, &world).ceilings, None);
    let nowhere = "model: bert_tiny, device: cuda, engine: pytorch/eager";
    assert_eq!(planned("", nowhere, &world).ceilings, None);
    world.fingerprint.gpus = vec![Gpu {
        name: "A card".to_owned(),
        driver: "1".to_owned(),
        memory_bytes: 1 << 34,
    }];
    let plan = planned("", nowhere, &world);
    let is_there = |it: &&PlannedCell| it.cell.device == Device::Cuda(0) && it.obstacle.is_none();
    assert!(cells(&plan).iter().all(is_there));
    assert_eq!(cells(&plan).len(), 2);
}

#[test]
fn without_pytorch_they_say_why_or_are_not_there() {
    let job = "model: bert_tiny, engine: onnxruntime/cpu";
    let mut world = support::world();
    let pytorch = "pytorch/eager".parse().unwrap();
    world.availability.get_mut(&pytorch).unwrap().missing = Some("no libtorch".to_owned());
    let plan = planned("", job, &world);
    for cell in cells(&plan) {
        let obstacle = cell.obstacle.as_ref().unwrap();
        assert_eq!(obstacle.kind, OutcomeKind::Unavailable);
        assert_eq!(obstacle.reason, "no libtorch");
    }
    world.availability.remove(&pytorch);
    assert_eq!(planned("", job, &world).ceilings, None);
}
