//! Weights of users for networks of the zoo: found by name, taken as they are, and refused where they
//! are not the network's.

use std::{collections::BTreeMap, fs, os::unix::fs::symlink, path::Path};

use half::{bf16, f16};
use photofinish_models::{Checkpoint, Numbers, builder::GraphBuilder, fill, onnx::ReadError, zoo};
use proptest::prelude::*;
use safetensors::{Dtype, tensor::TensorView};
use schema::{
    Graph,
    graph::{Fill, Parameter, Role},
};

/// A tensor of a file: its name, element type, shape and bytes.
type Held = (String, Dtype, Vec<usize>, Vec<u8>);

/// In the manner of BERT: numbers of positions, tables, a normalisation, a head.
fn graph() -> Graph {
    let mut net = GraphBuilder::new("small_bert");
    let positions = net.parameter("position_ids", &[1, 3], Role::Constant, Fill::Positions);
    let x = net.embedding(&positions, "embeddings", 7, 4, 1.0);
    let x = net.layer_norm(&x, "encoder.LayerNorm", 1e-12);
    let x = net.linear(&x, "classifier", 2, 1.0, 1.0);
    net.output(&x, "logits");
    net.finish().unwrap()
}

fn trained(graph: &Graph) -> impl Iterator<Item = &Parameter> {
    let parameters = graph.parameters.iter();
    parameters.filter(|parameter| parameter.role != Role::Constant)
}

/// The numbers of a trained parameter: half of those that the recipe has.
fn numbers(parameter: &Parameter) -> Vec<f32> {
    let made = fill::parameter(parameter).into_iter();
    made.map(|number| number / 2.0).collect()
}

fn held(parameter: &Parameter, name: &str) -> Held {
    let bytes = numbers(parameter).into_iter().flat_map(f32::to_le_bytes);
    let shape = parameter.shape.iter().map(|&size| size as usize).collect();
    (name.to_owned(), Dtype::F32, shape, bytes.collect())
}

/// The network's weights, each under the name that this gives it.
fn weights(graph: &Graph, name: impl Fn(&str) -> String) -> Vec<Held> {
    trained(graph)
        .map(|parameter| held(parameter, &name(&parameter.name)))
        .collect()
}

fn bytes(tensors: &[Held]) -> Vec<u8> {
    let views = tensors.iter().map(|(name, dtype, shape, bytes)| {
        let view = TensorView::new(*dtype, shape.clone(), bytes).unwrap();
        (name.clone(), view)
    });
    safetensors::serialize(views, None).unwrap()
}

fn open(content: &[u8]) -> Result<Checkpoint, ReadError> {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("own.safetensors"), content).unwrap();
    Checkpoint::open(folder.path(), "own.safetensors")
}

/// The numbers that engines find, by parameter.
fn found(content: &[u8], graph: Graph) -> Result<BTreeMap<String, Vec<f32>>, ReadError> {
    let reading = open(content)?.read(graph)?;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weights");
    reading
        .write_weights(&mut fs::File::create(&path).unwrap())
        .unwrap();
    let stored = Numbers::open(Some(&path)).unwrap();
    let read = |parameter: &Parameter| (parameter.name.clone(), stored.floats(parameter).unwrap());
    Ok(trained(&reading.graph).map(read).collect())
}

fn refusal(tensors: &[Held]) -> String {
    found(&bytes(tensors), graph()).unwrap_err().to_string()
}

/// What is no number in single precision is found, and where.
#[test]
fn numbers_that_are_not_finite_are_named() {
    let told = |number: Option<[u8; 8]>| {
        let graph = graph();
        let mut tensors = weights(&graph, str::to_owned);
        let (_, dtype, shape, bytes) = tensors
            .iter_mut()
            .find(|held| held.0 == "classifier.bias")
            .unwrap();
        if let Some(number) = number {
            let count = shape.iter().product::<usize>();
            let mut wide = vec![0; 8 * count];
            wide[8 * (count - 1)..].copy_from_slice(&number);
            (*dtype, *bytes) = (Dtype::F64, wide);
        }
        let reading = open(&self::bytes(&tensors)).unwrap().read(graph).unwrap();
        reading.first_not_finite().unwrap().map(str::to_owned)
    };
    assert_eq!(told(None), None);
    assert_eq!(told(Some(1.0_f64.to_le_bytes())), None);
    for number in [f64::NAN, f64::NEG_INFINITY, 1e200] {
        let found = told(Some(number.to_le_bytes()));
        assert_eq!(found.as_deref(), Some("classifier.bias"), "{number}");
    }
}

