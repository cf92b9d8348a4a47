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
        self, Range, Sink,
        calibrate::{self, Calibration, Method},
    },
};
use schema::{
    Cell, Device, Digest, Graph, Outcome, OutcomeKind, Precision,
    protocol::ModelFiles,
    record::{HeatHeader, Quantised, Reference},
};
use worker::failure::unsupported;

use crate::{
    Phase,
    context::Context,
    error::Stop,
    gallery,
    graphs::{Graphs, Prepared, Quantisation},
    reference,
    tensors::Outputs,
};

/// Ranges by the names of values.
type Ranges = BTreeMap<String, Range>;

/// Why there are no ranges, and the log of the launch that decided.
struct Lack {
    outcome: Outcome,
    log: Option<String>,
}

/// Quantises the networks of all cells that ask for it, and tells how. One that cannot be is an
/// outcome of the cells that need it.
pub(crate) fn quantise(
    context: &mut Context<'_>,
    header: &HeatHeader,
    graphs: &mut Graphs,
) -> Result<Vec<Quantised>, Stop> {
    let mut quantised = Vec::new();
    for (slot, planned) in (0..).zip(&header.cells) {
        let cell = &planned.cell;
        if planned.obstacle.is_some() {
            continue;
        }
        let Some((network, quantisation, weights)) = unquantised(graphs, cell) else {
            continue;
        };
        let found = ranges(context, header, cell, (network, &*graphs), quantisation)?;
        let (made, log) = match found {
            Ok(ranges) => {
                let made = put_down(apply(network, quantisation, &ranges, weights))?;
                quantised.extend(made.as_ref().ok().map(|made| told(slot, made, ranges)));
                (made, None)
            }
            Err(Lack { outcome, log }) => (Err(outcome), log),
        };
        // A disk that is full now is no fault of the model's.
        context.store.check_room()?;
        graphs.keep(cell, made, log);
    }
    Ok(quantised)
}

/// Puts the networks of a heat that was judged on the very grids that they had then; within, why
/// that cannot be. Blocks are of the networks whose outputs were compared, or they are worth nothing.
pub(crate) fn restore(
    context: &Context<'_>,
    header: &HeatHeader,
    reference: &Reference,
    graphs: &mut Graphs,
) -> Result<Result<(), String>, Stop> {
    for known in &reference.quantised {
        let planned = header.cells.get(known.slot as usize);
        let Some((cell, (network, quantisation, weights))) = planned
            .map(|planned| &planned.cell)
            .and_then(|cell| Some((cell, unquantised(graphs, cell)?)))
        else {
            continue;
        };
        let range =
            |(name, &[low, high]): (&String, &[f64; 2])| (name.clone(), Range { low, high });
        let ranges = known.ranges.iter().map(range).collect();
        let made = apply(network, quantisation, &ranges, weights);
        context.store.check_room()?;
        let model = &cell.model.name;
        match put_down(made)? {
            Ok(made) if Digest::of_value(&made.graph) == known.graph => {
                graphs.keep(cell, Ok(made), None);
            }
            Ok(_) => return Ok(Err(format!("`{model}` is quantised in another way now"))),
            Err(outcome) => {
                let reason = outcome.reason;
                return Ok(Err(format!(
                    "`{model}` is not quantised as it was: {reason}"
                )));
            }
        }
    }
    Ok(Ok(()))
}

/// A network on grids, or why there is none. Where it could not be put down for the workers, the
/// heat's time has not come.
fn put_down(made: Result<Prepared, Outcome>) -> Result<Result<Prepared, Outcome>, Stop> {
    match made {
        Err(outcome) if outcome.kind == OutcomeKind::Unavailable => {
            Err(Stop::Later(outcome.reason))
        }
        made => Ok(made),
    }
}

/// The network of a cell that is still to be quantised, how, and the file of what that makes.
fn unquantised<'a>(
    graphs: &'a Graphs,
    cell: &Cell,
) -> Option<(&'a Prepared, Quantisation, PathBuf)> {
    let quantisation = Quantisation::asked_by(cell)?;
    let (network, weights) = graphs.unquantised(cell)?;
    Some((network, quantisation, weights))
}

/// What a record tells of a network.
fn told(slot: u32, made: &Prepared, ranges: Ranges) -> Quantised {
    let ends = |(name, Range { low, high })| (name, [low, high]);
    Quantised {
        slot,
        graph: Digest::of_value(&made.graph),
        ranges: ranges.into_iter().map(ends).collect(),
    }
}

/// The ranges that a network's grids are made from, or why there are none.
fn ranges(
    context: &mut Context<'_>,
    header: &HeatHeader,
    cell: &Cell,
    (network, graphs): (&Prepared, &Graphs),
    Quantisation { grids, method }: Quantisation,
) -> Result<Result<Ranges, Lack>, Stop> {
    let measure = &gallery::unlimited(&header.measure);
    let largest = calibrate::largest_pass(gallery::memory_bytes(measure).unwrap_or(0));
    let Calibration { mut ranges, passes } =
        match Calibration::of(&network.graph, grids.form, method, largest) {
            Ok(calibration) => calibration,
            Err(error) => {
                let outcome = unsupported(error.to_string());
                return Ok(Err(Lack { outcome, log: None }));
            }
        };
    // One set of ranges serves all cells of the heat, however many threads they have.
    let plain = Cell {
        precision: Precision::Fp32,
        device: Device::Cpu,
        threads: reference::most_threads(header, cell),
        ..cell.clone()
    };
    let eager = reference::eager(context, &plain);
    for graph in passes {
        let pass = Prepared {
            graph,
            files: network.files.clone(),
        };
        let launched = gallery::launch(
            context,
            measure,
            (&eager).into(),
            (&pass, graphs),
            Phase::Calibration,
        )?;
        let found = match launched.exhibit {
            Ok(exhibit) => of_outputs(method, &pass.graph, &exhibit.outputs),
            Err(outcome) => Err(outcome),
        };
        match found {
            Ok(Ok(found)) => ranges.extend(found),
            Ok(Err(reason)) => {
                let outcome = unsupported(format!("{reason}, in {}", reference::name(&eager)));
                let log = launched.log;
                return Ok(Err(Lack { outcome, log }));
            }
            Err(outcome) => {
                let outcome = uncalibrated(&eager, &outcome);
                let log = launched.log;
                return Ok(Err(Lack { outcome, log }));
            }
        }
    }
    Ok(Ok(ranges))
}

