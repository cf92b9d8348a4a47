//! Where the time goes: each measured cell of a heat is launched once more, warmed up, and asked to run
//! some steps under its engine's own profiler, a few times over. A profiler slows what it looks at, so
//! that no time of this launch is a sample.
//!
//! Nobody measures again what the machine disturbed here. So of several profiles the one counts whose
//! steps took least: what disturbs only ever adds.

use std::collections::{BTreeMap, BTreeSet};

use schema::{
    Graph, Outcome, OutcomeKind,
    plan::PlannedCell,
    protocol::{Profile, ProfileEntry},
    record::Profiled,
};
use statistics::samples::has_speed;
use worker::{ProfileEntries, enclosing};

use crate::{
    block,
    context::{Context, Setting},
    error::Stop,
    lane::Lane,
};

/// Profiles of a launch.
const TRIES: u32 = 3;

/// Bytes of all profiles of a heat at most, as they are stored: they share a document with whatever else
/// is said of the heat in the end.
const MOST_BYTES: usize = 32 << 20;

/// Profiles the cells that ended so, one after another; twins are the same cells, and left out.
pub(crate) fn profile(
    context: &mut Context<'_>,
    setting: &Setting<'_>,
    outcomes: &[Outcome],
) -> Result<Vec<Option<Profiled>>, Stop> {
    let cells = (0_u32..).zip(&setting.header.cells).zip(outcomes);
    let mut profiles = Vec::with_capacity(outcomes.len());
    for ((slot, planned), outcome) in cells {
        let is_asked = planned.twin_of.is_none() && has_speed(outcome.kind);
        profiles.push(match is_asked {
            true => Some(launch(context, setting, slot, planned)?),
            false => None,
        });
    }
    Ok(profiles)
}

fn launch(
    context: &mut Context<'_>,
    setting: &Setting<'_>,
    slot: u32,
    planned: &PlannedCell,
) -> Result<Profiled, Stop> {
    context.check_interrupt()?;
    let limit = block::memory_limit(setting, &telemetry::load());
    let mut lane = Lane::new(slot, planned);
    lane.prepare(context, setting, limit)?;
    let mut told = lane.profile(context)?;
    for _ in 1..TRIES {
        if !matches!(told, Some(Ok(_))) {
            break;
        }
        context.check_interrupt()?;
        told = match (told, lane.profile(context)?) {
            (Some(Ok(best)), Some(Ok(again))) => Some(Ok(faster(best, again))),
            (_, failed) => failed,
        };
    }
    lane.leave(context, setting)?;
    let launch = lane.into_launch(None);
    let told = match told {
        Some(Ok(profile)) => in_own_nodes(profile, setting.graphs.own(&planned.cell)),
        Some(Err(outcome)) => Err(outcome),
        None => Err(launch.outcome),
    };
    let most = MOST_BYTES / setting.header.cells.len().max(1);
    let told = told.and_then(|profile| fitting(profile, most));
    Ok(match told {
        Ok(profile) => Profiled {
            outcome: Outcome::measured(),
            profile: Some(profile),
            log: launch.log,
        },
        Err(outcome) => Profiled {
            outcome,
            profile: None,
            log: launch.log,
        },
    })
}

/// The time of a step, in nanoseconds.
fn step_ns(profile: &Profile) -> f64 {
    profile.wall_ns as f64 / profile.steps.max(1) as f64
}

/// Of two profiles the one whose steps took less, the first where both took as long.
fn faster(one: Profile, other: Profile) -> Profile {
    match step_ns(&other) < step_ns(&one) {
        true => other,
        false => one,
    }
}

/// The profile, if it takes no more than `most` bytes.
fn fitting(profile: Profile, most: usize) -> Result<Profile, Outcome> {
    let bytes = serde_json::to_vec(&profile).map_or(usize::MAX, |text| text.len());
    if bytes <= most {
        return Ok(profile);
    }
    let reason = format!(
        "the profile has {bytes} bytes, where {most} can be kept of each cell of this group"
    );
    Err(Outcome::new(OutcomeKind::Unsupported, reason))
}

