//! From ONNX to a session.

use std::path::PathBuf;

use models::onnx::Document;
use ort::session::{Session, builder::SessionBuilder};
use schema::Outcome;
use worker::Allocator;

use crate::{
    configuration::Configuration,
    failure::{failed, refused},
    library::Library,
};

/// Makes the session: optimises the graph, places the weights.
pub(crate) fn commit(
    document: &Document,
    configuration: &Configuration,
    library: &Library,
    traced: Option<&Traced>,
) -> Result<Session, Outcome> {
    let mut builder = options(configuration, library)?;
    if let Some(traced) = traced {
        builder = traced.ask(builder)?;
    }
    let session = match document {
        Document::Bytes(bytes) => builder.commit_from_memory(bytes),
        Document::File(path) => builder.commit_from_file(path),
    };
    session.map_err(|error| refused(&error))
}

/// Where a session writes what it made of a model, and where its time went.
#[derive(Debug, Clone)]
pub(crate) struct Traced {
    /// The model after optimisation, without its large weights.
    pub(crate) model: PathBuf,
    /// What the file of times begins with; `None` of a session that runs nothing.
    pub(crate) times: Option<PathBuf>,
    /// Where weights lie that a model in memory does not hold.
    pub(crate) weights: Option<PathBuf>,
}

impl Traced {
    fn ask(&self, builder: SessionBuilder) -> Result<SessionBuilder, Outcome> {
        let set = || -> ort::Result<SessionBuilder> {
            // A message holds less than 2 GiB; what the optimiser made of weights may be more.
            let weights = "session.optimized_model_external_initializers_file_name";
            let builder = builder
                .with_optimized_model_path(&self.model)?
                .with_config_entry(weights, "optimized.data")?;
            let builder = match &self.times {
                Some(times) => builder.with_profiling(times)?,
                // Kernels shall not make copies of weights in forms of their own.
                None => builder.with_config_entry("session.disable_prepacking", "1")?,
            };
            let Some(folder) = &self.weights else {
                return Ok(builder);
            };
            let beside = "session.model_external_initializers_file_folder_path";
            Ok(builder.with_config_entry(beside, folder.to_string_lossy())?)
        };
        set().map_err(|error| failed("profiling options", &error))
    }
}

/// How precisely products are computed whose weights lie on grids of 4 or 8 bits, in a user's file say. Of itself
/// ONNX Runtime rounds what they are multiplied by to 8 bits as well (4), which no cell of floats asks for.
pub(crate) const FEW_BITS: &str = "session.qdq_matmulnbits_accuracy_level";

/// In floats of 32 bits.
pub(crate) const IN_FLOATS: &str = "1";

fn options(configuration: &Configuration, library: &Library) -> Result<SessionBuilder, Outcome> {
    let set = || -> ort::Result<SessionBuilder> {
        let builder = Session::builder(&library.environment)?
            .with_optimization_level(configuration.optimization.level())?
            .with_intra_threads(configuration.threads)?
            .with_inter_threads(1)?
            .with_parallel_execution(false)?;
        let builder = match configuration.precision.is_int8() {
            true => builder,
            false => builder.with_config_entry(FEW_BITS, IN_FLOATS)?,
        };
        if configuration.spins {
            Ok(builder)
        } else {
            Ok(builder.with_intra_op_spinning(false)?)
        }
    };
    let builder = set().map_err(|error| failed("session options", &error))?;
    let has_arena = configuration.allocator == Allocator::Arena;
    configuration
        .provider
        .register(builder, configuration.precision, has_arena, &library.path)
}
