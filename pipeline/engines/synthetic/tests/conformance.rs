//! The conformance suite passes a proper worker, and says of others what is wrong.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::{collections::BTreeMap, thread, time::Duration};

use schema::{Boundary, EngineDescription, Mode, Strategy, protocol::VERSION};
use support::{command, description, graph, hello};
use worker::{
    WorkerCommand,
    conformance::{self, CheckResult, ConformanceReport, Subject},
    host::{Interrupt, Limits},
};

fn examine(command: &WorkerCommand, variant: &str, patience: Duration) -> ConformanceReport {
    let mut engine = description(variant);
    if variant == "only_trains" {
        engine = description("steady");
        engine.variants[0].modes = vec![Mode::Training];
    }
    examine_as(&engine, command, patience)
}

/// The same of a variant that says that it is timed by a GPU's own clock.
fn examine_by_device(variant: &str) -> ConformanceReport {
    let mut engine = description(variant);
    engine.variants[0].devices.push("cuda".to_owned());
    engine.variants[0].boundaries.push(Boundary::Device);
    examine_as(&engine, &command(&[]), PATIENT)
}

fn examine_as(
    engine: &EngineDescription,
    command: &WorkerCommand,
    patience: Duration,
) -> ConformanceReport {
    let interrupt = Interrupt::new().unwrap();
    let subject = Subject {
        command,
        engine,
        variant: &engine.variants[0].name,
        graph: &graph(),
        dims: &BTreeMap::from([("batch".to_owned(), 2)]),
        takes_onnx: false,
        limits: &Limits {
            log_bytes: 1 << 20,
            ..Limits::default()
        },
        patience,
        interrupt: &interrupt,
    };
    let mut observed = Vec::new();
    let report = conformance::check(&subject, &interrupt, |check| observed.push(check.clone()));
    assert_eq!(observed, report.checks);
    report
}

const PATIENT: Duration = Duration::from_secs(60);

/// Names of the checks that failed, with what was found.
fn failures(report: &ConformanceReport) -> BTreeMap<&'static str, &str> {
    report
        .checks
        .iter()
        .filter_map(|check| match &check.result {
            CheckResult::Failed(reason) => Some((check.name, reason.as_str())),
            _ => None,
        })
        .collect()
}

/// What was not examined, because the variant cannot do it: none is timed from request to reply, or by events of a
/// device, or is several ranks.
fn skipped(report: &ConformanceReport) -> Vec<&'static str> {
    report
        .checks
        .iter()
        .filter(|check| matches!(check.result, CheckResult::Skipped(_)))
        .map(|check| check.name)
        .collect()
}

#[test]
fn proper_workers_pass() {
    for variant in ["steady", "works", "noop", "chatter", "leaves_group"] {
        let report = examine(&command(&[]), variant, PATIENT);
        assert_eq!(failures(&report), BTreeMap::new(), "{variant}");
        assert!(report.passed());
        let others = ["request", "device", "ranks"];
        assert_eq!(skipped(&report), others, "{variant}");
    }
}

#[test]
fn what_the_variant_cannot_do_is_skipped() {
    let report = examine(&command(&[]), "only_trains", PATIENT);
    assert!(report.passed());
    assert_eq!(skipped(&report), ["outputs", "request", "device", "ranks"]);
}

#[test]
fn a_devices_own_time_is_held_against_the_hosts() {
    let report = examine_by_device("by_device");
    assert_eq!(failures(&report), BTreeMap::new());
    assert_eq!(skipped(&report), ["request", "ranks"]);
    for (variant, reason) in [
        ("wrong_unit", "ns by the clock of the device, and"),
        ("steady", "it times steps on the CPU"),
    ] {
        let report = examine_by_device(variant);
        let failures = failures(&report);
        assert_eq!(failures.len(), 1, "{variant}: {failures:?}");
        assert!(failures["device"].contains(reason), "{failures:?}");
    }
}

#[test]
fn one_process_is_not_taken_for_several_ranks() {
    let mut engine = description("steady");
    engine.variants[0].strategies = vec![Strategy::Single, Strategy::Ddp];
    let report = examine_as(&engine, &command(&[]), PATIENT);
    assert_eq!(skipped(&report), ["request", "device"]);
    let failures = failures(&report);
    assert_eq!(failures.len(), 1, "{failures:?}");
    let found = failures["ranks"];
    assert!(found.contains("runs a cell in one process"), "{found}");
}

