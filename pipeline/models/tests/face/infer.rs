//! Graphs from outside: what is wrong is named, and nothing panics.

use std::collections::BTreeMap;

use photofinish_models::{cost, fill, infer, onnx, zoo};
use proptest::prelude::*;
use schema::{
    Graph, Mode, Precision,
    graph::{
        Approximation, Border, ElementType, Fill, Input, Interpolation, Loss, Node, Op, Parameter,
        Role,
    },
};

fn bert() -> Graph {
    zoo::build("bert_tiny", &BTreeMap::from([("seq".into(), 4)])).expect("a model of the zoo")
}

fn resnet() -> Graph {
    zoo::build("resnet18", &BTreeMap::from([("image".into(), 32)])).expect("a model of the zoo")
}

/// The complaint about a graph that was spoiled.
fn complaint(mut graph: Graph, spoil: impl FnOnce(&mut Graph)) -> String {
    spoil(&mut graph);
    infer::shapes(&graph)
        .expect_err("a spoiled graph")
        .to_string()
}

fn node<'a>(graph: &'a mut Graph, name: &str) -> &'a mut Node {
    graph
        .nodes
        .iter_mut()
        .find(|node| node.name == name)
        .expect("a node of the graph")
}

fn parameter<'a>(graph: &'a mut Graph, name: &str) -> &'a mut Parameter {
    let named = graph
        .parameters
        .iter_mut()
        .find(|parameter| parameter.name == name);
    named.expect("a parameter of the graph")
}

#[test]
fn complaints_name_the_node_and_what_is_wrong() {
    let cases: [(&str, String); 15] = [
        (
            "node `fc` (Linear): reads 2 to 3 values, 1 are named",
            complaint(resnet(), |g| node(g, "fc").inputs.truncate(1)),
        ),
        (
            "node `conv1` (Conv): reads `nowhere`, which nothing before it makes",
            complaint(resnet(), |g| node(g, "conv1").inputs[0] = "nowhere".into()),
        ),
        (
            "node `relu` (MaxPool): its name is empty or taken by another node",
            complaint(resnet(), |g| node(g, "maxpool").name = "relu".into()),
        ),
        (
            "node `bn1` (BatchNormalization): a parameter has shape [63], not [64]",
            complaint(resnet(), |g| g.parameters[1].shape = vec![63]),
        ),
        (
            "node `bn1` (BatchNormalization): `bn1.running_mean` must be a parameter of role buffer",
            complaint(resnet(), |g| g.parameters[3].role = Role::Weight),
        ),
        (
            "node `fc` (Linear): input [1, 512] ends in 512, weight [1000, 511] wants 511",
            complaint(resnet(), |g| {
                parameter(g, "fc.weight").shape[1] = 511;
            }),
        ),
        (
            "node `fc` (Linear): weight shape [512] must have two axes",
            complaint(resnet(), |g| {
                parameter(g, "fc.weight").shape = vec![512];
            }),
        ),
        (
            "node `fc` (Gemm): input [1, 512] ends in 512, weight [1000, 512] wants 1000",
            complaint(resnet(), |g| node(g, "fc").op = Op::Gemm),
        ),
        (
            "node `relu` (Expand): shapes [1, 64, 16, 16] and [2, 64, 15, 16] do not broadcast",
            complaint(resnet(), |g| {
                let shape = vec![2, 64, 15, 16];
                node(g, "relu").op = Op::Expand { shape };
            }),
        ),
        (
            "node `embeddings.word_embeddings` (Gather): indices `input_ids`: reach 30522, and only 0 to 30521 exist",
            complaint(bert(), |g| {
                g.inputs[0].fill = Fill::Integers { bound: 30_523 }
            }),
        ),
        (
            "node `embeddings.position_embeddings` (Gather): indices `embeddings.position_ids`: reach 3, and only 0 to 2 exist",
            complaint(bert(), |g| {
                parameter(g, "embeddings.position_embeddings.weight").shape[0] = 3;
            }),
        ),
        (
            "value `input`: its name is taken by another value",
            complaint(resnet(), |g| node(g, "relu").outputs[0] = "input".into()),
        ),
        (
            "value `nothing`: is an output, and no node makes it",
            complaint(resnet(), |g| g.outputs.push("nothing".into())),
        ),
        (
            "value `conv1.weight`: is an output, and no node makes it",
            complaint(resnet(), |g| g.outputs.push("conv1.weight".into())),
        ),
        (
            "value `input`: shape [1, 3, 0, 32] has an axis of size 0",
            complaint(resnet(), |g| g.inputs[0].shape[2] = 0),
        ),
    ];
    for (wanted, said) in cases {
        assert!(said.ends_with(wanted), "\nwanted {wanted}\nsaid   {said}");
    }
}

