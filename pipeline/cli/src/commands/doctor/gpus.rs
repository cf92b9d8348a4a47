//! How GPUs are set up, and who is on them.

use std::collections::BTreeSet;

use telemetry::GpuState;
use worker::census;

use super::Finding;

/// A finding where something holds.
fn found(holds: bool, what: impl FnOnce() -> String, advice: &str) -> Option<Finding> {
    holds.then(|| Finding {
        what: what(),
        advice: advice.to_owned(),
    })
}

/// What is set of a GPU, or goes on there, that disturbs measurements.
pub(super) fn findings(gpu: &GpuState) -> Vec<Finding> {
    let device = gpu.device;
    let others = others(gpu);
    let clock = gpu.clock.filter(|clock| clock.set_mhz != clock.default_mhz);
    let limit = gpu.limit_watts.filter(|(limit, default)| limit < default);
    let checks = [
        found(
            gpu.persistent == Some(false),
            || {
                format!(
                    "the driver leaves {device} when nothing runs on it (persistence mode is off)"
                )
            },
            "every launch then waits for it, and clocks that are set are forgotten: nvidia-smi -pm 1",
        ),
        clock.and_then(|clock| {
            let what = || {
                format!(
                    "the clock of {device} is set to {} MHz, where {} is its default",
                    clock.set_mhz, clock.default_mhz
                )
            };
            let advice = "results are those of that clock; nvidia-smi -rac takes it back";
            found(true, what, advice)
        }),
        found(
            gpu.clock
                .is_some_and(|clock| clock.set_mhz == clock.default_mhz),
            || {
                let most = gpu.clock.map_or(0, |clock| clock.most_mhz);
                format!("the clock of {device} is free, up to {most} MHz")
            },
            "speeds then depend on its temperature and power; for sharper intervals lock it below what \
             it holds under load (nvidia-smi -lgc), and nvidia-smi -rgc frees it again",
        ),
        limit.and_then(|(limit, default)| {
            let what =
                || format!("{device} may take {limit:.0} W, where {default:.0} W is its default");
            let advice = "results are those of that limit; nvidia-smi -pl sets another";
            found(true, what, advice)
        }),
        found(
            others.is_some(),
            || others.unwrap_or_default(),
            "stop them: blocks in which they do are measured again, and end `unstable` if that goes on",
        ),
    ];
    checks.into_iter().flatten().collect()
}

/// Who else computes on a GPU; `None` where nobody does.
pub(crate) fn others(gpu: &GpuState) -> Option<String> {
    let others = gpu.processes.iter().flatten();
    let others: BTreeSet<String> = others.filter_map(|pid| name_of_other(*pid)).collect();
    let others: Vec<String> = others.into_iter().collect();
    let device = gpu.device;
    (!others.is_empty()).then(|| format!("others compute on {device}: {}", others.join(", ")))
}

/// What a process is called that is none of ours.
fn name_of_other(pid: u32) -> Option<String> {
    match census::owner(pid) {
        census::Owner::Ours => None,
        census::Owner::Other(name) => Some(name),
        census::Owner::Nobody => Some("a process outside this container".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use schema::Device;
    use telemetry::ClockSetting;

    use super::*;

    #[test]
    fn how_a_gpu_is_set_up_is_told_with_what_to_do() {
        let quiet = GpuState {
            device: Device::Cuda(1),
            persistent: Some(true),
            clock: None,
            limit_watts: Some((700.0, 700.0)),
            processes: Some(vec![std::process::id()]),
        };
        assert_eq!(findings(&quiet), []);
        let clock = |set_mhz| {
            Some(ClockSetting {
                set_mhz,
                default_mhz: 1980,
                most_mhz: 1980,
            })
        };
        let noisy = GpuState {
            persistent: Some(false),
            clock: clock(1200),
            limit_watts: Some((350.0, 700.0)),
            processes: Some(vec![
                std::process::id(),
                std::os::unix::process::parent_id(),
                u32::MAX,
            ]),
            ..quiet
        };
        let told = findings(&noisy);
        let says = |what: &str, advice: &str| {
            let holds = |finding: &Finding| {
                finding.what.contains(what)
                    && finding.what.contains("cuda:1")
                    && finding.advice.contains(advice)
            };
            assert!(told.iter().any(holds), "{what}: {told:?}");
        };
        says("persistence mode is off", "-pm 1");
        says("1200 MHz, where 1980", "-rac");
        says("350 W, where 700 W", "-pl");
        says("a process outside this container", "stop them");
        assert_eq!(told.len(), 4);
        let free = findings(&GpuState {
            clock: clock(1980),
            ..quiet
        });
        assert!(free[0].what.contains("is free") && free[0].advice.contains("-lgc"));
    }
}
