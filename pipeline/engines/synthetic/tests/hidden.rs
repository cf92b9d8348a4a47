//! Processes that leave their worker, its group, its session and its environment behind.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::{
    fs,
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use schema::{
    OutcomeKind,
    protocol::{Measure, Request},
};
use support::{command, load, within};
use worker::host::{Host, Interrupt, Limits};

const FEW: Request = Request::Measure(Measure {
    discard: 0,
    min_steps: 5,
    min_ns: 0,
    max_steps: 5,
});

/// One worker goes on at a time, as in a run: what hides belongs to the one that was running.
fn one_at_a_time() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn limits(memory_bytes: u64) -> Limits {
    Limits {
        memory_bytes: Some(memory_bytes),
        cgroup: false,
        ..Limits::default()
    }
}

/// The processes, dead ones included, that were started with this word among their arguments, or
/// that are children of this one.
fn left_of(word: &str) -> Vec<String> {
    let mine = format!(") Z {} ", std::process::id());
    fs::read_dir("/proc")
        .unwrap()
        .filter_map(Result::ok)
        .filter(|entry| {
            let read = |file| fs::read_to_string(entry.path().join(file)).unwrap_or_default();
            read("cmdline").contains(word) || read("stat").contains(&mine)
        })
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

/// Waits until a process that hides does so.
fn wait_for(word: &str) {
    let deadline = within(60);
    while left_of(word).is_empty() {
        assert!(Instant::now() < deadline, "nothing hid");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_hides_is_found_and_reaped() {
    let _turn = one_at_a_time();
    let scratch = tempfile::tempdir().unwrap();
    let word = scratch.path().display().to_string();
    let mut host =
        Host::start(&command(&[]), &limits(1 << 30), &Interrupt::new().unwrap()).unwrap();
    host.hello(within(60)).unwrap();
    let request = Request::Load(Box::new(load("hidden_child", scratch.path())));
    host.request(&request, within(60)).unwrap();
    wait_for(&word);
    host.request(&FEW, within(60)).unwrap();
    assert_eq!(host.finish(within(60)).outcome, None);
    assert_eq!(left_of(&word), Vec::<String>::new());
}

#[test]
fn what_hides_counts_against_the_limit() {
    let _turn = one_at_a_time();
    let scratch = tempfile::tempdir().unwrap();
    let word = scratch.path().display().to_string();
    let mut host = Host::start(
        &command(&[]),
        &limits(200 << 20),
        &Interrupt::new().unwrap(),
    )
    .unwrap();
    host.hello(within(60)).unwrap();
    let request = Request::Load(Box::new(load("hidden_memory_eater", scratch.path())));
    let outcome = host.request(&request, within(60)).unwrap_err();
    assert_eq!(outcome.kind, OutcomeKind::OutOfMemory, "{}", outcome.reason);
    drop(host);
    assert_eq!(left_of(&word), Vec::<String>::new());
}

/// What one worker hid before it was paused is not the next one's.
#[test]
fn what_hides_is_not_taken_for_another_workers() {
    let _turn = one_at_a_time();
    let interrupt = Interrupt::new().unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let word = scratch.path().display().to_string();
    let start = |variant: &str| {
        let mut host = Host::start(&command(&[]), &limits(1 << 30), &interrupt).unwrap();
        host.hello(within(60)).unwrap();
        let request = Request::Load(Box::new(load(variant, scratch.path())));
        host.request(&request, within(60)).unwrap();
        host
    };
    let mut hider = start("hidden_child");
    wait_for(&word);
    hider.pause().unwrap();
    for pid in left_of(&word) {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        assert!(stat.contains(") T "), "what hides stands still too: {stat}");
    }
    let other = start("steady");
    assert_eq!(other.finish(within(60)).outcome, None);
    assert_eq!(left_of(&word).len(), 1, "it is still the first worker's");
    drop(hider);
    assert_eq!(left_of(&word), Vec::<String>::new());
}
