//! Quantising the networks of a heat: grids from ranges, and ranges from PyTorch eager in fp32 on
//! inputs of their own, found once a heat.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, BufWriter, Write as _},
    path::{Path, PathBuf},
};

use models::{
    Numbers,
    quantise::{
        self, CALIBRATION_INPUTS, Range, Sink,
        calibrate::{self, Extremes, Histogram, Method},
    },
};
use schema::{
    Cell, Device, Graph, Outcome, OutcomeKind, Precision, protocol::ModelFiles, record::HeatHeader,
};

use crate::{
    Phase,
    context::Context,
    error::Stop,
    gallery,
    graphs::{Graphs, Prepared, Quantisation},
    reference,
    tensors::Outputs,
};

/// Most bytes of activations that one launch puts out; the worker holds them in memory.
const LARGEST_PASS_BYTES: u64 = 256 << 20;

/// Quantises the networks of all cells that ask for it. One that cannot be is an outcome of the
/// cells that need it.
pub(crate) fn quantise(
    context: &mut Context<'_>,
    header: &HeatHeader,
    graphs: &mut Graphs,
) -> Result<(), Stop> {
    for planned in &header.cells {
        let cell = &planned.cell;
        let Some(quantisation) = Quantisation::asked_by(cell) else {
            continue;
        };
        if planned.obstacle.is_some() {
            continue;
        }
        let Some((network, weights)) = graphs.unquantised(cell) else {
            continue;
        };
        let made = match ranges(context, header, cell, (network, &*graphs), quantisation)? {
            Ok(ranges) => apply(network, quantisation, &ranges, weights),
            Err(outcome) => Err(outcome),
        };
        // A disk that is full now is no fault of the model's.
        context.store.check_room()?;
        graphs.keep(cell, made);
    }
    Ok(())
}

/// The ranges that a network's grids are made from, or why there are none.
fn ranges(
    context: &mut Context<'_>,
    header: &HeatHeader,
    cell: &Cell,
    (network, graphs): (&Prepared, &Graphs),
    quantisation: Quantisation,
) -> Result<Result<BTreeMap<String, Range>, Outcome>, Stop> {
    let Quantisation { form, method } = quantisation;
    let graph = &network.graph;
    let wanted = match quantise::wanted(graph, form) {
        Ok(wanted) => wanted,
        Err(error) => return Ok(Err(unsupported(error.to_string()))),
    };
    let mut ranges = BTreeMap::new();
    let mut made = Vec::new();
    for value in wanted {
        match calibrate::of_input(graph, &value, CALIBRATION_INPUTS) {
            Some(numbers) => match of_numbers(method, &numbers) {
                Ok(range) => drop(ranges.insert(value, range)),
                Err(reason) => return Ok(Err(unsupported(format!("`{value}` {reason}")))),
            },
            None => made.push(value),
        }
    }
    let passes = calibrate::passes(graph, &made, CALIBRATION_INPUTS, LARGEST_PASS_BYTES);
    let passes = match passes {
        Ok(passes) => passes,
        Err(error) => return Ok(Err(unsupported(error.to_string()))),
    };
    let plain = Cell {
        precision: Precision::Fp32,
        device: Device::Cpu,
        ..cell.clone()
    };
    let eager = reference::eager(context, &plain);
    for graph in passes {
        let pass = Prepared {
            graph,
            files: network.files.clone(),
        };
        let measure = &header.measure;
        let launched = gallery::launch(
            context,
            measure,
            &eager,
            (&pass, graphs),
            Phase::Calibration,
        )?;
        let found = launched.exhibit.and_then(|exhibit| {
            of_outputs(method, &pass.graph, &exhibit.outputs, &mut ranges).map_err(unsupported)
        });
        if let Err(outcome) = found {
            let reason = format!(
                "no calibration: {} ended {}: {}",
                reference::name(&eager),
                outcome.kind,
                outcome.reason
            );
            return Ok(Err(Outcome::new(OutcomeKind::Unavailable, reason)));
        }
    }
    Ok(Ok(ranges))
}

/// The range of numbers that are at hand.
fn of_numbers(method: Method, numbers: &[f32]) -> Result<Range, String> {
    let numbers: Vec<f64> = numbers.iter().map(|&number| f64::from(number)).collect();
    find(method, |see| see(&numbers))
}

/// The ranges of a pass's values, each over all of its copies.
fn of_outputs(
    method: Method,
    pass: &Graph,
    outputs: &Outputs,
    ranges: &mut BTreeMap<String, Range>,
) -> Result<(), String> {
    let mut copies: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for output in &pass.outputs {
        if let Some(value) = calibrate::original(output) {
            copies.entry(value).or_default().push(output);
        }
    }
    for (value, copies) in copies {
        let range = find(method, |see| {
            let mut copies = copies.iter();
            copies.try_for_each(|copy| outputs.read(copy, &mut *see))
        })
        .map_err(|reason| format!("`{value}` {reason}"))?;
        ranges.insert(value.to_owned(), range);
    }
    Ok(())
}

