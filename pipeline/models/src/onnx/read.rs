//! Reading a model of the user's: from the bytes of an ONNX file to a graph and its numbers.
//!
//! [`File::open`] reads and checks what does not depend on sizes, [`File::read`] makes the graph for
//! given ones. What exporters write around a network is resolved on the way: constants are folded,
//! shapes are known, so that arithmetic on shapes is arithmetic on constants; layer normalisation,
//! GELU and SiLU are recognised in their parts. Opsets 13 to 22 are read; ONNX's own operators with
//! static shapes and floats of one precision. Of a right model that is more than a graph can say,
//! [`File::outline`] tells what goes in and comes out, for engines that read ONNX themselves.
//!
//! # Integer inputs
//! One that is used as rows of a table of `n` gets integers below `n`. Any other, a mask say, is fed
//! ones, and what follows from it alone is computed while reading, as is what follows by arithmetic from the
//! integers that are fed to a table (`given`): RoBERTa counts its places so. Where a product would follow from
//! them alone they are fed to the graph; where ones would mask everything, zeros are (`alone`). Whatever integers or truth values the
//! file has them in, the graph's are of 64 bits; an engine that runs the file feeds what that has.
//!
//! # Floats
//! A graph has one precision. What is fed in a wider one, and cast before anything else reads it, is an
//! input like others, and so is an output that is widened at the end. Models in double precision have an
//! outline: what is computed while reading is computed in binary32, and weights are kept in it.
//!
//! # Choices
//! `Where` with a fixed mask is a sum of two products, or with a mask. What is not chosen has to be finite
//! for that, whatever is fed (`import::numbers`); otherwise engines that read ONNX run the file.
//!
//! # Functions
//! A call of one of the file's functions is read as the nodes that the function is made of (`functions`).
//!
//! # Hostile files
//! Nothing is read outside the folder (`open`), no link is followed; the number of fields is counted
//! before they are unpacked (`census`), numbers are slices of the file until they are needed
//! (`tensor`), and what may be computed from them has a budget (`fold`), beyond which sizes are followed
//! (`growth`). Nodes have the attributes that
//! ONNX gives their operators, and no others (`signature`).

mod alone;
mod arithmetic;
mod attributes;
mod branches;
pub(in crate::onnx) mod census;
mod elements;
mod extents;
mod fold;
mod functions;
mod fuse;
mod given;
mod growth;
mod import;
mod inputs;
mod linear;
mod misfits;
mod moves;
pub(crate) mod open;
mod outline;
mod outputs;
mod products;
mod recurrent;
mod reduce;
mod resize;
mod shapes;
pub(crate) mod signature;
pub(crate) mod tensor;
mod tidy;
mod whole;
mod windows;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{self, Seek as _, Write as _},
    path::{Path, PathBuf},
    rc::Rc,
};

use bytes::Bytes;
use prost::Message as _;
use schema::{
    Digest, Graph, Precision,
    graph::{ElementType, Fill, Node, Parameter},
};
use thiserror::Error;

use crate::{
    ModelError, infer,
    onnx::proto::{GraphProto, ModelProto, NodeProto, TensorProto},
    rewrite,
    zoo::{AUTOTUNE, LAYOUT},
};
use alone::{Feeding, Tried};
use import::{Finished, Held, Import};
use inputs::Inputs;
use tensor::{Constant, Element, Kind};

/// The opsets that are read.
const OPSETS: std::ops::RangeInclusive<i64> = 13..=22;

/// What is said of numbers that lie in files beside the model, and of why they cannot be had.
const BESIDE: &str = "its external data";

/// Where numbers begin in a file of weights: at multiples of this.
const ALIGNMENT_BYTES: u64 = 64;

/// Why a model of the user's cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ReadError {
    /// The file, or one beside it, cannot be read, or may not.
    #[error("{0}")]
    Unreadable(String),
    /// It is no ONNX model, or contradicts itself.
    #[error("{0}")]
    Malformed(String),
    /// A dimension that the file lacks, or cannot have in this size.
    #[error("dimension `{dimension}`: {reason}")]
    Dimension {
        /// Its name.
        dimension: String,
        /// What is wrong.
        reason: String,
    },
    /// A right model, as far as we can tell, and more than the graph can say.
    #[error("operator `{op}` of node `{node}`: {reason}")]
    Unsupported {
        /// ONNX's name of the operator.
        op: String,
        /// The node's name, or that of its output.
        node: String,
        /// What of it is not read.
        reason: String,
    },
    /// Constants that come to absurdly more than what they are made from, or a value that nothing could hold: a hostile
    /// file.
    #[error("operator `{op}` of node `{node}`: {reason}")]
    Excessive {
        /// ONNX's name of the operator.
        op: String,
        /// The node's name, or that of its output.
        node: String,
        /// What is too much.
        reason: String,
    },
}