#[test]
fn failures_are_named() {
    for (variant, check, reason) in [
        ("nan_output", "outputs", "not a finite number"),
        ("nan_output", "training", "not a finite number"),
        ("segfault", "measure_count", "SIGSEGV"),
        ("segfault", "silence", "SIGSEGV"),
        ("exit_early", "load", "exit status 0"),
        ("panics", "warm_up", "panicked"),
        ("unsupported", "load", "operator Conv is not supported"),
        ("huge_message", "measure_most", "more than 64 MiB"),
        ("garbage", "measure_count", "garbage"),
        ("leaves_when_resumed", "pause", "exit status 5"),
        ("strange_profile", "profile", "the graph has no such node"),
        ("long_profile", "profile", "ns together, in steps of"),
    ] {
        let report = examine(&command(&[]), variant, PATIENT);
        let failures = failures(&report);
        let found = failures
            .get(check)
            .unwrap_or_else(|| panic!("{variant}: {failures:?}"));
        assert!(found.contains(reason), "{variant}: {found}");
        assert!(!report.passed());
    }
}

#[test]
fn nothing_is_tried_without_a_handshake() {
    let next_version = format!("speaks protocol {}", VERSION + 1);
    let report = examine(&command(&["--variant", "wrong_version"]), "steady", PATIENT);
    assert!(failures(&report)["handshake"].contains(&next_version));
    let rest = &report.checks[1..];
    assert!(
        rest.iter()
            .all(|check| matches!(check.result, CheckResult::Skipped(_)))
    );

    let report = examine(&command(&["--engine", "other"]), "steady", PATIENT);
    assert!(failures(&report)["handshake"].contains("calls itself `other`"));
}

#[test]
fn leaving_is_demanded() {
    let patience = Duration::from_secs(6);
    let report = examine(&command(&["--variant", "ignores_bye"]), "steady", patience);
    assert!(
        failures(&report)["bye"].contains("did not leave"),
        "{report:?}"
    );
    // Closing the stream ends it all the same.
    assert!(!failures(&report).contains_key("early_close"), "{report:?}");
}

/// A worker that is a script, so that it can be wrong in ways that the shared loop prevents.
fn script(body: &str) -> WorkerCommand {
    let hello = hello();
    WorkerCommand {
        program: "/bin/sh".into(),
        args: vec!["-c".to_owned(), format!("echo '{hello}'; {body}")],
        env: BTreeMap::new(),
    }
}

#[test]
fn workers_that_do_not_use_the_shared_loop_are_seen_through() {
    // Answers everything with one and the same word.
    let parrot = script(r#"while read -r line; do echo '"reset"'; done"#);
    let report = examine(&parrot, "steady", PATIENT);
    let found = failures(&report);
    assert!(
        found["load"].contains("`reset` instead of `load`"),
        "{found:?}"
    );
    assert!(
        found["garbage"].contains("`reset` instead of `nonsense`"),
        "{found:?}"
    );
    assert!(
        found["order"].contains("`reset` instead of `measure`"),
        "{found:?}"
    );
    assert!(
        found["socket"].contains("before it said `hello`"),
        "{found:?}"
    );

    // Knows nothing, and says so by leaving: not conformant, but it refuses nonsense properly.
    let quitter = script("read -r line; exit 3");
    let report = examine(&quitter, "steady", PATIENT);
    let found = failures(&report);
    assert!(found["bye"].contains("exit status 3"), "{found:?}");
    assert!(!found.contains_key("garbage"), "{found:?}");
    // What it would do once something is loaded cannot be seen.
    assert!(
        found["unknown_message"].contains("exit status 3"),
        "{found:?}"
    );
}

/// A worker in another language that is right in all but one respect.
fn almost(fault: &str) -> WorkerCommand {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/almost.py");
    WorkerCommand {
        program: "python3".into(),
        args: vec![script.to_owned(), VERSION.to_string(), fault.to_owned()],
        env: BTreeMap::new(),
    }
}

#[test]
fn a_single_fault_is_found_by_the_check_that_is_about_it() {
    let faults: [(&str, &[(&str, &str)]); 7] = [
        ("none", &[]),
        (
            "shape",
            &[("outputs", "`y` is of shape [1], and the graph's is [2, 3]")],
        ),
        (
            "long_warm_up",
            &[("warm_up", "10 steps and 0.2 s were to be enough")],
        ),
        (
            "no_discard",
            &[("measure_discard", "that it was to discard")],
        ),
        ("kibibytes", &[("memory", "where the kernel sees")]),
        (
            "any_load",
            &[("unknown_message", "a `load` with an unknown field")],
        ),
        (
            "any_field",
            &[("unknown_message", "a `warm_up` with an unknown field")],
        ),
    ];
    thread::scope(|scope| {
        for (fault, expected) in faults {
            scope.spawn(move || {
                let report = examine(&almost(fault), "steady", PATIENT);
                let found = failures(&report);
                assert_eq!(found.len(), expected.len(), "{fault}: {found:?}");
                for (check, reason) in expected {
                    assert!(found[check].contains(reason), "{fault}: {found:?}");
                }
            });
        }
    });
}
