//! The functions of `cpp/kineto.cpp`, made safe: which kernels a GPU ran, how long they took, and what
//! launched them.
#![expect(unsafe_code, reason = "calls into C++")]

mod name;
mod timeline;

use std::{
    ffi::{CStr, c_char, c_int},
    ptr,
    sync::{Mutex, MutexGuard, PoisonError},
};

use schema::Outcome;

use crate::{
    failure::Fault,
    recorder::{NOWHERE, Row},
    shim::{ShimError, checked},
};
use timeline::{Event, Kind};

// SAFETY: the signatures are those of `cpp/kineto.cpp`; no function lets an exception out.
unsafe extern "C" {
    fn photofinish_kineto_prepare() -> c_int;
    fn photofinish_kineto_start() -> c_int;
    fn photofinish_kineto_at(place: i64);
    fn photofinish_kineto_end(count: *mut u64) -> c_int;
    fn photofinish_kineto_event(index: u64, told: *mut Told) -> c_int;
}

/// `photofinish_kineto_told`.
#[repr(C)]
struct Told {
    name: *const c_char,
    start_ns: i64,
    end_ns: i64,
    thread: u64,
    sequence: i64,
    id: u64,
    kind: i32,
}

/// There is one profiler in the process.
static PROFILER: Mutex<()> = Mutex::new(());

/// PyTorch's own profiler, on this thread: what is noted is kept by it. Nobody else has it meanwhile.
pub(crate) struct Kineto {
    _alone: MutexGuard<'static, ()>,
}

impl Kineto {
    /// Readies it: what runs before it starts lets it make its buffers, and is not told.
    pub(crate) fn prepare() -> Result<Self, ShimError> {
        // Whoever panicked has ended it.
        let alone = PROFILER.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: no pointers.
        checked(unsafe { photofinish_kineto_prepare() })?;
        Ok(Self { _alone: alone })
    }

    /// Starts it.
    pub(crate) fn start(&self) -> Result<(), ShimError> {
        // SAFETY: no pointers.
        checked(unsafe { photofinish_kineto_start() })
    }

    /// From here on the program is at this place; `None`: at none.
    pub(crate) fn at(&self, place: Option<usize>) {
        let place = place.and_then(|place| i64::try_from(place).ok());
        // SAFETY: no pointers.
        unsafe { photofinish_kineto_at(place.unwrap_or(NOWHERE)) }
    }

    /// What the device did at each place, and how many kernels, copies and fills that were.
    pub(crate) fn end(self) -> Result<(Vec<Row>, u64), Outcome> {
        let events = self.events();
        timeline::rows(events.map_err(|error| Fault::from(error).at("profile"))?)
    }

    /// Ends it; all that it noted.
    fn events(&self) -> Result<Vec<Event>, ShimError> {
        let mut count = 0;
        // SAFETY: it is a valid place.
        checked(unsafe { photofinish_kineto_end(&raw mut count) })?;
        (0..count).map(event).collect()
    }
}

impl Drop for Kineto {
    fn drop(&mut self) {
        let mut count = 0;
        // SAFETY: it is a valid place. That it has ended already does no harm; why it did not end can be
        // told nobody.
        let _ = unsafe { photofinish_kineto_end(&raw mut count) };
    }
}

fn event(index: u64) -> Result<Event, ShimError> {
    let mut told = Told {
        name: ptr::null(),
        start_ns: 0,
        end_ns: 0,
        thread: 0,
        sequence: 0,
        id: 0,
        kind: 0,
    };
    // SAFETY: it is a valid place; on success the name ends in NUL and stays where it is until this
    // thread's next profile starts.
    let name = unsafe {
        checked(photofinish_kineto_event(index, &raw mut told))?;
        CStr::from_ptr(told.name)
    };
    Ok(Event {
        kind: kind(told.kind)?,
        name: name.to_string_lossy().into_owned(),
        start_ns: told.start_ns,
        end_ns: told.end_ns,
        thread: told.thread,
        sequence: told.sequence,
        id: told.id,
    })
}

