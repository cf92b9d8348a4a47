//! A cell's page: everything that stands behind one number.

use std::collections::BTreeMap;

use schema::{
    OutcomeKind,
    plan::ManifestSource,
    protocol::Loaded,
    tables::{CellRow, JobTable, LaunchRow, Speed},
};
use serde::Serialize;

use super::{
    agreement::{self, ParityView},
    cells,
    chrome::{self, Chrome, link},
    comparison::{self, Contender},
    configuration, downloads, frontier, job,
    log::readable,
    machines,
    profile::Profile,
    roofline::{self, CeilingView},
    sensors::{self, EnergyView},
    setting,
};
use crate::{
    ids::{Index, Pair},
    interval::{self, Estimate},
    marks::Marks,
    steady,
    strip::{self, Strip},
    text,
    timeline::{self, Timeline},
    units,
    words::{self, Badge, Fact, fact},
};

/// A cell's page.
#[derive(Debug, Serialize)]
pub(crate) struct CellPage {
    chrome: Chrome,
    id: String,
    engine: Contender,
    setting: String,
    badge_of_cell: Badge,
    unsteady: Option<Badge>,
    unsteady_launches: String,
    alone: Option<String>,
    /// Why measuring its comparison ended.
    stopped: Option<String>,
    meaning: &'static str,
    reason: String,
    allowed: bool,
    speed: Option<SpeedView>,
    tiles: Vec<Fact>,
    verdicts: Vec<VerdictLine>,
    strip: Option<Strip>,
    timeline: Option<Timeline>,
    ceiling_of_cell: Option<CeilingView>,
    launches: Vec<Launch>,
    /// What the orders of its launches and rounds were drawn from.
    seed: Option<String>,
    phases: Vec<Phase>,
    first_launch: Option<&'static str>,
    profile: Option<Profile>,
    memory: Vec<Fact>,
    energy_of_cell: Option<EnergyView>,
    sensors: Vec<Fact>,
    parity: Option<ParityView>,
    configuration: Vec<Fact>,
    settings: Vec<Fact>,
    versions: Vec<Fact>,
    machine: Option<MachineLink>,
    logs: Vec<Log>,
    no_log: &'static str,
    reproduce: Reproduce,
}

/// A cell's speed.
#[derive(Debug, Serialize)]
struct SpeedView {
    step: Estimate,
    facts: Vec<Fact>,
}

/// A verdict that this cell has a part in.
#[derive(Debug, Serialize)]
struct VerdictLine {
    /// Who is judged.
    contender: String,
    baseline: String,
    badge: Badge,
    ratio: Option<Estimate>,
    reason: String,
    /// The other cell's page; absent where it has none.
    other: Option<String>,
}

/// A launch as a row.
#[derive(Debug, Serialize)]
struct Launch {
    block: u64,
    badge: Badge,
    reason: String,
    median: String,
    samples: String,
    warm_up: String,
    /// Before and after its block.
    copy: [String; 2],
    matmul: [String; 2],
}

/// A phase of getting ready, with its share of the whole as a width of 0 to 100.
#[derive(Debug, Serialize)]
struct Phase {
    name: &'static str,
    time: Option<String>,
    first: Option<String>,
    offset: f64,
    width: f64,
}

/// Where the cell was measured.
#[derive(Debug, Serialize)]
struct MachineLink {
    name: String,
    href: String,
    facts: Vec<Fact>,
}

/// What a launch wrote to its standard error.
#[derive(Debug, Serialize)]
struct Log {
    /// Which launch it was.
    launch: String,
    /// How it ended; absent for the launch for the outputs, whose ending is the cell's.
    badge: Option<Badge>,
    text: String,
}

/// How to measure the cell again.
#[derive(Debug, Serialize)]
struct Reproduce {
    command: String,
    manifest: Option<ManifestView>,
}

/// The manifest that asked.
#[derive(Debug, Serialize)]
struct ManifestView {
    path: String,
    excerpt: String,
    href: String,
}

