//! Training: the optimisers' arithmetic, gradients as slopes of the loss, statistics, the initial
//! state.

use std::collections::BTreeMap;

use models::sample;
use schema::{
    Graph, Mode, Optimizer, OutcomeKind, Precision,
    graph::{Approximation, Fill, Op},
    protocol::Quantity,
};
use worker::{ParityData, Session};

use crate::common::{
    self, Array, Operand, Sketch, arrays, buffer, cell, conv, fed, held, indices, load, relative_l2,
};

const SGD: Optimizer = Optimizer::Sgd {
    learning_rate: 0.1,
    momentum: 0.9,
    weight_decay: 0.01,
};

const PLAIN: Optimizer = Optimizer::Sgd {
    learning_rate: 0.1,
    momentum: 0.0,
    weight_decay: 0.0,
};

const ADAM: Optimizer = Optimizer::Adam {
    learning_rate: 0.01,
    beta1: 0.9,
    beta2: 0.999,
    epsilon: 1e-3,
    weight_decay: 0.1,
};

fn session(
    graph: &Graph,
    precision: Precision,
    optimizer: Optimizer,
    variant: &str,
) -> Box<dyn Session> {
    let mut cell = cell(graph, precision, Some(optimizer));
    cell.engine.variant = variant.to_owned();
    let loaded = load(graph, cell).unwrap_or_else(|outcome| panic!("{outcome:?}"));
    loaded.0
}

fn parity(graph: &Graph, precision: Precision, optimizer: Optimizer, variant: &str) -> ParityData {
    let mut session = session(graph, precision, optimizer, variant);
    session
        .step()
        .unwrap_or_else(|outcome| panic!("{outcome:?}"));
    session
        .parity(3)
        .unwrap_or_else(|outcome| panic!("{outcome:?}"))
}

/// A layer and its loss.
fn linear() -> Graph {
    let mut sketch = Sketch::new("linear");
    let logits = sketch.node(
        Op::Linear,
        &[fed("x", &[4, 3]), held("w", &[5, 3]), held("b", &[5])],
    );
    sketch.end_with_loss(&logits, &[4], 5)
}

/// What is told of one quantity, by name.
fn told(parity: &ParityData, quantity: Quantity) -> BTreeMap<String, Array> {
    let tensors = parity.tensors.iter();
    let chosen: Vec<_> = tensors
        .filter(|t| t.quantity == quantity)
        .cloned()
        .collect();
    let names = chosen.iter().map(|tensor| tensor.name.clone());
    names.zip(arrays(&chosen)).collect()
}

/// Holds the updates of three iterations against those that `update(step, weight, gradient,
/// state)` makes of the gradients of a layer, which are computed by hand.
fn check_against_hand(optimizer: Optimizer, update: impl Fn(i32, f64, f64, &mut [f64; 2]) -> f64) {
    let graph = linear();
    let numbers = |name: &str, count| -> Vec<f64> {
        let fill = Fill::Uniform {
            low: -2.0,
            high: 2.0,
        };
        let numbers = models::fill::floats(name, &fill, count);
        numbers.into_iter().map(f64::from).collect()
    };
    let x = numbers("x", 12);
    let labels = models::fill::integers("labels", &Fill::Integers { bound: 5 }, &[4]);
    let initial = [numbers("w", 15), numbers("b", 5)].concat();
    let (mut weights, mut state) = (initial.clone(), vec![[0.0; 2]; 20]);
    let mut losses = Vec::new();
    let mut first = Vec::new();
    for step in 1..=3 {
        let mut gradient = vec![0.0; 20];
        let mut loss = 0.0;
        for n in 0..4 {
            let x = &x[n * 3..n * 3 + 3];
            let logit = |c: usize| {
                let product: f64 = (0..3).map(|k| x[k] * weights[c * 3 + k]).sum();
                product + weights[15 + c]
            };
            let total: f64 = (0..5).map(|c| logit(c).exp()).sum();
            let label = labels[n] as usize;
            loss += (total.ln() - logit(label)) / 4.0;
            for c in 0..5 {
                // The derivative of the cross-entropy by the logits is softmax − one-hot.
                let hit = f64::from(u8::from(c == label));
                let slope = (logit(c).exp() / total - hit) / 4.0;
                for k in 0..3 {
                    gradient[c * 3 + k] += slope * x[k];
                }
                gradient[15 + c] += slope;
            }
        }
        losses.push(loss);
        if step == 1 {
            first.clone_from(&gradient);
        }
        for ((weight, gradient), state) in weights.iter_mut().zip(gradient).zip(&mut state) {
            *weight = update(step, *weight, gradient, state);
        }
    }
    let moved: Vec<f64> = weights.iter().zip(&initial).map(|(a, b)| a - b).collect();
    for (precision, variant, bound) in [
        (Precision::Fp64, "graph", 1e-12),
        (Precision::Fp32, "graph", 5e-6),
        (Precision::Fp64, "xla", 1e-12),
        (Precision::Fp32, "xla", 5e-6),
    ] {
        let parity = parity(&graph, precision, optimizer, variant);
        let what = format!("{} {precision} {variant}", optimizer.name());
        for (quantity, expected) in [(Quantity::Gradient, &first), (Quantity::Update, &moved)] {
            let told = told(&parity, quantity);
            for (name, expected) in [("w", &expected[..15]), ("b", &expected[15..])] {
                let expected = Array {
                    shape: told[name].shape.clone(),
                    data: expected.to_vec(),
                };
                let error = relative_l2(&told[name], &expected);
                assert!(error < bound, "{what}: {quantity:?} of {name}: {error:e}");
            }
        }
        for (actual, expected) in parity.losses.iter().zip(&losses) {
            assert!((actual - expected).abs() < bound * expected, "{what}: loss");
        }
        assert_eq!(parity.losses.len(), 3);
    }
}

