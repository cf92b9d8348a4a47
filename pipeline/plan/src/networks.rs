//! What the plan must know of networks: dimensions, the graph's hash, and what a step costs. Each
//! network is built once, however many cells share it.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    sync::LazyLock,
};

use schema::{Digest, Mode};

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

type Request = (String, BTreeMap<String, u64>, Mode);

/// The networks built so far.
#[derive(Debug, Default)]
pub(crate) struct Networks {
    built: BTreeMap<Request, Result<Rc<Network>, String>>,
}

impl Networks {
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

fn build(model: &str, dims: &BTreeMap<String, u64>, mode: Mode) -> Result<Network, String> {
    let dims = models::zoo::resolve_dims(model, dims).map_err(|error| error.to_string())?;
    let graph = models::zoo::build_for(model, &dims, mode).map_err(|error| error.to_string())?;
    let cost = models::cost::total(&graph, mode).map_err(|error| error.to_string())?;
    Ok(Network {
        graph: Digest::of_value(&graph),
        nodes: graph.nodes.len() as u64,
        flops: cost.flops,
        bytes: cost.bytes,
        parameters: cost.parameters,
        peak_bytes: cost.peak_bytes,
        dims,
    })
}
