//! A job's page.

use std::collections::BTreeMap;

use schema::{
    OutcomeKind,
    plan::Quantity,
    printed,
    tables::{CellRow, ClaimRow, Interval, JobTable, Resemblance},
};
use serde::Serialize;
use statistics::serial;

use super::{
    batches::Batches,
    cells::{self, Line},
    chrome::{Chrome, link},
    comparison::Family,
    effects::Effects,
    forest,
    frontier::Frontiers,
    parity,
    profile::Profiles,
    roofline::{self, Place},
    scaling::Scaling,
    setting::{self, Settings},
    times,
};
use crate::{
    ReportError,
    chart::Drawer,
    ids::Index,
    interval,
    marks::Marks,
    picture::Picture,
    steady, units,
    words::{self, Badge, Fact, fact},
};

/// A job's page.
#[derive(Debug, Serialize)]
pub(crate) struct JobPage {
    chrome: Chrome,
    id: String,
    /// The question, or the id where there is none.
    heading: String,
    mode: &'static str,
    /// Where its cells' pages are, from here.
    cells_root: String,
    measure: Vec<Fact>,
    families: Vec<Family>,
    answer_of_job: Option<Answer>,
    /// Where outputs were compared, and that is all: how many cells agree, in words.
    parity: Option<String>,
    effects: Option<Effects>,
    frontiers: Option<Frontiers>,
    batches: Option<Batches>,
    scaling: Option<Scaling>,
    profiles: Option<Profiles>,
    rooflines: Vec<Place>,
    claims: Vec<Claim>,
    warnings: Vec<String>,
    floors: Vec<FloorLine>,
    tally_counts: Vec<Count>,
    /// Columns of the table of cells, and what all cells share.
    axes: Vec<String>,
    shared: String,
    cells: Vec<Line>,
    picture_of_cells: Option<Picture>,
    /// Whether steps were to be timed.
    timed: bool,
}

/// What there is to say where nothing was compared: the shortest step time.
#[derive(Debug, Serialize)]
pub(crate) struct Answer {
    /// The cell in words.
    name: String,
    /// Name of its page, below the folder of the job's cells.
    cell: String,
    step: interval::Estimate,
    /// How many cells were measured, where it is not the only one.
    among: Option<String>,
}

impl Answer {
    /// `None` where something was compared, nothing was measured, or no cell is the fastest beyond doubt of those
    /// that do the same work.
    pub(crate) fn new(job: &JobTable, rows: &[&CellRow]) -> Option<Self> {
        if !job.comparisons.is_empty() {
            return None;
        }
        let measured: Vec<_> = rows
            .iter()
            .filter_map(|row| Some((row, &row.speed.as_ref()?.step_ns)))
            .filter(|(_, step)| step.centre.is_finite())
            .collect();
        let (row, step) = measured
            .iter()
            .min_by(|(_, one), (_, other)| one.centre.total_cmp(&other.centre))?;
        let is_rival = |other: &CellRow| other.id != row.id;
        let rivals = || measured.iter().filter(|(other, _)| is_rival(other));
        let work = |row: &CellRow| (row.cell.model.clone(), row.cell.dims.clone());
        let is_slower = |rival: &Interval| Some(step.high? < rival.low?);
        if rivals()
            .any(|(other, rival)| work(other) != work(row) || !is_slower(rival).unwrap_or_default())
        {
            return None;
        }
        Some(Self {
            name: setting::describe(&row.coordinates, &job.axes),
            cell: row.id.0.clone(),
            step: interval::step_time(step),
            among: (measured.len() > 1).then(|| units::count(measured.len() as u64)),
        })
    }
}

/// What a job does that times nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Instead {
    /// It seeks the largest batch that fits into memory.
    Frontier,
    /// It holds outputs against the reference.
    Parity,
}

impl Instead {
    /// `None` where steps are timed.
    pub(crate) fn of(job: &JobTable) -> Option<Self> {
        match (job.measure.frontier, job.measure.blocks) {
            (Some(_), _) => Some(Self::Frontier),
            (None, 0) => Some(Self::Parity),
            (None, _) => None,
        }
    }
}