impl ReadError {
    /// Whether it is said of a file that is of another kind than the one that was expected.
    #[must_use]
    pub fn is_foreign(&self) -> bool {
        matches!(self, Self::Malformed(reason) if reason.starts_with("it is no "))
    }
}

/// An ONNX file of the user's, open and checked as far as that can be done without sizes.
#[derive(Debug, Clone)]
pub struct File {
    name: String,
    digest: Digest,
    /// As it was read.
    content: Bytes,
    /// The files of weights beside it, by the place that it gives them, and what they held.
    beside: BTreeMap<String, (Rc<fs::File>, Digest)>,
    bytes: u64,
    opset: i64,
    nodes: GraphProto,
    inputs: Inputs,
    precision: Precision,
    /// The tensors that the file holds by name.
    initializers: BTreeMap<String, Constant>,
}

/// What files beside a model may hold besides its tensors: padding, and tensors of models that share
/// them.
const SPARE_BYTES: u64 = 1 << 30;

/// Most bytes that lie beside a model: all of them are hashed before anything else is known of it.
const MOST_BESIDE_BYTES: u64 = 256 << 30;

/// By how many tensors a byte may be shared on average: weights that are tied may lie in one place.
const SHARED: u64 = 8;

/// A model at given sizes, with numbers of the user's.
#[derive(Debug)]
pub struct Reading {
    /// The graph. Its parameters are stored: [`Reading::write_weights`].
    pub graph: Graph,
    pub(crate) weights: Shelf,
}

/// A file of weights as it is going to be written.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    /// What is in it, in the order of its offsets.
    held: Vec<(u64, Constant)>,
    end: u64,
}

impl Shelf {
    /// Puts numbers behind those that are there, and says where.
    pub(crate) fn put(&mut self, constant: Constant) -> Fill {
        let offset = self.end.next_multiple_of(ALIGNMENT_BYTES);
        self.end = offset.saturating_add(stored_bytes(&constant));
        let element = match constant.kind {
            Kind::Float => ElementType::Float,
            _ => ElementType::Int64,
        };
        self.held.push((offset, constant));
        Fill::Stored { element, offset }
    }
}

impl File {
    /// Opens the model at `path`, which leads from `folder` downwards.
    ///
    /// # Errors
    /// A path that leaves the folder or meets a link, for the model or for the weights beside it; a
    /// file that is no ONNX model, or one that is not read.
    pub fn open(folder: &Path, path: &str) -> Result<Self, ReadError> {
        let bytes = open::whole(open::beneath(folder, path)?)?;
        let place = folder.join(path);
        let beside = place.parent().unwrap_or(folder).to_owned();
        let mut files: BTreeMap<String, Rc<fs::File>> = BTreeMap::new();
        let own = place.file_name().map(Path::new);
        let mut open = |location: &str| {
            // One file may be spelt in several ways, `./weights` too.
            let plain: PathBuf = Path::new(location).components().collect();
            let plain = plain.strip_prefix(".").unwrap_or(&plain);
            // To an engine the name of a folder, and to a path nothing but the file's.
            if location.ends_with('/') || location.ends_with("/.") {
                return Err(format!("{BESIDE} `{location}` is called as a folder is"));
            }
            if own == Some(plain) {
                return Err(format!("{BESIDE} lies in the model itself"));
            }
            let key = plain.to_string_lossy().into_owned();
            if let Some(file) = files.get(&key) {
                return Ok(Rc::clone(file));
            }
            let file = open::beneath(&beside, location)
                .map(Rc::new)
                .map_err(|error| format!("{BESIDE} {error}"))?;
            files.insert(key, Rc::clone(&file));
            Ok(file)
        };
        let mut read = Self::of(path, &bytes, &mut open)?;
        read.add_files(files)?;
        Ok(read)
    }

    /// A model from its bytes alone.
    ///
    /// # Errors
    /// As [`File::open`]; and a model with weights beside it, which lie nowhere here.
    pub fn from_bytes(name: &str, bytes: &[u8]) -> Result<Self, ReadError> {
        let nowhere = &mut |_: &str| Err(format!("{BESIDE} lies nowhere"));
        Self::of(name, &Bytes::copy_from_slice(bytes), nowhere)
    }

