//! What was launched at which place of the program: everything that was noted, in the order of time.

use std::collections::{BTreeMap, HashMap};

use schema::Outcome;

use super::name;
use crate::{failure::unsupported, recorder::Row};

/// Something that was noted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Event {
    /// What it is.
    pub(super) kind: Kind,
    /// Its name.
    pub(super) name: String,
    /// When it began, on the clock that all have in common.
    pub(super) start_ns: i64,
    /// When it ended.
    pub(super) end_ns: i64,
    /// The thread that it ran on; of a device's work, nothing.
    pub(super) thread: u64,
    /// Of an arrival, the place; of a function of autograd and of the operator that it is the derivative
    /// of, the same number; negative: none.
    pub(super) sequence: i64,
    /// Its own number; of a device's work, that of the operator that launched it.
    pub(super) id: u64,
}

/// What something is that was noted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The program came to another place.
    Arrival,
    /// An operator.
    Operator,
    /// An operator that brings numbers into another order or type.
    Conversion,
    /// A function of autograd.
    Backward,
    /// Autograd's loop around one.
    Evaluation,
    /// A kernel, a copy or a fill on a device.
    Device,
}

/// Where something ran.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Origin {
    /// The place of the program; `None`: nowhere in it.
    pub(super) place: Option<usize>,
    /// Whether it is a conversion, or within one.
    pub(super) converts: bool,
}

/// What one thread is in.
#[derive(Debug, Default)]
struct Thread {
    place: Option<usize>,
    frames: Vec<Frame>,
}

#[derive(Debug)]
struct Frame {
    end_ns: i64,
    /// The place that the thread is at once it is over.
    place_after: Option<usize>,
    converts: bool,
}

impl Thread {
    /// Leaves what is over by then.
    fn reach(&mut self, now_ns: i64) {
        while let Some(frame) = self.frames.pop_if(|frame| frame.end_ns <= now_ns) {
            self.place = frame.place_after;
        }
    }

    fn enter(&mut self, event: &Event, place_after: Option<usize>) -> Origin {
        let within = self.frames.last().is_some_and(|frame| frame.converts);
        let converts = within || event.kind == Kind::Conversion;
        self.frames.push(Frame {
            end_ns: event.end_ns,
            place_after,
            converts,
        });
        Origin {
            place: self.place,
            converts,
        }
    }
}

/// The order in which things began; what calls something has the smaller number, where the clock does
/// not tell the two apart.
pub(super) fn order(event: &Event) -> (i64, u64) {
    (event.start_ns, event.id)
}

/// Where everything ran that is not a device's work, by its number. `events` are in the order of time.
///
/// It is at the place that its thread came to last; a function of autograd, which has a thread of its own
/// where a device's gradients are computed, is at that of the operator whose derivative it is, and so
/// is what autograd adds up after it.
pub(super) fn origins(events: &[Event]) -> HashMap<u64, Origin> {
    let mut threads: HashMap<u64, Thread> = HashMap::new();
    let mut places_of_numbers: HashMap<i64, Option<usize>> = HashMap::new();
    let mut origins = HashMap::with_capacity(events.len());
    for event in events.iter().filter(|event| event.kind != Kind::Device) {
        let thread = threads.entry(event.thread).or_default();
        thread.reach(event.start_ns);
        let mut place_after = thread.place;
        match event.kind {
            Kind::Arrival => {
                thread.place = usize::try_from(event.sequence).ok();
                continue;
            }
            Kind::Backward => {
                thread.place = places_of_numbers.get(&event.sequence).copied().flatten();
                if !thread.frames.is_empty() {
                    place_after = thread.place;
                }
            }
            Kind::Evaluation => thread.place = None,
            // Of several operators with the number, the last makes autograd's function.
            _ if event.sequence >= 0 => {
                places_of_numbers.insert(event.sequence, thread.place);
            }
            _ => {}
        }
        origins.insert(event.id, thread.enter(event, place_after));
    }
    origins
}

