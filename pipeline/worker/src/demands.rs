//! What all workers that are driven from Rust ask of a cell, in the same words.

use schema::{Boundary, Cell, HostLanguage, Mode, Optimizer, Outcome};

use crate::failure::unsupported;

/// Checks that a cell is driven from Rust, runs in one process, and is timed by the host's clock.
///
/// # Errors
/// `unsupported`, with what it asks for instead.
pub fn check_drive(cell: &Cell) -> Result<(), Outcome> {
    if cell.host_language != HostLanguage::Rust {
        return Err(unsupported("this worker is driven from Rust"));
    }
    if cell.world_size != 1 {
        return Err(unsupported(format!(
            "world_size is {}, not 1",
            cell.world_size
        )));
    }
    if cell.boundary == Boundary::Device {
        return Err(unsupported(format!(
            "boundary `{}` is not implemented; `step` and `request` are",
            cell.boundary
        )));
    }
    Ok(())
}

/// How inputs reach the engine and outputs leave it at the boundary `request`, the same for all
/// engines: the setting on the page of a cell.
pub const REQUEST: &str = "copied from the caller's memory and back to it in every step, in the engine's own element types and layout";

/// Whether every step of a cell begins with its inputs in the caller's memory, and ends with its results
/// there ([`REQUEST`]).
#[must_use]
pub fn takes_requests(cell: &Cell) -> bool {
    cell.boundary == Boundary::Request
}

/// The number of threads of a cell, as the engine's library counts them.
///
/// # Errors
/// `unsupported`: it is 0, or more than the library can be told.
pub fn threads<T: TryFrom<u32>>(cell: &Cell) -> Result<T, Outcome> {
    Some(cell.threads)
        .filter(|&threads| threads > 0)
        .and_then(|threads| T::try_from(threads).ok())
        .ok_or_else(|| unsupported(format!("threads cannot be {}", cell.threads)))
}

/// What a cell trains with; `None` where it does not train.
///
/// # Errors
/// `unsupported`: it trains with nothing.
pub fn optimizer(cell: &Cell) -> Result<Option<Optimizer>, Outcome> {
    match (cell.mode, cell.optimizer) {
        (Mode::Inference, _) => Ok(None),
        (Mode::Training, Some(optimizer)) => Ok(Some(optimizer)),
        (Mode::Training, None) => Err(unsupported("training needs an optimizer")),
    }
}
