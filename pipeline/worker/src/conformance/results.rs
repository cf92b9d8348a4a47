//! What a worker measures and computes.

use std::{
    collections::BTreeMap,
    fs,
    time::{Duration, Instant},
};

use schema::{
    Mode,
    graph::Role,
    protocol::{
        FileElement, Measure, Parity, ParityOutputs, Quantity, Reply, Request, TensorInfo, WarmUp,
    },
};

use super::subject::{Guest, Subject, Trouble, demand, fail, steps};

/// Iterations of a training's outputs.
const STEPS: u32 = 3;

/// How often a warm-up may be too long before it is the worker's fault.
const WARM_UPS: u32 = 3;

/// How far a worker's word of its memory may be from the kernel's, since both change: a wrong unit
/// is farther off.
const MEMORY_FACTOR: u64 = 8;

pub(super) fn outputs(subject: &Subject<'_>) -> Result<(), Trouble> {
    if !subject.can(Mode::Inference) {
        return Err(Trouble::Skip("the variant cannot infer".to_owned()));
    }
    let mut guest = subject.start_in(Mode::Inference)?;
    let (outputs, first) = parity(&mut guest, "first")?;
    let told: Vec<String> = outputs.tensors.iter().map(describe).collect();
    demand(told == subject.graph.outputs, || {
        format!(
            "the outputs are {told:?}, and the graph's are {:?}",
            subject.graph.outputs
        )
    })?;
    let types = models::infer::shapes(subject.graph)
        .map_err(|error| Trouble::Fail(format!("the network makes no sense: {error}")))?;
    for tensor in &outputs.tensors {
        let expected = types.get(&tensor.name).map(|value| value.shape.as_slice());
        demand(expected == Some(tensor.shape.as_slice()), || {
            format!(
                "`{}` is of shape {:?}, and the graph's is {:?}",
                tensor.name,
                tensor.shape,
                expected.unwrap_or_default()
            )
        })?;
    }
    demand(outputs.losses.is_empty(), || {
        "it tells losses of an inference".to_owned()
    })?;
    guest.measure(steps(0, 2))?;
    let (_, second) = parity(&mut guest, "second")?;
    demand(first == second, || {
        "the same input gives other outputs the second time".to_owned()
    })?;
    Ok(())
}

pub(super) fn training(subject: &Subject<'_>) -> Result<(), Trouble> {
    let mut guest = start_training(subject)?;
    let (outputs, first) = parity(&mut guest, "first")?;
    let told: BTreeMap<String, &Vec<u64>> = outputs
        .tensors
        .iter()
        .map(|tensor| (describe(tensor), &tensor.shape))
        .collect();
    let quantities = |role| match role {
        Role::Weight => &[Quantity::Gradient, Quantity::Update][..],
        Role::Buffer => &[Quantity::Movement],
        Role::Constant => &[],
    };
    let parameters = subject.graph.parameters.iter();
    let expected: BTreeMap<String, &Vec<u64>> = parameters
        .flat_map(|parameter| {
            let named = |quantity: &Quantity| (quantity.of(&parameter.name), &parameter.shape);
            quantities(parameter.role).iter().map(named)
        })
        .collect();
    let missing = expected
        .iter()
        .find(|&(name, shape)| told.get(name) != Some(shape));
    demand(missing.is_none(), || {
        let (name, shape) = missing.map_or_else(Default::default, |(name, shape)| {
            (name.as_str(), shape.as_slice())
        });
        format!("the {name}, of shape {shape:?}, is not among the outputs of a training")
    })?;
    demand(told.len() == expected.len(), || {
        let more = told.keys().find(|&name| !expected.contains_key(name));
        let more = more.map_or("", String::as_str);
        format!("the {more} is no output of a training")
    })?;
    demand(outputs.losses.len() == STEPS as usize, || {
        format!(
            "it tells {} losses of {STEPS} iterations",
            outputs.losses.len()
        )
    })?;
    guest.measure(steps(0, 2))?;
    guest.ask(&Request::Reset)?;
    let (again, second) = parity(&mut guest, "second")?;
    demand(first == second && outputs == again, || {
        "training from the initial state gives other updates the second time".to_owned()
    })?;
    Ok(())
}

pub(super) fn reset(subject: &Subject<'_>) -> Result<(), Trouble> {
    let mut guest = subject.start_loaded()?;
    guest.measure(steps(0, 2))?;
    guest.ask(&Request::Reset)?;
    guest.measure(steps(0, 2))?;
    Ok(())
}

