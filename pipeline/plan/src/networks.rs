//! What the plan must know of networks: dimensions, the graph's hash, and what a step costs. Each
//! network is built once, however many cells share it.

use std::{
    borrow::Cow,
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    num::NonZero,
    path::{Path, PathBuf},
    rc::Rc,
    sync::LazyLock,
    thread,
};

use models::{
    Checkpoint, ModelError,
    cost::Cost,
    onnx::{self, ReadError},
    zoo::Drawings,
};
use schema::{
    Digest, Mode, Model, ModelSource, Precision, Weights,
    characters::is_unfit_for_prose,
    graph::{ElementType, Input},
};

/// The dimension that a search for the largest batch varies.
pub(crate) const BATCH: &str = "batch";

/// Networks below which a second processor is not worth starting.
const SHARE: usize = 64;

/// A network with all its dimensions.
#[derive(Debug, Clone)]
pub(crate) struct Network {
    /// Every dimension, defaults included.
    pub(crate) dims: BTreeMap<String, u64>,
    /// Hash of the graph, or of the user's file.
    pub(crate) graph: Digest,
    /// Number of operators.
    pub(crate) nodes: u64,
    /// As many where LSTM and GRU are spelt out.
    pub(crate) unrolled_nodes: u64,
    pub(crate) flops: u64,
    pub(crate) bytes: u64,
    pub(crate) parameters: u64,
    pub(crate) peak_bytes: u64,
    /// What of a user's model no graph can say.
    pub(crate) unread: Option<Unread>,
}

/// Why a model of the user's has no graph, and who may run it all the same.
#[derive(Debug, Clone)]
pub(crate) struct Unread {
    /// The operator and its node.
    pub(crate) reason: String,
    /// The precision of the file, in which engines that read ONNX run it as it is; `None` where no
    /// engine shall.
    pub(crate) as_it_is: Option<Precision>,
}

/// The names of the zoo, in its order.
static NAMES: LazyLock<Vec<&'static str>> = LazyLock::new(models::zoo::names);

/// Dimensions of each network of the zoo, with their defaults.
static DIMENSIONS: LazyLock<BTreeMap<&'static str, BTreeMap<String, u64>>> = LazyLock::new(|| {
    names()
        .map(|name| {
            (
                name,
                models::zoo::resolve_dims(name, &BTreeMap::new()).unwrap_or_default(),
            )
        })
        .collect()
});

/// Names of every dimension of any network.
static ALL_DIMENSIONS: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
    DIMENSIONS
        .values()
        .flat_map(|dims| dims.keys().cloned())
        .collect()
});

/// The names of the zoo.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    NAMES.iter().copied()
}

/// Names of every dimension of any network.
pub(crate) fn dimensions() -> &'static BTreeSet<String> {
    &ALL_DIMENSIONS
}

/// Why a network cannot be built, in words.
#[derive(Debug, Clone)]
pub(crate) struct Refusal {
    pub(crate) reason: String,
    /// What would be right, where that is known.
    pub(crate) help: Option<String>,
}

impl From<ModelError> for Refusal {
    fn from(error: ModelError) -> Self {
        match error {
            // Whoever shows it names the model.
            ModelError::Dimension {
                dimension,
                size,
                reason,
                ..
            } => Self {
                reason: format!("dimension `{dimension}`: {size} is not possible"),
                help: Some(reason),
            },
            other => Self::from(other.to_string()),
        }
    }
}

impl From<ReadError> for Refusal {
    fn from(error: ReadError) -> Self {
        Self::from(error.to_string())
    }
}

impl From<String> for Refusal {
    fn from(reason: String) -> Self {
        Self { reason, help: None }
    }
}

/// A network, or why it cannot be built.
type Built = Result<Rc<Network>, Refusal>;

/// A model of the user's, read once however many cells and jobs share it.
#[derive(Debug)]
pub(crate) struct UserModel {
    /// The path in the manifest's folder, without what changes nothing.
    pub(crate) name: String,
    pub(crate) file: onnx::File,
    read: RefCell<BTreeMap<BTreeMap<String, u64>, Built>>,
}

impl UserModel {
    pub(crate) fn new(name: &str, file: onnx::File) -> Self {
        Self {
            name: name.to_owned(),
            file,
            read: RefCell::default(),
        }
    }

    /// Two manifests may call different files by one name: the content tells.
    fn is(&self, other: &Self) -> bool {
        self.name == other.name && self.file.digest() == other.file.digest()
    }

