//! ONNX Runtime as the worker's loop sees it.

use std::{cell::OnceCell, collections::BTreeMap, env, path::PathBuf, time::Instant};

use models::onnx::{self, Document, Extensions};
use schema::{
    Outcome, Precision,
    protocol::{ARITHMETIC, Load},
};
use worker::{Allocator, Engine, Identity, LoadReport, Session, nanoseconds};

use crate::{
    configuration::{Configuration, ENGINE},
    failure::unsupported,
    integers,
    library::Library,
    model::{self, FEW_BITS, IN_FLOATS},
    profile::Profiler,
    provider::{Provider, VARIANTS},
    session::Inference,
    tensors,
};

/// ONNX Runtime, before it has a network.
#[derive(Debug, Default)]
pub struct OnnxRuntime {
    /// Where the library is; where the environment says if absent.
    path: Option<PathBuf>,
    /// The library, or why there is none; loaded at the first need.
    library: OnceCell<Result<Library, Outcome>>,
    /// The worker's program, which finds out what products are computed in; nothing does if absent.
    program: Option<PathBuf>,
}

impl OnnxRuntime {
    /// ONNX Runtime from the library at `path`, an absolute path. (The default takes the path
    /// from the environment.)
    #[must_use]
    pub fn at(path: PathBuf) -> Self {
        Self {
            path: Some(path),
            ..Self::default()
        }
    }

    /// ONNX Runtime as the worker's program has it, which answers [`crate::asked_aside`] first.
    #[must_use]
    pub fn of_program() -> Self {
        Self {
            program: env::current_exe().ok(),
            ..Self::default()
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

    /// What the products of a network on grids are computed in.
    fn integers(&self, library: &Library, load: &Load) -> String {
        let unknown = |reason: &str| {
            format!(
                "int8 where ONNX Runtime has kernels for the grids, fp32 elsewhere; where that is, is not \
                 known: {reason}"
            )
        };
        let Some(program) = &self.program else {
            return unknown("the worker's program is not there to be asked");
        };
        match integers::products(program, library, load) {
            Ok(products) => products
                .arithmetic()
                .unwrap_or_else(|| unknown("it has no product")),
            Err(error) => unknown(&error.to_string()),
        }
    }
}

impl Engine for OnnxRuntime {
    /// A library that cannot be loaded is told of in the answer to `load`.
    fn hello(&self) -> Identity {
        let version = self.library().ok().and_then(Library::version);
        Identity {
            engine: ENGINE.to_owned(),
            versions: version
                .map(|version| (ENGINE.to_owned(), version))
                .into_iter()
                .collect(),
            worker: env!("PHOTOFINISH_WORKER_DIGEST").parse().ok(),
            variants: VARIANTS.map(str::to_owned).to_vec(),
        }
    }

    fn load(&mut self, load: &Load) -> Result<(Box<dyn Session>, LoadReport), Outcome> {
        let configuration = Configuration::of(&load.cell)?;
        let precision = configuration.precision;
        if precision == Precision::Fp64 && onnx::own_file(load, precision).is_none() {
            let reason = "ONNX Runtime has kernels in double precision for some operators alone: it runs \
                          files that are in it, and no other network";
            return Err(unsupported(reason));
        }
        let library = self.library()?;
        let integers = precision.is_int8().then(|| self.integers(library, load));
        let start = Instant::now();
        let extensions = extensions(&configuration);
        let document = Document::of(load, configuration.precision, extensions)?;
        let written = Instant::now();
        let session = model::commit(&document, &configuration, library, None)?;
        let compiled = Instant::now();
        drop(document);
        let inputs = tensors::inputs(&load.graph, &session)?;
        let filled = Instant::now();
        let mut session = Inference::bind(session, &load.graph, inputs, &configuration)?;
        let report = LoadReport {
            fill_ns: nanoseconds(filled - compiled),
            build_ns: nanoseconds((written - start) + filled.elapsed()),
            compile_ns: nanoseconds(compiled - written),
            threads: None,
            spin: spin(&configuration).to_owned(),
            settings: settings(&configuration, load, integers),
        };
        session.profiler = Some(Profiler {
            load: load.clone(),
            configuration,
            library: library.clone(),
        });
        Ok((Box::new(session), report))
    }

    fn reads_weights(&self) -> bool {
        true
    }
}

const fn spin(configuration: &Configuration) -> &'static str {
    if configuration.spins {
        "spin a while, then sleep (ONNX Runtime's default)"
    } else {
        "sleep (session.intra_op.allow_spinning=0)"
    }
}

/// What a cell's file may have beyond ONNX.
pub(crate) const fn extensions(configuration: &Configuration) -> Extensions {
    Extensions {
        multi_head_attention: configuration.fuses_attention,
    }
}

/// What is in force; `integers` says what products on grids are computed in.
fn settings(
    configuration: &Configuration,
    load: &Load,
    integers: Option<String>,
) -> BTreeMap<String, String> {
    let own_file = onnx::own_file(load, configuration.precision);
    let arithmetic =
        integers.unwrap_or_else(|| match (configuration.provider, configuration.precision) {
            (Provider::Cpu, Precision::Fp16) => "stored as fp16, computed in fp32".to_owned(),
            (_, precision) => precision.to_string(),
        });
    let attention = if configuration.fuses_attention {
        "MultiHeadAttention (com.microsoft)"
    } else {
        "composed of products and a softmax"
    };
    let arena = match configuration.allocator {
        Allocator::Arena => "on (default)",
        Allocator::System | Allocator::Keep => "off",
    };
    let bound = if configuration.takes_requests {
        worker::REQUEST
    } else if load.graph.is_outline() {
        "inputs bound once, outputs placed anew by each step"
    } else {
        "bound once"
    };
    let mut settings = BTreeMap::from([
        (
            "attention, where there is any".to_owned(),
            attention.to_owned(),
        ),
        (ARITHMETIC.to_owned(), arithmetic),
        ("execution".to_owned(), "sequential".to_owned()),
        (
            "execution providers".to_owned(),
            configuration.provider.title().to_owned(),
        ),
        (
            "graph optimization".to_owned(),
            configuration.optimization.word().to_owned(),
        ),
        ("inputs and outputs".to_owned(), bound.to_owned()),
        ("inter-op threads".to_owned(), "1".to_owned()),
        (
            "intra-op threads".to_owned(),
            configuration.threads.to_string(),
        ),
        ("memory arena".to_owned(), arena.to_owned()),
        ("memory pattern".to_owned(), "on (default)".to_owned()),
        match own_file {
            Some(_) => ("model".to_owned(), "the user's file as it is".to_owned()),
            None => ("opset".to_owned(), onnx::OPSET.to_string()),
        },
    ]);
    if load.graph.is_outline() && !configuration.precision.is_int8() {
        let told = format!("in fp32 ({FEW_BITS}={IN_FLOATS}; ONNX Runtime's default is 8 bits)");
        settings.insert("products with weights of 4 or 8 bits".to_owned(), told);
    }
    if configuration.provider != Provider::Cpu {
        let tf32 = configuration.precision == Precision::Tf32;
        settings.insert(
            "TF32".to_owned(),
            if tf32 { "on" } else { "off" }.to_owned(),
        );
    }
    settings
}
