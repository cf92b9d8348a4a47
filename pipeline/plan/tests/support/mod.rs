//! A machine and two engines, made by hand.

use std::collections::BTreeMap;

use photofinish_plan::World;
use schema::{
    Availability, Boundary, Digest, EngineDescription, EngineVariant, FactorDescription,
    Fingerprint, HostLanguage, Mode, Precision, VariantDescription,
};

/// PyTorch eager and ONNX Runtime on a machine with four cores and no GPU.
pub(crate) fn world() -> World {
    let engines = vec![pytorch(), onnxruntime()];
    let availability = |name: &str| Availability {
        lock: Some(Digest::of_bytes(format!("lock of {name}").as_bytes())),
        worker: Digest::of_bytes(format!("worker of {name}").as_bytes()),
        compiler: None,
        gpu: None,
        missing: None,
    };
    let each = |engine: &EngineDescription| -> Vec<_> {
        let variants = engine.variants.iter().map(|variant| EngineVariant {
            engine: engine.name.clone(),
            variant: variant.name.clone(),
        });
        variants
            .map(|variant| (variant, availability(&engine.name)))
            .collect()
    };
    World {
        availability: engines.iter().flat_map(each).collect(),
        engines,
        fingerprint: Fingerprint {
            cpu_model: "A processor".to_owned(),
            cpu_features: vec!["avx2".to_owned(), "avx512f".to_owned()],
            logical_cpus: 8,
            physical_cores: 4,
            memory_gib: 16,
            platform: "linux x86_64".to_owned(),
            gpus: Vec::new(),
        },
        conditions: BTreeMap::new(),
        unmetered: BTreeMap::new(),
        procedure: 1,
        known: Vec::new(),
        cell_limit: World::CELL_LIMIT,
        fresh: None,
    }
}

/// A factor of every precision.
pub(crate) fn factor(values: &[&str]) -> FactorDescription {
    FactorDescription {
        values: values.iter().map(|value| (*value).to_owned()).collect(),
        summary: "A switch".to_owned(),
        precisions: Vec::new(),
        modes: Vec::new(),
        devices: Vec::new(),
        strategies: Vec::new(),
        auto: BTreeMap::new(),
        brings: BTreeMap::new(),
        divides: None,
    }
}

fn pytorch() -> EngineDescription {
    EngineDescription {
        name: "pytorch".to_owned(),
        title: "PyTorch".to_owned(),
        version: "2.11.0".to_owned(),
        summary: "Eager tensors".to_owned(),
        variants: vec![VariantDescription {
            name: "eager".to_owned(),
            summary: "Operator by operator".to_owned(),
            host_language: HostLanguage::Rust,
            devices: vec!["cpu".to_owned(), "cuda".to_owned()],
            precisions: vec![
                Precision::Fp64,
                Precision::Fp32,
                Precision::Tf32,
                Precision::Bf16,
                Precision::Fp16,
            ],
            modes: vec![Mode::Inference, Mode::Training],
            boundaries: Boundary::ALL.to_vec(),
            strategies: vec![schema::Strategy::Single],
            reads_onnx: false,
            compiles_cxx: false,
            preparation: schema::Preparation::default(),
            factors: BTreeMap::from([("layout".to_owned(), factor(&["nchw", "channels_last"]))]),
            fixed: BTreeMap::new(),
            lacks: BTreeMap::new(),
            networks: Vec::new(),
            refuses: Vec::new(),
        }],
    }
}

fn onnxruntime() -> EngineDescription {
    let variant = |name: &str, device: &str| VariantDescription {
        name: name.to_owned(),
        summary: "A compiled graph".to_owned(),
        host_language: HostLanguage::Rust,
        devices: vec![device.to_owned()],
        precisions: vec![Precision::Fp32, Precision::Fp16],
        modes: vec![Mode::Inference],
        boundaries: vec![Boundary::Step, Boundary::Request],
        strategies: vec![schema::Strategy::Single],
        reads_onnx: true,
        compiles_cxx: false,
        preparation: schema::Preparation::default(),
        factors: BTreeMap::from([
            (
                "optimization".to_owned(),
                factor(&["all", "extended", "basic", "off"]),
            ),
            ("spin".to_owned(), factor(&["default", "off"])),
        ]),
        fixed: BTreeMap::new(),
        lacks: BTreeMap::new(),
        networks: Vec::new(),
        refuses: Vec::new(),
    };
    EngineDescription {
        name: "onnxruntime".to_owned(),
        title: "ONNX Runtime".to_owned(),
        version: "1.31.1".to_owned(),
        summary: "A graph runtime".to_owned(),
        variants: vec![variant("cpu", "cpu"), variant("cuda", "cuda")],
    }
}
