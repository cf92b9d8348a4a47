//! Rough predictions, made before anything ran: whether a job takes minutes or hours, and whether
//! it fits the memory. Nothing is decided by them but the order of magnitude shown to the user.
//!
//! The time of a step is a roofline (Williams, Waterman, Patterson 2009): the slower of arithmetic
//! and memory traffic, plus a fixed cost for each operator. An optimiser's pass over the parameters
//! hides behind neither. A processor's rates are what eager PyTorch reached in inference on machines that we
//! measured, and what steps took beside them in ten recorded runs; a GPU's are rounded down.

use std::collections::{BTreeMap, BTreeSet};

use models::{
    cost,
    quantise::{self, CALIBRATION_INPUTS, calibrate},
    rewrite,
};
use schema::{
    Cell, Device, Digest, Fingerprint, Measure, Mode, Precision, Preparation, Strategy,
    plan::{PARITY_ITERATIONS, PlannedCell, REWARM_STEPS},
};

use crate::networks::Network;

/// Resident memory of an engine that has loaded nothing.
const ENGINE_BYTES: u64 = 300 << 20;

/// Steps of a warm-up: allocations settle and caches fill.
const WARM_UP_STEPS: u64 = 10;
/// Nothing is called steady sooner, or before half of the time limit where that is less.
const LEAST_WARM_UP_NS: u64 = 1_000_000_000;

/// Steps of a try of a batch, the first among them.
const FRONTIER_STEPS: u64 = 4;

/// Bytes that the optimiser moves for each parameter.
const OPTIMISER_BYTES: u64 = cost::OPTIMISER_TRAVERSALS * 4;

/// What touching a parameter's gradient and states for the first time takes, in nanoseconds. A first
/// training step took longer than later ones by 2 to 28 on PyTorch eager, by 8 to 64 on TensorFlow's
/// graph and by 65 to 84 with XLA, most where batches are small (unrolled recurrent layers aside).
const TOUCHED_NS: u64 = 20;

/// What holding a parameter's gradient and its update against the reference's takes, in nanoseconds,
/// those of the reference written and read among it.
const COMPARED_NS: u64 = 100;

/// Idle power is measured for one in so many parts of the time that energy is, where it has settled at once: for as
/// much as all of it where it does not.
const IDLE_PART: u64 = 5;

/// What calibration looks at is one in so many bytes of a step's traffic: in four of EfficientNet-B4,
/// in six of ResNet-50 and MobileNetV2, in eight of BERT.
const BYTES_OF_A_SEEN_ONE: u64 = 6;

/// What steps took on processors by what arithmetic, traffic and operators come to: the medians of 218 cells of
/// inference (eight in ten between 0.6 and 2.1 times what is predicted with it) and of 139 of training (0.7 and 1.5), in
/// ten recorded runs, integers and TensorFlow's eager mode left out, which trains in three times as much again.
const fn slower(mode: Mode) -> f64 {
    match mode {
        Mode::Inference => 1.2,
        Mode::Training => 2.0,
    }
}

/// Rates of a device.
struct Rates {
    flops_per_second: f64,
    bytes_per_second: f64,
    operator_ns: f64,
}

fn rates(cell: &Cell, machine: &Fingerprint) -> Rates {
    let half = matches!(cell.precision, Precision::Bf16 | Precision::Fp16);
    match cell.device {
        Device::Cpu => {
            let has = |feature: &str| machine.cpu_features.iter().any(|known| known == feature);
            let per_core = match () {
                () if has("avx512f") => 90e9,
                () if has("avx2") => 45e9,
                () => 10e9,
            };
            // Without instructions for it, arithmetic in half precision converts back and forth; of PyTorch's convolutions with
            // vectors of 256 bits oneDNN's reference does, at 1.3 to 2.2 GFLOP/s a core (PyTorch 2.11).
            let is_pytorch = matches!(&*cell.engine.engine, "pytorch" | "transformers");
            let is_narrow = has("avx2") && !has("avx512f");
            let scale = match cell.precision {
                Precision::Fp64 => 0.5,
                Precision::Int8Static => 2.0,
                _ if half && is_pytorch && is_narrow => 0.04,
                _ if half && !has("amx_bf16") => 0.25,
                _ => 1.0,
            };
            let threads = cell.threads.saturating_mul(cell.at_once());
            let cores = f64::from(threads.min(machine.physical_cores).max(1));
            let slower = slower(cell.mode);
            Rates {
                flops_per_second: per_core * cores * scale / slower,
                bytes_per_second: 8e9 * cores.min(4.0) / slower,
                operator_ns: 10e3 * slower,
            }
        }
        Device::Cuda(_) => Rates {
            flops_per_second: if half { 100e12 } else { 15e12 },
            bytes_per_second: 600e9,
            operator_ns: 12e3,
        },
    }
}

