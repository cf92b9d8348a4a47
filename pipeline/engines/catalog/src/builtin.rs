//! The engines that ship with photofinish, as the build script found them.

use crate::{CatalogError, Engine};

/// An engine's files, and what its worker is built from.
pub(crate) struct Embedded {
    folder: &'static str,
    engine: &'static str,
    lock: Option<&'static str>,
    worker: &'static str,
}

include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

/// All of them, sorted by folder.
pub(crate) fn engines() -> Result<Vec<Engine>, CatalogError> {
    EMBEDDED
        .iter()
        .map(|engine| Engine::built_in(engine.folder, engine.engine, engine.lock, engine.worker))
        .collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_engine_that_ships_is_described_rightly() {
        let engines = super::engines().unwrap();
        let names: Vec<_> = engines
            .iter()
            .map(|e| e.description().name.clone())
            .collect();
        assert_eq!(names, ["onnxruntime", "tensorflow", "pytorch"]);
        for engine in &engines {
            assert!(engine.lock().is_some(), "{}", engine.description().name);
        }
    }
}
