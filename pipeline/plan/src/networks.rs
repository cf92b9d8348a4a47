//! What the plan must know of networks: dimensions, the graph's hash, and what a step costs. Each
//! network is built once, however many cells share it.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZero,
    rc::Rc,
    sync::LazyLock,
    thread,
};

use models::{cost::Cost, zoo::Drawings};
use schema::{Digest, Mode};

/// Networks below which a second processor is not worth starting.
const SHARE: usize = 64;

/// A network of the zoo with all its dimensions.
#[derive(Debug, Clone)]
pub(crate) struct Network {
    /// Every dimension, defaults included.
    pub(crate) dims: BTreeMap<String, u64>,
    /// Hash of the graph.
    pub(crate) graph: Digest,
    /// Number of operators.
    pub(crate) nodes: u64,
    pub(crate) flops: u64,
    pub(crate) bytes: u64,
    pub(crate) parameters: u64,
    pub(crate) peak_bytes: u64,
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

/// Whether a network has a dimension.
pub(crate) fn has_dimension(model: &str, dimension: &str) -> bool {
    DIMENSIONS
        .get(model)
        .is_some_and(|dims| dims.contains_key(dimension))
}

/// A network by its name, the dimensions that were asked for, and its mode.
type Request = (String, BTreeMap<String, u64>, Mode);

/// The networks built so far.
#[derive(Debug, Default)]
pub(crate) struct Networks {
    built: BTreeMap<Request, Result<Rc<Network>, String>>,
}

impl Networks {
    /// Works out what is going to be asked for, on all processors. What cannot be built is left
    /// to [`Networks::get`], which says why.
    pub(crate) fn prepare<'a>(
        &mut self,
        requests: impl Iterator<Item = (&'a String, &'a BTreeMap<String, u64>)>,
        mode: Mode,
    ) {
        let requests: BTreeSet<_> = requests.collect();
        let requests: Vec<Request> = requests
            .into_iter()
            .map(|(model, dims)| (model.clone(), dims.clone(), mode))
            .filter(|request| !self.built.contains_key(request))
            .collect();
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        let share = requests.len().div_ceil(processors).max(SHARE);
        let mut shares = requests.chunks(share);
        let own = shares.next().unwrap_or_default();
        let found: Vec<_> = thread::scope(|scope| {
            let start =
                |share| thread::Builder::new().spawn_scoped(scope, move || summaries(share));
            // Without a thread a share waits until it is asked for, one network at a time.
            let others: Vec<_> = shares.filter_map(|share| start(share).ok()).collect();
            let mut found = summaries(own);
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
    pub(crate) fn get(
        &mut self,
        model: &str,
        dims: &BTreeMap<String, u64>,
        mode: Mode,
    ) -> Result<Rc<Network>, String> {
        self.built
            .entry((model.to_owned(), dims.clone(), mode))
            .or_insert_with(|| build(model, dims, mode).map(Rc::new))
            .clone()
    }
}

/// The networks among these that can be built.
fn summaries(requests: &[Request]) -> Vec<(Request, Network)> {
    let mut drawings = Drawings::default();
    let mut network = |(model, dims, mode): &Request| {
        let dims = models::zoo::resolve_dims(model, dims).ok()?;
        let summary = drawings.summary(model, &dims, *mode)?;
        Some(Network::new(
            dims,
            summary.graph,
            summary.nodes,
            &summary.cost,
        ))
    };
    requests
        .iter()
        .filter_map(|request| Some((request.clone(), network(request)?)))
        .collect()
}

/// A network built as a worker builds it.
fn build(model: &str, dims: &BTreeMap<String, u64>, mode: Mode) -> Result<Network, String> {
    let dims = models::zoo::resolve_dims(model, dims).map_err(|error| error.to_string())?;
    let graph = models::zoo::build_for(model, &dims, mode).map_err(|error| error.to_string())?;
    let cost = models::cost::total(&graph, mode).map_err(|error| error.to_string())?;
    Ok(Network::new(
        dims,
        Digest::of_value(&graph),
        graph.nodes.len(),
        &cost,
    ))
}

impl Network {
    fn new(dims: BTreeMap<String, u64>, graph: Digest, nodes: usize, cost: &Cost) -> Self {
        Self {
            dims,
            graph,
            nodes: nodes as u64,
            flops: cost.flops,
            bytes: cost.bytes,
            parameters: cost.parameters,
            peak_bytes: cost.peak_bytes,
        }
    }
}
