//! Where the time of a step goes: TensorFlow traces its runs where their options ask for it, and gives
//! the graph that Grappler made of ours. Times are those of its kernels on the processor.

use std::{
    collections::{BTreeMap, BTreeSet},
    iter::successors,
    time::Duration,
};

use prost::Message as _;
use schema::{
    Graph, Outcome, OutcomeKind,
    protocol::{Profile, ProfileEntry},
};
use worker::{Operator, ProfileEntries, attribute, nanoseconds};

use crate::{
    builder::place,
    trace::{GraphDef, NodeDef, NodeExecStats, RunMetadata},
};

/// Operators that bring numbers into another layout, precision or memory.
const CONVERSIONS: [&str; 6] = [
    "Cast",
    "_HostCast",
    "_HostRecv",
    "_HostSend",
    "_MklToTf",
    "_MklInputConversion",
];

/// Operators that only begin and end a run.
const EDGES: [&str; 8] = [
    "Const",
    "NoOp",
    "Placeholder",
    "VarHandleOp",
    "_Arg",
    "_Recv",
    "_Retval",
    "_Send",
];

/// Operators that bring in what is fed.
const ARGUMENTS: [&str; 3] = ["Placeholder", "_Arg", "_Recv"];

/// What a run is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The graph that is run.
    Graph,
    /// The times of its operators.
    Times,
}

/// What a run gave.
pub(crate) struct Told {
    /// What it was asked for, as it goes over the C interface: a `RunMetadata`.
    pub(crate) metadata: Vec<u8>,
    /// How long it took. TensorFlow writes the trace before it returns; that our copy of it is made
    /// afterwards is no part of it.
    pub(crate) took: Duration,
}

/// Profiles so many steps, each of which `run` takes. `asked` is our own graph.
pub(crate) fn profile(
    graph: &Graph,
    asked: &[u8],
    fed: &[String],
    steps: u64,
    mut run: impl FnMut(Asked) -> Result<Told, Outcome>,
) -> Result<Profile, Outcome> {
    let asked = GraphDef::decode(asked).map_err(|error| broken(&error))?;
    let told = run(Asked::Graph)?.metadata;
    let told = RunMetadata::decode(told.as_slice()).map_err(|error| broken(&error))?;
    let running: Vec<NodeDef> = told
        .partition_graphs
        .into_iter()
        .flat_map(|part| part.node)
        .collect();
    let kernels = Kernels::of(graph, &asked.node, running, fed);
    let (mut wall, mut launched) = (Duration::ZERO, 0);
    let mut entries = ProfileEntries::default();
    // The first is the tracer's own first.
    for step in 0..=steps {
        let Told { metadata, took } = run(Asked::Times)?;
        if step == 0 {
            continue;
        }
        wall += took;
        let told = RunMetadata::decode(metadata.as_slice()).map_err(|error| broken(&error))?;
        let devices = told
            .step_stats
            .into_iter()
            .flat_map(|stats| stats.dev_stats);
        for stats in devices.flat_map(|device| device.node_stats) {
            if let Some(entry) = kernels.entry(&stats) {
                launched += 1;
                entries.add(entry);
            }
        }
    }
    entries.finish(steps, nanoseconds(wall), launched)
}

fn broken(error: &prost::DecodeError) -> Outcome {
    Outcome::new(
        OutcomeKind::Crashed,
        format!("profile: TensorFlow's trace cannot be read: {error}"),
    )
}

/// What is run, by name.
struct Kernels(BTreeMap<String, Kernel>);

struct Kernel {
    op: String,
    nodes: BTreeSet<String>,
    conversion: bool,
}

