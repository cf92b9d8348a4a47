//! ONNX's LSTM and GRU, as PyTorch and Keras export them: the graph's layers put the batch before
//! time, the directions behind each other in the last axis, and the gates in PyTorch's order.

use schema::graph::Op;

use super::{
    import::{Here, Import, Value, Work},
    misfits,
    tensor::{Constant, Data},
};

/// Where ONNX has PyTorch's gates i, f, g, o (ONNX: i, o, f, c) and r, z, n (ONNX: z, r, h).
const LSTM: &[usize] = &[0, 2, 3, 1];
const GRU: &[usize] = &[1, 0, 2];

/// Functions of the gates of one direction: the only ones that the graph's layers have.
const LSTM_ACTIVATIONS: &[&str] = &["Sigmoid", "Tanh", "Tanh"];
const GRU_ACTIVATIONS: &[&str] = &["Sigmoid", "Tanh"];

/// The sizes of a layer.
struct Sizes {
    positions: u64,
    batch: u64,
    features: u64,
    directions: u64,
    size: u64,
}

/// A layer, with what of its outputs is used: all hidden states, and the last of them.
pub(super) fn layer(
    import: &mut Import<'_>,
    here: Here<'_>,
    inputs: &[Option<Value>],
) -> Result<(), String> {
    let is_lstm = here.node.op_type == "LSTM";
    let [Some(x), Some(weights), Some(states), rest @ ..] = inputs else {
        return Err("reads fewer than three values".to_owned());
    };
    let directions = check(here, is_lstm)?;
    let rest = |at: usize| rest.get(at).and_then(Option::as_ref);
    let (gates, op) = if is_lstm {
        let bidirectional = directions == 2;
        (LSTM, Op::Lstm { bidirectional })
    } else {
        let bidirectional = directions == 2;
        (GRU, Op::Gru { bidirectional })
    };
    let sizes = sizes(import, [x, weights, states], gates.len() as u64, directions)?;
    let named = here.attributes.int("hidden_size", sizes.size as i64);
    if u64::try_from(named) != Ok(sizes.size) {
        return Err(format!(
            "names {named} units (`hidden_size`), and its weights are of {}",
            sizes.size
        ));
    }
    if let Some(lengths) = rest(1) {
        check_lengths(import, lengths, sizes.positions)?;
    }
    let wanted = misfits::initial(&import.shape_of(x)?, &import.shape_of(states)?);
    for (at, what) in [(2, "hidden"), (3, "cell"), (4, "peephole")] {
        if let Some(given) = rest(at) {
            let shape = import.shape_of(given)?;
            if let Some(wanted) = wanted.as_ref().filter(|wanted| at < 4 && **wanted != shape) {
                return Err(misfits::not_initial(&shape, wanted));
            }
            check_zero(import, given, what)?;
        }
    }
    if import.is_used(here, 2) {
        return Err("its last cell state is used, which the graph's LSTM does not give".to_owned());
    }

    let rows = sizes.rows(gates);
    let mut parameters = Vec::new();
    let weights = known(import, weights)?;
    let states = known(import, states)?;
    let biases = match rest(0) {
        Some(biases) => known(import, biases)?,
        None => import.budget.filled(sizes.directions * 2 * rows, 0.0)?,
    };
    if biases.len() as u64 != sizes.directions * 2 * rows {
        return Err("its biases are not two a gate and unit".to_owned());
    }
    for direction in 0..directions {
        let suffix = if direction == 1 { "_reverse" } else { "" };
        let parts = [
            ("weight_ih", &weights, direction, vec![rows, sizes.features]),
            ("weight_hh", &states, direction, vec![rows, sizes.size]),
            ("bias_ih", &biases, 2 * direction, vec![rows]),
            ("bias_hh", &biases, 2 * direction + 1, vec![rows]),
        ];
        for (name, numbers, part, shape) in parts {
            let numbers = ordered(numbers, part, &shape, gates)?;
            let constant = Constant::floats(shape, numbers);
            let name = format!("{name}{suffix}");
            parameters.push(Some(import.weight(here, &name, constant)));
        }
    }

    let turn = |perm: &[u64]| {
        Work::Op(Op::Transpose {
            perm: perm.to_vec(),
        })
    };
    let x = import.between(here, "batch_first", turn(&[1, 0, 2]), &[Some(x.clone())])?;
    let inputs: Vec<_> = std::iter::once(Some(x)).chain(parameters).collect();
    let states = import.between(here, "states", Work::Op(op), &inputs)?;
    if import.is_used(here, 0) {
        let shape = vec![sizes.batch, sizes.positions, sizes.directions, sizes.size];
        let reshape = Work::Op(Op::Reshape { shape });
        let apart = import.between(here, "directions", reshape, &[Some(states.clone())])?;
        // [position, direction, batch, unit]
        let output = here.node.output.first().cloned().unwrap_or_default();
        let all = import.step(here, output, turn(&[1, 2, 0, 3]), &[Some(apart)])?;
        import.give(here, 0, all)?;
    }
    if import.is_used(here, 1) {
        let last = last(import, here, &sizes, &states)?;
        import.give(here, 1, last)?;
    }
    Ok(())
}

impl Sizes {
    /// Rows of a weight of one direction.
    fn rows(&self, gates: &[usize]) -> u64 {
        gates.len() as u64 * self.size
    }
}