/// The time of a step, in nanoseconds.
pub(crate) fn step_ns(cell: &Cell, network: &Network, machine: &Fingerprint) -> u64 {
    let rates = rates(cell, machine);
    let optimiser = match cell.mode {
        Mode::Inference => 0,
        Mode::Training => network.parameters.saturating_mul(OPTIMISER_BYTES),
    };
    // Costs are counted for numbers of four bytes.
    let moved =
        |bytes: u64| bytes as f64 * cell.precision.bytes() as f64 / 4.0 / rates.bytes_per_second;
    // Networks are counted at the batch of the cell.
    let batches = cell.samples() as f64 / cell.batch().max(1) as f64;
    let computed = batches * network.flops as f64 / rates.flops_per_second;
    let passes = batches * moved(network.bytes.saturating_sub(optimiser));
    let work = computed.max(passes) + moved(optimiser);
    (work * 1e9 + operators(cell, network) as f64 * rates.operator_ns) as u64
}

/// The operators of a step, and those of its gradients.
fn operators(cell: &Cell, network: &Network) -> u64 {
    let recurrent = cell.factors.get(rewrite::RECURRENT);
    let nodes = match recurrent.map(String::as_str) {
        Some(rewrite::UNROLLED) => network.unrolled_nodes,
        _ => network.nodes,
    };
    nodes.saturating_mul(passes(cell.mode))
}

/// Training goes forward, backward to the inputs, and backward to the parameters.
const fn passes(mode: Mode) -> u64 {
    match mode {
        Mode::Inference => 1,
        Mode::Training => 3,
    }
}

/// What a launch on a GPU takes besides: a context, kernels that are loaded when they are first run. A run of
/// 58 launches on an H200 took so much longer than was predicted without.
const GPU_MS: u32 = 900;

/// What comes before a cell's first step, in nanoseconds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Preparing {
    /// In each launch.
    launch_ns: u64,
    /// In the first launch besides.
    once_ns: u64,
}

/// What a variant that is told of so does for a network.
pub(crate) fn preparing(told: Preparation, cell: &Cell, network: &Network) -> Preparing {
    let operators = operators(cell, network);
    let of_operators = |ms: u32| nanoseconds(ms).saturating_mul(operators);
    // What is trained is folded into nothing.
    let parameter_ns = match cell.mode {
        Mode::Inference => u64::from(told.parameter_ns),
        Mode::Training => u64::from(Preparation::default().parameter_ns) + TOUCHED_NS,
    };
    Preparing {
        launch_ns: sum_of([
            nanoseconds(told.start_ms),
            nanoseconds(if cell.device.is_cpu() { 0 } else { GPU_MS }),
            of_operators(told.operator_ms),
            network.parameters.saturating_mul(parameter_ns),
        ]),
        once_ns: nanoseconds(told.kept_ms).saturating_add(of_operators(told.kept_operator_ms)),
    }
}

fn nanoseconds(ms: u32) -> u64 {
    u64::from(ms) * 1_000_000
}

/// Peak memory of the worker, in bytes.
pub(crate) fn memory_bytes(cell: &Cell, network: &Network) -> u64 {
    let processes = match cell.strategy {
        Strategy::Ddp => cell.world_size.into(),
        _ => 1,
    };
    ENGINE_BYTES
        .saturating_add((network.peak_bytes / 4).saturating_mul(cell.precision.bytes()))
        .saturating_mul(processes)
}

