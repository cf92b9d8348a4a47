//! What sensors told while steps were measured: powers, clocks, heat, memory, energy.
//!
//! A sensor that tells nothing is absent here, and why it does not is said; absent is never zero.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What sensors told while the rounds of a launch ran.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Telemetry {
    /// How often they were looked at, ten times a second at most; 0 where its rounds were over before.
    pub looks: u32,
    /// Clock of the processors in MHz: the median over looks of their mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_mhz: Option<f64>,
    /// Share of all processors' time that all processes used, between the first look and the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy: Option<f64>,
    /// Share of all processors' time that a hypervisor took, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steal: Option<f64>,
    /// Share of all processors' time for which the control group's quota held its processes back, likewise; absent
    /// where there is no quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled: Option<f64>,
    /// Processors that the worker and all that it started kept busy while its rounds ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_cpus: Option<f64>,
    /// Mean power of the processors' packages in watts, between the first look and the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package_watts: Option<f64>,
    /// The GPU that the cell runs on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<GpuTelemetry>,
    /// Sensors that told nothing, and why.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unavailable: BTreeMap<String, String>,
}

/// What a GPU's sensors told.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GpuTelemetry {
    /// Mean power of the board in watts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watts: Option<f64>,
    /// Clock of its multiprocessors in MHz, the median over looks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sm_mhz: Option<f64>,
    /// Clock of its memory in MHz, the median over looks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mhz: Option<f64>,
    /// Its highest temperature, in degrees Celsius.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub celsius: Option<f64>,
    /// Share of the time in which a kernel ran, of whomever: the mean over looks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub utilisation: Option<f64>,
    /// Most memory that was in use on it, by all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Most memory that the worker's processes held on it, as the driver tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_bytes: Option<u64>,
    /// What kept its clocks down, each with the share of looks at which it did.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limited: BTreeMap<Limit, f64>,
    /// Processes of others on it, by name, each with the share of its multiprocessors that they used
    /// where the driver tells.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub foreign: BTreeMap<String, Option<f64>>,
}

/// What keeps the clocks of a GPU down: NVML's "clocks event reasons". Idleness is none.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Its power limit, which the driver keeps to.
    PowerCap,
    /// It is warm, and the driver sees to it.
    Heat,
    /// Clocks that somebody has set or locked.
    ClockSetting,
    /// Another GPU of its group is slower.
    SyncBoost,
    /// It slows itself down by half or more: heat, or a fast rise of power.
    HardwareSlowdown,
    /// Likewise, for heat.
    HardwareHeat,
    /// Likewise, because its power supply asks for it.
    PowerBrake,
    /// A display's settings.
    Display,
}

impl Limit {
    /// Every one of them.
    pub const ALL: [Self; 8] = [
        Self::PowerCap,
        Self::Heat,
        Self::ClockSetting,
        Self::SyncBoost,
        Self::HardwareSlowdown,
        Self::HardwareHeat,
        Self::PowerBrake,
        Self::Display,
    ];

    /// The word used in files.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::PowerCap => "power_cap",
            Self::Heat => "heat",
            Self::ClockSetting => "clock_setting",
            Self::SyncBoost => "sync_boost",
            Self::HardwareSlowdown => "hardware_slowdown",
            Self::HardwareHeat => "hardware_heat",
            Self::PowerBrake => "power_brake",
            Self::Display => "display",
        }
    }

    /// What it is, for a reader.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::PowerCap => "its power limit",
            Self::Heat => "its heat",
            Self::ClockSetting => "clocks that are set",
            Self::SyncBoost => "a slower GPU of its group",
            Self::HardwareSlowdown => "a hardware slowdown",
            Self::HardwareHeat => "a hardware slowdown for heat",
            Self::PowerBrake => "the power supply's brake",
            Self::Display => "a display's clocks",
        }
    }
}

/// Energy that a stretch of steps took, which was run for that alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Energy {
    /// It was measured.
    Measured(EnergyStretch),
    /// Why not.
    Unavailable(String),
}

/// A stretch of steps and the energy that all of the device took meanwhile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EnergyStretch {
    /// What measured it.
    pub sensor: EnergySensor,
    /// Energy in microjoules, idle power included.
    pub energy_uj: u64,
    /// Its length in nanoseconds.
    pub time_ns: u64,
    /// Steps that were run.
    pub steps: u64,
    /// Power in watts of the same device at the beginning of the block, before any worker was started.
    pub idle_watts: f64,
}

/// The sensor of the time that processors spend, by the name under which it is unavailable.
pub const PROCESSOR_TIME: &str = "processor time";

/// That of the power that processors take, likewise.
pub const PROCESSOR_POWER: &str = "power of processors";

/// All of them, where nothing can look at any.
pub const ALL_SENSORS: &str = "all";

/// That of the clock of processors, and that of the clock of a GPU's multiprocessors.
pub const CLOCK: &str = "clock";

/// All of a GPU.
pub const GPU: &str = "GPU";

/// That of the power of its board.
pub const GPU_POWER: &str = "power";

/// That of the clock of its memory.
pub const MEMORY_CLOCK: &str = "clock of memory";

/// That of its temperature.
pub const TEMPERATURE: &str = "temperature";

/// That of the time in which a kernel ran.
pub const UTILISATION: &str = "utilisation";

/// That of its memory in use.
pub const MEMORY: &str = "memory";

/// That of what keeps its clocks down.
pub const CLOCK_LIMITS: &str = "what limits clocks";

