//! A run: the heats of a plan, in order.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::{Duration, Instant},
};

use schema::{
    Digest, Outcome, Plan, RunRecord,
    plan::{Ceilings, KnownHeat, KnownState, PlannedHeat},
    record::{self, HeatEntry, HeatResult},
};
use store::{Fresh, WriterLock};
use worker::host::Interrupt;

use crate::{
    Event, Observer, Options, RunError, Workers,
    context::Context,
    disturbance,
    error::Stop,
    estimate::Estimate,
    heat::{Assignment, Next, Running},
    jury::Noise,
};

mod noise;
mod rest;

use noise::in_order;

/// Measures the heats of a plan that the store lacks, and says for every heat of the plan which
/// artifact answers it, or why there is none.
///
/// An interruption and a used-up budget are no errors: the heats concerned are not reached, and
/// the same call goes on where this one ended. Call it from a thread that lives on: workers die
/// with the thread that started them.
///
/// # Errors
/// The store cannot be read or written, or the plan contradicts itself.
pub fn run(
    plan: &Plan,
    store: &WriterLock,
    workers: &dyn Workers,
    options: &Options,
    interrupt: &Interrupt,
    observer: &mut dyn Observer,
) -> Result<RunRecord, RunError> {
    let mut context = Context {
        store,
        workers,
        options,
        interrupt,
        observer,
    };
    let (known, fresh) = counting(plan, store, options.fresh, context.observer)?;
    let sweep = Sweep::new(plan, fresh.as_ref(), known, options.only.as_ref());
    if sweep.is_watched()
        && let Some(text) = disturbance::unseen(telemetry::times())
    {
        context.tell(&Event::Note { text });
    }
    let results = sweep.run(&mut context)?;
    let entry = |(heat, result): (&PlannedHeat, HeatResult)| HeatEntry {
        group: heat.group.clone(),
        key: heat.key,
        heat: result,
    };
    let heats = plan.all_heats().zip(results).map(entry).collect();
    if options.fresh && !interrupt.is_set() {
        store.end_fresh()?;
    }
    Ok(RunRecord {
        version: record::VERSION,
        plan: plan.clone(),
        heats,
    })
}

/// So much time is to lie between two blocks of a heat, where other heats can fill it: a machine's moods
/// last tens of seconds, and blocks that lie in one of them are not independent.
const APART: Duration = Duration::from_mins(1);

/// Most heats under way that manifests ask for. Each keeps its networks, and on the disk what was written of them.
const MOST_OPEN: usize = 16;

/// What a run keeps in mind.
struct Sweep<'a> {
    plan: &'a Plan,
    /// The newest sound heat of every key, of those that count.
    sealed: BTreeMap<Digest, Digest>,
    /// Fresh runs: what counts for them.
    fresh: Option<&'a Fresh>,
    /// The heats that are measured, by their keys; `None`: all.
    only: Option<&'a BTreeSet<Digest>>,
    /// Time spent on every job.
    spent: BTreeMap<&'a str, Duration>,
    /// The number of every job's verdicts.
    families: BTreeMap<&'a str, u32>,
    /// The heats that were to be measured when the run began, each key once, by their place in the
    /// plan.
    wanting: Vec<bool>,
    /// Predicted for the first blocks of the heats that every job has ahead, in nanoseconds.
    ahead_ns: BTreeMap<&'a str, u64>,
    estimate: Estimate,
    /// The heats that have not had their turn, with their places: those of a job that have the first twins
    /// of an engine go first, since the verdicts of all are drawn against their noise.
    ahead: VecDeque<(usize, &'a PlannedHeat)>,
    /// Those under way; their blocks take turns.
    open: Vec<Running<'a>>,
    /// What the twins of every job's sealed heats say.
    noise: BTreeMap<&'a str, Noise>,
    /// The keys of which an event told that they are in the store.
    told: BTreeSet<Digest>,
    /// What became of each heat, by its place.
    results: BTreeMap<usize, HeatResult>,
}

/// What becomes of the next heat.
enum Turn<'a> {
    /// It is not measured now.
    Ends(HeatResult),
    /// Another group's heat, which is under way, will answer it.
    Shares,
    /// It is known once the others of its job are done whether there is time for it.
    Waits,
    /// It begins.
    Begins(Assignment<'a>),
}

