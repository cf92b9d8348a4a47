//! Costs against published figures and against sums done by hand.

use std::collections::BTreeMap;

use photofinish_models::{cost, zoo};
use schema::{
    Graph, Mode, Precision,
    graph::{ElementType, Fill, Input, Node, Op, Parameter, Role},
};

fn build(name: &str) -> Graph {
    zoo::build(name, &BTreeMap::new()).expect("a model of the zoo")
}

/// Multiply-adds of convolutions, linear maps and attention: what papers count.
fn multiply_adds(name: &str) -> f64 {
    let costs = cost::nodes(&build(name), Mode::Inference, Precision::Fp32).expect("a cost");
    let products = costs
        .iter()
        .filter(|cost| matches!(cost.op, "Conv" | "Linear" | "Attention"));
    products.map(|cost| cost.flops as f64 / 2.0).sum()
}

#[test]
fn multiply_adds_are_the_published_ones() {
    // `_ops` of torchvision's weights (10⁹ multiply-adds).
    for (name, published) in [
        ("resnet18", 1.814e9),
        ("resnet50", 4.089e9),
        ("resnet152", 11.514e9),
        ("vgg16", 15.47e9),
        ("mobilenet_v2", 0.301e9),
        ("efficientnet_b4", 4.394e9),
        ("inception_v3", 5.713e9),
        ("vit_b16", 17.564e9),
    ] {
        let ratio = multiply_adds(name) / published;
        assert!((ratio - 1.0).abs() < 0.01, "{name}: {ratio}");
    }
}

#[test]
fn all_operations_of_resnet_50_stay_near_its_products() {
    let flops = cost::total(&build("resnet50"), Mode::Inference)
        .unwrap()
        .flops as f64;
    assert!((flops / 8.18e9 - 1.0).abs() < 0.01, "{flops}");
}

#[test]
fn training_costs_about_three_times_inference() {
    for name in zoo::names() {
        let graph = zoo::build_for(name, &BTreeMap::from([("batch".into(), 8)]), Mode::Training);
        let graph = graph.unwrap();
        let training = cost::total(&graph, Mode::Training).unwrap();
        let inference = cost::total(&graph, Mode::Inference).unwrap();
        let ratio = training.flops as f64 / inference.flops as f64;
        assert!((2.5..3.2).contains(&ratio), "{name}: {ratio}");
        assert!(training.bytes > 2 * inference.bytes, "{name}");
        assert!(training.peak_bytes > 2 * inference.peak_bytes, "{name}");
        assert_eq!(training.parameters, inference.parameters);
    }
}

#[test]
fn cost_follows_batch_and_precision() {
    let at = |batch: u64, precision| {
        let graph = zoo::build("resnet18", &BTreeMap::from([("batch".into(), batch)])).unwrap();
        cost::total_at(&graph, Mode::Inference, precision).unwrap()
    };
    let one = at(1, Precision::Fp32);
    let eight = at(8, Precision::Fp32);
    assert_eq!(eight.flops, 8 * one.flops);
    assert!(eight.bytes > 4 * one.bytes && eight.bytes < 8 * one.bytes);
    assert_eq!(one.bytes, 2 * at(1, Precision::Fp16).bytes);
    assert_eq!(2 * one.peak_bytes, at(1, Precision::Fp64).peak_bytes);
}

#[test]
fn a_recurrent_layer_adds_up_by_hand() {
    let costs = |name: &str, dims: [(&str, u64); 2], node: &str| {
        let dims = dims.map(|(name, size)| (name.to_owned(), size));
        let graph = zoo::build(name, &BTreeMap::from(dims)).unwrap();
        let costs = cost::nodes(&graph, Mode::Inference, Precision::Fp32).unwrap();
        costs.into_iter().find(|cost| cost.node == node).unwrap()
    };
    // Two texts of seven words: at each of 14 positions and for each of 650 units four gates of two
    // products of 650 with their biases and sum; then 18 more.
    let lstm = costs("lstm_lm", [("batch", 2), ("seq", 7)], "rnn.l1");
    assert_eq!(
        (lstm.op, lstm.flops),
        ("LSTM", 14 * 650 * (4 * (2 * 1300 + 3) + 18))
    );
    // Nine frames leave five; both directions of 800 units read 1312 features.
    let gru = costs(
        "deepspeech2",
        [("batch", 2), ("frames", 9)],
        "rnns.0.rnn.l0",
    );
    assert_eq!(
        (gru.op, gru.flops),
        ("GRU", 10 * 1600 * (3 * (2 * 2112 + 3) + 13))
    );
}

