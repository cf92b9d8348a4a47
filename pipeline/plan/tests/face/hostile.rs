//! Files made to exhaust time, memory or stack are refused like any other.

use photofinish_plan::{Diagnostic, ManifestFile, World, plan, read_manifests};
use proptest::prelude::*;

use crate::support;

const GOOD: &str = include_str!("../../../../jobs/quickstart.yaml");

fn answer(text: &str, world: &World) -> Result<usize, Vec<Diagnostic>> {
    let file = ManifestFile::from_text("hostile.yaml", text)?;
    plan(&[file], world).map(|plan| plan.cell_count())
}

fn refused(text: &str) -> String {
    let diagnostics = answer(text, &support::world()).expect_err("a hostile manifest was accepted");
    assert!(
        diagnostics.len() <= 100,
        "{} errors flood the terminal",
        diagnostics.len()
    );
    let shown: String = diagnostics
        .iter()
        .map(|diagnostic| diagnostic.render(false))
        .collect();
    assert!(
        shown.contains('^') && shown.len() < 200_000,
        "{} bytes shown",
        shown.len()
    );
    shown
}

#[test]
fn nesting_is_bounded() {
    for opening in [
        "[", "{", "{a: ", "- ", "? ", "[ {", "- ? ", "a:\n - ", "!x [", "&a [", "[? ",
    ] {
        let deep = opening.repeat(100_000);
        refused(&format!("version: 1\njobs: {deep}"));
        refused(&deep);
    }
    let shown = refused(&"[".repeat(100_000));
    assert!(shown.contains("nested more than 24 deep"), "{shown}");
    assert!(shown.contains(":1:1\n"), "{shown}");
    let indented: String = (0..600)
        .map(|depth| format!("{}a:\n", " ".repeat(depth)))
        .collect();
    refused(&indented);
}

#[test]
fn a_flood_of_anything_is_answered() {
    let fill = |part: &str| part.repeat((1 << 18) / part.len() - 16);
    for part in [
        "&a ",
        "*a ",
        "!a ",
        "%a\n",
        "a: ",
        "a:\n",
        "- a\n",
        "'",
        "\"",
        "\\",
        "|\n",
        ">\n",
        "---\n",
        "...\n",
        ",",
        ":",
        "?",
        "#",
        "\t",
        " ",
        "\n",
        "\r",
        "é",
        "\u{2028}",
        "[]",
        "{}",
        "[],",
        "a: b, ",
        "&a [*a], ",
        "\u{feff}",
        "- - - \n",
        "a\n",
        "<<: ",
        "\"\\x",
        "1",
        "- &a a\n- *a\n",
    ] {
        refused(&fill(part));
        refused(&format!("version: 1\njobs: [{}", fill(part)));
        refused(&format!("version: 1\njobs:\n  - id: {}", fill(part)));
    }
}

#[test]
fn aliases_are_counted_as_what_they_stand_for() {
    let mut bomb = String::from("version: 1\na: &a [x, x, x, x, x, x, x, x, x, x]\n");
    for (before, after) in ('a'..='y').zip('b'..='z') {
        let uses = vec![format!("*{before}"); 10].join(", ");
        bomb.push_str(&format!("{after}: &{after} [{uses}]\n"));
    }
    bomb.push_str("jobs: *z\n");
    assert!(refused(&bomb).contains("aliases"));
    let flat = format!(
        "version: 1\na: &a [{}]\njobs: [{}]",
        "x, ".repeat(10_000),
        "*a, ".repeat(10_000)
    );
    assert!(refused(&flat).contains("aliases"));
}

#[test]
fn values_are_counted_once_however_deep() {
    let list = |count: usize| {
        let values = "1,".repeat(count);
        format!(
            "version: 1\njobs:\n  - id: a\n    matrix: {{ model: resnet18, batch: [{values}], engine: pytorch/eager }}\n"
        )
    };
    assert!(refused(&list(99_999)).contains("99999 values bring the plan over"));
    assert!(refused(&list(249_999)).contains("more than 250000 values"));
}

#[test]
fn an_alias_copies_nothing() {
    // Copied, it would be some ninety gigabytes.
    let long = "a".repeat(500_000);
    let aliases = "*a,".repeat(160_000);
    let told = refused(&format!("a: &a \"{long}\"\njobs: [{aliases}]"));
    assert!(told.contains("unknown key `a`"), "{}", &told[..200]);
}

