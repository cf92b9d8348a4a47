//! Where the time goes, in words: a cell's profile, and pairs of them layer by layer.

use std::collections::{BTreeMap, BTreeSet};

use schema::{
    CellId, OutcomeKind,
    tables::{
        CellProfile, CellRow, Compared, JobTable, Layer, Lineup, Naming, ProfileRow, ToldProfile,
    },
};
use serde::Serialize;

use super::{
    comparison::bounds,
    setting::{self, Settings},
};
use crate::{
    ids::Index,
    interval::{self, Estimate},
    text, units,
    words::{self, Badge, Fact, fact},
};

/// Layers and entries that a page shows; the download has all.
const LAYERS: usize = 10;
const ENTRIES: usize = 20;

/// Names of nodes that a row shows.
const NODES: usize = 3;

/// Longest name of a kernel that a row shows, in characters.
const NAME: usize = 80;

/// What the profiles of a job say.
#[derive(Debug, Serialize)]
pub(crate) struct Profiles {
    pairs: Vec<Pair>,
    /// Cells that stand in no pair.
    alone: Vec<Alone>,
    /// What all of those share; may be empty.
    shared: String,
    /// Cells without a profile, with the reason.
    without: Vec<Fact>,
}

/// A pair, layer by layer.
#[derive(Debug, Serialize)]
struct Pair {
    /// Unique on a page.
    id: String,
    title: String,
    /// What was measured, beside what the profiles show.
    measured: Measured,
    /// Which layers make the difference, or why none is named.
    answer: String,
    /// What the profilers cost.
    cost: String,
    baseline: String,
    contender: String,
    layers: Vec<Line>,
    /// What is no layer's, and the step in all.
    rest: Vec<Line>,
    counts: Vec<Fact>,
}

/// A cell that is lined up with no other.
#[derive(Debug, Serialize)]
struct Alone {
    /// Name of its page.
    cell: String,
    setting: String,
    step: String,
    /// To sort by.
    step_ns: Option<f64>,
    /// What a step under the profiler takes, against the measured one.
    slowdown: String,
    /// What most of the time goes to, of all entries of one name together.
    most: String,
    share: String,
}

/// The verdict of a pair beside its profiled ratio.
#[derive(Debug, Serialize)]
struct Measured {
    badge: Badge,
    /// The measured ratio.
    ratio: Option<Estimate>,
    /// That of the steps under the profilers.
    profiled: String,
}

/// The times of both.
#[derive(Debug, Serialize)]
struct Line {
    name: String,
    baseline: String,
    contender: String,
    difference: String,
    share: String,
}

/// What a cell's profile says.
#[derive(Debug, Serialize)]
pub(crate) struct Profile {
    badge: Option<Badge>,
    reason: String,
    facts: Vec<Fact>,
    entries: Vec<Entry>,
    /// How many there are beyond those that are shown.
    more: Option<String>,
}

/// An entry of a profile.
#[derive(Debug, Serialize)]
struct Entry {
    name: String,
    nodes: String,
    time: String,
    /// To sort by.
    time_ns: Option<f64>,
    share: String,
    calls: String,
    kind: &'static str,
}

impl Profiles {
    /// `None` where nothing was profiled, or of what was nothing is to be said.
    pub(crate) fn new(index: &Index<'_>, job: &JobTable) -> Option<Self> {
        let rows = index.cells_of(&job.id);
        if rows.iter().all(|row| row.profile.is_none()) {
            return None;
        }
        let pairs = job.lineups.iter().enumerate();
        let pairs = pairs.filter_map(|(number, lineup)| pair(job, number, lineup));
        let pairs: Vec<Pair> = pairs.collect();
        let without: Vec<Fact> = rows.iter().filter_map(|row| without(row, job)).collect();
        let paired = paired(job);
        let told = rows.iter().filter(|row| !paired.contains(&row.id));
        let told: Vec<(&CellRow, &ToldProfile)> = told
            .filter_map(|row| Some((*row, row.profile.as_ref()?.told.as_ref()?)))
            .collect();
        let coordinates = told.iter().map(|(row, _)| &row.coordinates);
        let settings = Settings::of(coordinates, &job.axes, "");
        let is_said = !(pairs.is_empty() && told.is_empty() && without.is_empty());
        is_said.then(|| Self {
            pairs,
            shared: settings.shared(),
            alone: told
                .iter()
                .map(|(row, told)| alone(row, told, &settings))
                .collect(),
            without,
        })
    }
}

/// The cells that are lined up with others.
fn paired(job: &JobTable) -> BTreeSet<&CellId> {
    let rows = job.lineups.iter().filter_map(|lineup| {
        let table = job.comparisons.get(lineup.place.comparison as usize)?;
        table.rows.get(lineup.place.row as usize)
    });
    rows.flat_map(|row| [&row.baseline, &row.contender])
        .collect()
}