#[test]
fn labels_belong_to_the_loss() {
    let spoil = |change: fn(&mut Input)| {
        complaint(resnet(), |graph| {
            let Some(Loss::CrossEntropy { labels, .. }) = &mut graph.loss else {
                return;
            };
            change(labels);
        })
    };
    assert!(spoil(|labels| labels.shape = vec![2]).contains("wants labels of shape [1]"));
    assert!(spoil(|labels| labels.fill = Fill::Integers { bound: 1001 }).contains("reach 1000"));
    let read = complaint(bert(), |graph| {
        graph.loss = Some(Loss::CrossEntropy {
            logits: "pooler_output".into(),
            labels: Input {
                name: "labels".into(),
                element: ElementType::Int64,
                shape: vec![1],
                fill: Fill::Integers { bound: 128 },
            },
        });
        node(graph, "embeddings.token_type_embeddings").inputs[1] = "labels".into();
    });
    assert!(
        read.contains("reads `labels`, which only the loss may"),
        "{read}"
    );
}

#[test]
fn fills_must_suit_their_tensors() {
    let bad = [
        Fill::Uniform {
            low: 1.0,
            high: -1.0,
        },
        Fill::Uniform {
            low: f32::NAN,
            high: 1.0,
        },
        Fill::Uniform {
            low: f32::MIN,
            high: f32::MAX,
        },
        Fill::Constant {
            value: f32::INFINITY,
        },
        Fill::Integers { bound: 3 },
        Fill::Positions,
        Fill::Sinusoids { width: 0 },
        Fill::Sinusoids { width: 3 },
        Fill::Sinusoids {
            width: u64::MAX - 1,
        },
    ];
    for fill in bad {
        let said = complaint(resnet(), |graph| graph.parameters[0].fill = fill);
        assert!(
            said.contains("value `conv1.weight`") || said.contains("node `conv1`"),
            "{said}"
        );
    }
    for fill in [
        Fill::Integers { bound: 0 },
        Fill::Constant { value: 0.5 },
        Fill::Constant { value: -1.0 },
        Fill::Sinusoids { width: 4 },
    ] {
        let said = complaint(bert(), |graph| graph.inputs[0].fill = fill);
        assert!(said.contains("input_ids"), "{said}");
    }
}

/// Shapes that often fit each other, and some that fit nothing.
fn sizes() -> impl Strategy<Value = Vec<u64>> {
    let size = prop_oneof![8 => 0..5_u64, 1 => Just(u64::MAX), 1 => Just(1 << 33)];
    prop_oneof![
        4 => Just(vec![2, 4, 4, 4]),
        2 => Just(vec![4, 4, 1, 1]),
        2 => Just(vec![2, 4, 4]),
        2 => Just(vec![4, 4]),
        3 => Just(vec![4]),
        3 => proptest::collection::vec(size, 0..6),
    ]
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![12 => 1..3_u64, 2 => Just(0), 1 => Just(u64::MAX), 1 => Just(1 << 40)]
}

fn float() -> impl Strategy<Value = f32> {
    prop_oneof![8 => 0.01..0.99_f32, 1 => any::<f32>()]
}

