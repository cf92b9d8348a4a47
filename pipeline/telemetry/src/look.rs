//! What one look at the sensors saw, and what a series of looks comes to.

use std::collections::{BTreeMap, BTreeSet};

use schema::{
    Device,
    telemetry::{GpuTelemetry, Limit, PROCESSOR_POWER, PROCESSOR_TIME, Telemetry},
};

use statistics::{number::rounded, percentile};

use crate::load::{Times, mean};

/// Most looks that are kept: of a longer series every second, then every fourth, and so on.
const MOST_LOOKS: usize = 16_384;

/// Looks at the sensors while rounds ran.
#[derive(Debug, Clone, Default)]
pub struct Series {
    /// In the order of time.
    pub looks: Vec<Look>,
    /// Sensors of the machine that told nothing, and why.
    pub unavailable: BTreeMap<&'static str, String>,
    /// The GPUs.
    pub gpus: BTreeMap<Device, GpuSeries>,
    /// Processors whose time the kernel counts.
    pub processors: u32,
    /// How many looks stand for each that is kept, as a power of two.
    pub(crate) thinned: u32,
    /// Looks since the last that was kept.
    pub(crate) skipped: u32,
}

/// What is told of a GPU besides.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GpuSeries {
    /// Its sensors that told nothing, and why.
    pub unavailable: BTreeMap<&'static str, String>,
    /// Why it is gone.
    pub lost: Option<String>,
    /// What was set when the series began, and when it ended.
    pub settings: [GpuSettings; 2],
}

/// What somebody may set of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GpuSettings {
    /// The clock that applications ask for, of its multiprocessors, in MHz.
    pub application_mhz: Option<u32>,
    /// Its power limit in milliwatts.
    pub limit_mw: Option<u32>,
}

/// A look at the sensors.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Look {
    /// Whose round it was: looks of the same round have the same number.
    pub round: u32,
    /// The cell, where it is to be told of.
    pub slot: Option<u32>,
    /// Since the series began.
    pub at_ns: u64,
    /// Processor time since boot.
    pub times: Option<Times>,
    /// For how long the control group's quota has held its processes back.
    pub throttled_ns: Option<u64>,
    /// Mean clock of the processors in MHz.
    pub cpu_mhz: Option<f64>,
    /// Energy of the packages since the series began, in microjoules.
    pub package_uj: Option<u64>,
    /// The GPU that the cell runs on.
    pub gpu: Option<GpuLook>,
}

/// A look at a GPU's sensors.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GpuLook {
    /// Which.
    pub cuda: u32,
    /// Power in watts.
    pub watts: Option<f64>,
    /// Clock of its multiprocessors in MHz.
    pub sm_mhz: Option<f64>,
    /// Clock of its memory in MHz.
    pub memory_mhz: Option<f64>,
    /// Degrees Celsius.
    pub celsius: Option<f64>,
    /// Share of the time in which a kernel ran.
    pub utilisation: Option<f64>,
    /// Memory in use.
    pub memory_bytes: Option<u64>,
    /// What keeps its clocks down; `None`: not told.
    pub limits: Option<BTreeSet<Limit>>,
    /// Whether it had nothing to do.
    pub is_idle: bool,
    /// Who computes on it; `None`: not asked this time, or not told.
    pub processes: Option<Vec<GpuProcess>>,
}

/// A process that computes on a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuProcess {
    /// The name of another's; `None`: it is ours.
    pub foreign: Option<String>,
    /// Memory that it holds there, where that is told.
    pub bytes: Option<u64>,
    /// Per cent of the multiprocessors that it used of late, where that is told.
    pub sm_percent: Option<u32>,
}

impl Series {
    /// Adds a look, unless it is one of those that are left out.
    pub fn push(&mut self, look: Look) {
        if self.skipped > 0 {
            self.skipped -= 1;
            return;
        }
        if self.looks.len() >= MOST_LOOKS {
            let mut keep = false;
            self.looks.retain(|_| {
                keep = !keep;
                keep
            });
            self.thinned = (self.thinned + 1).min(20);
        }
        self.looks.push(look);
        self.skipped = (1 << self.thinned) - 1;
    }