    fn of(name: &str, bytes: &Bytes, open: tensor::OpenBeside<'_>) -> Result<Self, ReadError> {
        let malformed = |reason: String| ReadError::Malformed(reason);
        if bytes.is_empty() {
            return Err(malformed("it is no ONNX file: it is empty".to_owned()));
        }
        census::check(bytes, census::Message::Model)?;
        let mut model = ModelProto::decode(bytes.clone())
            .map_err(|error| malformed(format!("it is no ONNX file: {error}")))?;
        let opset = opset(&model)?;
        let mut graph = model
            .graph
            .take()
            .ok_or_else(|| malformed("it is no ONNX file: it has no graph".to_owned()))?;
        whole::check(&model.training_info, &model.functions, &graph)?;
        whole::check_names(&graph)?;
        functions::inline(&mut graph, &model.functions, opset)?;
        let inputs = Inputs::of(&graph)?;
        let mut initializers = BTreeMap::new();
        for tensor in std::mem::take(&mut graph.initializer) {
            let TensorProto { name, .. } = &tensor;
            // Nodes name an input that they do without by nothing.
            if name.is_empty() {
                return Err(malformed("one of its initializers has no name".to_owned()));
            }
            let constant = Constant::read(&tensor, open).map_err(|reason| {
                let said = format!("its initializer `{name}`: {reason}");
                match reason.starts_with(&format!("{BESIDE} `")) {
                    true => ReadError::Unreadable(said),
                    false => malformed(said),
                }
            })?;
            if initializers.insert(name.clone(), constant).is_some() {
                return Err(malformed(format!(
                    "its initializer `{name}` is there twice"
                )));
            }
        }
        let precision = precision(&inputs, &initializers, &graph);
        if precision == Precision::Bf16 {
            return Err(malformed(
                "its floats are bf16, for which ONNX Runtime, by which every file is held against what was \
                 read, has no kernels on a processor; export it in fp32, and ask for `precision: bf16`"
                    .to_owned(),
            ));
        }
        Ok(Self {
            name: name.to_owned(),
            digest: Digest::of_bytes(bytes),
            content: bytes.clone(),
            beside: BTreeMap::new(),
            bytes: bytes.len() as u64,
            opset,
            nodes: graph,
            inputs,
            precision,
            initializers,
        })
    }

    /// Takes the weights beside the model into its identity.
    fn add_files(&mut self, files: BTreeMap<String, Rc<fs::File>>) -> Result<(), ReadError> {
        if files.is_empty() {
            return Ok(());
        }
        let tensors = self.initializers.values().map(stored_bytes);
        let tensors = tensors.fold(0, u64::saturating_add);
        let lengths = files
            .values()
            .map(|file| file.metadata().map(|found| found.len()));
        let beside = lengths.sum::<io::Result<u64>>();
        let beside = beside.map_err(|error| {
            ReadError::Unreadable(format!("the files beside it cannot be read: {error}"))
        })?;
        // In a file, a tensor of doubles takes twice what it takes here.
        if beside > tensors.saturating_mul(2).saturating_add(SPARE_BYTES) {
            return Err(ReadError::Malformed(format!(
                "its tensors take {tensors} bytes, and the files beside it hold {beside}: all of \
                 them would be hashed and copied; export it with weights of its own beside it"
            )));
        }
        if beside > MOST_BESIDE_BYTES {
            return Err(ReadError::Malformed(format!(
                "the files beside it hold {beside} bytes, and no more than {MOST_BESIDE_BYTES} are read"
            )));
        }
        // Each tensor is written for the workers on its own.
        let named = self.initializers.values().map(Constant::file_bytes);
        let named = named.fold(0, u64::saturating_add);
        if named > self.bytes.saturating_add(beside).saturating_mul(SHARED) {
            return Err(ReadError::Malformed(format!(
                "its tensors take {named} bytes of files that hold {beside}: they lie upon one \
                 another; export it with weights of its own beside it"
            )));
        }
        let mut parts: Vec<Vec<u8>> = vec![self.digest.as_bytes().to_vec()];
        for (location, file) in files {
            let unreadable = |error: io::Error| {
                ReadError::Unreadable(format!("`{location}` cannot be read: {error}"))
            };
            let bytes = file.metadata().map_err(unreadable)?.len();
            let digest = Digest::of_reader(&mut &*file).map_err(unreadable)?;
            self.bytes = self.bytes.saturating_add(bytes);
            parts.push(location.clone().into_bytes());
            parts.push(digest.as_bytes().to_vec());
            self.beside.insert(location, (file, digest));
        }
        self.digest = Digest::of_parts(parts.iter().map(Vec::as_slice));
        Ok(())
    }

