//! The judgement: does a cell compute what the reference computes?

use schema::{Outcome, OutcomeKind, Precision, record::Parity};

use crate::{
    tensors::{self, Distance, Flaw, Growth, Outputs},
    top1,
};

/// A cell may be this much further from the reference than PyTorch eager at the same precision. A
/// wrong graph or a silent loss of precision is off by hundreds.
const ALLOWANCE: f64 = 10.0;

/// In 8-bit integers eager simulates the very network on the same grids: what an engine computes is
/// off by what the grids are, and beyond that by what falls on the other side of a step.
const INT8_ALLOWANCE: f64 = 2.0;

/// A cell in integers is off by at least this share of what the simulation of its grids is: they
/// differ by what falls on the other side of a step, and both by what the grids are. One that is
/// nearer does not compute on them.
const INT8_LEAST: f64 = 0.1;

/// Only a simulation that is off by so much, in unit roundoffs of binary32, tells computing on grids
/// from computing in fp32: a tenth of it is beyond what rounding makes of any network of the zoo.
const INT8_TELLING: f64 = EAGER_ROUNDOFFS;

/// No bound is above this, whatever the precision: outputs that have nothing to do with the
/// reference's are off by about 1.
const LARGEST_BOUND: f64 = 0.5;

/// In an output or the first loss eager itself may be off by so many unit roundoffs at most.
/// Outputs of the zoo's networks are off by 4 to 22 in fp32; one that computes in a lower precision
/// than it claims, TF32 or bf16 for fp32 say, is off by tens of thousands, and must not serve as
/// the measure of others.
const EAGER_ROUNDOFFS: f64 = 1024.0;

/// What grows is judged while eager is off by at most this much. In a deep network, in a narrow
/// precision, or under an optimiser that divides by the size of a gradient, rounding grows up to
/// where two right trainings have little in common.
const LARGEST_GROWTH: f64 = LARGEST_BOUND / ALLOWANCE;

/// What a reference that computes in fp64 is off by, in unit roundoffs of a narrower precision.
pub(crate) const EXACT: f64 = 0.0;

/// A reference in the cell's own precision is off by rounding itself, and what is run on the same
/// kernels by the same rounding: a bound is made from so many unit roundoffs at least. Outputs of the
/// zoo's networks are off by 4 to 22 in fp32.
pub(crate) const ROUNDED: f64 = 32.0;

/// The outputs that a judgement needs.
pub(crate) struct Exhibits<'a> {
    /// PyTorch eager in fp64 on the CPU; of a file that no graph can say, ONNX Runtime with its
    /// optimisation off.
    pub(crate) reference: &'a Outputs,
    /// What the reference is called.
    pub(crate) reference_name: &'a str,
    /// What rounding makes of the reference itself, in unit roundoffs: [`EXACT`] or [`ROUNDED`].
    pub(crate) least_roundoffs: f64,
    /// PyTorch eager at the cell's precision on the cell's device; of a file that no graph can say,
    /// ONNX Runtime as its users run it.
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
    let cell = match tensors::distances(exhibits.reference, exhibits.cell, roundoff) {
        Ok(distances) => distances,
        Err(flaw) => return flawed(exhibits, flaw),
    };
    let eager = match tensors::distances(exhibits.reference, exhibits.eager, roundoff) {
        Ok(distances) => distances,
        Err(Flaw::Reference(reason) | Flaw::Candidate(reason) | Flaw::Unreadable(reason)) => {
            return unverified(exhibits.eager_name, reason);
        }
    };
    let limit = (EAGER_ROUNDOFFS * roundoff).min(LARGEST_BOUND);
    if let Some(coarse) = eager
        .iter()
        .find(|distance| distance.growth == Growth::None && distance.error > limit)
    {
        let reason = format!(
            "its `{}` is off by {:.2e} (relative L2 error), more than rounding in {precision} explains ({limit:.2e})",
            coarse.name, coarse.error
        );
        return unverified(exhibits.eager_name, reason);
    }
    let mut growing = eager
        .iter()
        .filter(|distance| distance.growth != Growth::None)
        .peekable();
    if growing.peek().is_some() && !growing.any(is_measure) {
        let reason = "rounding alone moves all its gradients and updates too far".to_owned();
        return unverified(exhibits.eager_name, reason);
    }
    let allowance = match precision.is_int8() {
        true => INT8_ALLOWANCE,
        false => ALLOWANCE,
    };
    let Some(mut parity) = worst(exhibits, &cell, &eager, roundoff, allowance) else {
        return unverified(exhibits.reference_name, "there is no tensor".to_owned());
    };
    if precision.is_int8() {
        parity.top1 = match top1::agreement(exhibits.reference, exhibits.cell) {
            Ok(top1) => top1,
            Err(flaw) => return flawed(exhibits, flaw),
        };
        if let Some((cell, eager)) = too_near(&cell, &eager) {
            return off_its_grids(exhibits, parity, cell, eager);
        }
    }
    let outcome = (parity.worst_share > 1.0).then(|| {
        let least = exhibits.least_roundoffs * roundoff;
        let is_least = least > 0.0 && parity.eager_error <= least;
        let at_most = if is_least { "at most " } else { "" };
        let reason = format!(
            "`{}` is off by {:.2e} (relative L2 error); {} is off by {at_most}{:.2e}, which allows {:.2e}",
            parity.tensor, parity.error, exhibits.eager_name, parity.eager_error, parity.bound
        );
        Outcome::new(OutcomeKind::ParityFailed, reason)
    });
    (Some(parity), outcome)
}