impl Kernels {
    fn of(graph: &Graph, asked: &[NodeDef], running: Vec<NodeDef>, fed: &[String]) -> Self {
        let owners = Owners::of(graph);
        let asked: Vec<Operator> = asked.iter().map(operator).collect();
        let running = ordered(running.iter().map(operator).collect());
        // What is fed has another name where it is run.
        let arguments = running
            .iter()
            .filter(|it| ARGUMENTS.contains(&it.kind.as_str()));
        let arguments = arguments.map(|it| it.name.as_str());
        let fed: Vec<&str> = fed.iter().map(String::as_str).chain(arguments).collect();
        let parts = attribute(&asked, &running, &fed, &CONVERSIONS, names);
        let kernels = running.into_iter().zip(parts).map(|(operator, part)| {
            let asked = part.covers.iter().filter_map(|index| asked.get(*index));
            let nodes = asked.filter_map(|asked| owners.node(&asked.name));
            let kernel = Kernel {
                nodes: nodes.map(str::to_owned).collect(),
                conversion: part.conversion,
                op: operator.kind,
            };
            (operator.name, kernel)
        });
        Self(kernels.collect())
    }

    /// What an operator took in one run; `None` of what only begins or ends it.
    fn entry(&self, stats: &NodeExecStats) -> Option<ProfileEntry> {
        // Some versions add what the operator is.
        let name = stats.node_name.split(':').next().unwrap_or_default();
        let kernel = self.0.get(name);
        let op = match kernel {
            Some(kernel) => kernel.op.as_str(),
            None => stats.op().unwrap_or_default(),
        };
        if name.is_empty() || EDGES.contains(&op) || name.starts_with("_SOURCE") {
            return None;
        }
        Some(ProfileEntry {
            name: format!("{op} {name}"),
            nodes: kernel
                .map(|kernel| kernel.nodes.clone())
                .unwrap_or_default(),
            time_ns: stats.time_ns(),
            calls: 1,
            conversion: kernel.is_some_and(|kernel| kernel.conversion),
        })
    }
}

/// A value is known by the operator that makes it: which of its outputs it is, does not matter here.
fn operator(node: &NodeDef) -> Operator {
    let inputs = node.input.iter().filter(|input| !input.starts_with('^'));
    let inputs = inputs.map(|input| input.split(':').next().unwrap_or_default().to_owned());
    Operator {
        name: node.name.clone(),
        kind: node.op.clone(),
        inputs: inputs.collect(),
        outputs: vec![node.name.clone()],
    }
}

/// In an order in which what is read comes first. What waits for itself stays as it is.
fn ordered(operators: Vec<Operator>) -> Vec<Operator> {
    let names: BTreeSet<String> = operators.iter().map(|it| it.name.clone()).collect();
    let mut done: BTreeSet<String> = BTreeSet::new();
    let mut left = operators;
    let mut ordered = Vec::with_capacity(left.len());
    loop {
        let is_ready = |operator: &Operator| {
            let mut inputs = operator.inputs.iter();
            inputs.all(|input| done.contains(input) || !names.contains(input))
        };
        let (ready, waiting): (Vec<_>, Vec<_>) = left.into_iter().partition(is_ready);
        if ready.is_empty() {
            ordered.extend(waiting);
            return ordered;
        }
        done.extend(ready.iter().map(|it| it.name.clone()));
        ordered.extend(ready);
        left = waiting;
    }
}

/// The names that an operator may have had before Grappler, the likeliest first: it puts its own words
/// before or behind.
fn names(name: &str) -> Vec<String> {
    let behind = successors(Some(name), |name| Some(name.rsplit_once('-')?.0));
    let before = successors(Some(name), |name| Some(name.split_once('/')?.1));
    behind.chain(before.skip(1)).map(str::to_owned).collect()
}

/// The nodes of a graph by what the names of their operators begin with.
struct Owners<'a>(BTreeMap<String, &'a str>);

impl<'a> Owners<'a> {
    fn of(graph: &'a Graph) -> Self {
        let names = graph.nodes.iter().map(|node| node.name.as_str());
        Self(names.map(|name| (place(name), name)).collect())
    }

    fn node(&self, operator: &str) -> Option<&'a str> {
        let (place, _) = operator.split_once('/')?;
        self.0.get(place).copied()
    }
}
