//! How often nominal 95 % intervals hold the truth, in simulations: `tests/simulations` makes this table
//! anew and compares.

/// Shares of 2,000 heats of two cells, on a machine that is made up, whose interval of contender ÷
/// baseline held what it is in the long run, in per cent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Coverage {
    /// How step times scatter there.
    pub machine: &'static str,
    /// Whether a minute lies between two blocks of a heat, which the blocks of others fill.
    pub apart: bool,
    /// Ours, of six blocks.
    pub six: f64,
    /// Ours, of a heat that ends at the look at which it has said enough.
    pub looks: f64,
    /// The blocks that such heats have on average.
    pub blocks: f64,
    /// Ours of the baseline's step time by itself, of six blocks.
    pub own: f64,
    /// Welch's t interval of all samples of six blocks, as if they were independent.
    pub plain_t: f64,
    /// The percentile bootstrap of the median of six blocks.
    pub bootstrap: f64,
}

/// Machines whose blocks lie close together, then the same with a minute between two blocks.
pub const COVERAGE: [Coverage; 12] = [
    Coverage {
        machine: "each step by itself, 2 %",
        apart: false,
        six: 95.8,
        looks: 99.2,
        blocks: 7.1,
        own: 95.3,
        plain_t: 95.1,
        bootstrap: 93.9,
    },
    Coverage {
        machine: "each step by itself, 2 %, on a machine that slows down by 15 % while it warms up",
        apart: false,
        six: 96.1,
        looks: 99.1,
        blocks: 7.1,
        own: 0.0,
        plain_t: 99.5,
        bootstrap: 93.6,
    },
    Coverage {
        machine: "heavy tails: Student's t of 3 degrees of freedom, 2 %, and each launch by 1 %",
        apart: false,
        six: 94.3,
        looks: 97.9,
        blocks: 30.1,
        own: 95.3,
        plain_t: 67.4,
        bootstrap: 93.0,
    },
    Coverage {
        machine: "each step resembles the one before it (correlation 0.98), 3 %",
        apart: false,
        six: 94.7,
        looks: 98.5,
        blocks: 45.0,
        own: 94.9,
        plain_t: 25.0,
        bootstrap: 93.3,
    },
    Coverage {
        machine: "two humps: every other launch, by chance, is slower by 6 %",
        apart: false,
        six: 96.1,
        looks: 98.9,
        blocks: 36.8,
        own: 96.6,
        plain_t: 22.7,
        bootstrap: 94.0,
    },
    Coverage {
        machine: "two moods of half a minute each: in one of them one engine is slower by 50 %, the other by 3 %",
        apart: false,
        six: 48.3,
        looks: 56.9,
        blocks: 15.9,
        own: 55.6,
        plain_t: 8.8,
        bootstrap: 45.1,
    },
    Coverage {
        machine: "each step by itself, 2 %",
        apart: true,
        six: 95.3,
        looks: 98.9,
        blocks: 7.1,
        own: 94.7,
        plain_t: 94.0,
        bootstrap: 93.7,
    },
    Coverage {
        machine: "each step by itself, 2 %, on a machine that slows down by 15 % while it warms up",
        apart: true,
        six: 95.2,
        looks: 98.9,
        blocks: 7.1,
        own: 99.9,
        plain_t: 97.3,
        bootstrap: 93.5,
    },
    Coverage {
        machine: "heavy tails: Student's t of 3 degrees of freedom, 2 %, and each launch by 1 %",
        apart: true,
        six: 95.0,
        looks: 98.8,
        blocks: 30.1,
        own: 95.0,
        plain_t: 65.5,
        bootstrap: 93.0,
    },
    Coverage {
        machine: "each step resembles the one before it (correlation 0.98), 3 %",
        apart: true,
        six: 95.2,
        looks: 98.1,
        blocks: 45.6,
        own: 95.1,
        plain_t: 26.5,
        bootstrap: 93.7,
    },
    Coverage {
        machine: "two humps: every other launch, by chance, is slower by 6 %",
        apart: true,
        six: 96.3,
        looks: 99.1,
        blocks: 37.1,
        own: 97.2,
        plain_t: 20.6,
        bootstrap: 93.2,
    },
    Coverage {
        machine: "two moods of half a minute each: in one of them one engine is slower by 50 %, the other by 3 %",
        apart: true,
        six: 96.3,
        looks: 97.4,
        blocks: 15.8,
        own: 94.5,
        plain_t: 30.7,
        bootstrap: 92.7,
    },
];
