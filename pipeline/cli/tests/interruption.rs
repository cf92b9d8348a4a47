//! What a signal leaves behind: nothing half done, and runs that go on.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::{
    fs,
    path::PathBuf,
    process::{Child, Command, Output},
    thread,
    time::Duration,
};

use common::{BENCH, SMALL, User, assert_says, marked, text, wait_for};

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
    wait_for("a block", || {
        names(user.path("store/heats"))
            .iter()
            .any(|name| name.starts_with("00002-"))
    });
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
    assert_says(&again, "going on after");
}

#[test]
fn two_signals_at_once_are_one_wish() {
    let user = User::new();
    user.manifest(&SMALL.replace("round: 5ms", "round: 3s"));
    let child = user.command(&BENCH).spawn().unwrap();
    thread::sleep(Duration::from_secs(2));
    let pid = child.id().to_string();
    for _ in 0..2 {
        Command::new("kill").args(["-INT", &pid]).status().unwrap();
    }
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output));
    assert_says(&output, "interrupted:");
}

fn interrupt(child: Child) -> Output {
    let pid = child.id().to_string();
    let sent = Command::new("kill").args(["-INT", &pid]).status().unwrap();
    assert!(sent.success());
    child.wait_with_output().unwrap()
}

/// The names of all below a folder from which files may go at any time.
fn names(folder: PathBuf) -> Vec<String> {
    let (mut names, mut folders) = (Vec::new(), vec![folder]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            names.push(entry.file_name().to_string_lossy().into_owned());
            if entry.path().is_dir() {
                folders.push(entry.path());
            }
        }
    }
    names
}

fn sealed(names: &[String]) -> usize {
    names
        .iter()
        .filter(|name| name.ends_with(".heat.zst"))
        .count()
}

/// Whether so many heats are sealed, and the first of the two blocks of one more is. (Both blocks of a
/// heat that was just sealed may still lie there.)
fn has_begun(user: &User, all: usize) -> bool {
    let heats = user.path("store/heats");
    let groups = || fs::read_dir(&heats).into_iter().flatten().flatten();
    sealed(&names(heats.clone())) == all
        && groups().any(|group| {
            let names = names(group.path());
            let has = |block: &str| names.iter().any(|name| name.starts_with(block));
            has("00002-") && !has("00003-")
        })
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
        wait_for("a block", || has_begun(&user, sealed));
        let output = interrupt(child);
        assert_eq!(output.status.code(), Some(130), "{}", text(&output));
        // The plan says what going on will do.
        let plan = user.run(&["plan", "--fresh", "manifest.yaml", "--store", "store"]);
        let cached = format!("{} cached;", sealed - 2);
        assert_says(&plan, &cached);
        assert_says(&plan, "  open ");
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

/// Which cells have a twin is drawn anew for what is measured `--fresh`, and once.
#[test]
fn a_grown_job_that_is_measured_fresh_goes_on_where_it_stopped() {
    let user = User::new();
    let slow = SMALL.replace("round: 5ms", "round: 400ms");
    user.manifest(&slow);
    user.json(&BENCH);
    user.manifest(&slow.replace("batch: [1, 2]", "batch: [1, 2, 3]"));
    let fresh = [&BENCH[..], &["--fresh"]].concat();
    let child = user.command(&fresh).spawn().unwrap();
    wait_for("a block of the second group", || has_begun(&user, 3));
    let output = interrupt(child);
    assert_eq!(output.status.code(), Some(130), "{}", text(&output));
    let plan = user.run(&["plan", "--fresh", "manifest.yaml", "--store", "store"]);
    assert_says(&plan, "1 cached;");
    assert_says(&plan, "  open ");
    let again = user.run(&fresh);
    assert!(again.status.success(), "{}", text(&again));
    assert_says(&again, "going on after");
    assert_eq!(sealed(&names(user.path("store/heats"))), 5);
    // What was measured beside the old answers from now on.
    let cached = user.json(&BENCH);
    assert_eq!(
        (&cached["measured_heats"], &cached["cached_heats"]),
        (&0.into(), &3.into())
    );
}

#[test]
fn an_interrupted_run_is_shown_where_there_is_no_other() {
    let user = User::new();
    user.manifest(&SMALL.replace("round: 5ms", "round: 400ms"));
    let child = user.command(&BENCH).spawn().unwrap();
    wait_for("a block of the second group", || has_begun(&user, 1));
    let output = interrupt(child);
    assert_eq!(output.status.code(), Some(130), "{}", text(&output));
    let report = user.run(&["report", "--store", "store", "--out", "site"]);
    assert!(report.status.success(), "{}", text(&report));
    assert_says(&report, "was interrupted: 1 of 2 groups are measured");
    let aggregate = user.run(&["aggregate", "--store", "store"]);
    assert_says(&aggregate, "1 of 2 groups measured, 1 not reached");
}

#[test]
fn a_run_that_could_not_be_kept_has_no_name() {
    let user = User::small();
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
    assert_says(&human, "not kept as a run");
    assert_says(&human, "is being written by");
}

/// Whether the process has a handler for Ctrl-C.
fn heeds(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    caught.is_some_and(|mask| u64::from_str_radix(mask.trim(), 16).unwrap_or(0) & 0b10 != 0)
}

#[test]
fn whatever_is_interrupted_leaves_nothing_temporary() {
    let user = User::small();
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

/// A check keeps nothing, and does not promise to.
#[test]
fn an_interrupted_check_says_that_it_starts_anew() {
    let user = User::new();
    let child = user
        .command(&["engines", "check", "other/steady"])
        .spawn()
        .unwrap();
    wait_for("a handler", || heeds(child.id()));
    let output = interrupt(child);
    assert_eq!(output.status.code(), Some(130), "{}", text(&output));
    assert_says(&output, "the same command starts anew");
}
