//! The largest batch of a cell that fits into memory: found by doubling, then by bisection, each try in a
//! worker of its own.

use schema::{
    Digest, ModelSource, Outcome, OutcomeKind,
    plan::{ManifestSource, PlannedCell},
    protocol::{Measure, Memory},
    record::{Frontier, Reference, Try},
};

use crate::{
    Event, Phase,
    context::{Context, Setting},
    error::Stop,
    gallery,
    graphs::Graphs,
    lane,
    launch::{Kept, Worker},
};

/// Steps of a try: engines and optimisers allocate in the first, and some again in the second.
const STEPS: u64 = 3;

/// A try that failed in a way that could be chance is made this often.
const ATTEMPTS: u32 = 2;

/// The bisection ends where the smallest batch that fails is larger than the largest that fits by no more
/// than this part of it, or by one.
const RESOLUTION: u64 = 32;

/// Seeks the frontier of every cell that agrees with its reference, and tries one sample of those that ran
/// out of memory before; `None` for the others.
pub(crate) fn seek(
    context: &mut Context<'_>,
    setting: &Setting<'_>,
    manifests: &[ManifestSource],
    reference: &Reference,
) -> Result<Vec<Option<Frontier>>, Stop> {
    let Some(most) = setting.header.measure.frontier else {
        return Ok(Vec::new());
    };
    let cells = setting.header.cells.iter().zip(&reference.obstacles);
    let frontiers = cells.map(|(planned, obstacle)| {
        let most = match obstacle {
            None => most,
            // Giving outputs takes more than a step does: whether that fits, one try tells.
            Some(outcome) if outcome.kind == OutcomeKind::OutOfMemory => 1,
            Some(_) => return Ok(None),
        };
        of_cell(context, setting, manifests, planned, most).map(Some)
    });
    frontiers.collect()
}

fn of_cell(
    context: &mut Context<'_>,
    setting: &Setting<'_>,
    manifests: &[ManifestSource],
    planned: &PlannedCell,
    most: u64,
) -> Result<Frontier, Stop> {
    let mut search = Search::up_to(most);
    let mut tries = Vec::new();
    while let Some(batch) = search.next() {
        let tried = match resized(planned, batch) {
            Ok(at) => attempts(context, setting, manifests, &at)?,
            Err(outcome) => Try {
                batch,
                outcome,
                memory: None,
            },
        };
        search.learn(batch, tried.outcome.kind);
        tries.push(tried);
    }
    Ok(Frontier { tries })
}

/// The cell at another batch. The plan knows a network of the zoo by its graph at the sizes that it has
/// there, a user's by its file.
fn resized(planned: &PlannedCell, batch: u64) -> Result<PlannedCell, Outcome> {
    let mut at = planned.clone();
    let cell = &mut at.cell;
    cell.dims.insert("batch".to_owned(), batch);
    if cell.model.source == ModelSource::Zoo {
        let graph = models::zoo::build_for(&cell.model.name, &cell.dims, cell.mode);
        let graph =
            graph.map_err(|error| Outcome::new(OutcomeKind::Unsupported, error.to_string()))?;
        cell.model.graph = Digest::of_value(&graph);
    }
    at.id = cell.id();
    Ok(at)
}

/// What is known while a frontier is sought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Search {
    most: u64,
    /// The largest batch that fitted; 0 where none has yet.
    fits: u64,
    /// The smallest that did not.
    fails: Option<u64>,
    /// Something else than memory ended it.
    is_over: bool,
}

impl Search {
    const fn up_to(most: u64) -> Self {
        Self {
            most,
            fits: 0,
            fails: None,
            is_over: false,
        }
    }

    /// The next batch to try.
    fn next(&self) -> Option<u64> {
        if self.is_over {
            return None;
        }
        match self.fails {
            None if self.fits >= self.most => None,
            None => Some(self.fits.saturating_mul(2).clamp(1, self.most)),
            Some(fails) => {
                let gap = fails.saturating_sub(self.fits);
                let is_close = gap <= (self.fits / RESOLUTION).max(1);
                (!is_close).then(|| self.fits + gap / 2)
            }
        }
    }

    fn learn(&mut self, batch: u64, kind: OutcomeKind) {
        match kind {
            OutcomeKind::Measured => self.fits = batch,
            OutcomeKind::OutOfMemory => self.fails = Some(batch),
            _ => self.is_over = true,
        }
    }
}

fn attempts(
    context: &mut Context<'_>,
    setting: &Setting<'_>,
    manifests: &[ManifestSource],
    planned: &PlannedCell,
) -> Result<Try, Stop> {
    let batch = planned.cell.batch();
    let mut attempt = 1;
    loop {
        let tried = attempt_once(context, setting, manifests, planned)?;
        let (outcome, memory) = match tried {
            Ok(memory) => (Outcome::measured(), memory),
            Err(outcome) => (context.failure(outcome)?, None),
        };
        let is_sure = outcome.is_measured() || outcome.kind.is_final();
        if is_sure || attempt >= ATTEMPTS {
            return Ok(Try {
                batch,
                outcome,
                memory,
            });
        }
        attempt += 1;
    }
}

