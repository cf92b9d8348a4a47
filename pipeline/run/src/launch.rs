//! One worker, from its start to its end, within the time limit of a launch.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    path::PathBuf,
    time::{Duration, Instant},
};

use models::quantise;
use schema::{
    Cell, Digest, Outcome, OutcomeKind, plan,
    protocol::{
        Exchanges, Hello, Load, Loaded, Measure, Memory, Parity, ParityOutputs, Profile, Profiling,
        Reply, Request, Samples, WarmUp, WarmUpDone,
    },
};
use worker::{
    census,
    host::{Ended, Host, Limits},
    nanoseconds,
};

use crate::{
    context::Context,
    graphs::{Graphs, Prepared},
};

/// How long a worker may take to leave.
const LEAVE: Duration = Duration::from_secs(5);
/// Versions and settings that are kept of a worker, and their length.
const WORDS: usize = 200;
const WORD_CHARS: usize = 400;

/// A worker that was started.
pub(crate) struct Worker {
    host: Host,
    began: Instant,
    /// What is left of the time limit. Time during which the worker is stopped does not count.
    left: Duration,
    /// Its own, for temporary files.
    scratch: PathBuf,
    /// What it must have been built from.
    built_from: Option<Digest>,
    /// Whether it is given the network as an ONNX file, too.
    takes_onnx: bool,
}

/// What a worker finds of what compilers made in earlier launches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    All,
    Nothing,
}

impl Worker {
    /// Starts the worker of a cell. The folder is this launch's alone: whatever a worker does to
    /// its surroundings is done to no other.
    pub(crate) fn start(
        context: &Context<'_>,
        measure: &plan::Measure,
        cell: &Cell,
        memory_bytes: Option<u64>,
        folder: &Path,
        kept: Kept,
    ) -> Result<Self, Outcome> {
        let command = context.workers.command(&cell.engine, cell.device)?;
        let mut command = command.for_cell(cell);
        let make = |name: &str| {
            let made = folder.join(name);
            fs::create_dir(&made).map_err(|error| {
                let reason = format!("cannot make a temporary folder for a worker: {error}");
                Outcome::new(OutcomeKind::Unavailable, reason)
            })?;
            Ok::<PathBuf, Outcome>(made)
        };
        let scratch = make("scratch")?;
        if kept == Kept::Nothing {
            command = command.with_cache(&make("cache")?);
        }
        let limits = Limits {
            memory_bytes,
            ..Limits::default()
        };
        let began = Instant::now();
        Ok(Self {
            host: Host::start(&command, &limits, context.interrupt)?,
            began,
            left: Duration::from_nanos(measure.timeout_ns),
            scratch,
            built_from: context.workers.built_from(&cell.engine),
            takes_onnx: context.workers.takes_onnx(&cell.engine),
        })
    }

    /// Its first message, and how long it took to come. It must be the engine that
    /// was asked for, built from the sources that the plan's key names.
    pub(crate) fn hello(&mut self, cell: &Cell) -> Result<(Hello, u64), Outcome> {
        let hello = self.spend(Host::hello)?;
        let start_ns = nanoseconds(self.began.elapsed());
        let engine = &cell.engine;
        if hello.engine != engine.engine {
            let reason = format!(
                "the worker says that it is engine `{}`, not `{}`: check how it is registered",
                hello.engine.escape_debug(),
                engine.engine
            );
            return Err(Outcome::new(OutcomeKind::Crashed, reason));
        }
        if self.built_from.is_some() && hello.worker != self.built_from {
            let reason = format!(
                "the worker of engine `{0}` was built from other sources than this photofinish: \
                 run `photofinish engines install {0}`",
                engine.engine
            );
            return Err(Outcome::new(OutcomeKind::Unavailable, reason));
        }
        let versions = tidy(hello.versions);
        Ok((Hello { versions, ..hello }, start_ns))
    }

    /// Has it load a network. An engine that is given ONNX finds it in a file, which `graphs` keeps. Of a network
    /// on grids it is told as well how it got there, which no worker knows.
    pub(crate) fn load(
        &mut self,
        cell: &Cell,
        network: &Prepared,
        graphs: &Graphs,
    ) -> Result<Loaded, Outcome> {
        let mut load = Load {
            cell: cell.clone(),
            graph: network.graph.clone(),
            files: network.files.clone(),
            scratch: self.scratch.clone(),
        };
        if self.takes_onnx {
            load.files = Some(graphs.onnx(&load)?);
        }
        match self.ask(&Request::Load(Box::new(load)))? {
            Reply::Loaded(loaded) => {
                let mut settings = tidy(loaded.settings);
                settings.extend(quantise::settings(cell, &network.graph));
                Ok(Loaded {
                    spin: shorten(&loaded.spin),
                    settings,
                    ..loaded
                })
            }
            other => Err(unasked(&other)),
        }
    }