/// What a heat under way did with its turn.
enum Went {
    /// It measured a block.
    On,
    /// It waits for others, or its last block was a moment ago.
    Nowhere,
    /// It is no longer under way.
    Ended,
}

impl<'a> Sweep<'a> {
    /// Of a plan, where the store has these heats that count.
    fn new(
        plan: &'a Plan,
        fresh: Option<&'a Fresh>,
        known: Vec<KnownHeat>,
        only: Option<&'a BTreeSet<Digest>>,
    ) -> Self {
        let sealed = known.into_iter().filter_map(|heat| match heat.state {
            KnownState::Sealed(digest) => Some((heat.key, digest)),
            KnownState::Open(_) => None,
        });
        let mut sweep = Self {
            plan,
            sealed: sealed.collect(),
            fresh,
            only,
            spent: BTreeMap::new(),
            families: plan.families(),
            wanting: Vec::new(),
            ahead_ns: BTreeMap::new(),
            estimate: Estimate::default(),
            ahead: VecDeque::new(),
            open: Vec::new(),
            noise: BTreeMap::new(),
            told: BTreeSet::new(),
            results: BTreeMap::new(),
        };
        let heats = plan.all_heats();
        let mut seen = BTreeSet::new();
        sweep.wanting = heats
            .clone()
            .map(|heat| {
                seen.insert(heat.key)
                    && sweep.is_asked(&heat.key)
                    && sweep.have(&heat.key).is_none()
            })
            .collect();
        let wanted = heats.zip(&sweep.wanting).filter(|(_, wanting)| **wanting);
        for (heat, _) in wanted.clone() {
            let ahead_ns = sweep.ahead_ns.entry(&heat.job).or_default();
            *ahead_ns = ahead_ns.saturating_add(heat.predicted_ns);
        }
        sweep.estimate = Estimate::new(wanted.map(|(heat, _)| heat.predicted_ns));
        sweep.ahead = in_order(plan).into();
        sweep
    }

    /// Measures block by block, heat by heat, and tells what became of each heat.
    fn run(mut self, context: &mut Context<'a>) -> Result<Vec<HeatResult>, RunError> {
        loop {
            self.fill(context)?;
            if self.open.is_empty() {
                break;
            }
            let mut at = 0;
            let mut is_idle = true;
            while at < self.open.len() {
                let went = self.go_on(context, at)?;
                is_idle &= matches!(went, Went::Nowhere);
                at += usize::from(!matches!(went, Went::Ended));
            }
            if is_idle {
                self.rest(context);
            }
        }
        let heats = self.plan.all_heats().enumerate();
        heats
            .map(|(index, heat)| match self.results.remove(&index) {
                Some(result) => Ok(result),
                None => Ok(self.shared(context, heat)),
            })
            .collect()
    }

    /// Begins all ceilings, and other heats until the others of those under way fill the time between two blocks of
    /// each. One that waits for what its job's budget leaves lets others go first.
    fn fill(&mut self, context: &mut Context<'a>) -> Result<(), RunError> {
        let mut place = 0;
        while let Some(&(index, heat)) = self.ahead.get(place) {
            let is_filled = self.between_blocks() >= APART || self.asked().count() >= MOST_OPEN;
            if heat.job != Ceilings::JOB && is_filled {
                break;
            }
            let turn = self.turn(context, index, heat)?;
            if matches!(turn, Turn::Waits) {
                place += 1;
                continue;
            }
            self.ahead.remove(place);
            self.take(index, heat);
            match turn {
                Turn::Ends(result) => {
                    self.results.insert(index, result);
                }
                Turn::Begins(assignment) => self.start(context, assignment)?,
                Turn::Shares | Turn::Waits => {}
            }
        }
        Ok(())
    }