    /// Copies the model into a folder of ours, with the weights beside it, and says where it is
    /// there. The user's file may change while engines are measured on it; a copy does not.
    ///
    /// # Errors
    /// Of reading and writing; weights that have changed since they were looked at.
    pub fn copy_to(&self, folder: &Path) -> io::Result<PathBuf> {
        let model = folder.join(self.copied_name());
        fs::write(&model, &self.content)?;
        for (location, (file, digest)) in &self.beside {
            // It leads downwards from the folder that the model is in: that was checked.
            let place = folder.join(location);
            place.parent().map_or(Ok(()), fs::create_dir_all)?;
            let mut out = fs::File::options()
                .read(true)
                .write(true)
                .create_new(true)
                .open(place)?;
            let bytes = file.metadata()?.len();
            open::pieces(file, 0, bytes, |piece| out.write_all(piece))?;
            out.rewind()?;
            if Digest::of_reader(&mut out)? != *digest {
                return Err(io::Error::other(format!(
                    "`{location}` has changed while it was copied"
                )));
            }
        }
        Ok(model)
    }

    /// What a copy of the model is called, beside its weights.
    fn copied_name(&self) -> String {
        let stem = Path::new(&self.name).file_stem().unwrap_or_default();
        let stem = stem.to_string_lossy();
        // By another ending, as `.ort`, ONNX Runtime takes it for a format of its own.
        let mut name = format!("{stem}.onnx");
        let mut number = 0_u64;
        let is_beside = |name: &str| {
            let first = |location: &String| {
                let first = Path::new(location).components().next();
                first.is_some_and(|first| first.as_os_str() == name)
            };
            self.beside.keys().any(first)
        };
        while is_beside(&name) {
            number += 1;
            name = format!("{stem}.{number}.onnx");
        }
        name
    }

    /// The hash of the content: of the file, and of the weights beside it where there are any.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// What its floats are.
    #[must_use]
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// ONNX's number of the element type of its floats.
    const fn float_code(&self) -> i32 {
        match self.precision {
            Precision::Fp16 => Element::FLOAT16,
            Precision::Bf16 => Element::BFLOAT16,
            Precision::Fp64 => Element::DOUBLE,
            _ => Element::FLOAT,
        }
    }

    /// Bytes of it, those of the weights beside it included.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether a factor says anything about it: the reader makes recurrent layers where the file
    /// has them, and attention only in its parts. Convolutions have the same names there, and what has
    /// neither these nor pools has no images.
    #[must_use]
    pub fn is_concerned(&self, factor: &str) -> bool {
        let is_recurrent = |node: &NodeProto| matches!(node.op_type.as_str(), "LSTM" | "GRU");
        let is_convolution = |node: &NodeProto| node.op_type.starts_with("Conv");
        let is_pool = |node: &NodeProto| node.op_type.ends_with("Pool");
        match factor {
            LAYOUT => self
                .nodes
                .node
                .iter()
                .any(|it| is_convolution(it) || is_pool(it)),
            rewrite::RECURRENT => self.nodes.node.iter().any(is_recurrent),
            AUTOTUNE => self.nodes.node.iter().any(is_convolution),
            _ => !rewrite::is_about_operators(factor),
        }
    }

    /// Names of its dimensions: those that it leaves open by the words of manifests (`batch`,
    /// `seq`), and `batch` where it is written in.
    pub fn dimensions(&self) -> impl Iterator<Item = &str> {
        self.inputs.dimensions()
    }

    /// Every dimension with its size: what is wanted, what is written in, and 1 for an open batch.
    ///
    /// # Errors
    /// A dimension that the file lacks, has in another size, or leaves open.
    pub fn resolve_dims(
        &self,
        wanted: &BTreeMap<String, u64>,
    ) -> Result<BTreeMap<String, u64>, ReadError> {
        self.inputs.resolve(wanted)
    }