/// No judgement: who was to be the measure is none.
fn unverified(who: &str, reason: String) -> (Option<Parity>, Option<Outcome>) {
    let reason = format!("{who} cannot serve as a measure: {reason}");
    let outcome = Outcome::new(OutcomeKind::ParityUnverified, reason);
    (None, Some(outcome))
}

/// What comes of a cell that cannot be held against the reference.
fn flawed(exhibits: &Exhibits<'_>, flaw: Flaw) -> (Option<Parity>, Option<Outcome>) {
    let (kind, reason) = match flaw {
        Flaw::Reference(reason) => return unverified(exhibits.reference_name, reason),
        Flaw::Candidate(reason) => (OutcomeKind::ParityFailed, reason),
        Flaw::Unreadable(reason) => (OutcomeKind::Crashed, reason),
    };
    (None, Some(Outcome::new(kind, reason)))
}

/// An output of a cell in integers, and of the simulation of its grids, where all outputs that can
/// tell are nearer to the reference than grids allow.
fn too_near<'a>(
    cell: &'a [Distance],
    eager: &'a [Distance],
) -> Option<(&'a Distance, &'a Distance)> {
    let telling = INT8_TELLING * Precision::Fp32.unit_roundoff();
    let mut pairs = cell
        .iter()
        .zip(eager)
        .filter(|(_, eager)| eager.error > telling);
    let first = pairs.next()?;
    let is_near = |(cell, eager): (&Distance, &Distance)| cell.error < INT8_LEAST * eager.error;
    (is_near(first) && pairs.all(is_near)).then_some(first)
}

/// The failure of a cell in integers that is too near to the reference.
fn off_its_grids(
    exhibits: &Exhibits<'_>,
    parity: Parity,
    cell: &Distance,
    eager: &Distance,
) -> (Option<Parity>, Option<Outcome>) {
    let least = INT8_LEAST * eager.error;
    let reason = format!(
        "its outputs are nearer to the network in floats than its grids allow: it does not compute on \
         them; `{}` is off by {:.2e} (relative L2 error) where {} is off by {:.2e}",
        cell.name, cell.error, exhibits.eager_name, eager.error
    );
    let parity = Parity {
        tensor: cell.name.clone(),
        error: cell.error,
        eager_error: eager.error,
        bound: least,
        worst_share: (least / cell.error).min(f64::MAX),
        ..parity
    };
    let outcome = Outcome::new(OutcomeKind::ParityFailed, reason);
    (Some(parity), Some(outcome))
}

/// Whether eager is near enough to the reference to be the measure of others.
fn is_measure(eager: &Distance) -> bool {
    eager.growth == Growth::None || eager.error <= LARGEST_GROWTH
}

