//! The zoo at its face: names, sizes, published parameter counts.

use std::collections::{BTreeMap, BTreeSet};

use photofinish_models::{
    ModelError, cost, fill,
    infer::{self, ValueType},
    resolve, rewrite, zoo,
};
use schema::{
    Digest, Graph, Mode, Model, ModelSource,
    graph::{Loss, Op, Role},
};

fn dims(pairs: &[(&str, u64)]) -> BTreeMap<String, u64> {
    pairs
        .iter()
        .map(|&(name, size)| (name.to_owned(), size))
        .collect()
}

fn build(name: &str, pairs: &[(&str, u64)]) -> Graph {
    zoo::build(name, &dims(pairs)).expect("a model of the zoo")
}

fn weights(graph: &Graph) -> u64 {
    graph
        .parameters
        .iter()
        .filter(|parameter| parameter.role == Role::Weight)
        .map(|parameter| parameter.shape.iter().product::<u64>())
        .sum()
}

#[test]
fn parameter_counts_are_the_published_ones() {
    // torchvision's `num_params`, Inception's without the auxiliary head; Hugging Face's
    // `google/vit-base-patch16-224`, `bert-base-uncased` and `google/bert_uncased_L-2_H-128_A-2`
    // (both with pooler), `distilbert-base-uncased`, `gpt2`. The others are summed up below.
    let published = [
        ("resnet18", 11_689_512),
        ("resnet50", 25_557_032),
        ("resnet152", 60_192_808),
        ("vgg16", 138_357_544),
        ("mobilenet_v2", 3_504_872),
        ("efficientnet_b4", 19_341_616),
        ("inception_v3", 23_834_568),
        ("vit_b16", 86_567_656),
        ("bert_tiny", 4_385_920),
        ("bert_base", 109_482_240),
        ("distilbert_base", 66_362_880),
        ("gpt2", 124_439_808),
        ("transformer_base", 63_082_496),
        ("lstm_lm", 19_780_400),
        ("deepspeech2", 41_187_968),
    ];
    assert_eq!(published.map(|(name, _)| name).as_slice(), zoo::names());
    for (name, count) in published {
        assert_eq!(weights(&build(name, &[])), count, "{name}");
    }
}

#[test]
fn the_transformer_s_parameters_add_up() {
    let (width, inner) = (512, 2048);
    let table = 37_000 * width;
    let attention = 4 * (width * width + width);
    let feed_forward = width * inner + inner + inner * width + width;
    let norm = 2 * width;
    let encoder = attention + feed_forward + 2 * norm;
    let decoder = 2 * attention + feed_forward + 3 * norm;
    let whole = table + 6 * (encoder + decoder);
    for length in [1, 1024] {
        let graph = build("transformer_base", &[("seq", length), ("target", length)]);
        assert_eq!(weights(&graph), whole);
    }
    // What the paper's text has no biases for: 18 attentions of four maps.
    assert_eq!(whole - 18 * 4 * width, 63_045_632);
}

#[test]
fn the_parameters_of_the_recurrent_networks_add_up() {
    let layer = |gates: u64, from: u64, size: u64| gates * (size * from + size * size + 2 * size);
    let (words, width) = (10_000, 650);
    let whole = words * width + 2 * layer(4, width, width) + width * words + words;
    assert_eq!(weights(&build("lstm_lm", &[("seq", 3)])), whole);
    // With one bias a gate, as the paper has it, still its "20 M" as later papers' tables tell.
    assert_eq!((whole - 2 * 4 * width) / 100_000, 197);

    let (channels, size, norm) = (32, 800, 2);
    let heights = 41; // 161 frequencies, halved twice and rounded up
    let first = channels * 41 * 11 + channels + norm * channels;
    let second = channels * channels * 21 * 11 + channels + norm * channels;
    let below = 2 * layer(3, channels * heights, size);
    let above = 4 * (2 * layer(3, size, size) + norm * size);
    let whole = first + second + below + above + norm * size + 29 * size;
    assert_eq!(weights(&build("deepspeech2", &[("frames", 9)])), whole);
}