    /// The model at these sizes.
    ///
    /// # Errors
    /// Sizes that it cannot have; nodes that read what nothing before them makes, or shapes that do
    /// not fit; operators that the graph does not have, by operator and node.
    pub fn read(&self, dims: &BTreeMap<String, u64>) -> Result<Reading, ReadError> {
        let dims = self.inputs.resolve(dims)?;
        self.best_fed(|feeding| self.read_so(&dims, feeding))
    }

    /// The model with inputs fed in one way.
    fn read_so(&self, dims: &BTreeMap<String, u64>, feeding: &Feeding) -> Tried<Reading> {
        let mut blinding = BTreeSet::new();
        let mut attempt = |feeding: &Feeding| {
            let taken = branches::taken(self, dims, feeding)?;
            let mut import = Import::new(taken.as_ref().unwrap_or(self), dims, feeding)?;
            let finished = import.finish();
            blinding = import.blinding();
            finished
        };
        let mut read = || match attempt(feeding)? {
            Finished::Read(reading) => Ok(reading),
            Finished::Lacking(numbers, refused) if numbers.is_empty() => Err(refused),
            Finished::Lacking(numbers, refused) => {
                let zeros = feeding.zeros.clone();
                match attempt(&Feeding { zeros, numbers }) {
                    Ok(Finished::Read(reading)) => Ok(reading),
                    Ok(Finished::Lacking(_, refused)) => Err(refused),
                    Err(ReadError::Unsupported { .. }) => Err(refused),
                    Err(error) => Err(error),
                }
            }
        };
        let made = read();
        Tried { made, blinding }
    }

    /// What goes in and comes out of the model at these sizes, as a graph without nodes
    /// ([`Graph::is_outline`]): for engines that read ONNX themselves, where [`File::read`] finds what
    /// no graph can say ([`ReadError::Unsupported`]). Inputs are filled as those of a graph are; what
    /// integers are rows of is known as far as the file could be read.
    ///
    /// # Errors
    /// Sizes that it cannot have; nodes that read what nothing before them makes, or make what is
    /// there; no output; constants beyond all measure.
    pub fn outline(&self, dims: &BTreeMap<String, u64>) -> Result<Outline, ReadError> {
        let dims = self.inputs.resolve(dims)?;
        self.best_fed(|feeding| {
            let mut blinding = BTreeSet::new();
            let made = Import::new(self, &dims, feeding).and_then(|mut import| {
                let made = import.outline();
                blinding = import.blinding();
                made
            });
            Tried { made, blinding }
        })
    }
}

/// A model that engines run as it is.
#[derive(Debug)]
pub struct Outline {
    /// What goes in and comes out.
    pub graph: Graph,
    /// Number of operators in the file, those in graphs of nodes left out.
    pub nodes: usize,
}

impl Reading {
    /// The first parameter of which a number is not finite in single precision.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn first_not_finite(&self) -> io::Result<Option<&str>> {
        let held: BTreeMap<u64, &Constant> = self
            .weights
            .held
            .iter()
            .map(|(offset, constant)| (*offset, constant))
            .collect();
        for parameter in &self.graph.parameters {
            let Fill::Stored { offset, .. } = parameter.fill else {
                continue;
            };
            if let Some(constant) = held.get(&offset)
                && !constant.is_finite()?
            {
                return Ok(Some(&parameter.name));
            }
        }
        Ok(None)
    }

    /// Writes the numbers of the parameters, each where its fill says.
    ///
    /// # Errors
    /// Of writing, and of reading the files that hold them.
    pub fn write_weights(&self, out: &mut dyn io::Write) -> io::Result<()> {
        let mut at = 0;
        for (offset, constant) in &self.weights.held {
            let gap = offset.saturating_sub(at);
            io::copy(&mut io::Read::take(io::repeat(0), gap), out)?;
            constant.write(out)?;
            at = offset.saturating_add(stored_bytes(constant));
        }
        Ok(())
    }
}

/// The graph of an import: parameters in the order of their first use, each with its place in the
/// file of weights.
fn build(
    import: &mut Import<'_>,
    nodes: Vec<Node>,
    outputs: Vec<String>,
) -> Result<Reading, ReadError> {
    let mut parameters = Vec::new();
    let mut weights = Shelf::default();
    for name in nodes.iter().flat_map(|node| &node.inputs) {
        let Some(Held { constant, role }) = import.parameters.remove(name) else {
            continue;
        };
        parameters.push(Parameter {
            name: name.clone(),
            shape: constant.shape.clone(),
            role,
            fill: weights.put(constant),
        });
    }
    let graph = Graph {
        name: import.file.name.clone(),
        inputs: import.take_inputs(),
        parameters,
        nodes,
        outputs,
        loss: None,
    };
    match infer::shapes(&graph) {
        Ok(_) => Ok(Reading { graph, weights }),
        Err(ModelError::Node {
            node, op, reason, ..
        }) => Err(ReadError::Unsupported {
            op: op.to_owned(),
            node,
            reason,
        }),
        Err(error) => Err(ReadError::Malformed(error.to_string())),
    }
}

