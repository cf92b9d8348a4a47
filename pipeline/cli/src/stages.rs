//! The four stages, each fed from the store or from the one before.

mod measuring;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use plan::{Diagnostic, World};
use schema::{
    Device, Digest, EngineVariant, ModelSource, Plan, RunRecord, Tables,
    plan::{KnownHeat, Status},
    record::{HeatEntry, HeatResult},
    tables::Download,
};
use store::{ArtifactKind, StoreError};
use telemetry::Sensors;

use crate::{
    args::{Executor, Manifests, Measuring},
    failure::Failure,
    progress::{self, InstallProgress},
    session::{Session, aggregate_failure, report_failure, store_failure},
    tool,
};
pub(crate) use measuring::{measure, measure_part};

/// Manifests to plan. On a cluster there are no ceilings, which belong to the node that they were measured on.
pub(crate) fn plan(
    session: &Session,
    manifests: &Manifests,
    Measuring { fresh, executor }: Measuring,
) -> Result<Plan, Failure> {
    let files = plan::read_manifests(&manifests.manifests).map_err(|found| refusal(&found))?;
    let mut world = world(session, manifests.cell_limit, fresh)?;
    let planned = |world: &World| {
        let mut plan = plan::plan(&files, world).map_err(|found| refusal(&found))?;
        if executor == Executor::Slurm {
            plan.ceilings = None;
        }
        Ok(plan)
    };
    let plan = planned(&world)?;
    if !fresh {
        return Ok(plan);
    }
    // Which interrupted run this one goes on with is told by its keys, which only the plan knows.
    let anew = measured_anew(session, &plan)?;
    if anew.is_empty() {
        return Ok(plan);
    }
    world.fresh = Some(anew);
    planned(&world)
}

/// What an interrupted fresh run over the same heats left.
fn measured_anew(session: &Session, plan: &Plan) -> Result<Vec<KnownHeat>, Failure> {
    let keys: Vec<Digest> = plan.all_heats().map(|heat| heat.key).collect();
    let anew = match session.store.interrupted_fresh(&keys) {
        Ok(Some(fresh)) => session
            .store
            .known_heats_of(&fresh)
            .map(|known| known.heats),
        Ok(None) => Ok(Vec::new()),
        Err(error) => Err(error),
    };
    anew.map_err(store_failure)
}

fn world(session: &Session, cell_limit: usize, fresh: bool) -> Result<World, Failure> {
    let known = session.store.known_heats().map_err(store_failure)?;
    for corrupt in &known.corrupt {
        let advice = "the next run sets it aside and measures it again";
        session
            .printer
            .note(&format!("warning: {corrupt}: {advice}"));
    }
    let catalog = session.catalog()?;
    Ok(World {
        engines: catalog.descriptions(),
        availability: catalog.availability(),
        fingerprint: session.fingerprint().clone(),
        conditions: telemetry::conditions(),
        unmetered: unmetered(session),
        procedure: run::PROCEDURE,
        known: known.heats,
        cell_limit,
        fresh: fresh.then(Vec::new),
    })
}

/// Why the energy of what runs on a device cannot be measured here.
pub(crate) fn unmetered(session: &Session) -> BTreeMap<Device, String> {
    let sensors = Sensors::system();
    let gpus = (0_u32..).zip(&session.fingerprint().gpus);
    let devices = gpus.map(|(index, _)| Device::Cuda(index));
    let devices = [Device::Cpu].into_iter().chain(devices);
    let lacking = |device| Some((device, sensors.energy_meter(device).err()?));
    devices.filter_map(lacking).collect()
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
    plan.all_heats()
        .all(|heat| matches!(heat.status, Status::Cached { .. }))
}

