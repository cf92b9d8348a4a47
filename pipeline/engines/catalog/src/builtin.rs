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
    use std::collections::BTreeMap;

    use schema::Precision;

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
                "onnxruntime (gpu)",
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

    /// Whoever asks for a precision that an engine lacks is told why. (TF32 on a CPU is refused whatever the
    /// engine.)
    #[test]
    fn what_is_lacking_has_a_reason() {
        let kits = super::kits().unwrap();
        for variant in kits.iter().flat_map(|kit| &kit.description().variants) {
            let is_on_gpu = variant.devices.iter().any(|device| device == "cuda");
            let asked = Precision::ALL.iter();
            let asked = asked.filter(|precision| is_on_gpu || **precision != Precision::Tf32);
            for precision in asked.filter(|precision| !variant.precisions.contains(precision)) {
                let is_told = variant.lacks.contains_key(precision);
                assert!(is_told, "{}: {precision}", variant.name);
            }
        }
    }

    /// Where one engine has no choice, it says so in the words of those that have one.
    #[test]
    fn what_is_fixed_is_a_value_of_another_s_factor() {
        let kits = super::kits().unwrap();
        let variants = || kits.iter().flat_map(|kit| &kit.description().variants);
        let factors = || variants().flat_map(|variant| &variant.factors);
        let brought = || factors().flat_map(|(_, factor)| factor.brings.values());
        let is_value = |name: &str, value: &String| {
            let is_its = |brought: &BTreeMap<String, String>| brought.get(name) == Some(value);
            factors().any(|(factor, its)| factor == name && its.values.contains(value))
                || brought().any(is_its)
        };
        let mut said = 0;
        for variant in variants() {
            for (name, value) in &variant.fixed {
                assert!(is_value(name, value), "{}: {name} = {value}", variant.name);
                said += 1;
            }
        }
        assert!(said > 0);
    }
}