/// The table that a plan looks factors up in.
#[test]
fn factors_concern_the_networks_that_have_their_operators() {
    for name in zoo::names() {
        let graph = zoo::build_for(name, &BTreeMap::new(), Mode::Training).unwrap();
        for factor in [rewrite::RECURRENT, rewrite::ATTENTION, rewrite::DROPOUT] {
            let mut nodes = graph.nodes.iter();
            let decides = nodes.any(|node| rewrite::decides(factor, &node.op));
            assert_eq!(zoo::is_concerned(name, factor), decides, "{name} {factor}");
        }
        let has_images = graph.inputs.iter().any(|input| input.shape.len() == 4);
        assert_eq!(zoo::is_concerned(name, zoo::LAYOUT), has_images, "{name}");
        let mut parameters = graph.parameters.iter();
        assert_eq!(
            parameters.any(|own| own.shape.len() == 4),
            has_images,
            "{name}"
        );
        let convolves = |op: &Op| matches!(op, Op::Conv { .. } | Op::ConvTranspose { .. });
        let has_convolutions = graph.nodes.iter().any(|node| convolves(&node.op));
        assert_eq!(
            zoo::is_concerned(name, zoo::AUTOTUNE),
            has_convolutions,
            "{name}"
        );
        assert!(zoo::is_concerned(name, "spin"));
    }
    assert!(zoo::is_concerned(
        "a file of the user's",
        rewrite::ATTENTION
    ));
}

#[test]
fn outputs_have_their_shapes() {
    let shape = |graph: &Graph, output: usize| -> Vec<u64> {
        let types = infer::shapes(graph).unwrap();
        let ValueType { shape, .. } = &types[&graph.outputs[output]];
        shape.clone()
    };
    for name in [
        "resnet18",
        "resnet50",
        "resnet152",
        "vgg16",
        "mobilenet_v2",
        "efficientnet_b4",
        "inception_v3",
        "vit_b16",
    ] {
        assert_eq!(shape(&build(name, &[("batch", 3)]), 0), [3, 1000], "{name}");
    }
    let bert = build("bert_tiny", &[("batch", 2), ("seq", 7)]);
    assert_eq!(bert.outputs, ["last_hidden_state", "pooler_output"]);
    assert_eq!(shape(&bert, 0), [2, 7, 128]);
    assert_eq!(shape(&bert, 1), [2, 128]);
    assert_eq!(shape(&build("vgg16", &[("image", 448)]), 0), [1, 1000]);
    let distilbert = build("distilbert_base", &[("batch", 2), ("seq", 7)]);
    assert_eq!(distilbert.outputs, ["last_hidden_state"]);
    assert_eq!(shape(&distilbert, 0), [2, 7, 768]);
    let gpt2 = build("gpt2", &[("batch", 2), ("seq", 7)]);
    assert_eq!(shape(&gpt2, 0), [2, 7, 50_257]);
    let lengths = [("batch", 2), ("seq", 7), ("target", 5)];
    assert_eq!(
        shape(&build("transformer_base", &lengths), 0),
        [2, 5, 37_000]
    );
    let words = build("lstm_lm", &[("batch", 2), ("seq", 7)]);
    assert_eq!(shape(&words, 0), [2, 7, 10_000]);
    for (frames, left) in [(1, 1), (2, 1), (3, 2), (200, 100)] {
        let speech = build("deepspeech2", &[("batch", 2), ("frames", frames)]);
        assert_eq!(shape(&speech, 0), [2, left, 29], "{frames} frames");
    }
    let vit = build("vit_b16", &[("batch", 2), ("image", 32)]);
    assert_eq!(
        infer::shapes(&vit).unwrap()["embeddings.cat"].shape,
        [2, 5, 768]
    );
}

