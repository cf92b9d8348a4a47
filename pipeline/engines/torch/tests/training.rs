//! Training: the optimisers' arithmetic, the initial state, and every network of the zoo.

#![allow(clippy::unwrap_used, reason = "a test may")]

mod common;

use std::collections::BTreeMap;

use common::{Array, SGD, arrays, assert_close, cell, load, operand, single};
use models::{
    rewrite::{ATTENTION, PLAIN, RECURRENT, Rewriting, UNROLLED},
    sample,
};
use schema::{
    Graph, Mode, Optimizer, OutcomeKind, Precision,
    graph::{ElementType, Fill, Input, Loss, Op, Role},
    protocol::Quantity,
};

const BATCH: usize = 4;
const FEATURES: usize = 3;
const CLASSES: usize = 5;

const ADAM: Optimizer = Optimizer::Adam {
    learning_rate: 0.01,
    beta1: 0.9,
    beta2: 0.999,
    epsilon: 1e-8,
    weight_decay: 0.1,
};

/// One linear layer with a loss.
fn linear() -> Graph {
    let operands = [
        operand("x", &[BATCH, FEATURES]),
        operand("w", &[CLASSES, FEATURES]),
        operand("b", &[CLASSES]),
    ];
    let mut graph = single(Op::Linear, &operands);
    graph.loss = Some(Loss::CrossEntropy {
        logits: "output".to_owned(),
        labels: Input {
            name: "labels".to_owned(),
            element: ElementType::Int64,
            shape: vec![BATCH as u64],
            fill: Fill::Integers {
                bound: CLASSES as u64,
            },
        },
    });
    graph
}

/// The layer trained by hand: the loss of each iteration, and what the weights changed by.
struct ByHand {
    x: Array,
    labels: Vec<usize>,
    weights: Vec<Array>,
    losses: Vec<f64>,
}

impl ByHand {
    fn new() -> Self {
        let [x, w, b] = [
            ("x", vec![BATCH, FEATURES]),
            ("w", vec![CLASSES, FEATURES]),
            ("b", vec![CLASSES]),
        ]
        .map(|(name, shape)| operand(name, &shape).array());
        let fill = Fill::Integers {
            bound: CLASSES as u64,
        };
        let labels = models::fill::integers("labels", &fill, &[BATCH as u64]);
        let labels = labels.into_iter().map(|label| label as usize).collect();
        Self {
            x,
            labels,
            weights: vec![w, b],
            losses: vec![],
        }
    }

    /// Gradients of the mean cross-entropy; its derivative by the logits is
    /// `(softmax − one-hot) / batch`.
    fn gradients(&mut self) -> Vec<Array> {
        let [w, b] = &self.weights[..] else {
            unreachable!()
        };
        let logits = Array::from_fn(&[BATCH, CLASSES], |i| {
            let product: f64 = (0..FEATURES)
                .map(|k| self.x.at(&[i[0], k]) * w.at(&[i[1], k]))
                .sum();
            product + b.at(&[i[1]])
        });
        let total = |n: usize| (0..CLASSES).map(|c| logits.at(&[n, c]).exp()).sum::<f64>();
        let loss = (0..BATCH)
            .map(|n| total(n).ln() - logits.at(&[n, self.labels[n]]))
            .sum::<f64>();
        self.losses.push(loss / BATCH as f64);
        let slope = Array::from_fn(&[BATCH, CLASSES], |i| {
            let hit = f64::from(u8::from(self.labels[i[0]] == i[1]));
            (logits.at(i).exp() / total(i[0]) - hit) / BATCH as f64
        });
        let of_w = Array::from_fn(&[CLASSES, FEATURES], |i| {
            (0..BATCH)
                .map(|n| slope.at(&[n, i[0]]) * self.x.at(&[n, i[1]]))
                .sum()
        });
        let of_b = Array::from_fn(&[CLASSES], |i| {
            (0..BATCH).map(|n| slope.at(&[n, i[0]])).sum()
        });
        vec![of_w, of_b]
    }