/// How many cells of a job agree with the reference, where outputs were compared, and that is all.
pub(crate) fn told_of_parity(
    index: &Index<'_>,
    job: &JobTable,
    rows: &[&CellRow],
) -> Option<String> {
    match Instead::of(job)? {
        Instead::Parity => parity::of_job(index.tables, job.mode, rows),
        Instead::Frontier => None,
    }
}

/// A claim and its judgement.
#[derive(Debug, Serialize)]
struct Claim {
    id: String,
    source: String,
    states: String,
    expect: String,
    badge: Badge,
    reason: String,
}

/// The noise of an engine on a device.
#[derive(Debug, Serialize)]
struct FloorLine {
    engine: String,
    device: String,
    floor: String,
    ratio: Option<interval::Estimate>,
    /// Spread between launches that run at the same time.
    launches: String,
    launch_scatter: String,
    pairs: u32,
}

/// How many cells ended so.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Count {
    pub(crate) badge: Badge,
    pub(crate) count: String,
}

/// How a set of cells ended, best first.
pub(crate) fn tally<'a>(rows: impl Iterator<Item = &'a CellRow>) -> Vec<Count> {
    // Those of a kind that ended in part come after the others.
    let mut counts: BTreeMap<(OutcomeKind, bool), (Badge, u64)> = BTreeMap::new();
    for row in rows {
        let badge = words::ending(row);
        let is_special = badge != words::outcome(row.outcome.kind);
        let counted = counts.entry((row.outcome.kind, is_special));
        counted.or_insert((badge, 0)).1 += 1;
    }
    counts
        .into_values()
        .map(|(badge, count)| Count {
            badge,
            count: units::count(count),
        })
        .collect()
}

impl JobPage {
    pub(crate) fn new(
        index: &Index<'_>,
        marks: &Marks,
        job: &JobTable,
        drawer: &mut Drawer,
    ) -> Result<Self, ReportError> {
        let heading = heading(job);
        let rows = index.cells_of(&job.id);
        let families = families(index, marks, job, drawer)?;
        let settings = Settings::of(rows.iter().map(|row| &row.coordinates), &job.axes, "");
        let axes: Vec<String> = settings.varying().map(str::to_owned).collect();
        Ok(Self {
            chrome: Chrome::new(index.tables, "../", "jobs", &heading)
                .with_crumbs(vec![link("Overview", "../index.html")]),
            id: job.id.clone(),
            mode: job.mode.word(),
            cells_root: format!("../cells/{}/", job.id),
            measure: measure(job, rows),
            effects: Effects::new(job, &families),
            frontiers: Frontiers::new(job, rows),
            families,
            answer_of_job: Answer::new(job, rows),
            parity: told_of_parity(index, job, rows),
            batches: Batches::new(job),
            scaling: Scaling::new(job),
            profiles: Profiles::new(index, job),
            rooflines: roofline::places(index.tables, marks, job, rows),
            claims: job.claims.iter().map(claim).collect(),
            warnings: warnings(index, &job.id),
            floors: index
                .tables
                .floors
                .iter()
                .filter(|floor| floor.job == job.id)
                .map(|floor| FloorLine {
                    engine: words::value("engine", &floor.engine),
                    device: floor.device.clone(),
                    floor: floor
                        .floor
                        .map_or_else(|| units::NOTHING.to_owned(), units::floor),
                    ratio: floor
                        .ratio
                        .as_ref()
                        // The floor is an end of it, and needs no digits to be told from it.
                        .map(|ratio| interval::ratio(ratio, &printed::limits(None))),
                    launches: floor
                        .between_launches
                        .map_or_else(|| units::NOTHING.to_owned(), units::percent),
                    launch_scatter: floor
                        .launch_scatter
                        .map_or_else(|| units::NOTHING.to_owned(), units::percent),
                    pairs: floor.pairs,
                })
                .collect(),
            tally_counts: tally(rows.iter().copied()),
            cells: rows.iter().map(|row| cells::line(row, &axes)).collect(),
            timed: Instead::of(job).is_none(),
            picture_of_cells: times::draw(job, rows, marks, drawer)?,
            axes,
            shared: settings.shared(),
            heading,
        })
    }

