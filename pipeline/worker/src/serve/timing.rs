//! Running steps, with the clock around each.

use std::time::{Duration, Instant};

use schema::{
    Outcome,
    protocol::{Measure, Samples, WarmUp, WarmUpDone},
};

use crate::{
    Session, clock,
    ranks::{self, Answer, Crew, Order},
};

/// The most samples of one `measure`: their message stays below the protocol's limit even at
/// twenty digits each.
pub(crate) const MAX_SAMPLES: u64 = 3_000_000;

/// A window of a warm-up lasts at least this many steps and this long, so that neither a single
/// slow step nor a single burst of fast ones makes a median; very fast steps are cut short.
const WINDOW_STEPS: usize = 5;
const WINDOW_TIME: Duration = Duration::from_millis(50);
/// Slow steps need fewer: a window of so many steps suffices once it has lasted so long.
const SLOW_WINDOW_STEPS: usize = 3;
const SLOW_WINDOW_TIME: Duration = Duration::from_millis(250);
/// What drifts by a percent or two in a window drifts by much more in a second: nothing is called steady
/// before windows have covered so long, or half of the time limit where that is less.
const LEAST_TIME: Duration = Duration::from_secs(1);
/// Two windows are tried whatever the time limit says, up to this many times the limit: otherwise
/// no slow step could ever be found steady.
const PATIENCE: u64 = 3;
const WINDOW_MAX_STEPS: usize = 4096;

/// The time of one step, from the monotonic clock: nothing is between the readings but the step.
#[inline]
pub(super) fn time_step(session: &mut dyn Session) -> Result<u64, Outcome> {
    let start = Instant::now();
    session.step()?;
    Ok(nanoseconds(start.elapsed()))
}

/// The sample of the step that has just taken this long: that, or what the device says of it.
#[inline]
fn sample(session: &mut dyn Session, step_ns: u64) -> Result<u64, Outcome> {
    let told = session.device_ns()?;
    Ok(told.map_or(step_ns, |device_ns| device_ns.max(1)))
}

/// Whole nanoseconds, at least 1: a step of no duration has no logarithm.
pub(super) fn nanoseconds(duration: Duration) -> u64 {
    clock::nanoseconds(duration).max(1)
}

/// Several ranks are told beforehand how many steps come next; these last about so long, and are so many
/// at most.
const STRETCH: Duration = Duration::from_millis(100);
const MOST_STRETCH: u64 = 1000;

/// A step that ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    /// How long it took by the monotonic clock.
    took_ns: u64,
    /// Its sample.
    pub(crate) sample_ns: u64,
}

/// What runs steps: a session, with the other ranks of its cell, where there are any.
pub(super) struct Run<'a> {
    pub(super) session: &'a mut dyn Session,
    pub(super) crew: Option<&'a mut Crew>,
}

impl Run<'_> {
    /// Runs the next steps, at least one and at most `most`: one where a process is alone; otherwise about
    /// as many as a stretch takes, if they take as long as the last one. Each takes as long as on the rank
    /// where it took longest.
    fn next(&mut self, most: u64, last: Option<Step>) -> Result<Vec<Step>, Outcome> {
        let Some(crew) = &mut self.crew else {
            return Ok(vec![step(self.session)?]);
        };
        let fit = last.map_or(1, |last| nanoseconds(STRETCH) / last.took_ns.max(1));
        let count = fit.clamp(1, MOST_STRETCH).min(most).max(1);
        crew.order(&Order::Steps(count))?;
        let own = self.session.align();
        let own = own.and_then(|()| (0..count).map(|_| step(self.session)).collect());
        let (mut steps, answers): (Vec<Step>, _) = crew.answers(own)?;
        // As many as it was told, or it is nobody's time that the slowest rank took.
        let others = ranks::each(answers, |answer| match answer {
            Answer::Steps(others) if others.len() == steps.len() => Some(others),
            _ => None,
        })?;
        for others in others {
            for (step, other_ns) in steps.iter_mut().zip(others) {
                step.sample_ns = step.sample_ns.max(other_ns);
            }
        }
        Ok(steps)
    }

    /// The same of steps that are not samples: the device of a process that is alone is not asked.
    fn skip(&mut self, most: u64, last: Option<Step>) -> Result<Vec<Step>, Outcome> {
        if self.crew.is_some() {
            return self.next(most, last);
        }
        let took_ns = time_step(self.session)?;
        Ok(vec![Step {
            took_ns,
            sample_ns: took_ns,
        }])
    }
}