    /// Three iterations; `update(step, weight, gradient, first, second)` moves one number, with
    /// two numbers of state. Gives the first gradients, then the updates; and the losses.
    fn train(
        mut self,
        update: impl Fn(i32, f64, f64, &mut f64, &mut f64) -> f64,
    ) -> (Vec<Array>, Vec<f64>) {
        let mut told = Vec::new();
        let initial = self.weights.clone();
        let mut state: Vec<Vec<[f64; 2]>> = initial
            .iter()
            .map(|weight| vec![[0.0; 2]; weight.data.len()])
            .collect();
        for step in 1..=3 {
            let gradients = self.gradients();
            if step == 1 {
                told.clone_from(&gradients);
            }
            for ((weight, gradient), state) in
                self.weights.iter_mut().zip(gradients).zip(&mut state)
            {
                for ((w, g), [first, second]) in
                    weight.data.iter_mut().zip(gradient.data).zip(state)
                {
                    *w = update(step, *w, g, first, second);
                }
            }
        }
        let change = |(after, before): (&Array, &Array)| {
            Array::from_fn(&after.shape, |i| after.at(i) - before.at(i))
        };
        told.extend(self.weights.iter().zip(&initial).map(change));
        (told, self.losses)
    }
}

fn check_against_hand(
    optimizer: Optimizer,
    update: impl Fn(i32, f64, f64, &mut f64, &mut f64) -> f64,
) {
    let graph = linear();
    let (mut session, _) = load(&graph, cell(&graph, Precision::Fp64, Some(optimizer))).unwrap();
    let parity = session.parity(3).unwrap();
    let (told, losses) = ByHand::new().train(update);
    let names: Vec<_> = parity.tensors.iter().map(name).collect();
    let expected = [
        "gradient of w",
        "gradient of b",
        "update of w",
        "update of b",
    ];
    assert_eq!(names, expected);
    for (actual, expected) in arrays(&parity.tensors).iter().zip(&told) {
        assert_close(actual, expected, optimizer.name());
        assert!(
            expected.data.iter().all(|change| change.abs() > 1e-6),
            "nothing moved"
        );
    }
    assert_close(
        &Array::new(&[3], parity.losses),
        &Array::new(&[3], losses),
        "losses",
    );
}

fn name(tensor: &worker::Tensor) -> String {
    tensor.quantity.of(&tensor.name)
}

#[test]
fn running_statistics_move_by_those_of_the_first_batch() {
    let (batch, classes) = (BATCH, CLASSES);
    let mut operands = [
        operand("x", &[batch, classes]),
        operand("scale", &[classes]),
        operand("bias", &[classes]),
        operand("mean", &[classes]),
        operand("variance", &[classes]),
    ];
    for buffer in &mut operands[3..] {
        buffer.role = Role::Buffer;
    }
    let op = Op::BatchNormalization {
        epsilon: 1e-3,
        momentum: 0.25,
    };
    let mut graph = single(op, &operands);
    graph.loss = linear().loss;
    let (mut session, _) = load(&graph, cell(&graph, Precision::Fp64, Some(SGD))).unwrap();
    let tensors = session.parity(3).unwrap().tensors;
    let moved: Vec<_> = tensors
        .iter()
        .filter(|tensor| tensor.quantity == Quantity::Movement)
        .cloned()
        .collect();
    assert_eq!(
        moved.iter().map(name).collect::<Vec<_>>(),
        ["movement of mean", "movement of variance"]
    );
    let [x, _, _, mean, variance] = operands.map(|operand| operand.array());
    let of_batch = |c: usize| {
        let column: Vec<f64> = (0..batch).map(|n| x.at(&[n, c])).collect();
        let mean = column.iter().sum::<f64>() / batch as f64;
        let squares = column.iter().map(|x| (x - mean).powi(2)).sum::<f64>();
        [mean, squares / (batch - 1) as f64]
    };
    for (index, (actual, initial)) in arrays(&moved).iter().zip([mean, variance]).enumerate() {
        let expected = Array::from_fn(&[classes], |c| {
            0.25 * (of_batch(c[0])[index] - initial.at(c))
        });
        assert_close(actual, &expected, "statistics");
    }
}

#[test]
fn sgd_is_the_published_formula() {
    check_against_hand(SGD, |_, w, g, velocity, _| {
        *velocity = 0.9 * *velocity + (g + 0.01 * w);
        w - 0.1 * *velocity
    });
}

#[test]
fn adam_is_the_published_formula() {
    check_against_hand(ADAM, |step, w, g, mean, square| {
        let g = g + 0.1 * w;
        *mean = 0.9 * *mean + 0.1 * g;
        *square = 0.999 * *square + 0.001 * g * g;
        let mean = *mean / (1.0 - 0.9_f64.powi(step));
        let square = *square / (1.0 - 0.999_f64.powi(step));
        w - 0.01 * mean / (square.sqrt() + 1e-8)
    });
}

