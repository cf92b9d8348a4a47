//! OpenVINO as the worker's loop sees it.

use std::{
    cell::OnceCell,
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Instant,
};

use models::{
    onnx::{self, Document, Extensions},
    quantise,
};
use openvino::Core;
use schema::{
    Outcome, Precision,
    protocol::{ARITHMETIC, Load},
};
use worker::{Engine, Identity, LoadReport, Session, nanoseconds};

use crate::{
    configuration::{Configuration, ENGINE, VARIANT},
    failure::unavailable,
    library::Library,
    network,
    session::Inference,
    tensors,
};

/// What weights, inputs and outputs are in, whatever operators compute in: a file that no graph can say
/// is run as it is, in the cell's precision or not at all.
fn stored(load: &Load) -> Precision {
    if load.graph.is_outline() {
        load.cell.precision
    } else {
        Precision::Fp32
    }
}

/// OpenVINO, before it has a network.
#[derive(Debug, Default)]
pub struct OpenVino {
    /// Where the library is; where the environment says if absent.
    path: Option<PathBuf>,
    /// The library, or why there is none; loaded at the first need.
    library: OnceCell<Result<Library, Outcome>>,
}

impl OpenVino {
    /// OpenVINO from the library at `path`, an absolute path. (The default takes the path from the
    /// environment.)
    #[must_use]
    pub fn at(path: PathBuf) -> Self {
        Self {
            path: Some(path),
            library: OnceCell::new(),
        }
    }

    fn library(&self) -> Result<&Library, Outcome> {
        let open = || match &self.path {
            Some(path) => Library::open(path),
            None => Library::open(&Library::named()?),
        };
        self.library
            .get_or_init(open)
            .as_ref()
            .map_err(Clone::clone)
    }
}

impl Engine for OpenVino {
    /// A library that cannot be loaded is told of in the answer to `load`.
    fn hello(&self) -> Identity {
        let version = self.library().ok().map(|library| library.version.clone());
        Identity {
            engine: ENGINE.to_owned(),
            versions: version
                .map(|version| (ENGINE.to_owned(), version))
                .into_iter()
                .collect(),
            worker: env!("PHOTOFINISH_WORKER_DIGEST").parse().ok(),
            variants: vec![VARIANT.to_owned()],
        }
    }

    fn load(&mut self, load: &Load) -> Result<(Box<dyn Session>, LoadReport), Outcome> {
        let cell = &load.cell;
        let configuration = Configuration::of(cell)?;
        self.library()?;
        let start = Instant::now();
        let stored = stored(load);
        let document = Document::of(load, stored, Extensions::default())?;
        let mut core = Core::new().map_err(|error| unavailable(error.to_string()))?;
        network::check_plugin(&core)?;
        let model = network::read(&mut core, &document, &load.graph)?;
        let read = Instant::now();
        let compiled = network::compile(&mut core, &model, &configuration)?;
        let ready = Instant::now();
        let threads = network::threads(&compiled);
        let mut settings = network::settings(&compiled);
        let own_file = onnx::own_file(load, stored);
        settings.extend(own_settings(&configuration, stored, own_file));
        let told = Instant::now();
        let fed = network::fed(&compiled, &load.graph)?.into_iter();
        let inputs = fed.map(|(input, element)| {
            let tensor = tensors::input(input, element)?;
            Ok((input.name.as_str(), tensor))
        });
        let inputs = inputs.collect::<Result<Vec<_>, Outcome>>()?;
        let filled = Instant::now();
        let session = Inference::new(compiled, &load.graph, inputs, configuration.takes_requests)?;
        let bound = filled.elapsed();
        if configuration.is_quantised {
            let products = quantise::census(&load.graph).products;
            settings.insert(ARITHMETIC.to_owned(), session.arithmetic(products));
        }
        let report = LoadReport {
            fill_ns: nanoseconds(filled - told),
            build_ns: nanoseconds((read - start) + (told - ready) + bound),
            compile_ns: nanoseconds(ready - read),
            threads,
            spin: "spin a while, then sleep (oneTBB's default)".to_owned(),
            settings,
        };
        Ok((Box::new(session), report))
    }

    fn reads_weights(&self) -> bool {
        true
    }
}

/// What OpenVINO does not know to tell.
fn own_settings(
    configuration: &Configuration,
    stored: Precision,
    own_file: Option<&Path>,
) -> BTreeMap<String, String> {
    let stored = stored.to_string();
    let model = match own_file {
        Some(_) => ("model".to_owned(), "the user's file as it is".to_owned()),
        None => ("opset".to_owned(), onnx::OPSET.to_string()),
    };
    let exchange = match configuration.takes_requests {
        true => ("inputs and outputs", worker::REQUEST),
        false => ("inputs", "set once"),
    };
    let own = [
        (
            "attention, where there is any",
            "given as products and a softmax, which the plugin fuses",
        ),
        ("weights, inputs and outputs", stored.as_str()),
        exchange,
        ("plugin", "CPU"),
    ];
    own.map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into_iter()
        .chain([model])
        .collect()
}