    /// What it comes to for a cell, in rounds of which the worker kept `worker_cpus` busy.
    #[must_use]
    pub fn telemetry(&self, slot: u32, device: Device, worker_cpus: Option<f64>) -> Telemetry {
        let own: Vec<&Look> = {
            let own = self.looks.iter().filter(|look| look.slot == Some(slot));
            own.collect()
        };
        let gpu = self.gpus.get(&device);
        let mut unavailable: BTreeMap<String, String> = BTreeMap::new();
        let lacking = gpu.into_iter().flat_map(|gpu| &gpu.unavailable);
        for (sensor, reason) in self.unavailable.iter().chain(lacking) {
            unavailable.insert((*sensor).to_owned(), reason.clone());
        }
        let spans = Spans::of(&own);
        let mut lacks = |sensor: &str, told: bool, has_span: bool| {
            if told && !has_span {
                let reason = "no round of it was looked at twice";
                unavailable.insert(sensor.to_owned(), reason.to_owned());
            }
        };
        let told = |is_told: fn(&Look) -> bool| own.iter().any(|look| is_told(look));
        let times = told(|look| look.times.is_some());
        lacks(PROCESSOR_TIME, times, spans.busy_ns.is_some());
        let powers = told(|look| look.package_uj.is_some());
        lacks(PROCESSOR_POWER, powers, spans.package_uj.is_some());
        let share = |ns: u64| {
            let all = spans.time_ns as f64 * f64::from(self.processors);
            (all > 0.0).then(|| rounded(ns as f64 / all))
        };
        Telemetry {
            looks: u32::try_from(own.len()).unwrap_or(u32::MAX),
            cpu_mhz: median(own.iter().filter_map(|look| look.cpu_mhz)),
            busy: spans.busy_ns.and_then(share),
            steal: spans.steal_ns.and_then(share),
            throttled: spans.throttled_ns.and_then(share),
            worker_cpus: worker_cpus.map(rounded),
            package_watts: spans.package_watts().map(rounded),
            gpu: gpu.map(|_| of_gpu(&own)),
            unavailable,
        }
    }

    /// Looks at this GPU.
    pub fn of_gpu(&self, device: Device) -> impl Iterator<Item = &GpuLook> {
        let looks = self.looks.iter().filter_map(|look| look.gpu.as_ref());
        looks.filter(move |look| Device::Cuda(look.cuda) == device)
    }
}

/// What counters counted between looks of the same round: between two rounds others run.
#[derive(Debug, Default)]
struct Spans {
    time_ns: u64,
    busy_ns: Option<u64>,
    steal_ns: Option<u64>,
    throttled_ns: Option<u64>,
    package_uj: Option<u64>,
    package_ns: u64,
}

impl Spans {
    fn of(looks: &[&Look]) -> Self {
        let mut spans = Self::default();
        let add = |sum: &mut Option<u64>, before: u64, after: u64| {
            *sum = Some(
                sum.unwrap_or(0)
                    .saturating_add(after.saturating_sub(before)),
            );
        };
        for pair in looks.windows(2) {
            let [one, next] = pair else { continue };
            if one.round != next.round {
                continue;
            }
            let time_ns = next.at_ns.saturating_sub(one.at_ns);
            if let (Some(before), Some(after)) = (one.times, next.times) {
                spans.time_ns += time_ns;
                add(&mut spans.busy_ns, before.busy_ns, after.busy_ns);
                add(&mut spans.steal_ns, before.steal_ns, after.steal_ns);
                if let (Some(before), Some(after)) = (one.throttled_ns, next.throttled_ns) {
                    add(&mut spans.throttled_ns, before, after);
                }
            }
            if let (Some(before), Some(after)) = (one.package_uj, next.package_uj) {
                spans.package_ns += time_ns;
                add(&mut spans.package_uj, before, after);
            }
        }
        spans
    }

