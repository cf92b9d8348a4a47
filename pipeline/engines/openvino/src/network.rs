//! From ONNX to a compiled model.

use std::{collections::BTreeMap, path::Path};

use models::onnx::Document;
use openvino::{
    CompiledModel, Core, DeviceType, ElementType, InferenceError, Model, PartialShape, PropertyKey,
    RwPropertyKey,
};
use schema::{Graph, Outcome, graph::Input};

use crate::{
    configuration::Configuration,
    failure::{failed, lacking, refused, unavailable, unsupported},
    tensors,
};

/// The plugin that computes.
const DEVICE: DeviceType<'static> = DeviceType::CPU;

/// Reads a model. Where its shapes are left open they become those of `graph`, as OpenVINO's
/// documentation advises for speed.
pub(crate) fn read(core: &mut Core, document: &Document, graph: &Graph) -> Result<Model, Outcome> {
    let model = match document {
        Document::Bytes(bytes) => core.read_model_from_buffer(bytes, None),
        // An empty name of a file of weights: ONNX says itself where they are.
        Document::File(path) => core.read_model_from_file(text(path)?, ""),
    };
    let mut model = model.map_err(|error| not_read(document, &error))?;
    if model.is_dynamic() {
        settle(&mut model, graph)?;
    }
    Ok(model)
}

/// Why a model is not read: the operator that lacks, and its node.
fn not_read(document: &Document, error: &InferenceError) -> Outcome {
    let Some(op) = lacking(error) else {
        let what = "reading the model";
        // A file that is not there is nothing that OpenVINO refuses.
        return match document {
            Document::File(path) if !path.is_file() => failed(what, error),
            _ => refused(what, error),
        };
    };
    let node = document.node_of(op);
    let node = node.map_or_else(String::new, |node| format!(" of node `{node}`"));
    unsupported(format!(
        "operator {op}{node}: OpenVINO has no conversion rule for it"
    ))
}

fn text(path: &Path) -> Result<&str, Outcome> {
    path.to_str()
        .filter(|text| !text.contains('\0'))
        .ok_or_else(|| {
            unsupported(format!(
                "{}: OpenVINO's C interface takes names of files in UTF-8",
                path.display()
            ))
        })
}

/// Gives every input the shape that it has in `graph`.
fn settle(model: &mut Model, graph: &Graph) -> Result<(), Outcome> {
    let mut shapes = Vec::new();
    for input in &graph.inputs {
        let sizes = tensors::sizes(&input.name, &input.shape)?;
        let rank = i64::try_from(sizes.len()).unwrap_or(i64::MAX);
        let shape = PartialShape::new_static(rank, &sizes);
        let shape = shape.map_err(|error| failed(&input.name, &error))?;
        shapes.push((name(&input.name)?, shape));
    }
    let shapes: Vec<_> = shapes.iter().map(|(name, shape)| (*name, shape)).collect();
    model
        .reshape(&shapes)
        .map_err(|error| refused("shapes of the inputs", &error))
}

/// The name of a value, fit for a C interface.
pub(crate) fn name(name: &str) -> Result<&str, Outcome> {
    if name.contains('\0') {
        return Err(unsupported(format!(
            "{name:?}: OpenVINO's C interface takes no name with a NUL"
        )));
    }
    Ok(name)
}

/// The inputs that the compiled model takes, with their element types, in the graph's order. OpenVINO
/// forgets those that nothing reads.
pub(crate) fn fed<'a>(
    compiled: &CompiledModel,
    graph: &'a Graph,
) -> Result<Vec<(&'a Input, ElementType)>, Outcome> {
    let mut fed = Vec::new();
    for input in &graph.inputs {
        let Ok(node) = compiled.get_input_by_name(name(&input.name)?) else {
            continue;
        };
        let element = node.get_element_type();
        fed.push((input, element.map_err(|error| failed(&input.name, &error))?));
    }
    let taken = compiled.get_input_size();
    if fed.len() != taken.map_err(|error| failed("inputs", &error))? {
        let reason = "OpenVINO's model takes inputs that the graph does not have";
        return Err(unsupported(reason.to_owned()));
    }
    Ok(fed)
}

