//! `photofinish bench`, `plan` and `run`: commands that start from manifests.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
};

use schema::{
    RunRecord, Tables,
    printed::{self, Bounds},
    tables::{Interval, Verdict},
};
use serde::{Serialize, Serializer};

use crate::{
    args::{Bench, Common, Executor, Measuring, Part, Plan, Run},
    failure::Failure,
    printer::{Printer, counted, set_in},
    session::Session,
    stages,
};

/// What a run came to, for people and for programs.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    heats: usize,
    /// How many of them have a result.
    sealed_heats: usize,
    #[serde(flatten)]
    counts: Option<Counts>,
    verdicts: Vec<VerdictRow>,
    failures: Vec<FailureRow>,
    /// Folder of the site.
    #[serde(serialize_with = "lossy")]
    site: Option<PathBuf>,
    /// Whether the site was rendered now, rather than found up to date.
    rendered: bool,
}

/// JSON is UTF-8; a path may be anything.
#[expect(clippy::ref_option, reason = "serde hands over the field")]
fn lossy<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
    path.as_ref()
        .map(|path| path.to_string_lossy())
        .serialize(serializer)
}

/// Where the results of a run that was made now come from.
#[derive(Debug, Clone, Copy, Serialize)]
struct Counts {
    measured_heats: usize,
    cached_heats: usize,
}

#[derive(Debug, Serialize)]
struct VerdictRow {
    job: String,
    coordinates: String,
    contender: String,
    value: String,
    baseline: String,
    ratio: Option<Interval>,
    parity_error: Option<f64>,
    verdict: Verdict,
    reason: String,
    /// What the ratio is held against.
    #[serde(skip)]
    bounds: Bounds,
}

#[derive(Debug, Serialize)]
struct FailureRow {
    job: String,
    cell: String,
    name: String,
    outcome: schema::Outcome,
    /// Whether the manifest allows the outcome, which does not help a baseline that a contender lacks.
    allowed: bool,
}

/// All four stages.
pub(crate) fn bench(session: &Session, arguments: &Bench) -> Result<(), Failure> {
    stages::check_out(session, &arguments.site.out)?;
    let measuring = arguments.measuring;
    let plan = stages::plan(session, &arguments.manifests, measuring)?;
    session.watch()?;
    announce(session, &plan);
    if !stages::is_cached(&plan) {
        stages::check_writable(&arguments.site.out)?;
        stages::prepare(session, &plan)?;
    }
    let measured = stages::measure(session, &plan, measuring)?;
    session.heed()?;
    let tables = stages::tabulate(session, &measured.run, &measured.record)?;
    session.heed()?;
    let out = &arguments.site.out;
    let rendered = stages::render(session, &measured.run, &tables, out)?;
    let summary = Summary::of_run(&measured.record, &tables)
        .with_counts(measured.measured, measured.cached)
        .with_site(out, rendered);
    session.printer.human(&summary.text());
    session.printer.json(&summary)?;
    summary.verdict_of_the_run().map_err(Failure::already_told)
}

/// Measures, and leaves the rest to later stages.
pub(crate) fn run(session: &Session, arguments: &Run) -> Result<(), Failure> {
    let measuring = arguments.measuring;
    let plan = stages::plan(session, &arguments.manifests, measuring)?;
    session.watch()?;
    announce(session, &plan);
    if !stages::is_cached(&plan) {
        stages::prepare(session, &plan)?;
    }
    let measured = stages::measure(session, &plan, measuring)?;
    session.heed()?;
    // The outcomes are judged here, too: the tables know which of them the manifest allows.
    let tables = stages::tabulate(session, &measured.run, &measured.record)?;
    let summary =
        Summary::of_run(&measured.record, &tables).with_counts(measured.measured, measured.cached);
    // A name by which no other command would find it is of no use to anybody.
    let run = measured.kept.then_some(measured.run);
    let name = run.map_or_else(
        || "not kept as a run".to_owned(),
        |run| format!("run {}", run.short()),
    );
    session
        .printer
        .human(&format!("{}; {name}", summary.counts()));
    session.printer.json(&serde_json::json!({
        "run": run,
        "measured_heats": measured.measured,
        "cached_heats": measured.cached,
        "failures": summary.failures,
        "record": measured.record,
    }))?;
    for failure in &summary.failures {
        session.printer.note(&failure.text());
    }
    summary.verdict_of_the_run().map_err(Failure::already_told)
}