    fn network(&self, dims: &BTreeMap<String, u64>) -> Built {
        if let Some(known) = self.read.borrow().get(dims) {
            return known.clone();
        }
        let network = self.build(dims).map(Rc::new);
        self.read.borrow_mut().insert(dims.clone(), network.clone());
        network
    }

    /// What a step costs is that of the graph as we read it.
    fn build(&self, dims: &BTreeMap<String, u64>) -> Result<Network, Refusal> {
        let dims = self.file.resolve_dims(dims)?;
        let reading = match self.file.read(&dims) {
            Ok(reading) => reading,
            Err(error @ (ReadError::Unsupported { .. } | ReadError::Excessive { .. })) => {
                return self.unread(dims, &error);
            }
            Err(error) => return Err(error.into()),
        };
        let graph = &reading.graph;
        let cost = models::cost::total(graph, Mode::Inference)?;
        Ok(Network::new(dims, self.file.digest(), &cost))
    }

    /// What is known of a model without a graph: not what it costs.
    fn unread(&self, dims: BTreeMap<String, u64>, error: &ReadError) -> Result<Network, Refusal> {
        let outline = match error {
            ReadError::Unsupported { .. } => self.file.outline(&dims),
            _ => Err(error.clone()),
        };
        let (nodes, fed_bytes, as_it_is, reason) = match outline {
            Ok(outline) => (
                outline.nodes as u64,
                bytes_of(&outline.graph.inputs),
                Some(self.file.precision()),
                legible(error),
            ),
            // Nor can engines be given the file as it is.
            Err(error @ (ReadError::Unsupported { .. } | ReadError::Excessive { .. })) => {
                (0, 0, None, legible(&error))
            }
            Err(error) => return Err(error.into()),
        };
        let unknown = Cost {
            flops: 0,
            bytes: 0,
            parameters: 0,
            peak_bytes: self.file.bytes().saturating_add(fed_bytes),
            nodes,
            unrolled_nodes: nodes,
        };
        Ok(Network {
            unread: Some(Unread { reason, as_it_is }),
            ..Network::new(dims, self.file.digest(), &unknown)
        })
    }
}

/// Bytes of what is fed, its floats in binary32 as costs are counted; all of it lies in memory before the
/// first step.
fn bytes_of(inputs: &[Input]) -> u64 {
    let bytes = inputs.iter().map(|input| {
        let one = match input.element {
            ElementType::Float => 4,
            ElementType::Int64 => 8,
        };
        input.shape.iter().copied().fold(one, u64::saturating_mul)
    });
    bytes.fold(0, u64::saturating_add)
}

/// The dimensions that were asked for, and the mode.
type Sizes = (BTreeMap<String, u64>, Mode);

/// A network of the zoo, and weights of the user's for it.
#[derive(Debug)]
pub(crate) struct Trained {
    zoo: String,
    weights: Weights,
    checkpoint: Rc<Checkpoint>,
    /// Whether the weights are the network's, at each of its sizes that were asked for.
    fits: RefCell<BTreeMap<Sizes, Result<(), Refusal>>>,
}

impl Trained {
    pub(crate) fn new(zoo: &str, path: &str, checkpoint: Rc<Checkpoint>) -> Self {
        Self {
            zoo: zoo.to_owned(),
            weights: Weights {
                path: path.to_owned(),
                content: checkpoint.digest(),
            },
            checkpoint,
            fits: RefCell::default(),
        }
    }

    fn check(&self, dims: &BTreeMap<String, u64>, mode: Mode) -> Result<(), Refusal> {
        let request = (dims.clone(), mode);
        if let Some(known) = self.fits.borrow().get(&request) {
            return known.clone();
        }
        let found = self.find(dims, mode);
        self.fits.borrow_mut().insert(request, found.clone());
        found
    }

    fn find(&self, dims: &BTreeMap<String, u64>, mode: Mode) -> Result<(), Refusal> {
        let dims = models::zoo::resolve_dims(&self.zoo, dims)?;
        let graph = models::zoo::build_for(&self.zoo, &dims, mode)?;
        let read = self.checkpoint.read(graph);
        read.map(drop)
            .map_err(|error| format!("`{}`: {error}", self.weights.path).into())
    }
}

