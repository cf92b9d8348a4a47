//! `photofinish doctor`: what this machine can measure, and what makes it noisy.

pub(crate) mod gpus;

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    time::{Duration, Instant},
};

use indicatif::HumanBytes;
use run::Identical;
use schema::{
    Device, Environment,
    plan::MARGIN,
    printed::{self, percent},
};
use serde::Serialize;
use telemetry::{Sensors, Thermal, Times};

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
/// Of the processors' time, while identical work wants all of it: what a hypervisor takes beyond that is told.
const STOLEN: f64 = 0.005;

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
    let memory_bytes = telemetry::total_memory_bytes();
    let mut findings = findings(&environment, &telemetry::thermal(), memory_bytes);
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
        let (before, began) = (telemetry::times(), Instant::now());
        let Some(identical) = measure(session, threads)? else {
            // What was found is no less true.
            session.printer.json(&diagnosis)?;
            return Err(Failure::interrupted_with("the same command measures anew").already_told());
        };
        let took = before.zip(telemetry::times());
        let stolen = took.and_then(|took| stolen(took, began.elapsed(), telemetry::processors()));
        session.printer.human(&measured_text(&identical));
        if let Some(finding) = &stolen {
            session.printer.human(&finding_text(finding));
        }
        diagnosis.findings.extend(stolen);
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

/// What a hypervisor took between these two looks at so many processors, where that is much.
fn stolen((before, after): (Times, Times), time: Duration, processors: u32) -> Option<Finding> {
    let all_s = time.as_secs_f64() * f64::from(processors.max(1));
    let stolen_s = after.steal_ns.saturating_sub(before.steal_ns) as f64 / 1e9;
    let share = stolen_s / all_s.max(1e-9);
    (share > STOLEN).then(|| {
        let share = percent((share * 1e3).round() / 1e3);
        Finding {
            what: format!("a hypervisor took {share} of the processors' time meanwhile"),
            advice: "others on its host have it: expect blocks to be measured again, and verdicts of `unclear`, \
                     unless they become quieter"
                .to_owned(),
        }
    })
}

/// What is known to disturb measurements, as the environment shows it, on a machine of so much memory.
fn findings(
    environment: &Environment,
    thermal: &Thermal,
    memory_bytes: Option<u64>,
) -> Vec<Finding> {
    let machine = &environment.fingerprint;
    let busy = environment.load.load_1m / f64::from(machine.logical_cpus.max(1));
    let limits = environment.memory_limit_bytes.zip(memory_bytes);
    let (limit_bytes, all_bytes) = limits.unwrap_or_default();
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
            environment.cpu_quota.is_some(),
            format!(
                "the control group may use the time of {:.2} processors",
                environment.cpu_quota.unwrap_or_default()
            ),
            "a quota throttles in bursts, a whole one too; give it processors of its own instead (a cpuset)",
        ),
        (
            limit_bytes < all_bytes,
            format!(
                "the control group may use {} of the {} of memory that the machine has",
                HumanBytes(limit_bytes),
                HumanBytes(all_bytes)
            ),
            "networks that need more end as out_of_memory; a higher limit gives them room",
        ),
        (
            environment.load.busy_ns.is_none(),
            "the kernel does not tell what the processors do (/proc/stat)".to_owned(),
            "what other processes or a hypervisor take cannot be seen, and no block is measured again for that",
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
    let findings = diagnosis.findings.iter().map(finding_text);
    text.extend(findings);
    text
}

fn finding_text(finding: &Finding) -> String {
    format!("  {}\n    {}\n", finding.what, finding.advice)
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
                steal_ns: Some(0),
                busy_ns: Some(0),
                clock_mhz: None,
            },
            variables: BTreeMap::new(),
        }
    }

    const MEMORY: u64 = 16 << 30;

    /// What is found on a machine of so much memory that is not hot.
    fn found(environment: &Environment) -> Vec<String> {
        let findings = findings(environment, &Thermal::default(), Some(MEMORY));
        findings.into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn a_quiet_machine_has_no_findings() {
        assert_eq!(found(&quiet()), [""; 0]);
        // A limit that leaves all of the memory is none.
        let mut unlimited = quiet();
        unlimited.memory_limit_bytes = Some(MEMORY);
        assert_eq!(found(&unlimited), [""; 0]);
    }

    #[test]
    fn what_a_control_group_takes_and_a_kernel_hides_is_told() {
        let mut limited = quiet();
        limited.cpu_quota = Some(2.0);
        limited.memory_limit_bytes = Some(4 << 30);
        limited.load.busy_ns = None;
        let told = found(&limited);
        assert_eq!(
            told,
            [
                "the control group may use the time of 2.00 processors",
                "the control group may use 4.00 GiB of the 16.00 GiB of memory that the machine has",
                "the kernel does not tell what the processors do (/proc/stat)",
            ]
        );
        // How much memory the machine has may not be told either.
        let told = findings(&limited, &Thermal::default(), None);
        assert_eq!(told.len(), 2, "{told:?}");
    }

    #[test]
    fn what_a_hypervisor_takes_has_a_limit() {
        let times = |steal_ms: u64| Times {
            busy_ns: 0,
            steal_ns: steal_ms * 1_000_000,
        };
        let told = |steal_ms: u64| {
            let looks = (times(1_000), times(1_000 + steal_ms));
            stolen(looks, Duration::from_secs(30), 2).map(|finding| finding.what)
        };
        // Of a minute, 0.5 % of which is 300 ms.
        assert_eq!(told(290), None);
        assert!(told(310).is_some());
        let much = "a hypervisor took 3 % of the processors' time meanwhile";
        assert_eq!(told(1_800).as_deref(), Some(much));
        assert_eq!(stolen((times(9), times(9)), Duration::ZERO, 0), None);
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
        let told: Vec<_> = findings(&noisy, &hot, Some(MEMORY))
            .into_iter()
            .map(|finding| finding.what)
            .collect();
        assert_eq!(told.len(), 7, "{told:?}");
        let says = |what: &str| told.iter().any(|finding| finding.contains(what));
        assert!(says("91 °C") && says("12 times"), "{told:?}");
        assert!(told[0].contains("3.0 tasks") && told[0].contains("4 processors"));
        assert!(told[1].contains("powersave"));
        for (name, said) in [
            ("yes", "this is a virtual machine"),
            ("KVM", "this is a virtual machine (KVM)"),
        ] {
            let mut virtual_machine = quiet();
            virtual_machine.virtualization = Some(name.to_owned());
            assert_eq!(found(&virtual_machine)[0], said);
        }
    }
}