/// The tensor in words; an output by its name alone.
fn describe(tensor: &TensorInfo) -> String {
    tensor.quantity.of(&tensor.name)
}

fn start_training(subject: &Subject<'_>) -> Result<Guest, Trouble> {
    if !subject.can(Mode::Training) {
        return Err(Trouble::Skip("the variant cannot train".to_owned()));
    }
    if subject.graph.loss.is_none() {
        return Err(Trouble::Skip("the network has no loss".to_owned()));
    }
    subject.start_in(Mode::Training)
}

/// Asks for outputs; gives what the worker says of them, and the file, which is as large as it
/// says and holds numbers only.
pub(super) fn parity(guest: &mut Guest, name: &str) -> Result<(ParityOutputs, Vec<u8>), Trouble> {
    let path = guest.file(name);
    let request = Request::Parity(Parity::plain(path.clone(), STEPS));
    let outputs = match guest.ask(&request)? {
        Reply::Parity(outputs) => outputs,
        other => return fail(format!("`{}` instead of `parity`", other.name())),
    };
    let bytes = fs::read(&path)
        .map_err(|error| Trouble::Fail(format!("the file of outputs cannot be read: {error}")))?;
    let mut rest = bytes.as_slice();
    for tensor in &outputs.tensors {
        let width = match tensor.element {
            FileElement::F32 => 4,
            FileElement::F64 => 8,
        };
        let size = tensor
            .shape
            .iter()
            .try_fold(width, |size: u64, &axis| size.checked_mul(axis));
        let taken = size
            .and_then(|size| usize::try_from(size).ok())
            .and_then(|size| rest.split_at_checked(size));
        let Some((numbers, after)) = taken else {
            let (found, shape) = (rest.len(), &tensor.shape);
            return fail(format!(
                "{found} bytes are left in the file for `{}` of shape {shape:?}",
                tensor.name
            ));
        };
        demand(finite(numbers, tensor.element), || {
            format!(
                "`{}` holds something that is not a finite number",
                tensor.name
            )
        })?;
        rest = after;
    }
    demand(rest.is_empty(), || {
        format!("{} bytes too many are in the file", rest.len())
    })?;
    Ok((outputs, bytes))
}

fn finite(bytes: &[u8], element: FileElement) -> bool {
    match element {
        FileElement::F32 => bytes
            .as_chunks()
            .0
            .iter()
            .all(|number| f32::from_le_bytes(*number).is_finite()),
        FileElement::F64 => bytes
            .as_chunks()
            .0
            .iter()
            .all(|number| f64::from_le_bytes(*number).is_finite()),
    }
}

pub(super) fn warm_up(subject: &Subject<'_>) -> Result<(), Trouble> {
    let mut guest = subject.start_loaded()?;
    let samples = guest.measure(steps(0, 3))?;
    let slowest_ns = samples.into_iter().max().unwrap_or(0);
    for (min_steps, max_ns) in [(10, 200_000_000), (3, 0)] {
        // Windows of steps that are begun may be ended, and the machine may be slow for a moment.
        let steps_ns = slowest_ns.saturating_mul(3 * (min_steps + 5));
        let most =
            Duration::from_nanos(steps_ns.saturating_add(4 * max_ns)) + Duration::from_secs(1);
        let mut took = Duration::MAX;
        // A machine that does something else meanwhile must not be held against the worker.
        for _ in 0..WARM_UPS {
            took = took.min(one_warm_up(&mut guest, min_steps, max_ns)?);
            if took <= most {
                break;
            }
        }
        demand(took <= most, || {
            format!(
                "it warmed up for {:.1} s each of {WARM_UPS} times, where {min_steps} steps and \
                 {:.1} s were to be enough",
                took.as_secs_f64(),
                Duration::from_nanos(max_ns).as_secs_f64()
            )
        })?;
    }
    Ok(())
}

/// How long a warm-up took.
fn one_warm_up(guest: &mut Guest, min_steps: u64, max_ns: u64) -> Result<Duration, Trouble> {
    let start = Instant::now();
    let request = Request::WarmUp(WarmUp {
        min_steps,
        max_ns,
        tolerance: 0.1,
    });
    match guest.ask(&request)? {
        Reply::WarmUp(done) => {
            let took = start.elapsed();
            demand(done.steps >= min_steps, || {
                format!(
                    "{} steps, where at least {min_steps} were to be run",
                    done.steps
                )
            })?;
            demand(u128::from(done.total_ns) <= took.as_nanos(), || {
                format!("a warm-up of {} ns in less time", done.total_ns)
            })?;
            Ok(took)
        }
        other => fail(format!("`{}` instead of `warm_up`", other.name())),
    }
}

