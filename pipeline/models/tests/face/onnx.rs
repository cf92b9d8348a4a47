//! The ONNX writer before ONNX's own judges: its checker, its shape inference, ONNX Runtime; and
//! before a reference in numpy that knows only the documentation. The long form (`PHOTOFINISH_TEST_FULL`)
//! judges the whole zoo.

use std::{collections::BTreeMap, path::Path};

use photofinish_models::{
    onnx::{self, WriteOptions},
    zoo,
};
use schema::{
    Graph, Precision,
    graph::{Approximation, Border, Fill, Interpolation, Op, Parameter, Role},
};

use crate::support::{
    judge::{Findings, options, reference, save, scratch},
    networks::{is_asked, one_op, side_by_side, small},
    python,
};

const DATA: &str = "weights.bin";

const GELU_BY_TANH: Op = Op::Gelu {
    approximate: Approximation::Tanh,
};

fn check(graph: &Graph, options: &WriteOptions) {
    let folder = scratch();
    let path = save(folder.path(), graph, options);
    python::run("check.py", &[&path, Path::new(&options.opset.to_string())]);
}

/// Large models take the way of large models: an external file.
fn check_zoo(opset: u32) {
    // One that is large is always among them.
    let is_asked = |name: &&str| is_asked(name) || *name == "distilbert_base";
    for name in zoo::names().into_iter().filter(is_asked) {
        let graph = small(name, 1);
        let mut options = options(opset, Precision::Fp32);
        if weight_bytes(&graph) > 200 << 20 {
            options.external = Some(DATA.to_owned());
            options.threshold = 1 << 16;
        }
        check(&graph, &options);
    }
}

/// Bytes of the parameters in binary32.
fn weight_bytes(graph: &Graph) -> u64 {
    let elements = |parameter: &Parameter| parameter.shape.iter().product::<u64>();
    4 * graph.parameters.iter().map(elements).sum::<u64>()
}

