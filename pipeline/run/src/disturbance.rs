//! What came from outside while a block was measured.

use std::{
    collections::BTreeMap,
    thread,
    time::{Duration, Instant},
};

use nix::sys::{
    resource::{UsageWho, getrusage},
    time::TimeValLike as _,
};
use schema::{
    Outcome, OutcomeKind, machine::Load, plan::Disturbance, printed::percent, record::Block,
};
use telemetry::Times;
use worker::{
    census::{self, Census},
    nanoseconds,
};

use crate::clock::own_cpu_ns;

/// The share of the processors' time above which a machine is busy before measuring begins: the kernel
/// counts in hundredths of a second, and the look is short.
const BUSY: f64 = 0.1;

/// Of more processors than this, others may take no more than of so many: on a machine of many, one program
/// that keeps a whole processor busy is next to nothing of all their time, and may be in the way of every step.
const MOST_PROCESSORS: f64 = 8.0;

/// But so much of all at least, which is what a large machine does by itself, and what its two ways of counting
/// time may be apart.
const LEAST_FOREIGN: f64 = 0.005;

/// Rounds of a block that took less together are judged with the block alone: the kernel counts in hundredths
/// of a second, and each round may be off by two of them on every processor.
const LEAST_ROUNDS: Duration = Duration::from_secs(1);

/// Keeps watch over a block.
pub(crate) struct Watch {
    began: Instant,
    census: Census,
    clocks: BTreeMap<&'static str, String>,
    /// Processor time of ours by then, and of workers that have left.
    ours_ns: u64,
}

/// What the machine did in some time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Seen {
    elapsed: Duration,
    /// Processor time of all processes, and of those that are ours.
    busy_ns: u64,
    ours_ns: u64,
    /// What the hypervisor took.
    steal_ns: u64,
}

impl Watch {
    pub(crate) fn begin() -> Self {
        Self {
            census: Census::take(),
            clocks: telemetry::clock_settings(),
            began: Instant::now(),
            ours_ns: ours_ns(),
        }
    }

    /// Why a block cannot be believed, all of whose workers have left; `None` where it can.
    pub(crate) fn end(&self, limits: &Disturbance, before: &Load, after: &Load) -> Option<String> {
        // What the kernel does not tell is too much for nobody: [`unseen`] says so.
        let since = |told: fn(&Load) -> Option<u64>| {
            let both = told(before).zip(told(after));
            both.map_or(0, |(before, after)| after.saturating_sub(before))
        };
        let seen = Seen {
            elapsed: self.began.elapsed(),
            busy_ns: since(|load| load.busy_ns),
            ours_ns: ours_ns().saturating_sub(self.ours_ns),
            steal_ns: since(|load| load.steal_ns),
        };
        let others = || Census::take().others_since(&self.census);
        seen.too_much(limits, telemetry::processors(), others)
            .or_else(|| changed(&self.clocks, &telemetry::clock_settings()))
    }
}

impl Seen {
    /// Some time more, between these two looks at the machine, in which ours took so much.
    pub(crate) fn add(&mut self, took_ns: u64, before: Times, after: Times, ours_ns: u64) {
        self.elapsed += Duration::from_nanos(took_ns);
        self.busy_ns += after.busy_ns.saturating_sub(before.busy_ns);
        self.steal_ns += after.steal_ns.saturating_sub(before.steal_ns);
        self.ours_ns += ours_ns;
    }

    /// Why rounds cannot be believed that ran in this time, where it is long enough for the kernel's ticks to
    /// tell: what happens in the midst of them alone is little of their block.
    pub(crate) fn disturbed(&self, limits: &Disturbance) -> Option<String> {
        if self.elapsed < LEAST_ROUNDS {
            return None;
        }
        let told = self.too_much(limits, telemetry::processors(), Vec::new)?;
        Some(format!("while rounds ran, {told}"))
    }

    /// By the time of so many processors: all that the kernel has, those among them that this process may
    /// not use, since its counters are of all. `others` are asked for only where it is too much: the busiest
    /// first.
    fn too_much(
        &self,
        limits: &Disturbance,
        processors: u32,
        others: impl FnOnce() -> Vec<census::Other>,
    ) -> Option<String> {
        let elapsed_ns = (nanoseconds(self.elapsed) as f64).max(1.0);
        let processors = f64::from(processors.max(1));
        let share = |ns: u64| ns as f64 / elapsed_ns / processors;
        let foreign = limits.foreign * (MOST_PROCESSORS / processors).min(1.0);
        let foreign = foreign.max(LEAST_FOREIGN.min(limits.foreign));
        let foreign_ns = self.busy_ns.saturating_sub(self.ours_ns);
        let told = |who: &str, ns: u64, most: f64| {
            let (share, most) = (rounded_percent(share(ns)), percent(most));
            format!("{who} took {share} of the processors' time, more than {most}")
        };
        if share(foreign_ns) > foreign {
            let mostly = census::mostly(&others(), foreign_ns);
            let told = told("other processes", foreign_ns, foreign);
            return Some(format!("{told}{mostly}"));
        }
        (share(self.steal_ns) > limits.steal)
            .then(|| told("the hypervisor", self.steal_ns, limits.steal))
    }
}

