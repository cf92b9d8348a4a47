//! Every misbehaviour ends as its typed outcome, and no process is left of it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use schema::{
    Outcome, OutcomeKind,
    protocol::{Measure, Request, VERSION, WarmUp},
};
use support::{command, hello, load, within};
use worker::host::{Ended, Host, Interrupt, Limits};

const MEASURE: Request = Request::Measure(Measure {
    discard: 0,
    min_steps: 5,
    min_ns: 0,
    max_steps: 5,
});

/// How one launch went: what a request gave, and what was left.
struct Launch {
    error: Option<Outcome>,
    ended: Ended,
}

impl Launch {
    fn expect(&self, kind: OutcomeKind, reason: &str) {
        let error = self.error.as_ref().expect("the launch must fail");
        assert_eq!(error.kind, kind, "{}", error.reason);
        assert!(error.reason.contains(reason), "{}", error.reason);
        assert_eq!(self.ended.outcome.as_ref(), Some(error));
    }
}

/// Starts a worker, takes it as far as it goes with this patience for each message, and makes
/// sure that nothing is left of it.
fn launch(
    arguments: &[&str],
    variant: &str,
    limits: &Limits,
    patience: impl Fn(&str) -> Instant,
) -> Launch {
    let interrupt = Interrupt::new().unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let mut command = command(arguments);
    // Names this launch's processes to the search for what is left.
    let mark = format!("{}", scratch.path().display());
    command
        .env
        .insert("SYNTHETIC_TEST".to_owned(), mark.clone());
    let mut host = Host::start(&command, limits, &interrupt).unwrap();
    let result = host.hello(patience("hello")).and_then(|_| {
        let load = Request::Load(Box::new(load(variant, scratch.path())));
        host.request(&load, patience("load"))?;
        host.request(&MEASURE, patience("measure"))?;
        // What comes after the answer is found when the next question is asked.
        host.request(&Request::Memory, patience("memory"))
    });
    let ended = host.finish(patience("bye"));
    assert_eq!(left_of(&mark), Vec::<String>::new());
    Launch {
        error: result.err(),
        ended,
    }
}