    /// Its verdicts, for the overview.
    pub(crate) fn into_families(self) -> Vec<Family> {
        self.families
    }
}

/// How it was to be measured, and what became of it.
fn measure(job: &JobTable, rows: &[&CellRow]) -> Vec<Fact> {
    let mut facts = words::measure(&job.measure);
    facts.extend(ended(job, rows));
    facts.extend(job.apart_s.map(|seconds| {
        let apart = units::span((seconds * 1e9) as u64);
        fact(
            "Apart",
            format!("{apart} from a block to the next of its group, the median"),
        )
    }));
    facts.extend(
        job.resemblance
            .map(|found| fact("From block to block", resemblance(&found))),
    );
    if Instead::of(job).is_none() {
        facts.push(fact("Not steady after warm-up", steady::count(rows)));
    }
    facts.extend(steady::disturbed(rows).map(|told| fact("Disturbed", told)));
    facts.extend(job.supervisor_share.map(|share| {
        fact(
            "Supervisor",
            format!(
                "{} of a core while rounds were measured, the median over blocks",
                units::percent(share)
            ),
        )
    }));
    facts
}

/// Whether blocks are independent, in words.
fn resemblance(found: &Resemblance) -> String {
    let number = |value: f64| units::fixed(value, 2).replace('-', "−");
    let told = format!(
        "ratios of {} resemble those of the block before by a correlation of {} ± {} (its standard deviation), \
         where {} is that of independent blocks",
        match found.pairs {
            1 => "one pair".to_owned(),
            pairs => format!("{} pairs", units::count(pairs.into())),
        },
        number(found.correlation),
        number(found.deviation),
        number(found.expected),
    );
    match serial::is_no_chance(found) {
        true => format!("{told}: they are not, and intervals may be too narrow"),
        false => told,
    }
}

/// Why measuring ended, where that was open: each reason with the number of groups that it ended.
fn ended(job: &JobTable, rows: &[&CellRow]) -> Option<Fact> {
    if job.measure.looks().len() < 2 {
        return None;
    }
    let of_groups: BTreeMap<&str, &str> = rows
        .iter()
        .filter_map(|row| Some((row.group.as_str(), row.stopped.as_deref()?)))
        .collect();
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for reason in of_groups.into_values() {
        *counts.entry(reason).or_default() += 1;
    }
    let counts = counts.into_iter().map(|(reason, count)| {
        let groups = if count == 1 { "group" } else { "groups" };
        format!("{} {groups}: {reason}", units::count(count))
    });
    let counts: Vec<String> = counts.collect();
    // What twins told later is no part of these reasons.
    (!counts.is_empty()).then(|| fact("Ended, as it looked then", counts.join("; ")))
}

/// The question, or the id where there is none.
pub(crate) fn heading(job: &JobTable) -> String {
    if job.question.trim().is_empty() {
        job.id.clone()
    } else {
        job.question.clone()
    }
}

fn families(
    index: &Index<'_>,
    marks: &Marks,
    job: &JobTable,
    drawer: &mut Drawer,
) -> Result<Vec<Family>, ReportError> {
    job.comparisons
        .iter()
        .enumerate()
        .map(|(number, table)| {
            let mut family = Family::new(index, marks, job, number, table);
            family.picture = forest::draw(&family, job, table, drawer)?;
            Ok(family)
        })
        .collect()
}

fn claim(row: &ClaimRow) -> Claim {
    Claim {
        id: row.id.clone(),
        source: row.source.clone(),
        states: row.states.clone(),
        expect: match row.quantity {
            Quantity::StepTime => row.expect.text.clone(),
            other => format!("{}: {}", other.noun(), row.expect.text),
        },
        badge: words::judgement(row.judgement),
        reason: row.reason.clone(),
    }
}

/// What lint said about a job.
fn warnings(index: &Index<'_>, job: &str) -> Vec<String> {
    let of_job = index
        .tables
        .warnings
        .iter()
        .filter(|warning| warning.job == job);
    of_job.map(|warning| warning.message.clone()).collect()
}