#[test]
fn a_weight_costs_the_same_whichever_way_it_lies() {
    let mut graph = small();
    let before = cost::total(&graph, Mode::Training).unwrap();
    graph.nodes[0].op = Op::Gemm;
    graph.parameters[0].shape = vec![3, 4];
    assert_eq!(cost::total(&graph, Mode::Training).unwrap(), before);
}

#[test]
fn repeating_moves_nothing() {
    let mut graph = small();
    graph.nodes[2].op = Op::Expand {
        shape: vec![5, 1, 1],
    };
    let costs = cost::nodes(&graph, Mode::Inference, Precision::Fp32).unwrap();
    assert_eq!((costs[2].flops, costs[2].bytes), (0, 0));
    // The sum reads it twice and writes it.
    assert_eq!((costs[3].flops, costs[3].bytes), (40, 4 * 3 * 40));
}

/// `x [2,3] → Linear(4) → Relu → Add(x2) …`, small enough to count by hand.
fn small() -> Graph {
    let parameter = |name: &str, shape: &[u64]| Parameter {
        name: name.into(),
        shape: shape.to_vec(),
        role: Role::Weight,
        fill: Fill::Constant { value: 1.0 },
    };
    let node = |name: &str, op: Op, inputs: &[&str]| Node {
        name: name.into(),
        op,
        inputs: inputs.iter().map(|&input| input.into()).collect(),
        outputs: vec![name.into()],
        in_place: false,
    };
    Graph {
        name: "small".into(),
        inputs: vec![Input {
            name: "x".into(),
            element: ElementType::Float,
            shape: vec![2, 3],
            fill: Fill::Uniform {
                low: -1.0,
                high: 1.0,
            },
        }],
        parameters: vec![parameter("w", &[4, 3]), parameter("b", &[4])],
        nodes: vec![
            node("linear", Op::Linear, &["x", "w", "b"]),
            node("relu", Op::Relu, &["linear"]),
            node("flat", Op::Reshape { shape: vec![8] }, &["relu"]),
            node("twice", Op::Add, &["flat", "flat"]),
        ],
        outputs: vec!["twice".into()],
        loss: None,
    }
}

#[test]
fn a_small_graph_adds_up_by_hand() {
    let inference = cost::total(&small(), Mode::Inference).unwrap();
    // Linear: 2·8·3 + 8; relu 8; add 8.
    assert_eq!(inference.flops, 56 + 8 + 8);
    // Linear reads 6 + 12 + 4 and writes 8; relu 8 + 8; the reshape nothing; add 8 + 8 + 8.
    assert_eq!(inference.bytes, 4 * (30 + 16 + 24));
    assert_eq!(inference.parameters, 16);
    // Parameters 16, input 6; linear and relu alive together, then relu and the sum.
    assert_eq!(inference.peak_bytes, 4 * (16 + 6 + 16));

    let training = cost::total(&small(), Mode::Training).unwrap();
    // The input needs no gradient, weight and bias do: linear thrice; relu twice; add thrice.
    assert_eq!(training.flops, 3 * 56 + 2 * 8 + 3 * 8 + 4 * 16);
    // Parameters, gradients, momentum; three activations; two gradients; the input.
    assert_eq!(training.peak_bytes, 4 * (3 * 16 + 3 * 8 + 2 * 8 + 6));
}

#[test]
fn absurd_graphs_are_errors_not_overflows() {
    let mut graph = small();
    graph.parameters[0].shape = vec![1 << 40, 3];
    graph.parameters[1].shape = vec![1 << 40];
    assert!(cost::total(&graph, Mode::Training).is_err());
    graph.parameters[0].shape = vec![u64::MAX, u64::MAX];
    assert!(cost::total(&graph, Mode::Inference).is_err());
}
