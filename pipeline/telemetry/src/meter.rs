//! Measuring the energy of a stretch of time.

use std::{
    sync::{
        Arc,
        mpsc::{RecvTimeoutError, Sender, channel},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use nvml_wrapper::{Nvml, error::NvmlError};
use schema::{
    Device,
    telemetry::{EnergySensor, mean_watts},
};

use crate::{
    gpu,
    rapl::{Counters, Rapl, is_possible},
    sensors::Sensors,
};

/// How often power is looked at where it has to be added up.
const TICK: Duration = Duration::from_millis(100);

/// Measures the energy that a device takes.
#[derive(Debug)]
pub struct EnergyMeter(Source);

#[derive(Debug)]
enum Source {
    Packages(Rapl),
    /// The card of this number has a counter.
    Counter(Arc<Nvml>, u32),
    /// It tells its power.
    Power(Arc<Nvml>, u32),
}

/// A stretch that has begun.
#[derive(Debug)]
pub struct Begun {
    since: Instant,
    reading: Reading,
}

#[derive(Debug)]
enum Reading {
    Packages(Counters),
    Millijoules(u64),
    Adding(Sender<()>, JoinHandle<Result<f64, NvmlError>>),
}

/// Energy of a stretch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// What measured it.
    pub sensor: EnergySensor,
    /// Energy in microjoules.
    pub energy_uj: u64,
    /// Length of the stretch.
    pub time: Duration,
}

impl Taken {
    /// Mean power in watts; `None` for a stretch without length.
    #[must_use]
    pub fn watts(&self) -> Option<f64> {
        let time_ns = u64::try_from(self.time.as_nanos()).ok()?;
        mean_watts(self.energy_uj, time_ns)
    }
}

impl Sensors {
    /// What measures the energy of a device.
    ///
    /// # Errors
    /// Why nothing does, and what to do.
    pub fn energy_meter(&self, device: Device) -> Result<EnergyMeter, String> {
        let Device::Cuda(cuda) = device else {
            return Rapl::open(&self.probe).map(|rapl| EnergyMeter(Source::Packages(rapl)));
        };
        let (nvml, index) = self.card(cuda)?;
        let gpu = nvml.device_by_index(index).map_err(|error| told(&error))?;
        let counter = gpu.total_energy_consumption();
        let power = || gpu::power_mw(&gpu);
        let source = match (counter, power) {
            (Ok(_), _) => Source::Counter(Arc::clone(&nvml), index),
            (Err(_), power) if power().is_ok() => Source::Power(Arc::clone(&nvml), index),
            (Err(error), _) => {
                return Err(format!("{device} tells neither energy nor power: {error}"));
            }
        };
        Ok(EnergyMeter(source))
    }
}

impl EnergyMeter {
    /// Begins a stretch.
    ///
    /// # Errors
    /// A sensor that no longer tells.
    pub fn begin(&self) -> Result<Begun, String> {
        let reading = match &self.0 {
            Source::Packages(rapl) => Reading::Packages(rapl.read()?),
            Source::Counter(nvml, index) => {
                Reading::Millijoules(millijoules(nvml, *index).map_err(|error| told(&error))?)
            }
            Source::Power(nvml, index) => {
                let (nvml, index) = (Arc::clone(nvml), *index);
                let (end, ended) = channel();
                let add = move || {
                    let gpu = nvml.device_by_index(index)?;
                    let watts = || Ok(f64::from(gpu::power_mw(&gpu)?) / 1e3);
                    let began = Instant::now();
                    let wait =
                        || matches!(ended.recv_timeout(TICK), Err(RecvTimeoutError::Timeout));
                    mean_power(watts, || began.elapsed(), wait)
                };
                let thread = thread::Builder::new().name("power".to_owned()).spawn(add);
                let thread = thread.map_err(|error| format!("cannot add up power: {error}"))?;
                Reading::Adding(end, thread)
            }
        };
        Ok(Begun {
            since: Instant::now(),
            reading,
        })
    }

    /// Ends a stretch that it has begun.
    ///
    /// # Errors
    /// A sensor that no longer tells, or a counter that was set back, or beyond what a device can take.
    pub fn end(&self, begun: Begun) -> Result<Taken, String> {
        let (sensor, energy_uj) = match (&self.0, begun.reading) {
            (Source::Packages(rapl), Reading::Packages(before)) => {
                let after = rapl.read()?;
                let taken = rapl.between(&before, &after, begun.since.elapsed())?;
                (EnergySensor::Packages, taken)
            }
            (Source::Counter(nvml, index), Reading::Millijoules(before)) => {
                let after = millijoules(nvml, *index).map_err(|error| told(&error))?;
                let taken = after
                    .checked_sub(before)
                    .ok_or("the GPU's energy counter was set back: its driver was loaded anew")?;
                let taken = taken.saturating_mul(1000);
                if !is_possible(taken, begun.since.elapsed()) {
                    let why = "the GPU's energy counter jumped by more than a GPU can take: it \
                               was set elsewhere";
                    return Err(why.to_owned());
                }
                (EnergySensor::GpuCounter, taken)
            }
            (_, Reading::Adding(end, thread)) => {
                drop(end);
                let watts = thread.join().map_err(|_| "adding up power failed")?;
                let watts = watts.map_err(|error| told(&error))?;
                // It was looked at a moment longer than the stretch, or shorter.
                let joules = watts * begun.since.elapsed().as_secs_f64();
                (EnergySensor::GpuPower, (joules * 1e6) as u64)
            }
            _ => return Err("another meter began it".to_owned()),
        };
        Ok(Taken {
            sensor,
            energy_uj,
            time: begun.since.elapsed(),
        })
    }
}

fn millijoules(nvml: &Nvml, index: u32) -> Result<u64, NvmlError> {
    nvml.device_by_index(index)?.total_energy_consumption()
}

/// The mean power in watts, by trapezoids, for as long as waiting for the next look says so.
fn mean_power(
    watts: impl Fn() -> Result<f64, NvmlError>,
    clock: impl Fn() -> Duration,
    wait: impl Fn() -> bool,
) -> Result<f64, NvmlError> {
    let began = clock();
    let (mut at, mut power, mut joules) = (began, watts()?, 0.0);
    loop {
        let goes_on = wait();
        let (now, next) = (clock(), watts()?);
        joules += f64::midpoint(power, next) * now.saturating_sub(at).as_secs_f64();
        (at, power) = (now, next);
        if !goes_on {
            let seconds = now.saturating_sub(began).as_secs_f64();
            return Ok(if seconds > 0.0 {
                joules / seconds
            } else {
                power
            });
        }
    }
}

fn told(error: &NvmlError) -> String {
    format!("the GPU does not tell its energy: {error}")
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn power_is_added_up_by_trapezoids_to_the_end() {
        // Seconds and watts of each look; the third is the last.
        let looks = [(0_u64, 10.0), (1, 20.0), (3, 40.0), (9, 1000.0)];
        let (looked, waited) = (Cell::new(0), Cell::new(0));
        let watts = || {
            looked.set(looked.get() + 1);
            Ok(looks[looked.get() - 1].1)
        };
        let clock = || Duration::from_secs(looks[looked.get()].0);
        let wait = || {
            waited.set(waited.get() + 1);
            waited.get() < 2
        };
        let watts = mean_power(watts, clock, wait).unwrap();
        assert!((watts - 75.0 / 3.0).abs() < 1e-9, "{watts}");
    }

    #[test]
    fn no_time_has_no_power() {
        let taken = |millis| Taken {
            sensor: EnergySensor::GpuPower,
            energy_uj: 6_000_000,
            time: Duration::from_millis(millis),
        };
        assert_eq!((taken(0).watts(), taken(2000).watts()), (None, Some(3.0)));
    }
}