#[test]
fn dimensions_are_resolved_and_checked() {
    let resolved = zoo::resolve_dims("efficientnet_b4", &dims(&[("batch", 8)])).unwrap();
    assert_eq!(resolved, dims(&[("batch", 8), ("image", 380)]));
    assert_eq!(
        zoo::resolve_dims("bert_base", &dims(&[])).unwrap(),
        dims(&[("batch", 1), ("seq", 128)])
    );
    for (model, dim, size, wanted) in [
        ("resnet18", "batch", 0, "from 1 to 65536"),
        ("resnet18", "batch", u64::MAX, "from 1 to 65536"),
        ("resnet18", "image", 31, "from 32 to 8192"),
        ("vgg16", "image", 256, "a multiple of 224"),
        ("bert_tiny", "seq", 513, "from 1 to 512"),
        ("bert_tiny", "seq", 0, "from 1 to 512"),
        ("inception_v3", "image", 74, "from 75 to 8192"),
        ("vit_b16", "image", 225, "a multiple of 16"),
        ("distilbert_base", "seq", 513, "from 1 to 512"),
        ("gpt2", "seq", 1025, "from 1 to 1024"),
        ("transformer_base", "target", 0, "from 1 to 1024"),
        ("lstm_lm", "seq", 1025, "from 1 to 1024"),
        ("deepspeech2", "frames", 4001, "from 1 to 4000"),
    ] {
        let error = zoo::build(model, &dims(&[(dim, size)])).unwrap_err();
        assert!(matches!(error, ModelError::Dimension { .. }), "{error}");
        assert!(error.to_string().contains(wanted), "{error}");
    }
    let error = zoo::build("resnet18", &dims(&[("seq", 8)])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "model `resnet18` has no dimension `seq`; it has: batch, image"
    );
    // Each size is allowed, their product is not.
    let error = zoo::build("vgg16", &dims(&[("batch", 65_536), ("image", 8064)])).unwrap_err();
    assert!(
        error.to_string().contains("more than 2^40 elements"),
        "{error}"
    );
}

/// Asks at sizes that share drawings in ever changing order.
#[test]
fn drawings_know_of_a_network_what_building_it_tells() {
    let mut drawings = zoo::Drawings::default();
    for (name, mode) in zoo::names()
        .into_iter()
        .flat_map(|name| [Mode::Inference, Mode::Training].map(|mode| (name, mode)))
    {
        let (dim, sizes): (&str, &[u64]) = match name {
            "vgg16" => ("image", &[224, 448, 672, 8064]),
            "bert_tiny" | "bert_base" | "distilbert_base" => ("seq", &[1, 2, 31, 512]),
            "gpt2" | "lstm_lm" => ("seq", &[1, 2, 31, 1024]),
            "deepspeech2" => ("frames", &[1, 2, 31, 4000]),
            "transformer_base" => ("target", &[1, 2, 31, 1024]),
            "inception_v3" => ("image", &[75, 76, 299, 8192]),
            "vit_b16" => ("image", &[16, 224, 240, 1024]),
            _ => ("image", &[32, 33, 225, 8192]),
        };
        for batch in [1, 2, 17, 65_536] {
            for &size in sizes {
                let mut sizes = dims(&[("batch", batch), (dim, size)]);
                if name == "transformer_base" {
                    sizes.insert("seq".to_owned(), 1025 - size);
                }
                let built = zoo::build_for(name, &sizes, mode).ok().and_then(|graph| {
                    Some(zoo::Summary {
                        graph: Digest::of_value(&graph),
                        cost: cost::total(&graph, mode).ok()?,
                    })
                });
                let drawn = drawings.summary(name, &sizes, mode);
                assert_eq!(drawn, built, "{name} {mode} at {sizes:?}");
            }
        }
    }
    assert_eq!(drawings.summary("llama", &dims(&[]), Mode::Inference), None);
}

#[test]
fn unknown_models_get_a_suggestion() {
    let message = |name| zoo::build(name, &dims(&[])).unwrap_err().to_string();
    assert!(message("resnet81").contains("did you mean `resnet18`?"));
    assert!(message("mobilenetv2").contains("did you mean `mobilenet_v2`?"));
    assert!(message("gpt").contains("did you mean `gpt2`?"));
    assert!(!message("llama").contains("did you mean"));
    assert!(message("llama").contains("efficientnet_b4"));
}