#[test]
fn training_without_a_loss_is_unsupported() {
    let graph = single(Op::Relu, &[operand("x", &[2])]);
    let outcome = load(&graph, cell(&graph, Precision::Fp32, Some(SGD)))
        .err()
        .unwrap();
    assert_eq!(outcome.kind, OutcomeKind::Unsupported);
    assert!(outcome.reason.contains("no loss"), "{outcome:?}");
}

fn small(name: &str) -> Graph {
    let sizes: &[(&str, u64)] = match name {
        "inception_v3" => &[("image", 107)],
        "vit_b16" => &[("image", 32)],
        "distilbert_base" | "gpt2" => &[("seq", 6)],
        "transformer_base" => &[("seq", 6), ("target", 5)],
        "lstm_lm" => &[("seq", 6)],
        "deepspeech2" => &[("frames", 9)],
        "bert_tiny" => &[("seq", 6)],
        _ => &[("image", 64)],
    };
    let sizes = sizes.iter().copied().chain([("batch", 2)]);
    let dims: BTreeMap<_, _> = sizes.map(|(name, size)| (name.to_owned(), size)).collect();
    models::zoo::build_for(name, &dims, Mode::Training).unwrap()
}

const GENTLE: Optimizer = Optimizer::Sgd {
    learning_rate: 1e-3,
    momentum: 0.9,
    weight_decay: 1e-4,
};

#[test]
fn a_reset_restores_every_bit() {
    let graph = small("resnet18");
    let (mut session, _) = load(&graph, cell(&graph, Precision::Fp32, Some(GENTLE))).unwrap();
    let first = session.parity(3).unwrap();
    for _ in 0..3 {
        session.step().unwrap();
    }
    assert_eq!(session.parity(3).unwrap(), first);
    session.step().unwrap();
    session.reset().unwrap();
    assert_eq!(session.parity(3).unwrap(), first);
}

#[test]
fn training_lowers_the_loss() {
    let graph = small("resnet18");
    let (mut session, _) = load(&graph, cell(&graph, Precision::Fp32, Some(GENTLE))).unwrap();
    let losses = session.parity(8).unwrap().losses;
    assert!(losses.iter().all(|loss| loss.is_finite()), "{losses:?}");
    assert!(losses[7] < losses[0], "{losses:?}");
}

/// What runs in place must not disturb a gradient: PyTorch itself refuses `backward` when a value
/// that it saved was overwritten.
#[test]
fn every_kind_of_network_trains() {
    for name in [
        "resnet18",
        "mobilenet_v2",
        "efficientnet_b4",
        "inception_v3",
        "vit_b16",
        "distilbert_base",
        "gpt2",
        "transformer_base",
        "lstm_lm",
        "deepspeech2",
    ] {
        let graph = small(name);
        let (mut session, _) = load(&graph, cell(&graph, Precision::Fp32, Some(GENTLE))).unwrap();
        session
            .step()
            .unwrap_or_else(|outcome| panic!("{name}: {outcome:?}"));
        let losses = session.parity(2).unwrap().losses;
        assert!(
            losses.iter().all(|loss| loss.is_finite()),
            "{name}: {losses:?}"
        );
    }
}

#[test]
fn a_training_that_has_diverged_says_so() {
    let rate = |learning_rate| Optimizer::Sgd {
        learning_rate,
        momentum: 0.0,
        weight_decay: 1.0,
    };
    for (precision, wild) in [
        (Precision::Fp32, 1e30),
        (Precision::Bf16, 1e30),
        (Precision::Fp64, 1e300),
    ] {
        let graph = linear();
        let diverged = |rate| {
            let (mut session, _) = load(&graph, cell(&graph, precision, Some(rate))).unwrap();
            for _ in 0..3 {
                session.step().unwrap();
            }
            let diverged = session.diverged().unwrap();
            session.reset().unwrap();
            assert_eq!(session.diverged().unwrap(), None);
            diverged
        };
        assert_eq!(diverged(rate(0.1)), None, "{precision}");
        let told = diverged(rate(wild));
        assert_eq!(told.as_deref(), Some("w"), "{precision}");
    }
}

