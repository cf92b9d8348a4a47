//! How often nominal 95 % intervals hold the truth, in simulations: `tests/simulations` makes these tables
//! anew and compares.
//!
//! Heats are what a manifest has that says nothing of rounds: six a block, of a tenth of a second each, in turns with
//! those of a twin of each cell. So ours are made of pairs of rounds ([`crate::pair::shared`]).
//!
//! Of 2,000 heats a share near 95 % is off by 1 at most, in 95 of 100 tables, and one near 50 % by 2.2; of 1,000
//! families by 1.4 and 3.1.

/// Shares of 2,000 heats of two cells, on a machine that is made up, whose interval of contender ÷
/// baseline held what it is in the long run, in per cent. Made of the blocks of the comparison alone: what twins say
/// widens none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Coverage {
    /// How step times scatter there.
    pub machine: &'static str,
    /// Seconds between two blocks of a heat.
    pub apart_s: f64,
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
    /// The percentile bootstrap of the median of the same six blocks.
    pub bootstrap: f64,
}

/// Of 1,000 families of twelve comparisons that share an error of 5 %, their blocks half a minute apart, how many
/// have no interval that leaves its truth out, in per cent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OfTwelve {
    /// How step times scatter.
    pub machine: &'static str,
    /// Made of the six blocks of each comparison alone.
    pub plain: f64,
    /// Ours, of six blocks: no narrower than what launches scatter by makes them, of which a pair of twins of each
    /// engine tells ([`crate::family::Family::ratio`]).
    pub six: f64,
    /// How much wider those are on average, as a factor.
    pub wider: f64,
    /// Ours, of twelve blocks.
    pub twelve: f64,
}

/// The machines of [`COVERAGE`], and one of a hump that twins are likely to miss, too.
pub const OF_TWELVE: [OfTwelve; 10] = [
    OfTwelve {
        machine: "each step by itself, 2 %",
        plain: 95.9,
        six: 99.7,
        wider: 1.09,
        twelve: 99.5,
    },
    OfTwelve {
        machine: "each step by itself, 2 %, on a machine that slows down by 15 % while it warms up",
        plain: 95.8,
        six: 99.7,
        wider: 1.09,
        twelve: 99.5,
    },
    OfTwelve {
        machine: "heavy tails: Student's t of 3 degrees of freedom, 2 %, and each launch by 1 %",
        plain: 95.4,
        six: 99.7,
        wider: 1.09,
        twelve: 99.6,
    },
    OfTwelve {
        machine: "each step resembles the one before it (correlation 0.98), 3 %",
        plain: 95.1,
        six: 99.6,
        wider: 1.09,
        twelve: 99.6,
    },
    OfTwelve {
        machine: "two humps: every other launch, by chance, is slower by 6 %",
        plain: 96.6,
        six: 99.8,
        wider: 1.07,
        twelve: 99.8,
    },
    OfTwelve {
        machine: "two humps of one engine: every other launch of it, by chance, is slower by 6 %",
        plain: 69.4,
        six: 98.5,
        wider: 1.05,
        twelve: 98.8,
    },
    OfTwelve {
        machine: "two moods of half a minute each: in one of them one engine is slower by 50 %, the other by 3 %",
        plain: 56.4,
        six: 56.4,
        wider: 1.0,
        twelve: 84.8,
    },
    OfTwelve {
        machine: "two moods of a fifth of a second each, in one of which everything is slower by 50 %",
        plain: 99.4,
        six: 100.0,
        wider: 1.24,
        twelve: 99.9,
    },
    OfTwelve {
        machine: "two moods of a fifth of a second each, in one of which one engine alone is slower by 50 %",
        plain: 87.1,
        six: 88.4,
        wider: 1.0,
        twelve: 91.0,
    },
    OfTwelve {
        machine: "two humps of one engine: one launch of it in five, by chance, is slower by 6 %",
        plain: 2.4,
        six: 90.1,
        wider: 1.22,
        twelve: 98.3,
    },
];

