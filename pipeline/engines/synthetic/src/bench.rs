//! What the harness itself costs a step.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use models::zoo;
use nix::sys::{
    resource::{UsageWho, getrusage},
    time::{TimeVal, TimeValLike},
};
use schema::{
    Cell, EngineVariant, Outcome,
    protocol::{Load, Measure, Reply, Request, WarmUp},
};
use worker::{
    WorkerCommand,
    host::{Host, Interrupt, Limits},
};

const FEW_STEPS: u64 = 100_000;
const MANY_STEPS: u64 = 2_100_000;
const REPEATS: usize = 5;

/// Runs an engine that does nothing, and says what is left of a step.
pub(crate) fn run() -> Result<String, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let command = WorkerCommand {
        program,
        args: Vec::new(),
        env: BTreeMap::new(),
    };
    let interrupt = Interrupt::new().map_err(|error| error.to_string())?;
    let mut host =
        Host::start(&command, &Limits::default(), &interrupt).map_err(|outcome| outcome.reason)?;
    let costs_ns = costs(&mut host).map_err(|outcome| outcome.reason)?;
    let share = supervisor_share(&mut host).map_err(|outcome| outcome.reason)?;
    let _ = host.finish(soon());
    let median = |values: &mut Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
    };
    let (mut whole, mut sample): (Vec<_>, Vec<_>) = costs_ns.into_iter().unzip();
    Ok(format!(
        "the harness costs {:.0} ns a step, its sample's way to the supervisor included; a sample \
         of a step that does nothing is {:.0} ns (medians of {REPEATS}, {MANY_STEPS} steps); the supervisor takes {:.3} % of a processor \
         while its worker measures",
        median(&mut whole),
        median(&mut sample),
        share * 100.0
    ))
}

/// Pairs: the whole cost of a step, from the difference between many steps and few, and the
/// median sample.
fn costs(host: &mut Host) -> Result<Vec<(f64, f64)>, Outcome> {
    host.hello(soon())?;
    host.request(&Request::Load(Box::new(load()?)), soon())?;
    (0..REPEATS)
        .map(|_| {
            let (few, _) = measure(host, FEW_STEPS)?;
            let (many, mut samples_ns) = measure(host, MANY_STEPS)?;
            samples_ns.sort_unstable();
            let sample_ns = samples_ns
                .get(samples_ns.len() / 2)
                .copied()
                .unwrap_or_default();
            let difference_ns = many.saturating_sub(few).as_nanos() as f64;
            Ok((
                difference_ns / (MANY_STEPS - FEW_STEPS) as f64,
                sample_ns as f64,
            ))
        })
        .collect()
}

/// Processor time of this process while the worker is busy, as a share of that time.
fn supervisor_share(host: &mut Host) -> Result<f64, Outcome> {
    let busy = Request::WarmUp(WarmUp {
        min_steps: 0,
        max_ns: 5_000_000_000,
        // Never steady, so that it takes its whole time, and its answer is short.
        tolerance: f64::MIN,
    });
    let (start, before) = (Instant::now(), processor_time());
    host.request(&busy, soon())?;
    let spent = processor_time().saturating_sub(before);
    Ok(spent.as_secs_f64() / start.elapsed().as_secs_f64())
}

fn processor_time() -> Duration {
    let spent = |time: TimeVal| {
        let microseconds = u64::try_from(time.num_microseconds()).unwrap_or(0);
        Duration::from_micros(microseconds)
    };
    getrusage(UsageWho::RUSAGE_SELF)
        .map(|usage| spent(usage.user_time()) + spent(usage.system_time()))
        .unwrap_or_default()
}

fn measure(host: &mut Host, steps: u64) -> Result<(Duration, Vec<u64>), Outcome> {
    let request = Request::Measure(Measure {
        discard: 1000,
        min_steps: steps,
        min_ns: 0,
        max_steps: steps,
    });
    let start = Instant::now();
    match host.request(&request, soon())? {
        Reply::Measure(samples) => Ok((start.elapsed(), samples.samples_ns)),
        _ => Ok((start.elapsed(), Vec::new())),
    }
}

/// A request to load a small network, in the variant that does nothing.
pub(crate) fn load() -> Result<Load, Outcome> {
    let name = "bert_tiny";
    let failed = |error: models::ModelError| {
        Outcome::new(schema::OutcomeKind::Unsupported, error.to_string())
    };
    let dims = zoo::resolve_dims(name, &BTreeMap::new()).map_err(failed)?;
    let graph = zoo::build(name, &dims).map_err(failed)?;
    let engine = EngineVariant {
        engine: "synthetic".to_owned(),
        variant: "noop".to_owned(),
    };
    let cell = Cell {
        dims,
        ..Cell::plain(&graph, engine)
    };
    Ok(Load {
        cell,
        graph,
        files: None,
        scratch: std::env::temp_dir(),
    })
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}
