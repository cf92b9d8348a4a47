//! Precisions that not every engine has, and factors that have a part in some of them alone.

use std::collections::BTreeSet;

use photofinish_plan::{ManifestFile, World, explain, plan};
use schema::{FactorDescription, OutcomeKind, Plan, Precision};

use crate::{plans::planned, support};

/// The world with integers for ONNX Runtime's CPU provider, and two kinds of bf16 for PyTorch.
fn world() -> World {
    let mut world = support::world();
    let about = |precision, values: &[&str]| FactorDescription {
        precisions: vec![precision],
        ..support::factor(values)
    };
    for engine in &mut world.engines {
        for variant in &mut engine.variants {
            let (name, description) = match (engine.name.as_str(), variant.name.as_str()) {
                ("onnxruntime", "cpu") => {
                    let int8 = [Precision::Int8Dynamic, Precision::Int8Static];
                    variant.precisions.extend(int8);
                    let methods = ["minmax", "percentile"];
                    ("calibration", about(Precision::Int8Static, &methods))
                }
                ("pytorch", _) => ("mixed_precision", about(Precision::Bf16, &["off", "on"])),
                _ => continue,
            };
            variant.factors.insert(name.to_owned(), description);
        }
    }
    world
}

/// Precision and factor of each cell but the twins.
fn told(plan: &Plan, factor: &str) -> BTreeSet<(Precision, Option<String>)> {
    let cells = plan.heats.iter().flat_map(|heat| &heat.cells);
    let cells = cells.filter(|cell| cell.twin_of.is_none());
    cells
        .map(|cell| {
            assert_eq!(cell.obstacle, None);
            (cell.cell.precision, cell.cell.factors.get(factor).cloned())
        })
        .collect()
}

