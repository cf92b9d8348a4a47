//! Groups: cells connected by comparisons are measured in one heat.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use schema::{CellId, Digest, plan::PlannedCell};

use crate::compare::Linked;

/// A group of a job's cells.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    /// The job's and the coordinates, made unique.
    pub(crate) name: String,
    /// What all members share.
    coordinates: String,
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
            let coordinates = shared(cells, &members);
            let plain = format!("{job}/{coordinates}");
            let mut unique = plain.clone();
            let mut count = 1;
            while !names.insert(unique.clone()) {
                count += 1;
                unique = format!("{plain}#{count}");
            }
            Group {
                name: unique,
                coordinates,
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

/// The coordinates that all members share.
fn shared(cells: &[PlannedCell], members: &[usize]) -> String {
    let mut members = members.iter().filter_map(|member| cells.get(*member));
    let mut shared = members
        .next()
        .map(|cell| cell.coordinates.clone())
        .unwrap_or_default();
    for cell in members {
        shared.retain(|axis, value| cell.coordinates.get(axis) == Some(value));
    }
    if shared.is_empty() {
        return "all".to_owned();
    }
    let shared: Vec<String> = shared
        .iter()
        .map(|(axis, value)| format!("{axis}={value}"))
        .collect();
    shared.join(",")
}

/// For each group the members that get an identical twin: none where nothing is compared or
/// nothing runs.
///
/// Each engine and variant of the job needs twins for its noise floor, and a group can afford one.
/// What the store has, or the plan for another job, keeps its twins (`kept`, group by group, by
/// identity), so that a group which did not change is not measured again whatever else is in the
/// job. For the others the
/// coordinates that their cells share choose the engine; engines left without are then given groups of
/// those that have most, and where there are fewer groups than engines, a group takes more than
/// one. At last engines that have two more than another give it one. Of the engine's cells the cheapest is taken. The order of groups and cells, which is that of
/// the manifest's lists, decides nothing.
pub(crate) fn twins(
    groups: &[Group],
    cells: &[PlannedCell],
    kept: &[Option<Vec<CellId>>],
) -> Vec<Vec<usize>> {
    let mut homes: Vec<Home<'_>> = groups
        .iter()
        .zip(kept)
        .map(|(group, kept)| Home::new(group, cells, kept.as_deref()))
        .collect();
    let engines = homes.iter().flat_map(|home| home.cheapest.keys().cloned());
    for engine in engines.collect::<BTreeSet<String>>() {
        let counts = counted(&homes);
        if counts.contains_key(engine.as_str()) {
            continue;
        }
        // The twin of the home that others have most of, and how many.
        let spare = |home: &Home<'_>| {
            let twins = home.twins.iter().enumerate();
            let counted =
                twins.filter_map(|(at, (twin, _))| Some((*counts.get(twin.as_str())?, at)));
            counted.filter(|(count, _)| *count > 1).max()
        };
        // Best where nothing is measured again for it, then where another engine has twins to spare;
        // the first by name.
        let best = homes
            .iter()
            .enumerate()
            .filter(|(_, home)| home.cheapest.contains_key(&engine))
            .map(|(at, home)| (home.is_kept, Reverse(spare(home)), home.name, at))
            .min();
        let Some((_, Reverse(spare), _, at)) = best else {
            continue;
        };
        if let Some(home) = homes.get_mut(at) {
            if let Some((_, twin)) = spare {
                home.twins.remove(twin);
            }
            let cheapest = home.cheapest.get(&engine).copied();
            home.twins.extend(cheapest.map(|cell| (engine, cell)));
        }
    }
    level(&mut homes);
    let members = |home: Home<'_>| home.twins.into_iter().map(|(_, cell)| cell).collect();
    homes.into_iter().map(members).collect()
}

/// How many twins each engine has.
fn counted<'a>(homes: &'a [Home<'_>]) -> BTreeMap<&'a str, usize> {
    let mut counts = BTreeMap::new();
    for (twin, _) in homes.iter().flat_map(|home| &home.twins) {
        *counts.entry(twin.as_str()).or_default() += 1;
    }
    counts
}

/// Gives twins of engines that have most of them to those that have fewest, for a floor rests on its pairs. Each
/// move makes the squares of the counts come to less, so that there is an end.
fn level(homes: &mut [Home<'_>]) {
    loop {
        let counts = counted(homes);
        let count = |engine: &str| counts.get(engine).copied().unwrap_or_default();
        let mut moves = Vec::new();
        for (at, home) in homes.iter().enumerate().filter(|(_, home)| !home.is_kept) {
            for (place, (from, _)) in home.twins.iter().enumerate() {
                let has_none = |to: &&String| home.twins.iter().all(|(twin, _)| twin != *to);
                for to in home.cheapest.keys().filter(has_none) {
                    let gain = count(from).saturating_sub(count(to));
                    moves.push((Reverse(gain), home.name, to, at, place));
                }
            }
        }
        let Some((Reverse(2..), _, to, at, place)) = moves.into_iter().min() else {
            return;
        };
        let to = to.clone();
        let Some(home) = homes.get_mut(at) else {
            return;
        };
        if let (Some(twin), Some(cell)) = (home.twins.get_mut(place), home.cheapest.get(&to)) {
            *twin = (to, *cell);
        }
    }
}

/// A group that twins are looked for in.
struct Home<'a> {
    name: &'a str,
    /// For each engine and variant the cell that it would have a twin of.
    cheapest: BTreeMap<String, usize>,
    /// Whether the store has it with these twins.
    is_kept: bool,
    /// The engines and variants that have a twin here, and their cells.
    twins: Vec<(String, usize)>,
}

impl<'a> Home<'a> {
    fn new(group: &'a Group, cells: &[PlannedCell], kept: Option<&[CellId]>) -> Self {
        let cheapest = cheapest_by_engine(group, cells);
        let kept = kept.filter(|_| !cheapest.is_empty()).and_then(|ids| {
            let twin = |id: &CellId| {
                let has_id = |at: &&usize| cells.get(**at).is_some_and(|cell| cell.id == *id);
                let at = *group.members.iter().find(has_id)?;
                Some((cells.get(at)?.cell.engine.to_string(), at))
            };
            ids.iter().map(twin).collect::<Option<Vec<_>>>()
        });
        let is_kept = kept.is_some();
        let twins = kept.unwrap_or_else(|| drawn(&group.coordinates, &cheapest));
        Self {
            name: &group.name,
            cheapest,
            is_kept,
            twins,
        }
    }
}

/// The engine that a group's coordinates draw, and its cell.
fn drawn(coordinates: &str, cheapest: &BTreeMap<String, usize>) -> Vec<(String, usize)> {
    let lot = Digest::of_bytes(coordinates.as_bytes())
        .as_bytes()
        .iter()
        .fold(0_u64, |lot, byte| lot.rotate_left(8) ^ u64::from(*byte));
    let place = lot.checked_rem(cheapest.len() as u64);
    let place = place.and_then(|place| usize::try_from(place).ok());
    let engine = place.and_then(|place| cheapest.iter().nth(place));
    engine
        .map(|(engine, cell)| (engine.clone(), *cell))
        .into_iter()
        .collect()
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
