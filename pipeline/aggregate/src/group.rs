//! A comparison group: what its heat came to, cell by cell.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schema::{
    CellId, Digest, Environment, Heat, Outcome, OutcomeKind, RunRecord,
    machine::Load,
    plan::{PlannedCell, PlannedHeat, Status},
    record::{Block, HeatEntry, HeatResult, Tool},
};

use crate::{
    check,
    error::AggregateError,
    slot::{self, Slot},
};

/// A group of the plan with what was found about it.
pub(crate) struct Group<'a> {
    pub(crate) planned: &'a PlannedHeat,
    /// One a planned cell, twins included.
    pub(crate) slots: Vec<Slot>,
    /// Where, when and by what; `None` when nothing was measured.
    pub(crate) origin: Option<Origin>,
    /// Per block with rounds: the supervisor's share of a core while they were measured.
    pub(crate) supervisor_shares: Vec<f64>,
    /// From the beginning of each block to that of the next, in seconds.
    pub(crate) apart_s: Vec<f64>,
}

/// Where a heat comes from.
pub(crate) struct Origin {
    pub(crate) heat: Digest,
    pub(crate) environment: Environment,
    pub(crate) load: Load,
    pub(crate) tool: Tool,
    pub(crate) started: String,
    pub(crate) finished: String,
    /// Why workers ran one at a time, in a block where they did.
    pub(crate) alone: Option<String>,
    /// What its random orders were drawn from.
    pub(crate) seed: u64,
    /// Why measuring ended.
    pub(crate) stopped: String,
}

/// What was found about these groups of the record's plan, in their order.
pub(crate) fn groups<'a, E>(
    record: &'a RunRecord,
    planned: &'a [PlannedHeat],
    heats: &dyn Fn(&Digest, &Digest) -> Result<Heat, E>,
) -> Result<Vec<Group<'a>>, AggregateError>
where
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let entries: BTreeMap<&str, &HeatEntry> = record
        .heats
        .iter()
        .map(|entry| (entry.group.as_str(), entry))
        .collect();
    planned
        .iter()
        .map(|planned| {
            match entries
                .get(planned.group.as_str())
                .map(|entry| (entry, &entry.heat))
            {
                Some((entry, HeatResult::Sealed(digest))) => {
                    let heat =
                        heats(&entry.key, digest).map_err(|source| AggregateError::Unreadable {
                            group: planned.group.clone(),
                            heat: *digest,
                            source: source.into(),
                        })?;
                    let slots = check::heat(planned, digest, &heat)?;
                    Ok(measured(planned, *digest, heat, &slots))
                }
                Some((_, HeatResult::NotReached(reason))) => Ok(unreached(planned, reason)),
                None => Ok(unreached(planned, "the run did not come to it")),
            }
        })
        .collect()
}

/// `slots` tells for each planned cell where the heat holds it.
fn measured<'a>(
    planned: &'a PlannedHeat,
    heat: Digest,
    content: Heat,
    slots: &[usize],
) -> Group<'a> {
    let origin = Origin {
        heat,
        environment: content.header.environment.clone(),
        load: content.header.environment.load.clone(),
        tool: content.header.tool.clone(),
        started: content.header.started.clone(),
        finished: content.footer.finished.clone(),
        alone: content.blocks.iter().find_map(|block| block.alone.clone()),
        seed: content.header.seed,
        stopped: content.footer.stopped.clone(),
    };
    let shares = content
        .blocks
        .iter()
        .filter(|block| block.measuring_ns > 0)
        .map(|block| block.supervisor_ns as f64 / block.measuring_ns as f64);
    let supervisor_shares = shares.collect();
    let apart_s = apart_s(&content);
    let mut found: Vec<Option<Slot>> = slot::slots(content).into_iter().map(Some).collect();
    Group {
        planned,
        supervisor_shares,
        apart_s,
        slots: slots
            .iter()
            .filter_map(|slot| found.get_mut(*slot)?.take())
            .collect(),
        origin: Some(origin),
    }
}