/// That nobody sees what disturbs blocks on a machine whose kernel tells so little of its processors; `None` where it
/// tells enough.
pub(crate) fn unseen(told: Option<Times>) -> Option<&'static str> {
    told.is_none().then_some(
        "the kernel does not tell what the processors do (/proc/stat): what other processes or a hypervisor take \
         cannot be seen here, and no block is measured again for that",
    )
}

/// What somebody has set otherwise meanwhile, of what decides the processors' clock.
fn changed(
    before: &BTreeMap<&'static str, String>,
    after: &BTreeMap<&'static str, String>,
) -> Option<String> {
    before.iter().find_map(|(name, before)| {
        let after = after.get(name).filter(|after| *after != before)?;
        Some(format!(
            "somebody set the processors' {name} from {before} to {after}"
        ))
    })
}

/// What keeps the machine busy right now, looked at for so long; `None` where nothing does. It is asked
/// before measuring begins: a build that has just ended is over by then.
#[must_use]
pub fn look_around(time: Duration) -> Option<String> {
    let limits = Disturbance {
        foreign: BUSY,
        steal: BUSY,
        repeats: 0,
    };
    let watch = Watch::begin();
    let before = telemetry::load();
    thread::sleep(time);
    watch.end(&limits, &before, &telemetry::load())
}

/// Processor time of this process and of all that it has waited for.
fn ours_ns() -> u64 {
    own_cpu_ns().saturating_add(children_ns())
}

/// Of workers and what they left behind.
fn children_ns() -> u64 {
    getrusage(UsageWho::RUSAGE_CHILDREN).map_or(0, |usage| {
        let times = [usage.user_time(), usage.system_time()];
        let microseconds = times.map(|time| u64::try_from(time.num_microseconds()).unwrap_or(0));
        microseconds.iter().sum::<u64>().saturating_mul(1000)
    })
}

/// Marks the launches of a disturbed block: what was measured in it, and what failed in a way that others may be
/// the cause of, who take memory and time. That is launched again; how it failed stays in its reason.
pub(crate) fn mark(block: &mut Block) {
    let Some(disturbed) = &block.disturbed else {
        return;
    };
    for launch in &mut block.launches {
        let reason = match launch.outcome.kind {
            OutcomeKind::Measured => disturbed.clone(),
            OutcomeKind::OutOfMemory | OutcomeKind::TimedOut | OutcomeKind::Crashed => {
                // Of steps until then nobody knows what they are worth.
                launch.rounds.clear();
                let Outcome { kind, reason: how } = &launch.outcome;
                format!("{disturbed}; meanwhile the launch ended as {kind}: {how}")
            }
            _ => continue,
        };
        launch.outcome = Outcome::new(OutcomeKind::Unstable, reason);
    }
}

/// A share in per cent, to a tenth of one.
pub(crate) fn rounded_percent(share: f64) -> String {
    percent((share * 1e3).round() / 1e3)
}

#[cfg(test)]
mod tests {
    use schema::record::Launch;

    use super::*;
    use crate::sample::{LIMITS, block};

    fn said(busy_ms: u64, ours_ms: u64, steal_ms: u64, other_ms: u64) -> Option<String> {
        said_of(2, busy_ms, ours_ms, steal_ms, other_ms)
    }

    fn said_of(
        processors: u32,
        busy_ms: u64,
        ours_ms: u64,
        steal_ms: u64,
        other_ms: u64,
    ) -> Option<String> {
        let seen = Seen {
            elapsed: Duration::from_secs(10),
            busy_ns: busy_ms * 1_000_000,
            ours_ns: ours_ms * 1_000_000,
            steal_ns: steal_ms * 1_000_000,
        };
        let other = census::Other {
            name: "`cc1plus`".to_owned(),
            cpu_ns: other_ms * 1_000_000,
        };
        seen.too_much(&LIMITS, processors, || vec![other])
    }

    #[test]
    fn others_and_the_hypervisor_have_limits() {
        assert_eq!(said(18_000, 17_100, 300, 900), None);
        // Ticks are coarser than our own clock.
        assert_eq!(said(16_990, 17_000, 0, 0), None);
        let others = "other processes took 22.5 % of the processors' time, more than 5 %";
        assert_eq!(said(18_500, 14_000, 0, 2_000).as_deref(), Some(others));
        let named = format!("{others}, most of it `cc1plus`");
        assert_eq!(said(18_500, 14_000, 0, 4_000), Some(named));
        let taken = "the hypervisor took 3.5 % of the processors' time, more than 2 %";
        assert_eq!(said(17_000, 17_000, 700, 0).as_deref(), Some(taken));
    }

