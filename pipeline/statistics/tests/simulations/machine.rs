//! A machine that is made up: what it does to the step times of two cells, in the ways that were seen
//! on real ones.

use photofinish_statistics::samples::Steps;
use rand::{Rng, RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use crate::median;

/// Seconds that starting and warming up a worker takes, and that a step does.
const LAUNCH_S: f64 = 1.5;
const STEP_S: f64 = 0.015;

/// A step of a baseline on a machine that nobody slows down, in nanoseconds.
const STEP_NS: f64 = 1e9 * STEP_S;

/// Rounds of a cell in a block, unless a manifest says otherwise.
pub(crate) const ROUNDS: u32 = 6;

/// Steps of a cell in a block, or a few less: rounds have equally many. Six rounds have six each, close to the tenth
/// of a second that a round lasts unless a manifest says otherwise.
const STEPS: usize = 40;

/// Steps that each cell discards before a round.
const DISCARDED: usize = 2;

/// Cells that take turns with both: a twin of each.
const OTHERS: usize = 2;

/// How step times scatter, in logarithms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Law {
    Independent,
    Drifting,
    HeavyTailed,
    Autocorrelated,
    Bimodal,
    OneSided,
    Moods,
    /// Of which no single interval of few blocks holds the mean as often as it promises.
    Seldom,
    /// Which others slow down, both cells alike, for a moment and again.
    Neighbours,
    /// On which one engine alone is slow for a moment and again.
    Fits,
}

impl Law {
    pub(crate) const ALL: [Self; 9] = [
        Self::Independent,
        Self::Drifting,
        Self::HeavyTailed,
        Self::Autocorrelated,
        Self::Bimodal,
        Self::OneSided,
        Self::Moods,
        Self::Neighbours,
        Self::Fits,
    ];

    /// In words.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Independent => "each step by itself, 2 %",
            Self::Drifting => {
                "each step by itself, 2 %, on a machine that slows down by 15 % while it warms up"
            }
            Self::HeavyTailed => {
                "heavy tails: Student's t of 3 degrees of freedom, 2 %, and each launch by 1 %"
            }
            Self::Autocorrelated => "each step resembles the one before it (correlation 0.98), 3 %",
            Self::Bimodal => "two humps: every other launch, by chance, is slower by 6 %",
            Self::OneSided => {
                "two humps of one engine: every other launch of it, by chance, is slower by 6 %"
            }
            Self::Seldom => {
                "two humps of one engine: one launch of it in five, by chance, is slower by 6 %"
            }
            Self::Moods => {
                "two moods of half a minute each: in one of them one engine is slower by 50 %, the other by 3 %"
            }
            Self::Neighbours => {
                "two moods of a fifth of a second each, in one of which everything is slower by 50 %"
            }
            Self::Fits => {
                "two moods of a fifth of a second each, in one of which one engine alone is slower by 50 %"
            }
        }
    }

    /// What the logarithm of contender ÷ baseline is in the long run, were both equally fast.
    pub(crate) fn bias(self) -> f64 {
        match self {
            Self::OneSided => HUMP / 2.0,
            Self::Seldom => HUMP * SELDOM,
            Self::Moods => libm::log(MOOD[1] / MOOD[0]) / 2.0,
            Self::Fits => libm::log(BUSY) / 2.0,
            _ => 0.0,
        }
    }

    /// What the logarithm of the baseline's step time is in the long run.
    pub(crate) fn level(self) -> f64 {
        match self {
            Self::Drifting => SLOWDOWN,
            Self::Bimodal => HUMP / 2.0,
            Self::Moods => libm::log(MOOD[0]) / 2.0,
            Self::Neighbours => libm::log(BUSY) / 2.0,
            Self::Independent
            | Self::HeavyTailed
            | Self::Autocorrelated
            | Self::OneSided
            | Self::Seldom
            | Self::Fits => 0.0,
        }
    }

    /// Mean time that a mood lasts, in seconds.
    pub(crate) const fn mood_s(self) -> f64 {
        match self {
            Self::Neighbours | Self::Fits => BUSY_S,
            _ => MOOD_S,
        }
    }
}

/// By how much a machine is slower once it is warm, and a launch in the slow hump.
const SLOWDOWN: f64 = 0.15;
const HUMP: f64 = 0.06;
/// The share of launches that are in it where that is rare.
const SELDOM: f64 = 0.2;

/// Mean time that a mood lasts, in seconds, where nothing else is said.
pub(crate) const MOOD_S: f64 = 30.0;

/// What a mood costs the baseline and the contender.
const MOOD: [f64; 2] = [1.03, 1.5];

/// What neighbours cost both, or one engine, and for how long on average, in seconds.
const BUSY: f64 = 1.5;
const BUSY_S: f64 = 0.2;

/// A machine that measures two cells.
pub(crate) struct Machine {
    law: Law,
    /// What each cell is: 0 a baseline, 1 a contender.
    kinds: [usize; 2],
    between_s: f64,
    /// Rounds of a cell in a block, which share its steps.
    rounds: u32,
    random: ChaCha8Rng,
    now_s: f64,
    /// Whether it is in its slow mood, and until when.
    is_slow: bool,
    until_s: f64,
    /// Mean time that a mood lasts, in seconds.
    mood_s: f64,
    /// What a launch of each cell is slower by, and its last step.
    launch: [f64; 2],
    last: [f64; 2],
}

/// Both cells in a block.
pub(crate) struct Block {
    /// Logarithms of their step times.
    pub(crate) logs: [Vec<f64>; 2],
    /// What is kept of them.
    pub(crate) steps: [Steps; 2],
}

