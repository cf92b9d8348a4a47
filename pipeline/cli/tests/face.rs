//! The program at its face: command in, files and exit code out.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::{collections::BTreeSet, fs, process::Command};

use common::{BENCH, SMALL, User, assert_says, text};

#[test]
fn the_second_bench_measures_nothing_and_rewrites_nothing() {
    let user = User::small();
    let first = user.json(&BENCH);
    assert_eq!(
        (&first["measured_heats"], &first["cached_heats"]),
        (&2.into(), &0.into())
    );
    assert_eq!(first["verdicts"].as_array().unwrap().len(), 2);
    // Two blocks are too few for a verdict, and the page says so.
    assert_eq!(first["verdicts"][0]["verdict"], "unclear");
    assert!(user.path("site/index.html").is_file());
    let before = (user.files("store"), user.files("site"));
    let second = user.json(&BENCH);
    assert_eq!(
        (&second["measured_heats"], &second["cached_heats"]),
        (&0.into(), &2.into())
    );
    assert_eq!(second["rendered"], false);
    assert_eq!(first["verdicts"], second["verdicts"]);
    assert!(
        (user.files("store"), user.files("site")) == before,
        "something was rewritten"
    );
    let human = user.run(&BENCH);
    assert_says(&human, "all 2 groups are cached: nothing was measured");
}

#[test]
fn fresh_measures_beside_what_is_there() {
    let user = User::small();
    let heats = || {
        user.files("store")
            .into_iter()
            .filter(|(path, _)| {
                path.extension().is_some_and(|end| end == "zst")
                    && path.components().any(|part| part.as_os_str() == "heats")
            })
            .count()
    };
    user.json(&BENCH);
    assert_eq!(heats(), 2);
    let fresh = user.json(&[
        "bench",
        "--fresh",
        "manifest.yaml",
        "--store",
        "store",
        "--out",
        "site",
    ]);
    assert_eq!(fresh["measured_heats"], 2);
    assert_eq!(heats(), 4);
}

#[test]
fn a_changed_member_makes_its_group_stale_as_a_whole() {
    let user = User::small();
    user.json(&["run", "manifest.yaml", "--store", "store"]);
    user.manifest(&SMALL.replace("batch: [1, 2]", "batch: [1, 2, 3]"));
    let added = user.json(&["run", "manifest.yaml", "--store", "store"]);
    assert_eq!(
        (&added["measured_heats"], &added["cached_heats"]),
        (&1.into(), &2.into())
    );
    user.manifest(&SMALL.replace("round: 5ms", "round: 6ms"));
    let plan = user.run(&["plan", "--explain", "manifest.yaml", "--store", "store"]);
    assert_says(&plan, "stale");
    assert_says(&plan, "measure");
    let changed = user.json(&["run", "manifest.yaml", "--store", "store"]);
    assert_eq!(changed["measured_heats"], 2);
}

#[test]
fn what_judges_and_what_orders_measures_nothing_anew() {
    let user = User::new();
    let jobs = |settings: &str, batch: &str, engines: &str| {
        let matrix = format!(
            "matrix: {{ model: bert_tiny, seq: 8, batch: {batch}, engine: [{engines}] }}\n    compare: {{ axis: engine, baseline: pytorch/eager }}\n"
        );
        user.manifest(&format!("version: 1\nmeasure: {{ blocks: 2, rounds: 1, round: 5ms, warm_up: 5ms{settings} }}\njobs:\n  - id: race\n    {matrix}"));
    };
    jobs("", "[1, 2]", "pytorch/eager, other/eager");
    let first = user.json(&BENCH);
    assert_eq!(first["measured_heats"], 2);
    let ratios = |summary: &serde_json::Value| {
        let mut rows: Vec<_> = summary["verdicts"].as_array().unwrap().clone();
        rows.sort_by_key(|row| row["coordinates"].to_string());
        let centre = |row: &serde_json::Value| row["ratio"]["centre"].clone();
        rows.iter().map(centre).collect::<Vec<_>>()
    };
    jobs(
        ", margin: 50%, confidence: 90%",
        "[2, 1]",
        "other/eager, pytorch/eager",
    );
    let second = user.json(&BENCH);
    assert_eq!(
        (&second["measured_heats"], &second["cached_heats"]),
        (&0.into(), &2.into())
    );
    assert_eq!(second["verdicts"][0]["ratio"]["confidence"], 0.95);
    assert_eq!(ratios(&first), ratios(&second));
}

