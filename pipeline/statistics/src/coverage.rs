//! How often nominal 95 % intervals hold the truth, in simulations: `tests/simulations` makes this table
//! anew and compares.

/// Shares of 2,000 heats of two cells, on a machine that is made up, whose interval of contender ÷
/// baseline held what it is in the long run, in per cent.
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
    /// The percentile bootstrap of the median of six blocks.
    pub bootstrap: f64,
}

/// Of 2,000 families of twelve comparisons that share an error of 5 %, their blocks half a minute apart, how many
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
pub const OF_TWELVE: [OfTwelve; 8] = [
    OfTwelve {
        machine: "each step by itself, 2 %",
        plain: 96.0,
        six: 99.8,
        wider: 1.09,
        twelve: 99.7,
    },
    OfTwelve {
        machine: "each step by itself, 2 %, on a machine that slows down by 15 % while it warms up",
        plain: 96.2,
        six: 99.8,
        wider: 1.09,
        twelve: 99.7,
    },
    OfTwelve {
        machine: "heavy tails: Student's t of 3 degrees of freedom, 2 %, and each launch by 1 %",
        plain: 94.2,
        six: 99.9,
        wider: 1.09,
        twelve: 99.6,
    },
    OfTwelve {
        machine: "each step resembles the one before it (correlation 0.98), 3 %",
        plain: 95.8,
        six: 99.9,
        wider: 1.09,
        twelve: 99.6,
    },
    OfTwelve {
        machine: "two humps: every other launch, by chance, is slower by 6 %",
        plain: 96.4,
        six: 99.7,
        wider: 1.07,
        twelve: 99.5,
    },
    OfTwelve {
        machine: "two humps of one engine: every other launch of it, by chance, is slower by 6 %",
        plain: 67.3,
        six: 98.0,
        wider: 1.05,
        twelve: 99.2,
    },
    OfTwelve {
        machine: "two moods of half a minute each: in one of them one engine is slower by 50 %, the other by 3 %",
        plain: 53.7,
        six: 53.8,
        wider: 1.0,
        twelve: 83.9,
    },
    OfTwelve {
        machine: "two humps of one engine: one launch of it in five, by chance, is slower by 6 %",
        plain: 2.8,
        six: 91.0,
        wider: 1.22,
        twelve: 98.5,
    },
];

/// How often intervals hold the truth on a machine of two moods, in one of which one engine is slower by 50 % and the
/// other by 3 %, by how long a mood lasts: in per cent of 2,000 heats, or families of twelve that share the error.
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
        looks: 96.5,
        six_minute: 96.3,
        family_of_six: 53.8,
        family_of_twelve: 83.9,
    },
    Lasting {
        mood_s: 60.0,
        six: 87.4,
        looks: 90.6,
        six_minute: 95.1,
        family_of_six: 20.0,
        family_of_twelve: 53.1,
    },
    Lasting {
        mood_s: 120.0,
        six: 72.2,
        looks: 77.9,
        six_minute: 86.7,
        family_of_six: 1.3,
        family_of_twelve: 12.1,
    },
    Lasting {
        mood_s: 300.0,
        six: 40.6,
        looks: 50.0,
        six_minute: 62.0,
        family_of_six: 0.0,
        family_of_twelve: 0.2,
    },
];

/// How often intervals of six blocks hold the truth, and half their median width, in per cent of 2,000 heats of two cells
/// and a twin of each, whose blocks follow each other at once: by how many rounds the forty steps of a block are in,
/// two more of which each discards.
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

