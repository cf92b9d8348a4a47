//! Spelling operators out: other graphs, the same numbers.

use std::{collections::BTreeMap, fs, path::PathBuf};

use photofinish_models::{
    Numbers, infer,
    onnx::{self, Extensions},
    rewrite::{ATTENTION, DROPOUT, FUSED, OFF, ON, PLAIN, RECURRENT, Rewriting, UNROLLED},
    zoo,
};
use schema::{
    Digest, Graph, Mode, Precision,
    graph::{ElementType, Fill, Node, Op, Parameter, Role},
};

use crate::support::{
    judge::{held_against, options, scratch},
    networks::{one_op, side_by_side, small},
    python,
};

fn asked(factors: &[(&str, &str)]) -> Rewriting {
    let factors = factors
        .iter()
        .map(|&(name, value)| (name.to_owned(), value.to_owned()));
    Rewriting::asked_by(&factors.collect())
}

/// All that can be spelt out, spelt out.
fn spelt_out(graph: &Graph) -> Graph {
    asked(&[(RECURRENT, UNROLLED), (ATTENTION, PLAIN)])
        .apply(graph.clone())
        .expect("a graph that can be spelt out")
}

/// A graph of one recurrent layer with parameters of its own.
fn layer(op: Op, gates: u64, [batch, positions, features, size]: [u64; 4]) -> Graph {
    let (Op::Lstm { bidirectional } | Op::Gru { bidirectional }) = op else {
        panic!("{op:?} is no recurrent layer")
    };
    let rows = gates * size;
    let shapes: [&[u64]; 4] = [&[rows, features], &[rows, size], &[rows], &[rows]];
    let directions = if bidirectional { 2 } else { 1 };
    let parameters: Vec<Parameter> = (0..directions * 4)
        .map(|index| Parameter {
            name: format!("p{index}"),
            shape: shapes[index % 4].to_vec(),
            role: Role::Weight,
            fill: Fill::Uniform {
                low: -0.7,
                high: 0.9,
            },
        })
        .collect();
    let reads: Vec<&str> = std::iter::once("x")
        .chain(parameters.iter().map(|parameter| parameter.name.as_str()))
        .collect();
    let mut graph = one_op(op, &[("x", &[batch, positions, features])], &reads);
    graph.parameters = parameters;
    graph
}

/// Every layer that there is, one position and one unit included.
fn layers() -> Vec<Graph> {
    let mut graphs = Vec::new();
    for bidirectional in [false, true] {
        for sizes in [[2, 5, 3, 4], [1, 1, 2, 1]] {
            graphs.push(layer(Op::Lstm { bidirectional }, 4, sizes));
            graphs.push(layer(Op::Gru { bidirectional }, 3, sizes));
        }
    }
    graphs
}

fn attentions() -> Graph {
    let text: &[u64] = &[2, 5, 8];
    let attention = |heads, causal, keys: &[u64]| {
        let operands = [("q", text), ("k", keys), ("v", keys)];
        one_op(Op::Attention { heads, causal }, &operands, &["q", "k", "v"])
    };
    side_by_side([
        attention(2, true, text),
        attention(1, false, text),
        attention(4, false, &[2, 3, 8]),
    ])
}

fn save(folder: &std::path::Path, name: &str, graph: &Graph, opset: u32, fused: bool) -> PathBuf {
    let extensions = Extensions {
        multi_head_attention: fused,
    };
    let written = onnx::write_with(
        graph,
        &options(opset, Precision::Fp32),
        extensions,
        &Numbers::default(),
    );
    let path = folder.join(format!("{name}-{opset}.onnx"));
    fs::write(&path, written.expect("a model that ONNX can say").model).expect("a folder");
    path
}

#[test]
fn onnx_s_recurrent_layers_and_their_long_form_agree_with_the_reference() {
    for graph in layers() {
        let folder = scratch();
        let long = spelt_out(&graph);
        assert!(long.nodes.len() > 5 && long.outputs == graph.outputs);
        let files = [17, 21].map(|opset| save(folder.path(), "own", &graph, opset, false));
        for (file, opset) in files.iter().zip(["17", "21"]) {
            python::run("check.py", &[file, opset.as_ref()]);
        }
        let [old, new] = files;
        let files = [old, new, save(folder.path(), "long", &long, 21, false)];
        for (error, output) in held_against(&graph, &files, folder.path()).errors {
            assert!(
                error < 1e-6,
                "{} {output}: {error}",
                graph.nodes[0].op.name()
            );
        }
    }
}