/// Measures a part of a plan into a store of its own, on a node of a cluster.
pub(crate) fn part(printer: Printer, common: &Common, arguments: &Part) -> Result<(), Failure> {
    let Part { folder, part } = arguments;
    let part = run::Part::begin(folder.clone(), *part).map_err(Failure::lacking)?;
    let common = Common {
        store: Some(part.store().to_owned()),
        ..common.clone()
    };
    let session = Session::open(printer, &common, false)?;
    session.watch()?;
    stages::measure_part(&session, &part)
}

/// Shows what a run would do.
pub(crate) fn plan(session: &Session, arguments: &Plan) -> Result<(), Failure> {
    let measuring = Measuring {
        fresh: arguments.fresh,
        executor: Executor::Local,
    };
    let plan = stages::plan(session, &arguments.manifests, measuring)?;
    session
        .printer
        .human(&plan::explain(&plan, arguments.explain));
    session.printer.json(&plan)
}

/// Says what is about to happen.
fn announce(session: &Session, plan: &schema::Plan) {
    for warning in &plan.warnings {
        session
            .printer
            .note(&format!("warning: {}: {}", warning.job, warning.message));
    }
    let text = plan::explain(plan, false);
    if let Some(last) = text.lines().last() {
        session.printer.note(last);
    }
}

impl Summary {
    /// Of a run that is in the store.
    pub(crate) fn of_run(record: &RunRecord, tables: &Tables) -> Self {
        let failures = aggregate::failures(tables)
            .into_iter()
            .map(|failure| FailureRow {
                job: failure.job,
                cell: failure.cell.to_string(),
                name: failure.name,
                outcome: failure.outcome,
                allowed: failure.allowed,
            })
            .collect();
        Self {
            heats: stages::heats(record),
            sealed_heats: stages::sealed(record),
            counts: None,
            verdicts: verdicts(tables),
            failures,
            site: None,
            rendered: false,
        }
    }

    /// Of a run that was made now.
    fn with_counts(mut self, measured_heats: usize, cached_heats: usize) -> Self {
        self.counts = Some(Counts {
            measured_heats,
            cached_heats,
        });
        self
    }

    pub(crate) fn with_site(mut self, out: &Path, rendered: bool) -> Self {
        self.site = Some(out.to_owned());
        self.rendered = rendered;
        self
    }

    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for verdict in &self.verdicts {
            let _ = writeln!(text, "{}", verdict.text());
        }
        if !self.failures.is_empty() {
            text.push('\n');
        }
        for failure in &self.failures {
            let _ = writeln!(text, "{}", failure.text());
        }
        let _ = writeln!(text, "\n{}", self.counts());
        if self.site.is_some() {
            text.push_str(&self.site_line());
        }
        text
    }

    /// How many groups there are results of, and what was measured for that.
    fn counts(&self) -> String {
        let groups = |count: usize| counted(count as u64, "group");
        let not_reached = match self.heats.saturating_sub(self.sealed_heats) {
            0 => String::new(),
            left => format!(", {left} not reached"),
        };
        match self.counts {
            None => format!(
                "{} of {} measured{not_reached}",
                self.sealed_heats,
                groups(self.heats)
            ),
            Some(counts) if counts.measured_heats == 0 && not_reached.is_empty() => {
                match self.heats {
                    1 => "the only group is cached: nothing was measured".to_owned(),
                    heats => format!("all {} are cached: nothing was measured", groups(heats)),
                }
            }
            Some(counts) => format!(
                "{} measured, {} cached{not_reached}",
                groups(counts.measured_heats),
                counts.cached_heats
            ),
        }
    }

    /// Where the site is.
    pub(crate) fn site_line(&self) -> String {
        let index = self.site.clone().unwrap_or_default().join("index.html");
        let state = if self.rendered {
            "site"
        } else {
            "site, up to date"
        };
        format!("{state}: {}\n", index.display())
    }

    /// The error that a run ends with whose cells failed.
    fn verdict_of_the_run(&self) -> Result<(), Failure> {
        let count = |allowed| {
            self.failures
                .iter()
                .filter(|row| row.allowed == allowed)
                .count()
        };
        let cells = match count(false) {
            0 => None,
            1 => Some("1 cell ended in an outcome that the manifest does not allow".to_owned()),
            count => Some(format!(
                "{count} cells ended in outcomes that the manifest does not allow"
            )),
        };
        let baselines = match count(true) {
            0 => None,
            1 => Some(
                "1 baseline was not measured, so that nothing can be held against it".to_owned(),
            ),
            count => Some(format!(
                "{count} baselines were not measured, so that nothing can be held against them"
            )),
        };
        match [cells, baselines]
            .into_iter()
            .flatten()
            .reduce(|a, b| format!("{a}; {b}"))
        {
            None => Ok(()),
            Some(reason) => Err(Failure::cells(reason)),
        }
    }
}

