//! What steps take of energy.

use std::{
    collections::{BTreeMap, BTreeSet},
    thread,
    time::{Duration, Instant},
};

use schema::{
    Device,
    telemetry::{Energy, EnergyStretch, IDLE_WINDOWS},
};
use telemetry::{Begun, EnergyMeter};
use worker::nanoseconds;

use crate::{context::Context, error::Stop};

/// Idle power is looked at in no more than [`IDLE_WINDOWS`] windows. It has settled where two that follow each other
/// are within this share of the larger: what ran before leaves clocks and fans up for seconds, and a counter that is written ten times in a window is no finer.
const SETTLED: f64 = 0.1;
/// How often it is asked meanwhile whether to go on.
const TICK: Duration = Duration::from_millis(100);

/// The meters of a block's devices, with what the devices draw while nothing of ours runs on them.
pub(crate) struct Meters {
    /// Least length of a stretch.
    length: Duration,
    of: BTreeMap<Device, Result<Ready, String>>,
}

struct Ready {
    meter: EnergyMeter,
    idle_watts: f64,
}

/// A stretch of steps that has begun.
pub(crate) struct Stretch<'a> {
    ready: &'a Ready,
    begun: Begun,
    until: Instant,
    steps: u64,
}

impl Meters {
    /// Measures idle power, before any worker of the block is started, once it has settled on all devices. It
    /// takes no time where no device has a meter.
    pub(crate) fn begin(
        context: &Context<'_>,
        stretch_ns: u64,
        devices: &BTreeSet<Device>,
    ) -> Result<Self, Stop> {
        let length = Duration::from_nanos(stretch_ns);
        let meters = devices.iter().map(|device| {
            let meter = context.options.sensors.energy_meter(*device);
            (*device, meter)
        });
        let meters: Vec<(Device, Result<EnergyMeter, String>)> = meters.collect();
        let window = || -> Result<Vec<Result<f64, String>>, Stop> {
            let begun: Vec<_> = meters.iter().map(|(_, meter)| begin(meter)).collect();
            if begun.iter().any(Result::is_ok) {
                wait(context, length / IDLE_WINDOWS)?;
            }
            Ok(begun.into_iter().map(end).collect())
        };
        let idle = settled(window)?;
        let of = meters.into_iter().zip(idle);
        let of = of.map(|((device, meter), idle)| {
            let ready = meter.and_then(|meter| {
                let idle_watts = idle?;
                Ok(Ready { meter, idle_watts })
            });
            (device, ready)
        });
        Ok(Self {
            length,
            of: of.collect(),
        })
    }

    /// Begins a stretch on a device; the error says why its energy cannot be had.
    pub(crate) fn stretch(&self, device: Device) -> Result<Stretch<'_>, String> {
        let ready = match self.of.get(&device) {
            Some(ready) => ready.as_ref().map_err(Clone::clone)?,
            None => return Err(format!("idle power of {device} was not measured")),
        };
        Ok(Stretch {
            ready,
            begun: ready.meter.begin()?,
            until: Instant::now() + self.length,
            steps: 0,
        })
    }
}

type Window<'a> = Result<(&'a EnergyMeter, Begun), String>;

fn begin(meter: &Result<EnergyMeter, String>) -> Window<'_> {
    let meter = meter.as_ref().map_err(Clone::clone)?;
    Ok((meter, meter.begin()?))
}

/// Mean power of a window, in watts.
fn end(window: Window<'_>) -> Result<f64, String> {
    let (meter, begun) = window?;
    let watts = meter.end(begun)?.watts();
    watts.ok_or_else(|| "idle power was measured for no time at all".to_owned())
}

fn wait(context: &Context<'_>, time: Duration) -> Result<(), Stop> {
    let until = Instant::now() + time;
    while let Some(left) = until.checked_duration_since(Instant::now()) {
        context.check_interrupt()?;
        thread::sleep(left.min(TICK));
    }
    Ok(())
}

/// Idle power by device, as soon as two windows that follow each other agree on all that tell it, or after as many as
/// there may be: their mean, or what one of them says where the other says nothing.
fn settled<E>(
    mut window: impl FnMut() -> Result<Vec<Result<f64, String>>, E>,
) -> Result<Vec<Result<f64, String>>, E> {
    let mut before = window()?;
    for left in (0..IDLE_WINDOWS - 1).rev() {
        let now = window()?;
        let mut pairs = before.iter().zip(&now);
        let agree = pairs.all(|(before, now)| match (before, now) {
            (Ok(before), Ok(now)) => (before - now).abs() <= SETTLED * before.max(*now),
            // Of one that never tells nothing is waited for.
            (Err(_), Err(_)) => true,
            _ => false,
        });
        if agree || left == 0 {
            let both = before.into_iter().zip(now);
            let mean = both.map(|(before, now)| match (before, now) {
                (Ok(before), Ok(now)) => Ok(f64::midpoint(before, now)),
                (Err(_), Ok(told)) | (Ok(told), Err(_)) => Ok(told),
                (Err(_), Err(reason)) => Err(reason),
            });
            return Ok(mean.collect());
        }
        before = now;
    }
    Ok(before)
}

impl Stretch<'_> {
    /// What is left of it; `None` when it is over.
    pub(crate) fn left(&self) -> Option<Duration> {
        let left = self.until.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    /// So many steps were run.
    pub(crate) fn count(&mut self, steps: usize) {
        self.steps = self.steps.saturating_add(steps as u64);
    }

    /// Ends it.
    pub(crate) fn end(self) -> Energy {
        match self.ready.meter.end(self.begun) {
            Ok(taken) => Energy::Measured(EnergyStretch {
                sensor: taken.sensor,
                energy_uj: taken.energy_uj,
                time_ns: nanoseconds(taken.time),
                steps: self.steps,
                idle_watts: self.ready.idle_watts,
            }),
            Err(reason) => Energy::Unavailable(reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Told = Vec<Result<f64, String>>;

    /// What comes of these windows, the last of which goes on, and how many were looked at.
    fn of(windows: &[Told]) -> (Told, usize) {
        let mut count = 0;
        let told = settled(|| {
            let window = windows.get(count).or(windows.last()).cloned();
            count += 1;
            window.ok_or(())
        });
        (told.unwrap(), count)
    }

    #[test]
    fn idle_power_is_taken_once_it_has_settled_on_every_device() {
        let lost = || Err("lost".to_owned());
        assert_eq!(of(&[vec![Ok(60.0)], vec![Ok(64.0)]]), (vec![Ok(62.0)], 2));
        let falling = [
            vec![Ok(90.0)],
            vec![Ok(75.0)],
            vec![Ok(60.0)],
            vec![Ok(58.0)],
        ];
        assert_eq!(of(&falling), (vec![Ok(59.0)], 4));
        let other = [vec![Ok(60.0), Ok(50.0)], vec![Ok(60.0), Ok(40.0)]];
        assert_eq!(of(&other), (vec![Ok(60.0), Ok(40.0)], 3));
        // What never tells is not waited for; what tells nothing for a while is.
        assert_eq!(of(&[vec![lost(), Ok(60.0)]]), (vec![lost(), Ok(60.0)], 2));
        let back = [vec![Ok(60.0)], vec![lost()], vec![Ok(60.0)]];
        assert_eq!(of(&back), (vec![Ok(60.0)], 4));
        // Nor for ever.
        let windows: Vec<Told> = (0..20).map(|at| vec![Ok([60.0, 90.0][at % 2])]).collect();
        assert_eq!(of(&windows), (vec![Ok(75.0)], IDLE_WINDOWS as usize));
    }
}
