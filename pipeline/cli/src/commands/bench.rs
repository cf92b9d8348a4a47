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
use serde::Serialize;

use crate::{
    args::{Bench, Plan, Run},
    failure::Failure,
    session::Session,
    stages,
};

/// What a run came to, for people and for programs.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    heats: usize,
    measured_heats: usize,
    cached_heats: usize,
    verdicts: Vec<VerdictRow>,
    failures: Vec<FailureRow>,
    /// Folder of the site.
    site: Option<PathBuf>,
    /// Whether the site was rendered now, rather than found up to date.
    rendered: bool,
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
}

/// All four stages.
pub(crate) fn bench(session: &Session, arguments: &Bench) -> Result<(), Failure> {
    stages::check_out(session, &arguments.site.out)?;
    let plan = stages::plan(session, &arguments.manifests, arguments.fresh)?;
    announce(session, &plan);
    if !stages::is_cached(&plan) {
        stages::prepare(session, &plan)?;
    }
    let measured = stages::measure(session, &plan, arguments.fresh)?;
    let tables = stages::tabulate(session, &measured.run, &measured.record)?;
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
    let plan = stages::plan(session, &arguments.manifests, arguments.fresh)?;
    announce(session, &plan);
    if !stages::is_cached(&plan) {
        stages::prepare(session, &plan)?;
    }
    let measured = stages::measure(session, &plan, arguments.fresh)?;
    // The outcomes are judged here, too: the tables know which of them the manifest allows.
    let tables = stages::tabulate(session, &measured.run, &measured.record)?;
    let summary =
        Summary::of_run(&measured.record, &tables).with_counts(measured.measured, measured.cached);
    session.printer.human(&format!(
        "{} groups measured, {} cached, {} not reached; run {}",
        measured.measured,
        measured.cached,
        measured.record.heats.len() - stages::sealed(&measured.record),
        measured.run.short(),
    ));
    session.printer.json(&serde_json::json!({
        "run": measured.run,
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

/// Shows what a run would do.
pub(crate) fn plan(session: &Session, arguments: &Plan) -> Result<(), Failure> {
    let plan = stages::plan(session, &arguments.manifests, arguments.fresh)?;
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
    /// Of a run whose heats were all found in the store.
    pub(crate) fn of_run(record: &RunRecord, tables: &Tables) -> Self {
        let failures = aggregate::failures(tables)
            .into_iter()
            .map(|failure| FailureRow {
                job: failure.job,
                cell: failure.cell.to_string(),
                name: failure.name,
                outcome: failure.outcome,
            })
            .collect();
        Self {
            heats: record.heats.len(),
            measured_heats: 0,
            cached_heats: stages::sealed(record),
            verdicts: verdicts(tables),
            failures,
            site: None,
            rendered: false,
        }
    }

    fn with_counts(mut self, measured: usize, cached: usize) -> Self {
        (self.measured_heats, self.cached_heats) = (measured, cached);
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
        let left =
            self.heats - self.measured_heats.min(self.heats) - self.cached_heats.min(self.heats);
        let not_reached = if left > 0 {
            format!(", {left} not reached")
        } else {
            String::new()
        };
        let groups = |count: usize| format!("{count} group{}", if count == 1 { "" } else { "s" });
        let _ = if self.measured_heats == 0 && left == 0 {
            let all = if self.heats == 1 { "the" } else { "all" };
            let are = if self.heats == 1 { "is" } else { "are" };
            writeln!(
                text,
                "\n{all} {} {are} cached: nothing was measured",
                groups(self.heats)
            )
        } else {
            let measured = groups(self.measured_heats);
            writeln!(
                text,
                "\n{measured} measured, {} cached{not_reached}",
                self.cached_heats
            )
        };
        if self.site.is_some() {
            text.push_str(&self.site_line());
        }
        text
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
        match self.failures.len() {
            0 => Ok(()),
            1 => Err(Failure::cells(
                "1 cell ended in an outcome that the manifest does not allow",
            )),
            count => Err(Failure::cells(format!(
                "{count} cells ended in outcomes that the manifest does not allow"
            ))),
        }
    }
}

impl FailureRow {
    fn text(&self) -> String {
        let outcome = &self.outcome;
        format!("{}: {}: {}", self.name, outcome.kind, outcome.reason)
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
