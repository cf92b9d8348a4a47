//! What a supervisor that was killed has left behind is ended by the next one.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::process::{Child, Command, Stdio};

use support::{command, within};
use worker::host::{Host, Interrupt, Limits};

/// A process that bears the mark of a launch.
fn marked(supervisor: u32) -> Child {
    Command::new(command(&[]).program)
        .arg("--linger")
        .env("PHOTOFINISH_LAUNCH", format!("{supervisor}-0-0"))
        .stdin(Stdio::null())
        .spawn()
        .unwrap()
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

    assert!(!abandoned.wait().unwrap().success());
    assert!(other.try_wait().unwrap().is_none());
    other.kill().unwrap();
    other.wait().unwrap();
}
