//! Memory at the worst moment of a step.

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
            for input in 0..sizes.graph.inputs.len() {
                sum.add(sizes.bytes(input));
            }
        }
    }
    sum
}

/// A value that takes memory of its own.
struct Owned {
    /// Index of the node that makes it.
    born: usize,
    /// Its place among all values.
    place: usize,
    bytes: u64,
}

fn owned_values(sizes: &Sizes<'_>) -> impl Iterator<Item = Owned> {
    let nodes = sizes.wires.nodes(sizes.graph).enumerate();
    nodes
        .filter(|(_, (node, ..))| !is_view(&node.op))
        .map(|(born, (_, _, place))| Owned {
            born,
            place,
            bytes: sizes.bytes(place),
        })
}

const fn is_view(op: &Op) -> bool {
    // (What is expanded is a view on PyTorch, and made in full by all others, and where it leaves.)
    matches!(
        op,
        Op::Flatten { .. } | Op::Reshape { .. } | Op::Squeeze { .. }
    )
}

/// Largest sum of the values that some node still needs, inputs included.
fn peak_of_live_values(sizes: &Sizes<'_>) -> Sum {
    let last_use = last_uses(sizes);
    let inputs = (0..sizes.graph.inputs.len()).map(|input| u128::from(sizes.bytes(input)));
    // Inputs stay with the caller.
    let mut live = inputs.fold(0, u128::saturating_add);
    let mut peak = live;
    // For each node the bytes that are free once it is done.
    let mut dying = vec![0_u128; sizes.graph.nodes.len() + 1];
    let mut done = 0;
    for Owned { born, place, bytes } in owned_values(sizes) {
        for freed in dying.iter().take(born).skip(done) {
            live = live.saturating_sub(*freed);
        }
        done = born;
        live = live.saturating_add(u128::from(bytes));
        peak = peak.max(live);
        let death = last_use.get(place).copied().flatten().unwrap_or(born);
        if let Some(freed) = dying.get_mut(death) {
            *freed = freed.saturating_add(u128::from(bytes));
        }
    }
    Sum(peak)
}

/// For each value the index of the last node that needs it. A view needs the value that it looks
/// at as long as it is needed itself.
fn last_uses(sizes: &Sizes<'_>) -> Vec<Option<usize>> {
    let mut looks_at: Vec<usize> = (0..sizes.wires.len()).collect();
    let mut last_use = vec![None; sizes.wires.len()];
    let mut needed = |looks_at: &[usize], place: usize, index| {
        let root = looks_at.get(place).copied().unwrap_or(place);
        if let Some(slot) = last_use.get_mut(root) {
            *slot = Some(index);
        }
        root
    };
    for (index, (node, reads, made)) in sizes.wires.nodes(sizes.graph).enumerate() {
        for place in reads {
            let root = needed(&looks_at, *place, index);
            if is_view(&node.op)
                && let Some(slot) = looks_at.get_mut(made)
            {
                *slot = root;
            }
        }
    }
    for place in sizes.wires.outputs() {
        needed(&looks_at, *place, sizes.graph.nodes.len());
    }
    last_use
}
