//! Every manifest of `tests/bad` is refused, with a caret at the place; what is said is kept as
//! snapshots.

use std::path::PathBuf;

use photofinish_plan::{Diagnostic, plan, read_manifests};

use crate::support;

fn refusal(path: PathBuf) -> Vec<Diagnostic> {
    let planned = read_manifests(std::slice::from_ref(&path))
        .and_then(|files| plan(&files, &support::world()));
    match planned {
        Ok(_) => panic!("{} was accepted", path.display()),
        Err(diagnostics) => diagnostics,
    }
}

#[test]
fn bad_manifests_are_refused_with_a_caret() {
    // Relative, so that snapshots hold no machine's paths.
    let mut paths: Vec<PathBuf> = std::fs::read_dir("tests/bad")
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    assert!(paths.len() >= 45, "only {} bad manifests", paths.len());
    insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
        for path in paths {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let diagnostics = refusal(path);
            assert!(!diagnostics.is_empty(), "{name}: refused without a reason");
            let shown: Vec<String> = diagnostics.iter().map(|found| found.render(false)).collect();
            for (diagnostic, shown) in diagnostics.iter().zip(&shown) {
                assert!(diagnostic.line.is_some() && diagnostic.column.is_some(), "{name}");
                assert!(shown.lines().any(|line| line.contains('^')), "{name}: no caret\n{shown}");
                assert!(!shown.contains('\u{1b}'), "{name}: an escape reached the terminal");
            }
            insta::assert_snapshot!(name, shown.join("\n\n"));
        }
    });
}

#[test]
fn diagnostics_have_a_form_for_programs() {
    let diagnostics = refusal(PathBuf::from("tests/bad/unknown_engine.yaml"));
    let written = serde_json::to_value(diagnostics).expect("diagnostics are data");
    let expected = serde_json::json!([{
        "path": "tests/bad/unknown_engine.yaml",
        "line": 4,
        "column": 56,
        "message": "unknown engine `onnxruntim`",
        "help": "did you mean `onnxruntime`? known engines: `onnxruntime`, `pytorch`",
    }]);
    assert_eq!(written, expected);
}
