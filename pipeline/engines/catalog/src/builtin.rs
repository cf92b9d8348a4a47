//! The kits that ship with photofinish, as the build script found them.

use crate::{CatalogError, Kit, kit::Sources};

/// A kit's files, and what its worker is made from.
pub(crate) struct Embedded {
    folder: &'static str,
    engine: &'static str,
    lock: Option<&'static str>,
    worker: &'static str,
    sources: Sources,
}

include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

/// All of them, those of folders in folders last: the first kit of an engine is the one that its
/// folder is named after.
pub(crate) fn kits() -> Result<Vec<Kit>, CatalogError> {
    let kit = |embedded: &Embedded| {
        Kit::built_in(
            embedded.folder,
            embedded.engine,
            embedded.lock,
            embedded.worker,
            embedded.sources,
        )
    };
    EMBEDDED.iter().map(kit).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_kit_that_ships_is_described_rightly() {
        let kits = super::kits().unwrap();
        let labels: Vec<_> = kits.iter().map(crate::Kit::label).collect();
        assert_eq!(
            labels,
            [
                "onnxruntime",
                "openvino",
                "tensorflow",
                "pytorch",
                "pytorch (python)",
                "tensorflow (python)",
                "tensorrt (python)",
                "tensorrt (python, rtx)",
                "transformers (python)"
            ]
        );
        for kit in &kits {
            assert!(kit.lock().is_some(), "{}", kit.label());
        }
    }
}
