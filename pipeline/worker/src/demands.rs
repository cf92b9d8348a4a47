//! What all workers that are driven from Rust ask of a cell, in the same words.

use schema::{Boundary, Cell, HostLanguage, Mode, Optimizer, Outcome, Strategy};

use crate::failure::unsupported;

/// The boundaries of workers that know no events of a device.
pub const BY_HOST: &[Boundary] = &[Boundary::Step, Boundary::Request];

/// The strategies of workers that train in one process, the batch as it is.
pub const ALONE: &[Strategy] = &[Strategy::Single];

/// Checks that a cell is driven from Rust, is spread by one of the worker's `strategies`, and is timed at one
/// of its `boundaries`, which its device has, too.
///
/// # Errors
/// `unsupported`, with what it asks for instead.
pub fn check_drive(
    cell: &Cell,
    boundaries: &[Boundary],
    strategies: &[Strategy],
) -> Result<(), Outcome> {
    if cell.host_language != HostLanguage::Rust {
        return Err(unsupported("this worker is driven from Rust"));
    }
    check_strategy(cell, strategies)?;
    if !boundaries.contains(&cell.boundary) {
        let known: Vec<&str> = boundaries.iter().map(|boundary| boundary.word()).collect();
        return Err(unsupported(format!(
            "boundary `{}` is not implemented; known: `{}`",
            cell.boundary,
            known.join("`, `")
        )));
    }
    if !cell.boundary.exists_on(cell.device) {
        return Err(unsupported(format!(
            "boundary `{}` is between events of a GPU; the device is {}",
            cell.boundary, cell.device
        )));
    }
    Ok(())
}

/// Whether a worker spreads a cell as it asks, and the cell asks for what can be.
fn check_strategy(cell: &Cell, strategies: &[Strategy]) -> Result<(), Outcome> {
    let (strategy, parts) = (cell.strategy, cell.world_size);
    if !strategies.contains(&strategy) {
        let known: Vec<&str> = strategies.iter().map(|known| known.word()).collect();
        return Err(unsupported(format!(
            "strategy `{strategy}` is not implemented; known: `{}`",
            known.join("`, `")
        )));
    }
    if parts == 0 || strategy == Strategy::Single && parts != 1 {
        return Err(unsupported(format!(
            "world_size is {parts} with the strategy `{strategy}`"
        )));
    }
    if strategy != Strategy::Single && cell.mode != Mode::Training {
        return Err(unsupported(format!(
            "strategy `{strategy}` is one of training"
        )));
    }
    if cell.part_dims().is_none() {
        let (batch, parts) = (cell.batch(), cell.parts());
        return Err(unsupported(format!(
            "a batch of {batch} does not fall into {parts} equal parts"
        )));
    }
    Ok(())
}

/// How inputs reach the engine and outputs leave it at the boundary `request`, the same for all
/// engines: the setting on the page of a cell.
pub const REQUEST: &str = "copied from the caller's memory and back to it in every step, in the engine's own element types and layout";

/// What tells the time of steps at the boundary `device`: the setting on the page of a cell.
pub const EVENTS: &str = "two events on the device's stream, before and after the work of each step; they resolve half a microsecond or so";

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

/// Whether a factor of a cell has the second of its two values; where the cell says nothing it has the
/// first.
///
/// # Errors
/// `unsupported`: it has neither.
pub fn choice(cell: &Cell, factor: &str, [usual, other]: [&str; 2]) -> Result<bool, Outcome> {
    match cell.factors.get(factor).map(String::as_str) {
        None => Ok(false),
        Some(value) if value == usual => Ok(false),
        Some(value) if value == other => Ok(true),
        Some(value) => Err(unsupported(format!(
            "{factor} is `{value}`; known: `{usual}`, `{other}`"
        ))),
    }
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

#[cfg(test)]
mod tests {
    use schema::Device;

    use super::*;

    #[test]
    fn a_batch_falls_into_as_many_parts_as_are_asked_for() {
        use schema::{BATCH, SCALING, WEAK};

        let graph = models::sample::perceptron(1).unwrap();
        let asked = |strategy, world_size, batch: u64, mode, scaling: Option<&str>| {
            let scaling = scaling.map(|value| (SCALING.to_owned(), value.to_owned()));
            let cell = Cell {
                strategy,
                world_size,
                mode,
                dims: [(BATCH.to_owned(), batch)].into(),
                factors: scaling.into_iter().collect(),
                ..Cell::plain(&graph, "e/v".parse().unwrap())
            };
            let known = [Strategy::Single, Strategy::Ddp];
            let checked = check_drive(&cell, BY_HOST, &known);
            checked.map_err(|outcome| outcome.reason)
        };
        let (training, inference) = (Mode::Training, Mode::Inference);
        assert_eq!(asked(Strategy::Single, 1, 3, inference, None), Ok(()));
        assert_eq!(asked(Strategy::Ddp, 1, 3, training, None), Ok(()));
        assert_eq!(asked(Strategy::Ddp, 3, 6, training, None), Ok(()));
        assert_eq!(asked(Strategy::Ddp, 3, 4, training, Some(WEAK)), Ok(()));
        for (strategy, world_size, mode, reason) in [
            (Strategy::Single, 2, training, "world_size is 2 with"),
            (Strategy::Ddp, 0, training, "world_size is 0 with"),
            (Strategy::Ddp, 2, inference, "one of training"),
            (
                Strategy::Ddp,
                3,
                training,
                "a batch of 4 does not fall into 3",
            ),
            (
                Strategy::DataParallel,
                2,
                training,
                "known: `single`, `ddp`",
            ),
        ] {
            let told = asked(strategy, world_size, 4, mode, None).unwrap_err();
            assert!(told.contains(reason), "{told}");
        }
    }

    #[test]
    fn a_boundary_is_one_that_worker_and_device_have() {
        let graph = models::sample::perceptron(1).unwrap();
        let asked = |boundary, device, known| {
            let cell = Cell {
                boundary,
                device,
                ..Cell::plain(&graph, "e/v".parse().unwrap())
            };
            check_drive(&cell, known, ALONE).map_err(|outcome| {
                assert_eq!(outcome.kind, schema::OutcomeKind::Unsupported);
                outcome.reason
            })
        };
        let gpu = Device::Cuda(0);
        for device in [Device::Cpu, gpu] {
            for &boundary in BY_HOST {
                assert_eq!(asked(boundary, device, BY_HOST), Ok(()));
            }
            let reason = asked(Boundary::Device, device, BY_HOST).unwrap_err();
            let known = "boundary `device` is not implemented; known: `step`, `request`";
            assert_eq!(reason, known);
        }
        assert_eq!(asked(Boundary::Device, gpu, Boundary::ALL), Ok(()));
        let reason = asked(Boundary::Device, Device::Cpu, Boundary::ALL).unwrap_err();
        let lacks = "boundary `device` is between events of a GPU; the device is cpu";
        assert_eq!(reason, lacks);
    }
}
