//! One job: from its lines in the manifest to its part of the plan.

use schema::{
    Measure,
    manifest::Unfair,
    plan::{PlannedCell, PlannedHeat, PlannedJob, VERDICT_BLOCKS, Warning},
};

use crate::{
    Diagnostic, ManifestFile, World, allow, axes,
    cells::{self, Cells},
    claims, compare,
    context::{Context, name},
    fairness, frontier, group,
    keys::{self, Known},
    lint,
    networks::Networks,
    points, predict, vary,
};

/// A job with its heats.
pub(crate) struct Planned {
    pub(crate) job: PlannedJob,
    pub(crate) heats: Vec<PlannedHeat>,
    pub(crate) warnings: Vec<Warning>,
    /// The number of combinations that it took from the limit.
    pub(crate) combinations: usize,
    /// Whether ceilings are measured for its cells.
    pub(crate) wants_ceilings: bool,
}

/// Plans a job; `room` is what is left of the limit.
pub(crate) fn plan(
    world: &World,
    file: &ManifestFile,
    index: usize,
    room: usize,
    networks: &mut Networks,
    known: &mut Known<'_>,
) -> Result<Planned, Vec<Diagnostic>> {
    let Some(job) = file.manifest.jobs.get(index) else {
        return Err(Vec::new());
    };
    let mut context = Context::new(world, file, index, job);
    resolve(&mut context, room, networks, known).ok_or_else(|| {
        context
            .faults
            .iter()
            .map(|fault| file.diagnostic(fault))
            .collect()
    })
}

fn resolve(
    context: &mut Context<'_>,
    room: usize,
    networks: &mut Networks,
    known: &mut Known<'_>,
) -> Option<Planned> {
    let measure = crate::measure::resolve(context);
    refuse_empty_profile(context, &measure);
    let mut axes = axes::resolve(context, networks);
    let shared = cells::shared(context, measure.boundary);
    // What else is wrong can only be told of a matrix that is right.
    if !context.faults.is_empty() {
        return None;
    }
    let varied = vary::resolve(context, &axes);
    let points = points::expand(context, &mut axes, &varied, room);
    let compared = compare::resolve(context, &axes, &varied);
    let allow = allow::resolve(context, &axes);
    let claims = claims::resolve(context, &axes, &compared, &measure);
    let points = points?;
    let cells = cells::resolve(context, &axes, &points, &shared, networks)?;
    frontier::check(context, &axes, &cells.cells, &measure);
    if !context.faults.is_empty() {
        return None;
    }
    let families: Vec<_> = compared
        .into_iter()
        .map(|compared| (compared, compare::family(compared, &axes, &points, &cells)))
        .collect();
    compare::refuse_empty(context, &axes, &families);
    if !context.faults.is_empty() {
        return None;
    }
    let links: Vec<_> = families
        .iter()
        .flat_map(|(_, family)| family.pairs.iter().copied())
        .collect();
    let groups = group::split(&context.job.id, &cells.cells, &links);
    let mut group_of = vec![0; cells.cells.len()];
    for (at, group) in groups.iter().enumerate() {
        for member in &group.members {
            if let Some(slot) = group_of.get_mut(*member) {
                *slot = at;
            }
        }
    }
    let group_name = |cell: usize| {
        group_of
            .get(cell)
            .and_then(|at| groups.get(*at))
            .map(|group| group.name.clone())
            .unwrap_or_default()
    };
    let comparisons = families
        .iter()
        .filter_map(|(compared, family)| {
            compare::planned(*compared, &family.pairs, &axes, &cells, group_name)
        })
        .collect();
    let heats = heats(
        context.world,
        (&context.job.id, context.job.profile),
        &groups,
        &cells,
        &measure,
        known,
    );
    let job = PlannedJob {
        id: context.job.id.to_string(),
        question: context.job.question.to_string(),
        mode: context.job.mode,
        measure,
        profile: context.job.profile,
        vary: vary::bases(&varied, &axes),
        comparisons,
        allow,
        claims,
    };
    let wants_ceilings = crate::measure::wants_ceilings(context, &measure);
    let grounds = fairness::Grounds {
        world: context.world,
        networks,
    };
    refuse_unfair(context, &job, &heats, &grounds)?;
    let families = families.iter().map(|(_, family)| family);
    let mut warnings = lint::lint(&job, &heats, families, &grounds);
    warnings.extend(cells.outlines.into_iter().map(|message| Warning {
        job: job.id.clone(),
        message,
    }));
    Some(Planned {
        job,
        heats,
        warnings,
        combinations: points.len(),
        wants_ceilings,
    })
}