#[test]
fn training_has_a_loss_and_the_same_numbers_to_start_from() {
    for name in zoo::names() {
        let training = zoo::build_for(name, &dims(&[("batch", 2)]), Mode::Training).unwrap();
        let Some(Loss::CrossEntropy { logits, .. }) = &training.loss else {
            panic!("{name} has no loss");
        };
        assert!(training.outputs.contains(logits));
        let inference = build(name, &[("batch", 2)]);
        let starts: BTreeSet<String> = training
            .parameters
            .iter()
            .map(|p| format!("{p:?}"))
            .collect();
        for parameter in &inference.parameters {
            assert!(
                starts.contains(&format!("{parameter:?}")),
                "{name}: {}",
                parameter.name
            );
        }
    }
    let bert = zoo::build_for("bert_base", &dims(&[]), Mode::Training).unwrap();
    assert_eq!(weights(&bert), 109_482_240 + 2 * 768 + 2);
    let distilbert = zoo::build_for("distilbert_base", &dims(&[]), Mode::Training).unwrap();
    let head = 768 * 768 + 768 + 2 * 768 + 2;
    assert_eq!(weights(&distilbert), 66_362_880 + head);
}

#[test]
fn training_on_one_value_a_channel_is_refused() {
    let tiny = |batch| {
        zoo::build_for(
            "resnet18",
            &dims(&[("batch", batch), ("image", 32)]),
            Mode::Training,
        )
    };
    let error = tiny(1).unwrap_err().to_string();
    assert!(
        error.contains("layer4.0.bn1") && error.contains("larger batch"),
        "{error}"
    );
    assert!(tiny(2).is_ok());
    assert!(zoo::build("resnet18", &dims(&[("image", 32)])).is_ok());
}

#[test]
fn resolving_holds_the_plan_to_its_graph() {
    let sizes = dims(&[("batch", 2)]);
    let graph = zoo::build_for("bert_tiny", &sizes, Mode::Training).unwrap();
    let model = |source, graph| Model {
        name: "bert_tiny".into(),
        source,
        graph,
        weights: None,
    };
    let planned = model(ModelSource::Zoo, Digest::of_value(&graph));
    assert_eq!(resolve(&planned, &sizes, Mode::Training), Ok(graph));
    let other = resolve(&planned, &dims(&[("batch", 3)]), Mode::Training).unwrap_err();
    assert!(other.to_string().contains("plan again"), "{other}");
    let file = model(ModelSource::Onnx, planned.graph);
    assert!(matches!(
        resolve(&file, &sizes, Mode::Inference),
        Err(ModelError::NoFile(_))
    ));
}

