//! The judgement: does a cell compute what the reference computes?

use std::collections::BTreeMap;

use schema::{
    Optimizer, Outcome, OutcomeKind, Precision,
    record::{Kinds, Parity},
};

use crate::{
    tensors::{self, Distance, Flaw, Growth, Outputs, Terms},
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

/// Of what grows from layer to layer and from iteration to iteration so many times as many: in fp64
/// right updates were off by 340 to 770 roundoffs, and ten times this is 1,280.
const GROWN: f64 = 4.0;

/// Training in fp64: what eager in fp32 is too far off in to tell how rounding grows is held to this.
/// Activations do not change sides there, since none is so near to a kink, so that rounding grows with its
/// size alone: right updates were off by 9e-9 where it grows most, in Inception-v3. What computes in fp32
/// is off by more, a wrong graph or optimiser by far more; a constant in fp32 is seen by the gradients.
const LARGEST_DOUBLE_BOUND: f64 = Precision::Fp32.unit_roundoff();

/// What gradients move by where all that is so near takes the other side bounds what they move by
/// where some of it does, up to effects that undo each other.
const KINK_ALLOWANCE: f64 = 2.0;

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
    /// By how much less rounding moves the cell than eager: 1 in the same precision. Training in fp64
    /// is what the reference computes, roundings and all: how they grow, eager in fp32 tells.
    pub(crate) eager_scale: f64,
    /// The cell's own.
    pub(crate) cell: &'a Outputs,
    /// What trains it.
    pub(crate) optimizer: Option<Optimizer>,
    /// How many numbers each running statistic is a mean of, by its name.
    pub(crate) summands: &'a BTreeMap<String, u64>,
    /// Training: the reference once more, where what comes near to a kink takes the derivative of the
    /// other side. Needed where a cell fails without.
    pub(crate) across_kinks: Option<&'a Outputs>,
}

