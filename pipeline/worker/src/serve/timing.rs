//! Running steps, with the clock around each.

use std::time::{Duration, Instant};

use schema::{
    Outcome,
    protocol::{Measure, Samples, WarmUp, WarmUpDone},
};

use crate::Session;

/// The most samples of one `measure`: their message stays below the protocol's limit even at
/// twenty digits each.
pub(crate) const MAX_SAMPLES: u64 = 3_000_000;

/// A window of a warm-up lasts at least this many steps and this long, so that neither a single
/// slow step nor a single burst of fast ones makes a median; very fast steps are cut short.
const WINDOW_STEPS: usize = 5;
const WINDOW_TIME: Duration = Duration::from_millis(50);
const WINDOW_MAX_STEPS: usize = 4096;

/// The time of one step, from the monotonic clock: nothing is between the readings but the step.
#[inline]
pub(super) fn time_step(session: &mut dyn Session) -> Result<u64, Outcome> {
    let start = Instant::now();
    session.step()?;
    Ok(nanoseconds(start.elapsed()))
}

/// Whole nanoseconds, at least 1: a step of no duration has no logarithm.
pub(super) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos())
        .unwrap_or(u64::MAX)
        .max(1)
}

/// Times steps until both minima are reached, or the maximum is, or `cancelled` says so.
pub(super) fn measure(
    session: &mut dyn Session,
    limits: &Measure,
    cancelled: impl Fn() -> bool,
) -> Result<Samples, Outcome> {
    for _ in 0..limits.discard {
        if cancelled() {
            return Ok(Samples {
                samples_ns: Vec::new(),
                cancelled: true,
            });
        }
        session.step()?;
    }
    let most = limits.max_steps.min(MAX_SAMPLES);
    let least = limits.min_steps.min(most);
    let mut samples_ns = Vec::with_capacity(usize::try_from(most).unwrap_or_default());
    let (mut steps, mut total_ns) = (0_u64, 0_u64);
    while steps < most && (steps < least || total_ns < limits.min_ns) {
        if cancelled() {
            return Ok(Samples {
                samples_ns,
                cancelled: true,
            });
        }
        let sample_ns = time_step(session)?;
        samples_ns.push(sample_ns);
        steps += 1;
        total_ns = total_ns.saturating_add(sample_ns);
    }
    Ok(Samples {
        samples_ns,
        cancelled: false,
    })
}

/// Runs steps until their time is steady: the medians of the last two windows differ by at most
/// the tolerance, relative to the smaller.
pub(super) fn warm_up(
    session: &mut dyn Session,
    limits: &WarmUp,
    cancelled: impl Fn() -> bool,
) -> Result<WarmUpDone, Outcome> {
    let start = Instant::now();
    let mut windows = Windows::new(limits.tolerance);
    let mut steps = 0_u64;
    loop {
        let total_ns = nanoseconds(start.elapsed());
        let enough = steps >= limits.min_steps;
        if cancelled() || enough && (windows.steady() || total_ns >= limits.max_ns) {
            return Ok(WarmUpDone {
                steps,
                total_ns,
                steady: windows.steady(),
            });
        }
        windows.push(time_step(session)?);
        steps += 1;
    }
}

/// Medians of successive windows of steps.
struct Windows {
    tolerance: f64,
    current_ns: Vec<u64>,
    total_ns: u64,
    last_ns: Option<u64>,
    steady: bool,
}

impl Windows {
    fn new(tolerance: f64) -> Self {
        let current_ns = Vec::with_capacity(WINDOW_MAX_STEPS);
        Self {
            tolerance,
            current_ns,
            total_ns: 0,
            last_ns: None,
            steady: false,
        }
    }

    /// Whether the newest two windows agree.
    fn steady(&self) -> bool {
        self.steady
    }

    fn push(&mut self, sample_ns: u64) {
        self.current_ns.push(sample_ns);
        self.total_ns = self.total_ns.saturating_add(sample_ns);
        let steps = self.current_ns.len();
        let long = u128::from(self.total_ns) >= WINDOW_TIME.as_nanos();
        if steps >= WINDOW_STEPS && long || steps >= WINDOW_MAX_STEPS {
            self.close();
        }
    }

    fn close(&mut self) {
        let middle = self.current_ns.len() / 2;
        let median_ns = *self.current_ns.select_nth_unstable(middle).1;
        self.steady = self.last_ns.is_some_and(|last_ns| {
            let difference = median_ns.abs_diff(last_ns) as f64;
            difference <= self.tolerance * median_ns.min(last_ns) as f64
        });
        self.last_ns = Some(median_ns);
        self.current_ns.clear();
        self.total_ns = 0;
    }
}