/// Runs a step.
pub(crate) fn step(session: &mut dyn Session) -> Result<Step, Outcome> {
    let took_ns = time_step(session)?;
    let sample_ns = sample(session, took_ns)?;
    Ok(Step { took_ns, sample_ns })
}

/// Times steps until both minima are reached, or the maximum is, or `cancelled` says so. Limits are of the
/// monotonic clock, whoever tells the samples: a device that is done soon keeps nobody measuring.
pub(super) fn measure(
    run: &mut Run<'_>,
    limits: &Measure,
    cancelled: impl Fn() -> bool,
) -> Result<Samples, Outcome> {
    let mut last = None;
    let mut discarded = 0;
    while discarded < limits.discard {
        if cancelled() {
            return Ok(Samples {
                samples_ns: Vec::new(),
                cancelled: true,
            });
        }
        let steps = run.skip(limits.discard - discarded, last)?;
        discarded += steps.len() as u64;
        last = steps.last().copied();
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
        let ran = run.next(most - steps, last)?;
        last = ran.last().copied();
        for step in ran {
            samples_ns.push(step.sample_ns);
            steps += 1;
            total_ns = total_ns.saturating_add(step.took_ns);
        }
    }
    Ok(Samples {
        samples_ns,
        cancelled: false,
    })
}

/// Runs steps until their time is steady: the medians of the last two windows differ by at most
/// the tolerance, relative to the smaller, and so do those of the last third of all windows and of the
/// third before it. That looks back the farther the longer it takes, so that a slow drift is seen.
pub(super) fn warm_up(
    run: &mut Run<'_>,
    limits: &WarmUp,
    cancelled: impl Fn() -> bool,
) -> Result<WarmUpDone, Outcome> {
    let start = Instant::now();
    let mut windows = Windows::new(limits.tolerance, limits.max_ns);
    let mut steps = 0_u64;
    let mut last = None;
    loop {
        let total_ns = nanoseconds(start.elapsed());
        let enough = steps >= limits.min_steps;
        let over =
            total_ns >= limits.max_ns && (windows.two() || total_ns / PATIENCE >= limits.max_ns);
        if cancelled() || enough && (windows.steady() || over) {
            return Ok(WarmUpDone {
                steps,
                total_ns,
                steady: windows.steady(),
            });
        }
        let ran = run.next(MOST_STRETCH, last)?;
        last = ran.last().copied();
        for step in ran {
            windows.push(step.sample_ns, step.took_ns);
            steps += 1;
        }
    }
}

/// Medians of successive windows of steps.
struct Windows {
    tolerance: f64,
    /// How long windows must have covered.
    least_ns: u64,
    current_ns: Vec<u64>,
    /// Time of the current window, and of those before it, by the monotonic clock.
    total_ns: u64,
    covered_ns: u64,
    medians_ns: Vec<u64>,
    steady: bool,
}

impl Windows {
    fn new(tolerance: f64, max_ns: u64) -> Self {
        Self {
            tolerance,
            least_ns: nanoseconds(LEAST_TIME).min(max_ns / 2),
            current_ns: Vec::with_capacity(WINDOW_MAX_STEPS),
            total_ns: 0,
            covered_ns: 0,
            medians_ns: Vec::new(),
            steady: false,
        }
    }

    /// Whether the newest windows agree, and those some way back with them.
    fn steady(&self) -> bool {
        self.steady
    }

    /// Whether there were two windows to compare.
    fn two(&self) -> bool {
        self.medians_ns.len() >= 2
    }

    /// Takes the sample of a step, and how long the step took by the monotonic clock.
    fn push(&mut self, sample_ns: u64, step_ns: u64) {
        self.current_ns.push(sample_ns);
        self.total_ns = self.total_ns.saturating_add(step_ns);
        let steps = self.current_ns.len();
        let lasted = |time: Duration| u128::from(self.total_ns) >= time.as_nanos();
        let whole = steps >= WINDOW_STEPS && lasted(WINDOW_TIME)
            || steps >= SLOW_WINDOW_STEPS && lasted(SLOW_WINDOW_TIME)
            || steps >= WINDOW_MAX_STEPS;
        if whole {
            self.close();
        }
    }

    fn close(&mut self) {
        self.medians_ns.extend(median(&mut self.current_ns));
        self.covered_ns = self.covered_ns.saturating_add(self.total_ns);
        self.current_ns.clear();
        self.total_ns = 0;
        let third = (self.medians_ns.len() / 3).max(1);
        self.steady = self.covered_ns >= self.least_ns && self.agree(1) && self.agree(third);
    }