impl CellPage {
    pub(crate) fn new(index: &Index<'_>, marks: &Marks, job: &JobTable, row: &CellRow) -> Self {
        let engine = row.cell.engine.to_string();
        let engine = Contender {
            name: words::value("engine", &engine),
            mark: marks.of("engine", &engine),
        };
        let mut coordinates = row.coordinates.clone();
        coordinates.remove("engine");
        let setting = setting::describe(&coordinates, &job.axes);
        let title = format!("{}, {setting}", engine.name);
        let crumbs = vec![
            link("Overview", "../../index.html"),
            link(
                text::shorten(&job::heading(job), 60),
                format!("../../jobs/{}.html", job.id),
            ),
        ];
        Self {
            chrome: Chrome::new(index.tables, "../../", "jobs", &title).with_crumbs(crumbs),
            id: row.id.0.clone(),
            badge_of_cell: words::ending(row),
            unsteady: steady::badge(row),
            unsteady_launches: steady::sentence(row),
            alone: row.alone.clone(),
            // Of what was not to be timed nothing was to be ended either.
            stopped: row
                .stopped
                .clone()
                .filter(|_| row.outcome.kind != OutcomeKind::Verified),
            meaning: words::meaning(row),
            reason: row.outcome.reason.clone(),
            allowed: row.allowed
                && !matches!(
                    row.outcome.kind,
                    OutcomeKind::Measured | OutcomeKind::Verified
                ),
            speed: row.speed.as_ref().map(speed),
            tiles: tiles(row),
            verdicts: verdicts(index, job, row),
            strip: strip::draw(counted(row), row.speed.as_ref().map(|speed| &speed.step_ns)),
            timeline: timeline_of(job, row),
            ceiling_of_cell: roofline::of_cell(index.tables, row),
            launches: row.launches.iter().map(launch).collect(),
            seed: row.seed.clone(),
            phases: phases(row),
            first_launch: first_launch(row),
            profile: row.profile.as_ref().map(Profile::new),
            memory: [frontier::facts(row), configuration::memory(row)].concat(),
            energy_of_cell: sensors::energy(row),
            sensors: sensors::told(row),
            parity: row
                .parity
                .as_ref()
                .map(|found| agreement::of_cell(found, row.cell.precision, row.is_outline())),
            configuration: configuration::resolved(row),
            settings: configuration::reported(row),
            versions: row
                .versions
                .iter()
                .map(|(name, version)| fact(name, version))
                .collect(),
            machine: machine(index, row),
            logs: logs(row),
            no_log: no_log(row),
            reproduce: reproduce(index, job),
            engine,
            setting,
        }
    }
}

/// The launches that its speed is made of: without those of blocks that were measured again.
fn counted(row: &CellRow) -> impl Iterator<Item = &LaunchRow> {
    let is_unstable = |kind| kind == OutcomeKind::Unstable;
    let all = is_unstable(row.outcome.kind);
    let launches = row.launches.iter();
    launches.filter(move |launch| all || !is_unstable(launch.outcome.kind))
}

/// What its ranks exchange in a step, where they tell.
fn timeline_of(job: &JobTable, row: &CellRow) -> Option<Timeline> {
    let mut points = job.scaling.iter().flat_map(|row| &row.points);
    let exchange = points
        .find(|point| point.cell == row.id)?
        .exchange
        .as_ref()?;
    timeline::draw(&exchange.middling)
}

fn tiles(row: &CellRow) -> Vec<Fact> {
    let mut tiles = Vec::new();
    if let Some(speed) = &row.speed {
        tiles.push(fact("Items a second", units::rate(speed.items_per_second)));
        if let Some(p95) = cells::percentile(&speed.percentiles_ns, 95) {
            tiles.push(fact("95th percentile", units::time_ns(p95)));
        }
        tiles.extend(roofline::tile(row));
    }
    if let Some(peak_bytes) = cells::peak_bytes(row) {
        tiles.push(fact("Peak memory", units::bytes(peak_bytes)));
    }
    if let Some(parity) = &row.parity {
        tiles.push(fact("Parity error", units::error(parity.error)));
    }
    tiles
}

