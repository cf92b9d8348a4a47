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
    Device, Digest, Fingerprint, Heat, Plan, RunRecord,
    plan::{KnownState, PlannedHeat},
    record::{self, HeatEntry, HeatResult},
};
use store::{Store, StoreError, WriterLock};
use worker::host::Interrupt;

pub use folder::Part;
use folder::{Folder, Left, Submission, Told};
use queue::{Array, Needs, State, Task};

use crate::{Event, Observer, RunError, sweep};

/// How often it is looked at what became of the tasks.
const LOOK: Duration = Duration::from_secs(2);

/// So long what a task left may take to be seen from here: a file system of a network remembers for a minute what
/// was not there. One that did not come to its own end is waited for no longer than it takes to look again.
const SEEN: Duration = Duration::from_secs(90);
const LOOKED: Duration = Duration::from_secs(5);

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

/// Whether a run on a cluster over this store left something, for [`on_slurm`] to take over.
///
/// # Errors
/// The store cannot be read.
pub fn is_left_on_slurm(store: &WriterLock) -> Result<bool, RunError> {
    Ok(!Folder::all(store)?.is_empty())
}

/// What a run that was killed left: what is measured is kept, and what is not, cancelled.
fn take_over(
    store: &WriterLock,
    left: &Folder,
    observer: &mut dyn Observer,
) -> Result<(), RunError> {
    let mut note = |text: &str| observer.observe(&Event::Note { text });
    note(&format!(
        "taking over what was submitted by an earlier run: {}",
        left.path().display()
    ));
    queue::cancel(&left.name())?;
    settle(&left.name())?;
    left.look_again();
    for part in left.done()? {
        if let Some(Err(reason)) = adopt(store, left, part)? {
            note(&format!("warning: {reason}: it is measured again"));
        }
    }
    left.remove()
}

/// Waits until nothing of what was cancelled runs any more.
fn settle(name: &str) -> Result<(), RunError> {
    let until = Instant::now() + LAST_WORDS;
    loop {
        match queue::is_busy(name) {
            Ok(false) => return Ok(()),
            Err(error) if Instant::now() > until => return Err(error),
            Ok(true) if Instant::now() > until => return Ok(()),
            Ok(true) | Err(_) => std::thread::sleep(LOOK),
        }
    }
}