/// What a cell ends as for which there are no ranges. What another engine failed at is no failure of
/// the cell's own, and no machine lacks anything for it unless that is what failed.
fn uncalibrated(eager: &Cell, outcome: &Outcome) -> Outcome {
    let kind = match outcome.kind {
        OutcomeKind::Unavailable => OutcomeKind::Unavailable,
        _ => OutcomeKind::ParityUnverified,
    };
    let reason = format!(
        "no calibration: {} ended {}: {}",
        reference::name(eager),
        outcome.kind,
        outcome.reason
    );
    Outcome::new(kind, reason)
}

/// The ranges of a pass's values, each over all of its copies; within, why one has none.
fn of_outputs(
    method: Method,
    pass: &Graph,
    outputs: &Outputs,
) -> Result<Result<Ranges, String>, Outcome> {
    let mut ranges = Ranges::new();
    for (value, copies) in calibrate::copies(pass) {
        let found = calibrate::range(method, |see| {
            copies.iter().try_for_each(|copy| {
                outputs.read(copy, &mut |numbers: &[f64]| {
                    see(numbers);
                    Ok(())
                })
            })
        });
        let found = found.map_err(|reason| {
            let reason = format!("its outputs cannot be read: `{value}` {reason}");
            Outcome::new(OutcomeKind::Crashed, reason)
        })?;
        match found {
            Ok(range) => drop(ranges.insert(value.to_owned(), range)),
            Err(reason) => return Ok(Err(format!("`{value}` {reason}"))),
        }
    }
    Ok(Ok(ranges))
}

/// Puts a network on grids; what that makes goes behind the network's own weights in a file of its
/// own.
fn apply(
    network: &Prepared,
    quantisation: Quantisation,
    ranges: &Ranges,
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
    let graph = quantise::apply(&network.graph, quantisation.grids, ranges, &numbers, sink)
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

#[cfg(test)]
mod tests {
    use models::quantise::{Form, Grids, WeightBits};
    use schema::protocol::{FileElement, Quantity, TensorInfo};

    use super::*;

    #[test]
    fn only_what_this_machine_lacks_is_unavailable() {
        let graph = models::sample::perceptron(1).unwrap();
        let eager = Cell::plain(&graph, "pytorch/eager".parse().unwrap());
        for kind in OutcomeKind::ALL {
            let outcome = uncalibrated(&eager, &Outcome::new(*kind, "why"));
            let expected = match kind {
                OutcomeKind::Unavailable => OutcomeKind::Unavailable,
                _ => OutcomeKind::ParityUnverified,
            };
            assert_eq!(outcome.kind, expected);
            let says = format!("pytorch/eager fp32 on cpu ended {kind}: why");
            assert!(outcome.reason.contains(&says), "{outcome:?}");
        }
    }

    #[test]
    fn a_number_that_no_grid_holds_is_no_failure_of_the_engine_s() {
        let folder = tempfile::tempdir().unwrap();
        let graph = models::sample::perceptron(1).unwrap();
        let form = Form::Asymmetric;
        let method = Method::MinMax;
        let calibration = Calibration::of(&graph, form, method, u64::MAX).unwrap();
        let pass = &calibration.passes[0];
        let outputs = |number: f64| {
            let path = folder.path().join("outputs");
            let bytes = number.to_le_bytes();
            std::fs::write(&path, bytes.repeat(pass.outputs.len())).unwrap();
            let tensor = |name: &String| TensorInfo {
                quantity: Quantity::Output,
                name: name.clone(),
                shape: vec![1],
                element: FileElement::F64,
            };
            let tensors = pass.outputs.iter().map(tensor).collect();
            Outputs::new(path, tensors, Vec::new()).unwrap()
        };
        let found = of_outputs(method, pass, &outputs(2.0)).unwrap().unwrap();
        assert!(
            found
                .values()
                .all(|range| (range.low, range.high) == (2.0, 2.0))
        );
        let reason = of_outputs(method, pass, &outputs(f64::NAN))
            .unwrap()
            .unwrap_err();
        assert!(reason.contains("holds NaN"), "{reason}");
        let gone = outputs(1.0);
        std::fs::remove_file(folder.path().join("outputs")).unwrap();
        let outcome = of_outputs(method, pass, &gone).unwrap_err();
        assert_eq!(outcome.kind, OutcomeKind::Crashed);
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
        let grids = Grids {
            form: Form::Asymmetric,
            weights: WeightBits::Eight,
        };
        let wanted = quantise::wanted(&network.graph, grids.form).unwrap();
        let ranges = wanted.into_iter().map(|value| (value, range)).collect();
        let quantisation = Quantisation {
            grids,
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
