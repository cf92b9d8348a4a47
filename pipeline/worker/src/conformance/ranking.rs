//! Several ranks that one worker starts and speaks for.

use schema::{
    Device, Mode, Situation, Strategy,
    protocol::{Load, Profiling, Reply, Request, StepExchanges},
};

use super::{
    results::parity,
    subject::{Guest, Subject, Trouble, cannot, demand, fail, steps},
};

/// How many ranks share a step.
const RANKS: u32 = 2;

/// Steps that are timed, and whose exchanges are told.
const STEPS: u64 = 3;

pub(super) fn ranks(subject: &Subject<'_>) -> Result<(), Trouble> {
    let variant = subject.engine.variant(subject.variant);
    if !variant.is_some_and(|variant| variant.strategies.contains(&Strategy::Ddp)) {
        let reason = "the variant does not spread training by `ddp`";
        return Err(Trouble::Skip(reason.to_owned()));
    }
    if subject.graph.loss.is_none() || !subject.runs_on(Device::Cpu) {
        let reason = "the network has no loss, or the variant does not run on a CPU";
        return Err(Trouble::Skip(reason.to_owned()));
    }
    let mut guest = subject.start()?;
    let load = load(subject, &guest)?;
    guest.load(load)?;
    let (told, first) = parity(&mut guest, "first")?;
    demand(!told.tensors.is_empty(), || {
        "its ranks tell nothing of a training".to_owned()
    })?;
    let few = steps(1, STEPS);
    guest.measure(few)?;
    let Reply::Memory(memory) = guest.ask(&Request::Memory)? else {
        return fail("something else instead of `memory`");
    };
    demand(memory.other_ranks.len() + 1 == RANKS as usize, || {
        let ranks = memory.other_ranks.len() + 1;
        format!("it tells the memory of {ranks} ranks, and there are {RANKS}")
    })?;
    exchanges(&mut guest)?;
    // Steps are steps again, and nothing is left of them.
    guest.measure(few)?;
    let (again, second) = parity(&mut guest, "second")?;
    demand(first == second && told == again, || {
        "ranks that train from the initial state give other updates the second time".to_owned()
    })?;
    guest.leave()
}

/// The request to load a step of which each rank has the subject's network.
fn load(subject: &Subject<'_>, guest: &Guest) -> Result<Load, Trouble> {
    let mut load = subject.load(Mode::Training, guest)?;
    let cell = &mut load.cell;
    (cell.strategy, cell.world_size) = (Strategy::Ddp, RANKS);
    if let Some(batch) = cell.dims.get_mut("batch") {
        *batch *= u64::from(RANKS);
    }
    if let Some(variant) = subject.engine.variant(subject.variant) {
        cell.factors = variant.defaults(Situation {
            precision: cell.precision,
            mode: cell.mode,
            device: cell.device,
            strategy: cell.strategy,
        });
    }
    Ok(load)
}

/// That times are possible, the supervisor looks at itself.
fn exchanges(guest: &mut Guest) -> Result<(), Trouble> {
    let deadline = guest.deadline();
    let request = Request::Exchanges(Profiling { steps: STEPS });
    match guest.host.request(&request, deadline) {
        Ok(Reply::Exchanges(told)) => {
            let steps = told.ranks.iter().map(Vec::len);
            demand(steps.eq([STEPS as usize; RANKS as usize]), || {
                format!("it does not tell of {STEPS} steps of each of {RANKS} ranks")
            })?;
            let sent = |steps: &Vec<StepExchanges>| steps.iter().map(bytes).collect::<Vec<_>>();
            let all: Vec<Vec<u64>> = told.ranks.iter().map(sent).collect();
            let is_alike = all.iter().all(|rank| Some(rank) == all.first());
            demand(is_alike, || {
                format!("its ranks hand over different numbers of bytes: {all:?}")
            })
        }
        Ok(other) => fail(format!("`{}` instead of `exchanges`", other.name())),
        Err(outcome) => cannot(guest, "exchanges", outcome),
    }
}

/// What a rank hands over in a step.
fn bytes(step: &StepExchanges) -> u64 {
    step.buckets.iter().map(|bucket| bucket.bytes).sum()
}
