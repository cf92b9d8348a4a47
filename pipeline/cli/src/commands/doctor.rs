//! `photofinish doctor`: what this machine can measure, and what makes it noisy.

use std::fmt::Write as _;

use indicatif::HumanBytes;
use schema::Environment;
use serde::Serialize;

use crate::{
    commands::engines::{EngineRow, rows},
    failure::Failure,
    session::Session,
};

/// What doctor found.
#[derive(Debug, Serialize)]
struct Diagnosis {
    environment: Environment,
    engines: Vec<EngineRow>,
    findings: Vec<Finding>,
}

/// Something that makes this machine noisy, or keeps it from measuring.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Finding {
    what: String,
    advice: String,
}

/// Prints the diagnosis.
pub(crate) fn doctor(session: &Session) -> Result<(), Failure> {
    let environment = telemetry::environment();
    let mut findings = findings(&environment);
    // Whoever asks what is wrong is to learn that the configuration is, and the rest as well.
    let engines = match session.catalog() {
        Ok(catalog) => rows(catalog),
        Err(failure) => {
            findings.push(Finding {
                what: format!("engines are not known: {}", failure.message()),
                advice: "nothing can be planned or measured before that is mended".to_owned(),
            });
            Vec::new()
        }
    };
    let diagnosis = Diagnosis {
        environment,
        engines,
        findings,
    };
    session.printer.human(&text(&diagnosis));
    session.printer.json(&diagnosis)
}

/// What is known to disturb measurements, as the environment shows it.
fn findings(environment: &Environment) -> Vec<Finding> {
    let machine = &environment.fingerprint;
    let busy = environment.load.load_1m / f64::from(machine.logical_cpus.max(1));
    let quota_is_odd = environment
        .cpu_quota
        .is_some_and(|quota| quota.fract() != 0.0);
    let governed = environment
        .governor
        .as_deref()
        .is_some_and(|word| word != "performance");
    let checks = [
        (
            busy > 0.25,
            format!(
                "over the last minute {:.1} tasks ran, or waited for one of {} processors or a disk",
                environment.load.load_1m, machine.logical_cpus
            ),
            "stop it, or expect wide intervals and verdicts of `unclear`",
        ),
        (
            governed,
            format!(
                "the frequency governor is `{}`",
                environment.governor.as_deref().unwrap_or_default()
            ),
            "set it to `performance` (cpupower frequency-set --governor performance)",
        ),
        (
            environment.turbo == Some(true),
            "processors may exceed their base frequency".to_owned(),
            "speeds then depend on temperature and neighbours; turn boost off for sharper intervals",
        ),
        (
            environment.smt == Some(true),
            "cores run two threads each".to_owned(),
            "cells use as many threads as there are cores; a neighbour on the other thread disturbs",
        ),
        (
            environment.virtualization.is_some(),
            match environment.virtualization.as_deref() {
                // Where the processor tells of a hypervisor, but nothing tells its name.
                None | Some("yes") => "this is a virtual machine".to_owned(),
                Some(name) => format!("this is a virtual machine ({name})"),
            },
            "neighbours on the host are invisible: watch the canaries on the cells' pages",
        ),
        (
            quota_is_odd,
            format!(
                "the container may use {:.2} processors",
                environment.cpu_quota.unwrap_or_default()
            ),
            "a quota throttles in bursts; give it whole processors (a cpuset)",
        ),
        (
            environment.load.available_memory_bytes < 4 << 30,
            format!(
                "only {} of memory are free",
                HumanBytes(environment.load.available_memory_bytes)
            ),
            "large networks will end as out_of_memory",
        ),
        (
            !environment.variables.is_empty(),
            format!(
                "variables that change engines are set: {}",
                environment
                    .variables
                    .keys()
                    .cloned()
                    .collect::<Vec<_>>()
                    .join(", ")
            ),
            "unset them unless they are what you want to measure; they are kept with the results",
        ),
    ];
    checks
        .into_iter()
        .filter(|(holds, ..)| *holds)
        .map(|(_, what, advice)| Finding {
            what,
            advice: advice.to_owned(),
        })
        .collect()
}