/// Makes the model ready for the CPU.
pub(crate) fn compile(
    core: &mut Core,
    model: &Model,
    configuration: &Configuration,
) -> Result<CompiledModel, Outcome> {
    let threads = configuration.threads.to_string();
    let properties = [
        // Otherwise a CPU that has bf16 computes in bf16, unasked.
        (
            RwPropertyKey::HintInferencePrecision,
            configuration.arithmetic,
        ),
        (RwPropertyKey::HintPerformanceMode, "LATENCY"),
        (RwPropertyKey::InferenceNumThreads, threads.as_str()),
        (RwPropertyKey::NumStreams, "1"),
    ];
    let free = (RwPropertyKey::HintEnableCpuPinning, "NO");
    let free = configuration.is_free.then_some(free);
    core.set_properties(&DEVICE, properties.into_iter().chain(free))
        .map_err(|error| failed("properties", &error))?;
    let compiled = core
        .compile_model(model, DEVICE)
        .map_err(|error| refused("compiling the model", &error))?;
    check_arithmetic(&compiled, configuration.arithmetic)?;
    if configuration.is_free {
        check_free(&compiled)?;
    }
    Ok(compiled)
}

/// Refuses to run under the name of one precision what OpenVINO computes in another, as it does where
/// the CPU has no such instructions.
fn check_arithmetic(compiled: &CompiledModel, asked: &str) -> Result<(), Outcome> {
    let key = RwPropertyKey::HintInferencePrecision;
    let found = property(compiled, key).map_err(|error| failed("inference precision", &error))?;
    if found == asked {
        return Ok(());
    }
    Err(unsupported(format!(
        "OpenVINO computes in {found} on this CPU, and {asked} was asked for"
    )))
}

/// Refuses threads that are bound to cores where they are to be free.
fn check_free(compiled: &CompiledModel) -> Result<(), Outcome> {
    let key = RwPropertyKey::HintEnableCpuPinning;
    let found = property(compiled, key).map_err(|error| failed("affinity", &error))?;
    if found == "NO" {
        return Ok(());
    }
    Err(unsupported(format!(
        "OpenVINO says that it binds threads to cores ({found}), and was told not to"
    )))
}

/// Checks that the CPU plugin is there.
pub(crate) fn check_plugin(core: &Core) -> Result<(), Outcome> {
    core.get_property(&DEVICE, &PropertyKey::DeviceFullName)
        .map(drop)
        .map_err(|error| unavailable(format!("OpenVINO's CPU plugin: {error}")))
}

/// Threads that a compiled model uses, as OpenVINO says.
pub(crate) fn threads(compiled: &CompiledModel) -> Option<u32> {
    property(compiled, RwPropertyKey::InferenceNumThreads)
        .ok()?
        .parse()
        .ok()
}

fn property(compiled: &CompiledModel, key: RwPropertyKey) -> Result<String, InferenceError> {
    Ok(compiled.get_property(&key.into())?.into_owned())
}

/// What is in force in a compiled model, asked or by default, as OpenVINO says.
pub(crate) fn settings(compiled: &CompiledModel) -> BTreeMap<String, String> {
    [
        ("execution mode", RwPropertyKey::HintExecutionMode),
        ("hyper-threading", RwPropertyKey::HintEnableHyperThreading),
        ("inference precision", RwPropertyKey::HintInferencePrecision),
        ("performance hint", RwPropertyKey::HintPerformanceMode),
        (
            "scheduling core type",
            RwPropertyKey::HintSchedulingCoreType,
        ),
        ("streams", RwPropertyKey::NumStreams),
        ("threads", RwPropertyKey::InferenceNumThreads),
        (
            "threads pinned to cores",
            RwPropertyKey::HintEnableCpuPinning,
        ),
    ]
    .into_iter()
    .filter_map(|(name, key)| Some((name.to_owned(), property(compiled, key).ok()?)))
    .collect()
}
