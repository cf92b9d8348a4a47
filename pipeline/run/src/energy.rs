//! What steps take of energy.

use std::{
    collections::{BTreeMap, BTreeSet},
    thread,
    time::{Duration, Instant},
};

use schema::{
    Device,
    telemetry::{Energy, EnergyStretch},
};
use telemetry::{Begun, EnergyMeter};
use worker::nanoseconds;

use crate::{context::Context, error::Stop};

/// Idle power is measured in windows of this part of a stretch, and in as many of them at most.
const WINDOWS: u32 = 10;
/// It has settled where two windows that follow each other are within this share of the larger: what ran before
/// leaves clocks and fans up for seconds.
const SETTLED: f64 = 0.05;
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
    /// Measures idle power, before any worker of the block is started: that of the last window, once it has
    /// settled on all devices. It takes no time where no device has a meter.
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
        let mut idle: Vec<Result<f64, String>> = Vec::new();
        let has_meters = meters.iter().any(|(_, meter)| meter.is_ok());
        for _ in 0..if has_meters { WINDOWS } else { 1 } {
            let before = idle;
            let begun: Vec<_> = meters.iter().map(|(_, meter)| begin(meter)).collect();
            if has_meters {
                wait(context, length / WINDOWS)?;
            }
            idle = begun.into_iter().map(end).collect();
            if have_settled(&before, &idle) {
                break;
            }
        }
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

/// Whether idle power is what it was a window before, of all devices that told it both times. Of one that does
/// not tell it nothing is waited for.
fn have_settled(before: &[Result<f64, String>], now: &[Result<f64, String>]) -> bool {
    let mut pairs = before.iter().zip(now);
    before.len() == now.len()
        && pairs.all(|(before, now)| match (before, now) {
            (Ok(before), Ok(now)) => (before - now).abs() <= SETTLED * before.max(*now),
            (_, Err(_)) => true,
            (Err(_), Ok(_)) => false,
        })
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

    #[test]
    fn idle_power_has_settled_where_two_windows_agree_on_every_device() {
        let gone = || Err("lost".to_owned());
        let settled =
            |before: &[Result<f64, String>], now: &[Result<f64, String>]| have_settled(before, now);
        assert!(!settled(&[], &[Ok(60.0)]));
        assert!(!settled(&[Ok(90.0)], &[Ok(60.0)]));
        assert!(settled(&[Ok(62.0)], &[Ok(60.0)]));
        assert!(settled(&[Ok(0.0)], &[Ok(0.0)]));
        assert!(!settled(&[Ok(62.0), Ok(50.0)], &[Ok(60.0), Ok(40.0)]));
        assert!(settled(&[Ok(62.0), Ok(50.0)], &[Ok(60.0), gone()]));
        assert!(!settled(&[gone()], &[Ok(60.0)]));
    }
}
