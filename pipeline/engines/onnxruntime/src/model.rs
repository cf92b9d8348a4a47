//! From ONNX to a session.

use models::onnx::Document;
use ort::session::{Session, builder::SessionBuilder};
use schema::Outcome;

use crate::{configuration::Configuration, failure::failed, library::Library};

/// Makes the session: optimises the graph, places the weights.
pub(crate) fn commit(
    document: &Document,
    configuration: &Configuration,
    library: &Library,
) -> Result<Session, Outcome> {
    let mut builder = options(configuration, library)?;
    let session = match document {
        Document::Bytes(bytes) => builder.commit_from_memory(bytes),
        Document::File(path) => builder.commit_from_file(path),
    };
    session.map_err(|error| failed("session", &error))
}

fn options(configuration: &Configuration, library: &Library) -> Result<SessionBuilder, Outcome> {
    let set = || -> ort::Result<SessionBuilder> {
        let builder = Session::builder(&library.environment)?
            .with_optimization_level(configuration.optimization.level())?
            .with_intra_threads(configuration.threads)?
            .with_inter_threads(1)?
            .with_parallel_execution(false)?;
        if configuration.spins {
            Ok(builder)
        } else {
            Ok(builder.with_intra_op_spinning(false)?)
        }
    };
    let builder = set().map_err(|error| failed("session options", &error))?;
    configuration
        .provider
        .register(builder, configuration.precision, &library.path)
}
