//! How the parts of a batch are spread: the passes of an iteration, for each of the strategies.

mod accumulated;
pub(crate) mod buckets;
mod data_parallel;
mod ddp;

use schema::{Graph, Outcome, graph::Role};
use tch::{TchError, Tensor};

pub(crate) use accumulated::Accumulated;
pub(crate) use data_parallel::DataParallel;
pub(crate) use ddp::Ddp;

use crate::{failure::Fault, tape::Tape};

/// Where the values of a network are that is fed more than one part: what is fed comes first, parameters
/// next, in the graph's order.
#[derive(Debug, Clone)]
struct Places {
    /// How many values are fed, labels among them.
    fed: usize,
    /// The role of each parameter.
    roles: Vec<Role>,
}

impl Places {
    fn of(graph: &Graph) -> Self {
        Self {
            // The labels are one more.
            fed: graph.inputs.len() + 1,
            roles: graph.parameters.iter().map(|known| known.role).collect(),
        }
    }

    /// Places of the parameters that have this role.
    fn with(&self, role: Role) -> impl Iterator<Item = usize> {
        let places = (self.fed..).zip(&self.roles);
        places.filter_map(move |(place, known)| (*known == role).then_some(place))
    }
}

/// The part of this number of so many, of equal length in the first dimension.
fn part(whole: &Tensor, number: usize, parts: usize) -> Result<Tensor, Fault> {
    let rows = *whole.size().first().ok_or(Fault::Missing)?;
    let parts = i64::try_from(parts).unwrap_or(i64::MAX);
    let length = rows.checked_div(parts).unwrap_or(rows);
    let number = i64::try_from(number).unwrap_or(i64::MAX);
    Ok(whole.f_narrow(0, number.saturating_mul(length), length)?)
}

/// Feeds the part of this number of so many.
fn feed(
    values: &mut [Option<Tensor>],
    whole: &[Tensor],
    number: usize,
    parts: usize,
) -> Result<(), Outcome> {
    for (value, whole) in values.iter_mut().zip(whole) {
        let fed = part(whole, number, parts).map_err(|fault| fault.at("inputs"))?;
        *value = Some(fed);
    }
    Ok(())
}

/// The backward pass of one of so many equal parts, after its forward pass; gives its share of the loss.
fn in_share(tape: &Tape, values: &[Option<Tensor>], parts: usize) -> Result<Tensor, Outcome> {
    let loss = tape.loss(values)?;
    let back = || {
        let share = loss.f_div_scalar(i64::try_from(parts).unwrap_or(i64::MAX))?;
        share.f_backward()?;
        share.f_detach()
    };
    back().map_err(|error: TchError| Fault::from(error).at("backward"))
}

/// The loss of all parts, of their shares.
fn sum(shares: &[Tensor]) -> Result<Tensor, Outcome> {
    let sum = Tensor::f_stack(shares, 0).and_then(|shares| shares.f_sum(None));
    sum.map_err(|error| Fault::from(error).at("loss"))
}

/// The value at a place.
fn at(values: &[Option<Tensor>], place: usize) -> Result<&Tensor, Fault> {
    values
        .get(place)
        .and_then(Option::as_ref)
        .ok_or(Fault::Missing)
}

/// Runs an iteration that is given what is fed for all parts, while its place among the values is free for
/// that of one; it is put back whatever happens meanwhile.
fn in_parts<T>(
    values: &mut [Option<Tensor>],
    places: &Places,
    run: impl FnOnce(&mut [Option<Tensor>], &[Tensor]) -> Result<T, Outcome>,
) -> Result<T, Outcome> {
    let fed = values.iter_mut().take(places.fed);
    let whole: Result<Vec<_>, _> = fed
        .map(|value| value.take().ok_or(Fault::Missing))
        .collect();
    let whole = whole.map_err(|fault| fault.at("inputs"))?;
    let ran = run(values, &whole);
    for (value, tensor) in values.iter_mut().zip(whole) {
        *value = Some(tensor);
    }
    ran
}
