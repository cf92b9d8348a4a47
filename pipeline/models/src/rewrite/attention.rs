//! Attention as products: `softmax(q·kᵀ/√size + mask)·v` for each head. The query is scaled, since
//! it has fewer elements than the scores.

use schema::graph::{Fill, Node, Op};

use super::Sheet;

/// Nodes that stand for one attention.
const NODES: u64 = 13;

/// Puts on the sheet what `node` computes; `shape` tells shapes of values.
pub(super) fn spell_out<'a>(
    sheet: &mut Sheet,
    node: &Node,
    heads: u64,
    causal: bool,
    shape: impl Fn(&str) -> &'a [u64],
) -> Result<(), String> {
    let [query, key, value] = node.inputs.as_slice() else {
        return Err("reads three values".to_owned());
    };
    let (&[batch, positions, width], &[_, keys, _]) = (shape(query), shape(key)) else {
        return Err("an operand is not [batch, position, heads·size]".to_owned());
    };
    let size = width
        .checked_div(heads)
        .filter(|&size| size > 0)
        .ok_or_else(|| format!("{heads} heads do not divide a width of {width}"))?;
    sheet.reserve(NODES)?;
    let own = |part: &str| format!("{}.{part}", node.name);

    let scale = Fill::Constant {
        value: (1.0 / (size as f64).sqrt()) as f32,
    };
    let scale = sheet.constant(&format!("attention.scale.{size}"), &[1], scale);
    let scaled = sheet.node(&own("query_scaled"), Op::Mul, &[query, &scale]);
    let mut split = |from: &str, part: &str, positions: u64, perm: [u64; 4]| {
        let shape = vec![batch, positions, heads, size];
        let split = sheet.node(
            &own(&format!("{part}_split")),
            Op::Reshape { shape },
            &[from],
        );
        let perm = perm.to_vec();
        sheet.node(
            &own(&format!("{part}_heads")),
            Op::Transpose { perm },
            &[&split],
        )
    };
    let q = split(&scaled, "query", positions, [0, 2, 1, 3]);
    let k = split(key, "key", keys, [0, 2, 3, 1]);
    let v = split(value, "value", keys, [0, 2, 1, 3]);

    let mut scores = sheet.node(&own("scores"), Op::MatMul, &[&q, &k]);
    if causal {
        let mask = sheet.constant(
            &format!("attention.mask.{positions}"),
            &[positions, positions],
            Fill::CausalMask { width: positions },
        );
        scores = sheet.node(&own("masked"), Op::Add, &[&scores, &mask]);
    }
    let softmax = Op::Softmax { axis: -1 };
    let probabilities = sheet.node(&own("probabilities"), softmax, &[&scores]);
    let mixed = sheet.node(&own("mixed"), Op::MatMul, &[&probabilities, &v]);
    let turn = Op::Transpose {
        perm: vec![0, 2, 1, 3],
    };
    let mixed = sheet.node(&own("mixed_positions"), turn, &[&mixed]);
    let shape = vec![batch, positions, width];
    sheet.last(node, Op::Reshape { shape }, &[&mixed]);
    Ok(())
}