#[test]
fn what_is_wrong_in_an_alias_is_told_once() {
    let job = |id: &str, matrix: &str| format!("  - id: {id}\n    matrix: {matrix}\n");
    let first = job(
        "a",
        "&m { model: resnet18, engine: pytorch/eager, batch: [{}] }",
    );
    let text = format!(
        "version: 1\njobs:\n{first}{}{}",
        job("b", "*m"),
        job("c", "*m")
    );
    let told = answer(&text, &support::world()).unwrap_err();
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].line, Some(4));
}

#[test]
fn honest_aliases_work() {
    let text = "version: 1\njobs:\n  - &one\n    id: a\n    matrix: &matrix { model: resnet18, engine: pytorch/eager }\n  - { id: b, matrix: *matrix }\n";
    let files = [ManifestFile::from_text("aliases.yaml", text).unwrap()];
    assert_eq!(plan(&files, &support::world()).unwrap().heats.len(), 2);
}

#[test]
fn many_errors_do_not_flood() {
    let jobs: String = (0..5_000)
        .map(|at| format!("  - {{ id: j{at}, matrix: {{}} }}\n"))
        .collect();
    refused(&format!("version: 1\njobs:\n{jobs}"));
    let keys: String = (0..200).map(|at| format!("key{at}: 1\n")).collect();
    refused(&format!("version: 1\njobs: []\n{keys}"));
}

#[test]
fn the_limit_of_cells_is_for_the_whole_plan() {
    let world = World {
        cell_limit: 3,
        ..support::world()
    };
    let job = |id: &str| {
        format!(
            "  - {{ id: {id}, matrix: {{ model: resnet18, batch: [1, 2], engine: pytorch/eager }} }}\n"
        )
    };
    assert_eq!(
        answer(&format!("version: 1\njobs:\n{}", job("a")), &world).unwrap(),
        2
    );
    let both = answer(
        &format!("version: 1\njobs:\n{}{}", job("a"), job("b")),
        &world,
    )
    .unwrap_err();
    assert!(
        both[0].message.contains("limit of 3"),
        "{}",
        both[0].message
    );
}

#[test]
fn files_are_bounded_and_regular() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("large.yaml"), vec![b'#'; (1 << 20) + 1]).unwrap();
    std::fs::write(path("large_and_binary.yaml"), vec![0xff; 2 << 20]).unwrap();
    for (name, words) in [
        ("large.yaml", "1 MiB"),
        ("large_and_binary.yaml", "1 MiB"),
        ("missing.yaml", "failed to read"),
    ] {
        let found = read_manifests(&[path(name)]).unwrap_err();
        assert!(found[0].message.contains(words), "{}", found[0].message);
        assert!(found[0].help.is_some(), "{}", found[0].message);
    }
    std::fs::create_dir(path("empty")).unwrap();
    assert!(
        read_manifests(&[path("empty")]).unwrap_err()[0]
            .message
            .contains("no manifest")
    );
    // To open a pipe would wait for a writer that never comes.
    let made = std::process::Command::new("mkfifo")
        .arg(path("pipe.yaml"))
        .status()
        .unwrap();
    assert!(made.success());
    assert!(
        read_manifests(&[path("pipe.yaml")]).unwrap_err()[0]
            .message
            .contains("regular")
    );
}

fn job(id: &str) -> String {
    format!(
        "version: 1\njobs: [{{ id: {id}, matrix: {{ model: resnet18, engine: pytorch/eager }} }}]\n"
    )
}

/// The ids of the jobs that paths stand for.
fn ids(paths: &[std::path::PathBuf]) -> Result<Vec<String>, Vec<Diagnostic>> {
    let files = read_manifests(paths)?;
    let id = |file: &ManifestFile| file.manifest.jobs[0].id.to_string();
    Ok(files.iter().map(id).collect())
}

#[cfg(unix)]
#[test]
fn folders_are_read_in_order_with_the_links_that_stay_inside() {
    use std::os::unix::fs::symlink;
    let (folder, store) = (tempfile::tempdir().unwrap(), "sub/c.stored");
    std::fs::create_dir(folder.path().join("sub")).unwrap();
    for (name, id) in [("b.yaml", "b"), ("a.yml", "a"), (store, "c")] {
        std::fs::write(folder.path().join(name), job(id)).unwrap();
    }
    std::fs::write(folder.path().join("notes.txt"), "no manifest").unwrap();
    for (target, link) in [
        (store, "c.yaml"),
        ("c.yaml", "d.yaml"),
        ("sub", "again"),
        (".", "loop.yaml"),
        // Nothing that could be a manifest, and what Emacs leaves while a file is edited.
        ("nowhere", "old.log"),
        ("user@host.1:2", ".#b.yaml"),
    ] {
        symlink(target, folder.path().join(link)).unwrap();
    }
    let all = [folder.path().to_owned(), folder.path().join("b.yaml")];
    assert_eq!(ids(&all).unwrap(), ["a", "b", "c"], "each once, sorted");
}