fn text(diagnosis: &Diagnosis) -> String {
    let environment = &diagnosis.environment;
    let machine = &environment.fingerprint;
    let mut text = String::from("This machine\n");
    let mut fact = |name: &str, value: &str| {
        let _ = writeln!(text, "  {name:<14} {value}");
    };
    fact("processor", &machine.cpu_model);
    fact(
        "",
        &format!(
            "{} cores, {} threads",
            machine.physical_cores, machine.logical_cpus
        ),
    );
    fact("features", &machine.cpu_features.join(" "));
    fact("memory", &format!("{} GiB", machine.memory_gib));
    fact(
        "system",
        &format!("{}, Linux {}", environment.distribution, environment.kernel),
    );
    fact(
        "load",
        &format!("{:.2} over one minute", environment.load.load_1m),
    );
    fact(
        "governor",
        environment
            .governor
            .as_deref()
            .unwrap_or("not told by the kernel"),
    );
    if machine.gpus.is_empty() {
        fact("GPU", "none (no NVIDIA driver answers)");
    }
    for (index, gpu) in machine.gpus.iter().enumerate() {
        let memory = HumanBytes(gpu.memory_bytes);
        fact(
            &format!("cuda:{index}"),
            &format!("{}, {memory}, driver {}", gpu.name, gpu.driver),
        );
    }
    text.push_str("\nEngines\n");
    if diagnosis.engines.is_empty() {
        text.push_str("  none are known\n");
    }
    for row in &diagnosis.engines {
        let _ = writeln!(text, "  {:<16} {}", row.label, row.state);
    }
    text.push_str("\nNoise\n");
    if diagnosis.findings.is_empty() {
        text.push_str("  nothing that the kernel tells of\n");
    }
    for finding in &diagnosis.findings {
        let _ = writeln!(text, "  {}\n    {}", finding.what, finding.advice);
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use schema::{Fingerprint, machine::Load};

    use super::*;

    fn quiet() -> Environment {
        Environment {
            fingerprint: Fingerprint {
                cpu_model: "Test".to_owned(),
                cpu_features: vec![],
                logical_cpus: 4,
                physical_cores: 4,
                memory_gib: 16,
                platform: "linux x86_64".to_owned(),
                gpus: vec![],
            },
            kernel: "6.1".to_owned(),
            distribution: "Test OS".to_owned(),
            governor: Some("performance".to_owned()),
            turbo: Some(false),
            smt: Some(false),
            virtualization: None,
            memory_limit_bytes: None,
            cpu_quota: None,
            load: Load {
                load_1m: 0.1,
                available_memory_bytes: 12 << 30,
                steal_ns: 0,
                busy_ns: 0,
                clock_mhz: None,
            },
            variables: BTreeMap::new(),
        }
    }

    #[test]
    fn a_quiet_machine_has_no_findings() {
        assert_eq!(findings(&quiet()), []);
    }

    #[test]
    fn each_disturbance_is_named() {
        let mut noisy = quiet();
        noisy.load.load_1m = 3.0;
        noisy.governor = Some("powersave".to_owned());
        noisy.turbo = Some(true);
        noisy.cpu_quota = Some(1.5);
        noisy
            .variables
            .insert("OMP_NUM_THREADS".to_owned(), "1".to_owned());
        let found: Vec<_> = findings(&noisy)
            .into_iter()
            .map(|finding| finding.what)
            .collect();
        assert_eq!(found.len(), 5, "{found:?}");
        assert!(found[0].contains("3.0 tasks") && found[0].contains("4 processors"));
        assert!(found[1].contains("powersave"));
        for (name, said) in [
            ("yes", "this is a virtual machine"),
            ("KVM", "this is a virtual machine (KVM)"),
        ] {
            let mut virtual_machine = quiet();
            virtual_machine.virtualization = Some(name.to_owned());
            assert_eq!(findings(&virtual_machine)[0].what, said);
        }
    }
}