    fn package_watts(&self) -> Option<f64> {
        let energy_uj = self.package_uj.filter(|_| self.package_ns > 0)?;
        Some(energy_uj as f64 * 1e3 / self.package_ns as f64)
    }
}

fn of_gpu(looks: &[&Look]) -> GpuTelemetry {
    let looks = || looks.iter().filter_map(|look| look.gpu.as_ref());
    let processes = || looks().filter_map(|look| look.processes.as_ref());
    let of_worker = |of_look: &Vec<GpuProcess>| {
        let ours = of_look.iter().filter(|process| process.foreign.is_none());
        ours.filter_map(|process| process.bytes)
            .reduce(u64::saturating_add)
    };
    GpuTelemetry {
        watts: mean(looks().filter_map(|look| look.watts)).map(rounded),
        sm_mhz: median(looks().filter_map(|look| look.sm_mhz)),
        memory_mhz: median(looks().filter_map(|look| look.memory_mhz)),
        celsius: looks().filter_map(|look| look.celsius).reduce(f64::max),
        utilisation: mean(looks().filter_map(|look| look.utilisation)).map(rounded),
        memory_bytes: looks().filter_map(|look| look.memory_bytes).max(),
        worker_bytes: processes().filter_map(of_worker).max(),
        limited: limited(looks())
            .into_iter()
            .map(|(limit, share)| (limit, rounded(share)))
            .collect(),
        foreign: foreign(looks())
            .into_iter()
            .map(|(name, share)| (name, share.map(rounded)))
            .collect(),
    }
}

/// What kept the clocks of a GPU down, each with the share of looks at which it did. Looks at an idle GPU
/// do not count: its clocks are down for want of work.
pub fn limited<'a>(looks: impl Iterator<Item = &'a GpuLook>) -> BTreeMap<Limit, f64> {
    let mut counts: BTreeMap<Limit, u32> = BTreeMap::new();
    let mut all = 0_u32;
    let told = looks.filter(|look| !look.is_idle);
    for limits in told.filter_map(|look| look.limits.as_ref()) {
        all += 1;
        for limit in limits {
            *counts.entry(*limit).or_default() += 1;
        }
    }
    let share = |(limit, count)| (limit, f64::from(count) / f64::from(all));
    counts.into_iter().map(share).collect()
}

