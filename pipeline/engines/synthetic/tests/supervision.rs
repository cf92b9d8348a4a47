//! Pausing, interrupting, cancelling, and what becomes of a worker without its supervisor.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    os::unix::process::ExitStatusExt,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use schema::{
    OutcomeKind,
    protocol::{CONTROL_VARIABLE, Measure, Reply, Request, Samples, VERSION},
};
use support::{command, hello, load, within};
use worker::{
    WorkerCommand,
    host::{Host, Interrupt, Limits, Transport},
};

const FOREVER: Request = Request::Measure(Measure {
    discard: 0,
    min_steps: 0,
    min_ns: u64::MAX,
    max_steps: u64::MAX,
});
const FEW: Request = Request::Measure(Measure {
    discard: 0,
    min_steps: 5,
    min_ns: 0,
    max_steps: 5,
});

fn ready(interrupt: &Interrupt) -> Host {
    let scratch = tempfile::tempdir().unwrap();
    let mut host = Host::start(&command(&[]), &Limits::default(), interrupt).unwrap();
    host.hello(within(60)).unwrap();
    let request = Request::Load(Box::new(load("steady", scratch.path())));
    host.request(&request, within(60)).unwrap();
    host
}

/// The kernel's letter for what a process does.
fn state(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

#[test]
fn a_paused_worker_stands_still_until_it_is_resumed() {
    let mut host = ready(&Interrupt::new().unwrap());
    for _ in 0..3 {
        host.pause().unwrap();
        assert_eq!(state(host.pid()), Some('T'));
        host.resume().unwrap();
        assert_ne!(state(host.pid()), Some('T'));
        assert!(host.request(&FEW, within(60)).is_ok());
    }
    host.pause().unwrap();
    host.pause().unwrap();
    let ended = host.finish(within(60));
    assert_eq!(ended.outcome, None, "finishing lets it go on first");
}

/// All that a worker started stands still with it, wherever it went.
#[test]
fn what_left_the_group_is_paused_too() {
    type Case = (&'static str, fn(&mut WorkerCommand), usize);
    let interrupt = Interrupt::new().unwrap();
    let plain = |_: &mut WorkerCommand| ();
    let wrapped = |command: &mut WorkerCommand| {
        let program = std::mem::replace(&mut command.program, "setsid".into());
        command.args = vec!["--wait".to_owned(), program.display().to_string()];
    };
    let cases: [Case; 3] = [
        ("fork_bomb_lite", plain, 3),
        ("leaves_group", plain, 2),
        ("steady", wrapped, 2),
    ];
    for (variant, change, count) in cases {
        let scratch = tempfile::tempdir().unwrap();
        let mark = scratch.path().display().to_string();
        let mut command = command(&[]);
        command
            .env
            .insert("SYNTHETIC_TEST".to_owned(), mark.clone());
        change(&mut command);
        let mut host = Host::start(&command, &Limits::default(), &interrupt).unwrap();
        host.hello(within(60)).unwrap();
        let request = Request::Load(Box::new(load(variant, scratch.path())));
        host.request(&request, within(60)).unwrap();
        for _ in 0..3 {
            host.pause().unwrap();
            let states = states_of(&mark);
            assert_eq!(states, vec!['T'; count], "{variant}");
            host.resume().unwrap();
            assert!(host.request(&FEW, within(60)).is_ok(), "{variant}");
        }
        assert!(!states_of(&mark).contains(&'T'), "{variant}");
        assert_eq!(host.finish(within(60)).outcome, None, "{variant}");
    }
}

/// What the processes do that have this word in their environment.
fn states_of(mark: &str) -> Vec<char> {
    fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            String::from_utf8_lossy(&environment).contains(mark)
        })
        .filter_map(state)
        .collect()
}

#[test]
fn an_interrupt_ends_the_wait_and_leaves_the_worker_to_the_caller() {
    let interrupt = Interrupt::new().unwrap();
    let mut host = ready(&interrupt);
    let trigger = interrupt.clone();
    let other = thread::spawn(move || {
        thread::sleep(Duration::from_millis(100));
        trigger.trigger();
    });
    let outcome = host.request(&FOREVER, within(600)).unwrap_err();
    other.join().unwrap();
    assert_eq!(outcome.kind, OutcomeKind::NotReached);
    assert_eq!(outcome.reason, "interrupted before it answered `measure`");
    assert!(host.is_alive());
    assert_eq!(
        host.request(&FEW, within(60)).unwrap_err().kind,
        OutcomeKind::NotReached
    );
    let pid = host.pid();
    assert_eq!(host.kill().outcome, None);
    assert_eq!(state(pid), None);

    let late = Host::start(&command(&[]), &Limits::default(), &interrupt).unwrap_err();
    assert_eq!(late.kind, OutcomeKind::NotReached);
}

#[test]
fn a_worker_in_good_order_finishes_in_spite_of_an_interrupt() {
    let interrupt = Interrupt::new().unwrap();
    let host = ready(&interrupt);
    interrupt.trigger();
    assert_eq!(host.finish(within(60)).outcome, None);
}

#[test]
fn a_cancelled_measurement_gives_what_it_has() {
    let mut host = ready(&Interrupt::new().unwrap());
    host.begin(&FOREVER, within(60)).unwrap();
    thread::sleep(Duration::from_millis(50));
    host.cancel(within(60)).unwrap();
    let reply = host.reply(within(60)).unwrap();
    let Reply::Measure(Samples {
        samples_ns,
        cancelled,
    }) = reply
    else {
        panic!("{reply:?}")
    };
    assert!(cancelled && !samples_ns.is_empty());
    let Reply::Measure(samples) = host.request(&FEW, within(60)).unwrap() else {
        panic!()
    };
    assert!(!samples.cancelled);
}

