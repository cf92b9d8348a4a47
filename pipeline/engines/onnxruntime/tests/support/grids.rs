//! Networks on grids of integers, for tests of what engines make of them.

use std::{fs, path::Path};

use models::quantise::{self, Form, Grids, WeightBits};
use schema::{Graph, Precision, protocol::ModelFiles};

/// The network on grids that nothing was calibrated for, its weights in the folder.
pub(crate) fn on_grids(graph: &Graph, precision: Precision, folder: &Path) -> (Graph, ModelFiles) {
    let form = match precision {
        Precision::Int8Dynamic => Form::Dynamic,
        _ => Form::Asymmetric,
    };
    let grids = Grids {
        form,
        weights: WeightBits::safe_here(),
    };
    let weights = folder.join("weights");
    let mut out = fs::File::create(&weights).unwrap();
    let graph = quantise::uncalibrated(graph, grids, &mut out).unwrap();
    let files = ModelFiles {
        weights,
        onnx: None,
        precision,
    };
    (graph, files)
}
