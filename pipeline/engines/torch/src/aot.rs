//! `pytorch/aot`: the network compiled by AOTInductor into a package, which runs without Python.
//!
//! PyTorch's compiler is written in Python, so a program of the Python kit compiles
//! (`photofinish_pytorch.aot`), and this worker loads what it made. Packages are kept from launch to
//! launch, under a name that holds everything they are made from. They hold no weights.

mod compiler;
mod inference;
mod kept;
mod key;
mod training;

use std::{
    collections::BTreeMap,
    env,
    time::{Duration, Instant},
};

use schema::{Mode, Outcome, OutcomeKind, graph::Op, protocol::Load};
use serde::Deserialize;

use crate::{device::Place, failure::Fault, package::Package};
use kept::{Found, Unread};

pub(crate) use inference::Inference;
pub(crate) use training::Joint;

/// Why a package is not profiled.
pub(crate) const NO_PROFILE: &str = "AOTInductor's kernels are one call to PyTorch's profilers, and do not say which nodes of \
     the graph they compute";

/// What a package tells about itself (`photofinish_pytorch.package`).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Facts {
    /// What it was made from.
    key: String,
    /// The graph's name of each constant, by its name in the package.
    constants: BTreeMap<String, String>,
    /// Parameters that are fed, in order, before the graph's inputs and its labels.
    fed: Vec<String>,
    /// Parameters whose gradients it gives, in order, after the loss.
    gradients: Vec<String>,
    /// How it was compiled, in words.
    settings: BTreeMap<String, String>,
}

/// A package, loaded, with what it tells.
#[derive(Debug)]
struct Ready {
    package: Package,
    facts: Facts,
}

/// All that a cell needs, loaded.
#[derive(Debug)]
pub(crate) struct Compiled {
    main: Ready,
    /// The same without dropout, for parity, where the network has dropout.
    deterministic: Option<Ready>,
    /// What compiling took in this launch.
    pub(crate) compiling: Duration,
    /// How they came to be, in words.
    pub(crate) settings: BTreeMap<String, String>,
}

/// Finds what the cell of `load` needs among what earlier launches compiled, or compiles it.
pub(crate) fn prepare(load: &Load, place: Place) -> Result<Compiled, Outcome> {
    let command = compiler::command(|name| env::var_os(name))?;
    let shelf = kept::Shelf::open(env::var_os(worker::CACHE_VARIABLE));
    let surroundings = key::Surroundings::of(&command, place)?;
    let mut origin = Origin::default();
    let mut obtain = |dropout| {
        let key = key::of(load, &command, &surroundings, dropout);
        let damage = match shelf.find(&key, place, &load.scratch).map_err(at)? {
            Found::Ready(ready) => return Ok(ready),
            Found::Nothing => None,
            Found::Damaged(how) => Some(how),
        };
        let start = Instant::now();
        let made = load.scratch.join(format!("{key}.pt2"));
        compiler::compile(&command, load, &made, dropout, &key)?;
        origin.made_in(start.elapsed(), damage);
        let ready = kept::read(&made, &key, place, &load.scratch).map_err(|why| match why {
            Unread::Damaged(how) => misfit(&how),
            Unread::Fault(fault) => at(fault),
        })?;
        shelf.put(&made, &key);
        Ok(ready)
    };
    let main = obtain(true)?;
    let deterministic = drops(load).then(|| obtain(false)).transpose()?;
    let what = match load.cell.mode {
        Mode::Inference => "the forward pass",
        Mode::Training => "the joint graph of forward and backward pass, the loss among it",
    };
    let mut settings = main.facts.settings.clone();
    settings.insert("AOTInductor".to_owned(), what.to_owned());
    settings.insert("kernels".to_owned(), origin.words());
    Ok(Compiled {
        main,
        deterministic,
        compiling: origin.compiling.unwrap_or_default(),
        settings,
    })
}

/// Whether training draws random numbers, which parity must do without.
fn drops(load: &Load) -> bool {
    let drops = |op: &Op| matches!(op, Op::Dropout { ratio } if *ratio > 0.0);
    load.cell.mode == Mode::Training && load.graph.nodes.iter().any(|node| drops(&node.op))
}

/// How packages came to be.
#[derive(Default)]
struct Origin {
    /// How long compiling took; `None` where all were there.
    compiling: Option<Duration>,
    /// Why a package of an earlier launch was of no use.
    damage: Option<String>,
}

impl Origin {
    fn made_in(&mut self, time: Duration, damage: Option<String>) {
        self.compiling = Some(self.compiling.unwrap_or_default() + time);
        self.damage = damage.or(self.damage.take());
    }

    fn words(&self) -> String {
        match (&self.damage, self.compiling) {
            (Some(damage), _) => {
                format!(
                    "made by this launch, since those of an earlier one are of no use: {damage}"
                )
            }
            (None, Some(_)) => "made by this launch".to_owned(),
            (None, None) => "from the cache of earlier launches".to_owned(),
        }
    }
}

/// What AOTInductor threw while it ran.
fn at(fault: impl Into<Fault>) -> Outcome {
    fault.into().at("AOTInductor")
}

/// A package that is not what it should be.
fn misfit(what: &str) -> Outcome {
    Outcome::new(OutcomeKind::Crashed, format!("AOTInductor: {what}"))
}
