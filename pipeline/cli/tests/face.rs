//! The program at its face: command in, files and exit code out.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::{
    fs,
    process::{Child, Command, Output},
    thread,
    time::{Duration, Instant},
};

use common::{SMALL, User, text};

#[test]
fn the_second_bench_measures_nothing_and_rewrites_nothing() {
    let user = User::new();
    user.manifest(SMALL);
    let bench = [
        "bench",
        "manifest.yaml",
        "--store",
        "store",
        "--out",
        "site",
    ];
    let first = user.json(&bench);
    assert_eq!(
        (&first["measured_heats"], &first["cached_heats"]),
        (&2.into(), &0.into())
    );
    assert_eq!(first["verdicts"].as_array().unwrap().len(), 2);
    // Two blocks are too few for a verdict, and the page says so.
    assert_eq!(first["verdicts"][0]["verdict"], "unclear");
    assert!(user.path("site/index.html").is_file());
    let before = (user.files("store"), user.files("site"));
    let second = user.json(&bench);
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
    let human = user.run(&bench);
    assert!(
        text(&human).contains("all 2 groups are cached: nothing was measured"),
        "{}",
        text(&human)
    );
}

#[test]
fn fresh_measures_beside_what_is_there() {
    let user = User::new();
    user.manifest(SMALL);
    let heats = || {
        user.files("store")
            .into_iter()
            .filter(|(path, _)| {
                path.extension().is_some_and(|end| end == "zst")
                    && path.components().any(|part| part.as_os_str() == "heats")
            })
            .count()
    };
    user.json(&[
        "bench",
        "manifest.yaml",
        "--store",
        "store",
        "--out",
        "site",
    ]);
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
    let user = User::new();
    user.manifest(SMALL);
    user.json(&["run", "manifest.yaml", "--store", "store"]);
    user.manifest(&SMALL.replace("batch: [1, 2]", "batch: [1, 2, 3]"));
    let added = user.json(&["run", "manifest.yaml", "--store", "store"]);
    assert_eq!(
        (&added["measured_heats"], &added["cached_heats"]),
        (&1.into(), &2.into())
    );
    user.manifest(&SMALL.replace("round: 5ms", "round: 6ms"));
    let plan = user.run(&["plan", "--explain", "manifest.yaml", "--store", "store"]);
    assert!(
        text(&plan).contains("stale") && text(&plan).contains("measure"),
        "{}",
        text(&plan)
    );
    let changed = user.json(&["run", "manifest.yaml", "--store", "store"]);
    assert_eq!(changed["measured_heats"], 2);
}

#[test]
fn what_judges_and_what_orders_measures_nothing_anew() {
    let user = User::new();
    let bench = [
        "bench",
        "manifest.yaml",
        "--store",
        "store",
        "--out",
        "site",
    ];
    let jobs = |settings: &str, batch: &str, engines: &str| {
        let matrix = format!(
            "matrix: {{ model: bert_tiny, seq: 8, batch: {batch}, engine: [{engines}] }}\n    compare: {{ axis: engine, baseline: pytorch/eager }}\n"
        );
        user.manifest(&format!("version: 1\nmeasure: {{ blocks: 2, rounds: 1, round: 5ms, warm_up: 5ms{settings} }}\njobs:\n  - id: race\n    {matrix}"));
    };
    jobs("", "[1, 2]", "pytorch/eager, other/eager");
    let first = user.json(&bench);
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
    let second = user.json(&bench);
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
    assert!(
        text(&plan).contains("1 cell in 1 group, 0 cached"),
        "{}",
        text(&plan)
    );
    let run = user.json(&[&["run"], args.as_slice()].concat());
    assert_eq!(
        (&run["measured_heats"], &run["cached_heats"]),
        (&1.into(), &0.into())
    );
    assert_eq!(run["record"]["heats"].as_array().unwrap().len(), 2);
    let again = user.run(&[&["run"], args.as_slice()].concat());
    assert!(
        text(&again).contains("the only group is cached: nothing was measured"),
        "{}",
        text(&again)
    );
}