/// A network: one of the zoo by its name, perhaps with weights, or a model of the user's.
#[derive(Debug, Clone)]
pub(crate) enum Which {
    Zoo(String),
    Trained(Rc<Trained>),
    User(Rc<UserModel>),
}

impl Which {
    /// The zoo's name, or the path of the user's model.
    fn name(&self) -> &str {
        match self {
            Self::Zoo(name) => name,
            Self::Trained(trained) => &trained.zoo,
            Self::User(model) => &model.name,
        }
    }

    fn weights(&self) -> Option<&Weights> {
        match self {
            Self::Trained(trained) => Some(&trained.weights),
            Self::Zoo(_) | Self::User(_) => None,
        }
    }

    /// The name that plans and pages show.
    pub(crate) fn title(&self) -> Cow<'_, str> {
        let weights = self.weights().map(|weights| weights.path.as_str());
        Model::title_of(self.name(), weights)
    }

    /// How a cell names it, whose graph or file this is.
    pub(crate) fn model(&self, graph: Digest) -> Model {
        Model {
            name: self.name().to_owned(),
            source: match self {
                Self::Zoo(_) | Self::Trained(_) => ModelSource::Zoo,
                Self::User(_) => ModelSource::Onnx,
            },
            graph,
            weights: self.weights().cloned(),
        }
    }

    /// Whether it has a dimension.
    pub(crate) fn has_dimension(&self, dimension: &str) -> bool {
        match self {
            Self::Zoo(_) | Self::Trained(_) => DIMENSIONS
                .get(self.name())
                .is_some_and(|dims| dims.contains_key(dimension)),
            Self::User(model) => model.file.dimensions().any(|name| name == dimension),
        }
    }

    /// Whether it can be run with other batches than that of these dimensions, all of which it has. A user's
    /// file may have its batch written in, and then has the dimension all the same.
    pub(crate) fn is_batch_open(&self, dims: &BTreeMap<String, u64>) -> bool {
        let Some(&batch) = dims.get(BATCH) else {
            return false;
        };
        match self {
            Self::Zoo(_) | Self::Trained(_) => true,
            Self::User(model) => {
                let mut other = dims.clone();
                other.insert(BATCH.to_owned(), if batch == 1 { 2 } else { 1 });
                model.file.resolve_dims(&other).is_ok()
            }
        }
    }

    /// Whether a factor says anything about it.
    pub(crate) fn is_concerned(&self, factor: &str) -> bool {
        match self {
            Self::Zoo(_) | Self::Trained(_) => models::zoo::is_concerned(self.name(), factor),
            Self::User(model) => model.file.is_concerned(factor),
        }
    }
}

impl PartialEq for Which {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Zoo(a), Self::Zoo(b)) => a == b,
            (Self::Trained(a), Self::Trained(b)) => a.zoo == b.zoo && a.weights == b.weights,
            (Self::User(a), Self::User(b)) => a.is(b),
            _ => false,
        }
    }
}

/// A network by its name, the dimensions that were asked for, and its mode.
type Request = (String, BTreeMap<String, u64>, Mode);

/// The networks built so far.
#[derive(Default)]
pub(crate) struct Networks {
    /// Drawn once for all jobs, of which there may be as many as networks.
    drawings: Drawings,
    built: BTreeMap<Request, Built>,
    /// By the manifest's folder and the path from there.
    files: BTreeMap<(PathBuf, String), Result<Rc<UserModel>, ReadError>>,
    /// Files of weights, likewise.
    checkpoints: BTreeMap<(PathBuf, String), Result<Rc<Checkpoint>, ReadError>>,
}

impl Networks {
    /// The user's model at a path from a manifest's folder, read and hashed at the first call.
    pub(crate) fn open(&mut self, folder: &Path, path: &str) -> Result<Rc<UserModel>, ReadError> {
        let read = || {
            let file = onnx::File::open(folder, path)?;
            Ok(Rc::new(UserModel::new(path, file)))
        };
        self.files
            .entry((folder.to_owned(), path.to_owned()))
            .or_insert_with(read)
            .clone()
    }

    /// Whether a factor says anything about the network of a cell. Of a file that was not read nothing is
    /// known, and so any may.
    pub(crate) fn is_concerned(&self, model: &Model, factor: &str) -> bool {
        match model.source {
            ModelSource::Zoo => models::zoo::is_concerned(&model.name, factor),
            ModelSource::Onnx => {
                let mut read = self.files.values().flatten();
                let is_it = |user: &&Rc<UserModel>| user.file.digest() == model.graph;
                let user = read.find(is_it);
                user.is_none_or(|user| user.file.is_concerned(factor))
            }
        }
    }