/// Others on a GPU, by name, each with the share of its multiprocessors that they used together where that
/// is told: the mean over the looks that were told of any.
pub fn foreign<'a>(looks: impl Iterator<Item = &'a GpuLook>) -> BTreeMap<String, Option<f64>> {
    let mut found: BTreeMap<String, Option<u64>> = BTreeMap::new();
    let mut told = 0_u32;
    for processes in looks.filter_map(|look| look.processes.as_ref()) {
        let is_told = processes.is_empty() || processes.iter().any(|it| it.sm_percent.is_some());
        told += u32::from(is_told);
        let others = processes.iter();
        for (name, percent) in others.filter_map(|it| Some((it.foreign.clone()?, it.sm_percent))) {
            let sum = found.entry(name).or_default();
            if let Some(percent) = percent {
                *sum = Some(sum.unwrap_or(0) + u64::from(percent));
            }
        }
    }
    let share = |sum: u64| sum as f64 / 100.0 / f64::from(told.max(1));
    let found = found.into_iter();
    found.map(|(name, sum)| (name, sum.map(share))).collect()
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    percentile::middle(values).map(rounded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(round: u32, slot: u32, at_s: u64, busy_s: u64, package_j: u64) -> Look {
        Look {
            round,
            slot: Some(slot),
            at_ns: at_s * 1_000_000_000,
            times: Some(Times {
                busy_ns: busy_s * 1_000_000_000,
                steal_ns: 0,
            }),
            throttled_ns: (slot == 7).then_some(at_s * 200_000_000),
            cpu_mhz: Some(2000.0 + at_s as f64),
            package_uj: Some(package_j * 1_000_000),
            gpu: None,
        }
    }

    fn series(looks: Vec<Look>) -> Series {
        Series {
            looks,
            processors: 2,
            ..Series::default()
        }
    }

    #[test]
    fn counters_count_within_rounds_alone() {
        let looks = vec![
            look(0, 7, 0, 100, 0),
            look(0, 7, 1, 102, 30),
            // Another's, which is none of this cell's business.
            look(1, 8, 2, 102, 900),
            look(1, 8, 3, 102, 9000),
            look(2, 7, 4, 102, 9000),
            look(2, 7, 6, 104, 9090),
        ];
        let found = series(looks).telemetry(7, Device::Cpu, Some(1.5));
        assert_eq!(found.looks, 4);
        // 4 of 3 seconds on two processors.
        assert_eq!(found.busy, Some(0.666_667));
        assert_eq!((found.steal, found.throttled), (Some(0.0), Some(0.1)));
        assert_eq!(found.package_watts, Some(40.0));
        assert_eq!(found.cpu_mhz, Some(2002.5));
        assert_eq!((found.worker_cpus, found.gpu), (Some(1.5), None));
    }

    #[test]
    fn a_round_too_short_for_two_looks_has_no_shares() {
        let found = series(vec![look(0, 7, 0, 100, 0), look(1, 7, 9, 900, 900)]);
        let found = found.telemetry(7, Device::Cpu, None);
        assert_eq!((found.busy, found.package_watts), (None, None));
        assert_eq!(found.looks, 2);
        assert_eq!(series(vec![]).telemetry(7, Device::Cpu, None).looks, 0);
    }

    #[test]
    fn a_long_series_is_thinned_evenly() {
        let mut all = Series::default();
        let count = MOST_LOOKS as u64 * 5;
        for at_s in 0..count {
            all.push(look(0, 0, at_s, at_s, at_s));
        }
        assert!(all.looks.len() <= MOST_LOOKS && all.looks.len() > MOST_LOOKS / 2);
        let steps: BTreeSet<u64> = all
            .looks
            .windows(2)
            .map(|pair| (pair[1].at_ns - pair[0].at_ns) / 1_000_000_000)
            .collect();
        assert!(steps.iter().all(|step| [4, 8].contains(step)), "{steps:?}");
        let found = all.telemetry(0, Device::Cpu, None);
        assert_eq!(found.package_watts, Some(1.0));
    }

    #[test]
    fn limits_are_shares_of_the_looks_at_work() {
        let at = |limits: &[Limit], is_idle| GpuLook {
            limits: Some(limits.iter().copied().collect()),
            is_idle,
            ..GpuLook::default()
        };
        let looks = [
            at(&[Limit::PowerCap], false),
            at(&[], false),
            at(&[], true),
            GpuLook::default(),
        ];
        let found = limited(looks.iter());
        assert_eq!(found, [(Limit::PowerCap, 0.5)].into());
    }

    #[test]
    fn others_are_told_with_what_they_use() {
        let process = |name: Option<&str>, sm_percent| GpuProcess {
            foreign: name.map(str::to_owned),
            bytes: Some(1 << 20),
            sm_percent,
        };
        let at = |processes| GpuLook {
            processes: Some(processes),
            ..GpuLook::default()
        };
        let looks = [
            at(vec![
                process(None, Some(90)),
                process(Some("`a`"), Some(30)),
            ]),
            at(vec![
                process(Some("`a`"), Some(10)),
                process(Some("`b`"), None),
            ]),
            // Told of none, though `a` was there: it counts for nothing.
            at(vec![process(None, None), process(Some("`a`"), None)]),
            GpuLook::default(),
        ];
        let found = foreign(looks.iter());
        let wanted = [("`a`".to_owned(), Some(0.2)), ("`b`".to_owned(), None)];
        assert_eq!(found, wanted.into());
    }
}