/// What is not timed is not profiled.
fn refuse_empty_profile(context: &mut Context<'_>, measure: &Measure) {
    if context.job.profile && measure.blocks == 0 {
        context.error_with_help(
            &[name("profile")],
            "a job that times nothing profiles nothing",
            "give it blocks, or leave `profile` out",
        );
    }
}

/// Where the manifest says so, what is not fair is an error.
fn refuse_unfair(
    context: &mut Context<'_>,
    job: &PlannedJob,
    heats: &[PlannedHeat],
    grounds: &fairness::Grounds<'_>,
) -> Option<()> {
    let asked = crate::measure::unfair(context);
    if asked == Unfair::Warn {
        return Some(());
    }
    let lint::Unfair {
        comparisons,
        claims,
        left_alone,
        left_alone_by_claims,
        ..
    } = lint::unfair(job, heats, grounds);
    let compared = if context.job.compare.is_empty() {
        "vary"
    } else {
        "compare"
    };
    let equal = "make it equal in the matrix or compare it as an axis; `unfair: warn` lets it pass";
    let alike = "ask for the same of both in the matrix where they have the choice, or leave one of them \
                 out; `unfair: refuse` lets engines run as their users get them";
    let mut faults = vec![(compared, comparisons, equal), ("claims", claims, equal)];
    if asked == Unfair::Strict {
        faults.push((compared, left_alone, alike));
        faults.push(("claims", left_alone_by_claims, alike));
    }
    for (place, found, help) in faults {
        for message in found {
            context.error_with_help(&[name(place)], message, help);
        }
    }
    context.faults.is_empty().then_some(())
}

/// The heats of a job's groups, with their twins.
pub(crate) fn heats(
    world: &World,
    (job, is_profiled): (&str, bool),
    groups: &[group::Group],
    cells: &Cells,
    measure: &Measure,
    known: &mut Known<'_>,
) -> Vec<PlannedHeat> {
    let common = keys::Common::new(measure, is_profiled, world);
    let originals: Vec<_> = groups
        .iter()
        .map(|group| common.parts(&members(&group.members, &[], cells)))
        .collect();
    let kept: Vec<_> = groups
        .iter()
        .zip(&originals)
        .map(|(group, parts)| known.twins(&group.name, parts))
        .collect();
    let twins = if measure.blocks < VERDICT_BLOCKS {
        // No verdict, so no floor that it would be held against.
        vec![Vec::new(); groups.len()]
    } else {
        group::twins(groups, &cells.cells, &kept)
    };
    for (twins, parts) in twins.iter().zip(&originals) {
        let ids = twins.iter().filter_map(|at| cells.cells.get(*at));
        let ids: Vec<_> = ids.map(|cell| cell.id.clone()).collect();
        if !ids.is_empty() {
            known.plan(parts.clone(), ids);
        }
    }
    let groups = groups.iter().zip(twins).zip(originals);
    groups
        .map(|((group, twins), mut key_parts)| {
            let preparing = group.members.iter().chain(&twins);
            let preparing: Vec<_> = preparing
                .filter_map(|at| cells.preparing.get(*at).copied())
                .collect();
            let members = members(&group.members, &twins, cells);
            keys::add_twins(&mut key_parts, &members);
            let key = schema::Digest::of_value(&key_parts);
            PlannedHeat {
                group: group.name.clone(),
                job: job.to_owned(),
                status: known.status(&group.name, &key, &key_parts),
                predicted_ns: predict::heat_ns(
                    &members,
                    &preparing,
                    measure,
                    is_profiled,
                    &world.unmetered,
                ),
                key,
                key_parts,
                cells: members,
            }
        })
        .collect()
}

/// The cells of a heat: the group's, then the twins.
fn members(of_group: &[usize], twins: &[usize], cells: &Cells) -> Vec<PlannedCell> {
    let cell = |at: &usize| cells.cells.get(*at).cloned();
    let mut members: Vec<PlannedCell> = of_group.iter().filter_map(cell).collect();
    for twin in twins {
        let slot = of_group.iter().position(|member| member == twin);
        let original = slot.and_then(|slot| members.get(slot)).cloned();
        members.extend(original.map(|original| PlannedCell {
            twin_of: slot.and_then(|slot| u32::try_from(slot).ok()),
            ..original
        }));
    }
    members
}
