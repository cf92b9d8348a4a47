//! The JSON Schema for editors: kept equal to the types, and true of what is read.

use std::path::{Path, PathBuf};

use photofinish_plan::{ManifestFile, manifest_schema, manifest_schema_text, plan, read_manifests};

use crate::support;

const JOBS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../jobs");

fn manifests(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(manifests(&path));
        } else if path.extension().is_some_and(|end| end == "yaml") {
            found.push(path);
        }
    }
    found
}

fn json(text: &str) -> Option<serde_json::Value> {
    // By way of YAML's own value, which refuses duplicate keys.
    serde_yaml::from_str::<serde_yaml::Value>(text)
        .ok()
        .and_then(|value| serde_json::to_value(value).ok())
}

#[test]
fn the_committed_schema_is_that_of_the_types() {
    let path = Path::new(JOBS).join("manifest.schema.json");
    if std::env::var_os("PHOTOFINISH_UPDATE").is_some() {
        std::fs::write(&path, manifest_schema_text()).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap();
    assert!(
        committed == manifest_schema_text(),
        "jobs/manifest.schema.json is old: run this test with PHOTOFINISH_UPDATE=1"
    );
}

#[test]
fn shipped_manifests_fit_the_schema() {
    let validator = jsonschema::validator_for(&manifest_schema().to_value()).unwrap();
    let found = manifests(Path::new(JOBS));
    assert!(found.len() >= 2);
    for path in &found {
        let text = std::fs::read_to_string(path).unwrap();
        assert!(
            text.starts_with("# yaml-language-server: $schema="),
            "{}",
            path.display()
        );
        let errors: Vec<String> = validator
            .iter_errors(&json(&text).unwrap())
            .map(|error| error.to_string())
            .collect();
        assert!(errors.is_empty(), "{}: {errors:?}", path.display());
    }
    let files = read_manifests(&[PathBuf::from(JOBS)]).unwrap();
    assert_eq!(files.len(), found.len());
}

#[test]
fn the_quickstart_is_planned_without_a_warning() {
    let quickstart = Path::new(JOBS).join("quickstart.yaml");
    let plan = plan(&read_manifests(&[quickstart]).unwrap(), &support::world()).unwrap();
    assert!(plan.warnings.is_empty(), "{:?}", plan.warnings);
}

/// The example of the design document, as written there, in a world with the engine it allows for.
#[test]
fn the_example_of_the_design_is_read_as_written() {
    let text = include_str!("../good/design.yaml");
    let validator = jsonschema::validator_for(&manifest_schema().to_value()).unwrap();
    assert!(validator.is_valid(&json(text).unwrap()));
    let file = ManifestFile::from_text("jobs/quickstart.yaml", text).unwrap();
    let plan = plan(&[file], &support::world()).unwrap();
    assert_eq!((plan.title.as_str(), plan.jobs.len()), ("Quickstart", 2));
    assert_eq!(plan.cell_count(), 11);
    assert_eq!(plan.jobs[0].comparisons[0].pairs.len(), 5);
    let notes: Vec<&str> = plan
        .warnings
        .iter()
        .map(|warning| warning.message.as_str())
        .collect();
    let [allowed, budget] = notes.as_slice() else {
        panic!("two notes: {notes:?}")
    };
    let covers_nothing =
        "the rule that allows `unavailable` for `engine: tensorrt/*` covers no cell";
    assert_eq!(*allowed, covers_nothing);
    // Its four minutes are less than six blocks take since nothing is called steady before a second is over.
    assert!(
        budget.contains("more than the budget of 4.0 min"),
        "{budget}"
    );
}

/// What the schema accepts, the types read, and the other way round, as far as form goes: errors
/// of meaning and of YAML itself are no matter of the schema.
#[test]
fn the_schema_refuses_what_the_types_refuse() {
    let validator = jsonschema::validator_for(&manifest_schema().to_value()).unwrap();
    let mut refused = 0;
    for path in manifests(Path::new("tests/bad")) {
        let Ok(text) = std::fs::read_to_string(&path) else {
            continue;
        };
        let Some(value) = json(&text) else {
            continue;
        };
        let is_read = serde_yaml::from_str::<schema::manifest::Manifest>(&text).is_ok();
        let is_valid = validator.is_valid(&value);
        assert!(
            is_read || !is_valid || is_beyond_schemas(&path),
            "{}: the schema is too lax",
            path.display()
        );
        refused += usize::from(!is_valid);
    }
    assert!(
        refused >= 30,
        "only {refused} bad manifests are refused by the schema"
    );
}

/// The schema and the tool accept, and refuse, the same forms.
#[test]
fn the_schema_and_the_tool_agree() {
    let validator = jsonschema::validator_for(&manifest_schema().to_value()).unwrap();
    let forms = [
        ("device: cuda:1", true),
        ("device: \"cuda:+1\"", false),
        ("device: \"cuda:\"", false),
        ("mode: training, optimizer: { adam: {} }", true),
        ("mode: training, optimizer: { adam: }", false),
        ("mode: training, optimizer: { }", false),
        ("measure: {}", true),
        ("measure:", false),
        ("allow: { outcome: crashed }", true),
        ("allow: { outcome: [crashed, timed_out] }", true),
        ("allow: { outcome: measured }", false),
        ("allow: { outcome: [crashed, measured] }", false),
        ("allow: { outcome: [] }", false),
        (
            "mode: training, optimizer: { sgd: { learning_rate: 1000 } }",
            false,
        ),
        ("mode: training, optimizer: { sgd: { momentum: 1 } }", false),
        (
            "mode: training, optimizer: { sgd: { momentum: -0.0 } }",
            true,
        ),
        ("allow:", false),
        ("compare:", false),
    ];
    for (form, is_right) in forms {
        let text = format!(
            "version: 1\njobs: [{{ id: a, matrix: {{ model: resnet18, engine: pytorch/eager }}, {form} }}]\n"
        );
        assert_eq!(
            validator.is_valid(&json(&text).unwrap()),
            is_right,
            "{form}"
        );
        let planned = ManifestFile::from_text("a.yaml", &text)
            .and_then(|file| plan(&[file], &support::world()));
        assert_eq!(planned.is_ok(), is_right, "{form}");
    }
}

/// Rules that JSON Schema cannot say: control characters, numbers that JSON does not have, `1.0`,
/// which is 1 to it.
fn is_beyond_schemas(path: &Path) -> bool {
    [
        "byte_order_mark_inside",
        "control_character",
        "direction_override",
        "invisible_characters",
        "percent_zero",
        "readers_apart",
        "percent_nan",
        "optimizer_nan",
        "batch_nan",
        "batch_infinite",
        "version_fraction",
    ]
    .contains(&path.file_stem().unwrap().to_str().unwrap())
}
