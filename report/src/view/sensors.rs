//! What sensors told of a cell.

use schema::{
    tables::{CellEnergy, CellRow, EnergyFigures},
    telemetry::{GpuTelemetry, Telemetry},
};
use serde::Serialize;

use crate::{
    interval::{self, Estimate},
    units,
    words::{Fact, fact},
};

/// Energy of a cell, where it was asked for.
#[derive(Debug, Serialize)]
pub(crate) struct EnergyView {
    /// Of a sample; absent where there is none.
    pub(crate) joules: Option<Estimate>,
    pub(crate) joules_value: Option<f64>,
    pub(crate) power: String,
    pub(crate) power_value: Option<f64>,
    /// Why there is none; empty where there is.
    pub(crate) reason: String,
    pub(crate) facts: Vec<Fact>,
}

/// Energy of a cell; `None` where it was not asked for, or the cell has no speed.
pub(crate) fn energy(row: &CellRow) -> Option<EnergyView> {
    Some(match row.energy.as_ref()? {
        CellEnergy::Measured(figures) => measured(figures),
        CellEnergy::Unavailable(reason) => EnergyView {
            joules: None,
            joules_value: None,
            power: units::NOTHING.to_owned(),
            power_value: None,
            reason: reason.clone(),
            facts: Vec::new(),
        },
    })
}

fn measured(figures: &EnergyFigures) -> EnergyView {
    let watts = interval::power(&figures.watts);
    let mut facts = vec![
        fact(
            "Power, idle power included",
            format!("{} {}", watts.centre, watts.range),
        ),
        fact("Idle power, subtracted", units::watts(figures.idle_watts)),
        fact("Measured by", figures.sensor.words()),
    ];
    facts.extend(
        figures
            .left_out
            .as_ref()
            .map(|reason| fact("Blocks without it", format!("among the reasons: {reason}"))),
    );
    let none = "in a block it took no more than idling does";
    EnergyView {
        joules: figures.joules.as_ref().map(interval::energy),
        joules_value: figures.joules.map(|joules| joules.centre),
        power: watts.centre,
        power_value: Some(figures.watts.centre),
        reason: figures.joules.map_or(none, |_| "").to_owned(),
        facts,
    }
}

/// What sensors told while its rounds ran.
pub(crate) fn told(row: &CellRow) -> Vec<Fact> {
    let Some(told) = &row.telemetry else {
        return Vec::new();
    };
    let mut facts = of_machine(told);
    facts.extend(told.gpu.iter().flat_map(of_gpu));
    let lacking = told.unavailable.iter();
    facts.extend(
        lacking.map(|(sensor, reason)| fact(capitalised(sensor), format!("unavailable: {reason}"))),
    );
    facts.push(fact(
        "Looks at the sensors",
        units::count(told.looks.into()),
    ));
    facts
}

fn of_machine(told: &Telemetry) -> Vec<Fact> {
    let share = |name: &str, share: f64| fact(name, units::percent(share));
    let facts = [
        told.cpu_mhz
            .map(|mhz| fact("Clock of the processors", units::megahertz(mhz))),
        told.worker_cpus.map(|cpus| {
            fact(
                "Processors that the worker kept busy",
                units::fixed(cpus, 2),
            )
        }),
        told.busy
            .map(|busy| share("Processors busy, all processes", busy)),
        told.steal
            .map(|steal| share("Taken by a hypervisor", steal)),
        told.throttled
            .map(|held| share("Held back by a quota of processors", held)),
        told.package_watts
            .map(|watts| fact("Power of the processors", units::watts(watts))),
    ];
    facts.into_iter().flatten().collect()
}

fn of_gpu(gpu: &GpuTelemetry) -> Vec<Fact> {
    let facts = [
        gpu.watts
            .map(|watts| fact("Power of the GPU", units::watts(watts))),
        gpu.sm_mhz
            .map(|mhz| fact("Clock of the GPU", units::megahertz(mhz))),
        gpu.memory_mhz
            .map(|mhz| fact("Clock of its memory", units::megahertz(mhz))),
        gpu.celsius.map(|celsius| {
            fact(
                "Its highest temperature",
                format!("{} °C", units::fixed(celsius, 0)),
            )
        }),
        gpu.utilisation
            .map(|share| fact("Time in which a kernel ran", units::percent(share))),
        gpu.memory_bytes
            .map(|bytes| fact("Its memory in use, by all", units::bytes(bytes))),
        gpu.worker_bytes
            .map(|bytes| fact("Of that by the worker", units::bytes(bytes))),
    ];
    let limited = gpu.limited.iter().map(|(limit, share)| {
        let share = units::percent(*share);
        fact(
            "Its clocks kept down",
            format!("by {}, at {share} of the looks at its work", limit.words()),
        )
    });
    let foreign = gpu.foreign.iter().map(|(name, share)| {
        let used = share.map_or_else(
            || format!("{name}, by how much is not told"),
            |share| format!("{name}, {} of it", units::percent(share)),
        );
        fact("Others on it", used)
    });
    let facts = facts.into_iter().flatten();
    facts.chain(limited).chain(foreign).collect()
}

fn capitalised(text: &str) -> String {
    let mut rest = text.chars();
    let first = rest.next().map(char::to_uppercase);
    first.into_iter().flatten().chain(rest).collect()
}