    /// The user's weights at a path from a manifest's folder, read and hashed at the first call.
    pub(crate) fn checkpoint(
        &mut self,
        folder: &Path,
        path: &str,
    ) -> Result<Rc<Checkpoint>, ReadError> {
        self.checkpoints
            .entry((folder.to_owned(), path.to_owned()))
            .or_insert_with(|| Checkpoint::open(folder, path).map(Rc::new))
            .clone()
    }

    /// Works out what is going to be asked for, on all processors. What cannot be built is left
    /// to [`Networks::get`], which says why.
    pub(crate) fn prepare<'a>(
        &mut self,
        requests: impl Iterator<Item = (&'a Which, &'a BTreeMap<String, u64>)>,
        mode: Mode,
    ) {
        let zoo = requests.filter_map(|(model, dims)| match model {
            Which::Zoo(_) | Which::Trained(_) => Some((model.name(), dims)),
            Which::User(_) => None,
        });
        let requests: BTreeSet<_> = zoo.collect();
        let requests: Vec<Request> = requests
            .into_iter()
            .map(|(model, dims)| (model.to_owned(), dims.clone(), mode))
            .filter(|request| !self.built.contains_key(request))
            .collect();
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        let share = requests.len().div_ceil(processors).max(SHARE);
        let mut shares = requests.chunks(share);
        let own = shares.next().unwrap_or_default();
        let found: Vec<_> = thread::scope(|scope| {
            let start = |share| {
                thread::Builder::new()
                    .spawn_scoped(scope, move || summaries(share, &mut Drawings::default()))
            };
            // Without a thread a share waits until it is asked for, one network at a time.
            let others: Vec<_> = shares.filter_map(|share| start(share).ok()).collect();
            let mut found = summaries(own, &mut self.drawings);
            for other in others {
                found.extend(other.join().unwrap_or_default());
            }
            found
        });
        for (request, network) in found {
            self.built.insert(request, Ok(Rc::new(network)));
        }
    }

    /// The network of this name and these dimensions.
    ///
    /// # Errors
    /// Why it cannot be built, in words.
    pub(crate) fn get(&mut self, model: &Which, dims: &BTreeMap<String, u64>, mode: Mode) -> Built {
        match model {
            Which::User(model) => return model.network(dims),
            Which::Trained(trained) => trained.check(dims, mode)?,
            Which::Zoo(_) => {}
        }
        let model = model.name();
        self.built
            .entry((model.to_owned(), dims.clone(), mode))
            .or_insert_with(|| build(model, dims, mode).map(Rc::new))
            .clone()
    }
}

/// The networks among these that can be built.
fn summaries(requests: &[Request], drawings: &mut Drawings) -> Vec<(Request, Network)> {
    let mut network = |(model, dims, mode): &Request| {
        let dims = models::zoo::resolve_dims(model, dims).ok()?;
        let summary = drawings.summary(model, &dims, *mode)?;
        Some(Network::new(dims, summary.graph, &summary.cost))
    };
    requests
        .iter()
        .filter_map(|request| Some((request.clone(), network(request)?)))
        .collect()
}

/// A network built as a worker builds it.
fn build(model: &str, dims: &BTreeMap<String, u64>, mode: Mode) -> Result<Network, Refusal> {
    let dims = models::zoo::resolve_dims(model, dims)?;
    let graph = models::zoo::build_for(model, &dims, mode)?;
    let cost = models::cost::total(&graph, mode)?;
    Ok(Network::new(dims, Digest::of_value(&graph), &cost))
}

impl Network {
    fn new(dims: BTreeMap<String, u64>, graph: Digest, cost: &Cost) -> Self {
        Self {
            dims,
            graph,
            nodes: cost.nodes,
            unrolled_nodes: cost.unrolled_nodes,
            flops: cost.flops,
            bytes: cost.bytes,
            parameters: cost.parameters,
            peak_bytes: cost.peak_bytes,
            unread: None,
        }
    }
}

/// What is wrong with a model on one line: it may name parts of the file, which are called as they like.
pub(crate) fn legible(error: &ReadError) -> String {
    let seen = |c| if is_unfit_for_prose(c) { '\u{fffd}' } else { c };
    error.to_string().chars().map(seen).collect()
}
