//! How often the interval of what interleaving gains holds it, on machines that are made up.

use photofinish_statistics::{
    coverage::{GAINED, Gained},
    interleaving::{self, Block},
    percentile,
};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use crate::{machine::normal, tenths};

/// Blocks of a trace, turns of a block and of a stretch: as `cargo xtask experiment drift` has them, and had.
const BLOCKS: [usize; 2] = [12, 6];
const TURNS: usize = 60;
const STRETCH: usize = 20;

const TRACES: u64 = 1000;

/// Blocks that tell what is gained in the long run.
const LONG: usize = 10_000;

const CONFIDENCE: f64 = 0.95;

/// What each cell scatters by itself.
const OWN: f64 = 0.005;

/// How a machine drifts, in logarithms, turn by turn.
#[derive(Clone, Copy)]
enum Drift {
    Always,
    Moods,
    Jumps,
}

impl Drift {
    /// The next level, after this one that has lasted so many turns.
    fn next(self, level: f64, lasted: usize, random: &mut ChaCha8Rng) -> f64 {
        match self {
            Self::Always => 0.99 * level + 0.003 * normal(random),
            Self::Moods if random.random_bool(0.01) => 0.05 - level,
            Self::Jumps if level > 0.0 && lasted >= 30 => 0.0,
            Self::Jumps if level == 0.0 && random.random_bool(1.0 / 600.0) => 0.08,
            Self::Moods | Self::Jumps => level,
        }
    }

    /// Turns of two cells that are equally fast.
    fn trace(self, blocks: usize, seed: u64) -> Vec<Block> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let (mut level, mut lasted) = (0.0, 0);
        let mut turn = || {
            let next = self.next(level, lasted, &mut random);
            lasted = if next == level { lasted + 1 } else { 0 };
            level = next;
            [(); 2].map(|()| level + OWN * normal(&mut random))
        };
        // It has long been running when the trace begins.
        for _ in 0..TURNS * 10 {
            turn();
        }
        let block = |_| (0..TURNS).map(|_| turn()).collect();
        (0..blocks).map(block).collect()
    }
}

/// The gain by a trace, whose true ratio is the median over all of it, as a real one's is taken to be.
fn holds(trace: &[Block], gain: f64) -> bool {
    let logs = trace.iter().flatten().map(|[one, other]| other - one);
    let truth = percentile::middle(logs).unwrap();
    let found = interleaving::gain(trace, STRETCH, truth, CONFIDENCE).unwrap();
    found.low.unwrap() <= gain && gain <= found.high.unwrap()
}

fn simulated((drift, row): (Drift, &Gained)) -> Gained {
    let long = drift.trace(LONG, u64::MAX);
    let gain = interleaving::gain(&long, STRETCH, 0.0, CONFIDENCE).unwrap();
    let gain = gain.centre;
    let [held, held_six] = BLOCKS.map(|blocks| {
        let held = (0..TRACES).filter(|seed| holds(&drift.trace(blocks, *seed), gain));
        tenths(100.0 * held.count() as f64 / TRACES as f64)
    });
    Gained {
        gain: tenths(gain),
        held,
        held_six,
        ..*row
    }
}

#[test]
fn what_interleaving_gains_is_told_as_often_as_is_said() {
    let drifts = [Drift::Always, Drift::Moods, Drift::Jumps];
    let rows: Vec<Gained> = drifts.into_iter().zip(&GAINED).map(simulated).collect();
    println!("{rows:?}");
    assert_eq!(GAINED.to_vec(), rows, "the method page is old");
}