    /// The heats under way that the manifests ask for: all but ceilings.
    fn asked(&self) -> impl Iterator<Item = &Running<'a>> + Clone {
        self.open.iter().filter(|heat| !heat.is_ceiling())
    }

    /// The shortest time between two blocks of a heat under way: that of the others' blocks. Those of ceilings
    /// are too few to count.
    fn between_blocks(&self) -> Duration {
        // One that waits fills no time.
        let takes = || {
            let working = self.asked().filter(|heat| !heat.waits);
            working.map(|heat| heat.block_takes(&self.estimate))
        };
        let longest = takes().max().unwrap_or_default();
        takes().sum::<Duration>().saturating_sub(longest)
    }

    fn turn(
        &mut self,
        context: &mut Context<'a>,
        index: usize,
        heat: &'a PlannedHeat,
    ) -> Result<Turn<'a>, RunError> {
        let plan = self.plan;
        let of = plan.all_heats().count();
        if let Some(digest) = self.have(&heat.key) {
            // What an earlier group of this plan has was told with it.
            if self.told.insert(heat.key) {
                context.tell(&Event::Cached {
                    group: &heat.group,
                    index,
                    of,
                });
            }
            return Ok(Turn::Ends(HeatResult::Sealed(digest)));
        }
        if !self.is_asked(&heat.key) {
            let reason = "it is another part's".to_owned();
            return Ok(Turn::Ends(HeatResult::NotReached(reason)));
        }
        if self
            .open
            .iter()
            .any(|open| open.assignment.heat.key == heat.key)
        {
            return Ok(Turn::Shares);
        }
        let job = plan.job(&heat.job).ok_or_else(|| RunError::NoSuchJob {
            group: heat.group.clone(),
            job: heat.job.clone(),
        })?;
        if context.interrupt.is_set() {
            return Ok(Turn::Ends(not_reached(context, heat, INTERRUPTED)));
        }
        let owed = self.owed(&job.id, None);
        let budget = Duration::from_nanos(job.measure.budget_ns);
        if self.spent(&job.id).saturating_add(owed) >= budget {
            if !owed.is_zero() {
                return Ok(Turn::Waits);
            }
            let reason = format!(
                "the budget of job `{}` ({:.0} s) was used up; run again to go on, or give it more",
                job.id,
                budget.as_secs_f64()
            );
            return Ok(Turn::Ends(not_reached(context, heat, &reason)));
        }
        Ok(Turn::Begins(Assignment {
            heat,
            job,
            index,
            of,
            manifests: &plan.manifests,
            fresh: self.fresh,
            family: self.families.get(job.id.as_str()).copied().unwrap_or(0),
        }))
    }

    /// Whether blocks that it is to measure count only where nothing disturbs them.
    fn is_watched(&self) -> bool {
        let heats = self.plan.all_heats().zip(&self.wanting);
        let wanted = heats.filter(|(_, wanting)| **wanting);
        let mut jobs = wanted.filter_map(|(heat, _)| self.plan.job(&heat.job));
        jobs.any(|job| job.measure.blocks > 0 && job.measure.disturbance.is_some())
    }

    /// Whether this run measures heats of this key.
    fn is_asked(&self, key: &Digest) -> bool {
        self.only.is_none_or(|only| only.contains(key))
    }

    /// A heat leaves those that are ahead.
    fn take(&mut self, index: usize, heat: &PlannedHeat) {
        if self.wanting.get(index).is_some_and(|wanting| *wanting) {
            self.estimate.take(heat.predicted_ns);
            if let Some(ahead_ns) = self.ahead_ns.get_mut(heat.job.as_str()) {
                *ahead_ns = ahead_ns.saturating_sub(heat.predicted_ns);
            }
        }
    }

    fn start(
        &mut self,
        context: &mut Context<'a>,
        assignment: Assignment<'a>,
    ) -> Result<(), RunError> {
        let own = self.estimate.corrected(assignment.heat.predicted_ns);
        let left = self.left().saturating_add(own);
        let began = Instant::now();
        let begun = Running::begin(context, assignment, left);
        self.spend(assignment, began.elapsed());
        match begun {
            Ok(heat) => {
                self.hear(context, assignment);
                match heat.next(|| self.noise_of(assignment)) {
                    // One that was interrupted is asked when those beside it are open, too.
                    Next::Nothing(reason) if !heat.is_resumed() => {
                        self.seal(context, heat, reason)?;
                    }
                    _ => self.open.push(heat),
                }
            }
            Err(stop) => self.stop(context, assignment, stop)?,
        }
        Ok(())
    }

    /// The next block of a heat under way, where there is time for it.
    fn go_on(&mut self, context: &mut Context<'a>, at: usize) -> Result<Went, RunError> {
        let Some(heat) = self.open.get(at) else {
            return Ok(Went::Ended);
        };
        let assignment = heat.assignment;
        // Those that it would hear of end now, too: it is asked again when the run goes on.
        let next = match context.interrupt.is_set() {
            true => Next::Block,
            false => heat.next(|| self.noise_of(assignment)),
        };
        let reason = match next {
            Next::Block => None,
            Next::More(blocks) if self.affords(heat, at, blocks) => None,
            Next::More(_) => Some(format!(
                "its job's budget leaves no time to go on, {}; what is kept is not gone on with: give it more, and measure \
                 anew (`--fresh`)",
                heat.after()
            )),
            Next::Wait => {
                if let Some(heat) = self.open.get_mut(at) {
                    heat.waits = true;
                }
                return Ok(Went::Nowhere);
            }
            Next::Nothing(reason) => Some(reason),
        };
        if let Some(reason) = reason {
            let heat = self.open.remove(at);
            self.seal(context, heat, reason)?;
            return Ok(Went::Ended);
        }
        let (left, rests) = (self.left(), self.rests(heat));
        let Some(heat) = self.open.get_mut(at) else {
            return Ok(Went::Ended);
        };
        heat.waits = false;
        if !context.interrupt.is_set() && !rests.is_zero() {
            return Ok(Went::Nowhere);
        }
        let took = match heat.block(context, left) {
            Ok(took) => took,
            Err(stop) => {
                self.open.remove(at);
                self.stop(context, assignment, stop)?;
                return Ok(Went::Ended);
            }
        };
        self.spend(assignment, took);
        let heat = self.open.get(at);
        match heat.map(|heat| heat.next(|| self.noise_of(assignment))) {
            None | Some(Next::Block | Next::More(_) | Next::Wait) => Ok(Went::On),
            // At once: from then on no interruption loses it. (One that comes while its cells are
            // profiled leaves its blocks in the journal, and the next run profiles and seals.)
            Some(Next::Nothing(reason)) => {
                let heat = self.open.remove(at);
                self.seal(context, heat, reason)?;
                Ok(Went::Ended)
            }
        }
    }

    /// Whether the job's budget has room for more blocks of a heat, once the others of the job have had
    /// theirs.
    fn affords(&self, heat: &Running<'_>, at: usize, blocks: u32) -> bool {
        let job = heat.assignment.job;
        let block = heat.block_takes(&self.estimate) + self.pause(heat);
        let needed = block.saturating_mul(blocks);
        let ahead_ns = self.ahead_ns.get(job.id.as_str()).copied().unwrap_or(0);
        let others = self.owed(&job.id, Some(at));
        let others = others.saturating_add(self.estimate.corrected(ahead_ns));
        let budget = Duration::from_nanos(job.measure.budget_ns);
        let spent = self.spent(&job.id);
        needed.saturating_add(others).saturating_add(spent) <= budget
    }

    /// What the heats of a job under way will take, but for one.
    fn owed(&self, job: &str, but: Option<usize>) -> Duration {
        let others = self.open.iter().enumerate();
        others
            .filter(|(at, open)| Some(*at) != but && !open.waits && open.assignment.job.id == job)
            .map(|(_, open)| open.ahead(&self.estimate))
            .sum()
    }

    fn spent(&self, job: &str) -> Duration {
        self.spent.get(job).copied().unwrap_or_default()
    }

    fn spend(&mut self, assignment: Assignment<'a>, time: Duration) {
        *self.spent.entry(&assignment.job.id).or_default() += time;
    }

    /// Estimate of the time that the run will still take.
    fn left(&self) -> Duration {
        let ahead = self.estimate.ahead();
        ahead.saturating_add(self.left_of(self.open.iter()))
    }

    /// The same of what the manifests ask for, as far as the budgets of their jobs go.
    fn left_of_asked(&self) -> Duration {
        let ahead = self.ahead_ns.iter();
        let ahead = ahead.filter(|(job, _)| **job != Ceilings::JOB);
        let ahead = ahead.map(|(job, ns)| {
            let budget = self.plan.job(job).map(|job| job.measure.budget_ns);
            let budget = budget.map_or(Duration::MAX, Duration::from_nanos);
            let unspent = budget.saturating_sub(self.spent(job));
            self.estimate.corrected(*ns).min(unspent)
        });
        let ahead = ahead.fold(Duration::ZERO, Duration::saturating_add);
        ahead.saturating_add(self.left_of(self.asked()))
    }

    /// The same of these heats under way.
    fn left_of<'s>(&'s self, heats: impl Iterator<Item = &'s Running<'a>> + Clone) -> Duration {
        let open = || heats.clone().filter(|heat| !heat.waits);
        let blocks = open().map(|heat| heat.ahead(&self.estimate));
        let pauses = open().map(|heat| self.pause(heat).saturating_mul(heat.blocks_ahead()));
        let blocks: Duration = blocks.sum();
        blocks.saturating_add(pauses.max().unwrap_or_default())
    }

    fn seal(
        &mut self,
        context: &mut Context<'a>,
        heat: Running<'a>,
        reason: String,
    ) -> Result<(), RunError> {
        let (assignment, took) = (heat.assignment, heat.spent());
        // Twins of a heat that stayed disturbed say what disturbed it.
        let noise = Some(heat.noise()).filter(|_| heat.is_sound());
        let began = Instant::now();
        let sealed = heat.seal(context, reason);
        // Profiles take time, and were predicted to.
        let sealing = began.elapsed();
        self.spend(assignment, sealing);
        let took = took.saturating_add(sealing);
        let sealed = match sealed {
            Ok(sealed) => sealed,
            Err(stop) => return self.stop(context, assignment, stop),
        };
        // A heat in which nothing could run tells nothing about those that can.
        let is_complete = |outcome: &Outcome| outcome.kind.is_complete();
        if let Some(predicted_ns) = sealed.predicted_ns
            && sealed.outcomes.iter().any(is_complete)
        {
            self.estimate.learn(predicted_ns, took);
        }
        let Assignment { heat, index, .. } = assignment;
        if let Some(noise) = noise {
            self.tell_jobs(&heat.key, &noise);
        }
        self.sealed.insert(heat.key, sealed.digest);
        self.told.insert(heat.key);
        context.tell(&Event::HeatFinished {
            group: &heat.group,
            index,
            cells: &sealed.cells,
            outcomes: &sealed.outcomes,
            stopped: sealed.stopped.as_deref(),
        });
        self.results
            .insert(index, HeatResult::Sealed(sealed.digest));
        Ok(())
    }

    /// A heat ended before its end.
    fn stop(
        &mut self,
        context: &mut Context<'a>,
        assignment: Assignment<'a>,
        stop: Stop,
    ) -> Result<(), RunError> {
        let Assignment { heat, index, .. } = assignment;
        let result = match stop {
            Stop::Interrupted => not_reached(context, heat, INTERRUPTED),
            Stop::Later(reason) => not_reached(context, heat, &reason),
            Stop::Failed(error) => return Err(error),
        };
        self.results.insert(index, result);
        Ok(())
    }

    /// What became of a heat that another group's was to answer.
    fn shared(&self, context: &mut Context<'a>, heat: &PlannedHeat) -> HeatResult {
        if let Some(digest) = self.have(&heat.key) {
            return HeatResult::Sealed(digest);
        }
        not_reached(
            context,
            heat,
            "the group that it shares its heat with was not reached",
        )
    }

    /// The heat that answers this key, if the store has one that counts.
    fn have(&self, key: &Digest) -> Option<Digest> {
        self.sealed.get(key).copied()
    }
}

