//! A run whose heats are measured by the nodes of a Slurm cluster.
//!
//! Each heat that the store lacks is a task of a job array: a comparison group is measured on one
//! node, so that no ratio crosses nodes, and on a node that runs nothing else (`--exclusive`). A
//! task measures into a store of its own, below the run's, on a file system that all see; whoever
//! submitted it takes its heat over, so that a store has one writer, as ever. A task that Slurm
//! starts again, since its node went down or others went before, begins anew in another store: blocks
//! of two nodes never meet, even where a node that was lost goes on.
//!
//! What Slurm itself is to be told (a partition, an account, a time limit) it takes from its own
//! variables, `SBATCH_PARTITION` and the like.

mod folder;
mod queue;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    time::{Duration, Instant},
};

use schema::{
    Device, Digest, Fingerprint, Plan, RunRecord, Strategy,
    plan::{KnownState, PlannedHeat},
    record::{self, HeatEntry, HeatResult},
};
use store::{Store, WriterLock};
use worker::host::Interrupt;

pub use folder::Part;
use folder::{Folder, Submission};
use queue::{Array, Needs, State};

use crate::{Event, Observer, RunError, sweep};

/// How often it is looked at what became of the tasks.
const LOOK: Duration = Duration::from_secs(2);

/// So long what a task wrote may take to be seen from here.
const SEEN: Duration = Duration::from_secs(20);

/// So long Slurm may not answer.
const SILENCE: Duration = Duration::from_mins(10);

/// So long tasks may take to end that were told to.
const LAST_WORDS: Duration = Duration::from_mins(2);

/// Tasks of one array; Slurm's own limit is 1,001 where nobody raised it.
const LARGEST_ARRAY: usize = 1000;

/// What tasks are started by, and where they may run.
#[derive(Debug, Clone)]
pub struct Launching<'a> {
    /// This program, by its path on every node.
    pub program: &'a Path,
    /// The machine that the plan is for, and what its user set.
    pub machine: &'a Machine,
}

/// What a node must be to measure for a plan.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Machine {
    /// What decides a speed.
    pub fingerprint: Fingerprint,
    /// What users set.
    pub conditions: BTreeMap<String, String>,
}

impl Machine {
    /// This one.
    #[must_use]
    pub fn here() -> Self {
        Self {
            fingerprint: telemetry::fingerprint(),
            conditions: telemetry::conditions(),
        }
    }
}

/// As [`run`](crate::run), each heat measured by a node of the cluster.
///
/// An interruption cancels what was submitted. Where this process is killed, the next one over the same
/// store takes over what its tasks have measured, and cancels the others.
///
/// # Errors
/// The store cannot be read or written, Slurm refuses the tasks or does not answer for long.
pub fn on_slurm(
    plan: &Plan,
    store: &WriterLock,
    launching: &Launching<'_>,
    fresh: bool,
    interrupt: &Interrupt,
    observer: &mut dyn Observer,
) -> Result<RunRecord, RunError> {
    for left in Folder::all(store)? {
        take_over(store, &left, observer)?;
    }
    let (known, counting) = sweep::counting(plan, store, fresh, observer)?;
    let sealed = known.into_iter().filter_map(|heat| match heat.state {
        KnownState::Sealed(digest) => Some((heat.key, digest)),
        KnownState::Open(_) => None,
    });
    let mut results: BTreeMap<Digest, HeatResult> = sealed
        .map(|(key, digest)| (key, HeatResult::Sealed(digest)))
        .collect();
    let cluster = Cluster::new(plan, &mut results, observer);
    if !cluster.ahead.is_empty() {
        cluster.run(store, launching, interrupt, observer, &mut results)?;
    }
    if counting.is_some() && !interrupt.is_set() {
        store.end_fresh()?;
    }
    let entry = |heat: &PlannedHeat| HeatEntry {
        group: heat.group.clone(),
        key: heat.key,
        heat: results
            .get(&heat.key)
            .cloned()
            .unwrap_or_else(|| HeatResult::NotReached(sweep::INTERRUPTED.to_owned())),
    };
    Ok(RunRecord {
        version: record::VERSION,
        plan: plan.clone(),
        heats: plan.all_heats().map(entry).collect(),
    })
}

/// What a run that was killed left: what is measured is kept, and what is not, cancelled.
fn take_over(
    store: &WriterLock,
    left: &Folder,
    observer: &mut dyn Observer,
) -> Result<(), RunError> {
    let submission = left.submission()?;
    let text = format!(
        "taking over what was submitted by an earlier run: {}",
        left.path().display()
    );
    observer.observe(&Event::Note { text: &text });
    let arrays = left.arrays()?;
    queue::cancel(&arrays)?;
    settle(&arrays)?;
    for part in 0..submission.map_or(0, |submission| submission.keys.len()) {
        adopt(store, left, part)?;
    }
    left.remove()
}