#[cfg(unix)]
#[test]
fn what_a_folder_cannot_stand_for_is_named() {
    use std::os::unix::fs::symlink;
    let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(folder.path().join("a.yaml"), job("a")).unwrap();
    std::fs::write(outside.path().join("secret.yaml"), job("secret")).unwrap();
    for (target, link, reason) in [
        ("nowhere.yaml".into(), "b.yaml", "leads nowhere"),
        ("nowhere".into(), "more", "leads nowhere"),
        ("b.yaml".into(), "b.yaml", "cannot be followed"),
        (outside.path().to_owned(), "more", "out of the folder"),
        (
            outside.path().join("secret.yaml"),
            "z.yaml",
            "out of the folder",
        ),
    ] {
        let link = folder.path().join(link);
        symlink(target, &link).unwrap();
        let found = ids(&[folder.path().to_owned()]).unwrap_err();
        assert_eq!(found.len(), 1);
        assert!(found[0].message.contains(reason), "{}", found[0].message);
        assert_eq!(found[0].path, link.to_string_lossy());
        std::fs::write(folder.path().join("wrong.yaml"), "jobs: 1").unwrap();
        let found = ids(&[folder.path().to_owned()]).unwrap_err();
        let wrong = found
            .iter()
            .filter(|told| told.path.ends_with("wrong.yaml"));
        assert!(wrong.count() > 0, "all is told at once");
        std::fs::remove_file(folder.path().join("wrong.yaml")).unwrap();
        std::fs::remove_file(&link).unwrap();
    }
    for at in 0..200 {
        symlink("nowhere", folder.path().join(format!("{at}.yaml"))).unwrap();
    }
    assert!(ids(&[folder.path().to_owned()]).unwrap_err().len() <= 20);
}

#[cfg(unix)]
#[test]
fn a_model_behind_a_link_out_of_the_folder_is_refused() {
    let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(outside.path().join("model.onnx"), "x").unwrap();
    std::os::unix::fs::symlink(outside.path(), folder.path().join("models")).unwrap();
    let manifest = folder.path().join("a.yaml");
    std::fs::write(&manifest, "version: 1\njobs: [{ id: a, matrix: { model: { onnx: models/model.onnx }, engine: pytorch/eager } }]").unwrap();
    let files = read_manifests(&[manifest]).unwrap();
    let found = plan(&files, &support::world()).unwrap_err();
    assert!(
        found[0].message.contains("is reached through a link"),
        "{}",
        found[0].message
    );
}

proptest! {

    /// Whatever happens to a good manifest, the answer is a plan or an error with a place.
    #[test]
    fn mutations_never_panic(edits in prop::collection::vec((any::<prop::sample::Index>(), 0_usize..8, "[\\PC\n\t\\[\\]{}:,&*!|>'\"%#?-]{0,6}"), 1..6)) {
        let mut text: Vec<char> = GOOD.chars().collect();
        for (at, removed, inserted) in edits {
            let at = at.index(text.len() + 1);
            let end = (at + removed).min(text.len());
            text.splice(at..end, inserted.chars());
        }
        let text: String = text.into_iter().collect();
        if let Err(diagnostics) = answer(&text, &support::world()) {
            prop_assert!(!diagnostics.is_empty());
            for diagnostic in diagnostics {
                prop_assert!(diagnostic.line.is_some());
                let shown = diagnostic.render(false);
                prop_assert!(shown.contains('^'), "{}", shown);
                prop_assert!(diagnostic.render(true).len() >= shown.len());
            }
        }
    }

    /// Neither does any text.
    #[test]
    fn noise_never_panics(text in "[\\PC\n\t \\[\\]{}:,&*!|>'\"%#?-]{0,200}") {
        if let Err(diagnostics) = answer(&text, &support::world()) {
            prop_assert!(diagnostics.iter().all(|diagnostic| diagnostic.render(false).contains('^')));
        }
    }
}
