//! Recurrent layers as ONNX's LSTM and GRU. Those take time before batch (their `layout` 1 is not
//! implemented by ONNX Runtime), all directions in one tensor, and the gates in another order.

use schema::graph::{Node, Op};

use super::{Writer, lower, proto::NodeProto};

/// Parameters of a direction: both weights, both biases.
const PARAMETERS: usize = 4;

/// PyTorch's gates i, f, g, o (and r, z, n) in ONNX's order i, o, f, c (and z, r, h).
const LSTM: &[usize] = &[0, 3, 1, 2];
const GRU: &[usize] = &[1, 0, 2];

/// Appends the layer `node` with its parameters.
pub(super) fn write<'a>(
    writer: &mut Writer<'a>,
    node: &'a Node,
    output: &str,
) -> Result<(), String> {
    let [x, parameters @ ..] = node.inputs.as_slice() else {
        return Err("reads nothing".to_owned());
    };
    let order = match node.op {
        Op::Lstm { .. } => LSTM,
        _ => GRU,
    };
    let (&[batch, positions, features], &[_, _, width]) = (writer.shape(x), writer.shape(output))
    else {
        return Err("input and output must be [batch, position, feature]".to_owned());
    };
    let directions = (parameters.len() / PARAMETERS) as u64;
    let size = width.checked_div(directions).ok_or("reads no parameters")?;
    let rows = order.len() as u64 * size;

    let [mut weights, mut states, mut biases] = [const { Vec::new() }; 3];
    for direction in parameters.chunks_exact(PARAMETERS) {
        let [weight, state, bias, state_bias] = direction else {
            return Err("reads no parameters".to_owned());
        };
        weights.extend(numbers(writer, weight, order)?);
        states.extend(numbers(writer, state, order)?);
        biases.extend(numbers(writer, bias, order)?);
        biases.extend(numbers(writer, state_bias, order)?);
    }
    let mut held = |part: &str, shape: &[u64], values: &[f32]| {
        let name = writer.fresh(node, part);
        writer.weights.floats(name.clone(), shape, values);
        name
    };
    let weights = held("weights", &[directions, rows, features], &weights);
    let states = held("state_weights", &[directions, rows, size], &states);
    let biases = held("biases", &[directions, 2 * rows], &biases);

    let x = writer.read(x);
    let x = lower::transpose(writer, node, "time_first", x, &[1, 0, 2]);
    let name = writer.fresh(node, "layer");
    let direction = if directions == 2 {
        "bidirectional"
    } else {
        "forward"
    };
    let inputs = vec![x, weights, states, biases];
    let mut layer = NodeProto::new(node.op.name(), name.clone(), inputs, name.clone())
        .int("hidden_size", size as i64)
        .string("direction", direction);
    if let Op::Gru { .. } = node.op {
        layer = layer.int("linear_before_reset", 1);
    }
    writer.push(layer);
    // From [time, direction, batch, unit].
    let y = lower::transpose(writer, node, "batch_first", name, &[2, 0, 1, 3]);
    let shape = lower::integers(writer, node, "shape", &[batch, positions, width]);
    let inputs = vec![y, shape];
    writer.push(NodeProto::new(
        "Reshape",
        node.name.clone(),
        inputs,
        output.to_owned(),
    ));
    Ok(())
}

/// The numbers of a parameter, its gates in this order.
fn numbers(writer: &mut Writer<'_>, name: &str, order: &[usize]) -> Result<Vec<f32>, String> {
    let parameter = writer.weights.parameter(name).ok_or_else(|| {
        format!("reads `{name}` as a weight, and ONNX's order of gates needs a parameter there")
    })?;
    let values = writer.weights.numbers_of(parameter);
    let gate = (values.len() / order.len()).max(1);
    let gates = order
        .iter()
        .filter_map(|&index| values.chunks(gate).nth(index));
    Ok(gates.flatten().copied().collect())
}