    #[test]
    fn what_happens_in_the_midst_of_rounds_is_held_against_their_time() {
        let mut rounds = Seen::default();
        let mut at = Times::default();
        let processors = u64::from(telemetry::processors().max(1));
        let mut round = |rounds: &mut Seen, foreign_ms: u64| {
            let before = at;
            // A round of half a second in which ours keeps all processors busy, but for what others take.
            at.busy_ns += processors * 500_000_000;
            let ours_ns = processors * 500_000_000 - foreign_ms * 1_000_000;
            rounds.add(500_000_000, before, at, ours_ns);
        };
        round(&mut rounds, 400);
        assert_eq!(rounds.disturbed(&LIMITS), None, "too short to tell");
        round(&mut rounds, 0);
        let said = rounds.disturbed(&LIMITS).expect("too much");
        assert!(
            said.starts_with("while rounds ran, other processes took"),
            "{said}"
        );
        for _ in 0..40 {
            round(&mut rounds, 0);
        }
        assert_eq!(rounds.disturbed(&LIMITS), None);
    }

    #[test]
    fn a_kernel_that_tells_nothing_of_its_processors_is_said_to_once() {
        assert_eq!(unseen(Some(Times::default())), None);
        let said = unseen(None).expect("a note");
        assert!(said.contains("/proc/stat"), "{said}");
        // Nothing is made up instead: neither a quiet machine nor a disturbed one.
        let mut blocks = [block(0, &[1]), block(1, &[1])];
        blocks[0].load_before.busy_ns = None;
        blocks[1].load_before.steal_ns = None;
        blocks[1].load_after.steal_ns = Some(u64::MAX);
        blocks[0].load_after.busy_ns = Some(u64::MAX);
        for block in &blocks {
            let watch = Watch::begin();
            let said = watch.end(&LIMITS, &block.load_before, &block.load_after);
            assert_eq!(said, None);
        }
    }

    #[test]
    fn how_a_launch_failed_in_a_disturbed_block_stays_in_its_reason() {
        use OutcomeKind::{Measured, OutOfMemory, Unstable, Unsupported};

        let mut block = block(0, &[1]);
        let kinds = [Measured, OutOfMemory, Unsupported];
        let launch = block.launches[0].clone();
        block.launches = kinds
            .map(|kind| Launch {
                outcome: Outcome::new(kind, "so it ended"),
                ..launch.clone()
            })
            .into();
        mark(&mut block);
        assert_eq!(block.launches[0].outcome.kind, Measured, "nobody was there");
        block.disturbed = Some("others were there".to_owned());
        mark(&mut block);
        let told: Vec<_> = block
            .launches
            .iter()
            .map(|it| (it.outcome.kind, it.outcome.reason.as_str()))
            .collect();
        let both = "others were there; meanwhile the launch ended as out_of_memory: so it ended";
        assert_eq!(
            told,
            [
                (Unstable, "others were there"),
                (Unstable, both),
                (Unsupported, "so it ended")
            ]
        );
        assert!(block.launches[1].rounds.is_empty());
    }

    #[test]
    fn one_busy_processor_of_many_is_much() {
        let others = "other processes took 1.6 % of the processors' time, more than 0.625 %";
        assert_eq!(said_of(64, 600_000, 590_000, 0, 0).as_deref(), Some(others));
        assert_eq!(said_of(64, 594_000, 590_000, 0, 0), None);
        // A large machine has something to do by itself; a hypervisor takes from all alike.
        assert_eq!(said_of(200, 1_809_000, 1_800_000, 30_000, 0), None);
        assert!(said_of(200, 1_811_000, 1_800_000, 0, 0).is_some());
        let others = "other processes took 12.5 % of the processors' time, more than 5 %";
        assert_eq!(said_of(8, 60_000, 50_000, 0, 0).as_deref(), Some(others));
    }

    #[test]
    fn clocks_are_not_to_be_set_meanwhile() {
        let set = |governor: &str| BTreeMap::from([("frequency governor", governor.to_owned())]);
        let before = set("performance");
        assert_eq!(changed(&before, &before), None);
        let said = "somebody set the processors' frequency governor from performance to powersave";
        assert_eq!(changed(&before, &set("powersave")).as_deref(), Some(said));
        // What the kernel does not tell has not changed.
        assert_eq!(changed(&before, &BTreeMap::new()), None);
    }

    #[test]
    fn what_we_and_our_workers_use_is_ours() {
        let before_ns = children_ns();
        let mut child = std::process::Command::new("sh")
            .args(["-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"])
            .spawn()
            .expect("a shell");
        child.wait().expect("its end");
        assert!(children_ns() > before_ns);
    }
}
