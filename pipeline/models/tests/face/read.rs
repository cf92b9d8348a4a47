//! The ONNX reader: what the writer writes is read back, what exporters write around it is resolved,
//! and what is broken or hostile is refused.

use std::{collections::BTreeMap, fs, path::Path};

use photofinish_models::{
    Numbers,
    builder::{GraphBuilder, Recurrent, RecurrentCell},
    infer::{self, ValueType},
    onnx::{self, Extensions, File, ReadError, WriteOptions},
    zoo,
};
use schema::{
    Graph, Mode, Precision,
    graph::{ElementType, Fill, Op, Role},
};

use crate::support::networks::{small, written};

const UNIFORM: Fill = Fill::Uniform {
    low: -1.0,
    high: 1.0,
};

fn dims(sizes: &[(&str, u64)]) -> BTreeMap<String, u64> {
    sizes
        .iter()
        .map(|&(name, size)| (name.to_owned(), size))
        .collect()
}

fn types_of<'a>(graph: &Graph, names: impl Iterator<Item = &'a String>) -> Vec<ValueType> {
    let types = infer::shapes(graph).unwrap();
    names.map(|name| types[name].clone()).collect()
}

fn count(graph: &Graph, is: impl Fn(&Op) -> bool) -> usize {
    graph.nodes.iter().filter(|node| is(&node.op)).count()
}

fn weights(graph: &Graph) -> u64 {
    photofinish_models::cost::total(graph, Mode::Inference)
        .unwrap()
        .parameters
}

#[test]
fn the_zoo_is_read_back_as_it_was_written() {
    for name in zoo::names() {
        let graph = small(name, 2);
        // Writing the large ones takes its time.
        let opsets: &[u32] = if weights(&graph) > 30 << 20 {
            &[21]
        } else {
            &[17, 21]
        };
        for &opset in opsets {
            let bytes = written(&graph, opset);
            let file = File::from_bytes(name, &bytes).unwrap();
            let read = file.read(&BTreeMap::new()).unwrap().graph;
            let what = format!("{name} at opset {opset}");
            let fed = |graph: &Graph| -> Vec<_> {
                graph
                    .inputs
                    .iter()
                    .map(|input| (input.name.clone(), input.element, input.shape.clone()))
                    .collect()
            };
            assert_eq!(fed(&read), fed(&graph), "{what}");
            assert_eq!(read.outputs, graph.outputs, "{what}");
            let outputs = types_of(&graph, graph.outputs.iter());
            assert_eq!(types_of(&read, read.outputs.iter()), outputs, "{what}");
            // Integers stay within the tables that they are rows of.
            for (read, own) in read.inputs.iter().zip(&graph.inputs) {
                if matches!(own.fill, Fill::Integers { .. }) {
                    assert_eq!(read.fill, own.fill, "{what}: {}", own.name);
                }
            }
            // What the writer took apart is whole again.
            for is in [
                |op: &Op| matches!(op, Op::Conv { .. }),
                |op: &Op| matches!(op, Op::BatchNormalization { .. }),
                |op: &Op| matches!(op, Op::LayerNormalization { .. }),
                |op: &Op| matches!(op, Op::Gelu { .. }),
                |op: &Op| matches!(op, Op::Silu),
                |op: &Op| matches!(op, Op::Linear | Op::Gemm),
                |op: &Op| matches!(op, Op::Lstm { .. }),
                |op: &Op| matches!(op, Op::Gru { .. }),
            ] {
                assert_eq!(count(&read, is), count(&graph, is), "{what}");
            }
            // A tied table is written both ways. What is computed from weights alone is a constant:
            // the rows of the positions, a class token that is repeated.
            let (got, own) = (weights(&read), weights(&graph));
            assert!(
                got + own / 50 >= own && got < own * 3 / 2,
                "{what}: {got} of {own}"
            );
        }
    }
}

