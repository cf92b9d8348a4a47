//! The timing boundary `request`: where inputs come from changes no number.

use schema::{Boundary, Mode, protocol::ParityOutputs};

use super::{
    results::parity,
    subject::{Subject, Trouble, demand},
};

pub(super) fn request(subject: &Subject<'_>) -> Result<(), Trouble> {
    let boundaries = subject.boundaries();
    if !boundaries.contains(&Boundary::Request) || !boundaries.contains(&Boundary::Step) {
        let reason = "the variant is not timed at the boundaries `step` and `request`";
        return Err(Trouble::Skip(reason.to_owned()));
    }
    for mode in [Mode::Inference, Mode::Training] {
        if !subject.can(mode) || mode == Mode::Training && subject.graph.loss.is_none() {
            continue;
        }
        let (told, expected) = outputs(subject, mode, Boundary::Step)?;
        let (again, found) = outputs(subject, mode, Boundary::Request)?;
        demand(told == again && expected == found, || {
            format!("{mode} gives other numbers at the boundary `request` than at `step`")
        })?;
    }
    Ok(())
}

/// What is told of a parity file, and its bytes.
fn outputs(
    subject: &Subject<'_>,
    mode: Mode,
    boundary: Boundary,
) -> Result<(ParityOutputs, Vec<u8>), Trouble> {
    let mut guest = subject.start()?;
    let mut load = subject.load(mode, &guest)?;
    load.cell.boundary = boundary;
    guest.load(load)?;
    let outputs = parity(&mut guest, "outputs")?;
    guest.leave()?;
    Ok(outputs)
}