/// A launch of a cell for some steps; its memory, as far as it can be told.
fn attempt_once(
    context: &mut Context<'_>,
    setting: &Setting<'_>,
    manifests: &[ManifestSource],
    planned: &PlannedCell,
) -> Result<Result<Option<Memory>, Outcome>, Stop> {
    context.check_interrupt()?;
    let (header, cell) = (setting.header, &planned.cell);
    let batch = cell.batch();
    context.tell(&Event::Launch {
        cell,
        phase: Phase::Frontier { batch },
    });
    let graphs = Graphs::of(context, manifests, std::slice::from_ref(planned))?;
    let network = match graphs.get(cell) {
        Ok(network) => network,
        Err(outcome) => return Ok(Err(outcome)),
    };
    let folder = context.store.scratch()?;
    let memory_bytes = gallery::memory_bytes(&header.measure);
    let available_bytes = telemetry::load().available_memory_bytes;
    let started = Worker::start(
        context,
        &header.measure,
        cell,
        memory_bytes,
        folder.path(),
        Kept::All,
    );
    let mut worker = match started {
        Ok(worker) => worker,
        Err(outcome) => return Ok(Err(outcome)),
    };
    let steps = Measure {
        discard: 0,
        min_steps: STEPS,
        min_ns: 0,
        max_steps: STEPS,
    };
    let mut run = || {
        worker.hello(cell)?;
        worker.load(cell, network, &graphs)?;
        worker.measure(steps)?;
        worker.memory()
    };
    match run() {
        Ok(told) => {
            let ended = worker.leave();
            // Whether it held more than it may for a moment, its end tells.
            if let Some(outcome) = ended.outcome.as_ref().filter(|it| is_memory(it)) {
                return Ok(Err(outcome.clone()));
            }
            let device_bytes = lane::device_bytes(header, cell);
            Ok(Ok(lane::memory(told.as_ref(), &ended, device_bytes)))
        }
        Err(outcome) => {
            worker.kill();
            Ok(Err(of_too_little(outcome, memory_bytes, available_bytes)))
        }
    }
}

fn is_memory(outcome: &Outcome) -> bool {
    outcome.kind == OutcomeKind::OutOfMemory
}

/// A worker that ran out of memory where the machine had less of it than the worker may take says nothing of
/// its cell.
fn of_too_little(outcome: Outcome, limit_bytes: Option<u64>, available_bytes: u64) -> Outcome {
    match limit_bytes {
        Some(limit) if is_memory(&outcome) && limit > available_bytes => {
            let reason = format!(
                "{}, where the machine had {} MiB and the worker may take {} MiB",
                outcome.reason,
                available_bytes >> 20,
                limit >> 20
            );
            Outcome::new(OutcomeKind::Unstable, reason)
        }
        _ => outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The batches that are tried where the largest that fits is this.
    fn tried(most: u64, largest: u64) -> (Vec<u64>, Search) {
        let mut search = Search::up_to(most);
        let mut tried = Vec::new();
        while let Some(batch) = search.next() {
            assert!(!tried.contains(&batch), "{batch} twice: {tried:?}");
            tried.push(batch);
            search.learn(
                batch,
                match batch <= largest {
                    true => OutcomeKind::Measured,
                    false => OutcomeKind::OutOfMemory,
                },
            );
        }
        (tried, search)
    }

    #[test]
    fn a_machine_that_has_less_than_may_be_taken_is_no_limit() {
        let full = Outcome::new(OutcomeKind::OutOfMemory, "it was killed");
        let said = |limit| of_too_little(full.clone(), limit, 5 << 30);
        assert_eq!(
            (said(None), said(Some(5 << 30))),
            (full.clone(), full.clone())
        );
        let unstable = said(Some(8 << 30));
        assert_eq!(unstable.kind, OutcomeKind::Unstable);
        assert!(unstable.reason.contains("had 5120 MiB"), "{unstable:?}");
        let crashed = Outcome::new(OutcomeKind::Crashed, "signal 11");
        assert_eq!(of_too_little(crashed.clone(), Some(8 << 30), 0), crashed);
    }

    #[test]
    fn doubling_then_bisection() {
        assert_eq!(tried(64, 11).0, [1, 2, 4, 8, 16, 12, 10, 11]);
        // It ends where the manifest says, a power of two or not.
        assert_eq!(tried(6, 100).0, [1, 2, 4, 6]);
        assert_eq!(tried(1, 100).0, [1]);
        assert_eq!(tried(64, 0).0, [1]);
    }

    #[test]
    fn every_frontier_is_found_as_closely_as_is_said() {
        for most in [1, 2, 7, 64, 1000] {
            for largest in 0..=most + 1 {
                let (tried, search) = tried(most, largest);
                assert!(tried.len() <= 20, "{most} {largest}: {tried:?}");
                assert!(search.fits <= largest);
                let short = largest.min(most) - search.fits;
                assert!(short < (search.fits / RESOLUTION).max(1), "{search:?}");
                assert_eq!(search.fails.is_some(), largest < most, "{search:?}");
            }
        }
    }

    #[test]
    fn what_is_not_about_memory_ends_it() {
        let mut search = Search::up_to(64);
        search.learn(1, OutcomeKind::Measured);
        search.learn(2, OutcomeKind::TimedOut);
        assert_eq!((search.next(), search.fits), (None, 1));
    }
}
