//! Standing still while others are measured.

use std::{thread, time::Duration};

use schema::protocol::Measure;

use super::subject::{Subject, Trouble, demand, steps};

/// How long the worker is stopped.
const A_WHILE: Duration = Duration::from_millis(300);

/// Processor time that what was on its way into the kernel may still take, in ticks of a hundredth
/// of a second.
const LAST_TICKS: u64 = 3;

const THREE: Measure = steps(0, 3);

pub(super) fn pause(subject: &Subject<'_>) -> Result<(), Trouble> {
    let mut guest = subject.start_loaded()?;
    guest.measure(THREE)?;
    // More than once, as in the rounds of a block.
    for _ in 0..2 {
        guest.host.pause()?;
        let before = guest.host.cpu_ticks();
        thread::sleep(A_WHILE);
        let ticks = guest.host.cpu_ticks().saturating_sub(before);
        demand(ticks <= LAST_TICKS, || {
            format!(
                "it took {} ms of processor time in the {} ms for which it was stopped",
                ticks * 10,
                A_WHILE.as_millis()
            )
        })?;
        guest.host.resume()?;
        guest.measure(THREE)?;
    }
    Ok(())
}