#[test]
fn sgd_is_the_published_formula() {
    check_against_hand(SGD, |_, w, g, [velocity, _]| {
        *velocity = 0.9 * *velocity + (g + 0.01 * w);
        w - 0.1 * *velocity
    });
    check_against_hand(PLAIN, |_, w, g, _| w - 0.1 * g);
}

#[test]
fn adam_is_the_published_formula() {
    check_against_hand(ADAM, |step, w, g, [mean, square]| {
        let g = g + 0.1 * w;
        *mean = 0.9 * *mean + 0.1 * g;
        *square = 0.999 * *square + 0.001 * g * g;
        let mean = *mean / (1.0 - 0.9_f64.powi(step));
        let square = *square / (1.0 - 0.999_f64.powi(step));
        w - 0.01 * mean / (square.sqrt() + 1e-3)
    });
}

/// The first loss of `graph` with every number of the parameter `name` raised by `shift`.
fn raised(graph: &Graph, name: &str, shift: f32) -> f64 {
    let mut graph = graph.clone();
    let parameters = graph.parameters.iter_mut();
    for parameter in parameters.filter(|parameter| parameter.name == name) {
        if let Fill::Uniform { low, high } = &mut parameter.fill {
            *low += shift;
            *high += shift;
        }
    }
    session(&graph, Precision::Fp64, PLAIN, "graph")
        .parity(1)
        .unwrap()
        .losses[0]
}

/// The sum of a gradient is the slope of the loss along all elements at once: found by central
/// differences.
fn slopes(graph: &Graph) {
    // Numbers are made in single precision: the step must be long against its rounding.
    const STEP: f32 = 1.0 / 1024.0;
    let gradients = told(
        &parity(graph, Precision::Fp64, PLAIN, "graph"),
        Quantity::Gradient,
    );
    assert!(!gradients.is_empty());
    for (name, gradient) in &gradients {
        let up = raised(graph, name, STEP);
        let down = raised(graph, name, -STEP);
        let slope = (up - down) / f64::from(2.0 * STEP);
        let sum: f64 = gradient.data.iter().sum();
        let size = gradient.data.iter().map(|g| g.abs()).sum::<f64>();
        assert!(size > 0.0, "{} {name}: no gradient", graph.name);
        let error = (slope - sum).abs() / size;
        assert!(error < 2e-3, "{} {name}: {sum}, not {slope}", graph.name);
    }
    let single = told(
        &parity(graph, Precision::Fp32, PLAIN, "graph"),
        Quantity::Gradient,
    );
    for (name, gradient) in &gradients {
        let error = relative_l2(&single[name], gradient);
        assert!(error < 1e-4, "{} {name} in fp32: {error:e}", graph.name);
    }
}

fn norm(x: Operand, channels: u64, prefix: &str) -> [Operand; 5] {
    let name = |what: &str| format!("{prefix}.{what}");
    [
        x,
        held(&name("scale"), &[channels]),
        held(&name("bias"), &[channels]),
        buffer(&name("mean"), channels),
        buffer(&name("var"), channels),
    ]
}

