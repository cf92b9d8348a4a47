//! Telling somebody how a run gets on. Nothing is told while a worker measures.

use std::{path::Path, time::Duration};

use schema::{Cell, Outcome, plan::PlannedCell};

/// Somebody who wants to know.
pub trait Observer {
    /// Something happened. Called between measurements only.
    fn observe(&mut self, event: &Event<'_>);
}

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Event<'a> {
    /// A corrupt artifact was moved out of the way; what it held is measured again.
    SetAside {
        /// Where it is now.
        place: &'a Path,
        /// What was wrong with it.
        reason: &'a str,
    },
    /// The store has the heat already; told once, though several groups may share it.
    Cached {
        /// The group.
        group: &'a str,
        /// Its place in the plan, from 0.
        index: usize,
        /// Number of heats in the plan.
        of: usize,
    },
    /// A heat begins, or goes on.
    HeatStarted {
        /// The group.
        group: &'a str,
        /// Its place in the plan, from 0.
        index: usize,
        /// Number of heats in the plan.
        of: usize,
        /// Blocks that an earlier, interrupted run measured.
        blocks_kept: u32,
        /// Blocks until its first look.
        blocks: u32,
        /// Estimate of the time that the run will still take.
        left: Duration,
    },
    /// A block begins.
    BlockStarted {
        /// The group.
        group: &'a str,
        /// Number of the block, from 0.
        block: u32,
        /// Blocks until the next look, after which it may end.
        of: u32,
        /// Estimate of the time that the run will still take, if no heat goes on after that.
        left: Duration,
    },
    /// A block is measured and kept.
    BlockMeasured {
        /// The group.
        group: &'a str,
    },
    /// Nothing is measured for a while: the blocks of each group under way are to lie further apart than
    /// they would, and no others fill the time.
    Rests {
        /// The group that goes on first.
        group: &'a str,
        /// How long that is.
        time: Duration,
        /// Estimate of the time that the run will still take.
        left: Duration,
    },
    /// A worker reaches a phase.
    Launch {
        /// What it runs; the reference of parity is no cell of the plan.
        cell: &'a Cell,
        /// What it does next.
        phase: Phase,
    },
    /// A launch did not end well.
    Failed {
        /// What was run.
        cell: &'a Cell,
        /// How it ended.
        outcome: &'a Outcome,
        /// The end of what it wrote to standard error; empty where it wrote nothing.
        log: &'a str,
    },
    /// Something that a reader should know and that is no failure.
    Note {
        /// In words.
        text: &'a str,
    },
    /// A heat is complete and kept.
    HeatFinished {
        /// The group.
        group: &'a str,
        /// Its place in the plan, from 0.
        index: usize,
        /// Its cells, in the order in which it holds them.
        cells: &'a [PlannedCell],
        /// How each ended.
        outcomes: &'a [Outcome],
        /// Why it ended where it did; `None` where the number of its blocks was fixed.
        stopped: Option<&'a str>,
    },
    /// A heat was not measured, or not to its end.
    NotReached {
        /// The group.
        group: &'a str,
        /// Why.
        reason: &'a str,
    },
}

/// What a worker does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Its process starts.
    Start,
    /// It builds the network.
    Load,
    /// It runs for the ranges of its values, from which grids of integers are made.
    Calibration,
    /// It runs for its outputs, to be compared.
    Parity,
    /// It runs some steps of a batch, to see whether it fits into memory.
    Frontier {
        /// The batch.
        batch: u64,
    },
    /// It runs until the step time is steady.
    WarmUp,
    /// It says where the time of its steps goes.
    Profile,
    /// Its steps are timed.
    Measure {
        /// The round, from 0.
        round: u32,
        /// Rounds in all.
        of: u32,
    },
    /// It runs for the energy that its steps take.
    Energy,
}
