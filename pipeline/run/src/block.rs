//! A block: every cell that can be launched, launched once, its rounds interleaved with the
//! others'.

use std::{collections::BTreeSet, sync::Arc};

use schema::{Device, Strategy, machine::Load, record::Block};
use store::now;
use telemetry::Sampler;
use worker::census;

use crate::{
    Event, Phase, canary,
    context::{Context, Setting},
    disturbance::{self, Seen, Watch},
    energy::Meters,
    error::Stop,
    gpu,
    lane::{Lane, Meter},
    order::Orders,
};

/// Measures one block over these slots.
pub(crate) fn measure(
    context: &mut Context<'_>,
    setting: &Setting<'_>,
    index: u32,
    slots: &[u32],
) -> Result<Block, Stop> {
    let started = now();
    let limits = setting.header.measure.disturbance;
    let watch = limits.map(|limits| (limits, Watch::begin()));
    let load_before = telemetry::load();
    let devices = devices(setting, slots);
    let stretch_ns = setting.header.measure.energy_ns;
    let energy = stretch_ns.map(|stretch_ns| Meters::begin(context, stretch_ns, &devices));
    let energy = energy.transpose()?;
    let canary_before = canary::sing();
    let mut orders = Orders::of_block(setting.header.seed, index);
    let mut lanes: Vec<Lane<'_>> = slots
        .iter()
        .filter_map(|slot| Some(Lane::new(*slot, setting.header.cells.get(*slot as usize)?)))
        .collect();
    orders.shuffle(&mut lanes);
    let limit = memory_limit(setting, &load_before);
    let sampler = Sampler::start(&context.options.sensors, &devices, Arc::new(whose));
    let mut meter = Meter {
        supervisor_ns: 0,
        measuring_ns: 0,
        rounds: Seen::default(),
        sampler,
        energy,
    };
    let alone = alone(setting, slots, &load_before);
    if let Some(reason) = &alone {
        context.tell(&Event::Note { text: reason });
    }
    // One that is alone on a GPU is not stopped between its rounds: the device would come to rest.
    if alone.is_some() || !devices.iter().all(|device| device.is_cpu()) {
        one_at_a_time(context, setting, &mut lanes, limit, &mut meter)?;
    } else {
        together(context, setting, &mut lanes, &mut orders, limit, &mut meter)?;
    }
    context.check_interrupt()?;
    let canary_after = canary::sing();
    let load_after = telemetry::load();
    let seen = meter.sampler.end();
    let disturbed = watch.and_then(|(limits, watch)| {
        let watched = watch.end(&limits, &load_before, &load_after);
        watched
            .or_else(|| meter.rounds.disturbed(&limits))
            .or_else(|| gpu::disturbed(&seen, &limits))
    });
    let mut block = Block {
        index,
        started,
        canary_before,
        canary_after,
        alone,
        disturbed,
        load_before,
        load_after,
        supervisor_ns: meter.supervisor_ns,
        measuring_ns: meter.measuring_ns,
        launches: lanes
            .into_iter()
            .map(|lane| lane.into_launch(Some(&seen)))
            .collect(),
    };
    disturbance::mark(&mut block);
    Ok(block)
}

/// The devices that these slots run on.
fn devices(setting: &Setting<'_>, slots: &[u32]) -> BTreeSet<Device> {
    let cells = slots.iter();
    let cells = cells.filter_map(|slot| setting.header.cells.get(*slot as usize));
    cells.map(|planned| planned.cell.device).collect()
}

/// Whose the process of this number is, for who looks at a GPU.
fn whose(pid: u32) -> telemetry::Owner {
    match census::owner(pid) {
        census::Owner::Ours => telemetry::Owner::Ours,
        census::Owner::Other(name) => telemetry::Owner::Other(name),
        census::Owner::Nobody => telemetry::Owner::Unknown,
    }
}

/// All workers alive at the same time, all but one of them stopped.
fn together(
    context: &mut Context<'_>,
    setting: &Setting<'_>,
    lanes: &mut [Lane<'_>],
    orders: &mut Orders,
    limit: Option<u64>,
    meter: &mut Meter,
) -> Result<(), Stop> {
    for lane in &mut *lanes {
        context.check_interrupt()?;
        lane.prepare(context, setting, limit)?;
        lane.pause(context)?;
    }
    let (rounds, mut sequence) = (setting.header.measure.rounds.max(1), 0);
    let mut turns: Vec<usize> = (0..lanes.len()).collect();
    for round in 0..rounds {
        // Shuffled over all lanes, dead ones too: the schedule does not depend on who fails.
        orders.shuffle(&mut turns);
        for turn in &turns {
            let Some(lane) = lanes.get_mut(*turn).filter(|lane| lane.is_running()) else {
                continue;
            };
            context.check_interrupt()?;
            announce(context, lane, round, rounds);
            lane.resume(context)?;
            lane.round(context, setting, sequence, meter)?;
            lane.pause(context)?;
            sequence += 1;
        }
    }
    for lane in lanes {
        lane.resume(context)?;
        lane.energy(context, setting, meter)?;
        lane.leave(context, setting)?;
    }
    Ok(())
}

/// One worker alive at any time; its rounds run back to back.
fn one_at_a_time(
    context: &mut Context<'_>,
    setting: &Setting<'_>,
    lanes: &mut [Lane<'_>],
    limit: Option<u64>,
    meter: &mut Meter,
) -> Result<(), Stop> {
    let (rounds, mut sequence) = (setting.header.measure.rounds.max(1), 0);
    for lane in lanes {
        context.check_interrupt()?;
        lane.prepare(context, setting, limit)?;
        for round in 0..rounds {
            if !lane.is_running() {
                break;
            }
            context.check_interrupt()?;
            announce(context, lane, round, rounds);
            lane.round(context, setting, sequence, meter)?;
            sequence += 1;
        }
        lane.energy(context, setting, meter)?;
        lane.leave(context, setting)?;
    }
    Ok(())
}

fn announce(context: &mut Context<'_>, lane: &Lane<'_>, round: u32, of: u32) {
    context.tell(&Event::Launch {
        cell: lane.cell(),
        phase: Phase::Measure { round, of },
    });
}

/// Why the workers of this block cannot be alive together; `None` if they can.
fn alone(setting: &Setting<'_>, slots: &[u32], load: &Load) -> Option<String> {
    let cells = || {
        slots
            .iter()
            .filter_map(|slot| setting.header.cells.get(*slot as usize))
    };
    if slots.len() < 2 {
        return None;
    }
    if cells().any(|planned| !planned.cell.device.is_cpu()) {
        return Some("a device takes one worker at a time: rounds are not interleaved".to_owned());
    }
    if cells().any(|planned| planned.cell.strategy == Strategy::Ddp) {
        return Some("ranks that exchange are not stopped: rounds are not interleaved".to_owned());
    }
    let needed = cells().fold(0_u64, |sum, planned| {
        sum.saturating_add(planned.predicted_bytes)
    });
    // A fifth stays free: predictions are rough, and a swapping machine measures nothing.
    let usable = load.available_memory_bytes / 5 * 4;
    (needed > usable).then(|| {
        format!(
            "workers run one at a time: together they would need about {} MiB, and {} MiB are available",
            needed >> 20,
            load.available_memory_bytes >> 20
        )
    })
}

/// The memory limit of each worker: the manifest's, or what keeps the machine from running out.
pub(crate) fn memory_limit(setting: &Setting<'_>, load: &Load) -> Option<u64> {
    let available = load.available_memory_bytes / 10 * 9;
    setting
        .header
        .measure
        .memory_limit_bytes
        .or((available > 0).then_some(available))
}
