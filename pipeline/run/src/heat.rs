//! Measuring one heat, from its first parity to its seal.

use std::time::{Duration, Instant};

use schema::{
    Digest, Outcome,
    plan::{Ceilings, ManifestSource, PlannedCell, PlannedHeat, PlannedJob},
    record::{self, Frontier, HeatFooter, HeatHeader},
};
use store::{Fresh, Journal, now};

use crate::{
    Event, block, calibration,
    context::{Context, Setting},
    error::Stop,
    estimate::Estimate,
    frontier,
    graphs::Graphs,
    home,
    jury::{Answer, Jury, Noise},
    order, profile, reference,
    tally::Tally,
};

/// A heat to be measured.
#[derive(Clone, Copy)]
pub(crate) struct Assignment<'a> {
    pub(crate) heat: &'a PlannedHeat,
    pub(crate) job: &'a PlannedJob,
    /// Its place in the plan, and the number of heats there.
    pub(crate) index: usize,
    pub(crate) of: usize,
    /// Models of the user's lie beside them.
    pub(crate) manifests: &'a [ManifestSource],
    /// A journal that does not count for this fresh run is begun anew.
    pub(crate) fresh: Option<&'a Fresh>,
    /// The number of the job's verdicts.
    pub(crate) family: u32,
}

/// A heat under way.
pub(crate) struct Running<'a> {
    pub(crate) assignment: Assignment<'a>,
    journal: Journal<'a>,
    graphs: Graphs,
    tally: Tally,
    /// The largest batch of each cell that fits, where that is sought.
    frontiers: Vec<Option<Frontier>>,
    looks: Vec<u32>,
    /// Blocks that an earlier, interrupted run measured.
    kept: u32,
    /// Whether it waits for what twins in other heats will tell.
    pub(crate) waits: bool,
    /// When its last block ended that this run measured.
    ended: Option<Instant>,
    /// Whether this run measured all of it.
    is_whole: bool,
    /// Time that this run took for it, and of that for its blocks.
    spent: Duration,
    spent_on_blocks: Duration,
}

/// What a heat needs next.
pub(crate) enum Next {
    /// A block.
    Block,
    /// So many blocks until the next look, if there is time for them.
    More(u32),
    /// To wait: whether it is enough is known once other heats under way have told their noise.
    Wait,
    /// Nothing, for this reason.
    Nothing(String),
}

/// A heat that was sealed.
pub(crate) struct Sealed {
    pub(crate) digest: Digest,
    /// The cells in its own order: a heat that was gone on with keeps that of its first plan.
    pub(crate) cells: Vec<PlannedCell>,
    /// How each of them ended.
    pub(crate) outcomes: Vec<Outcome>,
    /// Why it ended where it did; `None` where the number of its blocks was fixed.
    pub(crate) stopped: Option<String>,
    /// What all of it was predicted to take, in nanoseconds; `None` where this run did not measure all.
    pub(crate) predicted_ns: Option<u64>,
}

impl<'a> Running<'a> {
    /// Begins a heat, or goes on with one that was interrupted: parity first. `left` estimates the time
    /// that the run will still take.
    pub(crate) fn begin(
        context: &mut Context<'a>,
        assignment: Assignment<'a>,
        left: Duration,
    ) -> Result<Self, Stop> {
        let began = Instant::now();
        let (mut journal, mut graphs) = open(context, &assignment)?;
        let header = journal.header().clone();
        let kept = count(&journal);
        let is_whole = journal.reference().is_none();
        context.tell(&Event::HeatStarted {
            group: &header.group,
            index: assignment.index,
            of: assignment.of,
            blocks_kept: sound(&journal),
            blocks: header.measure.first_look(),
            left,
        });
        let reference = match journal.reference() {
            Some(reference) => reference.clone(),
            None => {
                let quantised = calibration::quantise(context, &header, &mut graphs)?;
                let setting = Setting {
                    header: &header,
                    graphs: &graphs,
                };
                let mut judged = reference::judge(context, &setting, quantised)?;
                home::hide_in_reference(&mut judged);
                journal.set_reference(judged.clone())?;
                judged
            }
        };
        let setting = Setting {
            header: &header,
            graphs: &graphs,
        };
        let frontiers = frontier::seek(context, &setting, assignment.manifests, &reference)?;
        Ok(Self {
            assignment,
            frontiers,
            tally: Tally::new(&reference, header.measure.blocks, journal.blocks()),
            looks: header.measure.looks(),
            journal,
            graphs,
            kept,
            waits: false,
            ended: None,
            is_whole,
            spent: began.elapsed(),
            spent_on_blocks: Duration::ZERO,
        })
    }

