//! What is refused, and how it is told: before anything is measured, by a code of its own.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::fs;

use common::{BENCH, SMALL, User, assert_says, text};

#[test]
fn bad_input_is_told_with_place_and_remedy() {
    let user = User::new();
    user.manifest(&SMALL.replace("other/eager]", "othr/eager]"));
    let output = user.run(&BENCH);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    for part in ["othr", "manifest.yaml:11", "^", "did you mean"] {
        assert!(said.contains(part), "no {part:?} in {said}");
    }
    assert!(!user.path("store").exists() && !user.path("site").exists());
    let json = user.run(&["plan", "manifest.yaml", "--output-format", "json"]);
    let document: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(document["error"]["exit_code"], 2);
    assert_eq!(document["error"]["details"][0]["line"], 11);
    for args in [
        &["plan", "none.yaml"][..],
        &["bench"],
        &["report", "--bundle", "none"],
        &["engines", "install", "nothing"],
        &["report", "--run", "zz"],
        &["aggregate"],
    ] {
        let output = user.run(args);
        assert!(
            matches!(output.status.code(), Some(2 | 4)),
            "{args:?}: {}",
            text(&output)
        );
        assert!(
            !text(&output).contains("panicked"),
            "{args:?}: {}",
            text(&output)
        );
    }
}

#[test]
fn a_store_that_is_no_folder_is_told() {
    let user = User::small();
    fs::write(user.path("file"), "").unwrap();
    let output = user.run(&["bench", "manifest.yaml", "--store", "file", "--out", "site"]);
    assert!(
        !output.status.success() && text(&output).contains("file"),
        "{}",
        text(&output)
    );
    assert!(!text(&output).contains("panicked"));
}

#[test]
fn a_folder_that_cannot_hold_the_site_is_refused_before_anything_is_measured() {
    let user = User::small();
    fs::create_dir(user.path("foreign")).unwrap();
    fs::write(user.path("foreign/precious"), "mine").unwrap();
    for out in ["foreign", "store", "store/site", "manifest.yaml"] {
        let output = user.run(&["bench", "manifest.yaml", "--store", "store", "--out", out]);
        assert_eq!(output.status.code(), Some(2), "{out}: {}", text(&output));
    }
    assert!(!user.path("store").exists());
    assert_eq!(fs::read(user.path("foreign/precious")).unwrap(), b"mine");
}

#[test]
fn a_result_that_cannot_be_written_is_an_error() {
    let user = User::small();
    for args in [&["plan", "manifest.yaml"][..], &["--help"], &["--version"]] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full");
        let output = user.command(args).stdout(full.unwrap()).output().unwrap();
        assert_eq!(output.status.code(), Some(4), "{}", text(&output));
        assert!(text(&output).contains("cannot write standard output"));
    }
}

#[test]
fn programs_get_their_document_for_misuse_too() {
    let user = User::new();
    for args in [
        &["bench", "--output-format", "json"][..],
        &["plan", "--nosuch", "--output-format=json"],
    ] {
        let output = user.run(args);
        assert_eq!(output.status.code(), Some(2));
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(document["error"]["exit_code"], 2);
    }
}

/// Makes a run record contradict itself.
type Spoil = fn(&mut schema::RunRecord);

#[test]
fn runs_that_contradict_themselves_are_misuse_wherever_they_come_from() {
    let user = User::small();
    user.json(&BENCH);
    let store = store::Store::open(user.path("store")).unwrap();
    let (_, good) = store.latest_run().unwrap().unwrap();
    let spoil: [(&str, Spoil); 4] = [
        ("confidence 2", |record| {
            record.plan.jobs[0].measure.confidence = 2.0;
        }),
        ("occurs twice", |record| {
            let job = record.plan.jobs[0].clone();
            record.plan.jobs.push(job);
        }),
        ("evil", |record| {
            record.plan.jobs[0].id = "../../evil".to_owned();
            for heat in &mut record.plan.heats {
                heat.job = "../../evil".to_owned();
            }
        }),
        ("does not have", |record| {
            record.plan.jobs[0].comparisons[0].pairs[0].contender =
                schema::CellId("ffffffffffff".to_owned());
        }),
    ];
    for (says, change) in spoil {
        let mut record = good.clone();
        change(&mut record);
        store.lock().unwrap().put_run(&record).unwrap();
        user.json(&["bundle", "pack", "bad.tar.zst", "--store", "store"]);
        for args in [
            &["report", "--store", "store", "--out", "other"][..],
            &["report", "--bundle", "bad.tar.zst", "--out", "other"],
            &["bundle", "open", "bad.tar.zst", "--store", "another"],
        ] {
            let output = user.run(args);
            let said = text(&output);
            assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
            assert!(said.contains(says), "{args:?}: {said}");
            if args.contains(&"bad.tar.zst") {
                assert!(said.contains("bundle `bad.tar.zst`"), "{said}");
                assert!(!said.contains("run again"), "{said}");
                assert!(!user.path("another").exists(), "{args:?}");
            }
        }
    }
}

#[test]
fn a_place_where_nothing_can_be_created_is_refused_before_anything_is_measured() {
    let user = User::small();
    // Nobody may create anything there, whoever runs this.
    let out = "/proc/deep/site";
    let output = user.run(&["bench", "manifest.yaml", "--store", "store", "--out", out]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("nothing can be created in /proc:"), "{said}");
    assert!(!user.path("store").exists());
}

#[test]
fn a_store_that_another_writes_is_told_of_with_the_writer() {
    let user = User::small();
    user.json(&BENCH);
    let before = user.files("store");
    let store = store::Store::open(user.path("store")).unwrap();
    let lock = store.lock().unwrap();
    for args in [
        &["run", "--fresh", "manifest.yaml", "--store", "store"][..],
        &["store", "gc", "--store", "store"],
    ] {
        let output = user.run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", text(&output));
        assert_says(&output, "is being written by");
        assert_says(&output, &std::process::id().to_string());
    }
    // Who reads needs nobody's leave.
    let report = user.run(&["report", "--store", "store", "--out", "other"]);
    assert!(report.status.success(), "{}", text(&report));
    drop(lock);
    assert!(user.files("store") == before, "something was written");
}

#[test]
fn a_bundle_that_cannot_be_written_is_named_as_it_was_asked_for() {
    let user = User::small();
    user.json(&BENCH);
    fs::create_dir(user.path("taken")).unwrap();
    for (name, code, says) in [
        ("taken", 2, "`taken`"),
        ("none/run.tar.zst", 2, "`none`"),
        ("/proc/run.tar.zst", 4, "`/proc/run.tar.zst`"),
    ] {
        let output = user.run(&["bundle", "pack", name, "--store", "store"]);
        assert_eq!(output.status.code(), Some(code), "{}", text(&output));
        assert_says(&output, says);
    }
}

#[test]
fn a_bundle_is_no_stream() {
    let user = User::small();
    for args in [
        &["bundle", "pack", "-"][..],
        &["bundle", "open", "-"],
        &["report", "--bundle", "-"],
    ] {
        let output = user.run(args);
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
        assert_says(&output, "a bundle is a file and no stream");
    }
}