/// From the beginning of each block to that of the next: a heat that was interrupted between two counts
/// what that took.
fn apart_s(heat: &Heat) -> Vec<f64> {
    let mut blocks: Vec<&Block> = heat.blocks.iter().collect();
    blocks.sort_by_key(|block| block.index);
    let begun = blocks.into_iter().map(|block| block.started.parse().ok());
    let begun: Vec<Option<Timestamp>> = begun.collect();
    let seconds = |pair: &[Option<Timestamp>]| match pair {
        [Some(one), Some(next)] => Some(next.duration_since(*one).as_secs_f64()),
        _ => None,
    };
    let apart = begun.windows(2).filter_map(seconds);
    apart.filter(|seconds| *seconds >= 0.0).collect()
}

/// No heat: each cell is not reached, unless the plan knew something worse.
fn unreached<'a>(planned: &'a PlannedHeat, reason: &str) -> Group<'a> {
    let reason = match planned.status {
        Status::Open { blocks } => {
            format!("{reason} ({blocks} blocks had been measured before this run)")
        }
        _ => reason.to_owned(),
    };
    let not_reached = Outcome::new(OutcomeKind::NotReached, reason);
    let ending = |cell: &PlannedCell| {
        let known = cell.obstacle.iter().chain([&not_reached]);
        Outcome::worst_of(known).unwrap_or(&not_reached).clone()
    };
    let slots = planned
        .cells
        .iter()
        .map(|cell| Slot::unmeasured(ending(cell)))
        .collect();
    Group {
        planned,
        slots,
        origin: None,
        supervisor_shares: Vec::new(),
        apart_s: Vec::new(),
    }
}

impl Group<'_> {
    /// The cells that readers see, with what was found: originals, twins left out.
    pub(crate) fn originals(&self) -> impl Iterator<Item = (&PlannedCell, &Slot)> {
        self.planned
            .cells
            .iter()
            .zip(&self.slots)
            .filter(|(cell, _)| cell.twin_of.is_none())
    }

    /// Pairs of identical cells: the original, then its twin.
    pub(crate) fn twins(&self) -> impl Iterator<Item = (&PlannedCell, &Slot, &Slot)> {
        self.planned
            .cells
            .iter()
            .zip(&self.slots)
            .filter_map(|(cell, twin)| {
                let original = self.slots.get(cell.twin_of? as usize)?;
                Some((cell, original, twin))
            })
    }
}

/// A cell of a group with what was found about it.
#[derive(Clone, Copy)]
pub(crate) struct Entry<'a> {
    pub(crate) cell: &'a PlannedCell,
    pub(crate) slot: &'a Slot,
}

/// Finds what was measured of a cell, by group and identity.
pub(crate) struct Index<'a>(BTreeMap<&'a str, BTreeMap<&'a CellId, Entry<'a>>>);

impl<'a> Index<'a> {
    pub(crate) fn new(groups: &'a [Group<'a>]) -> Self {
        let cells = |group: &'a Group<'a>| {
            group
                .originals()
                .map(|(cell, slot)| (&cell.id, Entry { cell, slot }))
                .collect()
        };
        Self(
            groups
                .iter()
                .map(|group| (group.planned.group.as_str(), cells(group)))
                .collect(),
        )
    }

    pub(crate) fn entry(&self, group: &str, cell: &CellId) -> Option<Entry<'a>> {
        self.0.get(group)?.get(cell).copied()
    }
}

/// The heats that were read, by group.
pub(crate) fn heats<'a>(groups: impl Iterator<Item = &'a Group<'a>>) -> Vec<(String, Digest)> {
    groups
        .filter_map(|group| Some((group.planned.group.clone(), group.origin.as_ref()?.heat)))
        .collect()
}

/// When the first heat began and the last ended, as they wrote it.
pub(crate) fn measured_between<'a, I>(groups: impl Fn() -> I) -> Option<(String, String)>
where
    I: Iterator<Item = &'a Group<'a>>,
{
    let instant = |time: &&String| time.parse::<Timestamp>().ok();
    let origins = || groups().filter_map(|group| group.origin.as_ref());
    let first = origins()
        .map(|origin| &origin.started)
        .min_by_key(instant)?;
    let last = origins()
        .map(|origin| &origin.finished)
        .max_by_key(instant)?;
    Some((first.clone(), last.clone()))
}