    /// Whether it has said enough, by what the twins of its job have said.
    pub(crate) fn next(&self, noise: impl FnOnce() -> Noise) -> Next {
        let header = self.journal.header();
        let (done, most) = (self.done(), header.measure.blocks);
        if most == 0 {
            return Next::Nothing("nothing was to be timed".to_owned());
        }
        if done >= most {
            return Next::Nothing(format!("all {most} blocks measured"));
        }
        if self.tally.launchable().is_empty() {
            return Next::Nothing(format!(
                "no cell could be launched after {done} of {most} blocks"
            ));
        }
        let disturbed = count(&self.journal) - done;
        let repeats = header
            .measure
            .disturbance
            .map_or(0, |limits| limits.repeats);
        if disturbed > repeats {
            return Next::Nothing(format!("{}, {}", self.disturbed(), self.after()));
        }
        if !self.looks.contains(&done) {
            return Next::Block;
        }
        let Assignment {
            heat, job, family, ..
        } = self.assignment;
        match Jury::new(header, heat, job, family).enough(self.journal.blocks(), &noise()) {
            Answer::Enough(reason) => Next::Nothing(format!("{reason}, {}", self.after())),
            Answer::More => Next::More(self.goal() - done),
            Answer::Wait => Next::Wait,
        }
    }

    /// What its twins have said so far, and who of them will before its first look.
    pub(crate) fn noise(&self) -> Noise {
        let header = self.journal.header();
        let mut noise = Noise::default();
        noise.add(&header.cells, self.journal.blocks());
        if !self.is_sound() {
            let twins = self.tally.launchable().into_iter();
            let twins = twins.filter_map(|slot| header.cells.get(slot as usize));
            for twin in twins.filter(|cell| cell.twin_of.is_some()) {
                noise.expect(twin);
            }
        }
        noise
    }

    /// Its blocks that nothing disturbed.
    fn done(&self) -> u32 {
        sound(&self.journal)
    }

    /// Whether an earlier run measured some of it.
    pub(crate) const fn is_resumed(&self) -> bool {
        self.kept > 0
    }

    /// Whether it has blocks for its first look.
    pub(crate) fn is_sound(&self) -> bool {
        self.done() >= self.journal.header().measure.first_look()
    }

    /// In how many blocks it was disturbed, and by what the last time.
    fn disturbed(&self) -> String {
        let blocks = self.journal.blocks();
        let last = blocks
            .iter()
            .rev()
            .find_map(|block| block.disturbed.as_deref());
        format!(
            "the machine was disturbed in {} of {} blocks: in the last of them {}",
            blocks.len() as u32 - self.done(),
            blocks.len(),
            last.unwrap_or_default()
        )
    }

    /// How far it has come, in words.
    pub(crate) fn after(&self) -> String {
        let most = self.journal.header().measure.blocks;
        format!("after {} of at most {most} blocks", self.done())
    }

    /// The look that it is on the way to.
    fn goal(&self) -> u32 {
        let done = self.done();
        let ahead = self.looks.iter().copied().find(|look| *look > done);
        ahead.unwrap_or(done)
    }

    /// Measures its next block; tells how long that took.
    pub(crate) fn block(
        &mut self,
        context: &mut Context<'a>,
        left: Duration,
    ) -> Result<Duration, Stop> {
        let began = Instant::now();
        context.check_interrupt()?;
        let index = count(&self.journal);
        let group = &self.assignment.heat.group;
        context.tell(&Event::BlockStarted {
            group,
            block: self.done(),
            of: self.goal(),
            left,
        });
        let setting = Setting {
            header: self.journal.header(),
            graphs: &self.graphs,
        };
        let slots = self.tally.launchable();
        let mut block = block::measure(context, &setting, index, &slots)?;
        home::hide_in_block(&mut block);
        self.tally.count(&block);
        let disturbed = block.disturbed.as_ref();
        let disturbed =
            disturbed.map(|reason| format!("a block of {group} does not count: {reason}"));
        self.journal.append(block)?;
        // Kept, whatever whoever is told does next.
        match disturbed {
            Some(text) => context.tell(&Event::Note { text: &text }),
            None => context.tell(&Event::BlockMeasured { group }),
        }
        self.ended = Some(Instant::now());
        let took = began.elapsed();
        self.spent += took;
        self.spent_on_blocks += took;
        Ok(took)
    }

    /// What a block of it takes, as far as that is known.
    pub(crate) fn block_takes(&self, estimate: &Estimate) -> Duration {
        let done = count(&self.journal) - self.kept;
        match self.spent_on_blocks.checked_div(done) {
            Some(block) if !block.is_zero() => block,
            _ => estimate.corrected(part_ns(&self.assignment)),
        }
    }

    /// What it will take until its next look.
    pub(crate) fn ahead(&self, estimate: &Estimate) -> Duration {
        self.block_takes(estimate)
            .saturating_mul(self.blocks_ahead())
    }

    /// Its blocks until its next look.
    pub(crate) fn blocks_ahead(&self) -> u32 {
        self.goal() - self.done()
    }