#[test]
fn weights_are_found_by_name_whatever_else_is_there() {
    let graph = graph();
    let expected: BTreeMap<_, _> = trained(&graph)
        .map(|parameter| (parameter.name.clone(), numbers(parameter)))
        .collect();
    let mut plain = weights(&graph, str::to_owned);
    plain.push(("optimizer.step".to_owned(), Dtype::I64, vec![], vec![7; 8]));
    // As Hugging Face's checkpoints have them: the head bears no prefix.
    let prefixed = weights(&graph, |name| match name.starts_with("classifier") {
        true => name.to_owned(),
        false => format!("bert.{name}"),
    });
    let wrapped = weights(&graph, |name| format!("module.bert.{name}"));
    let older = weights(&graph, |name| {
        let older = name.replace("LayerNorm.weight", "LayerNorm.gamma");
        format!("bert.{}", older.replace("LayerNorm.bias", "LayerNorm.beta"))
    });
    for tensors in [plain, prefixed, wrapped, older] {
        assert_eq!(found(&bytes(&tensors), graph.clone()).unwrap(), expected);
    }
}

#[test]
fn running_statistics_come_along_and_constants_keep_their_recipes() {
    let dims = zoo::resolve_dims("resnet18", &[("image".to_owned(), 32)].into()).unwrap();
    let resnet = zoo::build("resnet18", &dims).unwrap();
    let content = bytes(&weights(&resnet, str::to_owned));
    let read = found(&content, resnet.clone()).unwrap();
    let mean = resnet.parameters.iter().find(|p| p.role == Role::Buffer);
    assert_eq!(read[&mean.unwrap().name], numbers(mean.unwrap()));
    let bert = graph();
    let reading = open(&bytes(&weights(&bert, str::to_owned))).unwrap();
    let reading = reading.read(bert.clone()).unwrap();
    let constants = |graph: &Graph| -> Vec<Parameter> {
        let parameters = graph.parameters.iter().cloned();
        parameters.filter(|p| p.role == Role::Constant).collect()
    };
    assert!(!constants(&bert).is_empty());
    assert_eq!(constants(&reading.graph), constants(&bert));
}

#[test]
fn narrow_numbers_widen_and_wide_ones_are_rounded() {
    let graph = graph();
    type Encode = fn(f32) -> Vec<u8>;
    type Rounded = fn(f32) -> f32;
    let forms: [(Dtype, Encode, Rounded); 3] = [
        (
            Dtype::F16,
            |x| f16::from_f32(x).to_le_bytes().into(),
            |x| f16::from_f32(x).to_f32(),
        ),
        (
            Dtype::BF16,
            |x| bf16::from_f32(x).to_le_bytes().into(),
            |x| bf16::from_f32(x).to_f32(),
        ),
        (
            Dtype::F64,
            |x| (f64::from(x) * (1.0 + 1e-12)).to_le_bytes().into(),
            |x| x,
        ),
    ];
    for (dtype, encode, rounded) in forms {
        let tensors: Vec<Held> = trained(&graph)
            .map(|parameter| {
                let (name, _, shape, _) = held(parameter, &parameter.name);
                let bytes = numbers(parameter).into_iter().flat_map(encode);
                (name, dtype, shape, bytes.collect())
            })
            .collect();
        let read = found(&bytes(&tensors), graph.clone()).unwrap();
        for parameter in trained(&graph) {
            let expected: Vec<f32> = numbers(parameter).into_iter().map(rounded).collect();
            assert_eq!(read[&parameter.name], expected, "{dtype:?}");
        }
    }
}