/// How often intervals hold the truth on a machine of two moods, in one of which one engine is slower by 50 % and the
/// other by 3 %, by how long a mood lasts: in per cent of 2,000 heats, or of 1,000 families of twelve that share the
/// error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lasting {
    /// Mean time that a mood lasts, in seconds.
    pub mood_s: f64,
    /// Ours of six blocks half a minute apart.
    pub six: f64,
    /// Ours of a heat that ends at the look at which it has said enough, its blocks half a minute apart.
    pub looks: f64,
    /// Ours of six blocks a minute apart.
    pub six_minute: f64,
    /// All of twelve comparisons of six blocks half a minute apart.
    pub family_of_six: f64,
    /// The same of twelve blocks.
    pub family_of_twelve: f64,
}

/// Moods as long as blocks lie apart, and longer ones.
pub const LASTING: [Lasting; 4] = [
    Lasting {
        mood_s: 30.0,
        six: 95.0,
        looks: 97.2,
        six_minute: 96.4,
        family_of_six: 56.4,
        family_of_twelve: 84.8,
    },
    Lasting {
        mood_s: 60.0,
        six: 89.8,
        looks: 91.3,
        six_minute: 95.0,
        family_of_six: 23.1,
        family_of_twelve: 56.8,
    },
    Lasting {
        mood_s: 120.0,
        six: 73.9,
        looks: 79.4,
        six_minute: 87.0,
        family_of_six: 1.9,
        family_of_twelve: 14.4,
    },
    Lasting {
        mood_s: 300.0,
        six: 41.9,
        looks: 52.3,
        six_minute: 62.6,
        family_of_six: 0.0,
        family_of_twelve: 0.4,
    },
];

/// How often intervals of six blocks hold the truth, and half their median width, in per cent of 2,000 heats of two cells
/// and a twin of each, whose blocks lie half a minute apart: by how many rounds the steps of a block are in, forty or a
/// few less, two more of which each round discards.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rounds {
    /// How step times scatter.
    pub machine: &'static str,
    /// Rounds of a cell in a block.
    pub rounds: u32,
    /// By the ratio of the medians of both cells in a block.
    pub medians: f64,
    /// Half the width of such an interval.
    pub medians_half: f64,
    /// By pairs of rounds, where there are enough ([`crate::pair::PAIRED_ROUNDS`]).
    pub pairs: f64,
    /// Half the width of such an interval.
    pub pairs_half: f64,
}

