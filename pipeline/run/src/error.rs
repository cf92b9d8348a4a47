//! What ends a run. Workers never do.

use store::StoreError;

/// Why a run could not go on.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The store cannot keep what is measured.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The cluster does not do what it is asked for.
    #[error("`{command}`: {reason}")]
    Slurm {
        /// Which of Slurm's commands, or of our own on a node.
        command: String,
        /// What it said.
        reason: String,
    },
    /// The plan contradicts itself.
    #[error("the plan cannot be run: heat `{group}` belongs to job `{job}`, which the plan lacks")]
    NoSuchJob {
        /// The heat.
        group: String,
        /// The job that it names.
        job: String,
    },
}

/// Why a heat ended before its end.
#[derive(Debug)]
pub(crate) enum Stop {
    /// Somebody asked for it.
    Interrupted,
    /// What its networks are made of is not there now: a file of the user's, room on the disk. That is
    /// no cell's outcome, which would stand for the heat until somebody asks for a fresh one; the
    /// heat is not reached, its blocks are kept, and the sweep goes on.
    Later(String),
    /// The run cannot go on.
    Failed(RunError),
}

impl From<RunError> for Stop {
    fn from(error: RunError) -> Self {
        Self::Failed(error)
    }
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        Self::Failed(RunError::Store(error))
    }
}
