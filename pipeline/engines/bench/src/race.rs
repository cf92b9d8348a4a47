//! A race: two processes that take short rounds in alternating order.

use std::{
    fs,
    time::{Duration, Instant},
};

use clap::ValueEnum;
use nix::{
    time::{clock_getcpuclockid, clock_gettime},
    unistd::Pid,
};
use schema::protocol::{Load, Measure, Reply, Request};
use worker::{
    WorkerCommand,
    host::{Host, Interrupt, Limits},
};

use crate::{Result, contest::words};

/// Longest wait for one answer: AOTInductor takes a minute or two to compile, and more on a machine
/// that has other work.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1800);

/// Steps that open a round and are not counted: caches and thread pools wake up.
const DISCARD: u64 = 2;

/// What a step is timed by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Clock {
    /// Each side's own clock around a step; a round counts as its median.
    Wall,
    /// Processor time of all threads of a side's process, over the steps of a round.
    Cpu,
}

/// Two sides, and how long they race.
pub(crate) struct Race {
    /// What both are asked to load.
    pub(crate) load: Load,
    /// Our worker.
    pub(crate) ours: WorkerCommand,
    /// The loop in plain Python, or the peer.
    pub(crate) other: WorkerCommand,
    /// Rounds of each side.
    pub(crate) rounds: usize,
    /// What is compared.
    pub(crate) clock: Clock,
}

/// A process that has loaded the network.
pub(crate) fn loaded(command: &WorkerCommand, load: &Load) -> Result<Host> {
    let interrupt = Interrupt::new()?;
    let mut host = Host::start(command, &Limits::default(), &interrupt).map_err(words)?;
    host.hello(Instant::now() + PATIENCE).map_err(words)?;
    ask(&mut host, &Request::Load(Box::new(load.clone())))?;
    Ok(host)
}

/// The same, warm and out of the way.
fn start(command: &WorkerCommand, load: &Load) -> Result<Host> {
    let mut host = loaded(command, load)?;
    times(&mut host, 5, 1_000_000_000)?;
    host.pause().map_err(words)?;
    Ok(host)
}

fn ask(host: &mut Host, request: &Request) -> Result<Reply> {
    Ok(host
        .request(request, Instant::now() + PATIENCE)
        .map_err(words)?)
}

/// Times of at least so many steps, over at least so long.
pub(crate) fn times(host: &mut Host, min_steps: u64, min_ns: u64) -> Result<Vec<u64>> {
    let measure = Measure {
        discard: DISCARD,
        min_steps,
        min_ns,
        max_steps: 10_000,
    };
    match ask(host, &Request::Measure(measure))? {
        Reply::Measure(samples) => Ok(samples.samples_ns),
        other => Err(format!("answered `{}`", other.name()).into()),
    }
}

/// One launch of both sides: ours first, the other second.
pub(crate) struct Launch {
    /// Medians of the rounds' ratios and of each side's rounds, in nanoseconds.
    ratio: f64,
    step_ns: [f64; 2],
    /// Minor page faults in a step.
    faults: [f64; 2],
}

/// What one side did in one round.
struct Round {
    step_ns: f64,
    faults: f64,
}

impl Race {
    /// Starts both sides and lets them race once.
    pub(crate) fn launch(&self) -> Result<Launch> {
        let mut sides = [
            start(&self.ours, &self.load)?,
            start(&self.other, &self.load)?,
        ];
        let mut rounds: [Vec<Round>; 2] = [vec![], vec![]];
        for turn in 0..self.rounds {
            for side in [turn % 2, 1 - turn % 2] {
                rounds[side].push(round(&mut sides[side], self.clock)?);
            }
        }
        for mut host in sides {
            host.resume().map_err(words)?;
            let _ended = host.finish(Instant::now() + PATIENCE);
        }
        let [ours, other] = &rounds;
        let ratios = ours.iter().zip(other).map(|(a, b)| a.step_ns / b.step_ns);
        let of = |what: fn(&Round) -> f64| {
            [ours, other].map(|rounds| median(rounds.iter().map(what).collect()))
        };
        Ok(Launch {
            ratio: median(ratios.collect()),
            step_ns: of(|round| round.step_ns),
            faults: of(|round| round.faults),
        })
    }
}

fn round(host: &mut Host, clock: Clock) -> Result<Round> {
    host.resume().map_err(words)?;
    let (cpu, faults) = (cpu_ns(host.pid())?, minor_faults(host.pid())?);
    let samples = times(host, 3, 500_000_000)?;
    let cpu = cpu_ns(host.pid())?.saturating_sub(cpu);
    let faults = minor_faults(host.pid())?.saturating_sub(faults);
    host.pause().map_err(words)?;
    let steps = (samples.len() as u64 + DISCARD) as f64;
    Ok(Round {
        step_ns: match clock {
            Clock::Wall => median(samples.into_iter().map(|sample| sample as f64).collect()),
            Clock::Cpu => cpu as f64 / steps,
        },
        faults: faults as f64 / steps,
    })
}

/// Page faults of a process that needed no reading from disk (field 10 of `stat`).
fn minor_faults(pid: u32) -> Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The second field, a name in parentheses, may hold spaces.
    let (_, rest) = text.rsplit_once(')').ok_or("a process without a name")?;
    let field = rest.split_whitespace().nth(7).ok_or("no tenth field")?;
    Ok(field.parse()?)
}

/// Processor time of all threads of a process, of those that have ended as well.
fn cpu_ns(pid: u32) -> Result<u64> {
    let clock = clock_getcpuclockid(Pid::from_raw(pid.try_into()?))?;
    let time = clock_gettime(clock)?;
    let seconds: u64 = time.tv_sec().try_into()?;
    Ok(seconds * 1_000_000_000 + u64::try_from(time.tv_nsec())?)
}

/// The middle value, or the mean of the two in the middle.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match (values.len(), values.len() % 2) {
        (0, _) => f64::NAN,
        (_, 0) => (values[middle - 1] + values[middle]) / 2.0,
        _ => values[middle],
    }
}

/// Several launches in a line, against the `other` side.
pub(crate) fn told(what: &str, other: &str, launches: &[Launch]) -> String {
    let of = |value: &dyn Fn(&Launch) -> f64| median(launches.iter().map(value).collect());
    let ratios = || launches.iter().map(|launch| launch.ratio);
    format!(
        "{what}: ours {:.2} ms, {other} {:.2} ms, ratio {:.3} ({:.3} to {:.3} over {} launches), \
         page faults a step: ours {:.0}, {other} {:.0}",
        of(&|launch| launch.step_ns[0]) / 1e6,
        of(&|launch| launch.step_ns[1]) / 1e6,
        of(&|launch| launch.ratio),
        ratios().fold(f64::INFINITY, f64::min),
        ratios().fold(0.0, f64::max),
        launches.len(),
        of(&|launch| launch.faults[0]),
        of(&|launch| launch.faults[1]),
    )
}
