//! What a supervisor that was killed has left behind is ended by the next one.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::{
    fs,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use support::{command, within};
use worker::host::{Host, Interrupt, Limits};

const MARK: &str = "PHOTOFINISH_LAUNCH";

/// A process that bears the mark of a launch, and whose mark can be read: whoever started it may look
/// before the kernel has put its environment in place.
fn marked(supervisor: u32) -> Child {
    let mut child = Command::new(command(&[]).program)
        .arg("--linger")
        .env(MARK, format!("{supervisor}-0-0"))
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let environment = format!("/proc/{}/environ", child.id());
    eventually(|| {
        assert_eq!(child.try_wait().unwrap(), None, "it has ended already");
        let found = fs::read(&environment).unwrap();
        found
            .windows(MARK.len())
            .any(|name| name == MARK.as_bytes())
    });
    child
}

/// Waits until something holds, a minute at most.
fn eventually(mut holds: impl FnMut() -> bool) {
    let deadline = within(60);
    while !holds() {
        assert!(Instant::now() < deadline, "it does not come to pass");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_a_killed_supervisor_left_behind_is_ended_and_nothing_else() {
    let mut supervisor = Command::new("true").spawn().unwrap();
    let number = supervisor.id();
    supervisor.wait().unwrap();
    let mut abandoned = marked(number);
    let mut other = marked(std::process::id());

    let mut host = Host::start(
        &command(&[]),
        &Limits::default(),
        &Interrupt::new().unwrap(),
    )
    .unwrap();
    host.hello(within(60)).unwrap();
    assert_eq!(host.finish(within(60)).outcome, None);

    eventually(|| {
        abandoned
            .try_wait()
            .unwrap()
            .is_some_and(|status| !status.success())
    });
    assert!(other.try_wait().unwrap().is_none());
    other.kill().unwrap();
    other.wait().unwrap();
}
