//! How a GPU is set up: what changes its speed and is somebody's choice.

use nvml_wrapper::enum_wrappers::device::Clock;
use schema::Device;

use crate::sensors::Sensors;

/// How a GPU is set up. What the driver does not tell is absent.
#[derive(Debug, Clone, PartialEq)]
pub struct GpuState {
    /// Which.
    pub device: Device,
    /// Whether the driver stays with it while nothing runs.
    pub persistent: Option<bool>,
    /// The clock of its multiprocessors that applications ask for.
    pub clock: Option<ClockSetting>,
    /// Its power limit in watts, and the one that it has by default.
    pub limit_watts: Option<(f64, f64)>,
    /// Numbers of the processes that compute on it; `None`: not told.
    pub processes: Option<Vec<u32>>,
}

/// A clock in MHz: what is set, the default, and the highest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockSetting {
    /// What is set.
    pub set_mhz: u32,
    /// What is set where nobody set anything.
    pub default_mhz: u32,
    /// The highest that it can have.
    pub most_mhz: u32,
}

impl Sensors {
    /// How the GPUs are set up that this process may use, in CUDA's order.
    #[must_use]
    pub fn gpus(&self) -> Vec<GpuState> {
        let count = self.nvml().ok().and_then(|nvml| nvml.device_count().ok());
        let states = (0..count.unwrap_or(0)).filter_map(|cuda| self.state(cuda));
        states.collect()
    }

    fn state(&self, cuda: u32) -> Option<GpuState> {
        let (nvml, index) = self.card(cuda).ok()?;
        let card = nvml.device_by_index(index).ok()?;
        let clock = || {
            Some(ClockSetting {
                set_mhz: card.applications_clock(Clock::SM).ok()?,
                default_mhz: card.default_applications_clock(Clock::SM).ok()?,
                most_mhz: card.max_clock_info(Clock::SM).ok()?,
            })
        };
        let watts = |milliwatts: u32| f64::from(milliwatts) / 1e3;
        let limit = || {
            let limit = card.power_management_limit().ok()?;
            let default = card.power_management_limit_default().ok()?;
            Some((watts(limit), watts(default)))
        };
        let processes = card.running_compute_processes().ok();
        Some(GpuState {
            device: Device::Cuda(cuda),
            persistent: card.is_in_persistent_mode().ok(),
            clock: clock(),
            limit_watts: limit(),
            processes: processes
                .map(|found| found.into_iter().map(|process| process.pid).collect()),
        })
    }
}
