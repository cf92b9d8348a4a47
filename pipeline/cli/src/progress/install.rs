//! What a person sees while engines are installed.

use std::time::Duration;

use catalog::{InstallEvent, InstallObserver};
use indicatif::{HumanBytes, ProgressBar, ProgressStyle};
use worker::host::Interrupt;

use crate::printer::{Printer, on_terminal};

/// Shows an installation: bars on a terminal, plain lines otherwise.
pub(crate) struct InstallProgress {
    printer: Printer,
    interrupt: Interrupt,
    bar: ProgressBar,
    /// What the bar shows, so that a new activity starts a new bar.
    activity: String,
}

impl InstallProgress {
    pub(crate) fn new(printer: Printer, interrupt: Interrupt) -> Self {
        Self {
            printer,
            interrupt,
            bar: ProgressBar::hidden(),
            activity: String::new(),
        }
    }

    fn line(&mut self, text: &str) {
        self.bar.finish_and_clear();
        self.activity.clear();
        self.printer.note(text);
    }

    /// Moves the bar of an activity; without a terminal each activity is one line.
    fn advance(&mut self, activity: String, done_bytes: u64, total_bytes: u64) {
        if self.activity != activity {
            self.bar.finish_and_clear();
            if on_terminal() {
                self.bar = ProgressBar::new(total_bytes).with_style(bytes_style());
                self.bar.set_message(activity.clone());
            } else {
                let size = HumanBytes(total_bytes);
                self.printer.note(&format!("{activity} ({size})"));
            }
            self.activity = activity;
        }
        self.bar.set_position(done_bytes);
    }

    fn spin(&mut self, activity: &str, detail: &str) {
        if !on_terminal() {
            return;
        }
        if self.activity != activity {
            self.bar.finish_and_clear();
            self.bar = ProgressBar::new_spinner();
            self.bar.enable_steady_tick(Duration::from_millis(200));
            activity.clone_into(&mut self.activity);
        }
        self.bar.set_message(format!("{activity}: {detail}"));
    }
}

impl InstallObserver for InstallProgress {
    fn event(&mut self, event: InstallEvent) {
        match event {
            InstallEvent::Ready { .. } => {}
            InstallEvent::Broken { engine, what } => {
                self.line(&format!("{engine}: mending the installation ({what})"));
            }
            InstallEvent::Waiting { engine, holder } => {
                self.line(&format!("{engine}: waiting for {holder}"));
            }
            InstallEvent::Begin {
                engine,
                download_bytes,
                disk_bytes,
                path,
            } => {
                let (download, disk) = (HumanBytes(download_bytes), HumanBytes(disk_bytes));
                self.line(&format!(
                    "{engine}: installing, {download} to download, {disk} on disk, into {}",
                    path.display()
                ));
            }
            InstallEvent::Download {
                engine,
                wheel,
                done_bytes,
                total_bytes,
            } => self.advance(
                format!("{engine}: downloading {wheel}"),
                done_bytes,
                total_bytes,
            ),
            InstallEvent::Unpack {
                engine,
                done_bytes,
                total_bytes,
            } => self.advance(format!("{engine}: unpacking"), done_bytes, total_bytes),
            InstallEvent::Check {
                engine,
                done_bytes,
                total_bytes,
            } => self.advance(format!("{engine}: checking"), done_bytes, total_bytes),
            InstallEvent::Adopted {
                engine,
                python,
                differing,
            } => {
                let python = python.display();
                self.line(&format!("{engine}: taking the packages of {python}"));
                if !differing.is_empty() {
                    let differing = differing.join(", ");
                    self.line(&format!("{engine}: not as pinned: {differing}"));
                }
            }
            InstallEvent::Installed { engine, path } => {
                self.line(&format!("{engine}: installed in {}", path.display()));
            }
            InstallEvent::Build { engine, package } => {
                self.line(&format!("{engine}: building {package}"));
            }
            InstallEvent::Cargo { engine, line } => {
                self.spin(&format!("{engine}: building"), &line);
            }
            InstallEvent::Built { engine, program } => {
                self.line(&format!("{engine}: built {}", program.display()));
            }
        }
    }

    fn interrupted(&self) -> bool {
        self.interrupt.is_set()
    }
}

impl Drop for InstallProgress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn bytes_style() -> ProgressStyle {
    ProgressStyle::with_template(
        "{msg} [{bar:30}] {bytes}/{total_bytes} {bytes_per_sec} {eta} left",
    )
    .unwrap_or_else(|_| ProgressStyle::default_bar())
    .progress_chars("=> ")
}
