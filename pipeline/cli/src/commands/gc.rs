//! `photofinish store gc`.

use indicatif::HumanBytes;

use crate::{
    failure::Failure,
    printer::counted,
    session::{Session, store_failure},
};

/// Removes what no kept run names.
pub(crate) fn gc(session: &Session, keep: usize, dry_run: bool) -> Result<(), Failure> {
    session.store.require().map_err(store_failure)?;
    let report = if dry_run {
        session.store.gc_preview(keep)
    } else {
        session.writer()?.gc(keep, false)
    };
    let report = report.map_err(store_failure)?;
    for corrupt in &report.unreadable {
        session.printer.note(&format!(
            "warning: {} cannot be read ({}): no heat is removed, since it may name some",
            corrupt.path.display(),
            corrupt.reason
        ));
    }
    let verb = if dry_run { "would remove" } else { "removed" };
    session.printer.human(&format!(
        "{verb} {}, {}, {}, {}, {}: {}",
        counted(report.runs, "run"),
        counted(report.heats, "heat"),
        counted(report.journals, "interrupted heat"),
        match report.artifacts {
            1 => "1 table or site".to_owned(),
            count => format!("{count} tables and sites"),
        },
        counted(report.aside, "corrupt artifact"),
        HumanBytes(report.bytes)
    ));
    session.printer.json(&serde_json::json!({
        "dry_run": dry_run,
        "runs": report.runs,
        "heats": report.heats,
        "journals": report.journals,
        "artifacts": report.artifacts,
        "aside": report.aside,
        "bytes": report.bytes,
    }))
}
