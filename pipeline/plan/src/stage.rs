//! The stage: manifests in, a plan out.

use std::collections::BTreeMap;

use schema::{Plan, plan};

use crate::{
    Diagnostic, ManifestFile, World, ceilings,
    context::{key, name},
    job::{self, Planned},
    keys::Known,
    lint,
    networks::Networks,
    tree::Step,
};

/// Errors after which the rest is not looked at: fixing these comes first.
const SHOWN: usize = 50;

/// Decides everything that a run will do, and changes nothing.
///
/// # Errors
/// Everything that is wrong with the manifests' meaning, each with its place.
pub fn plan(files: &[ManifestFile], world: &World) -> Result<Plan, Vec<Diagnostic>> {
    let mut diagnostics = duplicates(files);
    let (mut networks, mut known) = (Networks::default(), Known::new(world));
    let mut planned: Vec<Planned> = Vec::new();
    let mut room = world.cell_limit;
    for file in files {
        if file.manifest.jobs.is_empty() {
            let fault = file
                .fault(&[name("jobs")], "the manifest has no jobs")
                .help("a job is a mapping with `id` and `matrix`");
            diagnostics.push(file.diagnostic(&fault));
        }
        for index in 0..file.manifest.jobs.len() {
            if diagnostics.len() >= SHOWN {
                break;
            }
            match job::plan(world, file, index, room, &mut networks, &mut known) {
                Ok(job) => {
                    room = room.saturating_sub(job.combinations);
                    planned.push(job);
                }
                Err(found) => diagnostics.extend(found),
            }
        }
    }
    if diagnostics.is_empty() {
        // Where the meaning is wrong as well, that says more.
        diagnostics.extend(files.iter().filter_map(ManifestFile::apart));
    }
    // An error in shared settings is found once a job.
    let mut unique: Vec<Diagnostic> = Vec::new();
    for diagnostic in diagnostics {
        if !unique.contains(&diagnostic) {
            unique.push(diagnostic);
        }
    }
    if unique.is_empty() {
        let ceilings = ceilings::plan(&planned, world, &mut networks, &mut known);
        Ok(assembled(files, planned, ceilings))
    } else {
        Err(unique)
    }
}

fn assembled(
    files: &[ManifestFile],
    planned: Vec<Planned>,
    ceilings: Option<plan::Ceilings>,
) -> Plan {
    let title = files
        .iter()
        .map(|file| file.manifest.title.to_string())
        .find(|title| !title.is_empty());
    let mut plan = Plan {
        version: plan::VERSION,
        title: title.unwrap_or_else(|| "photofinish".to_owned()),
        manifests: files.iter().map(|file| file.source.clone()).collect(),
        jobs: Vec::new(),
        heats: Vec::new(),
        warnings: Vec::new(),
        ceilings,
    };
    let mut noticed = Vec::with_capacity(planned.len());
    for job in planned {
        plan.jobs.push(job.job);
        plan.heats.extend(job.heats);
        noticed.push(job.warnings);
    }
    let mut over_budget = lint::over_budget(&plan);
    let warnings = plan
        .jobs
        .iter()
        .zip(noticed)
        .flat_map(|(job, mut warnings)| {
            warnings.extend(over_budget.remove(job.id.as_str()));
            warnings
        });
    plan.warnings = warnings.collect();
    plan
}

/// Ids of jobs must be unique over all manifests: they are paths of the site.
fn duplicates(files: &[ManifestFile]) -> Vec<Diagnostic> {
    let mut first: BTreeMap<&str, &ManifestFile> = BTreeMap::new();
    let mut found = Vec::new();
    for file in files {
        for (index, job) in file.manifest.jobs.iter().enumerate() {
            if let Some(other) = first.insert(&job.id, file) {
                let steps = [key("jobs"), Step::Index(index), key("id")];
                let place = if other.source.path == file.source.path {
                    "this file".to_owned()
                } else {
                    format!("`{}`", other.source.path)
                };
                let fault = file
                    .fault(
                        &steps,
                        format!("the job `{}` is there already, in {place}", job.id),
                    )
                    .help("give each job its own id: it names a page of the site");
                found.push(file.diagnostic(&fault));
            }
        }
    }
    found.truncate(SHOWN);
    found
}