/// The time of measuring a heat until its first look, in nanoseconds, and of profiling its cells where
/// that is asked.
pub(crate) fn heat_ns(
    cells: &[PlannedCell],
    preparing: &[Preparing],
    measure: &Measure,
    is_profiled: bool,
    unmetered: &BTreeMap<Device, String>,
) -> u64 {
    let runnable = cells.iter().zip(preparing);
    let runnable = runnable.filter(|(cell, _)| cell.obstacle.is_none());
    let energy_ns = |cell: &PlannedCell| {
        let asked = measure.energy_ns;
        asked
            .filter(|_| !unmetered.contains_key(&cell.cell.device))
            .unwrap_or(0)
    };
    // Idle power is measured once a block, for a part of that time.
    let idle_ns = runnable
        .clone()
        .map(|(cell, _)| energy_ns(cell) / IDLE_PART)
        .max();
    let idle_ns = idle_ns
        .unwrap_or(0)
        .saturating_mul(u64::from(measure.first_look()));
    let before_ns = calibration_ns(cells, measure).saturating_add(idle_ns);
    runnable.fold(before_ns, |sum, (cell, preparing)| {
        let step_ns = cell.predicted_step_ns.max(1);
        let load_ns = preparing.launch_ns.saturating_add(step_ns);
        let warm_up_ns = step_ns
            .saturating_mul(WARM_UP_STEPS)
            .max(LEAST_WARM_UP_NS.min(measure.warm_up_ns / 2))
            .min(measure.warm_up_ns.max(step_ns));
        let round_ns = measure
            .round_ns
            .max(step_ns.saturating_mul(measure.round_steps))
            .saturating_add(step_ns.saturating_mul(REWARM_STEPS));
        let rounds_ns = round_ns.saturating_mul(u64::from(measure.rounds));
        let launch_ns = sum_of([load_ns, warm_up_ns, rounds_ns, energy_ns(cell)]);
        let launch_ns = launch_ns.min(measure.timeout_ns);
        let profile_ns = match is_profiled && cell.twin_of.is_none() {
            true => launch_ns,
            false => 0,
        };
        // Parity runs the cell, and PyTorch in double and in the cell's own precision.
        let parity_ns = if cell.twin_of.is_some() {
            0
        } else {
            let of_cell_ns = load_ns.saturating_add(preparing.once_ns);
            let (iterations, compared) = match cell.cell.mode {
                Mode::Inference => (1, 0),
                Mode::Training => (u64::from(PARITY_ITERATIONS), cell.parameters),
            };
            sum_of([
                of_cell_ns.min(measure.timeout_ns),
                load_ns_of_reference(cell).saturating_mul(2),
                step_ns.saturating_mul(6 * iterations),
                compared.saturating_mul(COMPARED_NS),
            ])
        };
        sum_of([
            sum,
            launch_ns.saturating_mul(u64::from(measure.first_look())),
            parity_ns,
            frontier_ns(cell, *preparing, measure),
            profile_ns,
        ])
    })
}

/// The time of seeking a cell's largest batch: launches for doubling and for about as many bisections, and
/// the steps of all batches up to what the memory may hold, which the doublings sum up to twice and each
/// bisection runs once more.
fn frontier_ns(cell: &PlannedCell, preparing: Preparing, measure: &Measure) -> u64 {
    let Some(most) = measure.frontier else {
        return 0;
    };
    let room = measure
        .memory_limit_bytes
        .map_or(u64::MAX, |limit| limit.saturating_sub(ENGINE_BYTES));
    let sample_bytes = cell.predicted_bytes.saturating_sub(ENGINE_BYTES).max(1);
    let largest = (room / sample_bytes).clamp(1, most);
    let doublings = u64::from(largest.ilog2()) + 1;
    let tries = doublings.saturating_mul(2);
    let samples = largest.saturating_mul(2 + doublings);
    sum_of([
        tries.saturating_mul(preparing.launch_ns),
        samples.saturating_mul(FRONTIER_STEPS * cell.predicted_step_ns),
    ])
}

/// Starting PyTorch and making a cell's parameters.
fn load_ns_of_reference(cell: &PlannedCell) -> u64 {
    let told = Preparation::default();
    let of_parameters = cell.parameters.saturating_mul(u64::from(told.parameter_ns));
    nanoseconds(told.start_ms).saturating_add(of_parameters)
}

