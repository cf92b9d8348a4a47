//! The timing boundary `device`: the device's own clock tells the samples, the host's all else.

use std::time::{Duration, Instant};

use schema::{
    Boundary, Device, Mode, OutcomeKind,
    protocol::{Measure, Request, TensorInfo},
};

use super::{
    results::parity,
    subject::{Guest, Subject, Trouble, demand, fail},
};

/// Of the machine's GPUs, the first.
const GPU: Device = Device::Cuda(0);

/// How many times as long as by the device's clock a step may take by the host's.
const LAUNCHING: u64 = 100;
/// How many times as long it may take in one launch as in another: a busy machine is late with work for
/// the device, and events are apart meanwhile.
const ELSEWHEN: u64 = 10;

pub(super) fn device(subject: &Subject<'_>) -> Result<(), Trouble> {
    let boundaries = subject.boundaries();
    if !boundaries.contains(&Boundary::Device) || !boundaries.contains(&Boundary::Step) {
        let reason = "the variant is not timed at the boundaries `step` and `device`";
        return Err(Trouble::Skip(reason.to_owned()));
    }
    if subject.runs_on(Device::Cpu) {
        refuses_a_cpu(subject)?;
    }
    if !subject.runs_on(GPU) {
        return Err(Trouble::Skip("the variant runs on no GPU".to_owned()));
    }
    for mode in [Mode::Inference, Mode::Training] {
        if !subject.can(mode) || mode == Mode::Training && subject.graph.loss.is_none() {
            continue;
        }
        let by_device = Timed::at(Boundary::Device, subject, mode)?;
        let by_host = Timed::at(Boundary::Step, subject, mode)?;
        demand(by_device.told == by_host.told, || {
            format!("{mode} gives other tensors at the boundary `device` than at `step`")
        })?;
        by_device.is_part_of(&by_host)?;
    }
    Ok(())
}

fn refuses_a_cpu(subject: &Subject<'_>) -> Result<(), Trouble> {
    let mut guest = subject.start()?;
    match load(
        subject,
        &mut guest,
        subject.first_mode(),
        Device::Cpu,
        Boundary::Device,
    )? {
        Ok(()) => fail("it times steps on the CPU at the boundary `device`, which has no events"),
        Err((OutcomeKind::Unsupported, _)) => guest.leave(),
        Err((kind, reason)) => fail(format!(
            "the boundary `device` on the CPU is failed as `{kind}`, not as `unsupported`: {reason}"
        )),
    }
}

/// Loads the network, or tells how the worker, which lives on, says that it does not.
fn load(
    subject: &Subject<'_>,
    guest: &mut Guest,
    mode: Mode,
    device: Device,
    boundary: Boundary,
) -> Result<Result<(), (OutcomeKind, String)>, Trouble> {
    let mut load = subject.load_on(device, mode, guest)?;
    load.cell.boundary = boundary;
    guest.make_scratch(&load)?;
    let deadline = guest.deadline();
    match guest.host.request(&Request::Load(Box::new(load)), deadline) {
        Ok(_) => Ok(Ok(())),
        Err(outcome) if guest.host.is_alive() => Ok(Err((outcome.kind, outcome.reason))),
        Err(outcome) => Err(outcome.into()),
    }
}

/// What a network on the GPU gives, and how long its steps take.
struct Timed {
    told: Vec<TensorInfo>,
    shortest_ns: u64,
    longest_ns: u64,
}

impl Timed {
    fn at(boundary: Boundary, subject: &Subject<'_>, mode: Mode) -> Result<Self, Trouble> {
        const TIME: Duration = Duration::from_millis(50);
        let most = Measure {
            discard: 3,
            min_steps: 7,
            min_ns: 50_000_000,
            max_steps: 2_000_000,
        };
        let mut guest = subject.start()?;
        match load(subject, &mut guest, mode, GPU, boundary)? {
            Ok(()) => {}
            Err((OutcomeKind::Unavailable, reason)) => {
                return Err(Trouble::Skip(format!("{GPU}: {reason}")));
            }
            Err((kind, reason)) => return fail(format!("{kind} on {GPU}: {reason}")),
        }
        let (outputs, _) = parity(&mut guest, "outputs")?;
        let start = Instant::now();
        let samples = guest.measure(most)?;
        let enough = start.elapsed() >= TIME || samples.len() as u64 == most.max_steps;
        demand(enough, || {
            format!(
                "{} samples at the boundary `{boundary}` before {} ms were over",
                samples.len(),
                TIME.as_millis()
            )
        })?;
        guest.leave()?;
        Ok(Self {
            told: outputs.tensors,
            shortest_ns: samples.iter().copied().min().unwrap_or(0),
            longest_ns: samples.iter().copied().max().unwrap_or(0),
        })
    }

    /// By the device's clock a step is not much longer than by the host's, and not next to nothing.
    fn is_part_of(&self, by_host: &Self) -> Result<(), Trouble> {
        let is_part = self.shortest_ns <= by_host.longest_ns.saturating_mul(ELSEWHEN)
            && self.longest_ns.saturating_mul(LAUNCHING) >= by_host.shortest_ns;
        demand(is_part, || {
            format!(
                "a step takes {} to {} ns by the clock of the device, and {} to {} ns by the host's",
                self.shortest_ns, self.longest_ns, by_host.shortest_ns, by_host.longest_ns
            )
        })
    }
}
