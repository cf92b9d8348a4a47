//! The four stages, each fed from the store or from the one before.

use std::path::{Path, PathBuf};

use plan::{Diagnostic, World};
use schema::{
    Digest, Plan, RunRecord, Tables,
    plan::{PlannedHeat, Status},
    record::{self, HeatEntry, HeatResult},
    tables::Download,
};
use store::ArtifactKind;

use crate::{
    args::Manifests,
    failure::Failure,
    progress::{self, InstallProgress, SweepProgress},
    session::{Session, store_failure},
    tool,
};

/// Manifests to plan.
pub(crate) fn plan(session: &Session, manifests: &Manifests, fresh: bool) -> Result<Plan, Failure> {
    let files = plan::read_manifests(&manifests.manifests).map_err(|found| refusal(&found))?;
    let world = world(session, manifests.cell_limit, fresh)?;
    plan::plan(&files, &world).map_err(|found| refusal(&found))
}

fn world(session: &Session, cell_limit: usize, fresh: bool) -> Result<World, Failure> {
    let known = session.store.known_heats().map_err(store_failure)?;
    for corrupt in &known.corrupt {
        let advice = "the next run sets it aside and measures it again";
        session
            .printer
            .note(&format!("warning: {corrupt}: {advice}"));
    }
    Ok(World {
        engines: session.catalog.descriptions(),
        availability: session.catalog.availability(),
        fingerprint: session.fingerprint().clone(),
        conditions: telemetry::conditions(),
        procedure: run::PROCEDURE,
        known: known.heats,
        cell_limit,
        fresh,
    })
}

/// What is wrong with the manifests, each with its place.
fn refusal(found: &[Diagnostic]) -> Failure {
    let render = |coloured| {
        let texts: Vec<_> = found
            .iter()
            .map(|diagnostic| diagnostic.render(coloured))
            .collect();
        texts.join("\n\n")
    };
    Failure::usage(render(false))
        .with_styled(render(true))
        .with_details(&found)
}

/// Whether the store has everything that a plan asks for.
pub(crate) fn is_cached(plan: &Plan) -> bool {
    plan.heats
        .iter()
        .all(|heat| matches!(heat.status, Status::Cached { .. }))
}

/// Installs the engines of the heats that the store lacks, the reference's included, and builds
/// their workers. What is unavailable on this machine is left out: its cells say so.
pub(crate) fn prepare(session: &Session, plan: &Plan) -> Result<(), Failure> {
    let availability = session.catalog.availability();
    let usable = |name: &str| {
        availability
            .get(name)
            .is_some_and(|found| found.missing.is_none())
    };
    let mut names: Vec<String> = plan
        .heats
        .iter()
        .filter(|heat| !matches!(heat.status, Status::Cached { .. }))
        .flat_map(|heat| &heat.cells)
        .filter(|cell| cell.obstacle.is_none())
        .map(|cell| cell.cell.engine.engine.clone())
        .chain(std::iter::once(REFERENCE_ENGINE.to_owned()))
        .filter(|name| usable(name))
        .collect();
    names.sort();
    names.dedup();
    let mut progress = InstallProgress::new(session.printer, session.interrupt.clone());
    session
        .catalog
        .install(&names, &mut progress)
        .and_then(|()| session.catalog.build_workers(&names, &mut progress))
        .map_err(|error| session.install_failure(&error))
}

/// What a run came to.
pub(crate) struct Measured {
    pub(crate) run: Digest,
    pub(crate) record: RunRecord,
    /// Heats measured now.
    pub(crate) measured: usize,
    /// Heats that the store had.
    pub(crate) cached: usize,
}

/// Plan to run record: measures what the store lacks, and keeps the record.
pub(crate) fn measure(session: &Session, plan: &Plan, fresh: bool) -> Result<Measured, Failure> {
    if is_cached(plan) && !fresh {
        return Ok(found(session, plan));
    }
    let lock = session.writer()?;
    let blocks = plan
        .heats
        .iter()
        .filter(|heat| !matches!(heat.status, Status::Cached { .. }))
        .filter_map(|heat| plan.job(&heat.job))
        .map(|job| u64::from(job.measure.blocks))
        .sum();
    let mut progress = SweepProgress::new(session.printer, blocks);
    let options = run::Options {
        fresh,
        tool: session.tool(),
    };
    let record = run::run(
        plan,
        &lock,
        session,
        &options,
        &session.interrupt,
        &mut progress,
    )
    .map_err(Failure::lacking)?;
    let (measured, cached) = (progress.measured, progress.cached);
    drop(progress);
    let run = lock.put_run(&record).map_err(store_failure)?;
    if session.interrupt.is_set() {
        return Err(Failure::interrupted());
    }
    Ok(Measured {
        run,
        record,
        measured,
        cached,
    })
}