/// The time of finding ranges: PyTorch runs each network that is to be quantised over several inputs,
/// as often as its activations fit.
fn calibration_ns(cells: &[PlannedCell], measure: &Measure) -> u64 {
    let mut found = BTreeSet::new();
    let inputs = u64::from(CALIBRATION_INPUTS);
    // Under no limit but the machine's.
    let largest = calibrate::largest_pass(u64::MAX);
    cells
        .iter()
        .filter(|cell| cell.obstacle.is_none() && found.insert(ranges_of(&cell.cell)))
        .filter(|cell| cell.cell.precision == Precision::Int8Static)
        .map(|cell| {
            let seen = (cell.bytes / BYTES_OF_A_SEEN_ONE).saturating_mul(inputs);
            // In fp32, where arithmetic takes twice as long; once while loading, once for the outputs.
            let steps_ns = cell.predicted_step_ns.saturating_mul(2 * 2 * inputs);
            let pass_ns = load_ns_of_reference(cell).saturating_add(steps_ns);
            let pass_ns = pass_ns.min(measure.timeout_ns);
            seen.div_ceil(largest).max(1).saturating_mul(pass_ns)
        })
        .fold(0, u64::saturating_add)
}

/// What cells have in common that need the same ranges.
fn ranges_of(cell: &Cell) -> Digest {
    let forms = [rewrite::ATTENTION, rewrite::RECURRENT];
    let factors = forms.into_iter().chain(quantise::FACTORS);
    let factors: Vec<_> = factors.map(|factor| cell.factors.get(factor)).collect();
    Digest::of_value(&(&cell.model, &cell.dims, cell.precision, factors))
}