/// What the device did at each place, and how often it was given something to do.
///
/// Each moment is of one thing at most: where two overlap (kernels on streams of a library's own, or one
/// that may begin before the one that it waits for has ended), it is of the one that began first.
///
/// # Errors
/// `unsupported`: nothing of the device was noted, or not what launched it.
pub(super) fn rows(mut events: Vec<Event>) -> Result<(Vec<Row>, u64), Outcome> {
    events.sort_by_key(order);
    let origins = origins(&events);
    let launched: Vec<&Event> = events
        .iter()
        .filter(|event| event.kind == Kind::Device)
        .collect();
    if launched.is_empty() {
        return Err(unsupported(
            "PyTorch's profiler was told of no kernel by CUPTI, which this machine may not allow",
        ));
    }
    if !launched.iter().any(|event| origins.contains_key(&event.id)) {
        return Err(unsupported(
            "PyTorch's profiler was not told by CUPTI what launched its kernels",
        ));
    }
    let mut sums: BTreeMap<(Option<usize>, String, bool), (u64, u64)> = BTreeMap::new();
    let mut told_until_ns = i64::MIN;
    for event in &launched {
        let origin = origins.get(&event.id).copied().unwrap_or_default();
        let converts = origin.converts || name::is_conversion(&event.name);
        let key = (origin.place, name::shortened(&event.name), converts);
        let (time_ns, calls) = sums.entry(key).or_default();
        let own_ns = event
            .end_ns
            .saturating_sub(event.start_ns.max(told_until_ns));
        *time_ns += u64::try_from(own_ns).unwrap_or(0);
        *calls += 1;
        told_until_ns = told_until_ns.max(event.end_ns);
    }
    let rows = sums.into_iter();
    let rows = rows.map(|((place, name, converts), (time_ns, calls))| Row {
        place,
        name,
        converts,
        time_ns,
        calls,
    });
    Ok((rows.collect(), launched.len() as u64))
}

#[cfg(test)]
mod tests {
    use schema::OutcomeKind;

    use super::*;

    /// The thread of the program, and autograd's for the device.
    const MAIN: u64 = 1;
    const AUTOGRAD: u64 = 2;

    fn event(kind: Kind, thread: u64, (start_ns, end_ns): (i64, i64), sequence: i64) -> Event {
        Event {
            kind,
            name: format!("{kind:?}"),
            start_ns,
            end_ns,
            thread,
            sequence,
            id: start_ns as u64,
        }
    }

    fn arrival(at_ns: i64, place: i64) -> Event {
        event(Kind::Arrival, MAIN, (at_ns, at_ns + 1), place)
    }

    fn kernel(name: &str, launched_by: u64, (start_ns, end_ns): (i64, i64)) -> Event {
        Event {
            name: name.to_owned(),
            id: launched_by,
            ..event(Kind::Device, 0, (start_ns, end_ns), -1)
        }
    }

    /// A forward pass of two places and the way back, on a thread of its own while the first waits.
    fn iteration() -> Vec<Event> {
        vec![
            arrival(0, 0),
            event(Kind::Operator, MAIN, (10, 30), 5),
            event(Kind::Operator, MAIN, (12, 28), -1),
            arrival(40, 1),
            event(Kind::Operator, MAIN, (50, 90), 6),
            event(Kind::Conversion, MAIN, (55, 70), -1),
            event(Kind::Operator, MAIN, (60, 65), -1),
            event(Kind::Operator, MAIN, (72, 80), -1),
            arrival(100, 2),
            event(Kind::Operator, MAIN, (110, 120), 7),
            event(Kind::Evaluation, AUTOGRAD, (200, 260), 5),
            event(Kind::Backward, AUTOGRAD, (210, 230), 5),
            event(Kind::Operator, AUTOGRAD, (215, 225), -1),
            event(Kind::Operator, AUTOGRAD, (240, 250), -1),
            event(Kind::Evaluation, AUTOGRAD, (300, 330), -1),
            event(Kind::Backward, AUTOGRAD, (305, 325), -1),
            arrival(400, -1),
            event(Kind::Operator, MAIN, (410, 420), -1),
        ]
    }

