//! Ctrl-C: the first asks everything to stop cleanly, a second one leaves at once.

use std::{
    io, process, thread,
    time::{Duration, Instant},
};

use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};
use worker::host::Interrupt;

/// Conventional exit status of a program that a Ctrl-C ended.
const STATUS: i32 = 130;

/// Wrappers send a signal to a program and then to its group: what comes that close together is
/// one wish.
const ONE_WISH: Duration = Duration::from_millis(500);

/// Makes signals that ask to stop trigger the interrupt, from now on. For commands that heed it; others
/// leave the signals to the system.
///
/// # Errors
/// When the handlers cannot be installed.
pub(crate) fn watch(interrupt: &Interrupt) -> io::Result<()> {
    let trigger = interrupt.clone();
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    // Blocked in a read for the life of the process: costs nothing while workers measure.
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            let mut first: Option<Instant> = None;
            for _ in &mut signals {
                match first {
                    None => {
                        first = Some(Instant::now());
                        trigger.trigger();
                    }
                    Some(first) if first.elapsed() < ONE_WISH => {}
                    Some(_) => leave(),
                }
            }
        })?;
    Ok(())
}

/// Leaves at once: workers die with this process.
#[expect(clippy::exit, reason = "somebody asked twice")]
fn leave() -> ! {
    process::exit(STATUS)
}
