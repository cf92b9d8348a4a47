//! How far apart this machine puts work that is the same, without any engine, whose noise comes on top.
//!
//! Two kinds of work, copying memory and multiplying matrices, run on all cores. Each is measured as two
//! cells of a comparison that are identical would be: in blocks, both sides in each, in random order, with
//! memory of their own every time. Six blocks make a comparison, and all comparisons together a floor, by
//! the rule of every run ([`Twins`]).

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

use rand::{SeedableRng as _, seq::SliceRandom as _};
use rand_chacha::ChaCha8Rng;
use schema::{Boundary, plan::VERDICT_BLOCKS};
use statistics::{
    noise::{Noise, Twins},
    pair, percentile,
    samples::Steps,
};
use worker::nanoseconds;

use crate::canary;

/// How long each side works in a block.
const TURN: Duration = Duration::from_millis(100);
/// What each thread copies in a step, where there is as much memory.
const COPIED_BYTES: u64 = 16 << 20;
/// Confidence of the ratio between both sides.
const CONFIDENCE: f64 = 0.95;

/// A kind of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Work {
    Copy,
    Multiply,
}

/// What identical work of a kind came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Identical {
    /// The work, in words.
    pub what: &'static str,
    /// How far apart.
    pub noise: Noise,
    /// Comparisons of six blocks that were made.
    pub comparisons: u32,
}

/// Measures identical work on so many threads for about this time, one comparison at least; by one stretch a side and
/// block, so that on a machine whose speed comes and goes pairs of rounds may differ by less. `go_on` is
/// asked after each turn, with the share of the time that is over, whether to: `None` where it says no.
pub fn identical(
    time: Duration,
    threads: u32,
    go_on: &mut dyn FnMut(f64) -> bool,
) -> Option<Vec<Identical>> {
    let mut random = ChaCha8Rng::seed_from_u64(0);
    let mut all: BTreeMap<Work, (Twins, u32)> = BTreeMap::new();
    // Once for all: both sides are to do the same.
    let free = telemetry::load().available_memory_bytes;
    let bytes = COPIED_BYTES.min(free / 8 / u64::from(threads.max(1)));
    let began = Instant::now();
    'comparisons: loop {
        let mut sides: BTreeMap<Work, [BTreeMap<u32, Steps>; 2]> = BTreeMap::new();
        for block in 0..VERDICT_BLOCKS {
            let mut turns = [
                (Work::Copy, 0),
                (Work::Copy, 1),
                (Work::Multiply, 0),
                (Work::Multiply, 1),
            ];
            turns.shuffle(&mut random);
            for (work, side) in turns {
                if began.elapsed() >= time && !all.is_empty() {
                    break 'comparisons;
                }
                let steps = sides.entry(work).or_default().get_mut(side);
                if let Some((steps, step_ns)) = steps.zip(work.step_ns(threads, bytes.max(1 << 20)))
                {
                    steps.insert(block, step_ns.into());
                }
                if !go_on((began.elapsed().as_secs_f64() / time.as_secs_f64()).min(1.0)) {
                    return None;
                }
            }
        }
        for (work, [one, other]) in sides {
            let (twins, comparisons) = all.entry(work).or_default();
            twins.add(&pair::shared(&one, &other, Boundary::Step));
            *comparisons += 1;
        }
    }
    let found = all
        .into_iter()
        .map(|(work, (twins, comparisons))| Identical {
            what: work.words(),
            noise: twins.noise(CONFIDENCE),
            comparisons,
        });
    Some(found.collect())
}

impl Work {
    const fn words(self) -> &'static str {
        match self {
            Self::Copy => "copying memory",
            Self::Multiply => "multiplying matrices",
        }
    }

    /// The median step of all threads, which begin together and copy so many bytes each, in nanoseconds;
    /// `None` where none could be started.
    fn step_ns(self, threads: u32, bytes: u64) -> Option<f64> {
        let (ready, begin) = (AtomicU32::new(0), AtomicBool::new(false));
        let mut samples: Vec<u64> = thread::scope(|scope| {
            let work = || {
                let mut step = self.step(bytes as usize);
                ready.fetch_add(1, Ordering::AcqRel);
                while !begin.load(Ordering::Acquire) {
                    thread::yield_now();
                }
                steps(&mut step)
            };
            let workers =
                (0..threads.max(1)).map(|_| thread::Builder::new().spawn_scoped(scope, work));
            let workers: Vec<_> = workers.filter_map(Result::ok).collect();
            while (ready.load(Ordering::Acquire) as usize) < workers.len() {
                thread::yield_now();
            }
            begin.store(true, Ordering::Release);
            let done = workers.into_iter().filter_map(|worker| worker.join().ok());
            done.flatten().collect()
        });
        samples.sort_unstable();
        percentile::median(&samples)
    }

    fn step(self, bytes: usize) -> Box<dyn FnMut()> {
        match self {
            Self::Copy => Box::new(canary::copier(bytes)),
            Self::Multiply => Box::new(canary::multiplier()),
        }
    }
}

/// Times of a step, the first left out, until the time is over.
fn steps(step: &mut dyn FnMut()) -> Vec<u64> {
    step();
    let began = Instant::now();
    let mut samples = Vec::new();
    while samples.is_empty() || began.elapsed() < TURN {
        let start = Instant::now();
        step();
        samples.push(nanoseconds(start.elapsed()));
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identical_work_has_a_floor() {
        let mut told = Vec::new();
        let found = identical(Duration::from_millis(10), 1, &mut |share| {
            told.push(share);
            true
        });
        let found = found.unwrap();
        let words: Vec<&str> = found.iter().map(|work| work.what).collect();
        assert_eq!(words, ["copying memory", "multiplying matrices"]);
        for work in &found {
            // One comparison, since a single one takes longer than the time.
            assert_eq!(work.comparisons, 1);
            assert!(
                work.noise.floor.is_some_and(|floor| floor > 0.0),
                "{work:?}"
            );
            assert_eq!(work.noise.ratio.unwrap().blocks, VERDICT_BLOCKS);
        }
        assert_eq!(told.len(), 4 * VERDICT_BLOCKS as usize);
        assert_eq!(told.last(), Some(&1.0));
    }

    #[test]
    fn it_ends_where_it_is_told() {
        let mut turns = 0;
        let found = identical(Duration::from_secs(3600), 2, &mut |_| {
            turns += 1;
            turns < 2
        });
        assert_eq!((found, turns), (None, 2));
    }
}
