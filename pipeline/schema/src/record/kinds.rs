//! How much of a training was judged, by what is compared.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Parity;

/// How many tensors and losses of each kind are judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Kinds {
    /// Gradients of weights in the first iteration.
    pub gradients: Judged,
    /// Movements of running statistics in the first iteration.
    pub statistics: Judged,
    /// Updates of weights after the last iteration.
    pub updates: Judged,
    /// Losses, one an iteration.
    pub losses: Judged,
}

/// How many of a kind are judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Judged {
    /// Those that are.
    pub judged: u64,
    /// Those that are not, since rounding alone moves them too far.
    pub unjudged: u64,
}

impl Judged {
    /// All of the kind.
    #[must_use]
    pub const fn all(self) -> u64 {
        self.judged.saturating_add(self.unjudged)
    }

    /// Whether more are not judged than are.
    #[must_use]
    pub const fn is_mostly_not(self) -> bool {
        self.unjudged > self.judged
    }
}

impl Parity {
    /// Whether rounding alone moves most of a training, or most of its updates, too far to tell right
    /// from wrong. Updates are the only thing that an optimiser is seen by.
    #[must_use]
    pub fn is_in_part(&self) -> bool {
        let whole = Judged {
            judged: self.judged,
            unjudged: self.unjudged,
        };
        let updates = self
            .kinds
            .is_some_and(|kinds| kinds.updates.is_mostly_not());
        whole.is_mostly_not() || updates
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was written before kinds were counted is read as ever, and says nothing of them.
    #[test]
    fn what_was_written_before_has_no_kinds() {
        let before = r#"{"reference":"r","error":0.0,"tensor":"t","eager_error":0.0,"bound":1.0,
            "worst_share":0.0,"judged":475,"unjudged":284,"losses":[],"reference_losses":[]}"#;
        let parity: Parity = serde_json::from_str(before).unwrap();
        assert_eq!(parity.kinds, None);
        assert!(!parity.is_in_part());
        assert!(!serde_json::to_string(&parity).unwrap().contains("kinds"));
    }

    #[test]
    fn updates_alone_make_a_judgement_one_in_part() {
        let of = |judged, unjudged| Judged { judged, unjudged };
        let parity = |updates: Judged| Parity {
            reference: String::new(),
            error: 0.0,
            tensor: String::new(),
            eager_error: 0.0,
            kink_error: None,
            bound: 1.0,
            worst_share: 0.0,
            judged: 100 + updates.judged,
            unjudged: updates.unjudged,
            kinds: Some(Kinds {
                gradients: of(100, 0),
                updates,
                ..Kinds::default()
            }),
            losses: Vec::new(),
            reference_losses: Vec::new(),
            top1: None,
        };
        assert!(!parity(of(50, 50)).is_in_part());
        assert!(parity(of(49, 51)).is_in_part());
        assert!(
            !Parity {
                kinds: None,
                ..parity(of(49, 51))
            }
            .is_in_part()
        );
        assert!(
            Parity {
                kinds: None,
                ..parity(of(0, 101))
            }
            .is_in_part()
        );
    }
}
