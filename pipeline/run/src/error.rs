//! What ends a run. Workers never do.

use store::StoreError;

/// Why a run could not go on.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The store cannot keep what is measured.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The plan contradicts itself.
    #[error("the plan cannot be run: heat `{group}` belongs to job `{job}`, which the plan lacks")]
    NoSuchJob {
        /// The heat.
        group: String,
        /// The job that it names.
        job: String,
    },
    /// What a heat was judged on cannot be made again. Its blocks are kept: that is no cell's outcome.
    #[error("cannot go on with heat `{group}`, which is kept as it is: {reason}")]
    CannotGoOn {
        /// The heat.
        group: String,
        /// Why.
        reason: String,
    },
}

/// Why a heat ended before its end.
#[derive(Debug)]
pub(crate) enum Stop {
    /// Somebody asked for it.
    Interrupted,
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