/// Refuses what the graph's layers do not do; the number of directions.
fn check(here: Here<'_>, is_lstm: bool) -> Result<u64, String> {
    let attributes = here.attributes;
    let directions = match attributes.text("direction", "forward") {
        "forward" => 1,
        "bidirectional" => 2,
        other => return Err(format!("its direction is `{other}`")),
    };
    if attributes.int("layout", 0) != 0 {
        return Err(
            "its layout is 1, which ONNX Runtime does not run either; export it with time first"
                .to_owned(),
        );
    }
    if attributes.has("clip") {
        return Err("clips what the gates read".to_owned());
    }
    if attributes.int("input_forget", 0) != 0 {
        return Err("couples the gates of input and forgetting".to_owned());
    }
    if !is_lstm && attributes.int("linear_before_reset", 0) == 0 {
        return Err(
            "resets before the matrix product (linear_before_reset is 0), where PyTorch's resets \
             behind it"
                .to_owned(),
        );
    }
    let usual = if is_lstm {
        LSTM_ACTIVATIONS
    } else {
        GRU_ACTIVATIONS
    };
    let usual = usual.repeat(directions as usize);
    match attributes.texts("activations") {
        Some(given) if !given.is_empty() && given != usual => {
            Err(format!("its gates are functions {given:?}, not {usual:?}"))
        }
        _ => Ok(directions),
    }
}

/// The sizes, which the three tensors must agree on.
fn sizes(
    import: &Import<'_>,
    [x, weights, states]: [&Value; 3],
    gates: u64,
    directions: u64,
) -> Result<Sizes, String> {
    let shapes = [x, weights, states].map(|value| import.shape_of(value));
    let [x, weights, states] = shapes;
    let (x, weights, states) = (x?, weights?, states?);
    let wrong = || format!("its input {x:?} and weights {weights:?}, {states:?} do not fit");
    let &[positions, batch, features] = x.as_slice() else {
        return Err(wrong());
    };
    let &[_, _, size] = states.as_slice() else {
        return Err(wrong());
    };
    let rows = gates.checked_mul(size).ok_or_else(wrong)?;
    if weights != [directions, rows, features] || states != [directions, rows, size] {
        return Err(wrong());
    }
    Ok(Sizes {
        positions,
        batch,
        features,
        directions,
        size,
    })
}

/// The numbers of a weight.
fn known(import: &mut Import<'_>, value: &Value) -> Result<Vec<f32>, String> {
    let Value::Known(constant) = value else {
        return Err("its weights are computed".to_owned());
    };
    match import.budget.data(constant)? {
        Data::Floats(numbers) => Ok(numbers),
        Data::Integers(_) => Err("its weights are integers".to_owned()),
    }
}

/// All sequences must be as long as the input.
fn check_lengths(import: &mut Import<'_>, lengths: &Value, positions: u64) -> Result<(), String> {
    let Value::Known(constant) = lengths else {
        return Err("the lengths of its sequences are computed or fed".to_owned());
    };
    let lengths = import.budget.list(constant)?;
    let is_whole = |&length: &i64| u64::try_from(length) == Ok(positions);
    if lengths.iter().all(is_whole) {
        Ok(())
    } else {
        Err("its sequences are of several lengths".to_owned())
    }
}

/// The graph's layers start from states of zeros and have no peepholes.
fn check_zero(import: &mut Import<'_>, given: &Value, what: &str) -> Result<(), String> {
    let Value::Known(constant) = given else {
        return Err(format!("its first {what} state is computed or fed"));
    };
    let is_zero = match import.budget.data(constant)? {
        Data::Floats(numbers) => numbers.iter().all(|&number| number == 0.0),
        Data::Integers(numbers) => numbers.iter().all(|&number| number == 0),
    };
    if is_zero {
        Ok(())
    } else {
        Err(format!("its {what} numbers are not zeros"))
    }
}

/// Part `index` of the numbers, as many as the shape has, its gates in PyTorch's order.
fn ordered(
    numbers: &[f32],
    index: u64,
    shape: &[u64],
    gates: &[usize],
) -> Result<Vec<f32>, String> {
    let missing = || "its weights have too few numbers".to_owned();
    let count = shape.iter().product::<u64>();
    let start = usize::try_from(index * count).map_err(|_| missing())?;
    let count = usize::try_from(count).map_err(|_| missing())?;
    let part = numbers.get(start..start + count).ok_or_else(missing)?;
    let gate = count / gates.len();
    let mut made = Vec::with_capacity(count);
    for &from in gates {
        made.extend_from_slice(
            part.get(from * gate..(from + 1) * gate)
                .ok_or_else(missing)?,
        );
    }
    Ok(made)
}

/// The last hidden states `[direction, batch, unit]`: forward those of the last position, backward
/// those of the first.
fn last(
    import: &mut Import<'_>,
    here: Here<'_>,
    sizes: &Sizes,
    states: &Value,
) -> Result<Value, String> {
    let slice = |axis, start, end| Work::Op(Op::Slice { axis, start, end });
    let mut ends = Vec::new();
    for direction in 0..sizes.directions {
        let position = if direction == 0 {
            sizes.positions.saturating_sub(1)
        } else {
            0
        };
        let part = |what: &str| format!("last_{what}{direction}");
        let mut end = states.clone();
        if sizes.positions > 1 {
            let work = slice(1, position, position + 1);
            end = import.between(here, &part("position"), work, &[Some(end)])?;
        }
        if sizes.directions > 1 {
            let start = direction * sizes.size;
            let work = slice(2, start, start + sizes.size);
            end = import.between(here, &part("direction"), work, &[Some(end)])?;
        }
        let shape = vec![1, sizes.batch, sizes.size];
        let reshape = Work::Op(Op::Reshape { shape });
        ends.push(Some(import.between(
            here,
            &part("state"),
            reshape,
            &[Some(end)],
        )?));
    }
    if let [Some(only)] = ends.as_slice() {
        return Ok(only.clone());
    }
    import.between(here, "last", Work::Op(Op::Concat { axis: 0 }), &ends)
}
