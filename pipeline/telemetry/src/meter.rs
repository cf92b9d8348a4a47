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
use schema::{Device, telemetry::EnergySensor};

use crate::{
    rapl::{Counters, Rapl},
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
    /// Mean power in watts; 0 for a stretch without length.
    #[must_use]
    pub fn watts(&self) -> f64 {
        let seconds = self.time.as_secs_f64();
        if seconds > 0.0 {
            self.energy_uj as f64 / 1e6 / seconds
        } else {
            0.0
        }
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
        let power = || gpu.power_usage();
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
                let add = move || add_up(&nvml, index, || ended.recv_timeout(TICK));
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
    /// A sensor that no longer tells, or a counter that was set back.
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
                (EnergySensor::GpuCounter, taken.saturating_mul(1000))
            }
            (_, Reading::Adding(end, thread)) => {
                drop(end);
                let joules = thread.join().map_err(|_| "adding up power failed")?;
                let joules = joules.map_err(|error| told(&error))?;
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

/// The area below the power, by trapezoids, in joules, until somebody ends it.
fn add_up(
    nvml: &Nvml,
    index: u32,
    wait: impl Fn() -> Result<(), RecvTimeoutError>,
) -> Result<f64, NvmlError> {
    let gpu = nvml.device_by_index(index)?;
    let watts = || Ok::<_, NvmlError>(f64::from(gpu.power_usage()?) / 1e3);
    let (mut at, mut power, mut joules) = (Instant::now(), watts()?, 0.0);
    loop {
        let goes_on = matches!(wait(), Err(RecvTimeoutError::Timeout));
        let (now, next) = (Instant::now(), watts()?);
        joules += (power + next) / 2.0 * now.duration_since(at).as_secs_f64();
        (at, power) = (now, next);
        if !goes_on {
            return Ok(joules);
        }
    }
}

fn told(error: &NvmlError) -> String {
    format!("the GPU does not tell its energy: {error}")
}
