//! `photofinish aggregate` and `photofinish report`: stages that start from the store.

use schema::{Digest, RunRecord};

use crate::{
    args::{Report, Stored},
    commands::bench::Summary,
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
    let (run, record) = match &arguments.bundle {
        Some(file) => {
            let opened = session.writer()?.open_bundle(file).map_err(store_failure)?;
            let record = session.store.run(&opened.run).map_err(store_failure)?;
            (opened.run, record)
        }
        None => wanted(session, &arguments.stored)?,
    };
    let tables = stages::tabulate(session, &run, &record)?;
    let rendered = stages::render(session, &run, &tables, &arguments.site.out)?;
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
        return session
            .store
            .latest_run()
            .map_err(store_failure)?
            .ok_or_else(|| {
                Failure::usage(format!(
                    "no run in {}: measure one with `photofinish bench jobs/quickstart.yaml`",
                    session.store.path().display()
                ))
            });
    };
    let mut found = session.store.runs_in_order().map_err(store_failure)?;
    found.retain(|digest| digest.to_string().starts_with(prefix.as_str()));
    found.sort_unstable();
    found.dedup();
    match found.as_slice() {
        [run] => Ok((*run, session.store.run(run).map_err(store_failure)?)),
        [] => Err(Failure::usage(format!(
            "no run whose hash begins with: {prefix}"
        ))),
        _ => Err(Failure::usage(format!(
            "several runs whose hash begins with: {prefix}"
        ))),
    }
}
