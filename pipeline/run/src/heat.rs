//! Measuring one heat, from its first parity to its seal.

use std::time::{Duration, Instant};

use schema::{
    Digest, Outcome,
    plan::{ManifestSource, PlannedCell, PlannedHeat, PlannedJob},
    record::{self, HeatFooter, HeatHeader},
};
use store::{Fresh, Journal, now};

use crate::{
    Event, block, calibration,
    context::{Context, Setting},
    error::Stop,
    estimate::Estimate,
    graphs::Graphs,
    home, order, reference,
    tally::Tally,
};

/// A heat to be measured.
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
}

/// A heat that was sealed.
pub(crate) struct Sealed {
    pub(crate) digest: Digest,
    /// The cells in its own order: a heat that was gone on with keeps that of its first plan.
    pub(crate) cells: Vec<PlannedCell>,
    /// How each of them ended.
    pub(crate) outcomes: Vec<Outcome>,
    /// Whether this run measured all of it.
    pub(crate) whole: bool,
}

/// Measures a heat, or goes on with one that was interrupted, and seals it.
pub(crate) fn measure(
    context: &mut Context<'_>,
    assignment: &Assignment<'_>,
    estimate: &Estimate,
) -> Result<Sealed, Stop> {
    let (mut journal, mut graphs) = open(context, assignment)?;
    let header = journal.header().clone();
    let pace = Pace::new(&journal, assignment, estimate);
    context.tell(&Event::HeatStarted {
        group: &header.group,
        index: assignment.index,
        of: assignment.of,
        blocks_kept: count(&journal),
        blocks: header.measure.blocks,
        left: pace.left(&journal),
    });
    let quantised = match journal.reference() {
        Some(_) => Vec::new(),
        None => calibration::quantise(context, &header, &mut graphs)?,
    };
    let setting = Setting {
        header: &header,
        graphs: &graphs,
    };
    let reference = match journal.reference() {
        Some(reference) => reference.clone(),
        None => {
            let mut judged = reference::judge(context, &setting, quantised)?;
            home::hide_in_reference(&mut judged);
            journal.set_reference(judged.clone())?;
            judged
        }
    };
    let mut tally = Tally::new(&reference, header.measure.blocks, journal.blocks());
    let stopped = blocks(context, &setting, &mut journal, &mut tally, &pace)?;
    let outcomes = tally.outcomes();
    let footer = HeatFooter {
        finished: now(),
        outcomes: outcomes.clone(),
        stopped,
    };
    Ok(Sealed {
        digest: journal.seal(footer)?,
        outcomes,
        cells: header.cells,
        whole: pace.kept == 0,
    })
}

/// Measures the blocks that are missing; tells why it stopped.
fn blocks(
    context: &mut Context<'_>,
    setting: &Setting<'_>,
    journal: &mut Journal<'_>,
    tally: &mut Tally,
    pace: &Pace<'_>,
) -> Result<String, Stop> {
    let of = setting.header.measure.blocks;
    if of == 0 {
        return Ok("nothing was to be timed".to_owned());
    }
    for index in count(journal)..of {
        let slots = tally.launchable();
        if slots.is_empty() {
            return Ok(format!(
                "no cell could be launched after {index} of {of} blocks"
            ));
        }
        context.check_interrupt()?;
        context.tell(&Event::BlockStarted {
            block: index,
            of,
            left: pace.left(journal),
        });
        let mut block = block::measure(context, setting, index, &slots)?;
        home::hide_in_block(&mut block);
        tally.count(&block);
        journal.append(block)?;
    }
    Ok(format!("all {of} blocks measured"))
}

fn count(journal: &Journal<'_>) -> u32 {
    u32::try_from(journal.blocks().len()).unwrap_or(u32::MAX)
}

/// How fast a heat gets on. Judging parity launches every cell once, like a block, and is counted
/// as one.
struct Pace<'a> {
    estimate: &'a Estimate,
    predicted_ns: u64,
    parts: u32,
    /// Parts that an earlier, interrupted run did.
    kept: u32,
    began: Instant,
}

impl<'a> Pace<'a> {
    fn new(journal: &Journal<'_>, assignment: &Assignment<'_>, estimate: &'a Estimate) -> Self {
        Self {
            estimate,
            predicted_ns: assignment.heat.predicted_ns,
            parts: journal.header().measure.blocks.saturating_add(1),
            kept: Self::done(journal),
            began: Instant::now(),
        }
    }

    fn done(journal: &Journal<'_>) -> u32 {
        count(journal).saturating_add(u32::from(journal.reference().is_some()))
    }

    /// Estimate of the time that the run will still take.
    fn left(&self, journal: &Journal<'_>) -> Duration {
        let done = Self::done(journal);
        let (ours, rest) = (
            done.saturating_sub(self.kept),
            self.parts.saturating_sub(done),
        );
        let rest_ns = self.predicted_ns / u64::from(self.parts) * u64::from(rest);
        let both = ours.saturating_add(rest);
        self.estimate
            .left(rest_ns, ours, both, self.began.elapsed())
    }
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
