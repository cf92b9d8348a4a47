//! What is a judgement and what is not.

use std::path::Path;

use schema::protocol::{FileElement, Quantity, TensorInfo};

use super::*;

mod training;

const N: usize = 20_000;

static NO_SUMMANDS: BTreeMap<String, u64> = BTreeMap::new();

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

    /// Gives the last tensor so many rows.
    fn in_rows(mut self, rows: u64) -> Self {
        if let Some(last) = self.tensors.last_mut() {
            last.shape = vec![rows, last.shape.iter().product::<u64>() / rows];
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
    let [reference, eager, cell] = [reference, eager, cell].map(write);
    judge(&exhibits([&reference, &eager, &cell]), precision)
}

fn exhibits<'a>([reference, eager, cell]: [&'a Outputs; 3]) -> Exhibits<'a> {
    Exhibits {
        reference,
        reference_name: "the reference",
        least_roundoffs: EXACT,
        eager,
        eager_name: "eager",
        eager_scale: 1.0,
        cell,
        optimizer: None,
        summands: &NO_SUMMANDS,
        across_kinks: None,
    }
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
        // What users run has the same kernels, so the same numbers.
        let made = [exact(), exact(), off_by(error)];
        let [reference, eager, cell] = made.map(|made| made.try_write(folder.path()).unwrap());
        let exhibits = Exhibits {
            least_roundoffs,
            ..exhibits([&reference, &eager, &cell])
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
    let made = [(); 3].map(|()| exact().try_write(folder.path()).unwrap());
    let [reference, eager, cell] = &made;
    let exhibits = exhibits([reference, eager, cell]);
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

/// Adam's epsilon is nothing in fp16: PyTorch's own users get no numbers either.
#[test]
fn where_eager_itself_overflows_there_is_no_measure() {
    let overflown = || exact().losses(&[2.0, f64::NAN]);
    let finite = || exact().losses(&[2.0, 1.0]);
    let (kind, reason) = refusal(judged(finite(), overflown(), overflown()));
    assert_eq!(kind, OutcomeKind::ParityUnverified);
    assert!(
        reason.contains("eager cannot serve as a measure"),
        "{reason}"
    );
    let (kind, _) = refusal(judged(finite(), finite(), overflown()));
    assert_eq!(kind, OutcomeKind::ParityFailed);
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
    // Where all is nothing there is nothing to compare with, whatever a candidate puts out.
    let all = |value: f64| Made::new().f64("out", &[value; 8]).f64("empty", &[]);
    for value in [0.0, 1.0] {
        let (parity, outcome) = judged(all(0.0), all(0.0), all(value));
        let outcome = outcome.unwrap();
        assert_eq!(outcome.kind, OutcomeKind::ParityUnverified);
        assert!(
            outcome.reason.contains("all that it puts out is zero"),
            "{outcome:?}"
        );
        assert_eq!(parity, None);
    }
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
