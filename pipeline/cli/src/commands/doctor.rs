//! `photofinish doctor`: what this machine can measure, and what makes it noisy.

mod gpus;

use std::{collections::BTreeMap, fmt::Write as _, time::Duration};

use indicatif::HumanBytes;
use run::Identical;
use schema::{
    Device, Environment,
    plan::MARGIN,
    printed::{self, percent},
};
use serde::Serialize;
use telemetry::{Sensors, Thermal};

use crate::{
    commands::engines::{EngineRow, rows},
    failure::Failure,
    printer::on_terminal,
    progress,
    session::Session,
    stages,
};

/// How long identical work is measured.
const MEASURED: Duration = Duration::from_secs(30);
/// Processors begin to slow themselves down some ten degrees above this.
const HOT_CELSIUS: f64 = 85.0;

/// What doctor found.
#[derive(Debug, Serialize)]
struct Diagnosis {
    environment: Environment,
    engines: Vec<EngineRow>,
    findings: Vec<Finding>,
    /// Devices whose energy cannot be measured, and why.
    unmetered: BTreeMap<Device, String>,
    /// How far apart identical work comes out; absent where that was not measured.
    identical: Option<Vec<Measured>>,
}

/// How far apart identical work of a kind comes out.
#[derive(Debug, PartialEq, Serialize)]
struct Measured {
    what: &'static str,
    /// As a relative difference.
    floor: Option<f64>,
    /// Comparisons of six blocks that were made.
    comparisons: u32,
}

impl From<Identical> for Measured {
    fn from(found: Identical) -> Self {
        Self {
            what: found.what,
            floor: found.noise.floor,
            comparisons: found.comparisons,
        }
    }
}

/// Something that makes this machine noisy, or keeps it from measuring.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Finding {
    what: String,
    advice: String,
}

/// Prints the diagnosis; then measures what noise there is at least, unless it is to be quick.
pub(crate) fn doctor(session: &Session, quick: bool) -> Result<(), Failure> {
    let environment = telemetry::environment();
    let mut findings = findings(&environment, &telemetry::thermal());
    for gpu in Sensors::system().gpus() {
        findings.extend(gpus::findings(&gpu));
    }
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
    let mut diagnosis = Diagnosis {
        environment,
        engines,
        findings,
        unmetered: stages::unmetered(session),
        identical: None,
    };
    session.printer.human(&text(&diagnosis));
    if !quick {
        let threads = diagnosis.environment.fingerprint.physical_cores;
        let Some(identical) = measure(session, threads)? else {
            // What was found is no less true.
            session.printer.json(&diagnosis)?;
            return Err(Failure::interrupted_with("the same command measures anew").already_told());
        };
        session.printer.human(&measured_text(&identical));
        diagnosis.identical = Some(identical);
    }
    session.printer.json(&diagnosis)
}

/// How far apart identical work comes out on this machine; `None` when interrupted.
fn measure(session: &Session, threads: u32) -> Result<Option<Vec<Measured>>, Failure> {
    session.watch()?;
    let bar = progress::share("measuring identical work");
    if !on_terminal() {
        let seconds = MEASURED.as_secs();
        session.printer.note(&format!(
            "measuring identical work for {seconds} s (--quick leaves it out)"
        ));
    }
    let found = run::identical(MEASURED, threads, &mut |share| {
        bar.reach(share);
        !session.interrupt.is_set()
    });
    drop(bar);
    Ok(found.map(|found| found.into_iter().map(Measured::from).collect()))
}

/// What that means for verdicts.
fn measured_text(identical: &[Measured]) -> String {
    let mut text = String::from("\nThe same work twice, on all cores\n");
    let mut largest = 0.0_f64;
    for Measured { what, floor, .. } in identical {
        largest = largest.max(floor.unwrap_or(f64::INFINITY));
        let floor = floor.map_or_else(
            || "came out too differently to tell".to_owned(),
            |floor| format!("comes out {} apart as a rule", printed::floor(floor)),
        );
        let _ = writeln!(text, "  {what:<20} {floor}");
    }
    let margin = percent(MARGIN);
    let meaning = if largest >= MARGIN {
        format!(
            "that is beyond the usual margin of {margin}: expect verdicts to stay open, unless the machine \
             becomes quieter or the manifest's margin wider"
        )
    } else {
        format!(
            "within the usual margin of {margin}; engines and slow moods of the machine add noise of their \
             own, which every run measures"
        )
    };
    let _ = writeln!(text, "    {meaning}");
    text
}

/// What is known to disturb measurements, as the environment shows it.
fn findings(environment: &Environment, thermal: &Thermal) -> Vec<Finding> {
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
            thermal
                .hottest_celsius
                .is_some_and(|celsius| celsius >= HOT_CELSIUS),
            format!(
                "it is {:.0} °C hot",
                thermal.hottest_celsius.unwrap_or_default()
            ),
            "processors slow down when they are hot: see to the cooling, and let it cool down",
        ),
        (
            thermal.throttled.is_some_and(|times| times > 0),
            format!(
                "heat has slowed a processor down since the machine was started ({} times)",
                thermal.throttled.unwrap_or_default()
            ),
            "if it happens while engines are measured, the later of two seems slower: see to the cooling",
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
    let gpus = (0_u32..).zip(&machine.gpus);
    let gpus = gpus.map(|(index, _)| Device::Cuda(index));
    for device in [Device::Cpu].into_iter().chain(gpus) {
        let lacking = diagnosis.unmetered.get(&device);
        let told = lacking.map_or_else(
            || format!("of {device} can be measured"),
            |reason| format!("of {device} is unavailable: {reason}"),
        );
        fact("energy", &told);
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
        assert_eq!(findings(&quiet(), &Thermal::default()), []);
    }

    #[test]
    fn what_was_measured_is_told_with_what_it_means() {
        let of = |what, floor| Measured {
            what,
            floor,
            comparisons: 3,
        };
        let quiet = measured_text(&[of("copying memory", Some(0.004_123))]);
        assert!(
            quiet.contains("copying memory       comes out 0.412 % apart"),
            "{quiet}"
        );
        assert!(quiet.contains("within the usual margin of 2 %"), "{quiet}");
        for floor in [Some(0.03), None] {
            let noisy = measured_text(&[of("copying memory", floor)]);
            assert!(noisy.contains("beyond the usual margin"), "{noisy}");
        }
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
        let hot = Thermal {
            hottest_celsius: Some(91.0),
            throttled: Some(12),
        };
        let found: Vec<_> = findings(&noisy, &hot)
            .into_iter()
            .map(|finding| finding.what)
            .collect();
        assert_eq!(found.len(), 7, "{found:?}");
        let says = |what: &str| found.iter().any(|finding| finding.contains(what));
        assert!(says("91 °C") && says("12 times"), "{found:?}");
        assert!(found[0].contains("3.0 tasks") && found[0].contains("4 processors"));
        assert!(found[1].contains("powersave"));
        for (name, said) in [
            ("yes", "this is a virtual machine"),
            ("KVM", "this is a virtual machine (KVM)"),
        ] {
            let mut virtual_machine = quiet();
            virtual_machine.virtualization = Some(name.to_owned());
            assert_eq!(
                findings(&virtual_machine, &Thermal::default())[0].what,
                said
            );
        }
    }
}
