//! What a person sees during long work. Everything is drawn between measurements; no bar ticks by
//! itself while a worker measures.

mod install;
mod line;
mod sweep;

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

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

/// A bar on a terminal for work of a known length; gone when dropped. It moves when it is told to.
pub(crate) fn share(what: &'static str) -> Busy {
    if !on_terminal() {
        return Busy(ProgressBar::hidden());
    }
    let style = ProgressStyle::with_template("{msg} {bar:24} {percent} %")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    Busy(ProgressBar::new(WHOLE).with_style(style).with_message(what))
}

/// Steps of such a bar.
const WHOLE: u64 = 1000;

/// A spinner or a bar that ends with its scope.
pub(crate) struct Busy(ProgressBar);

impl Busy {
    /// So much is done, of 1.
    pub(crate) fn reach(&self, share: f64) {
        self.0.set_position((share * WHOLE as f64) as u64);
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
