//! Parity as a cell's page tells it, and how much of a training was judged.

use schema::{
    Precision,
    record::{Judged, Kinds, Parity},
};
use serde::Serialize;

use crate::{
    units,
    words::{self, Badge, Fact, fact},
};

/// Agreement of the outputs.
#[derive(Debug, Serialize)]
pub(crate) struct ParityView {
    badge: Badge,
    /// What agrees, or does not, in a sentence or two.
    words: String,
    facts: Vec<Fact>,
    losses: Vec<[String; 3]>,
    /// Whether the network is on grids of integers, which random weights say little about.
    is_int8: bool,
}

/// Nothing that was judged is off by more than its bound.
const WITHIN: Badge = Badge::new("within the bound", "good");

/// Likewise, of a training of which little was.
const WITHIN_IN_PART: Badge = Badge::new("within the bound, in part", "unclear");

/// Something is off by more.
const BEYOND: Badge = Badge::new("beyond the bound", "bad");

/// What a cell's page tells of its parity.
pub(crate) fn of_cell(parity: &Parity, precision: Precision, is_outline: bool) -> ParityView {
    let losses = parity
        .losses
        .iter()
        .zip(&parity.reference_losses)
        .enumerate()
        .map(|(step, (own, reference))| {
            [
                (step + 1).to_string(),
                units::fixed(*own, 6),
                units::fixed(*reference, 6),
            ]
        });
    // A cell in integers may be nearer to the reference than its grids allow.
    let bound = match parity.worst_share > 1.0 && parity.error < parity.bound {
        true => "Smallest that passes",
        false => "Largest that passes",
    };
    let made_from = match (is_outline, precision) {
        (true, _) => "What the bound is made from: ONNX Runtime's own error, or 32 roundoffs",
        (false, Precision::Fp64) if !parity.losses.is_empty() => {
            "What the bound is made from: PyTorch eager's error in fp32, scaled, 128 roundoffs, or a tenth of fp32's"
        }
        (false, Precision::Fp64) => {
            "What the bound is made from: PyTorch eager's own error, or 32 roundoffs"
        }
        (false, _) => "Error of PyTorch eager on the same tensor",
    };
    let mut facts = vec![
        fact("Reference", &parity.reference),
        fact("Relative error", units::error(parity.error)),
        fact(bound, units::error(parity.bound)),
        fact(
            "Worst tensor",
            super::parity::share_of_bound(parity.worst_share),
        ),
        fact(made_from, units::error(parity.eager_error)),
        fact("Tensor", &parity.tensor),
    ];
    if let Some(error) = parity.kink_error {
        let what = "Error of the reference with all that is next to a kink on its other side";
        facts.push(fact(what, units::error(error)));
    }
    if let Some(top1) = parity.top1 {
        facts.push(fact(
            "Top-1 agreement with the reference",
            words::top1(top1),
        ));
    }
    if !parity.losses.is_empty() {
        facts.push(fact("Tensors and losses judged", parity.judged.to_string()));
    }
    if parity.unjudged > 0 {
        let count = parity.kinds.map_or_else(
            || parity.unjudged.to_string(),
            |kinds| unjudged_kinds(&kinds),
        );
        let told = format!("{count}, by which PyTorch eager itself is too far off");
        facts.push(fact("Not judged", told));
    }
    let (badge, words) = verdict(parity);
    ParityView {
        badge,
        words,
        facts,
        losses: losses.collect(),
        is_int8: precision.is_int8(),
    }
}

/// What became of a comparison.
fn verdict(parity: &Parity) -> (Badge, String) {
    let passed = parity.worst_share <= 1.0;
    if !passed {
        let words = "The outputs disagree with the reference.".to_owned();
        return (BEYOND, words);
    }
    if !parity.is_in_part() {
        let words = "The outputs agree with the reference.".to_owned();
        return (WITHIN, words);
    }
    let (what, judged) = match parity.kinds.map(|kinds| kinds.updates) {
        Some(updates) if updates.is_mostly_not() => ("updates", updates),
        _ => ("tensors and losses", whole(parity)),
    };
    let words = format!(
        "What could be judged agrees with the reference, and that is {} of {} {what}. Rounding alone \
         moves the others so far that a right training and a wrong one look alike.",
        units::count(judged.judged),
        units::count(judged.all()),
    );
    (WITHIN_IN_PART, words)
}

fn whole(parity: &Parity) -> Judged {
    Judged {
        judged: parity.judged,
        unjudged: parity.unjudged,
    }
}

/// `28 of 167 tensors and losses judged, of updates 2 of 62`, where not all are.
pub(crate) fn judged(parity: &Parity) -> Option<String> {
    let share = |judged: Judged| {
        let (some, all) = (units::count(judged.judged), units::count(judged.all()));
        format!("{some} of {all}")
    };
    let updates = parity.kinds.map(|kinds| kinds.updates);
    let updates = updates
        .filter(|updates| updates.unjudged > 0)
        .map(|updates| format!(", of updates {}", share(updates)));
    (parity.unjudged > 0).then(|| {
        let whole = share(whole(parity));
        format!(
            "{whole} tensors and losses judged{}",
            updates.unwrap_or_default()
        )
    })
}

/// `282 of 284 updates, 2 of 3 losses`: of each kind of which some are not judged.
fn unjudged_kinds(kinds: &Kinds) -> String {
    let told: Vec<String> = [
        (kinds.gradients, "gradients"),
        (kinds.statistics, "running statistics"),
        (kinds.updates, "updates"),
        (kinds.losses, "losses"),
    ]
    .into_iter()
    .filter(|(judged, _)| judged.unjudged > 0)
    .map(|(judged, what)| {
        let (some, all) = (units::count(judged.unjudged), units::count(judged.all()));
        format!("{some} of {all} {what}")
    })
    .collect();
    told.join(", ")
}