#[test]
fn a_dead_worker_says_the_same_each_time() {
    let mut host = ready(&Interrupt::new().unwrap());
    let outcome = host.request(&FOREVER, Instant::now()).unwrap_err();
    assert_eq!(outcome.kind, OutcomeKind::TimedOut);
    assert_eq!(host.request(&FEW, within(60)), Err(outcome.clone()));
    assert_eq!(host.pause(), Err(outcome.clone()));
    assert_eq!(host.resume(), Err(outcome.clone()));
    assert_eq!(host.finish(within(60)).outcome, Some(outcome));
}

#[test]
fn a_worker_speaks_over_a_socket() {
    let scratch = tempfile::tempdir().unwrap();
    let interrupt = Interrupt::new().unwrap();
    let start = |arguments: &[&str]| {
        Host::start_over(
            Transport::Socket,
            &command(arguments),
            &Limits::default(),
            &interrupt,
        )
    };
    let mut host = start(&[]).unwrap();
    host.hello(within(60)).unwrap();
    host.request(
        &Request::Load(Box::new(load("chatter", scratch.path()))),
        within(60),
    )
    .unwrap();
    assert!(host.request(&FEW, within(60)).is_ok());
    let ended = host.finish(within(60));
    assert_eq!(ended.outcome, None);
    assert!(ended.log.contains("chatter of a library"));

    // One that never connects.
    let outcome = start(&["--variant", "mute"])
        .unwrap()
        .hello(within(1))
        .unwrap_err();
    assert_eq!(outcome.kind, OutcomeKind::TimedOut);
    let outcome = start(&["--variant", "exit_at_start"])
        .unwrap()
        .hello(within(60))
        .unwrap_err();
    assert_eq!(outcome.kind, OutcomeKind::Crashed);
}

#[test]
fn a_worker_speaks_over_a_loopback_address() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("tcp:{}", listener.local_addr().unwrap());
    let mut child = Command::new(command(&[]).program)
        .env(CONTROL_VARIABLE, address)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let (mut socket, _) = listener.accept().unwrap();
    let mut lines = BufReader::new(socket.try_clone().unwrap()).lines();
    let opening = format!("{{\"hello\":{{\"protocol\":{VERSION},");
    assert!(lines.next().unwrap().unwrap().starts_with(&opening));
    socket.write_all(b"\"bye\"\n").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "\"bye\"");
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_worker_that_cannot_reach_its_supervisor_says_so() {
    for address in [
        "unix:/nonexistent/socket",
        "tcp:192.0.2.1:4711",
        "carrier pigeon",
    ] {
        let output = Command::new(command(&[]).program)
            .env(CONTROL_VARIABLE, address)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2));
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(
            text.contains(&format!("{CONTROL_VARIABLE}={address}")),
            "{text}"
        );
        assert!(output.stdout.is_empty());
    }
}

/// A supervisor that is killed takes its worker with it: the kernel sees to that.
#[test]
fn a_worker_does_not_outlive_its_supervisor() {
    let mut supervisor = Command::new(command(&[]).program)
        .arg("--bench-harness")
        .spawn()
        .unwrap();
    let supervisor_pid = supervisor.id();
    let child_of = |pid: u32| -> Option<u32> {
        let path = format!("/proc/{pid}/task/{pid}/children");
        fs::read_to_string(path)
            .ok()?
            .split_whitespace()
            .next()?
            .parse()
            .ok()
    };
    let child = loop {
        assert!(
            supervisor.try_wait().unwrap().is_none(),
            "it ended before it had a worker"
        );
        match child_of(supervisor_pid) {
            Some(child) => break child,
            None => thread::sleep(Duration::from_millis(1)),
        }
    };
    supervisor.kill().unwrap();
    assert_eq!(supervisor.wait().unwrap().signal(), Some(9));
    let deadline = within(60);
    while state(child).is_some_and(|state| state != 'Z') {
        assert!(Instant::now() < deadline, "the worker lives on");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn two_replies_to_one_request_are_one_too_many() {
    let hello = hello();
    // The second comes with the first, or a moment later.
    for pause in ["", "sleep 0.3;"] {
        let mut command = command(&[]);
        command.program = "/bin/sh".into();
        let answer = r#"read -r line; printf '"reset"\n'; printf '"reset"\n'; sleep 60"#;
        let answer = answer.replacen("; printf", &format!("; {pause} printf"), 2);
        command.args = vec!["-c".to_owned(), format!("echo '{hello}'; {answer}")];
        let interrupt = Interrupt::new().unwrap();
        let mut host = Host::start(&command, &Limits::default(), &interrupt).unwrap();
        host.hello(within(60)).unwrap();
        let outcome = host
            .request(&Request::Reset, within(60))
            .and_then(|_| {
                thread::sleep(Duration::from_millis(600));
                host.request(&Request::Reset, within(60))
            })
            .unwrap_err();
        assert_eq!(outcome.kind, OutcomeKind::Crashed);
        assert!(
            outcome.reason.contains("without being asked: \"\\\"reset"),
            "{}",
            outcome.reason
        );
    }
}