/// What the plan of this matrix complains of.
fn refusal(matrix: &str) -> String {
    let text = format!("version: 1\njobs:\n  - id: a\n    matrix: {matrix}\n");
    let file = ManifestFile::from_text("test.yaml", &text).expect("sound YAML");
    let found = plan(&[file], &world()).expect_err("a refusal");
    found[0].render(false)
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
    let with = |method: &str| (Precision::Int8Static, Some(method.to_owned()));
    let expected = [
        (Precision::Fp32, None),
        (Precision::Int8Dynamic, None),
        with("minmax"),
        with("percentile"),
    ];
    assert_eq!(told(&plan, "calibration"), expected.into());
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
fn an_engine_says_why_it_lacks_a_precision() {
    let mut world = world();
    let lacks = &mut world.engines[0].variants[0].lacks;
    lacks.insert(Precision::Int8Static, "not written yet".to_owned());
    let plan = planned(
        "  - id: a
    matrix: { model: resnet18, precision: [int8-dynamic, int8-static], engine: pytorch/eager }
",
        &world,
    );
    let cells = plan.heats.iter().flat_map(|heat| &heat.cells);
    let reasons = cells.filter_map(|cell| Some(cell.obstacle.as_ref()?.reason.as_str()));
    let expected = [
        "pytorch/eager does not compute in int8-dynamic",
        "pytorch/eager does not compute in int8-static: not written yet",
    ];
    assert_eq!(reasons.collect::<Vec<_>>(), expected);
    assert!(explain(&plan, false).contains("int8-static: not written yet"));
}

/// A plain precision against one that is mixed: what the factor says, it says of the latter alone.
#[test]
fn a_precision_without_a_factor_is_compared_with_one_that_has_it() {
    for (asked, expected) in [("mixed_precision: \"on\", ", "on"), ("", "off")] {
        let job = format!(
            "  - id: a
    matrix: {{ model: resnet18, batch: 8, precision: [fp32, bf16], {asked}engine: pytorch/eager }}
    compare: {{ axis: precision, baseline: fp32 }}
"
        );
        let plan = planned(&job, &world());
        let cells = [
            (Precision::Fp32, None),
            (Precision::Bf16, Some(expected.to_owned())),
        ];
        assert_eq!(told(&plan, "mixed_precision"), cells.into());
        assert_eq!(plan.jobs[0].comparisons[0].pairs.len(), 1);
        assert_eq!(plan.warnings, []);
    }

    // Both kinds are held against the one fp32, and against each other where they have the factor.
    let plan = planned(
        "  - id: a
    matrix: { model: resnet18, precision: [fp32, bf16], mixed_precision: [\"off\", \"on\"], engine: pytorch/eager }
    compare: [{ axis: precision }, { axis: mixed_precision }]
",
        &world(),
    );
    assert_eq!(told(&plan, "mixed_precision").len(), 3);
    let comparisons = &plan.jobs[0].comparisons;
    let pairs: Vec<_> = comparisons.iter().map(|them| them.pairs.len()).collect();
    assert_eq!(pairs, [2, 1]);
    let notes: Vec<_> = plan.warnings.iter().map(|note| &note.message).collect();
    let stranger = "1 cell is not compared over `mixed_precision`, which its model, engine, precision or strategy does not know";
    assert_eq!(notes, [stranger]);
}

#[test]
fn a_claim_may_name_a_factor_of_one_side() {
    let notes = |condition: &str| {
        let plan = planned(
            &format!(
                "  - id: a
    matrix: {{ model: [resnet18, bert_tiny], image: 64, precision: [fp32, bf16], mixed_precision: [\"off\", \"on\"], engine: pytorch/eager }}
    compare: {{ axis: precision }}
    claims: {{ id: c, source: s, states: t, expect: \"bf16 < fp32 at {condition}\" }}
"
            ),
            &world(),
        );
        plan.warnings.len()
    };
    assert_eq!(notes("mixed_precision on"), 0);
    assert_eq!(notes("mixed_precision on, model bert_tiny"), 0);
    // BERT has no such axis on either side.
    assert_eq!(notes("model bert_tiny, image 64"), 1);
}

#[test]
fn a_factor_that_no_precision_of_the_job_has_varies_nothing() {
    let complaint =
        refusal("{ model: resnet18, calibration: [minmax, percentile], engine: onnxruntime/cpu }");
    assert!(
        complaint.contains("an engine in precision `int8-static` with the factor `calibration`"),
        "{complaint}"
    );
    let complaint = refusal(
        "{ model: resnet18, precision: [fp32, fp16], mixed_precision: \"on\", engine: pytorch/eager }",
    );
    assert!(
        complaint.contains("an engine in precision `bf16` with the factor `mixed_precision`"),
        "{complaint}"
    );
}

/// PyTorch's arithmetic in half precision by vectors of 256 bits is that of oneDNN's reference, as was measured; others
/// convert.
#[test]
fn half_precision_is_predicted_by_engine_and_processor() {
    let times = |features: &[&str], engine: &str| {
        let mut world = world();
        world.fingerprint.cpu_features = features.iter().map(|word| (*word).to_owned()).collect();
        for variant in world.engines.iter_mut().flat_map(|it| &mut it.variants) {
            variant.precisions.push(Precision::Fp16);
        }
        let job = format!(
            "  - id: a
    matrix: {{ model: resnet50, batch: 8, precision: [fp32, fp16], engine: {engine} }}
"
        );
        let plan = planned(&job, &world);
        let time = |precision| {
            let mut heats = plan.heats.iter();
            let heat = heats.find(|heat| heat.cells[0].cell.precision == precision);
            heat.expect("a group of its own").predicted_ns as f64
        };
        time(Precision::Fp16) / time(Precision::Fp32)
    };
    let narrow = times(&["avx2"], "pytorch/eager");
    assert!(narrow > 15.0, "{narrow}");
    for (features, engine) in [
        (&["avx2"][..], "onnxruntime/cpu"),
        (&["avx2", "avx512f"], "pytorch/eager"),
    ] {
        let ratio = times(features, engine);
        assert!((1.0..5.0).contains(&ratio), "{engine}: {ratio}");
    }
}