#[test]
fn a_heat_that_two_jobs_share_is_counted_once() {
    let user = User::new();
    let job = |id: &str| {
        format!(
            "  - {{ id: {id}, matrix: {{ model: bert_tiny, seq: 8, engine: pytorch/eager }} }}\n"
        )
    };
    user.manifest(&format!(
        "version: 1\nmeasure: {{ blocks: 1, rounds: 1, round: 5ms, warm_up: 5ms }}\njobs:\n{}{}",
        job("a"),
        job("b")
    ));
    let args = ["manifest.yaml", "--store", "store"];
    let plan = user.run(&[&["plan"], args.as_slice()].concat());
    assert_says(&plan, "1 cell in 1 group, 0 cached");
    let run = user.json(&[&["run"], args.as_slice()].concat());
    assert_eq!(
        (&run["measured_heats"], &run["cached_heats"]),
        (&1.into(), &0.into())
    );
    assert_eq!(run["record"]["heats"].as_array().unwrap().len(), 2);
    let again = user.run(&[&["run"], args.as_slice()].concat());
    assert_says(&again, "the only group is cached: nothing was measured");
}

#[test]
fn planning_changes_nothing() {
    let user = User::small();
    let plan = user.json(&["plan", "manifest.yaml", "--store", "store"]);
    assert_eq!(plan["heats"].as_array().unwrap().len(), 2);
    assert!(!user.path("store").exists());
}

#[test]
fn a_corrupt_heat_is_set_aside_named_and_measured_again() {
    let user = User::small();
    user.json(&BENCH);
    let (path, mut content) = user
        .files("store/heats")
        .into_iter()
        .find(|(path, _)| path.extension().is_some_and(|end| end == "zst"))
        .unwrap();
    let middle = content.len() / 2;
    content[middle] ^= 1;
    fs::write(&path, content).unwrap();
    let again = user.run(&BENCH);
    assert!(again.status.success(), "{}", text(&again));
    assert_says(&again, "set aside");
    assert_says(&again, "1 group measured, 1 cached");
    assert!(!path.exists());
    assert!(!user.files("store/aside").is_empty());
}