#[test]
fn planning_changes_nothing() {
    let user = User::new();
    user.manifest(SMALL);
    let plan = user.json(&["plan", "manifest.yaml", "--store", "store"]);
    assert_eq!(plan["heats"].as_array().unwrap().len(), 2);
    assert!(!user.path("store").exists());
}

#[test]
fn a_corrupt_heat_is_set_aside_named_and_measured_again() {
    let user = User::new();
    user.manifest(SMALL);
    let bench = [
        "bench",
        "manifest.yaml",
        "--store",
        "store",
        "--out",
        "site",
    ];
    user.json(&bench);
    let (path, mut content) = user
        .files("store/heats")
        .into_iter()
        .find(|(path, _)| path.extension().is_some_and(|end| end == "zst"))
        .unwrap();
    let middle = content.len() / 2;
    content[middle] ^= 1;
    fs::write(&path, content).unwrap();
    let again = user.run(&bench);
    assert!(again.status.success(), "{}", text(&again));
    assert!(
        text(&again).contains("set aside") && text(&again).contains("1 group measured, 1 cached"),
        "{}",
        text(&again)
    );
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
    let allowed = user.json(&[
        "bench",
        "manifest.yaml",
        "--store",
        "store",
        "--out",
        "site",
    ]);
    assert_eq!(allowed["measured_heats"], 0);
    assert_eq!(allowed["failures"], serde_json::json!([]));
}

#[test]
fn a_bundle_gives_the_same_site_elsewhere() {
    let user = User::new();
    user.manifest(SMALL);
    user.json(&[
        "bench",
        "manifest.yaml",
        "--store",
        "store",
        "--out",
        "site",
    ]);
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
fn an_interrupted_bench_leaves_130_and_no_process_and_goes_on() {
    let user = User::new();
    user.manifest(
        &SMALL
            .replace("blocks: 2", "blocks: 4")
            .replace("round: 5ms", "round: 400ms"),
    );
    let bench = [
        "bench",
        "manifest.yaml",
        "--store",
        "store",
        "--out",
        "site",
    ];
    let mark = user.path("mark").display().to_string();
    let child = user
        .command(&bench)
        .env("PHOTOFINISH_TEST_MARK", &mark)
        .spawn()
        .unwrap();
    let began = Instant::now();
    let some_block = || {
        user.path("store/heats").is_dir()
            && user.files("store/heats").iter().any(|(path, _)| {
                path.file_name()
                    .unwrap()
                    .to_string_lossy()
                    .starts_with("00002-")
            })
    };
    while !some_block() {
        assert!(
            began.elapsed() < Duration::from_secs(120),
            "no block was measured"
        );
        thread::sleep(Duration::from_millis(20));
    }
    let interrupted = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(interrupted.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output));
    assert!(text(&output).contains("interrupted: the same command goes on where it stopped"));
    assert_eq!(marked(&mark), Vec::<String>::new(), "processes are left");
    let again = user.run(&bench);
    assert!(again.status.success(), "{}", text(&again));
    assert!(text(&again).contains("going on after"), "{}", text(&again));
}

/// Command lines of processes that carry the mark.
fn marked(mark: &str) -> Vec<String> {
    let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    processes
        .filter(|process| {
            let environment = fs::read(process.path().join("environ")).unwrap_or_default();
            String::from_utf8_lossy(&environment).contains(mark)
        })
        .map(|process| fs::read_to_string(process.path().join("cmdline")).unwrap_or_default())
        .collect()
}

#[test]
fn bad_input_is_told_with_place_and_remedy() {
    let user = User::new();
    user.manifest(&SMALL.replace("other/eager]", "othr/eager]"));
    let output = user.run(&[
        "bench",
        "manifest.yaml",
        "--store",
        "store",
        "--out",
        "site",
    ]);
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
    let user = User::new();
    user.manifest(SMALL);
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
    assert!(text(&user.run(&["doctor"])).contains("This machine"));
    assert_eq!(user.json(&["engines", "list"]).as_array().unwrap().len(), 3);
}

