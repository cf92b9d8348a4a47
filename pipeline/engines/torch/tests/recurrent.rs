//! Recurrent layers against plain loops in binary64, written from PyTorch's documentation of
//! `nn.LSTM` and `nn.GRU`.

#![allow(clippy::unwrap_used, reason = "a test may")]

mod common;

use common::{Array, Operand, assert_close, operand, outputs, single};
use schema::graph::{Fill, Op};

const BATCH: usize = 2;
const POSITIONS: usize = 5;
const FEATURES: usize = 3;
const SIZE: usize = 4;

/// Names of operands: parameters of both directions behind the input.
const NAMES: [&str; 9] = [
    "x",
    "weight_ih",
    "weight_hh",
    "bias_ih",
    "bias_hh",
    "weight_ih_reverse",
    "weight_hh_reverse",
    "bias_ih_reverse",
    "bias_hh_reverse",
];

fn operands(gates: usize, directions: usize) -> Vec<Operand> {
    let rows = gates * SIZE;
    let shapes: [&[usize]; 4] = [&[rows, FEATURES], &[rows, SIZE], &[rows], &[rows]];
    let mut operands = vec![operand(NAMES[0], &[BATCH, POSITIONS, FEATURES])];
    for (index, name) in NAMES[1..=4 * directions].iter().enumerate() {
        let fill = Fill::Uniform {
            low: -0.8,
            high: 1.0,
        };
        let operand = operand(name, shapes[index % 4]);
        operands.push(Operand { fill, ..operand });
    }
    operands
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// What enters gate `gate` of unit `unit`: `weight · values + bias`.
fn entering(weight: &Array, bias: &Array, values: &[f64], gate: usize, unit: usize) -> f64 {
    let row = gate * SIZE + unit;
    let product: f64 = (0..values.len())
        .map(|k| weight.at(&[row, k]) * values[k])
        .sum();
    product + bias.at(&[row])
}

/// `h_t` and `c_t` of one unit from what enters its gates: of the input, of the state.
type Step = fn(from_input: &[f64], from_state: &[f64], h: f64, c: f64) -> (f64, f64);

fn lstm(x: &[f64], h: &[f64], _: f64, c: f64) -> (f64, f64) {
    let gate = |index: usize| x[index] + h[index];
    let (i, f, g, o) = (
        sigmoid(gate(0)),
        sigmoid(gate(1)),
        gate(2).tanh(),
        sigmoid(gate(3)),
    );
    let c = f * c + i * g;
    (o * c.tanh(), c)
}

fn gru(x: &[f64], h: &[f64], last: f64, _: f64) -> (f64, f64) {
    let (r, z) = (sigmoid(x[0] + h[0]), sigmoid(x[1] + h[1]));
    let n = (x[2] + r * h[2]).tanh();
    ((1.0 - z) * n + z * last, 0.0)
}

/// One direction of one text, each position's outputs in its place.
fn run(x: &Array, text: usize, parameters: &[Array], backward: bool, step: Step) -> Vec<Vec<f64>> {
    let [input, state, input_bias, state_bias] = parameters else {
        panic!("four parameters a direction")
    };
    let gates = input.shape[0] / SIZE;
    let (mut hidden, mut memory) = (vec![0.0; SIZE], vec![0.0; SIZE]);
    let mut outputs = vec![vec![]; POSITIONS];
    for count in 0..POSITIONS {
        let position = if backward {
            POSITIONS - 1 - count
        } else {
            count
        };
        let features: Vec<f64> = (0..FEATURES).map(|k| x.at(&[text, position, k])).collect();
        let next = |unit: usize| {
            let of = |weight, bias, values: &[f64]| -> Vec<f64> {
                (0..gates)
                    .map(|gate| entering(weight, bias, values, gate, unit))
                    .collect()
            };
            let (x, h) = (
                of(input, input_bias, &features),
                of(state, state_bias, &hidden),
            );
            step(&x, &h, hidden[unit], memory[unit])
        };
        (hidden, memory) = (0..SIZE).map(next).unzip();
        outputs[position].clone_from(&hidden);
    }
    outputs
}

fn check(op: Op, gates: usize, directions: usize, step: Step) {
    let context = format!("{op:?}");
    let operands = operands(gates, directions);
    let arrays: Vec<Array> = operands.iter().map(Operand::array).collect();
    let actual = outputs(&single(op, &operands));
    let ways: Vec<Vec<Vec<Vec<f64>>>> = (0..BATCH)
        .map(|text| {
            let directions = arrays[1..].chunks(4).enumerate();
            directions
                .map(|(way, parameters)| run(&arrays[0], text, parameters, way == 1, step))
                .collect()
        })
        .collect();
    let expected = Array::from_fn(&[BATCH, POSITIONS, directions * SIZE], |index| {
        ways[index[0]][index[2] / SIZE][index[1]][index[2] % SIZE]
    });
    assert_close(&actual[0], &expected, &context);
}

#[test]
fn layers_of_long_short_term_memory() {
    for (bidirectional, directions) in [(false, 1), (true, 2)] {
        check(Op::Lstm { bidirectional }, 4, directions, lstm);
    }
}

#[test]
fn layers_of_gated_recurrent_units() {
    for (bidirectional, directions) in [(false, 1), (true, 2)] {
        check(Op::Gru { bidirectional }, 3, directions, gru);
    }
}