/// Installs the engines of the heats that the store lacks, the reference's included, and builds
/// their workers. What is unavailable on this machine is left out: its cells say so.
pub(crate) fn prepare(session: &Session, plan: &Plan) -> Result<(), Failure> {
    check_name(session.store.path())?;
    let catalog = session.catalog()?;
    let availability = catalog.availability();
    let usable = |engine: &EngineVariant| {
        availability
            .get(engine)
            .is_some_and(|found| found.missing.is_none())
    };
    let cells = || {
        plan.all_heats()
            .filter(|heat| !matches!(heat.status, Status::Cached { .. }))
            .flat_map(|heat| &heat.cells)
            .filter(|cell| cell.obstacle.is_none())
    };
    let variant = |[engine, variant]: [&str; 2]| EngineVariant {
        engine: engine.to_owned(),
        variant: variant.to_owned(),
    };
    let has_file = cells().any(|cell| cell.cell.model.source == ModelSource::Onnx);
    let has_graph = cells().any(|cell| !cell.is_outline());
    let mut engines: BTreeSet<EngineVariant> = cells()
        .map(|cell| cell.cell.engine.clone())
        .chain(has_file.then(|| variant(WITNESS)))
        .chain(has_graph.then(|| variant(REFERENCE)))
        .filter(usable)
        .collect();
    // PyTorch eager on the same device tells what rounding does to a cell.
    let on_gpus = cells().filter(|cell| !cell.cell.device.is_cpu());
    let on_gpus = on_gpus.flat_map(|cell| [cell.cell.engine.clone(), variant(REFERENCE)]);
    let on_gpus = on_gpus.filter(usable);
    let needed: BTreeSet<_> = on_gpus
        .filter_map(|it| catalog.needed_on_gpu(&it))
        .collect();
    engines.extend(needed);
    let names: Vec<String> = engines.iter().map(ToString::to_string).collect();
    let mut progress = InstallProgress::new(session.printer, session.interrupt.clone());
    catalog
        .install(&names, &mut progress)
        .and_then(|()| catalog.build_workers(&names, &mut progress))
        .map_err(|error| session.install_failure(&error))
}

/// Refuses a store in which workers cannot be told where to write: the protocol is JSON, and JSON
/// is UTF-8.
fn check_name(store: &Path) -> Result<(), Failure> {
    let place = std::path::absolute(store).unwrap_or_else(|_| store.to_owned());
    if place.to_str().is_some() {
        return Ok(());
    }
    Err(Failure::lacking(format!(
        "workers cannot be sent the name of the store, which is not UTF-8: {}; name another with --store",
        place.display()
    )))
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
    let heat = |key: &Digest, heat: &Digest| {
        if session.interrupt.is_set() {
            return Err(StoreError::Interrupted);
        }
        session.store.heat(key, heat)
    };
    let tables = aggregate::aggregate(record, &heat).map_err(aggregate_failure)?;
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
    let stop = || session.interrupt.is_set();
    let rendered = report::render_unless(&stop, tables, &downloads, out).map_err(report_failure)?;
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

/// Refuses a folder that cannot hold the site: it, or one on the way to it, is somebody else's.
pub(crate) fn check_out(session: &Session, out: &Path) -> Result<(), Failure> {
    report::check(out).map_err(report_failure)?;
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

/// Refuses a folder for the site in which nothing can be created, before hours are spent on
/// measuring. Nothing is left behind.
pub(crate) fn check_writable(out: &Path) -> Result<(), Failure> {
    let target = std::path::absolute(out).unwrap_or_else(|_| out.to_owned());
    let existing = |path: &Path| {
        path.ancestors()
            .find(|path| path.is_dir())
            .map(Path::to_owned)
    };
    // The site is made beside its folder, and then moved there.
    let beside = target.parent().and_then(existing);
    for folder in [beside, existing(&target)].into_iter().flatten() {
        tempfile::tempdir_in(&folder).map_err(|error| {
            Failure::lacking(format!(
                "the site cannot be made in {}, since nothing can be created in {}: {}; choose another folder with --out",
                out.display(),
                folder.display(),
                error.kind()
            ))
        })?;
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

/// Engine and variant whose outputs decide on parity.
const REFERENCE: [&str; 2] = ["pytorch", "eager"];

/// Engine and variant that run the user's own files, so that our reading of them is verified.
const WITNESS: [&str; 2] = ["onnxruntime", "cpu"];

/// How many heats a record has; one that several jobs share counts once.
pub(crate) fn heats(record: &RunRecord) -> usize {
    distinct(record.heats.iter())
}

/// How many of them have an artifact.
pub(crate) fn sealed(record: &RunRecord) -> usize {
    let is_sealed = |entry: &&HeatEntry| matches!(entry.heat, HeatResult::Sealed(_));
    distinct(record.heats.iter().filter(is_sealed))
}

fn distinct<'a>(entries: impl Iterator<Item = &'a HeatEntry>) -> usize {
    let keys: BTreeSet<Digest> = entries.map(|entry| entry.key).collect();
    keys.len()
}