    /// What is to lie between two of its blocks at least.
    pub(crate) const fn apart(&self) -> Duration {
        Duration::from_nanos(self.assignment.job.measure.apart_ns)
    }

    /// How much of a time is left after its last block.
    pub(crate) fn rests(&self, time: Duration) -> Duration {
        let since = self.ended.map(|ended| ended.elapsed());
        since.map_or(Duration::ZERO, |since| time.saturating_sub(since))
    }

    /// Whether it is measured for what its devices can do at most, and asked for by no manifest.
    pub(crate) fn is_ceiling(&self) -> bool {
        self.assignment.heat.job == Ceilings::JOB
    }

    /// Time that this run took for it.
    pub(crate) const fn spent(&self) -> Duration {
        self.spent
    }

    /// Ends it, for this reason. What is to be profiled is profiled first: an interruption loses no block,
    /// and the heat is sealed when it is gone on with.
    pub(crate) fn seal(self, context: &mut Context<'a>, reason: String) -> Result<Sealed, Stop> {
        let is_unstable = !self.is_sound();
        let disturbed = self.disturbed();
        let outcomes = self.tally.outcomes(&disturbed, is_unstable);
        let mut profiles = match self.assignment.job.profile {
            true => {
                let setting = Setting {
                    header: self.journal.header(),
                    graphs: &self.graphs,
                };
                profile::profile(context, &setting, &outcomes)?
            }
            false => Vec::new(),
        };
        home::hide_in_profiles(&mut profiles);
        let footer = HeatFooter {
            finished: now(),
            outcomes: outcomes.clone(),
            stopped: reason.clone(),
            frontiers: self.frontiers,
            profiles,
        };
        let cells = self.journal.header().cells.clone();
        let parts = parts(count(&self.journal));
        let predicted_ns = part_ns(&self.assignment).saturating_mul(parts);
        Ok(Sealed {
            digest: self.journal.seal(footer)?,
            outcomes,
            stopped: Some(reason).filter(|_| self.looks.len() > 1),
            predicted_ns: self.is_whole.then_some(predicted_ns),
            cells,
        })
    }
}

/// So many blocks, and parity: that launches every cell once, like a block, and is counted as one.
fn parts(blocks: u32) -> u64 {
    u64::from(blocks) + 1
}

/// The predicted time of one of those.
fn part_ns(assignment: &Assignment<'_>) -> u64 {
    assignment.heat.predicted_ns / parts(assignment.job.measure.first_look())
}

/// The blocks that nothing disturbed.
fn sound(journal: &Journal<'_>) -> u32 {
    let blocks = journal.blocks().iter();
    let sound = blocks.filter(|block| block.disturbed.is_none());
    u32::try_from(sound.count()).unwrap_or(u32::MAX)
}

fn count(journal: &Journal<'_>) -> u32 {
    u32::try_from(journal.blocks().len()).unwrap_or(u32::MAX)
}

/// The journal of a heat that was begun, or of one that begins now, and the networks of its cells:
/// those that its cells were judged on where that is done.
fn open<'a>(
    context: &mut Context<'a>,
    assignment: &Assignment<'_>,
) -> Result<(Journal<'a>, Graphs), Stop> {
    if let Some(journal) = resume(context, assignment)? {
        let header = journal.header();
        let mut graphs = Graphs::of(context, assignment.manifests, &header.cells)?;
        let restored = match journal.reference() {
            Some(reference) => calibration::restore(context, header, reference, &mut graphs)?,
            None => Ok(()),
        };
        match restored {
            Ok(()) => return Ok((journal, graphs)),
            Err(reason) => {
                let text = format!("heat {} begins anew: {reason}", header.group);
                context.tell(&Event::Note { text: &text });
            }
        }
    }
    let journal = begin(context, assignment)?;
    let graphs = Graphs::of(context, assignment.manifests, &journal.header().cells)?;
    Ok((journal, graphs))
}

fn resume<'a>(
    context: &Context<'a>,
    assignment: &Assignment<'_>,
) -> Result<Option<Journal<'a>>, Stop> {
    let journal = context.store.resume(&assignment.heat.key)?;
    Ok(journal.filter(|journal| {
        assignment
            .fresh
            .is_none_or(|fresh| fresh.counts_open(journal.header()))
    }))
}

fn begin<'a>(context: &Context<'a>, assignment: &Assignment<'_>) -> Result<Journal<'a>, Stop> {
    let heat = assignment.heat;
    let started = now();
    let header = HeatHeader {
        version: record::VERSION,
        group: heat.group.clone(),
        key: heat.key,
        key_parts: heat.key_parts.clone(),
        cells: heat.cells.clone(),
        measure: assignment.job.measure,
        seed: order::seed(&heat.key, &started),
        started,
        environment: telemetry::environment(),
        tool: context.options.tool.clone(),
    };
    Ok(context.store.begin(header)?)
}