#[test]
fn stored_numbers_are_those_that_were_written() {
    let graph = small("bert_tiny", 2);
    let file = File::from_bytes("bert", &written(&graph, 17)).unwrap();
    let reading = file.read(&BTreeMap::new()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weights");
    reading
        .write_weights(&mut fs::File::create(&path).unwrap())
        .unwrap();
    let numbers = Numbers::open(Some(&path)).unwrap();
    let mut same = 0;
    for parameter in &reading.graph.parameters {
        let Fill::Stored { element, offset } = parameter.fill else {
            panic!("{parameter:?}")
        };
        assert_eq!(offset % 64, 0);
        if element == ElementType::Int64 {
            continue;
        }
        let values = numbers.floats(parameter).unwrap();
        assert!(
            values.iter().all(|value| value.is_finite()),
            "{}",
            parameter.name
        );
        if let Some(own) = graph
            .parameters
            .iter()
            .find(|own| own.name == parameter.name)
        {
            assert_eq!(
                values,
                photofinish_models::fill::parameter(own),
                "{}",
                own.name
            );
            same += 1;
        }
    }
    assert!(same > 20, "{same}");
    // Written once more, now with its own numbers, it is the same model.
    let options = WriteOptions {
        opset: 17,
        precision: Precision::Fp32,
        external: None,
        threshold: 0,
    };
    let again =
        onnx::write_with(&reading.graph, &options, Extensions::default(), &numbers).unwrap();
    let again = File::from_bytes("bert", &again.model).unwrap();
    let again = again.read(&BTreeMap::new()).unwrap().graph;
    assert_eq!(again.nodes.len(), reading.graph.nodes.len());
    let error = onnx::write(&reading.graph, &options)
        .unwrap_err()
        .to_string();
    assert!(error.contains("none was given"), "{error}");
}

#[test]
fn recurrent_layers_are_written_with_their_own_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weights");
    let options = WriteOptions {
        opset: 17,
        precision: Precision::Fp32,
        external: None,
        threshold: 0,
    };
    let read = |bytes: &[u8]| {
        let file = File::from_bytes("recurrent", bytes).unwrap();
        file.read(&BTreeMap::new()).unwrap()
    };
    let (lstm, gru) = (RecurrentCell::Lstm, RecurrentCell::Gru);
    for (cell, bidirectional) in [(lstm, false), (lstm, true), (gru, false), (gru, true)] {
        let numbers = |reading: &onnx::Reading| {
            let mut numbers = Vec::new();
            reading.write_weights(&mut numbers).unwrap();
            numbers
        };
        let mut b = GraphBuilder::new("recurrent");
        let x = b.input("x", ElementType::Float, &[2, 3, 5], UNIFORM);
        let layer = Recurrent {
            cell,
            size: 4,
            bidirectional,
            moment: 1.0,
        };
        let x = b.recurrent(&x, "layers", 0, layer);
        b.output(&x, "y");
        let own = read(&written(&b.finish().unwrap(), 17));
        fs::write(&path, numbers(&own)).unwrap();
        let stored = Numbers::open(Some(&path)).unwrap();
        let again = onnx::write_with(&own.graph, &options, Extensions::default(), &stored).unwrap();
        let again = read(&again.model);
        let floats = |numbers: Vec<u8>| -> Vec<f32> {
            let (floats, _) = numbers.as_chunks();
            floats
                .iter()
                .map(|&bytes| f32::from_le_bytes(bytes))
                .collect()
        };
        let (got, own) = (floats(numbers(&again)), floats(numbers(&own)));
        assert!(got.len() > 4 * 3 * 5 && got.iter().all(|number| number.is_finite()));
        assert_eq!(got, own, "{cell:?}, both ways: {bidirectional}");
    }
}

#[test]
fn running_statistics_are_buffers() {
    let graph = small("resnet18", 2);
    let read = File::from_bytes("r", &written(&graph, 17)).unwrap();
    let read = read.read(&BTreeMap::new()).unwrap().graph;
    let buffers = |graph: &Graph| {
        let is = |role| role == Role::Buffer;
        graph.parameters.iter().filter(|p| is(p.role)).count()
    };
    assert_eq!(buffers(&read), buffers(&graph));
    assert_eq!(weights(&read), weights(&graph));
}

#[test]
fn a_batch_that_is_written_in_cannot_be_another() {
    let file = File::from_bytes("r", &written(&small("resnet18", 2), 17)).unwrap();
    assert_eq!(file.dimensions().collect::<Vec<_>>(), ["batch"]);
    assert_eq!(
        file.resolve_dims(&BTreeMap::new()),
        Ok(dims(&[("batch", 2)]))
    );
    let error = file.resolve_dims(&dims(&[("batch", 8)])).unwrap_err();
    assert!(
        error.to_string().contains("the file has 2 written in"),
        "{error}"
    );
    let error = file.resolve_dims(&dims(&[("seq", 8)])).unwrap_err();
    assert!(error.to_string().contains("no such dimension"), "{error}");
}

fn save(folder: &Path, external: &str) -> Vec<u8> {
    let options = WriteOptions {
        opset: 17,
        precision: Precision::Fp32,
        external: Some("weights.bin".to_owned()),
        threshold: 4096,
    };
    let model = onnx::write(&small("bert_tiny", 2), &options).unwrap();
    fs::write(folder.join("weights.bin"), model.data.unwrap()).unwrap();
    // The same length, so that no field around it changes.
    assert_eq!(external.len(), "weights.bin".len());
    let bytes = replaced(&model.model, b"weights.bin", external.as_bytes());
    fs::write(folder.join("model.onnx"), &bytes).unwrap();
    bytes
}

fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for at in 0..bytes.len().saturating_sub(from.len()) {
        if bytes[at..].starts_with(from) {
            bytes[at..at + from.len()].copy_from_slice(to);
        }
    }
    bytes
}

#[test]
fn weights_beside_the_model_count_and_are_read() {
    let folder = tempfile::tempdir().unwrap();
    save(folder.path(), "weights.bin");
    let file = File::open(folder.path(), "model.onnx").unwrap();
    let reading = file.read(&BTreeMap::new()).unwrap();
    let mut beside = Vec::new();
    reading.write_weights(&mut beside).unwrap();
    let inside = File::from_bytes("bert", &written(&small("bert_tiny", 2), 17)).unwrap();
    let mut own = Vec::new();
    let whole = inside.read(&BTreeMap::new()).unwrap();
    whole.write_weights(&mut own).unwrap();
    assert_eq!(beside, own);
    // One number of the weights is another model.
    let digest = file.digest();
    let mut data = fs::read(folder.path().join("weights.bin")).unwrap();
    data[0] ^= 1;
    fs::write(folder.path().join("weights.bin"), data).unwrap();
    let changed = File::open(folder.path(), "model.onnx").unwrap();
    assert_ne!(changed.digest(), digest);
}

#[test]
fn a_file_beside_it_that_holds_far_more_is_refused_unread() {
    let folder = tempfile::tempdir().unwrap();
    save(folder.path(), "weights.bin");
    let weights = fs::File::options()
        .write(true)
        .open(folder.path().join("weights.bin"));
    // A hole: it takes nothing on the disk, and hours to read.
    weights.unwrap().set_len(1 << 40).unwrap();
    let error = File::open(folder.path(), "model.onnx").unwrap_err();
    assert!(matches!(error, ReadError::Malformed(_)), "{error}");
    assert!(error.to_string().contains("hold 1099511627776"), "{error}");
}

#[test]
fn nothing_outside_the_folder_is_read() {
    let outer = tempfile::tempdir().unwrap();
    let folder = outer.path().join("jobs");
    fs::create_dir(&folder).unwrap();
    fs::write(outer.path().join("data.bin"), [0; 1 << 20]).unwrap();
    for (location, wanted) in [
        ("../data.bin", "leads out of the folder"),
        ("/etc/passwd", "leads out of the folder"),
        ("missing.bin", "cannot be read"),
        ("pipe_of.bin", "is no regular file"),
        ("linked.file", "through a link"),
        ("linkd/a.bin", "through a link"),
    ] {
        save(&folder, location);
        let _ = fs::remove_file(folder.join("linked.file"));
        let _ = fs::remove_file(folder.join("linkd"));
        let _ = fs::remove_file(folder.join("pipe_of.bin"));
        std::os::unix::fs::symlink("weights.bin", folder.join("linked.file")).unwrap();
        std::os::unix::fs::symlink("..", folder.join("linkd")).unwrap();
        nix::unistd::mkfifo(&folder.join("pipe_of.bin"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let error = File::open(&folder, "model.onnx").unwrap_err().to_string();
        assert!(error.contains(wanted), "{location}: {error}");
    }
    for path in [
        "../data.bin",
        "/etc/passwd",
        "",
        ".",
        "a\0b",
        "linkd/data.bin",
    ] {
        let error = File::open(&folder, path).unwrap_err();
        assert!(
            matches!(error, ReadError::Unreadable(_)),
            "{path:?}: {error}"
        );
    }
}

#[test]
fn a_file_that_no_message_can_be_is_refused_unread() {
    let folder = tempfile::tempdir().unwrap();
    // Sparse: it takes no room.
    fs::File::create(folder.path().join("huge.onnx"))
        .unwrap()
        .set_len(3 << 30)
        .unwrap();
    let error = File::open(folder.path(), "huge.onnx").unwrap_err();
    assert!(
        error.to_string().contains("a protobuf message has fewer"),
        "{error}"
    );
}

#[test]
fn weights_that_are_cut_off_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    save(folder.path(), "weights.bin");
    let data = fs::read(folder.path().join("weights.bin")).unwrap();
    fs::write(folder.path().join("weights.bin"), &data[..data.len() / 2]).unwrap();
    let error = File::open(folder.path(), "model.onnx").unwrap_err();
    assert!(error.to_string().contains("reach beyond the"), "{error}");
}