/// The profile of what a cell ran, in nodes of the model's own graph. What is spelt out, or put in to
/// round numbers, is named after the node, or the value, that it stands for or belongs to.
fn in_own_nodes(profile: Profile, graph: Option<&Graph>) -> Result<Profile, Outcome> {
    let Some(graph) = graph else {
        let reason = "the heat has no graph of the model whose nodes could be told";
        return Err(Outcome::new(OutcomeKind::Unsupported, reason));
    };
    let names = Names::of(graph);
    let mut entries = ProfileEntries::default();
    for entry in profile.entries {
        let nodes = entry.nodes.iter().filter_map(|node| names.owner(node));
        let nodes: BTreeSet<String> = nodes.map(str::to_owned).collect();
        entries.add(ProfileEntry { nodes, ..entry });
    }
    entries.finish(profile.steps, profile.wall_ns, profile.kernels)
}

/// The nodes of a graph by their names, and by those of what they make.
struct Names<'a>(BTreeMap<&'a str, &'a str>);

impl<'a> Names<'a> {
    fn of(graph: &'a Graph) -> Self {
        let values = graph.nodes.iter().flat_map(|node| {
            let outputs = node.outputs.iter();
            outputs.map(|output| (output.as_str(), node.name.as_str()))
        });
        let nodes = graph.nodes.iter();
        let nodes = nodes.map(|node| (node.name.as_str(), node.name.as_str()));
        Self(values.chain(nodes).collect())
    }

    /// The node that this is, or is named after: `attention.scores` is a part of `attention`.
    fn owner(&self, name: &str) -> Option<&'a str> {
        enclosing(name).find_map(|name| self.0.get(name).copied())
    }
}

#[cfg(test)]
mod tests {
    use models::rewrite::{ATTENTION, PLAIN, RECURRENT, Rewriting, UNROLLED};

    use super::*;

    #[test]
    fn every_part_of_what_is_spelt_out_is_the_node_that_it_stands_for() {
        let factors = [(ATTENTION, PLAIN), (RECURRENT, UNROLLED)];
        let factors = factors.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let rewriting = Rewriting::asked_by(&factors.into());
        for network in ["bert_tiny", "lstm_lm"] {
            let dims = [("seq".to_owned(), 4)].into();
            let own = models::zoo::build(network, &dims).unwrap();
            let spelt_out = rewriting.apply(own.clone()).unwrap();
            let entries = spelt_out.nodes.iter().map(|node| ProfileEntry {
                name: node.op.name().to_owned(),
                nodes: BTreeSet::from([node.name.clone()]),
                time_ns: 1,
                calls: 1,
                conversion: false,
            });
            let profile = Profile {
                steps: 1,
                wall_ns: 1_000_000,
                kernels: 1,
                entries: entries.collect(),
            };
            let told = in_own_nodes(profile, Some(&own)).unwrap();
            assert_eq!(told.entries_ns(), spelt_out.nodes.len() as u64);
            let nodes: BTreeSet<_> = told.entries.into_iter().flat_map(|it| it.nodes).collect();
            let expected = own.nodes.iter().map(|node| node.name.clone()).collect();
            assert_eq!(nodes, expected, "{network}");
        }
    }

    #[test]
    fn what_rounds_a_value_belongs_to_what_makes_it() {
        let graph = models::sample::perceptron(1).unwrap();
        let names = Names::of(&graph);
        assert_eq!(names.owner("logits.quantized"), Some("output"));
        assert_eq!(names.owner("hidden.weight.quantized"), Some("hidden"));
        assert_eq!(names.owner("input.quantized"), None);
    }

    #[test]
    fn the_profile_counts_whose_steps_took_least() {
        let of = |steps, wall_ns| Profile {
            steps,
            wall_ns,
            kernels: steps,
            entries: Vec::new(),
        };
        // 10 ns a step against 12, though they took longer together.
        assert_eq!(faster(of(3, 36), of(10, 100)), of(10, 100));
        assert_eq!(faster(of(10, 100), of(3, 36)), of(10, 100));
        assert_eq!(faster(of(1, 10), of(2, 20)), of(1, 10));
    }

    #[test]
    fn a_profile_that_cannot_be_kept_is_left_out_with_its_size() {
        let entry = ProfileEntry {
            name: "kernel".repeat(10),
            nodes: BTreeSet::from(["node".to_owned()]),
            time_ns: 1,
            calls: 1,
            conversion: false,
        };
        let profile = Profile {
            steps: 1,
            wall_ns: 1000,
            kernels: 100,
            entries: vec![entry; 100],
        };
        assert_eq!(fitting(profile.clone(), MOST_BYTES), Ok(profile.clone()));
        let outcome = fitting(profile, 10_000).unwrap_err();
        assert_eq!(outcome.kind, OutcomeKind::Unsupported);
        assert!(
            outcome.reason.contains("10000 can be kept"),
            "{}",
            outcome.reason
        );
    }
}