#[test]
fn the_reader_knows_the_attributes_and_outputs_of_onnxs_operators() {
    for opset in 13..=22 {
        let printed = python::run("attributes.py", &[Path::new(&opset.to_string())]);
        let schemas: BTreeMap<String, (BTreeMap<String, i32>, usize)> =
            serde_json::from_str(&printed).expect("operators");
        for (op, attributes) in onnx::operators_read(opset) {
            let attributes = attributes.into_iter();
            let ours: BTreeMap<String, i32> = attributes
                .map(|(name, r#type)| (name.to_owned(), r#type))
                .collect();
            // Some came later.
            let Some((theirs, outputs)) = schemas.get(op) else {
                continue;
            };
            assert_eq!(&ours, theirs, "{op} in opset {opset}");
            // Without a bound schemas say 2^31 - 1.
            let most = onnx::most_outputs(op, opset).min((1 << 31) - 1);
            assert_eq!(most, *outputs, "{op} in opset {opset}");
        }
        assert!(schemas.len() > 100, "{}", schemas.len());
    }
}

#[test]
fn the_checker_accepts_the_zoo_at_opset_17() {
    check_zoo(17);
}

#[test]
fn the_checker_accepts_the_zoo_at_opset_21() {
    check_zoo(21);
}

#[test]
fn the_checker_accepts_every_opset_and_precision() {
    for opset in onnx::OPSETS {
        check(&small("bert_tiny", 2), &options(opset, Precision::Bf16));
        check(&small("mobilenet_v2", 2), &options(opset, Precision::Fp16));
    }
    check(&small("mobilenet_v2", 2), &options(17, Precision::Fp64));
    check(&small("mobilenet_v2", 2), &options(22, Precision::Bf16));
    check(&small("bert_tiny", 2), &options(17, Precision::Tf32));
    // What only large networks have.
    let text: &[u64] = &[2, 5, 8];
    let graph = side_by_side([
        one_op(GELU_BY_TANH, &[("x", text)], &["x"]),
        one_op(Op::Gemm, &[("x", text), ("w", &[8, 3])], &["x", "w"]),
        one_op(
            Op::Expand { shape: vec![4, 1] },
            &[("x", &[3, 1, 2])],
            &["x"],
        ),
    ]);
    for opset in onnx::OPSETS {
        check(&graph, &options(opset, Precision::Bf16));
        check(&graph, &options(opset, Precision::Fp16));
    }
}

#[test]
fn bf16_convolutions_are_refused_before_opset_22() {
    let error = onnx::write(&small("resnet18", 1), &options(21, Precision::Bf16)).unwrap_err();
    assert!(error.to_string().contains("node `conv1` (Conv)"), "{error}");
    assert!(
        error.to_string().contains("take opset 22 or fp16"),
        "{error}"
    );
}

#[test]
fn other_opsets_are_refused() {
    for opset in [0, 16, 23, u32::MAX] {
        let error = onnx::write(&small("bert_tiny", 1), &options(opset, Precision::Fp32));
        assert!(error.unwrap_err().to_string().contains("take 17 to 22"));
    }
}

#[test]
fn a_model_above_two_gibibytes_needs_a_file_beside_it() {
    let weight = Parameter {
        name: "w".into(),
        shape: vec![1 << 15, 1 << 14],
        role: Role::Weight,
        fill: Fill::Constant { value: 0.5 },
    };
    let mut graph = one_op(Op::Linear, &[("x", &[1, 1 << 14])], &["x", "w"]);
    graph.parameters.push(weight);
    let error = onnx::write(&graph, &options(21, Precision::Fp32)).unwrap_err();
    assert!(
        error.to_string().contains("name a file for external data"),
        "{error}"
    );
}

#[test]
fn external_tensors_lie_on_pages() {
    let graph = small("bert_tiny", 1);
    let mut options = options(21, Precision::Fp32);
    options.external = Some(DATA.to_owned());
    options.threshold = 4096;
    let external = onnx::write(&graph, &options).unwrap();
    options.external = None;
    let inside = onnx::write(&graph, &options).unwrap();
    let data = external.data.unwrap();
    assert!(inside.data.is_none());
    assert!(external.model.len() + data.len() > inside.model.len());
    assert!(external.model.len() * 10 < inside.model.len());
    // The first tensor is the table of words; the second starts at a page after it.
    let table = 30_522 * 128 * 4_usize;
    let second = table.next_multiple_of(4096);
    assert!(data[table..second].iter().all(|&byte| byte == 0));
    assert!(data[second..second + 4].iter().any(|&byte| byte != 0));
}

#[test]
fn onnx_runtime_agrees_with_the_reference() {
    for name in [
        "resnet18",
        "resnet50",
        "mobilenet_v2",
        "efficientnet_b4",
        "inception_v3",
        "vit_b16",
        "bert_tiny",
        "distilbert_base",
        "gpt2",
        "transformer_base",
        "lstm_lm",
        "deepspeech2",
    ]
    .into_iter()
    .filter(|name| is_asked(name))
    {
        let written = [
            options(17, Precision::Fp32),
            options(21, Precision::Fp32),
            options(17, Precision::Fp16),
        ];
        let findings = reference(&small(name, 2), &written);
        let [(old, _), (new, _), (half, _)] = findings.errors[..] else {
            panic!("three files were given")
        };
        assert!(old < 1e-5 && new < 1e-5, "{name}: {old} {new}");
        assert!(half > 1e-5 && half < 2e-2, "{name}: {half}");
    }
}

#[test]
fn activations_stay_of_order_one_and_follow_the_input() {
    for name in [
        "resnet18",
        "resnet152",
        "mobilenet_v2",
        "efficientnet_b4",
        "inception_v3",
        "vit_b16",
        "bert_tiny",
        "distilbert_base",
        "gpt2",
        "transformer_base",
        "lstm_lm",
        "deepspeech2",
    ]
    .into_iter()
    .filter(|name| is_asked(name))
    {
        let Findings {
            smallest,
            largest,
            output,
            sensitivity,
            ..
        } = reference(&small(name, 4), &[]);
        let range = format!("{name}: {smallest} to {largest}, output {output} moves {sensitivity}");
        println!("{range}");
        assert!(smallest > 0.01 && largest < 15.0, "{range}");
        assert!((0.1..10.0).contains(&output), "{range}");
        assert!(sensitivity > 0.03, "{range}");
    }
}

const fn resize(sizes: [u64; 2], interpolation: Interpolation) -> Op {
    Op::Resize {
        sizes,
        interpolation,
    }
}

#[test]
fn operators_that_the_zoo_does_not_show_agree_with_the_reference() {
    let image: &[u64] = &[2, 4, 9, 7];
    let text: &[u64] = &[2, 5, 8];
    let cases = [
        one_op(
            Op::Attention {
                heads: 2,
                causal: true,
            },
            &[("q", text), ("k", text), ("v", text)],
            &["q", "k", "v"],
        ),
        one_op(
            Op::Attention {
                heads: 4,
                causal: false,
            },
            &[("q", text), ("k", &[2, 3, 8]), ("v", &[2, 3, 8])],
            &["q", "k", "v"],
        ),
        one_op(
            Op::MaxPool {
                kernel: [3, 2],
                strides: [2, 3],
                pads: [1, 0, 1, 1],
                ceil_mode: true,
            },
            &[("x", image)],
            &["x"],
        ),
        one_op(
            Op::MaxPool {
                kernel: [2, 2],
                strides: [2, 2],
                pads: [0; 4],
                ceil_mode: true,
            },
            &[("x", image)],
            &["x"],
        ),
        one_op(
            Op::AveragePool {
                kernel: [3, 3],
                strides: [2, 2],
                pads: [1, 1, 0, 1],
                count_include_pad: false,
            },
            &[("x", image)],
            &["x"],
        ),
        one_op(
            Op::AveragePool {
                kernel: [3, 3],
                strides: [2, 2],
                pads: [1, 1, 0, 1],
                count_include_pad: true,
            },
            &[("x", image)],
            &["x"],
        ),
        one_op(
            Op::Conv {
                strides: [2, 1],
                pads: [1, 2, 0, 1],
                dilations: [2, 1],
                group: 2,
            },
            &[("x", image), ("w", &[6, 2, 2, 3]), ("b", &[6])],
            &["x", "w", "b"],
        ),
        one_op(Op::Flatten { axis: 2 }, &[("x", image)], &["x"]),
        one_op(Op::Flatten { axis: 0 }, &[("x", image)], &["x"]),
        one_op(
            Op::Transpose {
                perm: vec![3, 0, 2, 1],
            },
            &[("x", image)],
            &["x"],
        ),
        one_op(
            Op::Concat { axis: 1 },
            &[("a", text), ("b", &[2, 3, 8])],
            &["a", "b"],
        ),
        one_op(
            Op::MatMul,
            &[("a", &[2, 1, 3, 4]), ("b", &[5, 4, 2])],
            &["a", "b"],
        ),
        one_op(Op::Linear, &[("x", text), ("w", &[3, 8])], &["x", "w"]),
        one_op(
            Op::Linear,
            &[("x", &[8]), ("w", &[3, 8]), ("b", &[3])],
            &["x", "w", "b"],
        ),
        one_op(
            Op::Gemm,
            &[("x", text), ("w", &[8, 3]), ("b", &[3])],
            &["x", "w", "b"],
        ),
        one_op(Op::Gemm, &[("x", text), ("w", &[8, 3])], &["x", "w"]),
        one_op(
            Op::Gemm,
            &[("x", &[5, 8]), ("w", &[8, 3]), ("b", &[3])],
            &["x", "w", "b"],
        ),
        one_op(Op::Gemm, &[("x", &[5, 8]), ("w", &[8, 3])], &["x", "w"]),
        one_op(GELU_BY_TANH, &[("x", text)], &["x"]),
        one_op(
            Op::Expand {
                shape: vec![4, 1, 1, 8],
            },
            &[("x", &[2, 1, 1])],
            &["x"],
        ),
        one_op(Op::Softmax { axis: -2 }, &[("x", text)], &["x"]),
        one_op(Op::Mul, &[("a", text), ("b", &[5, 1])], &["a", "b"]),
        one_op(Op::Div, &[("a", text), ("b", &[5, 1])], &["a", "b"]),
        one_op(Op::HardSigmoid, &[("x", text)], &["x"]),
        one_op(Op::HardSwish, &[("x", text)], &["x"]),
        one_op(Op::LeakyRelu { alpha: 0.3 }, &[("x", text)], &["x"]),
        one_op(Op::Elu { alpha: 0.7 }, &[("x", text)], &["x"]),
        one_op(
            Op::PRelu,
            &[("x", image), ("slope", &[4, 1, 1])],
            &["x", "slope"],
        ),
        one_op(Op::PRelu, &[("x", text), ("slope", &[])], &["x", "slope"]),
        one_op(Op::Softplus, &[("x", text)], &["x"]),
        one_op(Op::Exp, &[("x", text)], &["x"]),
        one_op(Op::Abs, &[("x", text)], &["x"]),
        one_op(Op::Sin, &[("x", text)], &["x"]),
        one_op(Op::Cos, &[("x", text)], &["x"]),
        one_op(Op::Max, &[("a", text), ("b", &[5, 1])], &["a", "b"]),
        one_op(Op::Min, &[("a", text), ("b", &[5, 1])], &["a", "b"]),
        one_op(Op::LogSoftmax { axis: 1 }, &[("x", text)], &["x"]),
        one_op(
            Op::InstanceNormalization { epsilon: 1e-3 },
            &[("x", image), ("scale", &[4]), ("bias", &[4])],
            &["x", "scale", "bias"],
        ),
        one_op(
            Op::ConvTranspose {
                strides: [2, 1],
                pads: [1, 0, 0, 1],
                output_padding: [1, 0],
                dilations: [1, 2],
                group: 2,
            },
            &[("x", image), ("w", &[4, 3, 2, 3]), ("b", &[6])],
            &["x", "w", "b"],
        ),
        one_op(
            resize([18, 21], Interpolation::Nearest),
            &[("x", image)],
            &["x"],
        ),
        one_op(
            resize([5, 10], Interpolation::Nearest),
            &[("x", image)],
            &["x"],
        ),
        one_op(
            resize([13, 4], Interpolation::Linear),
            &[("x", image)],
            &["x"],
        ),
        one_op(
            resize([13, 4], Interpolation::LinearCorners),
            &[("x", image)],
            &["x"],
        ),
        one_op(
            Op::Pad {
                begins: vec![0, 1, 2],
                ends: vec![1, 0, 3],
                border: Border::Constant { value: -0.5 },
            },
            &[("x", text)],
            &["x"],
        ),
        one_op(
            Op::Pad {
                begins: vec![0, 0, 2, 1],
                ends: vec![0, 0, 0, 3],
                border: Border::Reflect,
            },
            &[("x", image)],
            &["x"],
        ),
        one_op(Op::Dropout { ratio: 0.5 }, &[("x", text)], &["x"]),
        one_op(Op::Reshape { shape: vec![4, 20] }, &[("x", text)], &["x"]),
    ];
    let graph = side_by_side(cases);
    let written = [options(17, Precision::Fp32), options(21, Precision::Fp32)];
    for (error, output) in reference(&graph, &written).errors {
        assert!(error < 1e-6, "{output}: {error}");
    }
    check(&graph, &written[0]);
    check(&graph, &written[1]);
}

#[test]
fn all_layers_share_a_causal_mask() {
    let written = onnx::write(&small("transformer_base", 1), &options(21, Precision::Fp32));
    let (mask, model) = (b"attention.mask", written.unwrap().model);
    let named = model.windows(mask.len() + 1);
    let is_mask = |window: &&[u8]| window.starts_with(mask) && !window.ends_with(b"e");
    // Its name stands where it is written, and in each of the six layers that add it; `masked`
    // are the sums.
    assert_eq!(named.filter(is_mask).count(), 1 + 6);
}

#[test]
fn gelu_comes_in_two_kinds() {
    let gelu = |approximate| one_op(Op::Gelu { approximate }, &[("x", &[9])], &["x"]);
    let graph = side_by_side([gelu(Approximation::None), gelu(Approximation::Tanh)]);
    for opset in onnx::OPSETS {
        let found = reference(&graph, &[options(opset, Precision::Fp32)]);
        let (error, output) = &found.errors[0];
        assert!(*error < 1e-6, "opset {opset}, {output}: {error}");
    }
}

#[test]
fn names_of_the_graph_are_left_alone() {
    // The graph already uses the names that the writer would choose.
    let graph = one_op(Op::Silu, &[("node.sigmoid", &[3])], &["node.sigmoid"]);
    check(&graph, &options(17, Precision::Fp32));
    assert!(reference(&graph, &[options(17, Precision::Fp32)]).errors[0].0 < 1e-6);
}