fn pair() -> impl Strategy<Value = [u64; 2]> {
    [number(), number()]
}

fn pads() -> impl Strategy<Value = [u64; 4]> {
    prop_oneof![2 => Just([0; 4]), 1 => [number(), number(), number(), number()]]
}

/// How many values an operator usually reads.
fn usual_arity(op: &Op) -> usize {
    match op {
        Op::Conv { .. } | Op::ConvTranspose { .. } | Op::Add | Op::Mul | Op::Div | Op::MatMul => 2,
        Op::Max | Op::Min | Op::PRelu | Op::Linear | Op::Gemm | Op::Gather => 2,
        Op::LayerNormalization { .. } | Op::InstanceNormalization { .. } | Op::Attention { .. } => {
            3
        }
        Op::BatchNormalization { .. } | Op::Lstm { .. } | Op::Gru { .. } => 5,
        _ => 1,
    }
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        (pair(), pads(), pair(), number()).prop_map(|(strides, pads, dilations, group)| Op::Conv {
            strides,
            pads,
            dilations,
            group
        }),
        (pair(), pads(), pair(), pair(), number()).prop_map(
            |(strides, pads, output_padding, dilations, group)| Op::ConvTranspose {
                strides,
                pads,
                output_padding,
                dilations,
                group
            }
        ),
        pair().prop_map(|sizes| Op::Resize {
            sizes,
            interpolation: Interpolation::Linear
        }),
        (sizes(), sizes(), float()).prop_map(|(begins, ends, value)| Op::Pad {
            begins,
            ends,
            border: Border::Constant { value }
        }),
        (sizes(), sizes()).prop_map(|(begins, ends)| Op::Pad {
            begins,
            ends,
            border: Border::Reflect
        }),
        (pair(), pair(), pads(), any::<bool>()).prop_map(|(kernel, strides, pads, ceil_mode)| {
            Op::MaxPool {
                kernel,
                strides,
                pads,
                ceil_mode,
            }
        }),
        (pair(), pair(), pads(), any::<bool>()).prop_map(
            |(kernel, strides, pads, count_include_pad)| Op::AveragePool {
                kernel,
                strides,
                pads,
                count_include_pad
            }
        ),
        (number(), any::<bool>()).prop_map(|(heads, causal)| Op::Attention { heads, causal }),
        proptest::bool::weighted(0.1).prop_map(|bidirectional| Op::Lstm { bidirectional }),
        proptest::bool::weighted(0.1).prop_map(|bidirectional| Op::Gru { bidirectional }),
        float().prop_map(|epsilon| Op::BatchNormalization {
            epsilon,
            momentum: epsilon
        }),
        float().prop_map(|epsilon| Op::LayerNormalization { epsilon }),
        float().prop_map(|epsilon| Op::InstanceNormalization { epsilon }),
        (float(), float()).prop_map(|(min, max)| Op::Clip { min, max }),
        float().prop_map(|alpha| Op::LeakyRelu { alpha }),
        float().prop_map(|alpha| Op::Elu { alpha }),
        (-3..3_i64).prop_map(|axis| Op::LogSoftmax { axis }),
        any::<i64>().prop_map(|axis| Op::Softmax { axis }),
        (-3..3_i64).prop_map(|axis| Op::Softmax { axis }),
        number().prop_map(|axis| Op::Flatten { axis }),
        sizes().prop_map(|shape| Op::Reshape { shape }),
        sizes().prop_map(|perm| Op::Transpose { perm }),
        sizes().prop_map(|shape| Op::Expand { shape }),
        number().prop_map(|axis| Op::Concat { axis }),
        (number(), number(), number()).prop_map(|(axis, start, end)| Op::Slice {
            axis,
            start,
            end
        }),
        number().prop_map(|axis| Op::Squeeze { axis }),
        float().prop_map(|ratio| Op::Dropout { ratio }),
        Just(Op::Add),
        Just(Op::Mul),
        Just(Op::Div),
        Just(Op::Max),
        Just(Op::PRelu),
        Just(Op::Sqrt),
        Just(Op::HardSigmoid),
        Just(Op::HardSwish),
        Just(Op::MatMul),
        Just(Op::Linear),
        Just(Op::Gemm),
        Just(Op::Gather),
        Just(Op::Relu),
        Just(Op::Gelu {
            approximate: Approximation::None
        }),
        Just(Op::Gelu {
            approximate: Approximation::Tanh
        }),
        Just(Op::Silu),
        Just(Op::GlobalAveragePool),
    ]
}