impl FailureRow {
    fn text(&self) -> String {
        let outcome = &self.outcome;
        let baseline = if self.allowed { ", a baseline" } else { "" };
        format!(
            "{}{baseline}: {}: {}",
            self.name,
            outcome.kind,
            set_in(&outcome.reason)
        )
    }
}

impl VerdictRow {
    /// One line: what is compared, how, and what may be said of it.
    fn text(&self) -> String {
        let subject = format!(
            "{}: {} against {}, {}",
            self.job, self.value, self.baseline, self.coordinates
        );
        match &self.ratio {
            Some(ratio) => {
                let why = if self.verdict == Verdict::Unclear {
                    format!(" ({})", self.reason)
                } else {
                    String::new()
                };
                let verdict = self.verdict.word();
                format!(
                    "{subject}: {} of its time: {verdict}{why}",
                    range(ratio, self.bounds)
                )
            }
            None => format!("{subject}: {} ({})", self.verdict.word(), self.reason),
        }
    }
}

/// `0.53× [0.51, 0.55]`, with the digits that the site shows.
fn range(ratio: &Interval, bounds: Bounds) -> String {
    let printed = printed::held(ratio, bounds).ratio;
    format!("{}× {}", printed.centre.unwrap_or_default(), printed.range)
}

fn verdicts(tables: &Tables) -> Vec<VerdictRow> {
    let parity_error = |job: &str, id: &schema::CellId| {
        let mut cells = tables.cells.iter();
        let cell = cells.find(|cell| cell.job == job && cell.id == *id)?;
        cell.parity.as_ref().map(|parity| parity.error)
    };
    let mut rows = Vec::new();
    for job in &tables.jobs {
        for comparison in &job.comparisons {
            for row in &comparison.rows {
                let shared: Vec<_> = row
                    .coordinates
                    .iter()
                    .map(|(axis, value)| format!("{axis} {value}"))
                    .collect();
                rows.push(VerdictRow {
                    job: job.id.clone(),
                    coordinates: shared.join(", "),
                    contender: row.contender.to_string(),
                    value: row.value.clone(),
                    baseline: comparison.baseline.clone(),
                    ratio: row.ratio,
                    parity_error: parity_error(&job.id, &row.contender),
                    verdict: row.verdict,
                    reason: row.reason.clone(),
                    bounds: Bounds {
                        margin: job.measure.margin,
                        floor: row.floor,
                    },
                });
            }
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(heats: usize, sealed_heats: usize, now: Option<(usize, usize)>) -> String {
        let summary = Summary {
            heats,
            sealed_heats,
            counts: None,
            verdicts: Vec::new(),
            failures: Vec::new(),
            site: None,
            rendered: false,
        };
        match now {
            Some((measured, cached)) => summary.with_counts(measured, cached).counts(),
            None => summary.counts(),
        }
    }

    #[test]
    fn only_who_looked_says_what_was_cached() {
        assert_eq!(counts(2, 2, None), "2 of 2 groups measured");
        assert_eq!(counts(1, 0, None), "0 of 1 group measured, 1 not reached");
    }

    #[test]
    fn counts_agree_with_their_words() {
        for ((heats, sealed, measured, cached), said) in [
            (
                (1, 1, 0, 1),
                "the only group is cached: nothing was measured",
            ),
            (
                (2, 2, 0, 2),
                "all 2 groups are cached: nothing was measured",
            ),
            ((2, 2, 1, 1), "1 group measured, 1 cached"),
            ((3, 2, 0, 2), "0 groups measured, 2 cached, 1 not reached"),
        ] {
            assert_eq!(counts(heats, sealed, Some((measured, cached))), said);
        }
    }
}
