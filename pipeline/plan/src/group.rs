//! Groups: cells connected by comparisons are measured in one heat.

use std::collections::{BTreeMap, BTreeSet};

use schema::{Digest, plan::PlannedCell};

use crate::compare::Linked;

/// A group of a job's cells.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    pub(crate) name: String,
    /// Positions of the cells, ascending.
    pub(crate) members: Vec<usize>,
    /// Whether any comparison has a pair here.
    pub(crate) compared: bool,
}

/// The connected parts of the job's cells, in the order of their first cells.
pub(crate) fn split(job: &str, cells: &[PlannedCell], links: &[Linked]) -> Vec<Group> {
    let mut parent: Vec<usize> = (0..cells.len()).collect();
    for link in links {
        let (a, b) = (
            root(&mut parent, link.baseline),
            root(&mut parent, link.contender),
        );
        // The smaller position leads, so that the order of links does not matter.
        if let Some(slot) = parent.get_mut(a.max(b)) {
            *slot = a.min(b);
        }
    }
    let mut parts: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for cell in 0..cells.len() {
        parts.entry(root(&mut parent, cell)).or_default().push(cell);
    }
    let mut names = BTreeSet::new();
    parts
        .into_values()
        .map(|members| {
            let plain = name(job, cells, &members);
            let mut unique = plain.clone();
            let mut count = 1;
            while !names.insert(unique.clone()) {
                count += 1;
                unique = format!("{plain}#{count}");
            }
            Group {
                name: unique,
                compared: members.len() > 1,
                members,
            }
        })
        .collect()
}

/// The leader of a cell's part, with the way there halved (Tarjan and van Leeuwen 1984).
fn root(parent: &mut [usize], mut cell: usize) -> usize {
    while let Some(next) = parent.get(cell).copied().filter(|next| *next != cell) {
        let over = parent.get(next).copied().unwrap_or(next);
        if let Some(slot) = parent.get_mut(cell) {
            *slot = over;
        }
        cell = over;
    }
    cell
}

/// The job and the coordinates that all members share.
fn name(job: &str, cells: &[PlannedCell], members: &[usize]) -> String {
    let mut members = members.iter().filter_map(|member| cells.get(*member));
    let mut shared = members
        .next()
        .map(|cell| cell.coordinates.clone())
        .unwrap_or_default();
    for cell in members {
        shared.retain(|axis, value| cell.coordinates.get(axis) == Some(value));
    }
    let shared: Vec<String> = shared
        .iter()
        .map(|(axis, value)| format!("{axis}={value}"))
        .collect();
    format!(
        "{job}/{}",
        if shared.is_empty() {
            "all".to_owned()
        } else {
            shared.join(",")
        }
    )
}

/// For each group the members that get an identical twin: none where nothing is compared or
/// nothing runs.
///
/// Each engine and variant of the job needs twins for its noise floor, and a group can afford one.
/// The group's name chooses the engine, so that adding values to a matrix leaves other groups as
/// they are; engines left without are then given groups of those that have most, and where there
/// are fewer groups than engines, a group takes more than one. Of the engine's cells the cheapest
/// is taken. The order of groups and cells, which is that of the manifest's lists, decides nothing.
pub(crate) fn twins(groups: &[Group], cells: &[PlannedCell]) -> Vec<Vec<usize>> {
    let candidates: Vec<BTreeMap<String, usize>> = groups
        .iter()
        .map(|group| cheapest_by_engine(group, cells))
        .collect();
    let mut chosen: Vec<Vec<String>> = groups
        .iter()
        .zip(&candidates)
        .map(|(group, engines)| drawn(&group.name, engines).into_iter().collect())
        .collect();
    let all: BTreeSet<&String> = candidates.iter().flat_map(BTreeMap::keys).collect();
    let mut by_name: Vec<(&str, usize)> = groups
        .iter()
        .enumerate()
        .map(|(at, group)| (group.name.as_str(), at))
        .collect();
    by_name.sort_unstable();
    for engine in all {
        let count = |name: &String| chosen.iter().flatten().filter(|it| *it == name).count();
        if count(engine) > 0 {
            continue;
        }
        let mut homes = by_name.iter().filter(|(_, at)| {
            let engines = candidates.get(*at);
            engines.is_some_and(|engines| engines.contains_key(engine))
        });
        // The first by name, where several have most.
        let richest = homes
            .clone()
            .filter_map(|(_, at)| Some((count(chosen.get(*at)?.first()?), *at)))
            .filter(|(count, _)| *count > 1)
            .min_by_key(|(count, _)| std::cmp::Reverse(*count));
        match richest {
            Some((_, at)) => chosen[at] = vec![engine.clone()],
            None => {
                if let Some((_, at)) = homes.next().copied() {
                    chosen[at].push(engine.clone());
                }
            }
        }
    }
    candidates
        .iter()
        .zip(chosen)
        .map(|(engines, chosen)| {
            let members = chosen.iter().filter_map(|engine| engines.get(engine));
            members.copied().collect()
        })
        .collect()
}

/// The engine that a group's name draws.
fn drawn(group: &str, engines: &BTreeMap<String, usize>) -> Option<String> {
    let lot = Digest::of_bytes(group.as_bytes())
        .as_bytes()
        .iter()
        .fold(0_u64, |lot, byte| lot.rotate_left(8) ^ u64::from(*byte));
    let place = lot.checked_rem(engines.len() as u64)?;
    engines.keys().nth(usize::try_from(place).ok()?).cloned()
}

/// For each engine and variant of the group its runnable cell with the shortest step; of equals
/// that with the least identity.
fn cheapest_by_engine(group: &Group, cells: &[PlannedCell]) -> BTreeMap<String, usize> {
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    if !group.compared {
        return found;
    }
    let rank = |at: usize| cells.get(at).map(|cell| (cell.predicted_step_ns, &cell.id));
    for member in &group.members {
        let Some(cell) = cells.get(*member).filter(|cell| cell.obstacle.is_none()) else {
            continue;
        };
        let best = found.entry(cell.cell.engine.to_string()).or_insert(*member);
        if rank(*member) < rank(*best) {
            *best = *member;
        }
    }
    found
}
