//! `photofinish aggregate` and `photofinish report`: stages that start from the store.

use schema::{Digest, RunRecord};
use serde::Serialize;

use crate::{
    args::{Report, Stored},
    commands::{bench::Summary, bundle::unpack},
    failure::Failure,
    session::{Session, store_failure},
    stages,
};

/// Makes tables and prints them.
pub(crate) fn aggregate(session: &Session, arguments: &Stored) -> Result<(), Failure> {
    let (run, record) = wanted(session, arguments)?;
    let tables = stages::tabulate(session, &run, &record)?;
    session
        .printer
        .human(&Summary::of_run(&record, &tables).text());
    session.printer.json(&tables)
}

/// Renders a site.
pub(crate) fn report(session: &Session, arguments: &Report) -> Result<(), Failure> {
    stages::check_out(session, &arguments.site.out)?;
    let (run, record) = match &arguments.bundle {
        Some(file) => {
            let opened = unpack(session, file)?;
            let record = session.store.run(&opened.run).map_err(store_failure)?;
            (opened.run, record)
        }
        None => wanted(session, &arguments.stored)?,
    };
    let of_bundle = |failure: Failure| match &arguments.bundle {
        Some(file) if failure.is_usage() => failure.about(&format!("bundle `{}`", file.display())),
        _ => failure,
    };
    let tables = stages::tabulate(session, &run, &record).map_err(of_bundle)?;
    session.heed()?;
    let rendered =
        stages::render(session, &run, &tables, &arguments.site.out).map_err(of_bundle)?;
    let summary = Summary::of_run(&record, &tables).with_site(&arguments.site.out, rendered);
    session.printer.human(&summary.site_line());
    session.printer.json(&summary)
}

/// The run that was asked for: the latest, or the one whose hash begins so.
pub(crate) fn wanted(
    session: &Session,
    arguments: &Stored,
) -> Result<(Digest, RunRecord), Failure> {
    let Some(prefix) = &arguments.run else {
        return latest(session);
    };
    if prefix.len() < 4 || !prefix.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(Failure::usage(format!(
            "a run is named by at least four digits of its hash (`photofinish store list`), not by: {prefix}"
        )));
    }
    let prefix = &prefix.to_ascii_lowercase();
    let runs = session.store.runs_in_order().map_err(store_failure)?;
    let mut found: Vec<Digest> = runs.into_iter().map(|run| run.digest).collect();
    found.retain(|digest| digest.to_string().starts_with(prefix.as_str()));
    found.sort_unstable();
    found.dedup();
    match found.as_slice() {
        [run] => Ok((*run, session.store.run(run).map_err(store_failure)?)),
        [] => Err(Failure::usage(format!(
            "no run whose hash begins with: {prefix}"
        ))),
        several => {
            let hashes: Vec<_> = several.iter().map(Digest::short).collect();
            Err(Failure::usage(format!(
                "several runs begin with {prefix}: {}",
                hashes.join(", ")
            )))
        }
    }
}

/// The latest run, and a word where somebody might expect another one.
fn latest(session: &Session) -> Result<(Digest, RunRecord), Failure> {
    let (run, record) = session
        .store
        .latest_run()
        .map_err(store_failure)?
        .ok_or_else(|| {
            Failure::usage(format!(
                "no run in {}: measure one with `photofinish bench jobs/quickstart.yaml`",
                session.store.path().display()
            ))
        })?;
    let runs = session.store.runs_in_order().map_err(store_failure)?;
    if let Some(newest) = runs.last()
        && newest.interrupted
    {
        let note = if newest.digest == run {
            format!(
                "note: run {} was interrupted: {} of {} groups are measured, and the same command as then goes on",
                run.short(),
                stages::sealed(&record),
                stages::heats(&record)
            )
        } else {
            format!(
                "note: run {} is newer, but was interrupted: this is run {} (`--run` names another)",
                newest.digest.short(),
                run.short()
            )
        };
        session.printer.note(&note);
    }
    Ok((run, record))
}

/// A run as `store list` shows it.
#[derive(Debug, Serialize)]
struct RunRow {
    run: Digest,
    title: String,
    heats: usize,
    sealed: usize,
    interrupted: bool,
}

/// Prints the runs of the store, the newest last.
pub(crate) fn list(session: &Session) -> Result<(), Failure> {
    let mut rows = Vec::new();
    for run in session.store.runs_in_order().map_err(store_failure)? {
        match session.store.run(&run.digest) {
            Ok(record) => rows.push(RunRow {
                run: run.digest,
                interrupted: run.interrupted,
                sealed: stages::sealed(&record),
                heats: stages::heats(&record),
                title: record.plan.title,
            }),
            Err(error) => session.printer.note(&format!("warning: {error}")),
        }
    }
    for row in &rows {
        let RunRow {
            run,
            title,
            heats,
            sealed,
            interrupted,
        } = row;
        let end = if *interrupted { ", interrupted" } else { "" };
        session.printer.human(&format!(
            "{}  {sealed} of {heats} groups{end}  {title}",
            run.short()
        ));
    }
    session.printer.json(&rows)
}