fn sum_of<const N: usize>(parts: [u64; N]) -> u64 {
    parts.into_iter().fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use schema::Boundary;

    use super::*;

    fn cell(precision: Precision, engine: &str, bytes: u64) -> PlannedCell {
        let graph = models::sample::perceptron(1);
        let graph = graph.expect("it is a graph");
        let cell = Cell {
            precision,
            ..Cell::plain(&graph, engine.parse().expect("it is an engine"))
        };
        PlannedCell {
            id: cell.id(),
            coordinates: BTreeMap::new(),
            twin_of: None,
            obstacle: None,
            predicted_step_ns: 10_000_000,
            predicted_bytes: 1,
            flops: 1,
            bytes,
            parameters: 1000,
            cell,
        }
    }

    fn small() -> Network {
        Network {
            dims: BTreeMap::new(),
            graph: Digest::of_bytes(b"any"),
            nodes: 7,
            unrolled_nodes: 9,
            flops: 1,
            bytes: 1,
            parameters: 1000,
            peak_bytes: 1,
            unread: None,
        }
    }

    const MEASURE: Measure = Measure {
        target: 0.03,
        margin: 0.05,
        budget_ns: 1,
        boundary: Boundary::Step,
        blocks: 1,
        apart_ns: 0,
        rounds: 1,
        round_ns: 1,
        round_steps: 1,
        warm_up_ns: 1,
        timeout_ns: 60_000_000_000,
        memory_limit_bytes: None,
        confidence: 0.95,
        disturbance: None,
        frontier: None,
        energy_ns: None,
    };

    #[test]
    fn compilers_are_waited_for_in_each_launch_or_once() {
        let network = small();
        let ns_told = |told, mode, blocks, recurrent: &str| {
            let mut planned = cell(Precision::Fp32, "pytorch/eager", 1);
            planned.cell.mode = mode;
            let recurrent = (rewrite::RECURRENT.to_owned(), recurrent.to_owned());
            planned.cell.factors.extend([recurrent]);
            let preparing = preparing(told, &planned.cell, &network);
            let measure = Measure { blocks, ..MEASURE };
            heat_ns(&[planned], &[preparing], &measure, false, &BTreeMap::new())
        };
        let ns_of = |operator_ms, kept_operator_ms, mode, blocks, recurrent: &str| {
            let told = Preparation {
                start_ms: 1000,
                operator_ms,
                kept_operator_ms,
                ..Preparation::default()
            };
            ns_told(told, mode, blocks, recurrent)
        };
        let ns = |each, kept, mode, blocks| ns_of(each, kept, mode, blocks, rewrite::FUSED);
        let (inference, training) = (Mode::Inference, Mode::Training);
        let once = 7 * 10_000_000;
        // One launch for parity, and one a block.
        let plain = |blocks| ns(0, 0, inference, blocks);
        assert!(plain(1) > 2_000_000_000);
        assert_eq!(ns(10, 0, inference, 1), plain(1) + 2 * once);
        assert_eq!(ns(10, 0, inference, 5), plain(5) + 6 * once);
        assert_eq!(ns(0, 10, inference, 5), plain(5) + once);
        assert_eq!(ns(0, 10, training, 5), ns(0, 0, training, 5) + 3 * once);
        // Starting the compiler takes no longer for more operators, in training neither.
        for mode in [inference, training] {
            let told = Preparation {
                start_ms: 1000,
                kept_ms: 25_000,
                kept_operator_ms: 10,
                ..Preparation::default()
            };
            let started = ns_told(told, mode, 5, rewrite::FUSED);
            assert_eq!(started, ns(0, 10, mode, 5) + 25_000_000_000);
        }
        let unrolled = |each| ns_of(each, 0, inference, 1, rewrite::UNROLLED);
        assert_eq!(unrolled(0), plain(1));
        assert_eq!(unrolled(10), plain(1) + 2 * 9 * 10_000_000);
    }

    #[test]
    fn energy_takes_its_stretch_where_something_tells_it() {
        let ns = |energy_ns, unmetered: &[(Device, String)]| {
            let planned = cell(Precision::Fp32, "pytorch/eager", 1);
            let measure = Measure {
                energy_ns,
                blocks: 5,
                ..MEASURE
            };
            let unmetered = unmetered.iter().cloned().collect();
            heat_ns(
                &[planned],
                &[Preparing::default()],
                &measure,
                false,
                &unmetered,
            )
        };
        let stretch_ns = 10_000_000_000;
        let plain = ns(None, &[]);
        let idle_ns = stretch_ns / 5;
        assert_eq!(
            ns(Some(stretch_ns), &[]),
            plain + 5 * (stretch_ns + idle_ns)
        );
        let lacking = [(Device::Cpu, "no counter".to_owned())];
        assert_eq!(ns(Some(stretch_ns), &lacking), plain);
    }

    #[test]
    fn an_optimiser_hides_behind_no_arithmetic() {
        let network = |flops, parameters: u64| Network {
            flops,
            bytes: parameters * (OPTIMISER_BYTES + 4),
            parameters,
            ..small()
        };
        let machine = Fingerprint {
            platform: "linux x86_64".to_owned(),
            cpu_model: "any".to_owned(),
            cpu_features: Vec::new(),
            logical_cpus: 1,
            physical_cores: 1,
            memory_gib: 8,
            gpus: Vec::new(),
        };
        let step = |mode, flops, parameters| {
            let cell = cell(Precision::Fp32, "pytorch/eager", 1).cell;
            step_ns(
                &Cell { mode, ..cell },
                &network(flops, parameters),
                &machine,
            )
        };
        let (inference, training) = (Mode::Inference, Mode::Training);
        let arithmetic = step(training, 10_000_000_000, 0);
        let both = step(training, 10_000_000_000, 1_000_000);
        // Twenty bytes at eight gigabytes a second, and as long again.
        assert_eq!(both, arithmetic + 5_000_000);
        let forward = step(inference, 10_000_000_000, 1_000_000);
        assert_eq!(forward, step(inference, 10_000_000_000, 0));
    }

    #[test]
    fn ranges_are_found_once_for_each_network_and_pass_by_pass() {
        let ns = |cells: &[PlannedCell]| calibration_ns(cells, &MEASURE);
        let [static_, dynamic] = [Precision::Int8Static, Precision::Int8Dynamic];
        let small = || cell(static_, "onnxruntime/cpu", 1 << 20);
        let once = 700_000_000..1_700_000_000;
        assert_eq!(ns(&[cell(Precision::Fp32, "onnxruntime/cpu", 1)]), 0);
        assert_eq!(ns(&[cell(dynamic, "onnxruntime/cpu", 1)]), 0);
        assert!(once.contains(&ns(&[small()])));
        let other_engine = cell(static_, "openvino/cpu", 1 << 20);
        assert_eq!(ns(&[small(), other_engine, small()]), ns(&[small()]));
        let mut other_method = small();
        let method = (quantise::CALIBRATION.to_owned(), "percentile".to_owned());
        other_method.cell.factors.extend([method]);
        assert_eq!(ns(&[small(), other_method]), 2 * ns(&[small()]));
        let mut hopeless = small();
        let outcome = schema::Outcome::new(schema::OutcomeKind::Unsupported, "no");
        hopeless.obstacle = Some(outcome);
        assert_eq!(ns(&[hopeless]), 0);
        // As ResNet-50 at batch 64.
        let large = || [cell(static_, "onnxruntime/cpu", 20 << 30)];
        assert_eq!(ns(&large()), 7 * ns(&[small()]));
    }
}