#[test]
fn names_are_those_of_published_state_dictionaries() {
    for (model, names) in [
        (
            "resnet50",
            [
                "layer1.0.downsample.1.running_var",
                "layer3.5.bn3.weight",
                "fc.bias",
            ],
        ),
        (
            "vgg16",
            [
                "features.28.weight",
                "classifier.0.weight",
                "classifier.6.bias",
            ],
        ),
        (
            "mobilenet_v2",
            [
                "features.1.conv.2.running_mean",
                "features.17.conv.0.0.weight",
                "features.18.1.bias",
            ],
        ),
        (
            "efficientnet_b4",
            [
                "features.1.0.block.1.fc1.bias",
                "features.7.1.block.3.1.weight",
                "classifier.1.weight",
            ],
        ),
        (
            "bert_base",
            [
                "encoder.layer.11.attention.self.query.weight",
                "embeddings.LayerNorm.bias",
                "pooler.dense.bias",
            ],
        ),
        (
            "inception_v3",
            [
                "Conv2d_1a_3x3.bn.running_mean",
                "Mixed_6b.branch7x7dbl_5.conv.weight",
                "Mixed_7c.branch3x3dbl_3b.bn.weight",
            ],
        ),
        (
            "vit_b16",
            [
                "embeddings.cls_token",
                "embeddings.patch_embeddings.projection.bias",
                "encoder.layer.11.attention.attention.key.weight",
            ],
        ),
        (
            "distilbert_base",
            [
                "embeddings.position_embeddings.weight",
                "transformer.layer.5.sa_layer_norm.bias",
                "transformer.layer.0.ffn.lin2.weight",
            ],
        ),
        (
            "gpt2",
            [
                "wpe.weight",
                "h.11.attn.c_attn.weight",
                "h.0.mlp.c_proj.bias",
            ],
        ),
        (
            "transformer_base",
            [
                "shared.weight",
                "decoder.layers.5.encoder_attn_layer_norm.bias",
                "encoder.layers.0.self_attn.out_proj.weight",
            ],
        ),
        (
            "lstm_lm",
            ["encoder.weight", "rnn.weight_hh_l1", "decoder.bias"],
        ),
        (
            "deepspeech2",
            [
                "conv.seq_module.4.running_mean",
                "rnns.4.rnn.bias_ih_l0_reverse",
                "fc.0.module.1.weight",
            ],
        ),
    ] {
        let graph = build(model, &[]);
        for name in names {
            assert!(
                graph.parameters.iter().any(|p| p.name == name),
                "{model}: {name}"
            );
        }
    }
}

#[test]
fn json_keeps_graphs_as_they_are() {
    for name in zoo::names() {
        let graph = build(name, &[]);
        let json = serde_json::to_string(&graph).unwrap();
        assert_eq!(
            serde_json::from_str::<Graph>(&json).unwrap(),
            graph,
            "{name}"
        );
    }
}

#[test]
fn every_parameter_makes_finite_numbers_of_its_shape() {
    let graph = build("mobilenet_v2", &[]);
    for parameter in &graph.parameters {
        let values = fill::parameter(parameter);
        assert_eq!(values.len() as u64, parameter.shape.iter().product::<u64>());
        assert!(
            values.iter().all(|value| value.is_finite()),
            "{}",
            parameter.name
        );
        if parameter.name.ends_with("running_var") {
            assert!(
                values.iter().all(|&value| value > 0.5),
                "{}",
                parameter.name
            );
        }
    }
}

#[test]
fn outputs_are_tied_to_the_table_of_tokens() {
    for (name, table) in [
        ("gpt2", "wte.weight"),
        ("transformer_base", "shared.weight"),
    ] {
        let graph = build(name, &[]);
        let head = graph.nodes.last().unwrap();
        assert_eq!((&head.op, head.inputs[1].as_str()), (&Op::Linear, table));
        let lookup = graph
            .nodes
            .iter()
            .find(|node| node.op == Op::Gather)
            .unwrap();
        assert_eq!(lookup.inputs[0], table);
    }
}

#[test]
fn resnet_50_steps_on_the_middle_convolution() {
    let graph = build("resnet50", &[]);
    let strides = |name: &str| {
        let node = graph.nodes.iter().find(|node| node.name == name).unwrap();
        let Op::Conv { strides, .. } = node.op else {
            panic!("{name} is no convolution")
        };
        strides
    };
    assert_eq!(strides("layer2.0.conv1"), [1, 1]);
    assert_eq!(strides("layer2.0.conv2"), [2, 2]);
}

/// A graph's hash is part of the identity of every measurement of it: a change must be meant.
#[test]
fn graphs_change_only_on_purpose() {
    let lines: Vec<String> = zoo::names()
        .into_iter()
        .flat_map(|name| [Mode::Inference, Mode::Training].map(|mode| (name, mode)))
        .map(|(name, mode)| {
            let graph = zoo::build_for(name, &dims(&[("batch", 2)]), mode).unwrap();
            let (nodes, parameters) = (graph.nodes.len(), graph.parameters.len());
            let hash = Digest::of_value(&graph).short();
            format!("{name} {mode}: {nodes} nodes, {parameters} parameters, {hash}")
        })
        .collect();
    insta::assert_snapshot!(lines.join("\n"));
}