fn alone(row: &CellRow, told: &ToldProfile, settings: &Settings<'_>) -> Alone {
    let mut shares: BTreeMap<&str, f64> = BTreeMap::new();
    for entry in &told.entries {
        *shares.entry(&entry.name).or_default() += entry.share;
    }
    let most = shares
        .into_iter()
        .max_by(|(_, one), (_, other)| one.total_cmp(other));
    let (most, share) = most.map_or_else(Default::default, |(name, share)| {
        (text::shorten(name, NAME), units::percent(share))
    });
    Alone {
        cell: row.id.0.clone(),
        setting: settings.label(&row.coordinates),
        step: units::time(told.wall_ns),
        step_ns: Some(told.wall_ns).filter(|time| time.is_finite()),
        slowdown: told
            .slowdown
            .map_or_else(|| units::NOTHING.to_owned(), units::times),
        most,
        share,
    }
}

/// Why a cell that was to be profiled has no profile.
fn without(row: &CellRow, job: &JobTable) -> Option<Fact> {
    let profile = row.profile.as_ref()?;
    if profile.told.is_some() {
        return None;
    }
    let outcome = &profile.outcome;
    let name = setting::describe(&row.coordinates, &job.axes);
    Some(fact(name, format!("{}: {}", outcome.kind, outcome.reason)))
}

fn pair(job: &JobTable, number: usize, lineup: &Lineup) -> Option<Pair> {
    let table = job.comparisons.get(lineup.place.comparison as usize)?;
    let row = table.rows.get(lineup.place.row as usize)?;
    let settings = Settings::of(
        table.rows.iter().map(|row| &row.coordinates),
        &job.axes,
        &table.axis,
    );
    let baseline = words::value(&table.axis, &table.baseline);
    let contender = words::value(&table.axis, &row.value);
    let costs = [&baseline, &contender].into_iter().zip(lineup.slowdowns);
    let costs = costs
        .filter_map(|(name, slowdown)| Some(format!("{} for {name}", units::times(slowdown?))));
    let costs: Vec<String> = costs.collect();
    let shown = lineup.layers.len().min(LAYERS);
    let (shown, others) = lineup.layers.split_at(shown);
    let mut layers: Vec<Line> = shown
        .iter()
        .map(|layer| line(nodes(&layer.nodes), &layer.time))
        .collect();
    if let Some(others) = sum(others) {
        let count = units::count((lineup.layers.len() - LAYERS) as u64);
        layers.push(line(format!("{count} other layers"), &others));
    }
    let rest = [
        ("Conversions that are no layer's", &lineup.conversions),
        ("Whatever else is no layer's", &lineup.overhead),
        ("Between kernels", &lineup.between),
    ];
    let mut rest: Vec<Line> = rest
        .into_iter()
        .map(|(name, time)| line(name.to_owned(), time))
        .collect();
    rest.push(Line {
        share: String::new(),
        ..line("The step, under a profiler".to_owned(), &lineup.step)
    });
    let both = |[one, other]: [f64; 2]| {
        format!(
            "{} and {}",
            units::mean_count(one),
            units::mean_count(other)
        )
    };
    Some(Pair {
        id: format!("lineup-{}", number + 1),
        title: format!(
            "{contender} against {baseline}, {}",
            settings.label(&row.coordinates)
        ),
        measured: Measured {
            badge: words::verdict(row.verdict),
            ratio: row
                .ratio
                .as_ref()
                .map(|ratio| interval::held(ratio, bounds(job, row)).0),
            profiled: units::times(lineup.ratio),
        },
        answer: answer(
            lineup,
            words::verdict(row.verdict).word,
            [&baseline, &contender],
        ),
        cost: costs.join(", "),
        layers,
        rest,
        counts: vec![
            fact("Kernels in a step", both(lineup.kernels)),
            fact("Conversions in a step", both(lineup.converting)),
        ],
        baseline,
        contender,
    })
}

/// Which layers make most of the difference, or why that cannot be told, in a sentence.
fn answer(lineup: &Lineup, word: &str, [baseline, contender]: [&str; 2]) -> String {
    let whole = lineup.step.difference_ns;
    let (size, way) = (units::time(whole.abs()), way(whole));
    let whole = format!("Under the profilers a step of {contender} takes {size} {way}");
    let leading = match lineup.naming {
        Naming::Layers(leading) => leading,
        Naming::NoDifference => {
            return format!("{whole}; without them the verdict is “{word}”, so no layer is named");
        }
        Naming::Profilers => {
            return format!(
                "{whole}; no layer is named, since {}",
                unequal(lineup, [baseline, contender])
            );
        }
    };
    let leading = lineup.layers.iter().take(leading as usize);
    let named: Vec<String> = leading
        .clone()
        .take(NODES)
        .map(|layer| {
            let time = &layer.time;
            format!(
                "{} ({}, {})",
                nodes(&layer.nodes),
                difference(time.difference_ns),
                units::percent(time.share)
            )
        })
        .collect();
    let count = leading.count();
    let all = units::count(lineup.layers.len() as u64);
    match count {
        0 => format!("{whole}; what differs most is no layer's, or it differs in nothing"),
        1 => format!(
            "{whole}; one of {all} layers makes half of all that differs: {}",
            named.concat()
        ),
        _ => {
            let more = if count > named.len() { " and on" } else { "" };
            format!(
                "{whole}; {} of {all} layers make half of all that differs: {}{more}",
                units::count(count as u64),
                named.join(", ")
            )
        }
    }
}