/// Judges a cell: its parity where it could be computed, and what keeps it from being measured.
pub(crate) fn judge(
    exhibits: &Exhibits<'_>,
    precision: Precision,
) -> (Option<Parity>, Option<Outcome>) {
    let roundoff = precision.unit_roundoff();
    let terms = Terms {
        roundoff,
        summands: exhibits.summands,
        divided_updates: matches!(exhibits.optimizer, Some(Optimizer::Adam { .. })),
    };
    // Eager first: where it overflows itself, a cell that does so, too, is no worse.
    let mut eager = match tensors::distances(exhibits.reference, exhibits.eager, terms) {
        Ok(distances) => distances,
        Err(Flaw::Reference(reason)) => return unverified(exhibits.reference_name, reason),
        Err(Flaw::Candidate(reason) | Flaw::Unreadable(reason)) => {
            return unverified(exhibits.eager_name, reason);
        }
    };
    let saturated: Vec<bool> = eager
        .iter_mut()
        .map(|distance| {
            // Under Adam an update may be noise divided by itself, in any precision.
            let may_be_noise = terms.divided_updates
                && matches!(distance.growth, Growth::Iterations | Growth::Loss { .. });
            let is_saturated = exhibits.eager_scale < 1.0
                && distance.growth.is_any()
                && distance.error > LARGEST_GROWTH
                && !may_be_noise;
            distance.error = match is_saturated {
                true => LARGEST_DOUBLE_BOUND / ALLOWANCE,
                false => distance.error * exhibits.eager_scale,
            };
            is_saturated
        })
        .collect();
    let cell = match tensors::distances(exhibits.reference, exhibits.cell, terms) {
        Ok(distances) => distances,
        Err(flaw) => return flawed(exhibits, flaw),
    };
    let kinks = exhibits.across_kinks.map(|across| {
        // What kinks move is all of it a reason for room, whatever of it the cell's own error leaves out.
        let whole = Terms {
            divided_updates: false,
            ..terms
        };
        let distances = tensors::distances(exhibits.reference, across, whole)?;
        Ok(distances
            .into_iter()
            .map(|distance| distance.error)
            .collect())
    });
    let kinks: Option<Vec<f64>> = match kinks.transpose() {
        Ok(kinks) => kinks,
        Err(Flaw::Reference(reason) | Flaw::Candidate(reason) | Flaw::Unreadable(reason)) => {
            return unverified(exhibits.reference_name, reason);
        }
    };
    let limit = (EAGER_ROUNDOFFS * roundoff).min(LARGEST_BOUND);
    if let Some(coarse) = eager
        .iter()
        .find(|distance| !distance.growth.is_any() && distance.error > limit)
    {
        let reason = format!(
            "its `{}` is off by {:.2e} (relative L2 error), more than rounding in {precision} explains ({limit:.2e})",
            coarse.name, coarse.error
        );
        return unverified(exhibits.eager_name, reason);
    }
    let measures = Measures {
        eager,
        saturated,
        kinks,
        scale: exhibits.eager_scale,
    };
    let mut growing = measures
        .iter()
        .filter(|measure| measure.eager.growth.is_any())
        .peekable();
    if growing.peek().is_some() && !growing.any(Measure::is_one) {
        let reason = "rounding alone moves all its gradients and updates too far".to_owned();
        return unverified(exhibits.eager_name, reason);
    }
    let allowance = match precision.is_int8() {
        true => INT8_ALLOWANCE,
        false => ALLOWANCE,
    };
    let Some(mut parity) = worst(exhibits, &cell, &measures, roundoff, allowance) else {
        return unverified(exhibits.reference_name, "there is no tensor".to_owned());
    };
    if precision.is_int8() {
        parity.top1 = match top1::agreement(exhibits.reference, exhibits.cell) {
            Ok(top1) => top1,
            Err(flaw) => return flawed(exhibits, flaw),
        };
        if let Some((cell, eager)) = too_near(&cell, &measures.eager) {
            return off_its_grids(exhibits, parity, cell, eager);
        }
    }
    let outcome = (parity.worst_share > 1.0).then(|| {
        let measure = cell
            .iter()
            .zip(measures.iter())
            .find(|(cell, _)| cell.name == parity.tensor);
        let is_least = exhibits.least_roundoffs > 0.0
            && measure.is_some_and(|(_, measure)| measure.eager.error < parity.eager_error);
        let eager = match measure.is_some_and(|(_, measure)| measure.is_saturated) {
            true => "cannot tell".to_owned(),
            false if is_least => format!("is off by at most {:.2e}", parity.eager_error),
            false => format!("is off by {:.2e}", parity.eager_error),
        };
        let kinks = parity
            .kink_error
            .map(|error| format!(", activations next to a kink move it by {error:.2e}"));
        let reason = format!(
            "`{}` is off by {:.2e} (relative L2 error); {} {eager}{}, which allows {:.2e}",
            parity.tensor,
            parity.error,
            exhibits.eager_name,
            kinks.unwrap_or_default(),
            parity.bound
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

/// What the cell is measured by: what eager is off by, and where it was asked, by how much all that
/// comes next to a kink moves the reference.
struct Measures {
    eager: Vec<Distance>,
    /// Whether [`LARGEST_DOUBLE_BOUND`] stands for what eager cannot tell.
    saturated: Vec<bool>,
    kinks: Option<Vec<f64>>,
    /// What eager's errors were multiplied by.
    scale: f64,
}

/// The same for one tensor or loss.
#[derive(Clone, Copy)]
struct Measure<'a> {
    eager: &'a Distance,
    is_saturated: bool,
    kinks: Option<f64>,
    scale: f64,
}

impl Measures {
    fn iter(&self) -> impl Iterator<Item = Measure<'_>> {
        let eager = self.eager.iter().enumerate();
        eager.map(|(place, eager)| Measure {
            eager,
            is_saturated: self.saturated.get(place).copied().unwrap_or(false),
            kinks: self
                .kinks
                .as_ref()
                .and_then(|kinks| kinks.get(place))
                .copied(),
            scale: self.scale,
        })
    }
}

impl Measure<'_> {
    /// Whether rounding alone leaves it near enough to the reference to tell right from wrong.
    fn is_one(self) -> bool {
        let of_eager = match self.is_saturated {
            true => 0.0,
            false => self.eager.error / self.scale,
        };
        let growing = of_eager.max(self.kinks.unwrap_or(0.0));
        !self.eager.growth.is_any() || growing <= LARGEST_GROWTH
    }
}

/// What rounding makes of usual tensors: medians of eager's errors over those that are judged.
struct Usual {
    gradient: f64,
    movement: f64,
    update: f64,
}

impl Usual {
    fn of(measures: &Measures) -> Self {
        let median = |is_such: fn(Growth) -> bool| {
            let mut errors: Vec<f64> = measures
                .iter()
                .filter(|measure| is_such(measure.eager.growth) && measure.is_one())
                .map(|measure| measure.eager.error)
                .collect();
            errors.sort_by(f64::total_cmp);
            errors.get(errors.len() / 2).copied().unwrap_or(0.0)
        };
        Self {
            gradient: median(|growth| growth == Growth::Layers),
            movement: median(|growth| matches!(growth, Growth::Sums { .. })),
            update: median(|growth| growth == Growth::Iterations),
        }
    }

    /// By how much rounding moves one thing, as far as eager tells. Eager's own error is one draw of
    /// many, and near to nothing by chance now and then: in a single number such as a loss, in a gradient
    /// of a few numbers (the bias of a classifier, over a batch of one), in an update under an optimiser that divides by the size of a gradient, in a mean whose last digits
    /// are decided by the order of the sum. There, what eager is usually off by counts, too. PyTorch adds
    /// the numbers of a running statistic up in double precision on a CPU; who adds `n` of them up in
    /// binary32 makes `n` roundings, which come to `√n` of them and to more where the numbers cancel.
    fn rounding(&self, eager: &Distance, roundoff: f64) -> f64 {
        let usual = match eager.growth {
            Growth::None => 0.0,
            Growth::Layers => self.gradient,
            Growth::FirstLoss => self.movement.max(self.gradient),
            Growth::Sums { of } => {
                // Engines sum up in binary32 what they hold in fewer bits.
                let of_sums = roundoff.min(Precision::Fp32.unit_roundoff());
                self.movement.max(of_sums * (of as f64).sqrt())
            }
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
    measures: &Measures,
    roundoff: f64,
    allowance: f64,
) -> Option<Parity> {
    let (judged, unjudged): (Vec<_>, Vec<_>) = cell
        .iter()
        .zip(measures.iter())
        .partition(|(_, measure)| measure.is_one());
    let usual = Usual::of(measures);
    let shares = judged.iter().map(|(cell, measure)| {
        let grown = if measure.eager.growth.is_any() {
            GROWN
        } else {
            1.0
        };
        let least = grown * exhibits.least_roundoffs * roundoff;
        let eager_error = usual.rounding(measure.eager, roundoff).max(least);
        let jump = KINK_ALLOWANCE * measure.kinks.unwrap_or(0.0);
        let bound = (allowance * eager_error.max(roundoff) + jump).min(LARGEST_BOUND);
        let share = (cell.error / bound).min(f64::MAX);
        let kink_error = measure.kinks.filter(|&error| error > 0.0);
        (share, cell, eager_error, kink_error, bound)
    });
    let (worst_share, cell, eager_error, kink_error, bound) =
        shares.reduce(|worst, next| if next.0 > worst.0 { next } else { worst })?;
    Some(Parity {
        reference: exhibits.reference_name.to_owned(),
        error: cell.error,
        tensor: cell.name.clone(),
        eager_error,
        kink_error,
        bound,
        worst_share,
        judged: judged.len() as u64,
        unjudged: unjudged.len() as u64,
        kinds: kinds(measures),
        losses: exhibits.cell.losses.clone(),
        reference_losses: exhibits.reference.losses.clone(),
        top1: None,
    })
}

/// How much is judged of each kind; `None` where nothing was trained.
fn kinds(measures: &Measures) -> Option<Kinds> {
    let mut kinds = Kinds::default();
    let mut is_training = false;
    for measure in measures.iter() {
        let kind = match measure.eager.growth {
            Growth::None => continue,
            Growth::Layers => &mut kinds.gradients,
            Growth::Sums { .. } => &mut kinds.statistics,
            Growth::Iterations => &mut kinds.updates,
            Growth::FirstLoss | Growth::Loss { .. } => &mut kinds.losses,
        };
        is_training = true;
        match measure.is_one() {
            true => kind.judged += 1,
            false => kind.unjudged += 1,
        }
    }
    is_training.then_some(kinds)
}

#[cfg(test)]
mod tests;