/// What is kept of a cell in a block, by the logarithms of its step times.
fn kept(logs: &[f64], rounds: u32) -> Steps {
    let median_ns = |logs: &[f64]| STEP_NS * libm::exp(median(logs));
    Steps {
        step_ns: median_ns(logs),
        rounds_ns: logs
            .chunks_exact(logs.len() / rounds as usize)
            .map(median_ns)
            .collect(),
    }
}

/// By which factor it takes longer than a baseline on a machine that nobody slows down, as a logarithm.
pub(crate) fn log_of(steps: &Steps) -> f64 {
    libm::log(steps.step_ns / STEP_NS)
}

impl Machine {
    pub(crate) fn new(law: Law, between_s: f64, seed: u64) -> Self {
        Self::of_kinds([0, 1], law, between_s, seed)
    }

    /// One whose cells are of these kinds: twins where both are the same.
    pub(crate) fn of_kinds(kinds: [usize; 2], law: Law, between_s: f64, seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let is_slow = random.random::<bool>();
        let until_s = law.mood_s() * exponential(&mut random);
        let last = [normal(&mut random), normal(&mut random)];
        Self {
            law,
            kinds,
            between_s,
            rounds: ROUNDS,
            random,
            now_s: 0.0,
            is_slow,
            until_s,
            mood_s: law.mood_s(),
            launch: [0.0; 2],
            last,
        }
    }

    /// The same with moods that last so long on average.
    pub(crate) fn with_moods_of(mut self, mood_s: f64) -> Self {
        self.until_s *= mood_s / self.mood_s;
        self.mood_s = mood_s;
        self
    }

    /// The same with the steps of a block in so many rounds.
    pub(crate) fn with_rounds(mut self, rounds: u32) -> Self {
        self.rounds = rounds;
        self
    }

    /// Both cells launched, their rounds interleaved with each other's and those of their twins. The contender takes
    /// `ratio` of the baseline's time.
    pub(crate) fn block(&mut self, ratio: f64) -> Block {
        let mut logs: [Vec<f64>; 2] = Default::default();
        let bases = [0.0, libm::log(ratio)];
        let in_round = STEPS / self.rounds as usize;
        self.wait(self.between_s);
        for cell in 0..2 {
            self.wait(LAUNCH_S);
            self.launch[cell] = self.launched(cell);
        }
        for _ in 0..self.rounds {
            let first = usize::from(self.random.random::<bool>());
            let mut turns = vec![first, 1 - first];
            for other in 0..OTHERS {
                turns.insert(self.random.random_range(0..=turns.len()), 2 + other);
            }
            for cell in turns {
                let unseen = if cell < 2 { 0 } else { in_round };
                self.wait((DISCARDED + unseen) as f64 * STEP_S);
                for _ in unseen..in_round {
                    self.wait(STEP_S);
                    let step = bases[cell] + self.step(cell);
                    logs[cell].push(step);
                }
            }
        }
        let steps = logs.each_ref().map(|logs| kept(logs, self.rounds));
        Block { logs, steps }
    }

    fn wait(&mut self, seconds: f64) {
        self.now_s += seconds;
        while self.now_s > self.until_s {
            self.is_slow = !self.is_slow;
            self.until_s += self.mood_s * exponential(&mut self.random);
        }
    }

    fn launched(&mut self, cell: usize) -> f64 {
        match self.law {
            Law::HeavyTailed | Law::Moods | Law::Neighbours | Law::Fits => {
                0.01 * normal(&mut self.random)
            }
            Law::Bimodal if self.random.random::<bool>() => HUMP,
            Law::OneSided if self.random.random::<bool>() && self.kinds[cell] == 1 => HUMP,
            Law::Seldom if self.random.random::<f64>() < SELDOM && self.kinds[cell] == 1 => HUMP,
            Law::Autocorrelated => {
                self.last[cell] = normal(&mut self.random);
                0.0
            }
            _ => 0.0,
        }
    }

    fn step(&mut self, cell: usize) -> f64 {
        let noise = normal(&mut self.random);
        let own = match self.law {
            Law::Independent => 0.02 * noise,
            Law::Drifting => 0.02 * noise + SLOWDOWN * -libm::expm1(-self.now_s / 43.0),
            Law::HeavyTailed => 0.02 * heavy(&mut self.random),
            Law::Autocorrelated => {
                let fresh = (1.0 - 0.98_f64.powi(2)).sqrt();
                self.last[cell] = 0.98 * self.last[cell] + fresh * noise;
                0.03 * self.last[cell]
            }
            Law::Bimodal | Law::OneSided | Law::Seldom => 0.01 * noise,
            Law::Moods if self.is_slow => 0.02 * noise + libm::log(MOOD[self.kinds[cell]]),
            Law::Neighbours if self.is_slow => 0.02 * noise + libm::log(BUSY),
            Law::Fits if self.is_slow && self.kinds[cell] == 1 => 0.02 * noise + libm::log(BUSY),
            Law::Moods | Law::Neighbours | Law::Fits => 0.02 * noise,
        };
        own + self.launch[cell]
    }
}

fn uniform(random: &mut impl Rng) -> f64 {
    1.0 - random.random::<f64>()
}

fn exponential(random: &mut impl Rng) -> f64 {
    -libm::log(uniform(random))
}

/// Box and Muller, "A note on the generation of random normal deviates" (1958).
pub(crate) fn normal(random: &mut impl Rng) -> f64 {
    let radius = (-2.0 * libm::log(uniform(random))).sqrt();
    radius * libm::cos(std::f64::consts::TAU * uniform(random))
}

/// Student's t of three degrees of freedom.
fn heavy(random: &mut impl Rng) -> f64 {
    let squares: f64 = (0..3).map(|_| normal(random).powi(2)).sum();
    normal(random) / (squares / 3.0).sqrt()
}