    pub(crate) fn parity(&mut self, request: Parity) -> Result<ParityOutputs, Outcome> {
        match self.ask(&Request::Parity(request))? {
            Reply::Parity(outputs) => Ok(outputs),
            other => Err(unasked(&other)),
        }
    }

    pub(crate) fn warm_up(&mut self, limits: WarmUp) -> Result<WarmUpDone, Outcome> {
        match self.ask(&Request::WarmUp(limits))? {
            Reply::WarmUp(done) => Ok(done),
            other => Err(unasked(&other)),
        }
    }

    pub(crate) fn measure(&mut self, request: Measure) -> Result<Samples, Outcome> {
        match self.ask(&Request::Measure(request))? {
            Reply::Measure(samples) if samples.samples_ns.is_empty() => Err(Outcome::new(
                OutcomeKind::Crashed,
                "the worker measured no step",
            )),
            Reply::Measure(samples) => Ok(samples),
            other => Err(unasked(&other)),
        }
    }

    /// Where the time of so many steps goes; inside, why a worker that lives on does not tell.
    pub(crate) fn profile(&mut self, steps: u64) -> Result<Result<Profile, Outcome>, Outcome> {
        match self.ask(&Request::Profile(Profiling { steps })) {
            Ok(Reply::Profile(profile)) => Ok(Ok(profile)),
            Ok(other) => Err(unasked(&other)),
            Err(outcome) if self.host.is_alive() => Ok(Err(outcome)),
            Err(outcome) => Err(outcome),
        }
    }

    /// What ranks exchange in so many steps; `None` where the engine does not tell.
    pub(crate) fn exchanges(&mut self, steps: u64) -> Result<Option<Exchanges>, Outcome> {
        match self.ask(&Request::Exchanges(Profiling { steps })) {
            Ok(Reply::Exchanges(told)) => Ok(Some(told)),
            Ok(other) => Err(unasked(&other)),
            Err(outcome) if self.host.is_alive() && outcome.kind == OutcomeKind::Unsupported => {
                Ok(None)
            }
            Err(outcome) => Err(outcome),
        }
    }

    /// Memory in use; `None` where the engine cannot tell.
    pub(crate) fn memory(&mut self) -> Result<Option<Memory>, Outcome> {
        match self.ask(&Request::Memory) {
            Ok(Reply::Memory(memory)) => Ok(Some(memory)),
            Ok(other) => Err(unasked(&other)),
            Err(_) if self.host.is_alive() => Ok(None),
            Err(outcome) => Err(outcome),
        }
    }

    /// Processor time of it and of all that it started, as far as they live, in nanoseconds.
    pub(crate) fn used_ns(&self) -> u64 {
        self.host.cpu_ticks().saturating_mul(census::TICK_NS)
    }

    pub(crate) fn pause(&mut self) -> Result<(), Outcome> {
        self.host.pause()
    }

    pub(crate) fn resume(&mut self) -> Result<(), Outcome> {
        self.host.resume()
    }

    /// Lets it leave in good order.
    pub(crate) fn leave(self) -> Ended {
        self.host.finish(Instant::now() + LEAVE)
    }

    /// Kills it with all that it started.
    pub(crate) fn kill(self) -> Ended {
        self.host.kill()
    }

    fn ask(&mut self, request: &Request) -> Result<Reply, Outcome> {
        self.spend(|host, deadline| host.request(request, deadline))
    }

    fn spend<T>(
        &mut self,
        serve: impl FnOnce(&mut Host, Instant) -> Result<T, Outcome>,
    ) -> Result<T, Outcome> {
        let began = Instant::now();
        // A limit beyond what the clock can count is none: a year is as good.
        let year = Duration::from_secs(365 * 24 * 60 * 60);
        let deadline = began + self.left.min(year);
        let answer = serve(&mut self.host, deadline);
        self.left = self.left.saturating_sub(began.elapsed());
        answer
    }
}

fn unasked(reply: &Reply) -> Outcome {
    let reason = format!("the worker answered `{}` to something else", reply.name());
    Outcome::new(OutcomeKind::Crashed, reason)
}

/// What a worker says about itself, cut to what a page can show: it may say anything.
fn tidy(words: BTreeMap<String, String>) -> BTreeMap<String, String> {
    words
        .into_iter()
        .take(WORDS)
        .map(|(name, value)| (shorten(&name), shorten(&value)))
        .collect()
}

fn shorten(text: &str) -> String {
    text.chars().take(WORD_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_talkative_worker_is_cut_short() {
        let words = (0..1000).map(|number| (format!("{number}"), "ä".repeat(10_000)));
        let tidied = tidy(words.collect());
        assert_eq!(tidied.len(), WORDS);
        assert!(
            tidied
                .values()
                .all(|value| value.chars().count() == WORD_CHARS)
        );
    }
}
