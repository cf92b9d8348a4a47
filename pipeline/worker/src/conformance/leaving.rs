//! How a worker leaves.

use std::{thread, time::Duration};

use schema::protocol::{Measure, Request};

use super::subject::{Subject, Trouble, left, steps};

/// How long a measurement goes on before the stream is closed on it.
const A_WHILE: Duration = Duration::from_millis(200);

const THREE: Measure = steps(0, 3);

pub(super) fn bye(subject: &Subject<'_>) -> Result<(), Trouble> {
    subject.start()?.leave()?;
    let mut guest = subject.start_loaded()?;
    guest.measure(THREE)?;
    guest.leave()
}

pub(super) fn early_close(subject: &Subject<'_>) -> Result<(), Trouble> {
    for mut guest in [subject.start()?, subject.start_loaded()?] {
        guest.host.close_stream();
        let deadline = guest.leaving();
        left(&guest.host.wait(deadline))?;
    }
    Ok(())
}

pub(super) fn close_at_work(subject: &Subject<'_>) -> Result<(), Trouble> {
    let mut guest = subject.start_loaded()?;
    let deadline = guest.deadline();
    let long = Measure {
        discard: 0,
        min_steps: 0,
        min_ns: u64::MAX,
        max_steps: u64::MAX,
    };
    guest.host.begin(&Request::Measure(long), deadline)?;
    thread::sleep(A_WHILE);
    guest.host.close_stream();
    let deadline = guest.leaving();
    left(&guest.host.wait(deadline))
}