/// That of who computes on it.
pub const PROCESSES: &str = "processes";

/// That of how much each of them uses.
pub const USE_BY_PROCESS: &str = "use by process";

/// Power at rest is measured in windows of this part of a stretch, two of which have to agree.
pub const IDLE_WINDOWS: u32 = 10;

/// What counters count in, in joules: NVML's tells thousandths, and RAPL's less.
const COUNTER_JOULES: f64 = 1e-3;

/// Mean power in watts of so many microjoules in so many nanoseconds; `None` in no time.
#[must_use]
pub fn mean_watts(energy_uj: u64, time_ns: u64) -> Option<f64> {
    (time_ns > 0).then(|| energy_uj as f64 * 1e3 / time_ns as f64)
}

impl EnergyStretch {
    /// Mean power in watts, idle power included; `None` for a stretch without length.
    #[must_use]
    pub fn watts(&self) -> Option<f64> {
        mean_watts(self.energy_uj, self.time_ns)
    }

    /// What the resolution of its sensor may hide of its energy, in joules: what the device takes between two
    /// updates of it, since the last of them may lie so long before the beginning and before the end, and a
    /// thousandth, which is what counters count.
    #[must_use]
    pub fn blurred_joules(&self) -> f64 {
        let between = self.sensor.updated_ns() as f64 / 1e9;
        self.watts().unwrap_or(0.0) * between + COUNTER_JOULES
    }

    /// The same of what is left once idling is subtracted: power at rest comes from two windows of a tenth of the
    /// stretch each, and an update of the sensor, or its delay, is so many times as much of them.
    #[must_use]
    pub fn blurred_net_joules(&self) -> f64 {
        let windows = 2.0 / f64::from(IDLE_WINDOWS);
        let between = self.sensor.updated_ns() as f64 / 1e9;
        self.blurred_joules() + self.idle_watts * between / windows
    }

    /// What it took in joules, what the device takes when it is idle subtracted: may be 0 or less.
    #[must_use]
    pub fn joules(&self) -> f64 {
        let idle = self.idle_watts * self.time_ns as f64 / 1e9;
        self.energy_uj as f64 / 1e6 - idle
    }

    /// Energy of a step in joules, what the device takes when it is idle subtracted: may be 0 or less
    /// where a step hardly takes any. `None` without a step.
    #[must_use]
    pub fn joules_of_step(&self) -> Option<f64> {
        (self.steps > 0).then(|| self.joules() / self.steps as f64)
    }
}

/// What an energy was measured by.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum EnergySensor {
    /// The counters of all processors' packages (RAPL); memory and mainboard are not in them.
    Packages,
    /// The energy counter of a GPU's board.
    GpuCounter,
    /// The power of a GPU's board, added up over time: it has no counter.
    GpuPower,
}

impl EnergySensor {
    /// What it is, for a reader.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Packages => "counters of the processors' packages (RAPL)",
            Self::GpuCounter => "the energy counter of the GPU (NVML)",
            Self::GpuPower => "the power of the GPU (NVML), added up: it has no energy counter",
        }
    }

    /// The longest time between two updates of what it reads, in nanoseconds: a reading may be so old.
    ///
    /// Counters of packages are updated about once a millisecond (Intel, "Software Developer's Manual",
    /// volume 3B, section "RAPL Interfaces"). What drivers of GPUs tell of power is new every 20 ms on some
    /// cards and every 100 ms on others, A100 and H100 among them (Yang, Adamek and Armour, "Part-time Power
    /// Measurements: nvidia-smi's Lack of Attention", SC '24).
    #[must_use]
    pub const fn updated_ns(self) -> u64 {
        match self {
            Self::Packages => 1_000_000,
            Self::GpuCounter | Self::GpuPower => 100_000_000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_written_by_their_words() {
        for limit in Limit::ALL {
            let written = serde_json::to_value(limit).unwrap();
            assert_eq!(written, limit.word());
        }
    }

    #[test]
    fn a_reading_may_be_as_old_as_the_last_update() {
        let stretch = |sensor| EnergyStretch {
            sensor,
            energy_uj: 3_000_000_000,
            time_ns: 10_000_000_000,
            steps: 100,
            idle_watts: 20.0,
        };
        // 300 W for 100 ms, and for 1 ms; and a thousandth that all counters may hide.
        let blurred = |sensor| stretch(sensor).blurred_joules();
        assert_eq!(blurred(EnergySensor::GpuCounter), 30.0 + 1e-3);
        assert_eq!(blurred(EnergySensor::GpuPower), 30.0 + 1e-3);
        assert_eq!(blurred(EnergySensor::Packages), 0.3 + 1e-3);
        let nothing = EnergyStretch {
            time_ns: 0,
            ..stretch(EnergySensor::Packages)
        };
        assert_eq!(nothing.blurred_joules(), 1e-3);
    }

    #[test]
    fn idle_power_is_subtracted() {
        let stretch = EnergyStretch {
            sensor: EnergySensor::Packages,
            energy_uj: 500_000_000,
            time_ns: 10_000_000_000,
            steps: 100,
            idle_watts: 20.0,
        };
        assert_eq!(stretch.watts(), Some(50.0));
        assert_eq!(stretch.joules_of_step(), Some(3.0));
        let nothing = EnergyStretch {
            time_ns: 0,
            steps: 0,
            ..stretch
        };
        assert_eq!((nothing.watts(), nothing.joules_of_step()), (None, None));
    }
}