fn speed(speed: &Speed) -> SpeedView {
    let mut facts = vec![fact("Smallest sample", units::time_ns(speed.min_ns))];
    let mut percentiles: Vec<_> = speed.percentiles_ns.iter().collect();
    percentiles.sort_by_key(|(name, value)| (**value, name.len()));
    facts.extend(percentiles.into_iter().map(|(name, value)| {
        fact(
            format!("{}th percentile", name.trim_start_matches('p')),
            units::time_ns(*value),
        )
    }));
    facts.extend([
        fact("Largest sample", units::time_ns(speed.max_ns)),
        fact("Samples", units::count(speed.samples)),
        fact(
            "Spread between blocks",
            units::percent(speed.between_blocks),
        ),
    ]);
    facts.extend(speed.between_rounds.map(|spread| {
        fact(
            "Spread between the rounds of a launch",
            units::percent(spread),
        )
    }));
    facts.push(fact(
        "Spread within a round",
        units::percent(speed.within_round),
    ));
    SpeedView {
        step: interval::step_time(&speed.step_ns),
        facts,
    }
}

fn verdicts(index: &Index<'_>, job: &JobTable, row: &CellRow) -> Vec<VerdictLine> {
    let line = |(table, pair): &Pair<'_>| {
        let other = if pair.contender == row.id {
            &pair.baseline
        } else {
            &pair.contender
        };
        VerdictLine {
            contender: words::value(&table.axis, &pair.value),
            baseline: words::value(&table.axis, &table.baseline),
            badge: words::verdict(pair.verdict),
            ratio: pair
                .ratio
                .as_ref()
                .map(|ratio| interval::held(ratio, comparison::bounds(job, pair)).0),
            reason: pair.reason.clone(),
            other: index
                .cell(&job.id, other)
                .map(|cell| format!("{}.html", cell.id)),
        }
    };
    index.pairs_of(&job.id, &row.id).iter().map(line).collect()
}

fn launch(launch: &LaunchRow) -> Launch {
    let samples: u64 = launch.rounds.iter().map(|round| round.len() as u64).sum();
    Launch {
        block: u64::from(launch.block) + 1,
        badge: words::outcome(launch.outcome.kind),
        reason: launch.outcome.reason.clone(),
        median: launch
            .median_ns
            .map_or_else(|| units::NOTHING.to_owned(), units::time_ns),
        samples: format!(
            "{} in {} rounds",
            units::count(samples),
            launch.rounds.len()
        ),
        warm_up: launch.warm_up.as_ref().map_or_else(
            || units::NOTHING.to_owned(),
            |done| {
                let steady = if done.steady { "steady" } else { "not steady" };
                format!(
                    "{} steps, {}, {steady}",
                    units::count(done.steps),
                    units::time_ns(done.total_ns)
                )
            },
        ),
        copy: launch.canaries.map(|canary| units::time_ns(canary.copy_ns)),
        matmul: launch
            .canaries
            .map(|canary| units::time_ns(canary.matmul_ns)),
    }
}

/// What was written, the launch for the outputs first.
fn logs(row: &CellRow) -> Vec<Log> {
    let parity = row.parity_log.iter().map(|log| Log {
        launch: "Parity".to_owned(),
        badge: None,
        text: readable(log),
    });
    let blocks = row.launches.iter().map(|launch| Log {
        launch: format!("Block {}", u64::from(launch.block) + 1),
        badge: Some(words::outcome(launch.outcome.kind)),
        text: readable(&launch.log),
    });
    let profile = row.profile.iter().map(|profile| Log {
        launch: "Profile".to_owned(),
        badge: Some(words::outcome(profile.outcome.kind)),
        text: readable(&profile.log),
    });
    let written = |log: &Log| !log.text.trim().is_empty();
    let all = parity.chain(blocks).chain(profile);
    all.filter(written).collect()
}

/// Why there is no log.
fn no_log(row: &CellRow) -> &'static str {
    match (&row.parity_log, row.launches.as_slice()) {
        (None, []) => "No worker was started for it, so that there is no log.",
        (Some(_), []) => "The launch for its outputs wrote nothing to its standard error.",
        _ => "No launch wrote anything to its standard error.",
    }
}