pub(super) fn measure_count(subject: &Subject<'_>) -> Result<(), Trouble> {
    let mut guest = subject.start_loaded()?;
    for count in [1, 7] {
        guest.measure(steps(2, count))?;
    }
    // Both minima are reached after the fifth step: there is no reason to go on.
    let samples = guest.measure(Measure {
        discard: 0,
        min_steps: 5,
        min_ns: 1,
        max_steps: 1_000_000,
    })?;
    demand(samples.len() == 5, || {
        format!("{} samples where 5 are enough", samples.len())
    })?;
    Ok(())
}

/// Discarded steps have no samples, but they take time.
pub(super) fn measure_discard(subject: &Subject<'_>) -> Result<(), Trouble> {
    /// A clock is read next to each sample, and to no discarded step: short steps tell nothing.
    const SHORTEST_NS: u64 = 10_000;
    const TIME_NS: u64 = 200_000_000;
    let mut guest = subject.start_loaded()?;
    let before = guest.measure(steps(0, 7))?;
    let fastest = |samples: Vec<u64>| samples.into_iter().min().unwrap_or(0);
    let step_ns = fastest(before).max(1);
    let discard = (TIME_NS / step_ns).clamp(2, 10_000);
    let start = Instant::now();
    let after = guest.measure(steps(discard, 7))?;
    let took = start.elapsed();
    let step_ns = fastest(after).min(step_ns);
    let least = Duration::from_nanos(step_ns.saturating_mul(discard) / 2);
    demand(step_ns < SHORTEST_NS || took >= least, || {
        format!(
            "it answered after {:.1} ms, in which it cannot have run {discard} steps of {:.3} ms \
             that it was to discard",
            took.as_secs_f64() * 1e3,
            Duration::from_nanos(step_ns).as_secs_f64() * 1e3
        )
    })
}

pub(super) fn measure_time(subject: &Subject<'_>) -> Result<(), Trouble> {
    const TIME: Duration = Duration::from_millis(50);
    let mut guest = subject.start_loaded()?;
    let start = Instant::now();
    let limits = Measure {
        discard: 0,
        min_steps: 1,
        min_ns: 50_000_000,
        max_steps: 2_000_000,
    };
    let samples = guest.measure(limits)?;
    let enough = start.elapsed() >= TIME || samples.len() == 2_000_000;
    demand(enough, || {
        format!(
            "{} samples before {} ms were over",
            samples.len(),
            TIME.as_millis()
        )
    })?;
    Ok(())
}

pub(super) fn measure_most(subject: &Subject<'_>) -> Result<(), Trouble> {
    let mut guest = subject.start_loaded()?;
    let limits = Measure {
        discard: 0,
        min_steps: 1,
        min_ns: u64::MAX,
        max_steps: 3,
    };
    let samples = guest.measure(limits)?;
    demand(samples.len() == 3, || {
        format!("{} samples instead of 3", samples.len())
    })?;
    Ok(())
}

pub(super) fn memory(subject: &Subject<'_>) -> Result<(), Trouble> {
    let mut guest = subject.start_loaded()?;
    match guest.ask(&Request::Memory)? {
        Reply::Memory(memory) => {
            let (now, peak) = (memory.resident_bytes, memory.peak_resident_bytes);
            demand(now > 0 && peak >= now, || {
                format!("{now} bytes with a peak of {peak}")
            })?;
            let seen = guest.host.resident_bytes();
            let largest = seen.iter().copied().max().unwrap_or(0);
            let sum = seen
                .iter()
                .fold(0, |sum: u64, &one| sum.saturating_add(one));
            let possible = largest / MEMORY_FACTOR..=sum.saturating_mul(MEMORY_FACTOR);
            demand(possible.contains(&now), || {
                format!("it tells {now} resident bytes, where the kernel sees {sum}")
            })?;
            let device = (memory.device_bytes, memory.peak_device_bytes);
            demand(device.0.is_some() == device.1.is_some(), || {
                format!("device memory and its peak are told together: {device:?}")
            })?;
        }
        other => return fail(format!("`{}` instead of `memory`", other.name())),
    }
    Ok(())
}