const NORM: Op = Op::BatchNormalization {
    epsilon: 1e-3,
    momentum: 0.25,
};

/// Convolutions of all kinds, normalisation, pools, a gate.
fn images() -> Graph {
    let mut s = Sketch::new("images");
    let x = s.node(
        conv(2, 1, 1),
        &[fed("x", &[2, 3, 14, 14]), held("stem", &[4, 3, 3, 3])],
    );
    let x = s.node(NORM, &norm(x, 4, "norm"));
    let x = s.node(Op::Silu, &[x]);
    let pool = Op::MaxPool {
        kernel: [3, 3],
        strides: [1, 1],
        pads: [1; 4],
        ceil_mode: false,
    };
    let x = s.node(pool, &[x]);
    let deep = s.node(conv(2, 1, 4), &[x.clone(), held("deep", &[8, 1, 3, 3])]);
    let parts = s.node(
        conv(2, 1, 2),
        &[x, held("parts", &[8, 2, 3, 3]), held("b", &[8])],
    );
    let sum = s.node(Op::Add, &[deep, parts]);
    let mean = Op::AveragePool {
        kernel: [3, 3],
        strides: [2, 2],
        pads: [1; 4],
        count_include_pad: false,
    };
    let x = s.node(mean, &[sum]);
    let pooled = s.node(Op::GlobalAveragePool, std::slice::from_ref(&x));
    let gate = s.node(Op::Sigmoid, &[pooled]);
    let x = s.node(Op::Mul, &[x, gate]);
    let left = s.node(
        Op::Slice {
            axis: 1,
            start: 0,
            end: 3,
        },
        std::slice::from_ref(&x),
    );
    let x = s.node(Op::Concat { axis: 1 }, &[x, left]);
    let x = s.node(Op::Flatten { axis: 1 }, &[x]);
    let logits = s.node(Op::Linear, &[x, held("fc", &[5, 44]), held("fc.b", &[5])]);
    s.end_with_loss(&logits, &[2], 5)
}

/// A small language model: tied table, attention, both forms of GELU.
fn texts() -> Graph {
    let mut s = Sketch::new("texts");
    let small = |name: &str, shape: &[u64]| Operand {
        fill: Fill::Uniform {
            low: -0.5,
            high: 0.5,
        },
        ..held(name, shape)
    };
    let table = small("table", &[7, 6]);
    let x = s.node(Op::Gather, &[table.clone(), indices("i", &[2, 4], 7)]);
    let x = s.node(Op::Add, &[x, small("places", &[4, 6])]);
    let normal = Op::LayerNormalization { epsilon: 1e-5 };
    let x = s.node(normal, &[x, held("ln", &[6]), held("ln.b", &[6])]);
    // (The bias of a key would have no gradient.)
    let q = s.node(
        Op::Gemm,
        &[x.clone(), small("q", &[6, 6]), small("q.b", &[6])],
    );
    let k = s.node(Op::Linear, &[x.clone(), small("k", &[6, 6])]);
    let attention = Op::Attention {
        heads: 2,
        causal: true,
    };
    let a = s.node(attention, &[q, k, x.clone()]);
    let x = s.node(Op::Add, &[x, a]);
    let exact = Op::Gelu {
        approximate: Approximation::None,
    };
    let tanh = Op::Gelu {
        approximate: Approximation::Tanh,
    };
    let x = s.node(exact, &[x]);
    let x = s.node(Op::Linear, &[x, small("up", &[8, 6]), small("up.b", &[8])]);
    let x = s.node(tanh, &[x]);
    let x = s.node(Op::MatMul, &[x, small("down", &[8, 6])]);
    let x = s.node(Op::Dropout { ratio: 0.25 }, &[x]);
    let logits = s.node(Op::Linear, &[x, table]);
    s.end_with_loss(&logits, &[2, 4], 7)
}

