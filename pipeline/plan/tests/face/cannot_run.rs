//! Cells that a variant says it cannot run although it knows each part of them.

use std::collections::BTreeMap;

use photofinish_plan::World;
use schema::{FactorDescription, Mode, OutcomeKind, Plan, Precision, Refusal, VariantDescription};

use crate::{plans::planned, support};

/// The world, and what is different about its PyTorch eager.
fn world(change: impl FnOnce(&mut VariantDescription)) -> World {
    let mut world = support::world();
    change(&mut world.engines[0].variants[0]);
    world
}

/// A refusal of one value of a factor.
fn refusal(factor: &str, value: &str) -> Refusal {
    Refusal {
        reason: format!("`{value}` is too much"),
        factors: BTreeMap::from([(factor.to_owned(), vec![value.to_owned()])]),
        ..Refusal::default()
    }
}

/// The coordinates of this axis, whatever the cell has of the factor, and why it cannot run; of each cell but
/// the twins.
fn told(plan: &Plan, axis: &str, factor: &str) -> Vec<(String, String, Option<String>)> {
    let cells = plan.heats.iter().flat_map(|heat| &heat.cells);
    let cells = cells.filter(|cell| cell.twin_of.is_none());
    let mut told: Vec<_> = cells
        .map(|cell| {
            let obstacle = cell.obstacle.as_ref();
            if let Some(obstacle) = obstacle {
                assert_eq!(obstacle.kind, OutcomeKind::Unsupported);
            }
            let factor = cell.cell.factors.get(factor).cloned();
            let reason = obstacle.map(|obstacle| obstacle.reason.clone());
            let at = cell.coordinates.get(axis).cloned();
            (at.unwrap_or_default(), factor.unwrap_or_default(), reason)
        })
        .collect();
    told.sort();
    told
}

fn row(at: &str, factor: &str, reason: Option<&str>) -> (String, String, Option<String>) {
    (at.to_owned(), factor.to_owned(), reason.map(str::to_owned))
}

#[test]
fn what_a_variant_refuses_is_planned_as_unsupported() {
    let world = world(|variant| {
        variant.refuses.push(Refusal {
            precisions: vec![Precision::Fp16],
            modes: vec![Mode::Inference],
            devices: vec!["cpu".to_owned()],
            networks: vec!["resnet18".to_owned()],
            ..refusal("layout", "channels_last")
        });
    });
    let of = |model: &str, mode: &str| {
        let jobs = format!(
            "  - id: a
    mode: {mode}
    matrix:
      model: {model}
      precision: [fp32, fp16]
      layout: [nchw, channels_last]
      engine: pytorch/eager
"
        );
        told(&planned(&jobs, &world), "precision", "layout")
    };
    let all = |reason| {
        vec![
            row("fp16", "channels_last", reason),
            row("fp16", "nchw", None),
            row("fp32", "channels_last", None),
            row("fp32", "nchw", None),
        ]
    };
    assert_eq!(
        of("resnet18", "inference"),
        all(Some("`channels_last` is too much"))
    );
    assert_eq!(of("resnet18", "training"), all(None));
    assert_eq!(of("resnet50", "inference"), all(None));
}

/// What runs is the default where the first value cannot.
#[test]
fn a_default_is_the_first_value_that_is_not_refused() {
    let refused = |networks: &[&str]| {
        let networks = networks.iter().map(|name| (*name).to_owned()).collect();
        let world = world(|variant| {
            variant.refuses.push(Refusal {
                precisions: vec![Precision::Fp16],
                networks,
                ..refusal("layout", "nchw")
            });
        });
        let jobs = "  - id: a
    matrix: { model: resnet18, precision: [fp32, fp16], engine: pytorch/eager }
";
        told(&planned(jobs, &world), "precision", "layout")
    };
    let expected = [
        row("fp16", "channels_last", None),
        row("fp32", "nchw", None),
    ];
    assert_eq!(refused(&[]), expected);
    // What is one network's is no other default: its cells say why.
    let expected = [
        row("fp16", "nchw", Some("`nchw` is too much")),
        row("fp32", "nchw", None),
    ];
    assert_eq!(refused(&["resnet18"]), expected);
}

#[test]
fn networks_that_a_variant_has_not_are_planned_as_unsupported() {
    let world = world(|variant| variant.networks = vec!["bert_tiny".to_owned()]);
    let plan = planned(
        "  - id: a
    matrix: { model: [bert_tiny, gpt2], engine: pytorch/eager }
",
        &world,
    );
    let reason = "pytorch/eager does not run `gpt2`: of the zoo it runs `bert_tiny`, and no file";
    let expected = [row("bert_tiny", "", None), row("gpt2", "", Some(reason))];
    assert_eq!(told(&plan, "model", ""), expected);
}

#[test]
fn parts_divide_a_batch_or_the_cell_is_unsupported() {
    let world = world(|variant| {
        let parts = FactorDescription {
            divides: Some("batch".to_owned()),
            ..support::factor(&["1", "2"])
        };
        variant.factors.insert("parts".to_owned(), parts);
    });
    let plan = planned(
        "  - id: a
    mode: training
    matrix: { model: resnet18, batch: [3, 4], parts: [1, 2], engine: pytorch/eager }
",
        &world,
    );
    let reason = "`batch: 3` cannot be split into 2 equal parts, as `parts: 2` asks";
    let expected = [
        row("3", "1", None),
        row("3", "2", Some(reason)),
        row("4", "1", None),
        row("4", "2", None),
    ];
    assert_eq!(told(&plan, "batch", "parts"), expected);
}
