//! Minutes per suite.

use std::time::{Duration, Instant};

/// What each suite took and how it ended.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    suite: &'static str,
    took: Duration,
    failure: Option<String>,
}

impl Ledger {
    /// Runs a suite and writes down how it went. Later suites run whatever happens here.
    pub(crate) fn suite(&mut self, suite: &'static str, body: impl FnOnce() -> Result<(), String>) {
        println!("\n==> {suite}");
        let start = Instant::now();
        let failure = body().err();
        if let Some(reason) = &failure {
            println!("==> {suite} failed: {reason}");
        }
        self.entries.push(Entry {
            suite,
            took: start.elapsed(),
            failure,
        });
    }

    /// Prints the ledger.
    ///
    /// # Errors
    /// When a suite failed, or none ran.
    pub(crate) fn close(self) -> Result<(), String> {
        println!("\nminutes  suite");
        let mut total = Duration::ZERO;
        for entry in &self.entries {
            total += entry.took;
            let note = entry
                .failure
                .as_ref()
                .map(|reason| format!("  FAILED: {reason}"));
            println!(
                "{:7.1}  {}{}",
                minutes(entry.took),
                entry.suite,
                note.unwrap_or_default()
            );
        }
        println!("{:7.1}  in all", minutes(total));
        let failed = self
            .entries
            .iter()
            .filter(|entry| entry.failure.is_some())
            .count();
        println!("\n{} passed, {failed} failed", self.entries.len() - failed);
        match (self.entries.is_empty(), failed) {
            (true, _) => Err("no suite of that name".to_owned()),
            (false, 0) => Ok(()),
            (false, _) => Err("some suites failed".to_owned()),
        }
    }
}

fn minutes(took: Duration) -> f64 {
    took.as_secs_f64() / 60.0
}