#[test]
fn cells_that_fail_end_typed_and_the_exit_code_tells() {
    let user = User::new();
    let engines = "[pytorch/eager, other/eager, other/segfault, other/wrong_output, other/unsupported, other/panics]";
    let failing = SMALL
        .replace("[pytorch/eager, other/eager]", engines)
        .replace("[1, 2]", "[1]");
    user.manifest(&failing);
    let output = user.run(&[
        "bench",
        "manifest.yaml",
        "--store",
        "store",
        "--out",
        "site",
        "--output-format",
        "json",
    ]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    // One document, whatever the exit code.
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let ended = |variant: &str| {
        let failures = summary["failures"].as_array().unwrap();
        let found = failures
            .iter()
            .find(|failure| failure["name"].as_str().unwrap().contains(variant));
        found.map(|failure| failure["outcome"]["kind"].as_str().unwrap().to_owned())
    };
    assert_eq!(ended("other/segfault").as_deref(), Some("crashed"));
    assert_eq!(ended("other/panics").as_deref(), Some("crashed"));
    assert_eq!(
        ended("other/wrong_output").as_deref(),
        Some("parity_failed")
    );
    assert_eq!(ended("other/unsupported").as_deref(), Some("unsupported"));
    assert_eq!(ended("other/eager"), None);
    // Allowed, the same cells fail nothing; nor are they measured again.
    let allow = "    allow:\n".to_owned()
        + &["segfault", "panics"]
            .map(|variant| format!("      - {{ engine: other/{variant}, outcome: crashed }}\n"))
            .concat()
        + "      - { engine: other/wrong_output, outcome: parity_failed }\n      - { engine: other/un*, outcome: unsupported }\n";
    user.manifest(&(failing + &allow));
    let allowed = user.json(&BENCH);
    assert_eq!(allowed["measured_heats"], 0);
    assert_eq!(allowed["failures"], serde_json::json!([]));
}

/// [`SMALL`], with outputs compared and nothing timed.
fn untimed() -> String {
    let timed = "{ blocks: 2, rounds: 1, round: 5ms, warm_up: 5ms }";
    SMALL.replace(timed, "{ blocks: 0 }")
}

/// Each worker would believe that it is one of two, and cells are of one.
#[test]
fn what_a_launcher_says_to_the_program_is_not_about_workers() {
    let user = User::new();
    user.manifest(&untimed());
    let said = [
        ("RANK", "1"),
        ("LOCAL_RANK", "1"),
        ("WORLD_SIZE", "2"),
        ("MASTER_ADDR", "127.0.0.1"),
        ("MASTER_PORT", "1"),
    ];
    let output = user.command(&BENCH).envs(said).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    assert_says(&output, "2 groups measured, 0 cached");
}

#[test]
fn a_job_that_times_nothing_verifies() {
    let user = User::new();
    let manifest = untimed()
        .replace("other/eager]", "other/eager, other/wrong_output]")
        .replace("[1, 2]", "[1]");
    user.manifest(&manifest);
    let output = user.run(&BENCH);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    assert_says(&output, "2 of 3 cells verified");
    assert_says(&output, "1 group measured, 0 cached");
    user.manifest(&format!(
        "{manifest}    allow: {{ engine: other/wrong_output, outcome: parity_failed }}\n"
    ));
    let summary = user.json(&BENCH);
    assert_eq!(summary["measured_heats"], 0);
    assert_eq!(summary["failures"], serde_json::json!([]));
    // Nothing was timed, so there is nothing to compare.
    assert_eq!(summary["verdicts"], serde_json::json!([]));
    let page = fs::read_to_string(user.path("site/jobs/small.html")).unwrap();
    assert!(page.contains("verified") && page.contains("nothing: outputs are compared"));
    assert!(!page.contains("not measured"), "{page}");
    let matrix = fs::read_to_string(user.path("site/parity.html")).unwrap();
    assert!(matrix.contains("2 of 3 cells agree"), "{matrix}");
}

#[test]
fn a_bundle_gives_the_same_site_elsewhere() {
    let user = User::small();
    user.json(&BENCH);
    for name in ["one.tar.zst", "two.tar.zst"] {
        user.json(&["bundle", "pack", name, "--store", "store"]);
    }
    assert!(
        fs::read(user.path("one.tar.zst")).unwrap() == fs::read(user.path("two.tar.zst")).unwrap()
    );
    let elsewhere = User::new();
    fs::remove_file(elsewhere.path("config/engines.toml")).unwrap();
    fs::copy(user.path("one.tar.zst"), elsewhere.path("one.tar.zst")).unwrap();
    let report = elsewhere
        .command(&["report", "--bundle", "one.tar.zst", "--out", "deep/site"])
        .env("TZ", "Pacific/Kiritimati")
        .env("LC_ALL", "de_DE.UTF-8")
        .output()
        .unwrap();
    assert!(report.status.success(), "{}", text(&report));
    // Nobody named a store, so none was left behind.
    assert!(!elsewhere.path(".photofinish").exists());
    let differing = Command::new("diff")
        .arg("-r")
        .arg(user.path("site"))
        .arg(elsewhere.path("deep/site"))
        .output()
        .unwrap();
    assert!(differing.status.success(), "{}", text(&differing));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let user = User::new();
    let mut child = user.command(&["schema", "tables"]).spawn().unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn every_command_helps_and_documents_have_schemas() {
    let user = User::new();
    for command in [
        "bench",
        "plan",
        "run",
        "aggregate",
        "report",
        "engines",
        "doctor",
        "bundle",
        "store",
        "schema",
        "completions",
    ] {
        let output = user.run(&[command, "--help"]);
        assert!(
            output.status.success() && text(&output).contains("Usage:"),
            "{command}"
        );
    }
    for document in ["manifest", "plan", "heat", "tables", "request", "reply"] {
        let output = user.run(&["schema", document]);
        let schema: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(schema["$schema"].is_string(), "{document}");
    }
    let committed = include_bytes!("../../../jobs/manifest.schema.json");
    assert!(
        user.run(&["schema"]).stdout == committed,
        "`schema` prints what manifests name"
    );
    assert!(text(&user.run(&["completions", "bash"])).contains("photofinish"));
    assert!(text(&user.run(&["doctor", "--quick"])).contains("This machine"));
    let listed = user.json(&["engines", "list"]);
    let names: BTreeSet<&str> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|kit| kit["name"].as_str().unwrap())
        .collect();
    let registered = ["other", "pytorch"].into();
    assert!(names.is_superset(&registered), "{names:?}");
}

#[test]
fn gc_keeps_what_kept_runs_name() {
    let user = User::small();
    user.json(&BENCH);
    user.json(&[
        "bench",
        "--fresh",
        "manifest.yaml",
        "--store",
        "store",
        "--out",
        "site",
    ]);
    let would = user.json(&[
        "store",
        "gc",
        "--keep",
        "1",
        "--dry-run",
        "--store",
        "store",
    ]);
    assert_eq!(would["heats"], 2);
    let did = user.json(&["store", "gc", "--keep", "1", "--store", "store"]);
    assert_eq!(did["heats"], 2);
    let again = user.json(&BENCH);
    assert_eq!(again["measured_heats"], 0);
}

#[test]
fn workers_are_checked_against_the_protocol() {
    let user = User::new();
    let output = user.run(&["engines", "check", "other/steady"]);
    assert!(output.status.success(), "{}", text(&output));
    let output = user.run(&["engines", "check", "other/segfault"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert_says(&output, "FAILED");
}

#[test]
fn failed_cells_are_told_by_the_exit_code_whoever_listens() {
    let user = User::new();
    let failing = SMALL
        .replace("other/eager]", "other/segfault]")
        .replace("[1, 2]", "[1]");
    user.manifest(&failing);
    let run = user.run(&["run", "manifest.yaml", "--store", "store"]);
    assert_eq!(run.status.code(), Some(3), "{}", text(&run));
    let mut deaf = user.command(&BENCH).spawn().unwrap();
    drop(deaf.stdout.take());
    assert_eq!(deaf.wait().unwrap().code(), Some(3));
}

#[test]
fn who_reads_results_needs_no_engines() {
    let user = User::small();
    user.json(&BENCH);
    user.json(&["bundle", "pack", "run.tar.zst", "--store", "store"]);
    let nowhere = user
        .command(&["report", "--bundle", "run.tar.zst", "--out", "other"])
        .env_clear()
        .output()
        .unwrap();
    assert!(nowhere.status.success(), "{}", text(&nowhere));
    fs::write(user.path("config/engines.toml"), "nonsense").unwrap();
    for args in [
        &["report", "--store", "store", "--out", "site"][..],
        &["aggregate", "--store", "store"],
        &["store", "list", "--store", "store"],
        &["bundle", "open", "run.tar.zst", "--store", "another"],
    ] {
        let output = user.run(args);
        assert!(output.status.success(), "{args:?}: {}", text(&output));
    }
    let doctor = user.run(&["doctor", "--quick"]);
    assert!(doctor.status.success(), "{}", text(&doctor));
    for part in ["This machine", "engines are not known: ", "engines.toml:1"] {
        assert_says(&doctor, part);
    }
    let plan = user.run(&["plan", "manifest.yaml", "--store", "store"]);
    assert_eq!(plan.status.code(), Some(2), "{}", text(&plan));
}

#[test]
fn a_manifest_from_standard_input_is_measured_again_from_the_downloads() {
    let user = User::small();
    let manifest = fs::File::open(user.path("manifest.yaml")).unwrap();
    let args = ["bench", "-", "--store", "store", "--out", "site"];
    let output = user.command(&args).stdin(manifest).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let pages: Vec<String> = user
        .files("site/cells")
        .into_iter()
        .map(|(_, content)| String::from_utf8(content).unwrap())
        .collect();
    assert!(!pages.is_empty());
    let again = "photofinish bench manifest-1.yaml --fresh";
    assert!(
        pages.iter().all(|page| page.contains(again)),
        "{}",
        pages[0]
    );
    assert!(user.path("site/data/manifest-1.yaml").is_file());
}
