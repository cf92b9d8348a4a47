//! What a person sees while heats are measured.

use std::{
    cell::Cell as Slot,
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};
use run::{Event, Observer, Phase};
use schema::{Cell, Outcome, OutcomeKind, plan::PlannedCell};

use super::line::{self, Line};
use crate::printer::{Printer, counted, on_terminal, set_in, terminal_width};

/// Lines of a failed launch's log that are shown, and how much of each; all that was kept is on the
/// cell's page.
const LOG_LINES: usize = 5;
const LOG_CHARS: usize = 200;
/// Where no bar is drawn, nobody waits much longer than this for a line.
const SILENCE: Duration = Duration::from_secs(60);

/// Shows a run: one bar over all blocks with the cell under measurement on a terminal, a line for
/// each heat otherwise. Counts what it saw, for the summary.
pub(crate) struct SweepProgress {
    printer: Printer,
    bar: ProgressBar,
    line: Line,
    /// Blocks that are counted and not measured, of the groups under way.
    open: BTreeMap<String, u32>,
    /// When the last line was printed.
    spoke: Slot<Instant>,
    /// The notes that were printed.
    told: BTreeSet<String>,
    /// How many groups were not reached, by the reason.
    not_reached: BTreeMap<String, usize>,
    pub(crate) measured: usize,
    pub(crate) cached: usize,
}

impl SweepProgress {
    /// For a plan with this many blocks to measure.
    pub(crate) fn new(printer: Printer, blocks: u64) -> Self {
        let bar = if on_terminal() && blocks > 0 {
            let style = ProgressStyle::with_template("{msg}")
                .unwrap_or_else(|_| ProgressStyle::default_bar());
            ProgressBar::new(blocks).with_style(style)
        } else {
            ProgressBar::hidden()
        };
        Self {
            printer,
            bar,
            line: Line {
                of: blocks,
                ..Line::default()
            },
            open: BTreeMap::new(),
            spoke: Slot::new(Instant::now()),
            told: BTreeSet::new(),
            not_reached: BTreeMap::new(),
            measured: 0,
            cached: 0,
        }
    }

    /// Draws the line anew.
    fn draw(&self) {
        if !self.bar.is_hidden() {
            let width = terminal_width().unwrap_or(line::USUAL_WIDTH);
            self.bar.set_message(self.line.fit(width));
        }
    }

    /// A line that stays, above the bar.
    fn note(&self, text: &str) {
        self.spoke.set(Instant::now());
        self.bar.suspend(|| self.printer.note(text));
    }

    fn doing(&mut self, cell: &Cell, phase: Phase) {
        self.line.phase = match phase {
            Phase::Start => "starting".to_owned(),
            Phase::Load => "loading".to_owned(),
            Phase::Calibration => "finding ranges".to_owned(),
            Phase::Parity => "comparing outputs".to_owned(),
            Phase::Frontier { batch } => format!("trying batch {batch}"),
            Phase::WarmUp => "warming up".to_owned(),
            Phase::Energy => "measuring energy".to_owned(),
            Phase::Profile => "profiling".to_owned(),
            Phase::Measure { round, of } => format!("round {} of {of}", round.saturating_add(1)),
        };
        let (engine, precision) = (&cell.engine, cell.precision);
        let reference = if matches!(phase, Phase::Parity) {
            format!(" {precision}")
        } else {
            String::new()
        };
        self.line.engine = format!("{engine}{reference}");
        self.draw();
    }

    fn finished(
        &mut self,
        group: &str,
        cells: &[PlannedCell],
        outcomes: &[Outcome],
        stopped: Option<&str>,
    ) {
        self.measured = self.measured.saturating_add(1);
        let pairs = cells
            .iter()
            .zip(outcomes)
            .filter(|(cell, _)| cell.twin_of.is_none());
        let total = pairs.clone().count();
        let is_verified = |outcome: &Outcome| outcome.kind == OutcomeKind::Verified;
        let verb = if outcomes.iter().any(is_verified) {
            "verified"
        } else {
            "measured"
        };
        let is_complete = |outcome: &Outcome| outcome.kind.is_complete();
        let good = pairs.filter(|(_, outcome)| is_complete(outcome)).count();
        let verb = if good == total {
            verb.to_owned()
        } else {
            format!("{good} of {total} cells {verb}")
        };
        let stopped = stopped.map(|stopped| format!("; {stopped}"));
        let stopped = stopped.unwrap_or_default();
        self.note(&format!("  {group}: {verb}{stopped}"));
    }
}

