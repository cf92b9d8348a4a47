//! What rank 0 hands on to the others, and what they answer.

use schema::{
    Digest, Outcome,
    protocol::{Load, Memory, StepExchanges},
};
use serde::{Deserialize, Serialize};

/// What all ranks do next, each for its part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Order {
    /// Build the network and run the first step.
    Load(Box<Load>),
    /// So many steps.
    Steps(u64),
    /// So many iterations from the initial state, and back to it.
    Parity(u32),
    /// Back to the initial state.
    Reset,
    /// So many steps, and what is exchanged in each.
    Exchanges(u64),
    /// Tell memory use.
    Memory,
    /// Leave.
    Bye,
}

/// How a rank carried an order out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Answer {
    /// It did.
    Done,
    /// What each of its steps took, in whole nanoseconds.
    Steps(Vec<u64>),
    /// Its losses, and the hash of how far its weights moved.
    Parity { losses: Vec<f64>, updates: Digest },
    /// What it exchanged.
    Exchanges(Vec<StepExchanges>),
    /// Its memory.
    Memory(Memory),
    /// It did not, and has left.
    Failed(Outcome),
}