/// A chain of operators over a few values of any shape; most are nonsense, some are sound.
fn graph() -> impl Strategy<Value = Graph> {
    let value = (sizes(), any::<bool>());
    let reads = proptest::collection::vec(0..8_usize, 5);
    let step = (op(), reads, proptest::bool::weighted(0.1));
    (
        proptest::collection::vec(value, 1..5),
        proptest::collection::vec(step, 1..5),
    )
        .prop_map(|(values, steps)| {
            let name = |index: usize| format!("v{index}");
            let fill = Fill::Uniform {
                low: -1.0,
                high: 1.0,
            };
            let (inputs, parameters): (Vec<_>, Vec<_>) = values
                .iter()
                .enumerate()
                .partition(|(_, (_, is_input))| *is_input);
            let inputs = inputs.into_iter().map(|(index, (shape, _))| Input {
                name: name(index),
                element: ElementType::Float,
                shape: shape.clone(),
                fill,
            });
            let parameters = parameters.into_iter().map(|(index, (shape, _))| Parameter {
                name: name(index),
                shape: shape.clone(),
                role: if index % 2 == 0 {
                    Role::Weight
                } else {
                    Role::Buffer
                },
                fill,
            });
            let known = values.len();
            let nodes = steps
                .iter()
                .enumerate()
                .map(|(index, (op, reads, many))| Node {
                    name: format!("n{index}"),
                    op: op.clone(),
                    inputs: reads
                        .iter()
                        .take(if *many { reads.len() } else { usual_arity(op) })
                        .map(|&read| name(read % (known + index)))
                        .collect(),
                    outputs: vec![name(known + index)],
                    in_place: false,
                });
            Graph {
                name: "any".into(),
                inputs: inputs.collect(),
                parameters: parameters.collect(),
                nodes: nodes.collect(),
                outputs: vec![name(known + steps.len() - 1)],
                loss: None,
            }
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10 * ProptestConfig::default().cases))]

    #[test]
    fn any_graph_is_refused_or_served(graph in graph()) {
        let Ok(types) = infer::shapes(&graph) else {
            prop_assert!(cost::total(&graph, Mode::Training).is_err());
            return Ok(());
        };
        for value in types.values() {
            prop_assert!(value.elements() >= 1 && value.elements() <= infer::MAX_ELEMENTS);
        }
        // A cost may be too large to say; it never wraps around.
        if let (Ok(inference), Ok(training)) = (cost::total(&graph, Mode::Inference), cost::total(&graph, Mode::Training)) {
            prop_assert!(inference.flops <= training.flops);
        }
        let elements: u64 = graph.parameters.iter().map(|p| types[&p.name].elements()).sum();
        if elements < 1 << 16 {
            let filled: u64 = graph.parameters.iter().map(|p| fill::parameter(p).len() as u64).sum();
            prop_assert_eq!(filled, elements);
            let options = onnx::WriteOptions { opset: 17, precision: Precision::Fp32, external: None, threshold: 0 };
            // A causal mask is written out, and one over millions of positions is not; gates are put
            // in order where they are numbers, and not where something computes them.
            match onnx::write(&graph, &options) {
                Ok(_) => {}
                Err(refused) => {
                    let refused = refused.to_string();
                    let may_be = ["too large to write", "needs a parameter there"];
                    prop_assert!(may_be.iter().any(|reason| refused.contains(reason)), "{refused}");
                }
            }
        }
    }
}