fn kind(number: i32) -> Result<Kind, ShimError> {
    Ok(match number {
        0 => Kind::Arrival,
        1 => Kind::Operator,
        2 => Kind::Conversion,
        3 => Kind::Backward,
        4 => Kind::Evaluation,
        5 => Kind::Device,
        _ => {
            return Err(ShimError(format!(
                "Kineto told of something else: {number}"
            )));
        }
    })
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, rc::Rc};

    use models::{
        Numbers,
        rewrite::{ATTENTION, PLAIN, Rewriting},
    };
    use schema::{
        Graph, Mode, OutcomeKind,
        graph::{Loss, Role},
    };
    use tch::Tensor;

    use super::*;
    use crate::{
        device::Place,
        kernel::Pass,
        lower::lower,
        recorder::{Operators, Recorder},
        tape::Tape,
        training::Backward as _,
        values::Maker,
    };

    const STEPS: u64 = 2;

    /// What is counted: place, name, whether it converts.
    type Counts = BTreeMap<(Option<usize>, String, bool), u64>;

    fn network(name: &str, dims: &[(&str, u64)]) -> Graph {
        let dims = dims.iter().map(|&(dim, size)| (dim.to_owned(), size));
        models::zoo::build(name, &dims.collect()).unwrap()
    }

    /// The graph's first values: what it is fed, its parameters.
    fn given(graph: &Graph) -> Vec<Tensor> {
        let numbers = Rc::new(Numbers::default());
        let mut maker = Maker::new(Place::Cpu, tch::Kind::Float, false, numbers);
        let labels = graph
            .loss
            .iter()
            .map(|Loss::CrossEntropy { labels, .. }| labels);
        let fed = graph.inputs.iter().chain(labels);
        let mut values: Vec<_> = fed.map(|input| maker.input(input).unwrap()).collect();
        for parameter in &graph.parameters {
            let tensor = maker.parameter(parameter).unwrap();
            let is_trained = graph.loss.is_some() && parameter.role == Role::Weight;
            values.push(tensor.detach().set_requires_grad(is_trained));
        }
        values
    }

    /// Passes that say where they are: with a loss, back again, too.
    fn run(graph: &Graph, recorder: &Recorder) {
        let mut values: Vec<_> = given(graph).into_iter().map(Some).collect();
        if graph.loss.is_some() {
            let mut tape = Tape::build(graph, None).unwrap();
            values.resize_with(tape.values(), || None);
            recorder.start().unwrap();
            for _ in 0..STEPS {
                drop(tape.run_told(&mut values, recorder).unwrap());
                recorder.nowhere();
            }
            return;
        }
        let lowered = lower(graph, Mode::Inference).unwrap();
        values.resize_with(lowered.indices.len(), || None);
        recorder.start().unwrap();
        for _ in 0..STEPS {
            let program = &lowered.program;
            program
                .run_told(&mut values, Pass::Inference, recorder)
                .unwrap();
        }
    }

    /// What the recorder of a CPU counts.
    fn recorded(graph: &Graph) -> Counts {
        let recorder = Recorder::Operators(Operators::new());
        run(graph, &recorder);
        let (rows, _) = recorder.end().unwrap();
        let counted = rows
            .into_iter()
            .map(|row| ((row.place, row.name, row.converts), row.calls));
        counted.collect()
    }

    /// The same counts from what Kineto noted.
    fn noted(events: &[Event]) -> Counts {
        let places = timeline::origins(events);
        let mut counts = Counts::new();
        let (mut outermost_until, mut conversion_until) = (i64::MIN, i64::MIN);
        for event in events {
            if matches!(event.kind, Kind::Arrival | Kind::Evaluation) {
                continue;
            }
            let is_outermost = event.start_ns >= outermost_until;
            if is_outermost {
                outermost_until = event.end_ns;
            }
            let copies = |inner: &Event| {
                inner.name == "aten::copy_"
                    && (event.start_ns..event.end_ns).contains(&inner.start_ns)
            };
            let mut converts = false;
            if event.kind == Kind::Conversion && event.start_ns >= conversion_until {
                conversion_until = event.end_ns;
                converts = events.iter().any(copies);
            }
            if converts || is_outermost {
                let place = places.get(&event.id).unwrap().place;
                let key = (place, event.name.clone(), converts);
                *counts.entry(key).or_default() += 1;
            }
        }
        counts
    }

    /// What Kineto counts, which has to be what the recorder of a CPU does.
    fn counted(graph: &Graph) -> Counts {
        let kineto = Kineto::prepare().unwrap();
        let recorder = Recorder::Kernels(kineto);
        run(graph, &recorder);
        let Recorder::Kernels(kineto) = recorder else {
            unreachable!()
        };
        let mut events = kineto.events().unwrap();
        events.sort_by_key(timeline::order);
        let counts = noted(&events);
        assert_eq!(counts, recorded(graph), "{}", graph.name);
        counts
    }

    #[test]
    fn gradients_are_where_the_recorder_of_a_cpu_says() {
        let graph = network("resnet18", &[("batch", 2), ("image", 64)]);
        let counts = counted(&graph);
        let gradients = counts
            .keys()
            .filter(|(_, name, _)| name.ends_with("Backward0"));
        assert!(
            gradients.clone().count() > graph.nodes.len() / 2,
            "{counts:#?}"
        );
        assert!(gradients.clone().all(|(place, ..)| place.is_some()));
    }

    #[test]
    fn conversions_are_where_the_recorder_of_a_cpu_says() {
        let graph = network("bert_tiny", &[("batch", 2), ("seq", 16)]);
        let factors = [(ATTENTION.to_owned(), PLAIN.to_owned())].into();
        let counts = counted(&Rewriting::asked_by(&factors).apply(graph).unwrap());
        assert!(counts.keys().any(|(.., converts)| *converts), "{counts:#?}");
    }

    #[test]
    fn without_a_device_nothing_is_told() {
        let graph = network("bert_tiny", &[("batch", 1), ("seq", 4)]);
        let recorder = Recorder::Kernels(Kineto::prepare().unwrap());
        run(&graph, &recorder);
        let outcome = recorder.end().unwrap_err();
        assert_eq!(outcome.kind, OutcomeKind::Unsupported);
        assert!(outcome.reason.contains("CUPTI"), "{}", outcome.reason);
    }

    #[test]
    fn it_runs_once_at_a_time_and_again_afterwards() {
        let kineto = Kineto::prepare().unwrap();
        kineto.start().unwrap();
        assert!(kineto.start().is_err());
        drop(kineto);
        let again = Kineto::prepare().unwrap();
        again.start().unwrap();
        again.at(Some(3));
        again.at(None);
        let events = again.events().unwrap();
        let places: Vec<i64> = events.iter().map(|event| event.sequence).collect();
        assert_eq!(places, [3, NOWHERE]);
    }
}