/// Bytes of a constant in a file of weights.
fn stored_bytes(constant: &Constant) -> u64 {
    let width = match constant.kind {
        Kind::Float => 4,
        Kind::Integer | Kind::Bool => 8,
        // They are no parameters, and stay in the file.
        Kind::Other => return constant.file_bytes(),
    };
    constant.elements().saturating_mul(width)
}

/// The version of ONNX's operators.
fn opset(model: &ModelProto) -> Result<i64, ReadError> {
    let imported = model.opset_import.iter();
    let mut imported = imported.filter(|set| whole::is_onnx(&set.domain));
    let (Some(set), None) = (imported.next(), imported.next()) else {
        return Err(ReadError::Malformed(
            "it is no ONNX file: it does not name one version of ONNX's operators".to_owned(),
        ));
    };
    if OPSETS.contains(&set.version) {
        Ok(set.version)
    } else {
        let (first, last) = (OPSETS.start(), OPSETS.end());
        Err(ReadError::Malformed(format!(
            "it has opset {}, and {first} to {last} are read; export it again",
            set.version
        )))
    }
}

/// What its floats are: those that are fed first, inputs aside that are cast before anything else reads
/// them; those of most numbers where no such are fed. What is of another precision is refused where a
/// node reads it.
fn precision(
    inputs: &Inputs,
    initializers: &BTreeMap<String, Constant>,
    graph: &GraphProto,
) -> Precision {
    let others = graph.node.iter().filter(|node| node.op_type != "Cast");
    let read: BTreeSet<&String> = others.flat_map(|node| &node.input).collect();
    let floats = || {
        let fed = inputs.fed.iter();
        fed.filter(|input| input.element.kind == Kind::Float)
    };
    let code = floats()
        .find(|input| read.contains(&input.name))
        .map(|input| input.element.code)
        .or_else(|| most(initializers, graph))
        .or_else(|| cast_first(graph));
    match code {
        Some(Element::DOUBLE) => Precision::Fp64,
        Some(Element::FLOAT16) => Precision::Fp16,
        Some(Element::BFLOAT16) => Precision::Bf16,
        _ => Precision::Fp32,
    }
}

/// What the first input that is cast to floats comes to.
fn cast_first(graph: &GraphProto) -> Option<i32> {
    let mut casts = graph.node.iter().filter(|node| node.op_type == "Cast");
    casts.find_map(|node| {
        let to = node.attribute.iter().find(|given| given.name == "to")?;
        let code = i32::try_from(to.i?).ok()?;
        let element = Element::of(code).ok()?;
        (element.kind == Kind::Float).then_some(code)
    })
}

/// The element type of most floats that the file holds in tensors with axes, be they initializers or
/// constants among the nodes.
fn most(initializers: &BTreeMap<String, Constant>, graph: &GraphProto) -> Option<i32> {
    let held = initializers.values();
    let held = held.filter_map(|tensor| {
        let code = tensor.float_code().filter(|_| !tensor.shape.is_empty())?;
        Some((code, tensor.elements()))
    });
    let attributes = graph.node.iter().flat_map(|node| &node.attribute);
    let tensors = attributes.filter_map(|attribute| attribute.t.as_deref());
    let in_nodes = tensors.filter(|tensor| !tensor.dims.is_empty());
    let in_nodes = in_nodes.filter_map(|tensor| {
        let element = Element::of(tensor.data_type).ok()?;
        let sizes = tensor.dims.iter().map(|size| size.unsigned_abs());
        (element.kind == Kind::Float).then_some((element.code, sizes.fold(1, u64::saturating_mul)))
    });
    let mut counts: BTreeMap<i32, u64> = BTreeMap::new();
    for (code, elements) in held.chain(in_nodes) {
        let count = counts.entry(code).or_default();
        *count = count.saturating_add(elements);
    }
    let most = counts.into_iter().max_by_key(|(_, count)| *count);
    most.map(|(code, _)| code)
}