/// The machines of [`COVERAGE`]: of too few rounds for pairs, of four, as the quickstart has, of six, as many as there
/// are unless a manifest says otherwise, and of more.
pub const ROUNDS: [Rounds; 36] = [
    Rounds {
        machine: "each step by itself, 2 %",
        rounds: 2,
        medians: 96.4,
        medians_half: 0.54,
        pairs: 96.4,
        pairs_half: 0.54,
    },
    Rounds {
        machine: "each step by itself, 2 %",
        rounds: 4,
        medians: 95.0,
        medians_half: 0.55,
        pairs: 94.7,
        pairs_half: 0.57,
    },
    Rounds {
        machine: "each step by itself, 2 %",
        rounds: 6,
        medians: 95.6,
        medians_half: 0.57,
        pairs: 95.8,
        pairs_half: 0.59,
    },
    Rounds {
        machine: "each step by itself, 2 %",
        rounds: 12,
        medians: 95.6,
        medians_half: 0.56,
        pairs: 95.3,
        pairs_half: 0.63,
    },
    Rounds {
        machine: "each step by itself, 2 %, on a machine that slows down by 15 % while it warms up",
        rounds: 2,
        medians: 96.2,
        medians_half: 0.54,
        pairs: 96.2,
        pairs_half: 0.54,
    },
    Rounds {
        machine: "each step by itself, 2 %, on a machine that slows down by 15 % while it warms up",
        rounds: 4,
        medians: 95.2,
        medians_half: 0.55,
        pairs: 94.6,
        pairs_half: 0.57,
    },
    Rounds {
        machine: "each step by itself, 2 %, on a machine that slows down by 15 % while it warms up",
        rounds: 6,
        medians: 95.9,
        medians_half: 0.57,
        pairs: 95.7,
        pairs_half: 0.59,
    },
    Rounds {
        machine: "each step by itself, 2 %, on a machine that slows down by 15 % while it warms up",
        rounds: 12,
        medians: 95.4,
        medians_half: 0.57,
        pairs: 95.3,
        pairs_half: 0.63,
    },
    Rounds {
        machine: "heavy tails: Student's t of 3 degrees of freedom, 2 %, and each launch by 1 %",
        rounds: 2,
        medians: 95.2,
        medians_half: 1.54,
        pairs: 95.2,
        pairs_half: 1.54,
    },
    Rounds {
        machine: "heavy tails: Student's t of 3 degrees of freedom, 2 %, and each launch by 1 %",
        rounds: 4,
        medians: 95.5,
        medians_half: 1.49,
        pairs: 95.6,
        pairs_half: 1.51,
    },
    Rounds {
        machine: "heavy tails: Student's t of 3 degrees of freedom, 2 %, and each launch by 1 %",
        rounds: 6,
        medians: 94.0,
        medians_half: 1.53,
        pairs: 94.7,
        pairs_half: 1.55,
    },
    Rounds {
        machine: "heavy tails: Student's t of 3 degrees of freedom, 2 %, and each launch by 1 %",
        rounds: 12,
        medians: 94.1,
        medians_half: 1.51,
        pairs: 94.2,
        pairs_half: 1.57,
    },
    Rounds {
        machine: "each step resembles the one before it (correlation 0.98), 3 %",
        rounds: 2,
        medians: 94.8,
        medians_half: 3.73,
        pairs: 94.8,
        pairs_half: 3.73,
    },
    Rounds {
        machine: "each step resembles the one before it (correlation 0.98), 3 %",
        rounds: 4,
        medians: 95.1,
        medians_half: 3.74,
        pairs: 94.9,
        pairs_half: 3.77,
    },
    Rounds {
        machine: "each step resembles the one before it (correlation 0.98), 3 %",
        rounds: 6,
        medians: 95.6,
        medians_half: 3.77,
        pairs: 95.3,
        pairs_half: 3.8,
    },
    Rounds {
        machine: "each step resembles the one before it (correlation 0.98), 3 %",
        rounds: 12,
        medians: 96.1,
        medians_half: 3.74,
        pairs: 96.0,
        pairs_half: 3.76,
    },
    Rounds {
        machine: "two humps: every other launch, by chance, is slower by 6 %",
        rounds: 2,
        medians: 96.5,
        medians_half: 4.62,
        pairs: 96.5,
        pairs_half: 4.62,
    },
    Rounds {
        machine: "two humps: every other launch, by chance, is slower by 6 %",
        rounds: 4,
        medians: 96.3,
        medians_half: 4.64,
        pairs: 96.3,
        pairs_half: 4.63,
    },
    Rounds {
        machine: "two humps: every other launch, by chance, is slower by 6 %",
        rounds: 6,
        medians: 95.8,
        medians_half: 4.62,
        pairs: 95.8,
        pairs_half: 4.62,
    },
    Rounds {
        machine: "two humps: every other launch, by chance, is slower by 6 %",
        rounds: 12,
        medians: 96.5,
        medians_half: 4.62,
        pairs: 96.6,
        pairs_half: 4.59,
    },
    Rounds {
        machine: "two humps of one engine: every other launch of it, by chance, is slower by 6 %",
        rounds: 2,
        medians: 96.4,
        medians_half: 3.28,
        pairs: 96.4,
        pairs_half: 3.28,
    },
    Rounds {
        machine: "two humps of one engine: every other launch of it, by chance, is slower by 6 %",
        rounds: 4,
        medians: 97.3,
        medians_half: 3.29,
        pairs: 97.3,
        pairs_half: 3.29,
    },
    Rounds {
        machine: "two humps of one engine: every other launch of it, by chance, is slower by 6 %",
        rounds: 6,
        medians: 96.8,
        medians_half: 3.29,
        pairs: 96.8,
        pairs_half: 3.28,
    },
    Rounds {
        machine: "two humps of one engine: every other launch of it, by chance, is slower by 6 %",
        rounds: 12,
        medians: 96.6,
        medians_half: 3.28,
        pairs: 96.6,
        pairs_half: 3.29,
    },
    Rounds {
        machine: "two moods of half a minute each: in one of them one engine is slower by 50 %, the other by 3 %",
        rounds: 2,
        medians: 93.8,
        medians_half: 20.03,
        pairs: 93.8,
        pairs_half: 20.03,
    },
    Rounds {
        machine: "two moods of half a minute each: in one of them one engine is slower by 50 %, the other by 3 %",
        rounds: 4,
        medians: 94.6,
        medians_half: 20.21,
        pairs: 94.1,
        pairs_half: 20.15,
    },
    Rounds {
        machine: "two moods of half a minute each: in one of them one engine is slower by 50 %, the other by 3 %",
        rounds: 6,
        medians: 95.1,
        medians_half: 20.27,
        pairs: 95.0,
        pairs_half: 20.22,
    },
    Rounds {
        machine: "two moods of half a minute each: in one of them one engine is slower by 50 %, the other by 3 %",
        rounds: 12,
        medians: 95.6,
        medians_half: 20.37,
        pairs: 95.6,
        pairs_half: 20.33,
    },
    Rounds {
        machine: "two moods of a fifth of a second each, in one of which everything is slower by 50 %",
        rounds: 2,
        medians: 97.0,
        medians_half: 25.36,
        pairs: 97.0,
        pairs_half: 25.36,
    },
    Rounds {
        machine: "two moods of a fifth of a second each, in one of which everything is slower by 50 %",
        rounds: 4,
        medians: 96.1,
        medians_half: 23.95,
        pairs: 97.3,
        pairs_half: 14.14,
    },
    Rounds {
        machine: "two moods of a fifth of a second each, in one of which everything is slower by 50 %",
        rounds: 6,
        medians: 97.5,
        medians_half: 21.82,
        pairs: 98.0,
        pairs_half: 8.8,
    },
    Rounds {
        machine: "two moods of a fifth of a second each, in one of which everything is slower by 50 %",
        rounds: 12,
        medians: 97.3,
        medians_half: 19.52,
        pairs: 95.3,
        pairs_half: 1.82,
    },
    Rounds {
        machine: "two moods of a fifth of a second each, in one of which one engine alone is slower by 50 %",
        rounds: 2,
        medians: 96.4,
        medians_half: 20.0,
        pairs: 96.4,
        pairs_half: 20.0,
    },
    Rounds {
        machine: "two moods of a fifth of a second each, in one of which one engine alone is slower by 50 %",
        rounds: 4,
        medians: 94.8,
        medians_half: 19.76,
        pairs: 93.5,
        pairs_half: 15.92,
    },
    Rounds {
        machine: "two moods of a fifth of a second each, in one of which one engine alone is slower by 50 %",
        rounds: 6,
        medians: 95.3,
        medians_half: 19.61,
        pairs: 93.1,
        pairs_half: 16.27,
    },
    Rounds {
        machine: "two moods of a fifth of a second each, in one of which one engine alone is slower by 50 %",
        rounds: 12,
        medians: 95.7,
        medians_half: 19.29,
        pairs: 94.2,
        pairs_half: 17.54,
    },
];