/// Takes over what a task has measured.
fn adopt(
    store: &WriterLock,
    folder: &Folder,
    part: usize,
) -> Result<Left<(Digest, Heat)>, RunError> {
    let (told, part_store) = match folder.told(part)? {
        None => return Ok(None),
        Some(Err(reason)) => return Ok(Some(Err(reason))),
        Some(Ok(told)) => told,
    };
    let Told { key, result, .. } = told;
    let digest = match result {
        HeatResult::NotReached(reason) => return Ok(Some(Err(reason))),
        HeatResult::Sealed(digest) => digest,
    };
    let adopted = Store::open(part_store).and_then(|part| store.adopt(&part, &key, &digest));
    match adopted {
        Ok(heat) => Ok(Some(Ok((digest, heat)))),
        // Of the part's store: what is written to the run's own is none of these.
        Err(
            error @ (StoreError::Corrupt(_)
            | StoreError::Version { .. }
            | StoreError::Missing { .. }
            | StoreError::NotAStore { .. }
            | StoreError::NotAFolder { .. }),
        ) => Ok(Some(Err(format!(
            "what its task left cannot be used: {error}"
        )))),
        Err(error) => Err(error.into()),
    }
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
    /// Why it waits, as it was told.
    reason: String,
    /// Since when Slurm says that it has ended.
    ended: Option<Instant>,
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
        queue::check()?;
        let folder = Folder::create(store, &submission)?;
        let done = self
            .submit(&folder, launching)
            .and_then(|arrays| self.wait(store, &folder, &arrays, interrupt, observer, results));
        // Whatever ended the wait: nothing goes on that nobody waits for.
        let name = folder.name();
        let cancelled = queue::cancel(&name).and_then(|()| settle(&name));
        if done.is_ok() {
            // What came to its end while it was cancelled, or was seen late.
            folder.look_again();
            for (part, (index, heat)) in self.ahead.iter().enumerate() {
                if !matches!(results.get(&heat.key), Some(HeatResult::Sealed(_))) {
                    self.collect(store, &folder, part, (*index, heat), observer, results)?;
                }
            }
        }
        // What may still run has a folder, and whoever comes next cancels it once more.
        if let Err(error) = cancelled.and_then(|()| folder.remove()) {
            let text = format!("warning: something may be left on the cluster: {error}");
            observer.observe(&Event::Note { text: &text });
        }
        done
    }

    /// Hands the tasks to Slurm: an array for each kind of node that they need.
    fn submit(&self, folder: &Folder, launching: &Launching<'_>) -> Result<Vec<Array>, RunError> {
        let mut by_needs: BTreeMap<Needs, Vec<usize>> = BTreeMap::new();
        for (part, (_, heat)) in self.ahead.iter().enumerate() {
            by_needs.entry(needs(heat)).or_default().push(part);
        }
        let (name, path) = (folder.name(), folder.path());
        let mut arrays = Vec::new();
        for (needs, parts) in by_needs {
            for parts in parts.chunks(LARGEST_ARRAY) {
                arrays.push(queue::submit(&name, path, launching, needs, parts)?);
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
            let tasks = match queue::tasks(&folder.name(), arrays) {
                Ok(tasks) => {
                    heard = Instant::now();
                    Some(tasks)
                }
                Err(error) if heard.elapsed() > SILENCE => return Err(error),
                Err(_) => None,
            };
            if waiting.values().any(|task| task.ended.is_some()) {
                folder.look_again();
            }
            for (part, (index, heat)) in self.ahead.iter().enumerate() {
                if !waiting.contains_key(&part) {
                    continue;
                }
                if self.collect(store, folder, part, (*index, heat), observer, results)? {
                    waiting.remove(&part);
                    continue;
                }
                let Some(tasks) = &tasks else { continue };
                let left = self.left(&waiting);
                let Some(task) = waiting.get_mut(&part) else {
                    continue;
                };
                match self.hear(task, tasks.get(&part), (*index, heat), left, observer) {
                    Heard::Nothing => {}
                    Heard::Lost(word) => {
                        let reason = folder.why(arrays, part, &word);
                        observer.observe(&Event::NotReached {
                            group: &heat.group,
                            reason: &reason,
                        });
                        results.insert(heat.key, HeatResult::NotReached(reason));
                        waiting.remove(&part);
                    }
                }
            }
            if !waiting.is_empty() {
                interrupt.wait(LOOK);
            }
        }
        Ok(())
    }

    /// What Slurm tells of a task that has left nothing yet.
    fn hear(
        &self,
        task: &mut Waiting,
        told: Option<&Task>,
        (index, heat): (usize, &PlannedHeat),
        left: Duration,
        observer: &mut dyn Observer,
    ) -> Heard {
        let state = told.map_or(State::Done, |told| told.state);
        match state {
            State::Waits => {
                task.ended = None;
                let reason = told.map(|told| told.reason.clone()).unwrap_or_default();
                if !is_usual(&reason) && task.reason != reason {
                    let text = format!("{}: it waits for a node: {reason}", heat.group);
                    observer.observe(&Event::Note { text: &text });
                }
                task.reason = reason;
            }
            State::Runs => {
                task.ended = None;
                if !task.has_begun {
                    task.has_begun = true;
                    self.begun((index, heat), left, observer);
                }
            }
            State::Done | State::Ended => {
                let since = *task.ended.get_or_insert_with(Instant::now);
                let patience = if state == State::Done { SEEN } else { LOOKED };
                if since.elapsed() > patience {
                    let word = told.map_or("unknown to Slurm".to_owned(), |told| {
                        match told.word.as_str() {
                            "PENDING" => format!("before it began ({})", told.reason),
                            word => word.to_owned(),
                        }
                    });
                    return Heard::Lost(word);
                }
            }
        }
        Heard::Nothing
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
        let Some(adopted) = adopt(store, folder, part)? else {
            return Ok(false);
        };
        let result = match adopted {
            Err(reason) => {
                observer.observe(&Event::NotReached {
                    group: &heat.group,
                    reason: &reason,
                });
                HeatResult::NotReached(reason)
            }
            Ok((digest, measured)) => {
                let starts = folder.starts(part);
                if starts > 1 {
                    let text = format!(
                        "{}: measured anew, at start {starts} of its task",
                        heat.group
                    );
                    observer.observe(&Event::Note { text: &text });
                }
                let job = self.plan.job(&heat.job);
                let has_looks = job.is_some_and(|job| job.measure.looks().len() > 1);
                observer.observe(&Event::HeatFinished {
                    group: &heat.group,
                    index,
                    cells: &measured.header.cells,
                    outcomes: &measured.footer.outcomes,
                    stopped: Some(measured.footer.stopped.as_str()).filter(|_| has_looks),
                });
                HeatResult::Sealed(digest)
            }
        };
        results.insert(heat.key, result);
        Ok(true)
    }
}

/// What comes of what Slurm tells of a task.
enum Heard {
    /// It is waited for.
    Nothing,
    /// It leaves nothing, and this is how it ended.
    Lost(String),
}

/// Whether a task that waits for this reason waits for its turn.
fn is_usual(reason: &str) -> bool {
    let usual = [
        "",
        "None",
        "BeginTime",
        "JobArrayTaskLimit",
        "Priority",
        "Resources",
    ];
    usual.contains(&reason)
}

/// What a node must have to measure a heat. What cannot run on the machine of the plan asks for nothing.
fn needs(heat: &PlannedHeat) -> Needs {
    let mut needs = Needs { cpus: 1, gpus: 0 };
    for planned in heat.cells.iter().filter(|cell| cell.obstacle.is_none()) {
        let cell = &planned.cell;
        let at_once = cell.at_once();
        needs.cpus = needs.cpus.max(cell.threads.saturating_mul(at_once));
        if let Device::Cuda(index) = cell.device {
            needs.gpus = needs.gpus.max(index.saturating_add(at_once));
        }
    }
    needs
}