/// What a vision transformer needs: patches, a token for the class, products of batches.
fn patches() -> Graph {
    let mut s = Sketch::new("patches");
    let x = s.node(
        conv(2, 0, 1),
        &[fed("x", &[2, 3, 4, 4]), held("w", &[6, 3, 2, 2])],
    );
    let x = s.node(
        Op::Reshape {
            shape: vec![2, 6, 4],
        },
        &[x],
    );
    let perm = vec![0, 2, 1];
    let x = s.node(Op::Transpose { perm }, &[x]);
    let token = s.node(
        Op::Expand {
            shape: vec![2, 1, 1],
        },
        &[held("token", &[1, 1, 6])],
    );
    let x = s.node(Op::Concat { axis: 1 }, &[token, x]);
    let x = s.node(Op::Tanh, &[x]);
    let x = s.node(Op::MatMul, &[x, held("shared", &[1, 6, 6])]);
    let x = s.node(
        Op::Clip {
            min: -3.0,
            max: 5.0,
        },
        &[x],
    );
    let x = s.node(Op::Softmax { axis: 1 }, &[x]);
    let x = s.node(
        Op::Slice {
            axis: 1,
            start: 0,
            end: 1,
        },
        &[x],
    );
    let x = s.node(Op::Squeeze { axis: 1 }, &[x]);
    let logits = s.node(Op::Linear, &[x, held("fc", &[5, 6])]);
    s.end_with_loss(&logits, &[2], 5)
}

#[test]
fn gradients_are_slopes_of_the_loss() {
    for graph in [images(), texts(), patches()] {
        slopes(&graph);
    }
}

#[test]
fn compiled_steps_train_as_others_do() {
    for (graph, optimizer) in [(images(), SGD), (texts(), ADAM), (patches(), SGD)] {
        let graph_parity = parity(&graph, Precision::Fp64, optimizer, "graph");
        for variant in ["xla", "xla-auto"] {
            let compiled = parity(&graph, Precision::Fp64, optimizer, variant);
            for quantity in [Quantity::Gradient, Quantity::Movement, Quantity::Update] {
                let expected = told(&graph_parity, quantity);
                let told = told(&compiled, quantity);
                assert_eq!(told.len(), expected.len());
                for (name, expected) in &expected {
                    let error = relative_l2(&told[name], expected);
                    assert!(
                        error < 1e-9,
                        "{} {variant} {quantity:?} {name}: {error:e}",
                        graph.name
                    );
                }
            }
        }
    }
}

#[test]
fn running_statistics_move_by_those_of_the_first_batch() {
    let (batch, channels) = (3, 2);
    let image = fed("x", &[batch, channels, 2, 2]);
    let x = models::fill::floats("x", &image.fill, 24);
    let mut s = Sketch::new("statistics");
    let y = s.node(NORM, &norm(image, channels, "norm"));
    let y = s.node(Op::Flatten { axis: 1 }, &[y]);
    let graph = s.end_with_loss(&y, &[batch], 8);
    let initial = |name: &str| models::fill::floats(name, &buffer(name, channels).fill, 2);
    for (precision, bound) in [(Precision::Fp64, 1e-12), (Precision::Fp32, 1e-5)] {
        let moved = told(&parity(&graph, precision, SGD, "graph"), Quantity::Movement);
        assert_eq!(moved.len(), 2);
        for c in 0..2 {
            let channel: Vec<f64> = (0..24)
                .filter(|i| i / 4 % 2 == c)
                .map(|i| f64::from(x[i]))
                .collect();
            let mean = channel.iter().sum::<f64>() / 12.0;
            let variance = channel.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 11.0;
            for (name, of_batch) in [("norm.mean", mean), ("norm.var", variance)] {
                let expected = 0.25 * (of_batch - f64::from(initial(name)[c]));
                let actual = moved[name].data[c];
                let close = (actual - expected).abs() < bound;
                assert!(close, "{precision} {name}: {actual}, not {expected}");
            }
        }
    }
}

/// A weight that the loss does not depend on has no gradient, and stays.
#[test]
fn what_the_loss_does_not_see_stays() {
    let mut graph = linear();
    let mut aside = Sketch::new("aside");
    let y = aside.node(Op::Linear, &[fed("x", &[4, 3]), held("aside", &[2, 3])]);
    let aside = aside.end(&y);
    graph.parameters.extend(aside.parameters);
    let mut node = aside.nodes[0].clone();
    node.name = "aside".to_owned();
    node.outputs = vec!["aside.out".to_owned()];
    graph.nodes.push(node);
    graph.outputs.push("aside.out".to_owned());
    let parity = parity(&graph, Precision::Fp32, SGD, "graph");
    for quantity in [Quantity::Gradient, Quantity::Update] {
        let told = told(&parity, quantity);
        assert_eq!(told["aside"].data, [0.0; 6], "{quantity:?}");
        assert!(told["w"].data.iter().any(|&x| x != 0.0));
    }
}

