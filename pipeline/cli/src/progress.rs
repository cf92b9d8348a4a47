//! What a person sees during long work. Everything is drawn between measurements; no bar ticks by
//! itself while a worker measures.

mod install;
mod line;
mod sweep;

use std::time::Duration;

use indicatif::ProgressBar;

use crate::printer::on_terminal;

pub(crate) use install::InstallProgress;
pub(crate) use sweep::SweepProgress;

/// A spinner on a terminal while a stage works that says nothing of its own; gone when dropped.
/// Never used while a worker measures.
pub(crate) fn busy(stage: &'static str) -> Busy {
    let spinner = if on_terminal() {
        let spinner = ProgressBar::new_spinner().with_message(stage);
        spinner.enable_steady_tick(Duration::from_millis(100));
        spinner
    } else {
        ProgressBar::hidden()
    };
    Busy(spinner)
}

/// A spinner that ends with its scope.
pub(crate) struct Busy(ProgressBar);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