/// The phases of the median launch, one after another on a line of 100, and those of the first launch beside
/// them.
fn phases(row: &CellRow) -> Vec<Phase> {
    let steps = |loaded: &Loaded| {
        [
            ("Weights and inputs", loaded.fill_ns),
            ("Build", loaded.build_ns),
            ("Compile", loaded.compile_ns),
            ("First step", loaded.first_step_ns),
        ]
    };
    const START: &str = "Process start";
    let mut times = Vec::new();
    times.extend(row.start_ns.map(|ns| (START, ns)));
    times.extend(row.loaded.iter().flat_map(steps));
    let mut warm_ups: Vec<u64> = row
        .launches
        .iter()
        .filter_map(|launch| launch.warm_up.as_ref())
        .map(|done| done.total_ns)
        .collect();
    warm_ups.sort_unstable();
    times.extend(
        warm_ups
            .get(warm_ups.len() / 2)
            .map(|ns| ("Warm-up, median", *ns)),
    );
    let mut first: Vec<(&str, u64)> = Vec::new();
    if let Some(start) = &row.first {
        first.push((START, start.start_ns));
        first.extend(steps(&start.loaded));
    }
    let mut names: Vec<&'static str> = times.iter().map(|(name, _)| *name).collect();
    // What was launched for its outputs alone has a first launch and no other.
    if names.is_empty() {
        names.extend(first.iter().map(|(name, _)| *name));
    }
    let total: f64 = times.iter().map(|(_, ns)| *ns as f64).sum::<f64>().max(1.0);
    let mut before = 0.0;
    let of = |times: &[(&str, u64)], wanted: &str| {
        let mut times = times.iter();
        times.find(|(name, _)| *name == wanted).map(|(_, ns)| *ns)
    };
    names
        .into_iter()
        .map(|name| {
            let share = |ns: f64| (ns / total * 1000.0).round() / 10.0;
            let offset = share(before);
            let ns = of(&times, name);
            let width = ns.unwrap_or(0) as f64;
            before += width;
            Phase {
                name,
                time: ns.map(units::time_ns),
                first: of(&first, name).map(units::time_ns),
                offset,
                width: share(width).max(0.3),
            }
        })
        .collect()
}

/// What the first launch was, whose phases stand beside those of the others; `None` where that is not known.
fn first_launch(row: &CellRow) -> Option<&'static str> {
    row.first.as_ref().map(|start| match start.is_cold {
        true => "First launch, nothing kept by compilers",
        false => "First launch",
    })
}

fn machine(index: &Index<'_>, row: &CellRow) -> Option<MachineLink> {
    let number = row.environment? as usize;
    let found = index.tables.environments.get(number)?;
    let mut facts = BTreeMap::new();
    for known in machines::facts(found) {
        facts.insert(known.name, known.value);
    }
    let told = ["Processor", "Kernel", "Frequency governor"];
    let mut facts: Vec<Fact> = told
        .into_iter()
        .filter_map(|name| Some(fact(name, facts.remove(name)?)))
        .collect();
    if let Some(load) = &row.load {
        facts.push(fact(
            "Load found by its heat",
            format!("{} runnable tasks", units::fixed(load.load_1m, 2)),
        ));
    }
    facts.extend(
        row.tool
            .and_then(|tool| index.tables.tools.get(tool as usize))
            .map(|tool| fact("Measured by", chrome::tool(tool))),
    );
    facts.extend(
        row.started
            .as_deref()
            .map(|started| fact("Heat began", chrome::moment(started))),
    );
    Some(MachineLink {
        name: machines::name(found),
        href: format!("../../machines.html#machine-{}", number + 1),
        facts,
    })
}

/// What a manifest is called on the command line. What came by standard input has no name of its own:
/// it is one of the downloads.
fn manifest_word(place: usize, manifest: &ManifestSource) -> String {
    if manifest.path == ManifestSource::STDIN {
        return downloads::manifest_file(place);
    }
    text::shell_word(text::portable_path(&manifest.path))
}

fn reproduce(index: &Index<'_>, job: &JobTable) -> Reproduce {
    let found = index.excerpt(&job.id);
    let manifests = index.tables.manifests.iter().enumerate();
    let paths: Vec<String> = match &found {
        Some(found) => vec![manifest_word(found.place, found.manifest)],
        None => manifests
            .map(|(place, manifest)| manifest_word(place, manifest))
            .collect(),
    };
    let paths = paths.join(" ");
    Reproduce {
        command: format!("photofinish bench {paths} --fresh"),
        manifest: found.map(|found| ManifestView {
            path: text::portable_path(&found.manifest.path).to_owned(),
            excerpt: found.text.clone(),
            href: format!("../../data/{}", downloads::manifest_file(found.place)),
        }),
    }
}