/// Too few rounds for pairs, four, as many as there are unless a manifest says otherwise, and more.
pub const ROUNDS: [Rounds; 16] = [
    Rounds {
        machine: "two moods of a fifth of a second each, in one of which everything is slower by 50 %",
        rounds: 2,
        medians: 95.6,
        medians_half: 25.35,
        pairs: 95.6,
        pairs_half: 25.35,
    },
    Rounds {
        machine: "two moods of a fifth of a second each, in one of which everything is slower by 50 %",
        rounds: 4,
        medians: 96.5,
        medians_half: 24.15,
        pairs: 97.2,
        pairs_half: 13.92,
    },
    Rounds {
        machine: "two moods of a fifth of a second each, in one of which everything is slower by 50 %",
        rounds: 6,
        medians: 96.9,
        medians_half: 21.9,
        pairs: 98.9,
        pairs_half: 8.86,
    },
    Rounds {
        machine: "two moods of a fifth of a second each, in one of which everything is slower by 50 %",
        rounds: 12,
        medians: 98.3,
        medians_half: 19.38,
        pairs: 95.2,
        pairs_half: 1.83,
    },
    Rounds {
        machine: "each step by itself, 2 %",
        rounds: 2,
        medians: 95.0,
        medians_half: 0.55,
        pairs: 95.0,
        pairs_half: 0.55,
    },
    Rounds {
        machine: "each step by itself, 2 %",
        rounds: 4,
        medians: 94.9,
        medians_half: 0.53,
        pairs: 95.3,
        pairs_half: 0.56,
    },
    Rounds {
        machine: "each step by itself, 2 %",
        rounds: 6,
        medians: 95.4,
        medians_half: 0.58,
        pairs: 95.8,
        pairs_half: 0.6,
    },
    Rounds {
        machine: "each step by itself, 2 %",
        rounds: 12,
        medians: 94.9,
        medians_half: 0.58,
        pairs: 94.7,
        pairs_half: 0.65,
    },
    Rounds {
        machine: "heavy tails: Student's t of 3 degrees of freedom, 2 %, and each launch by 1 %",
        rounds: 2,
        medians: 94.8,
        medians_half: 1.51,
        pairs: 94.8,
        pairs_half: 1.51,
    },
    Rounds {
        machine: "heavy tails: Student's t of 3 degrees of freedom, 2 %, and each launch by 1 %",
        rounds: 4,
        medians: 95.4,
        medians_half: 1.51,
        pairs: 94.9,
        pairs_half: 1.52,
    },
    Rounds {
        machine: "heavy tails: Student's t of 3 degrees of freedom, 2 %, and each launch by 1 %",
        rounds: 6,
        medians: 95.2,
        medians_half: 1.52,
        pairs: 96.0,
        pairs_half: 1.54,
    },
    Rounds {
        machine: "heavy tails: Student's t of 3 degrees of freedom, 2 %, and each launch by 1 %",
        rounds: 12,
        medians: 95.6,
        medians_half: 1.54,
        pairs: 95.3,
        pairs_half: 1.6,
    },
    Rounds {
        machine: "each step resembles the one before it (correlation 0.98), 3 %",
        rounds: 2,
        medians: 94.5,
        medians_half: 3.77,
        pairs: 94.5,
        pairs_half: 3.77,
    },
    Rounds {
        machine: "each step resembles the one before it (correlation 0.98), 3 %",
        rounds: 4,
        medians: 95.4,
        medians_half: 3.8,
        pairs: 95.8,
        pairs_half: 3.82,
    },
    Rounds {
        machine: "each step resembles the one before it (correlation 0.98), 3 %",
        rounds: 6,
        medians: 94.9,
        medians_half: 3.78,
        pairs: 95.0,
        pairs_half: 3.75,
    },
    Rounds {
        machine: "each step resembles the one before it (correlation 0.98), 3 %",
        rounds: 12,
        medians: 95.2,
        medians_half: 3.83,
        pairs: 94.9,
        pairs_half: 3.84,
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
pub const COVERAGE: [Coverage; 21] = [
    Coverage {
        machine: "each step by itself, 2 %",
        apart_s: 0.3,
        six: 95.8,
        looks: 99.2,
        blocks: 7.1,
        own: 95.3,
        plain_t: 95.1,
        bootstrap: 93.9,
    },
    Coverage {
        machine: "each step by itself, 2 %, on a machine that slows down by 15 % while it warms up",
        apart_s: 0.3,
        six: 96.1,
        looks: 99.1,
        blocks: 7.1,
        own: 0.0,
        plain_t: 99.5,
        bootstrap: 93.6,
    },
    Coverage {
        machine: "heavy tails: Student's t of 3 degrees of freedom, 2 %, and each launch by 1 %",
        apart_s: 0.3,
        six: 94.3,
        looks: 97.9,
        blocks: 30.1,
        own: 95.3,
        plain_t: 67.4,
        bootstrap: 93.0,
    },
    Coverage {
        machine: "each step resembles the one before it (correlation 0.98), 3 %",
        apart_s: 0.3,
        six: 94.7,
        looks: 98.5,
        blocks: 45.0,
        own: 94.9,
        plain_t: 25.0,
        bootstrap: 93.3,
    },
    Coverage {
        machine: "two humps: every other launch, by chance, is slower by 6 %",
        apart_s: 0.3,
        six: 96.1,
        looks: 98.9,
        blocks: 36.8,
        own: 96.6,
        plain_t: 22.7,
        bootstrap: 94.0,
    },
    Coverage {
        machine: "two humps of one engine: every other launch of it, by chance, is slower by 6 %",
        apart_s: 0.3,
        six: 96.6,
        looks: 96.2,
        blocks: 10.3,
        own: 95.0,
        plain_t: 30.2,
        bootstrap: 93.8,
    },
    Coverage {
        machine: "two moods of half a minute each: in one of them one engine is slower by 50 %, the other by 3 %",
        apart_s: 0.3,
        six: 48.3,
        looks: 56.9,
        blocks: 15.9,
        own: 55.6,
        plain_t: 8.8,
        bootstrap: 45.1,
    },
    Coverage {
        machine: "each step by itself, 2 %",
        apart_s: 30.0,
        six: 95.1,
        looks: 99.0,
        blocks: 7.2,
        own: 95.4,
        plain_t: 96.5,
        bootstrap: 93.4,
    },
    Coverage {
        machine: "each step by itself, 2 %, on a machine that slows down by 15 % while it warms up",
        apart_s: 30.0,
        six: 95.0,
        looks: 98.9,
        blocks: 7.2,
        own: 99.8,
        plain_t: 99.7,
        bootstrap: 93.4,
    },
    Coverage {
        machine: "heavy tails: Student's t of 3 degrees of freedom, 2 %, and each launch by 1 %",
        apart_s: 30.0,
        six: 94.7,
        looks: 98.5,
        blocks: 29.5,
        own: 95.5,
        plain_t: 66.5,
        bootstrap: 93.3,
    },
    Coverage {
        machine: "each step resembles the one before it (correlation 0.98), 3 %",
        apart_s: 30.0,
        six: 94.6,
        looks: 97.8,
        blocks: 44.9,
        own: 94.6,
        plain_t: 26.4,
        bootstrap: 93.2,
    },
    Coverage {
        machine: "two humps: every other launch, by chance, is slower by 6 %",
        apart_s: 30.0,
        six: 95.9,
        looks: 98.8,
        blocks: 36.6,
        own: 96.6,
        plain_t: 22.6,
        bootstrap: 93.7,
    },
    Coverage {
        machine: "two humps of one engine: every other launch of it, by chance, is slower by 6 %",
        apart_s: 30.0,
        six: 96.4,
        looks: 95.9,
        blocks: 10.4,
        own: 94.6,
        plain_t: 31.4,
        bootstrap: 93.1,
    },
    Coverage {
        machine: "two moods of half a minute each: in one of them one engine is slower by 50 %, the other by 3 %",
        apart_s: 30.0,
        six: 95.0,
        looks: 96.5,
        blocks: 15.9,
        own: 93.0,
        plain_t: 28.4,
        bootstrap: 91.4,
    },
    Coverage {
        machine: "each step by itself, 2 %",
        apart_s: 60.0,
        six: 95.3,
        looks: 98.9,
        blocks: 7.1,
        own: 94.7,
        plain_t: 94.0,
        bootstrap: 93.7,
    },
    Coverage {
        machine: "each step by itself, 2 %, on a machine that slows down by 15 % while it warms up",
        apart_s: 60.0,
        six: 95.2,
        looks: 98.9,
        blocks: 7.1,
        own: 99.9,
        plain_t: 97.3,
        bootstrap: 93.5,
    },
    Coverage {
        machine: "heavy tails: Student's t of 3 degrees of freedom, 2 %, and each launch by 1 %",
        apart_s: 60.0,
        six: 95.0,
        looks: 98.8,
        blocks: 30.1,
        own: 95.0,
        plain_t: 65.5,
        bootstrap: 93.0,
    },
    Coverage {
        machine: "each step resembles the one before it (correlation 0.98), 3 %",
        apart_s: 60.0,
        six: 95.2,
        looks: 98.1,
        blocks: 45.6,
        own: 95.1,
        plain_t: 26.5,
        bootstrap: 93.7,
    },
    Coverage {
        machine: "two humps: every other launch, by chance, is slower by 6 %",
        apart_s: 60.0,
        six: 96.3,
        looks: 99.1,
        blocks: 37.1,
        own: 97.2,
        plain_t: 20.6,
        bootstrap: 93.2,
    },
    Coverage {
        machine: "two humps of one engine: every other launch of it, by chance, is slower by 6 %",
        apart_s: 60.0,
        six: 96.7,
        looks: 96.4,
        blocks: 10.4,
        own: 94.4,
        plain_t: 29.6,
        bootstrap: 93.2,
    },
    Coverage {
        machine: "two moods of half a minute each: in one of them one engine is slower by 50 %, the other by 3 %",
        apart_s: 60.0,
        six: 96.3,
        looks: 97.4,
        blocks: 15.8,
        own: 94.5,
        plain_t: 30.7,
        bootstrap: 92.7,
    },
];
