//! Random orders that a resumed heat repeats.

use rand::{SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;
use schema::Digest;

/// The seed of a heat: different for every heat, and told by its header.
pub(crate) fn seed(key: &Digest, started: &str) -> u64 {
    let digest = Digest::of_parts([key.as_bytes().as_slice(), started.as_bytes()]);
    digest
        .as_bytes()
        .iter()
        .take(8)
        .fold(0, |seed, byte| seed << 8 | u64::from(*byte))
}

/// The random orders of one block. They depend on nothing but the seed and the block's number.
pub(crate) struct Orders(ChaCha8Rng);

impl Orders {
    pub(crate) fn of_block(seed: u64, block: u32) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(u64::from(block));
        Self(rng)
    }

    /// The next order.
    pub(crate) fn shuffle<T>(&mut self, things: &mut [T]) {
        things.shuffle(&mut self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(seed: u64, block: u32) -> Vec<u32> {
        let mut slots: Vec<u32> = (0..8).collect();
        Orders::of_block(seed, block).shuffle(&mut slots);
        slots
    }

    #[test]
    fn a_block_has_its_own_order_and_keeps_it() {
        assert_eq!(order(7, 3), order(7, 3));
        assert_ne!(order(7, 3), order(7, 4));
        assert_ne!(order(7, 3), order(8, 3));
        // Should these change, an interrupted heat would go on by another schedule.
        assert_eq!(order(7, 0), [0, 7, 5, 2, 4, 1, 6, 3]);
        assert_eq!(order(7, 1), [0, 5, 7, 1, 4, 6, 3, 2]);
    }

    #[test]
    fn every_cell_comes_first_about_equally_often() {
        let mut first = [0_u32; 8];
        for block in 0..4000 {
            first[order(1, block)[0] as usize] += 1;
        }
        // Binomial with mean 500 and deviation 21: seven deviations.
        assert!(
            first.iter().all(|count| (350..650).contains(count)),
            "{first:?}"
        );
    }
}