/// The run of a plan whose every heat is in the store. Nothing needs to be written for it: a store
/// that cannot be written, or is being written by another process, serves as well.
fn found(session: &Session, plan: &Plan) -> Measured {
    let sealed = |heat: &PlannedHeat| match heat.status {
        Status::Cached { heat } => HeatResult::Sealed(heat),
        _ => HeatResult::NotReached("it is not in the store".to_owned()),
    };
    let entry = |heat: &PlannedHeat| HeatEntry {
        group: heat.group.clone(),
        key: heat.key,
        heat: sealed(heat),
    };
    let record = RunRecord {
        version: record::VERSION,
        plan: plan.clone(),
        heats: plan.heats.iter().map(entry).collect(),
    };
    let kept = session.store.lock().and_then(|lock| lock.put_run(&record));
    Measured {
        run: kept.unwrap_or_else(|_| Digest::of_value(&record)),
        cached: record.heats.len(),
        measured: 0,
        record,
    }
}

/// Run record to tables, or what the store has of them.
pub(crate) fn tabulate(
    session: &Session,
    run: &Digest,
    record: &RunRecord,
) -> Result<Tables, Failure> {
    let key = tool::key(tool::AGGREGATE, run);
    // A corrupt artifact is no loss: it is made again and replaced.
    if let Ok(Some(bytes)) = session.store.get(ArtifactKind::Tables, &key)
        && let Ok(tables) = serde_json::from_slice(&bytes)
    {
        return Ok(tables);
    }
    let _busy = progress::busy("aggregating");
    let heat = |key: &Digest, heat: &Digest| session.store.heat(key, heat);
    let tables = aggregate::aggregate(record, &heat).map_err(Failure::lacking)?;
    let bytes = serde_json::to_vec(&tables)
        .map_err(|error| Failure::internal(format!("failed to write the tables: {error}")))?;
    remember(session, ArtifactKind::Tables, &key, run, &bytes);
    Ok(tables)
}

/// Tables to site, unless `out` holds that very site.
pub(crate) fn render(
    session: &Session,
    run: &Digest,
    tables: &Tables,
    out: &Path,
) -> Result<bool, Failure> {
    let key = tool::key(tool::REPORT, &tool::key(tool::AGGREGATE, run));
    if let Some(site) = report::fingerprint(out)
        && session
            .store
            .get(ArtifactKind::Site, &key)
            .ok()
            .flatten()
            .as_deref()
            == Some(site.as_bytes())
    {
        return Ok(false);
    }
    let busy = progress::busy("rendering the site");
    let downloads = downloads(tables)?;
    let rendered = report::render(tables, &downloads, out).map_err(Failure::lacking)?;
    drop(busy);
    remember(
        session,
        ArtifactKind::Site,
        &key,
        run,
        rendered.site.as_bytes(),
    );
    Ok(true)
}

/// Keeps what a later run need not make again. A store that cannot be written now only costs that
/// run some time.
fn remember(session: &Session, kind: ArtifactKind, key: &Digest, run: &Digest, bytes: &[u8]) {
    let _ = session
        .store
        .lock()
        .and_then(|lock| lock.put(kind, key, run, bytes));
}

/// Refuses a folder for the site before hours are spent on measuring.
pub(crate) fn check_out(session: &Session, out: &Path) -> Result<(), Failure> {
    report::check(out).map_err(Failure::usage)?;
    let (out_place, store_place) = (place(out), place(session.store.path()));
    if out_place.starts_with(&store_place) || store_place.starts_with(&out_place) {
        return Err(Failure::usage(format!(
            "the site cannot be in {}: the store is in {}",
            out.display(),
            session.store.path().display()
        )));
    }
    Ok(())
}

/// Where a path leads, links resolved as far as it exists.
fn place(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    for existing in path.ancestors() {
        if let (Ok(real), Ok(rest)) = (existing.canonicalize(), path.strip_prefix(existing)) {
            return real.join(rest);
        }
    }
    path
}

fn downloads(tables: &Tables) -> Result<Vec<Download>, Failure> {
    aggregate::downloads(tables).map_err(Failure::lacking)
}

/// The engine whose outputs decide on parity.
const REFERENCE_ENGINE: &str = "pytorch";

/// How many heats of a record have an artifact.
pub(crate) fn sealed(record: &RunRecord) -> usize {
    record
        .heats
        .iter()
        .filter(|entry| matches!(entry.heat, HeatResult::Sealed(_)))
        .count()
}
