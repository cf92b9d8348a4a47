//! What blocks of step times allow to say. Pure functions of numbers: whoever decides whether a heat
//! goes on, and whoever judges it afterwards, asks the same.
//!
//! * A cell's value in a block is the median of its samples there ([`samples`]); blocks are the
//!   independent units, samples of one stretch are not.
//! * Two cells are compared in the blocks that measured both, round by round where three or more were
//!   interleaved ([`pair`]), by an interval of the centre of their differences ([`interval`]), at a
//!   confidence that all verdicts of a job and all looks at them share ([`family`]).
//! * Whether blocks are as independent as that takes them to be is told of each job ([`serial`]).
//! * Identical cells show what a difference means nothing below ([`noise`]).
//! * A verdict holds an interval against a margin and that noise ([`verdict`]); at a look it is asked
//!   whether more blocks would tell more ([`enough`]).
//! * What is ready later earns that back after some steps, or never ([`payback`]).
//! * Over batches, a time per sample falls to where nothing more is gained ([`trend`]), and the lead may
//!   change ([`crossover`]).
//!
//! Same numbers in, same bits out, whatever the processor: one order of every sum, logarithms from
//! `libm`, numbers rounded to six significant digits before anything is decided from them ([`number`]).

#![forbid(unsafe_code)]

pub mod coverage;
pub mod crossover;
pub mod enough;
pub mod family;
pub mod interleaving;
pub mod interval;
pub mod lengths;
pub mod noise;
pub mod number;
pub mod pair;
pub mod payback;
pub mod percentile;
pub mod results;
pub mod samples;
pub mod serial;
pub mod trace;
pub mod trend;
pub mod trials;
pub mod verdict;