/// Processes, zombies aside, that have this word in their environment.
fn left_of(mark: &str) -> Vec<String> {
    let holds = |folder: &Path| {
        fs::read(folder.join("environ")).is_ok_and(|bytes| {
            bytes
                .windows(mark.len())
                .any(|window| window == mark.as_bytes())
        })
    };
    fs::read_dir("/proc")
        .unwrap()
        .filter_map(Result::ok)
        .filter(|entry| holds(&entry.path()))
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

fn plain(variant: &str) -> Launch {
    launch(&[], variant, &Limits::default(), |_| within(60))
}

#[test]
fn a_steady_worker_leaves_in_peace() {
    let launch = plain("steady");
    assert_eq!(launch.error, None);
    assert_eq!(launch.ended.outcome, None);
    assert!(launch.ended.cpu_ns.unwrap() > 0);
    assert!(launch.ended.peak_resident_bytes.unwrap() > 1 << 20);
}

#[test]
fn chatter_goes_to_the_log() {
    let launch = plain("chatter");
    assert_eq!(launch.error, None);
    assert!(
        launch.ended.log.contains("chatter of a library at load"),
        "{}",
        launch.ended.log
    );
    assert!(
        launch.ended.log.contains("warning: step is verbose"),
        "{}",
        launch.ended.log
    );
}

#[test]
fn a_segmentation_fault_is_named() {
    plain("segfault").expect(
        OutcomeKind::Crashed,
        "killed by signal 11 (SIGSEGV) before it answered `measure`",
    );
}

#[test]
fn leaving_early_is_a_crash() {
    plain("exit_early").expect(
        OutcomeKind::Crashed,
        "left with exit status 0 before it answered `load`",
    );
    launch(
        &["--variant", "exit_at_start"],
        "steady",
        &Limits::default(),
        |_| within(60),
    )
    .expect(
        OutcomeKind::Crashed,
        "left with exit status 0 before it said `hello`",
    );
}

#[test]
fn garbage_is_shown() {
    let launch = plain("garbage");
    launch.expect(OutcomeKind::Crashed, "the worker spoke garbage");
    launch.expect(
        OutcomeKind::Crashed,
        "\"\\x00\\x7fELF\\xff\\xfe not a message",
    );
}

#[test]
fn a_flood_of_messages_is_stopped() {
    plain("flood").expect(
        OutcomeKind::Crashed,
        "answered `reset` instead of `measure`",
    );
}

#[test]
fn a_message_without_end_is_cut_off() {
    let launch = plain("huge_message");
    launch.expect(
        OutcomeKind::Crashed,
        "a message of more than 64 MiB: \"{\\\"failed\\\"",
    );
}

#[test]
fn a_flood_of_the_log_is_stopped() {
    let limits = Limits {
        log_bytes: 8 << 20,
        ..Limits::default()
    };
    let launch = launch(&[], "flood_stderr", &limits, |_| within(60));
    launch.expect(OutcomeKind::Crashed, "flooded its log with more than 8 MiB");
    assert!(launch.ended.log.len() <= 16 << 10);
    assert!(
        launch.ended.log.contains("makes a dull log"),
        "{}",
        launch.ended.log
    );
}

#[test]
fn a_flood_of_the_log_below_the_limit_is_only_slow() {
    let interrupt = Interrupt::new().unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let mut host = Host::start(&command(&[]), &Limits::default(), &interrupt).unwrap();
    host.hello(within(60)).unwrap();
    let request = Request::Load(Box::new(load("chatter", scratch.path())));
    host.request(&request, within(60)).unwrap();
    // More than a pipe holds.
    let steps = Measure {
        discard: 0,
        min_steps: 30_000,
        min_ns: 0,
        max_steps: 30_000,
    };
    host.request(&Request::Measure(steps), within(60)).unwrap();
    let ended = host.finish(within(60));
    assert_eq!(ended.outcome, None);
    assert_eq!(ended.log.len(), 16 << 10);
}

#[test]
fn another_version_is_told_apart() {
    launch(
        &["--variant", "wrong_version"],
        "steady",
        &Limits::default(),
        |_| within(60),
    )
    .expect(
        OutcomeKind::Crashed,
        &format!(
            "speaks protocol {}, this photofinish speaks {VERSION}: reinstall the engine",
            VERSION + 1
        ),
    );
}

#[test]
fn silence_is_timed_out() {
    for (arguments, variant, phase, doing) in [
        (
            &["--variant", "mute"][..],
            "steady",
            "hello",
            "before it said `hello`",
        ),
        (&[], "hang_at_load", "load", "before it answered `load`"),
        (
            &[],
            "hang_at_measure",
            "measure",
            "before it answered `measure`",
        ),
        (&[], "stubborn", "measure", "before it answered `measure`"),
    ] {
        let patience = |now: &str| within(if now == phase { 1 } else { 60 });
        let launch = launch(arguments, variant, &Limits::default(), patience);
        launch.expect(OutcomeKind::TimedOut, doing);
    }
}

#[test]
fn a_slow_start_is_not_a_failure() {
    let launch = launch(
        &["--variant", "slow_start"],
        "slow_start",
        &Limits::default(),
        |_| within(60),
    );
    assert_eq!(launch.error, None);
}

#[test]
fn a_worker_that_stays_after_bye_is_killed() {
    let patience = |now: &str| within(if now == "bye" { 2 } else { 60 });
    let launch = launch(
        &["--variant", "ignores_bye"],
        "steady",
        &Limits::default(),
        patience,
    );
    assert_eq!(launch.error, None);
    let outcome = launch.ended.outcome.unwrap();
    assert_eq!(outcome.kind, OutcomeKind::TimedOut);
    assert!(
        outcome
            .reason
            .contains("did not leave when it was asked to"),
        "{}",
        outcome.reason
    );
}

#[test]
fn a_panic_is_a_failure_that_the_worker_survives() {
    let launch = plain("panics");
    let error = launch.error.unwrap();
    assert_eq!(error.kind, OutcomeKind::Crashed);
    assert_eq!(error.reason, "the engine panicked: as it was told to");
    assert_eq!(launch.ended.outcome, None);
    assert!(
        launch.ended.log.contains("panicked at"),
        "{}",
        launch.ended.log
    );
}

#[test]
fn failures_that_the_engine_reports_keep_their_kind() {
    for (variant, kind) in [
        ("out_of_memory", OutcomeKind::OutOfMemory),
        ("unsupported", OutcomeKind::Unsupported),
    ] {
        let launch = plain(variant);
        assert_eq!(launch.error.unwrap().kind, kind);
        assert_eq!(launch.ended.outcome, None);
    }
}

#[test]
fn memory_is_limited() {
    for (variant, cgroup) in [
        ("memory_eater", true),
        ("memory_eater", false),
        ("memory_eater_child", true),
        ("memory_eater_child", false),
        ("loses_child", true),
        ("loses_child", false),
    ] {
        let limits = Limits {
            memory_bytes: Some(200 << 20),
            cgroup,
            ..Limits::default()
        };
        let launch = launch(&[], variant, &limits, |_| within(60));
        launch.expect(OutcomeKind::OutOfMemory, "its limit of 200 MiB");
    }
}

/// Whoever looks now and then may see nothing of it, but the kernel has.
#[test]
fn a_peak_behind_the_last_answer_counts() {
    for cgroup in [true, false] {
        let limits = Limits {
            memory_bytes: Some(200 << 20),
            cgroup,
            ..Limits::default()
        };
        let launch = launch(&[], "memory_gulper", &limits, |_| within(60));
        assert_eq!(launch.error, None);
        let outcome = launch.ended.outcome.unwrap();
        assert_eq!(outcome.kind, OutcomeKind::OutOfMemory, "{outcome:?}");
        assert!(
            outcome.reason.contains("its limit of 200 MiB"),
            "{outcome:?}"
        );
    }
    let unlimited = plain("memory_gulper");
    assert_eq!((unlimited.error, unlimited.ended.outcome), (None, None));
}

#[test]
fn what_a_worker_leaves_behind_is_found() {
    let launch = plain("fork_bomb_lite");
    assert_eq!(launch.error, None);
    assert_eq!(launch.ended.outcome, None);
}

#[test]
fn dropping_a_host_leaves_nothing() {
    let interrupt = Interrupt::new().unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let mark = format!("{}", scratch.path().display());
    let mut command = command(&[]);
    command
        .env
        .insert("SYNTHETIC_TEST".to_owned(), mark.clone());
    let mut host = Host::start(&command, &Limits::default(), &interrupt).unwrap();
    host.hello(within(60)).unwrap();
    let request = Request::Load(Box::new(load("fork_bomb_lite", scratch.path())));
    host.request(&request, within(60)).unwrap();
    // On a busy machine the last of them takes its time to be there.
    let deadline = within(60);
    while left_of(&mark).len() < 3 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(left_of(&mark).len(), 3);
    host.pause().unwrap();
    drop(host);
    assert_eq!(left_of(&mark), Vec::<String>::new());
}

#[test]
fn a_program_that_is_not_there_is_unavailable() {
    let mut command = command(&[]);
    command.program = "/nonexistent/worker".into();
    let interrupt = Interrupt::new().unwrap();
    let outcome = Host::start(&command, &Limits::default(), &interrupt).unwrap_err();
    assert_eq!(outcome.kind, OutcomeKind::Unavailable);
    assert!(
        outcome.reason.contains("cannot start /nonexistent/worker"),
        "{}",
        outcome.reason
    );
}

#[test]
fn a_worker_that_does_not_read_is_timed_out() {
    let mut command = command(&[]);
    command.program = "/bin/sh".into();
    let hello = hello();
    command.args = vec!["-c".to_owned(), format!("echo '{hello}'; exec sleep 60")];
    let interrupt = Interrupt::new().unwrap();
    let mut host = Host::start(&command, &Limits::default(), &interrupt).unwrap();
    assert_eq!(host.hello(within(60)).unwrap().engine, "synthetic");
    let scratch = tempfile::tempdir().unwrap();
    let mut large = load("steady", scratch.path());
    large.graph.name = "x".repeat(1 << 20);
    let outcome = host
        .request(&Request::Load(Box::new(large)), within(1))
        .unwrap_err();
    assert_eq!(outcome.kind, OutcomeKind::TimedOut);
    assert!(
        outcome.reason.contains("before it read `load`"),
        "{}",
        outcome.reason
    );
    assert!(!host.is_alive());
}

#[test]
fn warming_up_ends_when_the_time_is_steady() {
    let interrupt = Interrupt::new().unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let mut host = Host::start(&command(&[]), &Limits::default(), &interrupt).unwrap();
    host.hello(within(60)).unwrap();
    host.request(
        &Request::Load(Box::new(load("steady", scratch.path()))),
        within(60),
    )
    .unwrap();
    let limits = WarmUp {
        min_steps: 20,
        max_ns: 30_000_000_000,
        tolerance: 0.5,
    };
    let reply = host.request(&Request::WarmUp(limits), within(60)).unwrap();
    let schema::protocol::Reply::WarmUp(done) = reply else {
        panic!("{reply:?}")
    };
    assert!(done.steady && done.steps >= 20, "{done:?}");
}