#[test]
fn what_is_not_the_network_s_is_refused_by_name() {
    let graph = graph();
    let all = weights(&graph, str::to_owned);
    let last = all.last().unwrap().0.clone();
    let said = refusal(&all[..all.len() - 1]);
    assert!(
        said.ends_with(&format!("of small_bert it lacks `{last}`")),
        "{said}"
    );
    let said = refusal(&all[2..]);
    assert!(said.ends_with("`, and 1 more"), "{said}");
    let said = refusal(&weights(&graph, |name| format!("other_{name}")));
    assert!(said.contains("it lacks `"), "{said}");

    let mut short = all.clone();
    short[0].2 = vec![2, 2];
    short[0].3 = vec![0; 16];
    let said = refusal(&short);
    assert!(
        said.contains("has the shape [2, 2], and the network's has ["),
        "{said}"
    );

    let mut integers = all.clone();
    integers[0].1 = Dtype::I32;
    let said = refusal(&integers);
    assert!(said.contains("holds I32, and floats of 16"), "{said}");

    let twice = [
        weights(&graph, |name| format!("a.{name}")),
        weights(&graph, |name| format!("b.{name}")),
    ];
    let said = refusal(&twice.concat());
    assert!(
        said.contains("there twice: behind `a.` and behind `b.`"),
        "{said}"
    );
    // Its own names win over those behind a prefix: a file may hold an averaged copy.
    let both = [all, weights(&graph, |name| format!("ema.{name}"))];
    assert!(found(&bytes(&both.concat()), graph).is_ok());
}

#[test]
fn numbers_that_change_while_the_file_is_open_are_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("own.safetensors");
    let mut content = bytes(&weights(&graph(), str::to_owned));
    fs::write(&path, &content).unwrap();
    let checkpoint = Checkpoint::open(folder.path(), "own.safetensors").unwrap();
    assert!(checkpoint.is_unchanged() && checkpoint.is_unchanged());
    *content.last_mut().unwrap() ^= 1;
    fs::write(&path, &content).unwrap();
    assert!(!checkpoint.is_unchanged());
}

#[test]
fn names_behind_too_many_prefixes_are_not_looked_for() {
    let graph = graph();
    let behind = |prefix: &str| weights(&graph, |name| format!("{prefix}{name}"));
    let first = behind("")[0].clone();
    let strays =
        |count: usize| (0..count).map(move |stray| format!("n{stray}.{}", "embeddings.weight"));
    assert!(first.0 == "embeddings.weight", "{}", first.0);
    let file = |count| {
        let strays = strays(count).map(|name| (name, first.1, first.2.clone(), first.3.clone()));
        bytes(&[behind("bert."), strays.collect()].concat())
    };
    assert!(found(&file(10), graph.clone()).is_ok());
    let refused = found(&file(1001), graph.clone()).unwrap_err().to_string();
    assert!(
        refused.contains("it lacks `embeddings.weight`"),
        "{refused}"
    );
}

#[test]
fn a_file_of_another_form_is_refused() {
    let whole = bytes(&weights(&graph(), str::to_owned));
    let said = |content: &[u8]| open(content).unwrap_err().to_string();
    assert!(said(b"").ends_with("it has 0 bytes"));
    assert!(said(&[0xff; 64]).contains("announce a header of"));
    assert!(said(&whole[..whole.len() - 1]).contains("are there"));
    let longer = [&whole[..], &[0]].concat();
    assert!(said(&longer).contains("are there"));
    let json = [&5_u64.to_le_bytes()[..], b"{\"a\":"].concat();
    assert!(said(&json).contains("no file of safetensors"));
}

#[test]
fn nothing_is_read_outside_of_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("inner");
    fs::create_dir(&inner).unwrap();
    let content = bytes(&weights(&graph(), str::to_owned));
    fs::write(folder.path().join("own.safetensors"), &content).unwrap();
    symlink("../own.safetensors", inner.join("link.safetensors")).unwrap();
    let absolute = folder.path().join("own.safetensors");
    for path in ["../own.safetensors", "link.safetensors", "none.safetensors"]
        .map(Path::new)
        .into_iter()
        .chain([absolute.as_path()])
    {
        let error = Checkpoint::open(&inner, path.to_str().unwrap()).unwrap_err();
        assert!(matches!(error, ReadError::Unreadable(_)), "{error}");
    }
}

proptest! {
    #[test]
    fn no_damage_makes_it_panic(at: prop::sample::Index, byte: u8, cut: prop::sample::Index) {
        let graph = graph();
        let mut content = bytes(&weights(&graph, str::to_owned));
        let place = at.index(content.len());
        content[place] = byte;
        let end = cut.index(content.len());
        for damaged in [&content[..], &content[..end]] {
            if let Ok(checkpoint) = open(damaged) {
                drop(checkpoint.read(graph.clone()));
            }
        }
    }
}