/// What rounding makes of usual tensors: medians of eager's errors over those that are judged.
struct Usual {
    movement: f64,
    update: f64,
}

impl Usual {
    fn of(eager: &[Distance]) -> Self {
        let median = |growth: Growth| {
            let mut errors: Vec<f64> = eager
                .iter()
                .filter(|distance| distance.growth == growth && is_measure(distance))
                .map(|distance| distance.error)
                .collect();
            errors.sort_by(f64::total_cmp);
            errors.get(errors.len() / 2).copied().unwrap_or(0.0)
        };
        Self {
            movement: median(Growth::Sums),
            update: median(Growth::Iterations),
        }
    }

    /// By how much rounding moves one thing, as far as eager tells. Eager's own error is one draw of
    /// many, and near to nothing by chance now and then: in a single number such as a loss, in an
    /// update under an optimiser that divides by the size of a gradient, in a mean whose last digits
    /// are decided by the order of the sum. There, what eager is usually off by counts, too.
    fn rounding(&self, eager: &Distance) -> f64 {
        let usual = match eager.growth {
            Growth::None | Growth::Layers => 0.0,
            Growth::Sums => self.movement,
            Growth::Iterations => self.update,
            Growth::Loss { change } => self.update * change,
        };
        eager.error.max(usual)
    }
}

