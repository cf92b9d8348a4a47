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

    use schema::{FactorDescription, Mode, Precision, VariantDescription};

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

    /// Whether a variant says what it does about a switch on a kind of device: by a factor, as fixed, or as what each
    /// value of a factor brings with it.
    fn is_said(variant: &VariantDescription, switch: &str, kind: &str) -> bool {
        let is_there = |factor: &FactorDescription| {
            factor.devices.is_empty() || factor.devices.iter().any(|device| device == kind)
        };
        let brings = |factor: &FactorDescription| {
            let mut values = factor.values.iter().map(|value| factor.brings.get(value));
            values.all(|brought| brought.is_some_and(|brought| brought.contains_key(switch)))
        };
        variant.fixed.contains_key(switch)
            || variant.factors.get(switch).is_some_and(is_there)
            || variant.factors.values().any(brings)
    }

    /// What decides whether a comparison is fair is said of every variant that it can concern. (Threads and precision
    /// are the cell's own.)
    #[test]
    fn every_variant_says_what_is_fair_to_hold_it_against() {
        const CPU: &[&str] = &["cpu"];
        const GPU: &[&str] = &["cuda"];
        const EITHER: &[&str] = &["cpu", "cuda"];
        let kits = super::kits().unwrap();
        let engines = kits.iter().map(crate::Kit::description);
        let variants = engines.flat_map(|engine| {
            let variants = engine.variants.iter();
            variants.map(move |variant| (engine.name.as_str(), variant))
        });
        for (engine, variant) in variants {
            let name = variant.name.as_str();
            let trains = variant.modes.contains(&Mode::Training);
            let mut narrow = [Precision::Bf16, Precision::Fp16].iter();
            let may_mix = trains && narrow.any(|narrow| variant.precisions.contains(narrow));
            let has_levels = [engine, name].contains(&"onnxruntime");
            for (switch, has_part, kinds) in [
                ("affinity", true, CPU),
                ("allocator", true, CPU),
                ("autotune", true, GPU),
                ("cuda_graphs", true, GPU),
                ("gradient_accumulation", trains, EITHER),
                ("gradient_checkpointing", trains, EITHER),
                ("layout", true, EITHER),
                ("mixed_precision", may_mix, EITHER),
                ("optimization", has_levels, EITHER),
                ("spin", true, CPU),
                ("weights", true, EITHER),
            ] {
                for kind in kinds {
                    let runs_there = variant.devices.iter().any(|device| device == kind);
                    assert!(
                        !(has_part && runs_there) || is_said(variant, switch, kind),
                        "{engine}/{name} does not say how it does `{switch}` on {kind}"
                    );
                }
            }
        }
    }

    /// Words that no factor has: what an engine does of itself, where nobody can ask another for it.
    const NO_FACTOR_S: [(&str, &str); 1] = [("allocator", "own")];

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
                let is_known =
                    is_value(name, value) || NO_FACTOR_S.contains(&(name.as_str(), value.as_str()));
                assert!(is_known, "{}: {name} = {value}", variant.name);
                said += 1;
            }
        }
        assert!(said > 0);
    }
}