pub(crate) const INTERRUPTED: &str = "interrupted; the same command goes on";

/// The heats that the store has and that count, and for a fresh run what those are: the interrupted one
/// that is gone on with, or a new one. What cannot be read is moved out of the way.
pub(crate) fn counting(
    plan: &Plan,
    store: &WriterLock,
    fresh: bool,
    observer: &mut dyn Observer,
) -> Result<(Vec<KnownHeat>, Option<Fresh>), RunError> {
    let known = store.known_heats()?;
    let runs = store.corrupt_runs()?;
    for corrupt in known.corrupt.iter().chain(&runs) {
        if let Some(place) = store.set_aside(corrupt)? {
            observer.observe(&Event::SetAside {
                place: &place,
                reason: &corrupt.reason,
            });
        }
    }
    if !fresh {
        return Ok((known.heats, None));
    }
    let keys: Vec<Digest> = plan.all_heats().map(|heat| heat.key).collect();
    let fresh = match store.interrupted_fresh(&keys)? {
        Some(fresh) => fresh,
        None => store.begin_fresh(&keys)?,
    };
    Ok((store.known_heats_of(&fresh)?.heats, Some(fresh)))
}

fn not_reached(context: &mut Context<'_>, heat: &PlannedHeat, reason: &str) -> HeatResult {
    context.tell(&Event::NotReached {
        group: &heat.group,
        reason,
    });
    HeatResult::NotReached(reason.to_owned())
}
