//! Looking at a GPU.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use nvml_wrapper::{
    Device as Card, Nvml,
    bitmasks::device::ThrottleReasons,
    enum_wrappers::device::{Clock, TemperatureSensor},
    enums::device::UsedGpuMemory,
    error::NvmlError,
};
use schema::{
    Device,
    telemetry::{
        CLOCK, CLOCK_LIMITS, GPU, GPU_POWER, Limit, MEMORY, MEMORY_CLOCK, PROCESSES, TEMPERATURE,
        USE_BY_PROCESS, UTILISATION,
    },
};

use crate::{
    gpu,
    look::{GpuLook, GpuProcess, GpuSeries, GpuSettings},
    sampler::{Owner, Whose},
    sensors::Sensors,
};

/// Between two looks at who computes on a GPU: that is dear to ask.
const BETWEEN_PROCESSES: Duration = Duration::from_secs(1);

/// What a process is called whose number means nothing here.
const OUTSIDE: &str = "a process outside this container";

/// A GPU that is to be looked at.
pub(crate) struct Watched {
    cuda: u32,
    nvml: Arc<Nvml>,
    index: u32,
    /// Processes that were there before any of ours was, and what those are called that are not to be
    /// seen from here.
    before: BTreeSet<u32>,
}

impl Watched {
    /// Finds a GPU, who computes on it, and how it is set; only why not where it cannot be found.
    pub(crate) fn begin(
        sensors: &Sensors,
        cuda: u32,
        whose: &Arc<Whose>,
    ) -> (Option<Self>, GpuSeries) {
        let mut series = GpuSeries::default();
        let (nvml, index) = match sensors.card(cuda) {
            Ok(found) => found,
            Err(reason) => {
                series.unavailable.insert(GPU, reason);
                return (None, series);
            }
        };
        let mut watched = Self {
            cuda,
            nvml: Arc::clone(&nvml),
            index,
            before: BTreeSet::new(),
        };
        let eyes = watched.open(&nvml);
        series.settings[0] = eyes.settings();
        let running = eyes.card.as_ref().map(Card::running_compute_processes);
        let pids = running.and_then(Result::ok).into_iter().flatten();
        let pids = pids.map(|process| process.pid);
        let before = pids.filter(|pid| whose(*pid) != Owner::Ours).collect();
        series.lost = eyes.lost();
        series.unavailable = eyes.unavailable;
        watched.before = before;
        (Some(watched), series)
    }

    pub(crate) fn device(&self) -> Device {
        Device::Cuda(self.cuda)
    }

    pub(crate) fn nvml(&self) -> Arc<Nvml> {
        Arc::clone(&self.nvml)
    }

    pub(crate) fn open<'a>(&'a self, nvml: &'a Nvml) -> GpuEyes<'a> {
        let mut eyes = GpuEyes {
            watched: self,
            card: None,
            lost: None,
            unavailable: BTreeMap::new(),
            told: BTreeSet::new(),
            silent: BTreeSet::new(),
            next_processes: Instant::now(),
            used_until_us: microseconds(),
        };
        match nvml.device_by_index(self.index) {
            Ok(card) => eyes.card = Some(card),
            Err(error) => eyes.fails(GPU, &error),
        }
        eyes
    }
}

/// What looks at a GPU.
pub(crate) struct GpuEyes<'a> {
    watched: &'a Watched,
    card: Option<Card<'a>>,
    lost: Option<String>,
    unavailable: BTreeMap<&'static str, String>,
    /// Sensors that have told something, and such as will not any more.
    told: BTreeSet<&'static str>,
    silent: BTreeSet<&'static str>,
    next_processes: Instant,
    /// Until when is known who used it, in NVML's microseconds.
    used_until_us: u64,
}

impl<'a> GpuEyes<'a> {
    pub(crate) fn lost(&self) -> Option<String> {
        self.lost.clone()
    }

