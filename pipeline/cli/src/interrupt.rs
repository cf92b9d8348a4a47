//! Ctrl-C: the first asks everything to stop cleanly, the second leaves at once.

use std::{io, sync::Arc, sync::atomic::AtomicBool};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use worker::host::Interrupt;

/// Conventional exit status of a program that a Ctrl-C ended.
const STATUS: i32 = 130;

/// Makes signals that ask to stop trigger the returned interrupt.
///
/// # Errors
/// When the handlers cannot be installed.
pub(crate) fn on_signals() -> io::Result<Interrupt> {
    let interrupt = Interrupt::new()?;
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let asked_before = Arc::new(AtomicBool::new(false));
        // Registered in this order, the second signal finds the flag set and leaves.
        signal_hook::flag::register_conditional_shutdown(
            signal,
            STATUS,
            Arc::clone(&asked_before),
        )?;
        signal_hook::flag::register(signal, asked_before)?;
    }
    let trigger = interrupt.clone();
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    // Blocked in a read for the life of the process: costs nothing while workers measure.
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            if signals.forever().next().is_some() {
                trigger.trigger();
            }
        })?;
    Ok(interrupt)
}