    /// Whether the last windows, so many of them, agree with as many before them.
    fn agree(&self, windows: usize) -> bool {
        let Some((before, last)) = self
            .medians_ns
            .split_at_checked(self.medians_ns.len() - windows)
        else {
            return false;
        };
        let Some((_, before)) = before.split_at_checked(before.len().wrapping_sub(windows)) else {
            return false;
        };
        let [before, last] = [before, last].map(|windows| median(&mut windows.to_vec()));
        before.zip(last).is_some_and(|(before, last)| {
            let difference = before.abs_diff(last) as f64;
            difference <= self.tolerance * before.min(last) as f64
        })
    }
}

/// The upper of the two middle ones where their number is even; `None` of nothing.
fn median(values: &mut [u64]) -> Option<u64> {
    let middle = values.len() / 2;
    (!values.is_empty()).then(|| *values.select_nth_unstable(middle).1)
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, thread};

    use schema::OutcomeKind;

    use super::*;
    use crate::ParityData;

    /// Counts its steps, and fails at one of them.
    #[derive(Default)]
    struct Counter {
        steps: u64,
        fails_at: u64,
        pause: Duration,
    }

    impl Session for Counter {
        fn step(&mut self) -> Result<(), Outcome> {
            self.steps += 1;
            thread::sleep(self.pause);
            if self.steps == self.fails_at {
                return Err(Outcome::new(OutcomeKind::OutOfMemory, "full"));
            }
            Ok(())
        }

        fn parity(&mut self, _: u32) -> Result<ParityData, Outcome> {
            Ok(ParityData::default())
        }

        fn reset(&mut self) -> Result<(), Outcome> {
            Ok(())
        }

        fn device_memory(&mut self) -> Option<(u64, u64)> {
            None
        }
    }

    /// Its steps are told by a device, or by nobody.
    struct OnDevice {
        steps: Counter,
        told: fn(u64) -> Result<u64, Outcome>,
    }

    impl OnDevice {
        fn new(pause: Duration, told: fn(u64) -> Result<u64, Outcome>) -> Self {
            let steps = Counter {
                pause,
                ..Counter::default()
            };
            Self { steps, told }
        }
    }

    impl Session for OnDevice {
        fn step(&mut self) -> Result<(), Outcome> {
            self.steps.step()
        }

        fn device_ns(&mut self) -> Result<Option<u64>, Outcome> {
            (self.told)(self.steps.steps).map(Some)
        }

        fn parity(&mut self, steps: u32) -> Result<ParityData, Outcome> {
            self.steps.parity(steps)
        }

        fn reset(&mut self) -> Result<(), Outcome> {
            self.steps.reset()
        }

        fn device_memory(&mut self) -> Option<(u64, u64)> {
            self.steps.device_memory()
        }
    }

    /// What runs the steps of a process that is alone.
    fn alone(session: &mut dyn Session) -> Run<'_> {
        Run {
            session,
            crew: None,
        }
    }

    fn limits(discard: u64, min_steps: u64, min_ns: u64, max_steps: u64) -> Measure {
        Measure {
            discard,
            min_steps,
            min_ns,
            max_steps,
        }
    }

    #[test]
    fn both_minima_or_the_maximum_end_a_measurement() {
        let mut session = Counter::default();
        let mut count = |limits: Measure| {
            let samples = measure(&mut alone(&mut session), &limits, || false).unwrap();
            assert!(!samples.cancelled && !samples.samples_ns.contains(&0));
            samples.samples_ns.len()
        };
        assert_eq!(count(limits(2, 5, 0, 100)), 5);
        assert_eq!(count(limits(0, 5, u64::MAX, 7)), 7);
        assert_eq!(count(limits(0, 9, 0, 7)), 7);
        assert_eq!(count(limits(0, 0, 0, 7)), 0);
        assert_eq!(session.steps, 2 + 5 + 7 + 7);
    }

    #[test]
    fn time_is_the_sum_of_the_samples() {
        let mut session = Counter {
            pause: Duration::from_millis(2),
            ..Counter::default()
        };
        let samples = measure(
            &mut alone(&mut session),
            &limits(0, 1, 5_000_000, 1000),
            || false,
        )
        .unwrap();
        let (last, before) = samples.samples_ns.split_last().unwrap();
        let before: u64 = before.iter().sum();
        assert!(before < 5_000_000 && before + last >= 5_000_000);
    }

    #[test]
    fn samples_are_the_devices_own_and_limits_the_hosts() {
        const PAUSE: Duration = Duration::from_millis(2);
        // Discarded steps are none of the samples; a step of no duration has no logarithm.
        let mut session = OnDevice::new(PAUSE, |step| Ok(step - 3));
        let samples = measure(&mut alone(&mut session), &limits(2, 3, 0, 100), || false).unwrap();
        assert_eq!(samples.samples_ns, [1, 1, 2]);
        // By the device's clock ten milliseconds would take ten million of these.
        let mut session = OnDevice::new(PAUSE, |_| Ok(1));
        let samples = measure(
            &mut alone(&mut session),
            &limits(0, 1, 10_000_000, 1000),
            || false,
        )
        .unwrap();
        assert!((1..=5).contains(&samples.samples_ns.len()), "{samples:?}");
        assert!(samples.samples_ns.iter().all(|&sample_ns| sample_ns == 1));
        // A device that says more than went by keeps no round short either.
        let mut session = OnDevice::new(PAUSE, |_| Ok(u64::MAX));
        let samples = measure(
            &mut alone(&mut session),
            &limits(0, 1, 10_000_000, 4),
            || false,
        )
        .unwrap();
        assert_eq!(samples.samples_ns, [u64::MAX; 4]);
    }

    #[test]
    fn a_device_that_does_not_tell_fails_the_request() {
        let lost = |step| match step {
            2 => Err(Outcome::new(OutcomeKind::Crashed, "no event")),
            _ => Ok(5),
        };
        let mut session = OnDevice::new(Duration::ZERO, lost);
        let error = measure(&mut alone(&mut session), &limits(0, 9, 0, 9), || false).unwrap_err();
        assert_eq!(
            (error.reason.as_str(), session.steps.steps),
            ("no event", 2)
        );
        let mut session = OnDevice::new(Duration::ZERO, lost);
        let patient = WarmUp {
            min_steps: 9,
            max_ns: u64::MAX,
            tolerance: 0.1,
        };
        assert!(warm_up(&mut alone(&mut session), &patient, || false).is_err());
        // It is not asked after steps that are not timed.
        let mut session = OnDevice::new(Duration::ZERO, lost);
        assert!(measure(&mut alone(&mut session), &limits(2, 1, 0, 1), || false).is_ok());
    }

    #[test]
    fn a_warm_up_is_over_by_the_hosts_clock() {
        const LIMIT: Duration = Duration::from_millis(40);
        // Never steady, and never as long as a window by the device's clock.
        let mut session = OnDevice::new(Duration::from_millis(2), |step| Ok(1 << (step % 20)));
        let limits = WarmUp {
            min_steps: 2,
            max_ns: nanoseconds(LIMIT),
            tolerance: 0.0,
        };
        let start = Instant::now();
        let done = warm_up(&mut alone(&mut session), &limits, || false).unwrap();
        assert!(u128::from(done.total_ns) <= start.elapsed().as_nanos());
        assert!(done.total_ns >= limits.max_ns);
        assert!(done.steps <= PATIENCE * 20 + 1, "{done:?}");
    }

    #[test]
    fn steady_is_said_of_samples_and_windows_last_by_the_hosts_clock() {
        const STEP_NS: u64 = 10_000_000;
        let mut windows = Windows::new(0.1, 0);
        let mut window = |sample_ns: u64, step_ns: u64| {
            (0..WINDOW_STEPS).for_each(|_| windows.push(sample_ns, step_ns));
            windows.steady()
        };
        assert!(!window(100, STEP_NS));
        assert!(
            window(100, STEP_NS * 2),
            "launching took longer, and no more"
        );
        assert!(!window(200, STEP_NS * 2));
    }

    #[test]
    fn a_cancel_is_heard_between_steps() {
        let mut session = Counter::default();
        let looks = Cell::new(0);
        let third = || looks.replace(looks.get() + 1) >= 3;
        let samples = measure(&mut alone(&mut session), &limits(0, 9, 0, 9), third).unwrap();
        assert!(samples.cancelled);
        assert_eq!(samples.samples_ns.len(), 3);
        let samples = measure(&mut alone(&mut session), &limits(9, 9, 0, 9), || true).unwrap();
        assert!(samples.cancelled && samples.samples_ns.is_empty());
        assert_eq!(session.steps, 3);
    }

    #[test]
    fn a_failing_step_fails_the_request() {
        for discard in [0, 3] {
            let mut session = Counter {
                fails_at: 2,
                ..Counter::default()
            };
            let error = measure(&mut alone(&mut session), &limits(discard, 9, 0, 9), || {
                false
            })
            .unwrap_err();
            assert_eq!(error.reason, "full");
        }
    }

    #[test]
    fn a_warm_up_keeps_to_its_limits() {
        let mut session = Counter::default();
        let limits = WarmUp {
            min_steps: 12,
            max_ns: 0,
            tolerance: 0.0,
        };
        let done = warm_up(&mut alone(&mut session), &limits, || false).unwrap();
        assert_eq!((done.steps, done.steady), (12, false));
        let done = warm_up(&mut alone(&mut session), &limits, || true).unwrap();
        assert_eq!((done.steps, session.steps), (0, 12));
    }

    #[test]
    fn steady_is_what_the_last_two_windows_agree_on() {
        const SLOW_NS: u64 = 10_000_000;
        let mut windows = Windows::new(0.1, 0);
        let mut window = |sample_ns: u64| {
            (0..WINDOW_STEPS).for_each(|_| windows.push(sample_ns, sample_ns));
            windows.steady()
        };
        assert!(!window(SLOW_NS), "one window has nothing to agree with");
        assert!(window(SLOW_NS * 11 / 10), "a tenth is within the tolerance");
        assert!(!window(SLOW_NS * 2));
        assert!(window(SLOW_NS * 2));
        assert!(!window(SLOW_NS), "faster is as unsteady as slower");
    }

    /// After so many nanoseconds of steps that fall from `1 + excess` times their length to it, with this time
    /// constant, what is still too much; `None` where they never are steady in ten seconds.
    fn excess_when_steady(base_ns: f64, excess: f64, constant_ns: f64) -> Option<f64> {
        let mut windows = Windows::new(0.02, 10_000_000_000);
        let mut now_ns = 0.0;
        while now_ns < 1e10 {
            let left = excess * (-now_ns / constant_ns).exp();
            let sample_ns = base_ns * (1.0 + left);
            now_ns += sample_ns;
            windows.push(sample_ns as u64, sample_ns as u64);
            if windows.steady() {
                return Some(left);
            }
        }
        None
    }

    #[test]
    fn a_slow_drift_is_no_steady_step() {
        // Two windows that follow each other differ by a hundredth or two from the beginning.
        let drifts = [
            (5e6, 0.5, 2e9),
            (5e6, 0.2, 1e9),
            (1e6, 0.5, 1e9),
            (20e6, 0.3, 2e9),
        ];
        for (base_ns, excess, constant_ns) in drifts {
            let left = excess_when_steady(base_ns, excess, constant_ns);
            assert!(
                left.is_none_or(|left| left < 0.01),
                "{base_ns} {excess} {constant_ns}: {left:?}"
            );
        }
        // What falls at once is steady at once, and what never falls too.
        assert!(excess_when_steady(5e6, 2.0, 5e7).is_some_and(|left| left < 1e-6));
        assert_eq!(excess_when_steady(5e6, 0.0, 1e9), Some(0.0));
    }

    #[test]
    fn a_moment_is_not_called_steady() {
        let mut windows = Windows::new(0.1, 4_000_000_000);
        (0..99).for_each(|_| windows.push(10_000_000, 10_000_000));
        assert!(!windows.steady() && windows.two());
        windows.push(10_000_000, 10_000_000);
        assert!(windows.steady(), "a second was covered");
        // Half of the limit, where that is less.
        let mut windows = Windows::new(0.1, 400_000_000);
        (0..19).for_each(|_| windows.push(10_000_000, 10_000_000));
        assert!(!windows.steady());
        windows.push(10_000_000, 10_000_000);
        assert!(windows.steady());
    }

    #[test]
    fn a_window_is_neither_a_moment_nor_an_age() {
        let mut windows = Windows::new(0.1, 0);
        (0..2 * WINDOW_MAX_STEPS - 1).for_each(|_| windows.push(20, 20));
        assert!(!windows.steady());
        windows.push(20, 20);
        assert!(windows.steady());
        // No tolerance makes sense of what is not a number: nothing is steady then.
        let mut windows = Windows::new(f64::NAN, 0);
        (0..2 * WINDOW_MAX_STEPS).for_each(|_| windows.push(20, 20));
        assert!(!windows.steady());
    }
}