/// How often the interval of what interleaving gains ([`crate::interleaving::gain`]) holds it, by traces of
/// a machine that is made up, of blocks of sixty turns and stretches of twenty: in per cent of 1,000.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gained {
    /// How it drifts.
    pub machine: &'static str,
    /// What interleaving gains there in the long run.
    pub gain: f64,
    /// How often the interval holds that, made of twelve blocks.
    pub held: f64,
    /// The same of six.
    pub held_six: f64,
}

/// Machines whose drift is always there, now and then, and seldom.
pub const GAINED: [Gained; 3] = [
    Gained {
        machine: "drifts all the time",
        gain: 2.6,
        held: 93.7,
        held_six: 94.1,
    },
    Gained {
        machine: "has two moods of a hundred turns each, 5 % apart",
        gain: 3.6,
        held: 88.0,
        held_six: 76.0,
    },
    Gained {
        machine: "is slower by 8 % for thirty turns, once in six hundred",
        gain: 3.6,
        held: 60.1,
        held_six: 39.9,
    },
];

/// Machines whose blocks follow each other at once, then the same with as much time between two blocks as
/// there is at least unless a manifest asks for less, then with a minute.
pub const COVERAGE: [Coverage; 27] = [
    Coverage {
        machine: "each step by itself, 2 %",
        apart_s: 0.3,
        six: 95.6,
        looks: 98.9,
        blocks: 7.7,
        own: 96.0,
        plain_t: 94.3,
        bootstrap: 93.8,
    },
    Coverage {
        machine: "each step by itself, 2 %, on a machine that slows down by 15 % while it warms up",
        apart_s: 0.3,
        six: 95.7,
        looks: 99.0,
        blocks: 7.6,
        own: 0.0,
        plain_t: 99.7,
        bootstrap: 94.0,
    },
    Coverage {
        machine: "heavy tails: Student's t of 3 degrees of freedom, 2 %, and each launch by 1 %",
        apart_s: 0.3,
        six: 95.0,
        looks: 98.5,
        blocks: 31.1,
        own: 94.7,
        plain_t: 69.7,
        bootstrap: 93.5,
    },
    Coverage {
        machine: "each step resembles the one before it (correlation 0.98), 3 %",
        apart_s: 0.3,
        six: 94.3,
        looks: 98.5,
        blocks: 45.1,
        own: 95.5,
        plain_t: 26.1,
        bootstrap: 93.1,
    },
    Coverage {
        machine: "two humps: every other launch, by chance, is slower by 6 %",
        apart_s: 0.3,
        six: 96.2,
        looks: 98.5,
        blocks: 37.0,
        own: 96.9,
        plain_t: 21.2,
        bootstrap: 93.3,
    },
    Coverage {
        machine: "two humps of one engine: every other launch of it, by chance, is slower by 6 %",
        apart_s: 0.3,
        six: 97.3,
        looks: 96.9,
        blocks: 10.6,
        own: 94.6,
        plain_t: 32.5,
        bootstrap: 94.0,
    },
    Coverage {
        machine: "two moods of half a minute each: in one of them one engine is slower by 50 %, the other by 3 %",
        apart_s: 0.3,
        six: 58.1,
        looks: 66.5,
        blocks: 16.4,
        own: 65.6,
        plain_t: 11.8,
        bootstrap: 54.6,
    },
    Coverage {
        machine: "two moods of a fifth of a second each, in one of which everything is slower by 50 %",
        apart_s: 0.3,
        six: 98.9,
        looks: 99.0,
        blocks: 44.5,
        own: 94.5,
        plain_t: 71.1,
        bootstrap: 93.5,
    },
    Coverage {
        machine: "two moods of a fifth of a second each, in one of which one engine alone is slower by 50 %",
        apart_s: 0.3,
        six: 93.2,
        looks: 97.9,
        blocks: 10.2,
        own: 94.9,
        plain_t: 61.5,
        bootstrap: 93.6,
    },
    Coverage {
        machine: "each step by itself, 2 %",
        apart_s: 30.0,
        six: 95.8,
        looks: 98.8,
        blocks: 7.7,
        own: 95.8,
        plain_t: 96.1,
        bootstrap: 94.3,
    },
    Coverage {
        machine: "each step by itself, 2 %, on a machine that slows down by 15 % while it warms up",
        apart_s: 30.0,
        six: 95.7,
        looks: 98.8,
        blocks: 7.7,
        own: 99.8,
        plain_t: 99.9,
        bootstrap: 94.3,
    },
    Coverage {
        machine: "heavy tails: Student's t of 3 degrees of freedom, 2 %, and each launch by 1 %",
        apart_s: 30.0,
        six: 94.7,
        looks: 98.2,
        blocks: 31.1,
        own: 95.3,
        plain_t: 66.7,
        bootstrap: 92.6,
    },
    Coverage {
        machine: "each step resembles the one before it (correlation 0.98), 3 %",
        apart_s: 30.0,
        six: 95.3,
        looks: 98.2,
        blocks: 45.1,
        own: 95.0,
        plain_t: 26.8,
        bootstrap: 93.8,
    },
    Coverage {
        machine: "two humps: every other launch, by chance, is slower by 6 %",
        apart_s: 30.0,
        six: 95.8,
        looks: 98.7,
        blocks: 36.7,
        own: 96.7,
        plain_t: 22.8,
        bootstrap: 92.8,
    },
    Coverage {
        machine: "two humps of one engine: every other launch of it, by chance, is slower by 6 %",
        apart_s: 30.0,
        six: 96.8,
        looks: 96.6,
        blocks: 10.6,
        own: 95.1,
        plain_t: 32.4,
        bootstrap: 93.7,
    },
    Coverage {
        machine: "two moods of half a minute each: in one of them one engine is slower by 50 %, the other by 3 %",
        apart_s: 30.0,
        six: 95.0,
        looks: 97.2,
        blocks: 16.0,
        own: 92.9,
        plain_t: 25.8,
        bootstrap: 91.1,
    },
    Coverage {
        machine: "two moods of a fifth of a second each, in one of which everything is slower by 50 %",
        apart_s: 30.0,
        six: 98.0,
        looks: 99.0,
        blocks: 44.6,
        own: 95.3,
        plain_t: 68.1,
        bootstrap: 92.6,
    },
    Coverage {
        machine: "two moods of a fifth of a second each, in one of which one engine alone is slower by 50 %",
        apart_s: 30.0,
        six: 93.1,
        looks: 98.0,
        blocks: 10.3,
        own: 94.4,
        plain_t: 59.3,
        bootstrap: 93.6,
    },
    Coverage {
        machine: "each step by itself, 2 %",
        apart_s: 60.0,
        six: 95.8,
        looks: 98.8,
        blocks: 7.8,
        own: 94.8,
        plain_t: 94.9,
        bootstrap: 94.1,
    },
    Coverage {
        machine: "each step by itself, 2 %, on a machine that slows down by 15 % while it warms up",
        apart_s: 60.0,
        six: 95.8,
        looks: 98.8,
        blocks: 7.8,
        own: 99.8,
        plain_t: 98.2,
        bootstrap: 94.1,
    },
    Coverage {
        machine: "heavy tails: Student's t of 3 degrees of freedom, 2 %, and each launch by 1 %",
        apart_s: 60.0,
        six: 95.5,
        looks: 98.5,
        blocks: 31.4,
        own: 95.1,
        plain_t: 67.2,
        bootstrap: 93.4,
    },
    Coverage {
        machine: "each step resembles the one before it (correlation 0.98), 3 %",
        apart_s: 60.0,
        six: 95.3,
        looks: 98.6,
        blocks: 45.1,
        own: 95.1,
        plain_t: 28.0,
        bootstrap: 93.8,
    },
    Coverage {
        machine: "two humps: every other launch, by chance, is slower by 6 %",
        apart_s: 60.0,
        six: 96.6,
        looks: 99.0,
        blocks: 36.6,
        own: 96.3,
        plain_t: 22.3,
        bootstrap: 93.5,
    },
    Coverage {
        machine: "two humps of one engine: every other launch of it, by chance, is slower by 6 %",
        apart_s: 60.0,
        six: 97.5,
        looks: 97.2,
        blocks: 10.4,
        own: 94.3,
        plain_t: 31.4,
        bootstrap: 94.3,
    },
    Coverage {
        machine: "two moods of half a minute each: in one of them one engine is slower by 50 %, the other by 3 %",
        apart_s: 60.0,
        six: 96.4,
        looks: 97.8,
        blocks: 15.8,
        own: 94.8,
        plain_t: 28.9,
        bootstrap: 93.2,
    },
    Coverage {
        machine: "two moods of a fifth of a second each, in one of which everything is slower by 50 %",
        apart_s: 60.0,
        six: 98.9,
        looks: 99.4,
        blocks: 44.7,
        own: 95.5,
        plain_t: 70.1,
        bootstrap: 94.3,
    },
    Coverage {
        machine: "two moods of a fifth of a second each, in one of which one engine alone is slower by 50 %",
        apart_s: 60.0,
        six: 93.4,
        looks: 98.2,
        blocks: 10.4,
        own: 95.3,
        plain_t: 60.4,
        bootstrap: 93.2,
    },
];
