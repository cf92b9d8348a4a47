//! The judgement: does a cell compute what the reference computes?

use schema::{Outcome, OutcomeKind, Precision, record::Parity};

use crate::tensors::{self, Distance, Flaw, Outputs};

/// A cell may be this much further from the reference than PyTorch eager at the same precision. A
/// wrong graph or a silent loss of precision is off by hundreds.
const ALLOWANCE: f64 = 10.0;

/// The outputs that a judgement needs.
pub(crate) struct Exhibits<'a> {
    /// PyTorch eager in fp64 on the CPU.
    pub(crate) reference: &'a Outputs,
    /// What the reference is called.
    pub(crate) reference_name: &'a str,
    /// PyTorch eager at the cell's precision on the cell's device.
    pub(crate) eager: &'a Outputs,
    /// What that is called.
    pub(crate) eager_name: &'a str,
    /// The cell's own.
    pub(crate) cell: &'a Outputs,
}

/// Judges a cell: its parity where it could be computed, and what keeps it from being measured.
pub(crate) fn judge(
    exhibits: &Exhibits<'_>,
    precision: Precision,
) -> (Option<Parity>, Option<Outcome>) {
    let roundoff = precision.unit_roundoff();
    let unverified = |who: &str, reason: String| {
        let reason = format!("{who} cannot serve as a measure: {reason}");
        (
            None,
            Some(Outcome::new(OutcomeKind::ParityUnverified, reason)),
        )
    };
    let cell = match tensors::distances(exhibits.reference, exhibits.cell, roundoff) {
        Ok(distances) => distances,
        Err(Flaw::Reference(reason)) => return unverified(exhibits.reference_name, reason),
        Err(Flaw::Candidate(reason)) => {
            return (None, Some(Outcome::new(OutcomeKind::ParityFailed, reason)));
        }
    };
    let eager = match tensors::distances(exhibits.reference, exhibits.eager, roundoff) {
        Ok(distances) => distances,
        Err(Flaw::Reference(reason) | Flaw::Candidate(reason)) => {
            return unverified(exhibits.eager_name, reason);
        }
    };
    if let Some(lost) = eager.iter().find(|distance| distance.error == f64::MAX) {
        let reason = format!(
            "its `{}` has nothing in common with the reference's",
            lost.name
        );
        return unverified(exhibits.eager_name, reason);
    }
    let Some(parity) = worst(exhibits, &cell, &eager, roundoff) else {
        return unverified(exhibits.reference_name, "there is no tensor".to_owned());
    };
    let outcome = (parity.worst_share > 1.0).then(|| {
        let reason = format!(
            "`{}` is off by {:.2e} (relative L2 error); {} is off by {:.2e}, which allows {:.2e}",
            parity.tensor, parity.error, exhibits.eager_name, parity.eager_error, parity.bound
        );
        Outcome::new(OutcomeKind::ParityFailed, reason)
    });
    (Some(parity), outcome)
}

/// The tensor that comes nearest to its bound, or goes furthest beyond it; the first of equals.
fn worst(
    exhibits: &Exhibits<'_>,
    cell: &[Distance],
    eager: &[Distance],
    roundoff: f64,
) -> Option<Parity> {
    let shares = cell.iter().zip(eager).map(|(cell, eager)| {
        let bound = (ALLOWANCE * eager.error.max(roundoff)).min(f64::MAX);
        (cell, eager, bound, (cell.error / bound).min(f64::MAX))
    });
    let (cell, eager, bound, worst_share) =
        shares.reduce(|worst, next| if next.3 > worst.3 { next } else { worst })?;
    Some(Parity {
        reference: exhibits.reference_name.to_owned(),
        error: cell.error,
        tensor: cell.name.clone(),
        eager_error: eager.error,
        bound,
        worst_share,
        losses: exhibits.cell.losses.clone(),
        reference_losses: exhibits.reference.losses.clone(),
    })
}