/// Under autocast a bf16 product is what the layer makes, and its update is finer than a bf16 weight could say.
#[test]
fn mixed_precision_keeps_weights_wide_and_computes_narrow() {
    const MIXED: &str = "mixed_precision";
    let graph = linear();
    let of = |precision, mixed: Option<&str>| {
        let mut cell = cell(&graph, precision, Some(SGD));
        let factor = mixed.map(|value| (MIXED.to_owned(), value.to_owned()));
        cell.factors.extend(factor);
        let (mut session, report) = load(&graph, cell).unwrap();
        let told = session.parity(1).unwrap();
        session.step().unwrap();
        (told.losses[0], arrays(&told.tensors), report.settings)
    };
    let (wide, _, settings) = of(Precision::Fp32, None);
    assert!(!settings.contains_key("mixed precision"));
    let (loss, tensors, settings) = of(Precision::Bf16, Some("on"));
    assert_eq!(settings["element type"], "float");
    assert!(settings["arithmetic"].contains("bfloat16"));
    assert!(settings["mixed precision"].contains("autocast in bfloat16"));
    assert!(
        loss != wide && (loss / wide - 1.0).abs() < 0.02,
        "{loss} {wide}"
    );
    let is_narrow = |number: &f64| (*number as f32).to_bits().trailing_zeros() >= 12;
    let of_all = |tensors: &[Array]| tensors.iter().flat_map(|of| &of.data).all(is_narrow);
    assert!(!of_all(&tensors), "no number is wider than bf16's");
    let (_, tensors, _) = of(Precision::Bf16, Some("off"));
    assert!(of_all(&tensors), "numbers are wider than bf16's");

    let refused = |variant: &str, precision| {
        let mut cell = cell(&graph, precision, Some(SGD));
        cell.engine = format!("pytorch/{variant}").parse().unwrap();
        cell.factors.insert(MIXED.to_owned(), "on".to_owned());
        let outcome = load(&graph, cell).err().unwrap();
        assert_eq!(outcome.kind, OutcomeKind::Unsupported);
        outcome.reason
    };
    assert!(refused("eager", Precision::Fp32).contains("ask for precision bf16"));
    assert!(refused("aot", Precision::Bf16).contains("is for pytorch/eager"));
}

#[test]
fn dropout_drops_in_timed_steps() {
    let diverged = |ratio| {
        let (graph, wild) = sample::dropping(ratio).unwrap();
        let (mut session, _) = load(&graph, cell(&graph, Precision::Fp32, Some(wild))).unwrap();
        // What is judged is without.
        let judged = session.parity(1).unwrap();
        for _ in 0..sample::STEPS {
            session.step().unwrap();
        }
        (judged, session.diverged().unwrap())
    };
    let (whole, without) = diverged(0.0);
    let (dropped, with) = diverged(0.999_999);
    assert_eq!(without.as_deref(), Some("w"));
    assert_eq!(with, None);
    assert_eq!(whole.losses, dropped.losses);
}

/// In binary64 both forms take the same steps, under either optimiser: the gradients of the fused
/// kernels are those of their long form.
#[test]
fn long_forms_train_alike() {
    let factors = [(RECURRENT, UNROLLED), (ATTENTION, PLAIN)];
    let factors = factors.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let long_form = Rewriting::asked_by(&BTreeMap::from(factors));
    for (name, optimizer) in [
        ("lstm_lm", GENTLE),
        ("lstm_lm", ADAM),
        ("deepspeech2", GENTLE),
        ("bert_tiny", ADAM),
    ] {
        let graph = small(name);
        let trained = |graph: &Graph| {
            let cell = cell(graph, Precision::Fp64, Some(optimizer));
            let (mut session, _) = load(graph, cell).unwrap();
            session.parity(2).unwrap()
        };
        let (fused, long) = (
            trained(&graph),
            trained(&long_form.apply(graph.clone()).unwrap()),
        );
        for (fused, long) in fused.losses.iter().zip(&long.losses) {
            assert!((fused - long).abs() < 1e-9, "{name}: {fused} {long}");
        }
        let gradients = |parity: &worker::ParityData| {
            let tensors = parity.tensors.iter();
            let gradients = tensors.filter(|tensor| tensor.quantity == Quantity::Gradient);
            gradients.cloned().collect::<Vec<_>>()
        };
        let (fused, long) = (gradients(&fused), gradients(&long));
        let names = |tensors: &[worker::Tensor]| tensors.iter().map(self::name).collect::<Vec<_>>();
        assert_eq!(names(&fused), names(&long), "{name}");
        for ((fused, long), tensor) in arrays(&fused).iter().zip(arrays(&long)).zip(&fused) {
            let largest = fused.data.iter().fold(0.0_f64, |most, x| most.max(x.abs()));
            let off = fused
                .data
                .iter()
                .zip(&long.data)
                .map(|(a, b)| (a - b).abs());
            let off = off.fold(0.0, f64::max);
            assert!(
                off <= 1e-9 * (1.0 + largest),
                "{name}, {}: {off:e}",
                tensor.name
            );
        }
    }
}
