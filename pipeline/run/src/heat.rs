//! Measuring one heat, from its first parity to its seal.

use std::time::{Duration, Instant};

use schema::{
    Digest, Outcome,
    plan::{PlannedHeat, PlannedJob},
    record::{self, HeatFooter, HeatHeader},
};
use store::{Journal, now};

use crate::{
    Event, block,
    context::{Context, Setting},
    error::Stop,
    estimate::Estimate,
    graphs::Graphs,
    order, reference,
    tally::Tally,
};

/// A heat to be measured.
pub(crate) struct Assignment<'a> {
    pub(crate) heat: &'a PlannedHeat,
    pub(crate) job: &'a PlannedJob,
    /// Its place in the plan, and the number of heats there.
    pub(crate) index: usize,
    pub(crate) of: usize,
    /// A journal begun before this moment belongs to another run and is begun anew.
    pub(crate) since: Option<&'a str>,
}

/// A heat that was sealed.
pub(crate) struct Sealed {
    pub(crate) digest: Digest,
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
    let mut journal = open(context, assignment)?;
    let header = journal.header().clone();
    let scratch = context.store.scratch()?;
    let graphs = Graphs::of(&header.cells);
    let setting = Setting {
        header: &header,
        graphs: &graphs,
        scratch: scratch.path(),
    };
    let kept = u32::try_from(journal.blocks().len()).unwrap_or(u32::MAX);
    let whole = journal.reference().is_none();
    let blocks = header.measure.blocks;
    // Judging parity launches every cell once, like a block.
    let parts = blocks.saturating_add(1);
    let predicted_ns = assignment.heat.predicted_ns;
    let left = |done: u32, measured: u32, began: Instant| {
        let rest = parts.saturating_sub(done);
        let rest_ns = predicted_ns / u64::from(parts) * u64::from(rest);
        if measured == 0 {
            return estimate.left(rest_ns, 0, rest, Duration::ZERO);
        }
        let both = measured.saturating_add(rest);
        estimate.left(rest_ns, measured, both, began.elapsed())
    };
    let began = Instant::now();
    context.tell(&Event::HeatStarted {
        group: &header.group,
        index: assignment.index,
        of: assignment.of,
        blocks_kept: kept,
        blocks,
        left: left(if whole { 0 } else { kept.saturating_add(1) }, 0, began),
    });
    if journal.reference().is_none() {
        let judged = reference::judge(context, &setting)?;
        journal.set_reference(judged)?;
    }
    let mut tally = match journal.reference() {
        Some(reference) => Tally::new(reference, journal.blocks()),
        None => return Err(Stop::Interrupted),
    };
    let mut stopped = format!("all {blocks} blocks measured");
    for index in kept..blocks {
        let slots = tally.launchable();
        if slots.is_empty() {
            stopped = format!("no cell could be launched after {index} of {blocks} blocks");
            break;
        }
        context.check_interrupt()?;
        let measured = index - kept + u32::from(whole);
        let left = left(index + 1, measured, began);
        context.tell(&Event::BlockStarted {
            block: index,
            of: blocks,
            left,
        });
        let block = block::measure(context, &setting, index, &slots)?;
        tally.count(&block);
        journal.append(block)?;
    }
    let outcomes = tally.outcomes();
    let footer = HeatFooter {
        finished: now(),
        outcomes: outcomes.clone(),
        stopped,
    };
    Ok(Sealed {
        digest: journal.seal(footer)?,
        outcomes,
        whole,
    })
}

fn open<'a>(context: &Context<'a>, assignment: &Assignment<'_>) -> Result<Journal<'a>, Stop> {
    let heat = assignment.heat;
    if let Some(journal) = context.store.resume(&heat.key)? {
        let mine = assignment
            .since
            .is_none_or(|since| journal.header().started.as_str() >= since);
        if mine {
            return Ok(journal);
        }
    }
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