/// Waits until nothing of what was cancelled runs any more.
fn settle(arrays: &[Array]) -> Result<(), RunError> {
    let until = Instant::now() + LAST_WORDS;
    while Instant::now() < until {
        let tasks = queue::tasks(arrays)?;
        if tasks.values().all(|task| task.state == State::Ended) {
            break;
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// Takes over what a task has measured, if it has come to its end; with it, what was measured.
fn adopt(
    store: &WriterLock,
    folder: &Folder,
    part: usize,
) -> Result<Option<(HeatResult, Option<schema::Heat>)>, RunError> {
    let Some((part_store, key, result)) = folder.result(part)? else {
        return Ok(None);
    };
    if let HeatResult::NotReached(reason) = result {
        return Ok(Some((HeatResult::NotReached(reason), None)));
    }
    let part_store = Store::open(part_store)?;
    Ok(Some(match store.adopt(&part_store, &key)? {
        Some((digest, heat)) => (HeatResult::Sealed(digest), Some(heat)),
        None => {
            let reason = "its task says that it measured it, and left nothing".to_owned();
            (HeatResult::NotReached(reason), None)
        }
    }))
}

/// What is to be measured elsewhere.
struct Cluster<'a> {
    plan: &'a Plan,
    /// The heats that the store lacks, each key once, with their places in the plan.
    ahead: Vec<(usize, &'a PlannedHeat)>,
}

/// A task that has not come to its end.
#[derive(Debug, Default)]
struct Waiting {
    has_begun: bool,
    /// Since when Slurm says that it has ended.
    ended: Option<(Instant, String)>,
}

impl<'a> Cluster<'a> {
    fn new(
        plan: &'a Plan,
        results: &mut BTreeMap<Digest, HeatResult>,
        observer: &mut dyn Observer,
    ) -> Self {
        let of = plan.all_heats().count();
        let mut seen = BTreeSet::new();
        let mut ahead = Vec::new();
        for (index, heat) in plan.all_heats().enumerate() {
            if !seen.insert(heat.key) {
                continue;
            }
            if results.contains_key(&heat.key) {
                observer.observe(&Event::Cached {
                    group: &heat.group,
                    index,
                    of,
                });
            } else {
                ahead.push((index, heat));
            }
        }
        Self { plan, ahead }
    }

    fn run(
        &self,
        store: &WriterLock,
        launching: &Launching<'_>,
        interrupt: &Interrupt,
        observer: &mut dyn Observer,
        results: &mut BTreeMap<Digest, HeatResult>,
    ) -> Result<(), RunError> {
        let submission = Submission {
            plan: self.plan.clone(),
            machine: launching.machine.clone(),
            keys: self.ahead.iter().map(|(_, heat)| heat.key).collect(),
        };
        let folder = Folder::create(store, &submission)?;
        let arrays = match self.submit(&folder, launching) {
            Ok(arrays) => arrays,
            Err(error) => {
                folder.remove()?;
                return Err(error);
            }
        };
        let done = self.wait(store, &folder, &arrays, interrupt, observer, results);
        // Whatever ended the wait: nothing goes on that nobody waits for.
        queue::cancel(&arrays).and_then(|()| settle(&arrays))?;
        done?;
        // What came to its end while it was cancelled.
        for (part, (index, heat)) in self.ahead.iter().enumerate() {
            if !results.contains_key(&heat.key) {
                self.collect(store, &folder, part, (*index, heat), observer, results)?;
            }
        }
        folder.remove()
    }

    /// Hands the tasks to Slurm: an array for each kind of node that they need.
    fn submit(&self, folder: &Folder, launching: &Launching<'_>) -> Result<Vec<Array>, RunError> {
        let mut by_needs: BTreeMap<Needs, Vec<usize>> = BTreeMap::new();
        for (part, (_, heat)) in self.ahead.iter().enumerate() {
            by_needs.entry(needs(heat)).or_default().push(part);
        }
        let mut arrays = Vec::new();
        for (needs, parts) in by_needs {
            for parts in parts.chunks(LARGEST_ARRAY) {
                match queue::submit(folder.path(), launching, needs, parts) {
                    Ok(array) => arrays.push(array),
                    Err(error) => {
                        queue::cancel(&arrays)?;
                        return Err(error);
                    }
                }
                folder.keep(&arrays)?;
            }
        }
        Ok(arrays)
    }

    /// Takes over heats as they come, until there is nothing to wait for, or somebody interrupts.
    fn wait(
        &self,
        store: &WriterLock,
        folder: &Folder,
        arrays: &[Array],
        interrupt: &Interrupt,
        observer: &mut dyn Observer,
        results: &mut BTreeMap<Digest, HeatResult>,
    ) -> Result<(), RunError> {
        let mut waiting: BTreeMap<usize, Waiting> = (0..self.ahead.len())
            .map(|part| (part, Waiting::default()))
            .collect();
        let mut heard = Instant::now();
        while !waiting.is_empty() && !interrupt.is_set() {
            let tasks = match queue::tasks(arrays) {
                Ok(tasks) => {
                    heard = Instant::now();
                    Some(tasks)
                }
                Err(error) if heard.elapsed() > SILENCE => return Err(error),
                Err(_) => None,
            };
            let parts: Vec<usize> = waiting.keys().copied().collect();
            for part in parts {
                let Some(&(index, heat)) = self.ahead.get(part) else {
                    continue;
                };
                if self.collect(store, folder, part, (index, heat), observer, results)? {
                    waiting.remove(&part);
                    continue;
                }
                let (Some(tasks), Some(task)) = (&tasks, waiting.get_mut(&part)) else {
                    continue;
                };
                let told = tasks.get(&part);
                match told.map_or(State::Ended, |task| task.state) {
                    State::Waits => {
                        if task.has_begun {
                            let text =
                                format!("{}: Slurm begins it anew on another node", heat.group);
                            observer.observe(&Event::Note { text: &text });
                        }
                        *task = Waiting::default();
                    }
                    State::Runs => {
                        let is_new = !task.has_begun;
                        *task = Waiting {
                            has_begun: true,
                            ended: None,
                        };
                        if is_new {
                            let left = self.left(&waiting);
                            self.begun((index, heat), left, observer);
                        }
                    }
                    State::Ended => {
                        let word = told.map_or("unknown to Slurm", |task| &task.word);
                        let since = task
                            .ended
                            .get_or_insert_with(|| (Instant::now(), word.to_owned()));
                        if since.0.elapsed() > SEEN {
                            let reason = folder.why(part, &since.1);
                            observer.observe(&Event::NotReached {
                                group: &heat.group,
                                reason: &reason,
                            });
                            results.insert(heat.key, HeatResult::NotReached(reason));
                            waiting.remove(&part);
                        }
                    }
                }
            }
            if !waiting.is_empty() {
                interrupt.wait(LOOK);
            }
        }
        Ok(())
    }

    /// What is predicted for all that is waited for, on as many nodes as measure now.
    fn left(&self, waiting: &BTreeMap<usize, Waiting>) -> Duration {
        let heats = waiting.keys().filter_map(|part| self.ahead.get(*part));
        let ns = heats.map(|(_, heat)| heat.predicted_ns);
        let ns = ns.fold(0, u64::saturating_add);
        let nodes = waiting.values().filter(|task| task.has_begun).count();
        Duration::from_nanos(ns) / u32::try_from(nodes).unwrap_or(u32::MAX).max(1)
    }

    fn begun(
        &self,
        (index, heat): (usize, &PlannedHeat),
        left: Duration,
        observer: &mut dyn Observer,
    ) {
        let job = self.plan.job(&heat.job);
        observer.observe(&Event::HeatStarted {
            group: &heat.group,
            index,
            of: self.plan.all_heats().count(),
            blocks_kept: 0,
            blocks: job.map_or(0, |job| job.measure.first_look()),
            left,
        });
    }

    /// Takes over what a task has measured; whether it had come to its end.
    fn collect(
        &self,
        store: &WriterLock,
        folder: &Folder,
        part: usize,
        (index, heat): (usize, &PlannedHeat),
        observer: &mut dyn Observer,
        results: &mut BTreeMap<Digest, HeatResult>,
    ) -> Result<bool, RunError> {
        let Some((result, measured)) = adopt(store, folder, part)? else {
            return Ok(false);
        };
        let job = self.plan.job(&heat.job);
        let has_looks = job.is_some_and(|job| job.measure.looks().len() > 1);
        match (&result, &measured) {
            (HeatResult::NotReached(reason), _) => observer.observe(&Event::NotReached {
                group: &heat.group,
                reason,
            }),
            (HeatResult::Sealed(_), measured) => {
                if let Some(measured) = measured {
                    observer.observe(&Event::HeatFinished {
                        group: &heat.group,
                        index,
                        cells: &measured.header.cells,
                        outcomes: &measured.footer.outcomes,
                        stopped: Some(measured.footer.stopped.as_str()).filter(|_| has_looks),
                    });
                }
            }
        }
        results.insert(heat.key, result);
        Ok(true)
    }
}

/// What a node must have to measure a heat.
fn needs(heat: &PlannedHeat) -> Needs {
    let mut needs = Needs { cpus: 1, gpus: 0 };
    for planned in &heat.cells {
        let cell = &planned.cell;
        let ranks = match cell.strategy {
            Strategy::Ddp => cell.world_size,
            _ => 1,
        };
        needs.cpus = needs.cpus.max(cell.threads.saturating_mul(ranks));
        if let Device::Cuda(index) = cell.device {
            let devices = match cell.strategy {
                Strategy::Ddp | Strategy::DataParallel => cell.world_size,
                Strategy::Single | Strategy::Accumulated => 1,
            };
            needs.gpus = needs.gpus.max(index.saturating_add(devices));
        }
    }
    needs
}