    #[test]
    fn what_runs_is_where_its_thread_came_to_and_a_gradient_where_its_operator_was() {
        let events = iteration();
        let origins = origins(&events);
        let place = |id: u64| origins.get(&id).unwrap().place;
        assert_eq!([10, 12].map(place), [Some(0); 2]);
        assert_eq!([50, 55, 60, 72].map(place), [Some(1); 4]);
        assert_eq!(place(110), Some(2));
        // The loop around a gradient is nowhere until that begins; what it adds up is the gradient's.
        assert_eq!(place(200), None);
        assert_eq!([210, 215, 240].map(place), [Some(0); 3]);
        assert_eq!([300, 305, 410].map(place), [None; 3]);
        let converts = |id: &u64| origins.get(id).unwrap().converts;
        let converting: Vec<u64> = [50, 55, 60, 72].into_iter().filter(converts).collect();
        assert_eq!(converting, [55, 60]);
    }

    #[test]
    fn the_last_operator_with_a_number_is_the_one_that_autograd_goes_back_through() {
        let events = [
            arrival(0, 0),
            event(Kind::Operator, MAIN, (10, 20), 5),
            arrival(30, 1),
            event(Kind::Operator, MAIN, (40, 50), 5),
            event(Kind::Backward, MAIN, (60, 70), 5),
            event(Kind::Operator, MAIN, (80, 90), -1),
        ];
        let origins = origins(&events);
        assert_eq!(origins[&60].place, Some(1));
        assert_eq!(origins[&80].place, Some(1));
    }

    #[test]
    fn kernels_are_where_they_were_launched_however_late_they_run() {
        let mut events = iteration();
        events.extend([
            kernel("void gemm(int)", 12, (1000, 1100)),
            kernel("copy", 60, (1100, 1150)),
            kernel("gemm", 72, (1150, 1200)),
            kernel("gemm", 215, (1300, 1310)),
            kernel("gemm", 72, (1400, 1450)),
            kernel("add", 999, (1500, 1501)),
        ]);
        let (rows, count) = rows(events).unwrap();
        let row = |place, name: &str, converts, time_ns, calls| Row {
            place,
            name: name.to_owned(),
            converts,
            time_ns,
            calls,
        };
        assert_eq!(count, 6);
        assert_eq!(
            rows,
            [
                row(None, "add", false, 1, 1),
                row(Some(0), "gemm", false, 110, 2),
                row(Some(1), "copy", true, 50, 1),
                row(Some(1), "gemm", false, 100, 2),
            ]
        );
    }

    #[test]
    fn a_moment_is_of_the_kernel_that_began_first() {
        let mut events = iteration();
        events.extend([
            kernel("first", 12, (1000, 1100)),
            kernel("within", 12, (1020, 1050)),
            kernel("waits", 12, (1090, 1130)),
        ]);
        let (rows, count) = rows(events).unwrap();
        let times: Vec<_> = rows.iter().map(|row| (&*row.name, row.time_ns)).collect();
        assert_eq!(count, 3);
        assert_eq!(times, [("first", 100), ("waits", 30), ("within", 0)]);
    }

    #[test]
    fn a_profile_without_kernels_or_their_launches_is_none() {
        let reason = |events| {
            let outcome = rows(events).unwrap_err();
            assert_eq!(outcome.kind, OutcomeKind::Unsupported);
            outcome.reason
        };
        assert!(reason(iteration()).contains("no kernel"));
        let mut events = iteration();
        events.push(kernel("gemm", 0, (1000, 1100)));
        assert!(reason(events).contains("what launched"));
    }
}