#[test]
fn attention_in_its_long_form_and_in_onnx_runtime_s_own_agrees_with_the_reference() {
    let folder = scratch();
    let graph = attentions();
    let long = spelt_out(&graph);
    let is_gone = |node: &Node| !matches!(node.op, Op::Attention { .. });
    assert!(long.nodes.iter().all(is_gone));
    let files = [
        save(folder.path(), "long", &long, 17, false),
        save(folder.path(), "fused", &graph, 21, true),
    ];
    let bytes = fs::read(&files[1]).expect("a file");
    let operator = b"MultiHeadAttention";
    let named = bytes
        .windows(operator.len())
        .filter(|name| name == operator);
    assert_eq!(named.count(), 3);
    for (error, output) in held_against(&graph, &files, folder.path()).errors {
        assert!(error < 1e-6, "{output}: {error}");
    }
}

/// ONNX Runtime could find attention in its long form and fuse it again, or take its own operator
/// apart: then the factor would say what is not so.
#[test]
fn onnx_runtime_runs_attention_in_the_form_that_it_is_given() {
    let graph = small("bert_tiny", 2);
    let folder = scratch();
    let operators = |name, graph: &Graph, fused| -> BTreeMap<String, u64> {
        let file = save(folder.path(), name, graph, 21, fused);
        let printed = python::run("operators.py", &[&file]);
        serde_json::from_str(&printed).expect("counts")
    };
    let composed = operators("composed", &graph, false);
    assert_eq!(composed.get("Softmax"), Some(&2));
    assert!(!composed.keys().any(|name| name.contains("Attention")));
    // The long form is what composing attention makes: the same operators as ever.
    assert_eq!(operators("long", &spelt_out(&graph), false), composed);
    let fused = operators("fused", &graph, true);
    assert_eq!(fused.get("MultiHeadAttention"), Some(&2));
    assert_eq!(fused.get("Softmax"), None);
}

#[test]
fn networks_compute_the_same_in_their_long_form() {
    for name in ["bert_tiny", "gpt2", "lstm_lm", "deepspeech2"] {
        let folder = scratch();
        let graph = small(name, 2);
        let files = [save(folder.path(), "long", &spelt_out(&graph), 21, false)];
        for (error, output) in held_against(&graph, &files, folder.path()).errors {
            assert!(error < 1e-5, "{name} {output}: {error}");
        }
    }
}

/// Whatever a user has called the values of a graph.
#[test]
fn names_of_the_graph_are_left_alone() {
    let mut graph = layer(
        Op::Gru {
            bidirectional: true,
        },
        3,
        [2, 3, 4, 5],
    );
    for (parameter, name) in ["node.0.1.state", "recurrent.zeros.2.5", "node.1.sequence"]
        .into_iter()
        .enumerate()
    {
        graph.parameters[parameter].name = name.to_owned();
        graph.nodes[0].inputs[parameter + 1] = name.to_owned();
    }
    let long = spelt_out(&graph);
    let types = infer::shapes(&long).expect("a sound graph");
    assert_eq!(types["y"].shape, [2, 3, 10]);
    assert_eq!(long.parameters[..8], graph.parameters[..]);
}

#[test]
fn what_is_not_asked_for_stays() {
    let bert = small("bert_tiny", 1);
    let digest = Digest::of_value(&bert);
    for factors in [
        &[][..],
        &[(ATTENTION, FUSED)],
        &[(DROPOUT, ON)],
        &[(ATTENTION, "flash"), (RECURRENT, UNROLLED)],
    ] {
        let same = asked(factors).apply(bert.clone()).expect("a graph");
        assert_eq!(Digest::of_value(&same), digest);
    }
    let words = small("lstm_lm", 1);
    let same = asked(&[(ATTENTION, PLAIN)]).apply(words.clone());
    assert_eq!(same, Ok(words));
}

