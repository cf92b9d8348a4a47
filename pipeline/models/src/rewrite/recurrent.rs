//! Recurrent layers position by position. What the inputs add to the gates is one product for the
//! whole sequence, as in the fused kernels; what the state adds is a product a position.

use schema::graph::{Fill, Node, Op};

use super::Sheet;

/// Parameters of a direction.
const PARAMETERS: usize = 4;

/// Nodes that a position takes at most: those of a GRU.
const NODES: u64 = 20;

/// Nodes that `node`, an LSTM or a GRU, becomes at most.
pub(crate) fn unrolled_nodes(node: &Node, positions: u64) -> u64 {
    let directions = node.inputs.len() / PARAMETERS;
    positions
        .saturating_mul(NODES)
        .saturating_mul(directions as u64)
}

/// Puts on the sheet what `node`, an LSTM or a GRU, computes; `shape` tells shapes of values.
pub(super) fn unroll<'a>(
    sheet: &mut Sheet,
    node: &Node,
    shape: impl Fn(&str) -> &'a [u64],
) -> Result<(), String> {
    let [x, parameters @ ..] = node.inputs.as_slice() else {
        return Err("reads nothing".to_owned());
    };
    let &[batch, positions, _] = shape(x) else {
        return Err("its input is not [batch, position, feature]".to_owned());
    };
    sheet.reserve(unrolled_nodes(node, positions))?;

    let mut ways = Vec::with_capacity(parameters.len() / PARAMETERS);
    for (index, parameters) in parameters.chunks_exact(PARAMETERS).enumerate() {
        let [input_weight, state_weight, input_bias, state_bias] = parameters else {
            return Err("reads no parameters".to_owned());
        };
        let &[_, size] = shape(state_weight) else {
            return Err("its state's weight is no matrix".to_owned());
        };
        let name = format!("{}.{index}", node.name);
        let from_inputs = sheet.node(
            &format!("{name}.from_inputs"),
            Op::Linear,
            &[x, input_weight, input_bias],
        );
        let way = Way {
            name,
            from_inputs,
            state_weight,
            state_bias,
            batch,
            size,
        };
        ways.push(way.go(sheet, &node.op, positions, index == 1));
    }
    if let [rows] = ways.as_slice() {
        sheet.last(node, Op::Concat { axis: 1 }, &texts(rows));
        return Ok(());
    }
    let mut sequences = Vec::with_capacity(ways.len());
    for (index, rows) in ways.iter().enumerate() {
        let name = format!("{}.{index}.sequence", node.name);
        sequences.push(sheet.node(&name, Op::Concat { axis: 1 }, &texts(rows)));
    }
    sheet.last(node, Op::Concat { axis: 2 }, &texts(&sequences));
    Ok(())
}

fn texts(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

/// One direction of a layer.
struct Way<'a> {
    name: String,
    /// What the inputs add to the gates: `[batch, position, gates·size]`.
    from_inputs: String,
    state_weight: &'a str,
    state_bias: &'a str,
    batch: u64,
    size: u64,
}

impl Way<'_> {
    /// Goes through the sequence; the outputs are `[batch, 1, size]`, in the order of the positions.
    fn go(&self, sheet: &mut Sheet, op: &Op, positions: u64, backward: bool) -> Vec<String> {
        let (batch, size) = (self.batch, self.size);
        let zeros = sheet.constant(
            &format!("recurrent.zeros.{batch}.{size}"),
            &[batch, size],
            Fill::Constant { value: 0.0 },
        );
        let (mut hidden, mut memory) = (zeros.clone(), zeros);
        let mut rows = Vec::new();
        for step in 0..positions {
            let position = if backward { positions - 1 - step } else { step };
            let mut at = Position {
                sheet,
                prefix: format!("{}.{position}", self.name),
                size,
            };
            let input = at.node("input", row(1, position), &[&self.from_inputs]);
            let input = at.node("squeeze", Op::Squeeze { axis: 1 }, &[&input]);
            let reads = [&hidden, self.state_weight, self.state_bias];
            let state = at.node("state", Op::Linear, &reads);
            if let Op::Lstm { .. } = op {
                (hidden, memory) = at.lstm(&input, &state, &memory);
            } else {
                hidden = at.gru(&input, &state, &hidden);
            }
            let shape = vec![batch, 1, size];
            rows.push(at.node("output", Op::Reshape { shape }, &[&hidden]));
        }
        if backward {
            rows.reverse();
        }
        rows
    }
}

/// One element along an axis.
const fn row(axis: u64, index: u64) -> Op {
    Op::Slice {
        axis,
        start: index,
        end: index + 1,
    }
}

/// One position of one direction.
struct Position<'a> {
    sheet: &'a mut Sheet,
    prefix: String,
    size: u64,
}

impl Position<'_> {
    fn node(&mut self, part: &str, op: Op, inputs: &[&str]) -> String {
        self.sheet
            .node(&format!("{}.{part}", self.prefix), op, inputs)
    }

    /// Gates `first..end` of a row of gates.
    fn gates(&mut self, part: &str, of: &str, first: u64, end: u64) -> String {
        let gates = Op::Slice {
            axis: 1,
            start: first * self.size,
            end: end * self.size,
        };
        self.node(part, gates, &[of])
    }

    /// The next output and the next memory.
    fn lstm(&mut self, input: &str, state: &str, memory: &str) -> (String, String) {
        let sum = self.node("gates", Op::Add, &[input, state]);
        let [enter, keep, candidate, leave] = [
            ("enter", 0, Op::Sigmoid),
            ("keep", 1, Op::Sigmoid),
            ("candidate", 2, Op::Tanh),
            ("leave", 3, Op::Sigmoid),
        ]
        .map(|(part, gate, activation)| {
            let before = self.gates(&format!("{part}_sum"), &sum, gate, gate + 1);
            self.node(part, activation, &[&before])
        });
        let kept = self.node("kept", Op::Mul, &[&keep, memory]);
        let entered = self.node("entered", Op::Mul, &[&enter, &candidate]);
        let memory = self.node("memory", Op::Add, &[&kept, &entered]);
        let shown = self.node("shown", Op::Tanh, &[&memory]);
        (self.node("hidden", Op::Mul, &[&leave, &shown]), memory)
    }

    /// The next output: `n + z·(h − n)`, which is `(1 − z)·n + z·h` and how PyTorch computes it.
    fn gru(&mut self, input: &str, state: &str, hidden: &str) -> String {
        let from_input = self.gates("input_gates", input, 0, 2);
        let from_state = self.gates("state_gates", state, 0, 2);
        let sum = self.node("gates_sum", Op::Add, &[&from_input, &from_state]);
        let gates = self.node("gates", Op::Sigmoid, &[&sum]);
        let reset = self.gates("reset", &gates, 0, 1);
        let update = self.gates("update", &gates, 1, 2);
        let fresh = self.gates("fresh", input, 2, 3);
        let stale = self.gates("stale", state, 2, 3);
        let left = self.node("left", Op::Mul, &[&reset, &stale]);
        let sum = self.node("candidate_sum", Op::Add, &[&fresh, &left]);
        let candidate = self.node("candidate", Op::Tanh, &[&sum]);
        let minus_one = Fill::Constant { value: -1.0 };
        let minus_one = self.sheet.constant("recurrent.minus_one", &[1], minus_one);
        let negative = self.node("negative", Op::Mul, &[&candidate, &minus_one]);
        let way = self.node("way", Op::Add, &[hidden, &negative]);
        let gone = self.node("gone", Op::Mul, &[&update, &way]);
        self.node("hidden", Op::Add, &[&candidate, &gone])
    }
}
