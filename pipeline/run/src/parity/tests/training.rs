//! Gradients, updates, running statistics and losses.

use schema::record::{Judged, Kinds};

use super::*;

const ADAM: Optimizer = Optimizer::Adam {
    learning_rate: 1e-3,
    beta1: 0.9,
    beta2: 0.999,
    epsilon: 1e-8,
    weight_decay: 0.0,
};

fn judged_as(reference: Made, eager: Made, cell: Made) -> (Parity, Option<Outcome>) {
    let (parity, outcome) = judged(reference, eager, cell);
    (parity.unwrap(), outcome)
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

/// What rounding moves too far is counted by what it is, and outputs have no kinds.
#[test]
fn what_is_judged_is_counted_by_kind() {
    let made = |gradient: f64, update: f64, loss: f64| {
        trained(gradient, update)
            .f64("b", &wave(1.0))
            .told_as(Quantity::Gradient)
            .f64("m", &wave(1.0 + gradient))
            .told_as(Quantity::Movement)
            .losses(&[2.0, 1.0 + loss])
    };
    let right = || made(0.0, 0.0, 0.0);
    let (parity, _) = judged_as(right(), made(0.0, 0.06, 0.3), right());
    let of = |judged, unjudged| Judged { judged, unjudged };
    let kinds = Kinds {
        gradients: of(2, 0),
        statistics: of(1, 0),
        updates: of(0, 1),
        losses: of(1, 1),
    };
    assert_eq!(parity.kinds, Some(kinds));
    assert_eq!((parity.judged, parity.unjudged), (4, 2));
    assert!(parity.is_in_part());
    let (parity, _) = judged_as(right(), made(0.06, 0.0, 0.0), right());
    let kinds = Kinds {
        gradients: of(1, 1),
        statistics: of(0, 1),
        updates: of(1, 0),
        losses: of(2, 0),
    };
    assert_eq!(parity.kinds, Some(kinds));
    assert!(!parity.is_in_part());
    let (parity, _) = judged(exact(), exact(), exact());
    assert_eq!(parity.unwrap().kinds, None);
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
        let (cell, across) = (write(cell), across.map(write));
        let exhibits = Exhibits {
            across_kinks: across.as_ref(),
            ..exhibits([&reference, &eager, &cell])
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
fn a_running_statistic_may_be_off_as_a_sum_of_so_many_numbers_is() {
    let moved = |off: f64| {
        Made::new()
            .f64("m", &wave(1.0 + off))
            .told_as(Quantity::Movement)
    };
    let folder = tempfile::tempdir().unwrap();
    let write = |off: f64| moved(off).try_write(folder.path()).unwrap();
    let judged = |of: Option<u64>, precision: Precision, off: f64| {
        let [reference, eager, cell] = [0.0, 0.0, off].map(write);
        let exhibits = Exhibits {
            summands: &of.map(|of| ("m".to_owned(), of)).into_iter().collect(),
            ..exhibits([&reference, &eager, &cell])
        };
        judge(&exhibits, precision).1.is_none()
    };
    // Ten times 64 roundings of 2⁻²⁴ are 3.8e-5, whatever is narrower than binary32.
    for precision in [Precision::Fp32, Precision::Bf16] {
        assert!(judged(Some(4096), precision, 3.7e-5));
    }
    assert!(!judged(Some(4096), Precision::Fp32, 3.9e-5));
    assert!(!judged(Some(4096), Precision::Fp64, 1e-12));
    assert!(!judged(None, Precision::Fp32, 3.7e-5));
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

/// In fp64 eager is the reference, and is off by nothing: eager in fp32 tells how roundings grow. Here it is
/// off by a millionth, 17 roundoffs, and in an update of noise by all of it.
#[test]
fn training_in_fp64_is_measured_by_how_roundings_grow_in_fp32() {
    let scale = Precision::Fp64.unit_roundoff() / Precision::Fp32.unit_roundoff();
    let with = |update: f64, noise: f64| {
        trained(0.0, update)
            .f64("noise", &wave(1e-3 * noise))
            .told_as(Quantity::Update)
    };
    let folder = tempfile::tempdir().unwrap();
    let judged = |optimizer: Option<Optimizer>, eager: Made, cell: Made| {
        let made = [with(0.0, 1.0), eager, cell];
        let [reference, eager, cell] = made.map(|made| made.try_write(folder.path()).unwrap());
        let exhibits = Exhibits {
            eager_scale: scale,
            least_roundoffs: ROUNDED,
            optimizer,
            ..exhibits([&reference, &eager, &cell])
        };
        let (parity, outcome) = judge(&exhibits, Precision::Fp64);
        (parity.unwrap(), outcome.is_none())
    };
    let exact = || with(0.0, 1.0);
    let roundoff = Precision::Fp64.unit_roundoff();
    for (eager, update, passes) in [
        // Rounding hardly grows: what is allowed for is that of the reference itself.
        (with(1e-6, 1.0), 1_200.0 * roundoff, true),
        (with(1e-6, 1.0), 1_400.0 * roundoff, false),
        // It grows to 168,000 roundoffs.
        (with(1e-2, 1.0), 1_500_000.0 * roundoff, true),
        (with(1e-2, 1.0), 1_800_000.0 * roundoff, false),
        // In fp32 activations came to lie on other sides of kinks: how it grows is not known, and that
        // nothing computes in fp32 is what is seen.
        (with(0.3, 1.0), 5.9e-8, true),
        (with(0.3, 1.0), 6.0e-8, false),
    ] {
        let (parity, passed) = judged(None, eager, with(update, 1.0));
        assert_eq!((passed, parity.unjudged), (passes, 0), "{parity:?}");
    }
    let (parity, passed) = judged(Some(ADAM), with(1e-6, -1.0), with(0.0, -1.0));
    assert_eq!((passed, parity.unjudged), (true, 1), "{parity:?}");
    let (parity, passed) = judged(None, with(1e-6, -1.0), with(0.0, -1.0));
    assert_eq!((passed, parity.unjudged), (false, 0), "{parity:?}");
    assert!(judged(None, with(1e-6, 1.0), exact()).1);
}

/// An update of a quarter of the elements, off by `dense` in all of them and by `sparse` in so many;
/// the others are to stay where they are, and move by `unmoved`.
fn divided(dense: f64, sparse: (usize, f64), unmoved: f64) -> Made {
    let mut update: Vec<f64> = (0..N)
        .map(|at| match at % 4 {
            0 => 1.0 + dense,
            _ => unmoved,
        })
        .collect();
    for at in 0..sparse.0 {
        update[4 * at] += sparse.1;
    }
    off_by(0.0)
        .told_as(Quantity::Gradient)
        .f64("out", &update)
        .told_as(Quantity::Update)
        .losses(&[2.0])
}

/// Of 5,000 elements that are moved 50 may be off by any number.
#[test]
fn where_updates_are_divided_by_gradients_the_hundredth_that_is_furthest_off_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let judged = |cell: Made, rows: u64, optimizer| {
        let made = [
            divided(0.0, (0, 0.0), 0.0),
            divided(1e-6, (10, 1.0), 0.0),
            cell,
        ];
        let made = made.map(|made| made.in_rows(rows));
        let [reference, eager, cell] = made.map(|made| made.try_write(folder.path()).unwrap());
        let exhibits = Exhibits {
            optimizer: Some(optimizer),
            ..exhibits([&reference, &eager, &cell])
        };
        let (parity, outcome) = judge(&exhibits, Precision::Fp32);
        (parity.unwrap(), outcome.is_none())
    };
    for (cell, error, passes) in [
        (divided(0.0, (50, 2.0), 0.0), 0.0, true),
        (divided(9e-6, (50, 2.0), 0.0), 9e-6, true),
        (divided(1.1e-5, (0, 0.0), 0.0), 1.1e-5, false),
        (divided(0.0, (51, 2.0), 0.0), 2.0 / 5_000_f64.sqrt(), false),
        // What has no gradient stays where it is.
        (divided(0.0, (0, 0.0), 1e-2), 1e-2 * 3_f64.sqrt(), false),
    ] {
        let (parity, passed) = judged(cell, 1, ADAM);
        assert!((parity.error / error.max(1e-9) - 1.0).abs() < 0.01 || error == 0.0);
        assert_eq!(passed, passes, "{parity:?}");
    }
    // In rows of 20 no more than 10: one that is wrong is seen.
    for (wrong, passes) in [(10, true), (11, false)] {
        let (parity, passed) = judged(divided(0.0, (wrong, 1.0), 0.0), 1000, ADAM);
        assert_eq!(passed, passes, "{parity:?}");
    }
    // Momentum divides nothing: eager's ten are its error.
    let sgd = Optimizer::Sgd {
        learning_rate: 1e-3,
        momentum: 0.9,
        weight_decay: 0.0,
    };
    let (parity, _) = judged(divided(0.0, (1, 0.1), 0.0), 1, sgd);
    assert!((parity.eager_error - 0.0447).abs() < 1e-3, "{parity:?}");
}