impl Observer for SweepProgress {
    fn observe(&mut self, event: &Event<'_>) {
        match event {
            Event::SetAside { place, reason } => {
                self.note(&format!(
                    "warning: a corrupt artifact was set aside ({reason}): {}",
                    place.display()
                ));
            }
            Event::Cached { .. } => self.cached = self.cached.saturating_add(1),
            Event::HeatStarted {
                group,
                blocks_kept,
                blocks,
                left,
                ..
            } => {
                let open = blocks.saturating_sub(*blocks_kept);
                self.open.insert((*group).to_owned(), open);
                self.line = Line {
                    group: (*group).to_owned(),
                    done: self.line.done.saturating_add(u64::from(*blocks_kept)),
                    of: self.line.of,
                    left: duration(*left),
                    ..Line::default()
                };
                self.draw();
                if *blocks_kept > 0 {
                    let blocks = counted(u64::from(*blocks_kept), "block");
                    self.note(&format!("  {group}: going on after {blocks}"));
                }
                if !on_terminal() {
                    self.note(&format!(
                        "  {group}: measuring, about {} left in all",
                        duration(*left)
                    ));
                }
            }
            Event::BlockStarted {
                group,
                block,
                of,
                left,
            } => {
                // A heat that goes on after a look has more of them.
                let now = of.saturating_sub(*block);
                let then = self.open.insert((*group).to_owned(), now);
                let more = now.saturating_sub(then.unwrap_or(0));
                self.line.of = self.line.of.saturating_add(u64::from(more));
                (*group).clone_into(&mut self.line.group);
                self.line.block = format!(", block {} of {of}", block.saturating_add(1));
                self.line.left = duration(*left);
                self.draw();
            }
            Event::BlockMeasured { group } => {
                self.line.done = self.line.done.saturating_add(1);
                if let Some(open) = self.open.get_mut(*group) {
                    *open = open.saturating_sub(1);
                }
                if !on_terminal() && self.spoke.get().elapsed() >= SILENCE {
                    let Line { done, of, left, .. } = &self.line;
                    self.note(&format!(
                        "  {done} of {of} blocks measured, about {left} left"
                    ));
                }
            }
            Event::Rests { group, time, left } => {
                (*group).clone_into(&mut self.line.group);
                "between blocks".clone_into(&mut self.line.engine);
                self.line.phase = format!("waiting {}", duration(*time));
                self.line.left = duration(*left);
                self.draw();
            }
            Event::Launch { cell, phase } => self.doing(cell, *phase),
            Event::Failed { cell, outcome, log } => {
                let mut text = format!(
                    "  {}: {}: {}",
                    cell.describe(),
                    outcome.kind,
                    set_in(&outcome.reason)
                );
                for line in last_words(outcome.kind, log) {
                    text.push_str("\n    | ");
                    text.extend(line.chars().take(LOG_CHARS));
                }
                self.note(&text);
            }
            Event::Note { text } => {
                // What holds for every block is said once.
                if self.told.insert((*text).to_owned()) {
                    self.note(&format!("  note: {text}"));
                }
            }
            Event::HeatFinished {
                group,
                cells,
                outcomes,
                stopped,
                ..
            } => {
                let open = self.open.remove(*group).unwrap_or(0);
                self.line.of = self.line.of.saturating_sub(u64::from(open));
                self.finished(group, cells, outcomes, *stopped);
            }
            Event::NotReached { reason, .. } => {
                let count = self.not_reached.entry((*reason).to_owned()).or_default();
                *count = count.saturating_add(1);
            }
        }
    }
}

impl Drop for SweepProgress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
        for (reason, count) in &self.not_reached {
            let groups = counted(*count as u64, "group");
            self.printer
                .note(&format!("  {groups} not reached: {reason}"));
        }
    }
}

/// The end of a log, of a worker whose ending its reason alone may not explain.
fn last_words(kind: OutcomeKind, log: &str) -> Vec<&str> {
    let speaks = matches!(
        kind,
        OutcomeKind::Crashed | OutcomeKind::Unavailable | OutcomeKind::TimedOut
    );
    let lines = log.lines().rev().filter(|line| !line.trim().is_empty());
    let mut lines: Vec<&str> = lines.take(if speaks { LOG_LINES } else { 0 }).collect();
    lines.reverse();
    lines
}

/// A time as a person says it: `45 s`, `12 min`, `3 h 20 min`.
pub(crate) fn duration(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..90 => format!("{seconds} s"),
        seconds @ 90..5400 => format!("{} min", seconds.div_ceil(60)),
        seconds => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_log_is_shown() {
        let log = "1\n2\n3\n\n4\n5\n  \n6\n";
        let last = last_words(OutcomeKind::Crashed, log);
        assert_eq!(last, ["2", "3", "4", "5", "6"]);
        assert!(last_words(OutcomeKind::Unsupported, log).is_empty());
        assert!(last_words(OutcomeKind::TimedOut, "").is_empty());
    }

    #[test]
    fn times_read_as_people_say_them() {
        let said = |seconds| duration(Duration::from_secs(seconds));
        assert_eq!(said(45), "45 s");
        assert_eq!(said(90), "2 min");
        assert_eq!(said(3 * 3600 + 20 * 60), "3 h 20 min");
    }
}