/// The tensor that comes nearest to its bound, or goes furthest beyond it; the first of equals.
fn worst(
    exhibits: &Exhibits<'_>,
    cell: &[Distance],
    eager: &[Distance],
    roundoff: f64,
    allowance: f64,
) -> Option<Parity> {
    let (judged, unjudged): (Vec<_>, Vec<_>) = cell
        .iter()
        .zip(eager)
        .partition(|(_, eager)| is_measure(eager));
    let usual = Usual::of(eager);
    let least = exhibits.least_roundoffs * roundoff;
    let shares = judged.iter().map(|(cell, eager)| {
        let eager_error = usual.rounding(eager).max(least);
        let bound = (allowance * eager_error.max(roundoff)).min(LARGEST_BOUND);
        (cell, eager_error, bound, (cell.error / bound).min(f64::MAX))
    });
    let (cell, eager_error, bound, worst_share) =
        shares.reduce(|worst, next| if next.3 > worst.3 { next } else { worst })?;
    Some(Parity {
        reference: exhibits.reference_name.to_owned(),
        error: cell.error,
        tensor: cell.name.clone(),
        eager_error,
        bound,
        worst_share,
        judged: judged.len() as u64,
        unjudged: unjudged.len() as u64,
        losses: exhibits.cell.losses.clone(),
        reference_losses: exhibits.reference.losses.clone(),
        top1: None,
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use schema::protocol::{FileElement, Quantity, TensorInfo};

    use super::*;

    const N: usize = 20_000;

    /// A file of tensors, written as a worker writes it.
    struct Made {
        bytes: Vec<u8>,
        tensors: Vec<TensorInfo>,
        losses: Vec<f64>,
    }

    impl Made {
        fn new() -> Self {
            Self {
                bytes: vec![],
                tensors: vec![],
                losses: vec![],
            }
        }

        fn f64(mut self, name: &str, values: &[f64]) -> Self {
            self.bytes
                .extend(values.iter().flat_map(|value| value.to_le_bytes()));
            self.describe(name, values.len(), FileElement::F64)
        }

        fn f32(mut self, name: &str, values: &[f64]) -> Self {
            self.bytes.extend(
                values
                    .iter()
                    .flat_map(|value| (*value as f32).to_le_bytes()),
            );
            self.describe(name, values.len(), FileElement::F32)
        }

        fn describe(mut self, name: &str, count: usize, element: FileElement) -> Self {
            let shape = vec![1, count as u64];
            self.tensors.push(TensorInfo {
                quantity: Quantity::Output,
                name: name.to_owned(),
                shape,
                element,
            });
            self
        }

        /// Tells the last tensor as this quantity.
        fn told_as(mut self, quantity: Quantity) -> Self {
            if let Some(last) = self.tensors.last_mut() {
                last.quantity = quantity;
            }
            self
        }

        fn losses(mut self, losses: &[f64]) -> Self {
            self.losses = losses.to_vec();
            self
        }

        fn try_write(self, folder: &Path) -> Result<Outputs, String> {
            let file = tempfile::NamedTempFile::new_in(folder).unwrap();
            let (_, path) = file.keep().unwrap();
            std::fs::write(&path, self.bytes).unwrap();
            Outputs::new(path, self.tensors, self.losses)
        }
    }

    fn wave(scale: f64) -> Vec<f64> {
        (0..N).map(|i| scale * (i as f64).sin()).collect()
    }

    fn judged(reference: Made, eager: Made, cell: Made) -> (Option<Parity>, Option<Outcome>) {
        judged_in(Precision::Fp32, reference, eager, cell)
    }

    fn judged_in(
        precision: Precision,
        reference: Made,
        eager: Made,
        cell: Made,
    ) -> (Option<Parity>, Option<Outcome>) {
        let folder = tempfile::tempdir().unwrap();
        let write = |made: Made| made.try_write(folder.path()).unwrap();
        let exhibits = Exhibits {
            reference: &write(reference),
            reference_name: "the reference",
            least_roundoffs: EXACT,
            eager: &write(eager),
            eager_name: "eager",
            cell: &write(cell),
        };
        judge(&exhibits, precision)
    }

    fn exact() -> Made {
        Made::new().f64("out", &wave(1.0))
    }

    fn off_by(error: f64) -> Made {
        Made::new().f64("out", &wave(1.0 + error))
    }

    fn refusal(judgement: (Option<Parity>, Option<Outcome>)) -> (OutcomeKind, String) {
        let outcome = judgement.1.unwrap();
        (outcome.kind, outcome.reason)
    }

    #[test]
    fn ten_times_the_error_of_eager_passes_and_more_does_not() {
        for (error, passes) in [(0.0, true), (9.9e-5, true), (1.01e-4, false), (1.0, false)] {
            let (parity, outcome) = judged(exact(), off_by(1e-5), off_by(error));
            let parity = parity.unwrap();
            assert!((parity.error - error).abs() <= 1e-6 * error, "{parity:?}");
            assert!((parity.eager_error - 1e-5).abs() < 1e-11);
            assert!((parity.bound - 1e-4).abs() < 1e-10);
            assert_eq!(
                (parity.worst_share <= 1.0, outcome.is_none()),
                (passes, passes)
            );
            if let Some(outcome) = outcome {
                assert_eq!(outcome.kind, OutcomeKind::ParityFailed);
                assert!(outcome.reason.contains("`out`"), "{}", outcome.reason);
            }
        }
    }

    #[test]
    fn a_reference_that_is_rounded_itself_allows_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let roundoff = Precision::Fp32.unit_roundoff();
        let judged = |error: f64, least_roundoffs: f64| {
            let write = |made: Made| made.try_write(folder.path()).unwrap();
            let exhibits = Exhibits {
                reference: &write(exact()),
                reference_name: "the reference",
                least_roundoffs,
                // The same kernels, so the same numbers.
                eager: &write(exact()),
                eager_name: "as users run it",
                cell: &write(off_by(error)),
            };
            judge(&exhibits, Precision::Fp32)
        };
        for (roundoffs, least, passes) in [
            (9.0, EXACT, true),
            (11.0, EXACT, false),
            (300.0, ROUNDED, true),
            (340.0, ROUNDED, false),
            // bf16 under the name of fp32.
            (20_000.0, ROUNDED, false),
        ] {
            let (parity, outcome) = judged(roundoffs * roundoff, least);
            let parity = parity.unwrap();
            assert_eq!(outcome.is_none(), passes, "{parity:?}");
            // What the bound is made from is what is shown.
            let share = parity.bound / (ALLOWANCE * parity.eager_error.max(roundoff));
            assert!((share - 1.0).abs() < 1e-9, "{parity:?}");
        }
    }

    /// Off by what grids cost, 1e-2; what is off by a twentieth of it computes in floats.
    #[test]
    fn a_cell_in_integers_is_about_as_far_off_as_the_simulation_of_its_grids() {
        for precision in [Precision::Int8Static, Precision::Int8Dynamic] {
            let judged = |eager, cell| judged_in(precision, exact(), off_by(eager), off_by(cell));
            for (error, passes) in [
                (1.9e-2, true),
                (9e-3, true),
                (1.1e-3, true),
                (2.1e-2, false),
                (9e-4, false),
                (5e-4, false),
                (0.0, false),
            ] {
                let (parity, outcome) = judged(1e-2, error);
                let parity = parity.unwrap();
                assert_eq!(outcome.is_none(), passes, "{error} {parity:?} {outcome:?}");
                assert_eq!(parity.worst_share <= 1.0, passes, "{parity:?}");
                assert!(parity.worst_share.is_finite(), "{parity:?}");
                let Some(outcome) = outcome else { continue };
                assert_eq!(outcome.kind, OutcomeKind::ParityFailed);
                let is_near = outcome.reason.contains("does not compute on them");
                assert_eq!(is_near, error < 1e-2, "{}", outcome.reason);
            }
            // Grids that cost next to nothing tell nothing.
            assert!(judged(5e-5, 1e-6).1.is_none());
        }
        // In floats nobody is too near.
        assert!(judged(exact(), off_by(1e-5), exact()).1.is_none());
    }

    #[test]
    fn a_cell_in_integers_may_leave_one_output_in_floats() {
        let two = |first: f64, second: f64| off_by(first).f64("b", &wave(1.0 + second));
        let judged = |cell| judged_in(Precision::Int8Static, two(0.0, 0.0), two(1e-2, 2e-2), cell);
        assert!(judged(two(1e-6, 2e-2)).1.is_none());
        let (parity, outcome) = judged(two(1e-6, 1e-6));
        assert_eq!(outcome.unwrap().kind, OutcomeKind::ParityFailed);
        assert_eq!(parity.unwrap().tensor, "out");
    }

    #[test]
    fn an_eager_that_computes_in_a_lower_precision_is_no_measure() {
        let (kind, reason) = refusal(judged(exact(), off_by(1e-3), off_by(1e-3)));
        assert_eq!(kind, OutcomeKind::ParityUnverified);
        assert!(reason.contains("more than rounding in fp32"), "{reason}");
    }

    /// An iteration: a gradient, and the update of the same weight.
    fn trained(gradient: f64, update: f64) -> Made {
        off_by(gradient)
            .told_as(Quantity::Gradient)
            .f64("out", &wave(3.0 * (1.0 + update)))
            .told_as(Quantity::Update)
            .losses(&[2.0])
    }

    #[test]
    fn an_update_is_judged_while_rounding_alone_does_not_move_it_far() {
        let exact = || trained(0.0, 0.0);
        for (eager, cell, worst, judged, passes) in [
            (
                trained(1e-6, 1e-3),
                trained(1e-6, 9e-3),
                "update of out",
                3,
                true,
            ),
            (
                trained(1e-6, 1e-3),
                trained(1e-6, 2e-2),
                "update of out",
                3,
                false,
            ),
            (
                trained(1e-6, 0.04),
                trained(1e-6, 0.6),
                "update of out",
                3,
                false,
            ),
            (
                trained(1e-6, 0.06),
                trained(1e-6, 1.0),
                "gradient of out",
                2,
                true,
            ),
            (
                trained(1e-6, 0.06),
                trained(1e-4, 0.06),
                "gradient of out",
                2,
                false,
            ),
        ] {
            let (parity, outcome) = judged_as(exact(), eager, cell);
            assert_eq!((parity.tensor.as_str(), parity.judged), (worst, judged));
            assert_eq!(parity.unjudged, 3 - judged);
            assert_eq!(outcome.is_none(), passes, "{parity:?}");
        }
        // Where nothing is left to judge by, nothing is shown.
        let (kind, reason) = refusal(judged(exact(), trained(0.1, 0.1), exact()));
        assert_eq!(kind, OutcomeKind::ParityUnverified);
        assert!(reason.contains("all its gradients and updates"), "{reason}");
        // The first loss comes before all that grows.
        let (kind, reason) = refusal(judged(exact(), exact().losses(&[2.001]), exact()));
        assert_eq!(kind, OutcomeKind::ParityUnverified);
        assert!(reason.contains("loss of iteration 1"), "{reason}");
    }

    /// Three updates, and losses that training halves; `off` is what is wrong in them.
    fn trained_on(off: [f64; 3], loss: f64) -> Made {
        let update = |made: Made, (name, off): (&str, f64)| {
            made.f64(name, &wave(1.0 + off)).told_as(Quantity::Update)
        };
        let updates = ["a", "b", "c"].into_iter().zip(off);
        updates.fold(Made::new(), update).losses(&[2.0, 1.0 + loss])
    }

    #[test]
    fn what_eager_hits_by_chance_is_no_bound_after_several_iterations() {
        let judged = |eager, cell| judged_as(trained_on([0.0; 3], 0.0), eager, cell);
        // The middle of eager's updates is off by 1e-4, one by next to nothing, and so is the loss.
        let eager = || trained_on([1e-9, 1e-4, 2e-4], 1e-9);
        for (cell, worst, passes) in [
            (trained_on([9e-4, 1e-4, 1e-4], 0.0), "update of a", true),
            (trained_on([2e-3, 1e-4, 1e-4], 0.0), "update of a", false),
            (trained_on([0.0, 0.0, 1.9e-3], 0.0), "update of c", true),
            (trained_on([0.0; 3], 9e-4), "loss of iteration 2", true),
            (trained_on([0.0; 3], 2e-3), "loss of iteration 2", false),
        ] {
            let (parity, outcome) = judged(eager(), cell);
            assert_eq!((parity.tensor.as_str(), outcome.is_none()), (worst, passes));
        }
        // A loss that training has not moved says nothing about updates: rounding is its bound.
        let still = |off: f64, loss: f64| trained_on([off; 3], 0.0).losses(&[2.0, 2.0 + loss]);
        let (parity, outcome) = judged_as(still(0.0, 0.0), still(1e-4, 0.0), still(0.0, 1e-5));
        assert_eq!(parity.tensor, "loss of iteration 2");
        assert!(outcome.is_some());
        // A mean of many numbers has the room of the usual one.
        let movements = |off: f64, others: f64| {
            ["d", "e"].into_iter().fold(
                exact()
                    .losses(&[])
                    .f64("f", &wave(1.0 + off))
                    .told_as(Quantity::Movement),
                |made, name| {
                    made.f64(name, &wave(1.0 + others))
                        .told_as(Quantity::Movement)
                },
            )
        };
        for (off, passes) in [(9e-6, true), (2e-5, false)] {
            let (parity, outcome) = judged_as(
                movements(0.0, 0.0),
                movements(0.0, 1e-6),
                movements(off, 0.0),
            );
            assert_eq!(
                (parity.tensor.as_str(), outcome.is_none()),
                ("movement of f", passes)
            );
        }
        // A gradient has its own alone.
        let gradients = |off: f64| {
            trained_on([0.0; 3], 0.0)
                .f64("g", &wave(1.0 + off))
                .told_as(Quantity::Gradient)
                .f64("h", &wave(1.0 + 1e-4))
                .told_as(Quantity::Gradient)
        };
        let (parity, outcome) = judged_as(gradients(0.0), gradients(0.0), gradients(9e-4));
        assert_eq!(parity.tensor, "gradient of g");
        assert!(outcome.is_some());
    }

    #[test]
    fn a_gradient_that_is_zero_by_mathematics_is_measured_by_the_others() {
        let with = |noise: f64| {
            trained(0.0, 0.0)
                .f64("zero", &vec![noise; N])
                .told_as(Quantity::Gradient)
        };
        let off = |cell| judged_as(with(1e-16), with(1e-5), with(cell));
        let (parity, outcome) = off(9e-5);
        assert_eq!(
            (parity.tensor.as_str(), parity.unjudged),
            ("gradient of zero", 0)
        );
        assert!(outcome.is_none(), "{parity:?}");
        assert_eq!(off(2e-4).1.unwrap().kind, OutcomeKind::ParityFailed);
    }

    fn judged_as(reference: Made, eager: Made, cell: Made) -> (Parity, Option<Outcome>) {
        let (parity, outcome) = judged(reference, eager, cell);
        (parity.unwrap(), outcome)
    }

    #[test]
    fn an_eager_that_is_exact_leaves_room_for_rounding() {
        let (parity, outcome) = judged(exact(), exact(), Made::new().f32("out", &wave(1.0)));
        let parity = parity.unwrap();
        assert!(outcome.is_none() && parity.error > 1e-9, "{parity:?}");
        assert_eq!(parity.bound, 10.0 * Precision::Fp32.unit_roundoff());
    }

    #[test]
    fn the_worst_tensor_decides_in_any_order() {
        let reference = exact().f64("b", &wave(3.0)).losses(&[2.0, 1.0]);
        let eager = off_by(1e-5).f64("b", &wave(3.0)).losses(&[2.0, 1.0]);
        let cell = Made::new()
            .f32("b", &wave(3.0 + 3e-5))
            .f64("out", &wave(1.0))
            .losses(&[2.0, 1.0]);
        let (parity, outcome) = judged(reference, eager, cell);
        let parity = parity.unwrap();
        assert_eq!(
            (parity.tensor.as_str(), outcome.unwrap().kind),
            ("b", OutcomeKind::ParityFailed)
        );
        assert!(
            (parity.error - 1e-5).abs() < 1e-7 && parity.worst_share > 10.0,
            "{parity:?}"
        );
    }

    #[test]
    fn a_file_that_is_lost_is_no_disagreement() {
        let folder = tempfile::tempdir().unwrap();
        let write = || exact().try_write(folder.path()).unwrap();
        let exhibits = Exhibits {
            reference: &write(),
            reference_name: "the reference",
            least_roundoffs: EXACT,
            eager: &write(),
            eager_name: "eager",
            cell: &write(),
        };
        let judged = |lost: &Outputs| {
            std::fs::rename(&lost.path, folder.path().join("elsewhere")).unwrap();
            let judgement = judge(&exhibits, Precision::Fp32);
            std::fs::rename(folder.path().join("elsewhere"), &lost.path).unwrap();
            refusal(judgement)
        };
        let (kind, reason) = judged(exhibits.cell);
        assert_eq!(kind, OutcomeKind::Crashed);
        assert!(reason.contains("cannot be opened"), "{reason}");
        assert_eq!(judged(exhibits.eager).0, OutcomeKind::ParityUnverified);
        assert_eq!(judged(exhibits.reference).0, OutcomeKind::ParityUnverified);
    }

    #[test]
    fn losses_are_judged_too() {
        let losses = |last| exact().losses(&[2.0, last]);
        assert!(judged(losses(1.0), losses(1.0), losses(1.0)).1.is_none());
        let (parity, outcome) = judged(losses(1.0), losses(1.0), losses(1.1));
        assert_eq!(parity.unwrap().tensor, "loss of iteration 2");
        assert_eq!(outcome.unwrap().kind, OutcomeKind::ParityFailed);
        let (kind, reason) = refusal(judged(losses(1.0), losses(1.0), exact().losses(&[2.0])));
        assert_eq!(kind, OutcomeKind::ParityFailed);
        assert!(
            reason.contains("1 losses where the reference has 2"),
            "{reason}"
        );
    }

    #[test]
    fn what_is_not_a_number_never_passes() {
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let spoilt = || {
                let mut values = wave(1.0);
                values[N - 1] = bad;
                Made::new().f64("out", &values)
            };
            let (kind, reason) = refusal(judged(exact(), exact(), spoilt()));
            assert_eq!(kind, OutcomeKind::ParityFailed);
            assert!(reason.contains("at element 19999"), "{reason}");
            let (kind, reason) = refusal(judged(spoilt(), exact(), exact()));
            assert_eq!(kind, OutcomeKind::ParityUnverified, "{reason}");
            let (kind, reason) = refusal(judged(exact(), spoilt(), exact()));
            assert_eq!(kind, OutcomeKind::ParityUnverified);
            assert!(
                reason.contains("eager cannot serve as a measure"),
                "{reason}"
            );
        }
    }

    #[test]
    fn other_tensors_are_not_the_same_tensors() {
        let failed = |cell: Made, says: &str| {
            let (kind, reason) = refusal(judged(
                exact().f64("b", &[1.0]),
                exact().f64("b", &[1.0]),
                cell,
            ));
            assert_eq!(kind, OutcomeKind::ParityFailed);
            assert!(reason.contains(says), "{reason}");
        };
        failed(exact(), "`b` of the reference is missing");
        failed(
            exact().f64("b", &[1.0]).f64("c", &[1.0]),
            "`c` is not one of the reference's",
        );
        failed(exact().f64("b", &[1.0, 2.0]), "shape [1, 2], not [1, 1]");
    }

    #[test]
    fn a_tensor_of_nothing_but_noise_is_measured_against_the_others() {
        let with = |noise: f64| exact().f64("zero", &vec![noise; N]);
        // Nothing, or noise far below what fp32 resolves, is the same as nothing.
        assert!(judged(with(0.0), with(0.0), with(0.0)).1.is_none());
        assert!(judged(with(0.0), with(0.0), with(1e-15)).1.is_none());
        let (parity, outcome) = judged(with(0.0), with(0.0), with(1e-3));
        assert_eq!(parity.unwrap().tensor, "zero");
        assert_eq!(outcome.unwrap().kind, OutcomeKind::ParityFailed);
        // Where all is nothing there is nothing to compare with; the record stays writable.
        let zero = || Made::new().f64("out", &[0.0; 8]);
        let (parity, outcome) = judged(zero(), zero(), Made::new().f64("out", &[1.0; 8]));
        assert_eq!(outcome.unwrap().kind, OutcomeKind::ParityFailed);
        assert!(parity.unwrap().worst_share.is_finite());
    }

    #[test]
    fn sums_that_overflow_stay_numbers() {
        let huge = |value| Made::new().f64("out", &[value; 8]);
        let (parity, outcome) = judged(huge(1e300), huge(1e300), huge(-1e300));
        assert_eq!(outcome.unwrap().kind, OutcomeKind::ParityFailed);
        assert!(parity.unwrap().error.is_finite());
    }

    #[test]
    fn files_that_lie_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |made: Made, says: &str| {
            let error = made.try_write(folder.path()).unwrap_err();
            assert!(error.contains(says), "{error}");
        };
        let mut short = exact();
        short.bytes.pop();
        refused(short, "159999 bytes where its tensors take 160000");
        let mut long = exact();
        long.bytes.push(0);
        refused(long, "160001 bytes");
        refused(exact().f64("out", &[1.0]), "`out` is there twice");
        refused(Made::new(), "no tensor");
        for shape in [vec![u64::MAX, 2], vec![u64::MAX], vec![1 << 60, 1 << 10]] {
            let mut lie = exact();
            lie.tensors[0].shape = shape;
            refused(lie, "larger than any machine");
        }
        let mut scalar = Made::new().f64("s", &[1.0]);
        scalar.tensors[0].shape = vec![];
        scalar.try_write(folder.path()).unwrap();
        let none = Outputs::new(folder.path().join("none"), exact().tensors, vec![]);
        assert!(none.unwrap_err().contains("there is no file"));
        let place = folder.path().join("folder");
        std::fs::create_dir(&place).unwrap();
        assert!(
            Outputs::new(place, exact().tensors, vec![])
                .unwrap_err()
                .contains("not a file")
        );
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
        assert!(
            Outputs::new(link, exact().tensors, vec![])
                .unwrap_err()
                .contains("not a file")
        );
    }

    #[test]
    fn an_eager_that_has_nothing_in_common_is_no_measure() {
        let zero = || Made::new().f64("out", &[0.0; 8]);
        let one = || Made::new().f64("out", &[1.0; 8]);
        assert_eq!(
            refusal(judged(zero(), one(), one())).0,
            OutcomeKind::ParityUnverified
        );
    }
}