/// Takes the numbers, piece by piece.
type See<'a> = dyn FnMut(&[f64]) -> Result<(), String> + 'a;

/// A range from numbers that `show` shows, twice if need be.
fn find(
    method: Method,
    mut show: impl FnMut(&mut See<'_>) -> Result<(), String>,
) -> Result<Range, String> {
    let mut extremes = Extremes::default();
    show(&mut |numbers| extremes.see(numbers))?;
    let range = extremes.range().ok_or("holds no number")?;
    if method == Method::MinMax {
        return Ok(range);
    }
    let mut histogram = Histogram::over(range);
    show(&mut |numbers| {
        histogram.see(numbers);
        Ok(())
    })?;
    Ok(histogram.middle())
}

/// Puts a network on grids; what that makes goes behind the network's own weights in a file of its
/// own.
fn apply(
    network: &Prepared,
    quantisation: Quantisation,
    ranges: &BTreeMap<String, Range>,
    weights: PathBuf,
) -> Result<Prepared, Outcome> {
    let own = network.files.as_ref().map(|files| files.weights.as_path());
    let not_put_down = |error: io::Error| {
        let reason = format!("quantised weights cannot be put down for the workers: {error}");
        Outcome::new(OutcomeKind::Unavailable, reason)
    };
    let mut out = File::create_new(&weights)
        .map(BufWriter::new)
        .map_err(not_put_down)?;
    let bytes = own.map_or(Ok(0), |own| copy(own, &mut out));
    let sink = Sink {
        bytes: bytes.map_err(not_put_down)?,
        out: &mut out,
    };
    let numbers = Numbers::open(own).map_err(not_put_down)?;
    let graph = quantise::apply(&network.graph, quantisation.form, ranges, &numbers, sink)
        .map_err(|error| unsupported(error.to_string()))?;
    out.flush().map_err(not_put_down)?;
    Ok(Prepared {
        graph,
        files: Some(ModelFiles {
            weights,
            onnx: None,
            precision: network
                .files
                .as_ref()
                .map_or(Precision::Fp32, |files| files.precision),
        }),
    })
}

fn copy(own: &Path, out: &mut BufWriter<File>) -> io::Result<u64> {
    io::copy(&mut File::open(own)?, out)
}

fn unsupported(reason: String) -> Outcome {
    Outcome::new(OutcomeKind::Unsupported, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_over_all_that_is_shown() {
        let shown = |method, pieces: &[&[f64]]| {
            find(method, |see| pieces.iter().try_for_each(|piece| see(piece)))
        };
        let range = shown(Method::MinMax, &[&[1.0, 2.0], &[-3.0]]).unwrap();
        assert_eq!((range.low, range.high), (-3.0, 2.0));
        let many: Vec<f64> = (0..100_000).map(|i| f64::from(i % 100)).collect();
        let range = shown(Method::Percentile, &[&many, &[1e6]]).unwrap();
        assert!(range.high < 200.0 && range.low == 0.0, "{range:?}");
        assert!(shown(Method::MinMax, &[]).is_err());
        assert!(shown(Method::MinMax, &[&[0.0, f64::NAN]]).is_err());
    }

    #[test]
    fn quantised_weights_lie_behind_the_network_s_own() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("own");
        std::fs::write(&own, [7; 12]).unwrap();
        let network = Prepared {
            graph: models::sample::perceptron(1).unwrap(),
            files: Some(ModelFiles {
                weights: own,
                onnx: Some("model.onnx".into()),
                precision: Precision::Fp32,
            }),
        };
        let range = Range {
            low: -1.0,
            high: 1.0,
        };
        let form = quantise::Form::Asymmetric;
        let wanted = quantise::wanted(&network.graph, form).unwrap();
        let ranges = wanted.into_iter().map(|value| (value, range)).collect();
        let quantisation = Quantisation {
            form,
            method: Method::MinMax,
        };
        let path = folder.path().join("quantised");
        let made = apply(&network, quantisation, &ranges, path.clone()).unwrap();
        let files = made.files.unwrap();
        assert_eq!((&files.weights, files.onnx), (&path, None));
        let bytes = std::fs::read(&path).unwrap();
        // Scales of two weights and two biases, 32 and 10 outputs.
        assert_eq!(bytes.len(), 12 + 2 * 4 * (32 + 10));
        assert_eq!(bytes[..12], [7; 12]);
        let numbers = Numbers::open(Some(&path)).unwrap();
        let scale = made
            .graph
            .parameters
            .iter()
            .find(|parameter| parameter.name == "output.weight.scale");
        let scales = numbers.floats(scale.unwrap()).unwrap();
        assert!(
            scales.iter().all(|&scale| scale > 0.0 && scale < 1.0),
            "{scales:?}"
        );
        // A second one would overwrite what workers read.
        let outcome = apply(&network, quantisation, &ranges, path).err().unwrap();
        assert_eq!(outcome.kind, OutcomeKind::Unavailable);
    }
}