#[test]
fn dropout_that_is_off_drops_nothing_and_nothing_else_changes() {
    for name in zoo::names() {
        let graph = zoo::build_for(name, &BTreeMap::new(), Mode::Training).expect("a network");
        let off = asked(&[(DROPOUT, OFF)])
            .apply(graph.clone())
            .expect("a graph");
        let ratios = |graph: &Graph| -> Vec<f32> {
            let nodes = graph.nodes.iter();
            let ratios = nodes.filter_map(|node| match node.op {
                Op::Dropout { ratio } => Some(ratio),
                _ => None,
            });
            ratios.collect()
        };
        assert!(ratios(&graph).iter().all(|&ratio| ratio > 0.0), "{name}");
        assert!(ratios(&off).iter().all(|&ratio| ratio == 0.0), "{name}");
        let mut same = off;
        let (before, after) = (graph.nodes.iter(), same.nodes.iter_mut());
        for (before, after) in before.zip(after) {
            if matches!(before.op, Op::Dropout { .. }) {
                after.op.clone_from(&before.op);
            }
        }
        assert_eq!(same, graph);
    }
}

#[test]
fn long_forms_are_sound_at_every_size_and_share_their_constants() {
    for name in zoo::names() {
        let graph = small(name, 3);
        let long = spelt_out(&graph);
        let (before, after) = (infer::shapes(&graph), infer::shapes(&long));
        let (before, after) = (before.expect("sound"), after.expect("sound"));
        for (value, its_type) in before {
            assert_eq!(after.get(&value), Some(&its_type), "{name}: {value}");
        }
        assert!(
            long.parameters.len() <= graph.parameters.len() + 2,
            "{name}"
        );
        assert_eq!(long.loss, graph.loss);
    }
}

#[test]
fn a_sequence_too_long_to_spell_out_is_refused() {
    let dims = BTreeMap::from([("frames".to_owned(), 1200)]);
    let speech = zoo::build("deepspeech2", &dims).expect("a model of the zoo");
    let refused = asked(&[(RECURRENT, UNROLLED)]).apply(speech).unwrap_err();
    let message = refused.to_string();
    assert!(
        message.contains("(GRU)") && message.contains("shorter"),
        "{message}"
    );
    let endless = layer(
        Op::Lstm {
            bidirectional: false,
        },
        4,
        [1, 1 << 38, 1, 1],
    );
    assert!(asked(&[(RECURRENT, UNROLLED)]).apply(endless).is_err());
}

#[test]
fn onnx_wants_the_weights_of_a_layer_as_parameters() {
    let mut graph = layer(
        Op::Lstm {
            bidirectional: false,
        },
        4,
        [1, 2, 3, 4],
    );
    let parameter = graph.parameters.remove(0);
    graph.inputs.push(schema::graph::Input {
        name: parameter.name,
        element: ElementType::Float,
        shape: parameter.shape,
        fill: parameter.fill,
    });
    let error = onnx::write(&graph, &options(21, Precision::Fp32)).unwrap_err();
    assert!(
        error.to_string().contains("reads `p0` as a weight"),
        "{error}"
    );
    // The long form has no such wish.
    assert!(onnx::write(&spelt_out(&graph), &options(21, Precision::Fp32)).is_ok());
}

#[test]
fn parameters_of_other_shapes_are_refused() {
    for (index, shape, wanted) in [
        (0, vec![16, 2], "want [16, 3]"),
        (1, vec![16], "must have two axes"),
        (3, vec![15], "want [16]"),
    ] {
        let mut graph = layer(
            Op::Lstm {
                bidirectional: false,
            },
            4,
            [1, 2, 3, 4],
        );
        graph.parameters[index].shape = shape;
        let error = infer::shapes(&graph).unwrap_err().to_string();
        assert!(
            error.contains("(LSTM)") && error.contains(wanted),
            "{error}"
        );
    }
    let mut graph = layer(
        Op::Gru {
            bidirectional: false,
        },
        3,
        [1, 2, 3, 4],
    );
    graph.nodes[0].op = Op::Gru {
        bidirectional: true,
    };
    let error = infer::shapes(&graph).unwrap_err().to_string();
    assert!(error.contains("reads 9 values, 5 are named"), "{error}");
    graph.nodes[0].op = Op::Gru {
        bidirectional: false,
    };
    graph.parameters[1].shape = vec![u64::MAX, u64::MAX];
    assert!(infer::shapes(&graph).is_err());
}