#[test]
fn a_reset_restores_every_bit_and_dropout_runs_only_while_timed() {
    for (graph, optimizer) in [(texts(), ADAM), (images(), SGD)] {
        let mut session = session(&graph, Precision::Fp32, optimizer, "graph");
        let first = session.parity(3).unwrap();
        for _ in 0..3 {
            session.step().unwrap();
        }
        assert_eq!(session.parity(3).unwrap(), first);
        session.step().unwrap();
        session.reset().unwrap();
        assert_eq!(session.parity(3).unwrap(), first);
    }
}

#[test]
fn dropout_drops_in_timed_steps() {
    for variant in ["graph", "xla"] {
        let diverged = |ratio| {
            let (graph, wild) = sample::dropping(ratio).unwrap();
            let mut session = session(&graph, Precision::Fp32, wild, variant);
            for _ in 0..sample::STEPS {
                session.step().unwrap();
            }
            session.diverged().unwrap()
        };
        assert!(diverged(0.0).is_some(), "{variant}");
        assert_eq!(diverged(0.999_999), None, "{variant}");
    }
}

#[test]
fn a_training_that_has_diverged_says_so() {
    let wild = Optimizer::Sgd {
        learning_rate: 1e30,
        momentum: 0.0,
        weight_decay: 1.0,
    };
    for (optimizer, diverges) in [(PLAIN, false), (wild, true)] {
        for variant in ["graph", "xla"] {
            let mut session = session(&texts(), Precision::Fp32, optimizer, variant);
            for _ in 0..3 {
                session.step().unwrap();
            }
            let diverged = session.diverged().unwrap();
            assert_eq!(diverged.is_some(), diverges, "{variant}: {diverged:?}");
            session.reset().unwrap();
            assert_eq!(session.diverged().unwrap(), None);
        }
    }
}

#[test]
fn training_without_a_loss_is_unsupported() {
    let graph = common::single(Op::Relu, &[fed("x", &[2])]);
    let cell = cell(&graph, Precision::Fp32, Some(SGD));
    let outcome = load(&graph, cell).err().unwrap();
    assert_eq!(outcome.kind, OutcomeKind::Unsupported);
    assert!(outcome.reason.contains("no loss"), "{outcome:?}");
}

#[test]
fn a_convolution_that_has_no_gradient_is_unsupported_by_name() {
    let mut s = Sketch::new("dilated");
    let op = Op::Conv {
        strides: [1, 1],
        pads: [0; 4],
        dilations: [2, 2],
        group: 1,
    };
    let y = s.node(op, &[fed("x", &[1, 1, 5, 5]), held("w", &[2, 1, 3, 3])]);
    let y = s.node(Op::Flatten { axis: 1 }, &[y]);
    let graph = s.end_with_loss(&y, &[1], 2);
    let outcome = load(&graph, cell(&graph, Precision::Fp32, Some(SGD)))
        .err()
        .unwrap();
    assert_eq!(outcome.kind, OutcomeKind::Unsupported, "{outcome:?}");
    assert!(outcome.reason.contains("Conv node0"), "{outcome:?}");
}

fn small(name: &str) -> Graph {
    let sizes: &[(&str, u64)] = match name {
        "bert_tiny" => &[("seq", 8)],
        _ => &[("image", 64)],
    };
    let sizes = sizes.iter().copied().chain([("batch", 2)]);
    let dims: BTreeMap<_, _> = sizes.map(|(name, size)| (name.to_owned(), size)).collect();
    models::zoo::build_for(name, &dims, Mode::Training).unwrap()
}

#[test]
fn networks_of_the_zoo_train() {
    const GENTLE: Optimizer = Optimizer::Sgd {
        learning_rate: 1e-3,
        momentum: 0.9,
        weight_decay: 1e-4,
    };
    for name in ["resnet18", "mobilenet_v2", "bert_tiny"] {
        let graph = small(name);
        let mut session = session(&graph, Precision::Fp32, GENTLE, "graph");
        session
            .step()
            .unwrap_or_else(|outcome| panic!("{name}: {outcome:?}"));
        let losses = session.parity(8).unwrap().losses;
        assert!(
            losses.iter().all(|loss| loss.is_finite()),
            "{name}: {losses:?}"
        );
        assert!(losses[7] < losses[0], "{name}: {losses:?}");
    }
}