    pub(crate) const fn unavailable(&self) -> &BTreeMap<&'static str, String> {
        &self.unavailable
    }

    /// What is set.
    pub(crate) fn settings(&self) -> GpuSettings {
        let Some(card) = self.card.as_ref().filter(|_| self.lost.is_none()) else {
            return GpuSettings::default();
        };
        GpuSettings {
            application_mhz: card.applications_clock(Clock::SM).ok(),
            limit_mw: card.power_management_limit().ok(),
        }
    }

    /// Looks at it; `None` where it is gone.
    pub(crate) fn look(&mut self, whose: &Whose) -> Option<GpuLook> {
        self.card.as_ref()?;
        let number = |number: u32| f64::from(number);
        let mut look = GpuLook {
            cuda: self.watched.cuda,
            watts: self
                .ask(GPU_POWER, gpu::power_mw)
                .map(|mw| number(mw) / 1e3),
            sm_mhz: self
                .ask(CLOCK, |card| card.clock_info(Clock::SM))
                .map(number),
            memory_mhz: self
                .ask(MEMORY_CLOCK, |card| card.clock_info(Clock::Memory))
                .map(number),
            celsius: self
                .ask(TEMPERATURE, |card| card.temperature(TemperatureSensor::Gpu))
                .map(number),
            utilisation: self
                .ask(UTILISATION, Card::utilization_rates)
                .map(|rates| number(rates.gpu) / 100.0),
            memory_bytes: self
                .ask(MEMORY, Card::memory_info)
                .map(|memory| memory.used),
            ..GpuLook::default()
        };
        if let Some(reasons) = self.ask(CLOCK_LIMITS, Card::current_throttle_reasons) {
            look.is_idle = reasons.contains(ThrottleReasons::GPU_IDLE);
            look.limits = Some(limits(reasons));
        }
        if Instant::now() >= self.next_processes {
            self.next_processes = Instant::now() + BETWEEN_PROCESSES;
            look.processes = self.processes(whose);
        }
        self.lost.is_none().then_some(look)
    }

    /// Who computes on it. Of those that are not to be seen from here only those are another's for certain
    /// that came before any of ours: where the driver counts processes otherwise, our worker is
    /// among the later ones.
    fn processes(&mut self, whose: &Whose) -> Option<Vec<GpuProcess>> {
        let running = self.ask(PROCESSES, Card::running_compute_processes)?;
        let used = self.used();
        let process = |found: nvml_wrapper::struct_wrappers::device::ProcessInfo| {
            let foreign = match whose(found.pid) {
                Owner::Ours => None,
                Owner::Other(name) => Some(name),
                Owner::Unknown if self.watched.before.contains(&found.pid) => {
                    Some(OUTSIDE.to_owned())
                }
                Owner::Unknown => return None,
            };
            Some(GpuProcess {
                foreign,
                bytes: match found.used_gpu_memory {
                    UsedGpuMemory::Used(bytes) => Some(bytes),
                    UsedGpuMemory::Unavailable => None,
                },
                sm_percent: used
                    .as_ref()
                    .map(|used| used.get(&found.pid).copied().unwrap_or(0)),
            })
        };
        Some(running.into_iter().filter_map(process).collect())
    }

    /// Per cent of the multiprocessors that each process used since the last time: those that used none are
    /// not among them. `None` where that is not told.
    fn used(&mut self) -> Option<BTreeMap<u32, u32>> {
        let since = self.used_until_us;
        let samples = self.ask(USE_BY_PROCESS, |card| {
            match card.process_utilization_stats(since) {
                // Nobody used it.
                Err(NvmlError::NotFound) => Ok(Vec::new()),
                told => told,
            }
        })?;
        let mut used: BTreeMap<u32, (u64, u32)> = BTreeMap::new();
        for sample in samples {
            self.used_until_us = self.used_until_us.max(sample.timestamp);
            let (sum, count) = used.entry(sample.pid).or_default();
            *sum += u64::from(sample.sm_util.min(100));
            *count += 1;
        }
        let mean = |(sum, count): (u64, u32)| u32::try_from(sum / u64::from(count.max(1)));
        let used = used.into_iter();
        Some(
            used.map(|(pid, sums)| (pid, mean(sums).unwrap_or(100)))
                .collect(),
        )
    }

    /// Asks a sensor that has not failed for good.
    fn ask<T>(
        &mut self,
        sensor: &'static str,
        ask: impl FnOnce(&Card<'a>) -> Result<T, NvmlError>,
    ) -> Option<T> {
        if self.lost.is_some() || self.silent.contains(sensor) {
            return None;
        }
        match ask(self.card.as_ref()?) {
            Ok(value) => {
                if self.told.insert(sensor) {
                    self.unavailable.remove(sensor);
                }
                Some(value)
            }
            Err(error) => {
                self.fails(sensor, &error);
                None
            }
        }
    }

    fn fails(&mut self, sensor: &'static str, error: &NvmlError) {
        if gpu::is_lost(error) {
            self.lost = Some(gpu::lost(self.watched.cuda, error));
        }
        if !is_passing(error) {
            self.silent.insert(sensor);
        } else if self.told.contains(sensor) {
            return;
        }
        self.unavailable.insert(sensor, error.to_string());
    }
}

/// Whether a sensor that failed so may tell at the next look. (Who used a GPU is asked in two calls, between
/// which another may come.)
const fn is_passing(error: &NvmlError) -> bool {
    matches!(
        error,
        NvmlError::Timeout | NvmlError::Unknown | NvmlError::InUse | NvmlError::InsufficientSize(_)
    )
}

/// What keeps clocks down; see NVML's API reference, "Clocks Event Reasons".
fn limits(reasons: ThrottleReasons) -> BTreeSet<Limit> {
    let of = |limit| match limit {
        Limit::PowerCap => ThrottleReasons::SW_POWER_CAP,
        Limit::Heat => ThrottleReasons::SW_THERMAL_SLOWDOWN,
        Limit::ClockSetting => ThrottleReasons::APPLICATIONS_CLOCKS_SETTING,
        Limit::SyncBoost => ThrottleReasons::SYNC_BOOST,
        Limit::HardwareSlowdown => ThrottleReasons::HW_SLOWDOWN,
        Limit::HardwareHeat => ThrottleReasons::HW_THERMAL_SLOWDOWN,
        Limit::PowerBrake => ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN,
        Limit::Display => ThrottleReasons::DISPLAY_CLOCK_SETTING,
    };
    let all = Limit::ALL.into_iter();
    all.filter(|limit| reasons.contains(of(*limit))).collect()
}

/// Since the epoch, as NVML counts.
fn microseconds() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |time| u64::try_from(time.as_micros()).unwrap_or(0))
}