#[test]
fn gc_keeps_what_kept_runs_name() {
    let user = User::new();
    user.manifest(SMALL);
    let bench = [
        "bench",
        "manifest.yaml",
        "--store",
        "store",
        "--out",
        "site",
    ];
    user.json(&bench);
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
    let again = user.json(&bench);
    assert_eq!(again["measured_heats"], 0);
}

#[test]
fn workers_are_checked_against_the_protocol() {
    let user = User::new();
    let output = user.run(&["engines", "check", "other/steady"]);
    assert!(output.status.success(), "{}", text(&output));
    let output = user.run(&["engines", "check", "other/segfault"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("FAILED"), "{}", text(&output));
}

#[test]
fn a_folder_that_cannot_hold_the_site_is_refused_before_anything_is_measured() {
    let user = User::new();
    user.manifest(SMALL);
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
fn failed_cells_are_told_by_the_exit_code_whoever_listens() {
    let user = User::new();
    let failing = SMALL
        .replace("other/eager]", "other/segfault]")
        .replace("[1, 2]", "[1]");
    user.manifest(&failing);
    let run = user.run(&["run", "manifest.yaml", "--store", "store"]);
    assert_eq!(run.status.code(), Some(3), "{}", text(&run));
    let mut deaf = user
        .command(&[
            "bench",
            "manifest.yaml",
            "--store",
            "store",
            "--out",
            "site",
        ])
        .spawn()
        .unwrap();
    drop(deaf.stdout.take());
    assert_eq!(deaf.wait().unwrap().code(), Some(3));
}

#[test]
fn a_result_that_cannot_be_written_is_an_error() {
    let user = User::new();
    user.manifest(SMALL);
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

#[test]
fn two_signals_at_once_are_one_wish() {
    let user = User::new();
    user.manifest(&SMALL.replace("round: 5ms", "round: 3s"));
    let child = user
        .command(&[
            "bench",
            "manifest.yaml",
            "--store",
            "store",
            "--out",
            "site",
        ])
        .spawn()
        .unwrap();
    thread::sleep(Duration::from_secs(2));
    let pid = child.id().to_string();
    for _ in 0..2 {
        Command::new("kill").args(["-INT", &pid]).status().unwrap();
    }
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output));
    assert!(text(&output).contains("interrupted:"), "{}", text(&output));
}

const BENCH: [&str; 6] = [
    "bench",
    "manifest.yaml",
    "--store",
    "store",
    "--out",
    "site",
];

/// Waits until something holds; it must within two minutes.
fn wait_for(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(120), "never: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

fn interrupt(child: Child) -> Output {
    let pid = child.id().to_string();
    let sent = Command::new("kill").args(["-INT", &pid]).status().unwrap();
    assert!(sent.success());
    child.wait_with_output().unwrap()
}

/// How many files below the store end, or begin, so.
fn count(user: &User, is_it: impl Fn(&str) -> bool) -> usize {
    if !user.path("store/heats").is_dir() {
        return 0;
    }
    let files = user.files("store/heats");
    let names = files
        .iter()
        .map(|(path, _)| path.file_name().unwrap().to_string_lossy());
    names.filter(|name| is_it(name)).count()
}

#[test]
fn an_interrupted_run_never_takes_the_place_of_a_whole_one() {
    let user = User::new();
    let slow = SMALL.replace("round: 5ms", "round: 400ms");
    user.manifest(&slow);
    user.json(&BENCH);
    let site = user.files("site");
    let list = user.json(&["store", "list", "--store", "store"]);
    let first = list[0]["run"].as_str().unwrap().to_owned();
    let fresh = || user.command(&[&BENCH[..], &["--fresh"]].concat()).spawn();
    // At once, and after one of two groups.
    for sealed in [2, 3] {
        let child = fresh().unwrap();
        wait_for("a block", || {
            count(&user, |name| name.ends_with(".heat.zst")) == sealed
                && count(&user, |name| name.starts_with("00002-")) > 0
        });
        let output = interrupt(child);
        assert_eq!(output.status.code(), Some(130), "{}", text(&output));
        // The plan says what going on will do.
        let plan = user.run(&["plan", "--fresh", "manifest.yaml", "--store", "store"]);
        let cached = format!("{} cached;", sealed - 2);
        assert!(
            text(&plan).contains(&cached) && text(&plan).contains("  open "),
            "{}",
            text(&plan)
        );
        let report = user.run(&["report", "--store", "store", "--out", "site"]);
        assert!(report.status.success(), "{}", text(&report));
        let told = text(&report).contains("was interrupted: this is run");
        assert_eq!(told, sealed == 3, "{}", text(&report));
        assert!(user.files("site") == site, "the site is another");
        let packed = user.json(&["bundle", "pack", "run.tar.zst", "--store", "store"]);
        assert_eq!(packed["run"], first);
        let gone = user.json(&["store", "gc", "--keep", "1", "--store", "store"]);
        assert_eq!((&gone["runs"], &gone["heats"]), (&0.into(), &0.into()));
    }
    let list = user.json(&["store", "list", "--store", "store"]);
    let list = list.as_array().unwrap();
    assert_eq!(list.len(), 2);
    assert_eq!(
        (&list[1]["interrupted"], &list[1]["sealed"]),
        (&true.into(), &1.into())
    );
}

#[test]
fn an_interrupted_run_is_shown_where_there_is_no_other() {
    let user = User::new();
    user.manifest(&SMALL.replace("round: 5ms", "round: 400ms"));
    let child = user.command(&BENCH).spawn().unwrap();
    wait_for("a block of the second group", || {
        count(&user, |name| name.ends_with(".heat.zst")) == 1
            && count(&user, |name| name.starts_with("00002-")) > 0
    });
    let output = interrupt(child);
    assert_eq!(output.status.code(), Some(130), "{}", text(&output));
    let report = user.run(&["report", "--store", "store", "--out", "site"]);
    assert!(report.status.success(), "{}", text(&report));
    assert!(
        text(&report).contains("was interrupted: 1 of 2 groups are measured"),
        "{}",
        text(&report)
    );
    let aggregate = user.run(&["aggregate", "--store", "store"]);
    assert!(
        text(&aggregate).contains("1 of 2 groups measured, 1 not reached"),
        "{}",
        text(&aggregate)
    );
}

#[test]
fn a_run_that_could_not_be_kept_has_no_name() {
    let user = User::new();
    user.manifest(SMALL);
    let first = user.json(&["run", "manifest.yaml", "--store", "store"]);
    // Somebody else writes.
    let lock = fs::File::open(user.path("store/lock")).unwrap();
    lock.lock().unwrap();
    let again = user.json(&["run", "manifest.yaml", "--store", "store"]);
    assert_eq!(again["run"], first["run"]);
    user.manifest(&SMALL.replace("title: Small", "title: Other"));
    let other = user.json(&["run", "manifest.yaml", "--store", "store"]);
    assert_eq!(other["run"], serde_json::Value::Null);
    let human = user.run(&["run", "manifest.yaml", "--store", "store"]);
    assert!(human.status.success());
    assert!(
        text(&human).contains("not kept as a run") && text(&human).contains("is being written by"),
        "{}",
        text(&human)
    );
}

/// Whether the process has a handler for Ctrl-C.
fn heeds(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    caught.is_some_and(|mask| u64::from_str_radix(mask.trim(), 16).unwrap_or(0) & 0b10 != 0)
}

#[test]
fn whatever_is_interrupted_leaves_nothing_temporary() {
    let user = User::new();
    user.manifest(SMALL);
    user.json(&BENCH);
    user.json(&["bundle", "pack", "run.tar.zst", "--store", "store"]);
    fs::create_dir(user.path("tmp")).unwrap();
    fs::create_dir(user.path("out")).unwrap();
    let mut interrupted = Vec::new();
    for args in [
        &[
            "bench",
            "manifest.yaml",
            "--store",
            "store",
            "--out",
            "out/site",
        ][..],
        &["report", "--store", "store", "--out", "out/site"],
        &["report", "--bundle", "run.tar.zst", "--out", "out/site"],
        &["bundle", "pack", "out/run.tar.zst", "--store", "store"],
        &["aggregate", "--store", "store"],
    ] {
        for delay_ms in [0, 5, 20, 60, 150, 300] {
            let child = user
                .command(args)
                .env("TMPDIR", user.path("tmp"))
                .spawn()
                .unwrap();
            wait_for("a handler, or the end", || {
                heeds(child.id())
                    || fs::read(format!("/proc/{}/maps", child.id()))
                        .is_ok_and(|maps| maps.is_empty())
            });
            thread::sleep(Duration::from_millis(delay_ms));
            let output = interrupt(child);
            let code = output.status.code();
            assert!(matches!(code, Some(0 | 130)), "{args:?}: {}", text(&output));
            if code == Some(130) {
                interrupted.push(args[0]);
            }
            let left = |folder: &str| {
                let entries = fs::read_dir(user.path(folder)).unwrap();
                let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
                names.filter(|name| name.contains("photofinish")).count()
            };
            assert_eq!((left("tmp"), left("out")), (0, 0), "{args:?}");
            let _ = fs::remove_dir_all(user.path("out/site"));
            let _ = fs::remove_file(user.path("out/run.tar.zst"));
        }
    }
    // Both take far longer than a signal.
    assert!(interrupted.contains(&"bench") && interrupted.contains(&"report"));
}

/// Makes a run record contradict itself.
type Spoil = fn(&mut schema::RunRecord);

#[test]
fn runs_that_contradict_themselves_are_misuse_wherever_they_come_from() {
    let user = User::new();
    user.manifest(SMALL);
    user.json(&BENCH);
    let store = store::Store::open(user.path("store")).unwrap();
    let (_, good) = store.latest_run().unwrap().unwrap();
    let spoil: [(&str, Spoil); 3] = [
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
    ];
    for (says, change) in spoil {
        let mut record = good.clone();
        change(&mut record);
        store.lock().unwrap().put_run(&record).unwrap();
        user.json(&["bundle", "pack", "bad.tar.zst", "--store", "store"]);
        for args in [
            &["report", "--store", "store", "--out", "other"][..],
            &["report", "--bundle", "bad.tar.zst", "--out", "other"],
        ] {
            let output = user.run(args);
            let said = text(&output);
            assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
            assert!(said.contains(says), "{args:?}: {said}");
            if args.contains(&"--bundle") {
                assert!(said.contains("bundle `bad.tar.zst`"), "{said}");
                assert!(!said.contains("run again"), "{said}");
            }
        }
    }
}

#[test]
fn who_reads_results_needs_no_engines() {
    let user = User::new();
    user.manifest(SMALL);
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
    let doctor = user.run(&["doctor"]);
    assert!(doctor.status.success(), "{}", text(&doctor));
    for part in ["This machine", "engines are not known: ", "engines.toml:1"] {
        assert!(text(&doctor).contains(part), "{}", text(&doctor));
    }
    let plan = user.run(&["plan", "manifest.yaml", "--store", "store"]);
    assert_eq!(plan.status.code(), Some(2), "{}", text(&plan));
}

#[test]
fn a_place_where_nothing_can_be_created_is_refused_before_anything_is_measured() {
    let user = User::new();
    user.manifest(SMALL);
    // Nobody may create anything there, whoever runs this.
    let out = "/proc/deep/site";
    let output = user.run(&["bench", "manifest.yaml", "--store", "store", "--out", out]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("nothing can be created in /proc:"), "{said}");
    assert!(!user.path("store").exists());
}