/// Why the profilers hide what was measured.
fn unequal(lineup: &Lineup, names: [&str; 2]) -> String {
    let costs = names.into_iter().zip(lineup.slowdowns);
    let costs = costs.filter_map(|(name, cost)| Some((name, cost?)));
    // Half a step is as much off as two.
    if lineup.slowdowns.iter().all(Option::is_none) {
        return "what was measured is not the step that profilers look at".to_owned();
    }
    let costliest =
        costs.max_by(|(_, one), (_, other)| one.ln().abs().total_cmp(&other.ln().abs()));
    let of_one = costliest.map_or_else(String::new, |(name, cost)| {
        format!(
            ": under its profiler {name} takes {} its step",
            units::times(cost)
        )
    });
    format!("the profilers cost too much of what was measured between the two{of_one}")
}

fn way(difference_ns: f64) -> &'static str {
    if difference_ns < 0.0 { "less" } else { "more" }
}

fn line(name: String, time: &Compared) -> Line {
    Line {
        name,
        baseline: units::time(time.baseline_ns),
        contender: units::time(time.contender_ns),
        difference: difference(time.difference_ns),
        share: units::percent(time.share),
    }
}

/// With its sign.
fn difference(ns: f64) -> String {
    let sign = match ns {
        ns if ns > 0.0 => "+",
        ns if ns < 0.0 => "−",
        _ => "",
    };
    format!("{sign}{}", units::time(ns.abs()))
}

/// Several layers as one line; `None` where there is none.
fn sum(layers: &[Layer]) -> Option<Compared> {
    let add = |one: Compared, other: Compared| Compared {
        baseline_ns: one.baseline_ns + other.baseline_ns,
        contender_ns: one.contender_ns + other.contender_ns,
        difference_ns: one.difference_ns + other.difference_ns,
        share: one.share + other.share,
    };
    layers.iter().map(|layer| layer.time).reduce(add)
}

/// Names of nodes, the first few of many.
fn nodes(names: &[String]) -> String {
    let shown: Vec<String> = names
        .iter()
        .take(NODES)
        .map(|name| text::shorten(name, NAME))
        .collect();
    let more = names.len() - shown.len();
    match more {
        0 => shown.join(" + "),
        _ => format!("{} + {} more", shown.join(" + "), units::count(more as u64)),
    }
}

impl Profile {
    pub(crate) fn new(profile: &CellProfile) -> Self {
        let outcome = &profile.outcome;
        let is_told = outcome.kind == OutcomeKind::Measured;
        let told = profile.told.as_ref();
        let entries = told.map_or(&[][..], |told| &told.entries);
        let more = entries.len().saturating_sub(ENTRIES);
        Self {
            badge: (!is_told).then(|| words::outcome(outcome.kind)),
            reason: outcome.reason.clone(),
            facts: told.map(facts).unwrap_or_default(),
            entries: entries.iter().take(ENTRIES).map(entry).collect(),
            more: (more > 0).then(|| units::count(more as u64)),
        }
    }
}

fn facts(told: &ToldProfile) -> Vec<Fact> {
    let part = |ns: f64| {
        let share = ns / told.wall_ns;
        format!("{}, {}", units::time(ns), units::percent(share))
    };
    let mut facts = vec![
        fact("Steps profiled", units::count(told.steps)),
        fact("A step under the profiler", units::time(told.wall_ns)),
    ];
    let slowdown = told.slowdown.map(units::times);
    facts.extend(slowdown.map(|times| fact("That, against the measured step", times)));
    facts.extend([
        fact("Nodes of the graph", part(told.nodes_ns)),
        fact("Conversions that are no node's", part(told.conversions_ns)),
        fact("Whatever else is no node's", part(told.overhead_ns)),
        fact("Between kernels", part(told.between_ns)),
        fact("Kernels in a step", units::mean_count(told.kernels)),
        fact(
            "Conversions in a step",
            format!(
                "{}, {}",
                units::mean_count(told.conversions),
                units::time(told.converting_ns)
            ),
        ),
    ]);
    facts
}

fn entry(row: &ProfileRow) -> Entry {
    Entry {
        name: text::shorten(&row.name, NAME),
        nodes: nodes(&row.nodes),
        time: units::time(row.time_ns),
        time_ns: Some(row.time_ns).filter(|time| time.is_finite()),
        share: units::percent(row.share),
        calls: units::mean_count(row.calls),
        kind: match (row.conversion, row.nodes.is_empty()) {
            (true, _) => "conversion",
            (false, true) => "no node's",
            (false, false) => "",
        },
    }
}
