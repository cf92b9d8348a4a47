//! What is a judgement and what is not.

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
        across_kinks: None,
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
            across_kinks: None,
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
fn activations_next_to_a_kink_may_lie_on_either_side() {
    let folder = tempfile::tempdir().unwrap();
    let write = |made: Made| made.try_write(folder.path()).unwrap();
    let [reference, eager] = [trained(0.0, 0.0), trained(1e-6, 1e-6)].map(write);
    let judged = |cell: Made, across: Option<Made>| {
        let across = across.map(write);
        let exhibits = Exhibits {
            reference: &reference,
            reference_name: "the reference",
            least_roundoffs: EXACT,
            eager: &eager,
            eager_name: "eager",
            cell: &write(cell),
            across_kinks: across.as_ref(),
        };
        judge(&exhibits, Precision::Fp32)
    };
    let across = || Some(trained(4e-3, 2e-3));
    // Off as one that is on the other side: told wrong without, right with what tells so.
    let cell = || trained(4e-3, 2e-3);
    let (parity, outcome) = judged(cell(), None);
    assert_eq!(outcome.unwrap().kind, OutcomeKind::ParityFailed);
    assert_eq!(parity.unwrap().kink_error, None);
    let (parity, outcome) = judged(cell(), across());
    let parity = parity.unwrap();
    assert!(outcome.is_none(), "{parity:?}");
    assert!(
        (parity.kink_error.unwrap() - 4e-3).abs() < 1e-9,
        "{parity:?}"
    );
    assert!((parity.bound - 8.01e-3).abs() < 1e-8, "{parity:?}");
    // Twice as far as all of them together is the end of it, tensor by tensor.
    for (gradient, update, passes) in [
        (7.9e-3, 3.9e-3, true),
        (8.1e-3, 0.0, false),
        (0.0, 4.1e-3, false),
    ] {
        let (_, outcome) = judged(trained(gradient, update), across());
        assert_eq!(outcome.is_none(), passes, "{outcome:?}");
        if let Some(outcome) = outcome {
            assert!(
                outcome.reason.contains("next to a kink"),
                "{}",
                outcome.reason
            );
        }
    }
    // What no kink moves has no more room than before.
    let (_, outcome) = judged(trained(4e-3, 0.0), Some(trained(0.0, 2e-3)));
    assert_eq!(outcome.unwrap().kind, OutcomeKind::ParityFailed);
    // What kinks move too far is not judged; where that is all, nothing is shown.
    let (parity, outcome) = judged(trained(1e-6, 0.3), Some(trained(0.0, 0.06)));
    assert!(outcome.is_none());
    assert_eq!(parity.unwrap().unjudged, 1);
    let (kind, reason) = refusal(judged(cell(), Some(trained(0.06, 0.06))));
    assert_eq!(kind, OutcomeKind::ParityUnverified);
    assert!(reason.contains("rounding alone"), "{reason}");
    // Other tensors than the reference's cannot tell.
    let (kind, reason) = refusal(judged(cell(), Some(exact().losses(&[2.0]))));
    assert_eq!(kind, OutcomeKind::ParityUnverified, "{reason}");
}

#[test]
fn the_first_loss_may_be_off_as_the_usual_running_statistic() {
    let with = |movement: f64, loss: f64| {
        Made::new()
            .f64("m", &wave(1.0 + movement))
            .told_as(Quantity::Movement)
            .losses(&[2.0 * (1.0 + loss)])
    };
    let judged = |eager, cell| judged(with(0.0, 0.0), eager, cell).1.is_none();
    assert!(judged(with(1e-6, 0.0), with(0.0, 9e-6)));
    assert!(!judged(with(1e-6, 0.0), with(0.0, 1.1e-5)));
    assert!(!judged(with(0.0, 0.0), with(0.0, 9e-6)));
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
        across_kinks: None,
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
