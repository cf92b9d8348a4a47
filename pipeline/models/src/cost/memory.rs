//! Memory at the worst moment of a step.

use std::collections::BTreeMap;

use schema::{Mode, graph::Op, graph::Role};

use super::{Sizes, Sum};

/// Estimate of the memory of values and parameters; see the rules in [`crate::cost`].
pub(super) fn peak(sizes: &Sizes<'_>, mode: Mode) -> Sum {
    let mut sum = Sum::default();
    sum.add(sizes.parameters(|_| true).bytes);
    match mode {
        Mode::Inference => sum.add_times(peak_of_live_values(sizes), 1),
        Mode::Training => {
            let weights = sizes.parameters(|role| role == Role::Weight).bytes;
            sum.add_product(&[2, weights]);
            let mut activations: Vec<u64> = owned_values(sizes).map(|value| value.bytes).collect();
            activations.sort_unstable();
            for bytes in activations.iter().chain(activations.iter().rev().take(2)) {
                sum.add(*bytes);
            }
            for input in &sizes.graph.inputs {
                sum.add(sizes.bytes(&input.name));
            }
        }
    }
    sum
}

/// A value that takes memory of its own.
struct Owned<'a> {
    /// Index of the node that makes it.
    born: usize,
    name: &'a str,
    bytes: u64,
}

fn owned_values<'a>(sizes: &'a Sizes<'_>) -> impl Iterator<Item = Owned<'a>> {
    let nodes = sizes.graph.nodes.iter().enumerate();
    nodes
        .filter(|(_, node)| !is_view(&node.op))
        .flat_map(move |(born, node)| {
            node.outputs.iter().map(move |name| Owned {
                born,
                name,
                bytes: sizes.bytes(name),
            })
        })
}

const fn is_view(op: &Op) -> bool {
    matches!(
        op,
        Op::Flatten { .. } | Op::Reshape { .. } | Op::Squeeze { .. }
    )
}

/// Largest sum of the values that some node still needs, inputs included.
fn peak_of_live_values(sizes: &Sizes<'_>) -> Sum {
    let last_use = last_uses(sizes);
    let inputs = sizes
        .graph
        .inputs
        .iter()
        .map(|input| u128::from(sizes.bytes(&input.name)));
    // Inputs stay with the caller.
    let mut live = inputs.fold(0, u128::saturating_add);
    let mut peak = live;
    let mut dying: BTreeMap<usize, u128> = BTreeMap::new();
    for Owned { born, name, bytes } in owned_values(sizes) {
        while let Some(entry) = dying.first_entry().filter(|entry| *entry.key() < born) {
            live = live.saturating_sub(entry.remove());
        }
        live = live.saturating_add(u128::from(bytes));
        peak = peak.max(live);
        let death = last_use.get(name).copied().unwrap_or(born);
        let entry = dying.entry(death).or_default();
        *entry = entry.saturating_add(u128::from(bytes));
    }
    Sum(peak)
}

/// Index of the last node that needs each value. A view needs the value that it looks at as long
/// as it is needed itself.
fn last_uses<'a>(sizes: &'a Sizes<'_>) -> BTreeMap<&'a str, usize> {
    let mut looks_at: BTreeMap<&str, &str> = BTreeMap::new();
    let mut last_use = BTreeMap::new();
    let root = |looks_at: &BTreeMap<&'a str, &'a str>, name: &'a str| {
        looks_at.get(name).copied().unwrap_or(name)
    };
    for (index, node) in sizes.graph.nodes.iter().enumerate() {
        for name in &node.inputs {
            last_use.insert(root(&looks_at, name), index);
        }
        if let (true, [input], [output]) = (
            is_view(&node.op),
            node.inputs.as_slice(),
            node.outputs.as_slice(),
        ) {
            looks_at.insert(output, root(&looks_at, input));
        }
    }
    for name in &sizes.graph.outputs {
        last_use.insert(root(&looks_at, name), sizes.graph.nodes.len());
    }
    last_use
}
