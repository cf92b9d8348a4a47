//! Precisions of integers, and the factor that has a part in one of them alone.

use std::collections::BTreeSet;

use photofinish_plan::{ManifestFile, World, plan};
use schema::{FactorDescription, OutcomeKind, Precision};

#[path = "support/plans.rs"]
#[allow(dead_code, reason = "each test is a program and uses a part of it")]
mod plans;
mod support;

use plans::planned;

/// The world with ONNX Runtime's CPU provider as it is.
fn world() -> World {
    let mut world = support::world();
    for engine in &mut world.engines {
        for variant in &mut engine.variants {
            if (engine.name.as_str(), variant.name.as_str()) == ("onnxruntime", "cpu") {
                let int8 = [Precision::Int8Dynamic, Precision::Int8Static];
                variant.precisions.extend(int8);
                let description = FactorDescription {
                    values: ["minmax", "percentile"].map(str::to_owned).to_vec(),
                    summary: String::new(),
                };
                variant
                    .factors
                    .insert("calibration".to_owned(), description);
            }
        }
    }
    world
}

#[test]
fn calibration_tells_cells_apart_where_ranges_are_found_beforehand_alone() {
    let plan = planned(
        "  - id: a
    matrix:
      model: resnet18
      precision: [fp32, int8-dynamic, int8-static]
      calibration: [minmax, percentile]
      engine: onnxruntime/cpu
    compare: { axis: precision, baseline: fp32 }
",
        &world(),
    );
    let cells = plan.heats.iter().flat_map(|heat| &heat.cells);
    let told: BTreeSet<_> = cells
        .filter(|cell| cell.twin_of.is_none())
        .map(|cell| {
            assert_eq!(cell.obstacle, None);
            let calibration = cell.cell.factors.get("calibration").cloned();
            (cell.cell.precision, calibration)
        })
        .collect();
    let with = |method: &str| (Precision::Int8Static, Some(method.to_owned()));
    let expected = [
        (Precision::Fp32, None),
        (Precision::Int8Dynamic, None),
        with("minmax"),
        with("percentile"),
    ];
    assert_eq!(told, expected.into());
    assert!(
        plan.warnings
            .iter()
            .all(|warning| !warning.message.contains("not fair"))
    );
}

#[test]
fn an_engine_without_integers_is_unsupported_there() {
    let plan = planned(
        "  - id: a
    matrix: { model: resnet18, precision: [fp32, int8-static], engine: pytorch/eager }
",
        &world(),
    );
    let cells = plan.heats.iter().flat_map(|heat| &heat.cells);
    let refused: Vec<_> = cells.filter_map(|cell| cell.obstacle.as_ref()).collect();
    assert!(!refused.is_empty());
    for outcome in refused {
        assert_eq!(outcome.kind, OutcomeKind::Unsupported);
        assert!(
            outcome.reason.contains("does not compute in int8-static"),
            "{outcome:?}"
        );
    }
}

#[test]
fn calibration_without_integers_varies_nothing() {
    let text = "version: 1
jobs:
  - id: a
    matrix: { model: resnet18, calibration: [minmax, percentile], engine: onnxruntime/cpu }
";
    let file = ManifestFile::from_text("test.yaml", text).expect("sound YAML");
    let found = plan(&[file], &world()).expect_err("a refusal");
    let complaint = found[0].render(false);
    assert!(complaint.contains("`int8-static`"), "{complaint}");
}
