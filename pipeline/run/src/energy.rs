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

/// Idle power is measured for this part of the time that steps are.
const IDLE_PART: u32 = 5;
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
    /// Measures idle power, before any worker of the block is started. It takes no time where no device has
    /// a meter.
    pub(crate) fn begin(
        context: &Context<'_>,
        stretch_ns: u64,
        devices: &BTreeSet<Device>,
    ) -> Result<Self, Stop> {
        let length = Duration::from_nanos(stretch_ns);
        let mut begun = BTreeMap::new();
        for device in devices {
            let meter = context.options.sensors.energy_meter(*device);
            let idle = meter.and_then(|meter| Ok((meter.begin()?, meter)));
            begun.insert(*device, idle);
        }
        if begun.values().any(Result::is_ok) {
            let until = Instant::now() + length / IDLE_PART;
            while let Some(left) = until.checked_duration_since(Instant::now()) {
                context.check_interrupt()?;
                thread::sleep(left.min(TICK));
            }
        }
        let end = |begun: Result<(Begun, EnergyMeter), String>| {
            let (idle, meter) = begun?;
            let idle_watts = meter.end(idle)?.watts();
            let idle_watts = idle_watts.ok_or("idle power was measured for no time at all")?;
            Ok(Ready { meter, idle_watts })
        };
        let of = begun.into_iter();
        Ok(Self {
            length,
            of: of.map(|(device, begun)| (device, end(begun))).collect(),
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
