//! What things are called on pages.

use schema::{
    Boundary, Measure, OutcomeKind,
    record::{Parity, Top1},
    tables::{CellRow, Direction, Judgement, Verdict},
};
use serde::Serialize;

use crate::units;

/// Names of engines as their makers write them.
const ENGINES: &[(&str, &str)] = &[
    ("onnxruntime", "ONNX Runtime"),
    ("openvino", "OpenVINO"),
    ("pytorch", "PyTorch"),
    ("tensorflow", "TensorFlow"),
    ("tensorrt", "TensorRT"),
    ("transformers", "Transformers"),
];

/// Axes whose values speak for themselves.
const KNOWN_BY_VALUE: [&str; 4] = ["model", "precision", "strategy", "optimizer"];

/// A value of an axis as a reader meets it: `onnxruntime/cpu` is `ONNX Runtime cpu`, the number 8
/// of the axis `batch` is `batch 8`, and `fp32` of the axis `precision` speaks for itself.
pub(crate) fn value(axis: &str, value: &str) -> String {
    if axis == "engine" {
        let (engine, variant) = value.split_once('/').unwrap_or((value, ""));
        let title = ENGINES
            .iter()
            .find(|(name, _)| *name == engine)
            .map_or(engine, |(_, title)| title);
        return format!("{title} {variant}").trim_end().to_owned();
    }
    match KNOWN_BY_VALUE.contains(&axis) {
        true => value.to_owned(),
        false => format!("{axis} {value}"),
    }
}

/// How many rows choose as the reference's.
pub(crate) fn top1(top1: Top1) -> String {
    let rows = if top1.rows == 1 { "row" } else { "rows" };
    let (agreeing, all) = (units::count(top1.agreeing), units::count(top1.rows));
    format!("{agreeing} of {all} {rows}")
}

/// A word with the class and the icon that go with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Badge {
    /// The word.
    pub(crate) word: &'static str,
    /// Names class and icon.
    pub(crate) tone: &'static str,
}

impl Badge {
    pub(crate) const fn new(word: &'static str, tone: &'static str) -> Self {
        Self { word, tone }
    }
}

pub(crate) const fn verdict(verdict: Verdict) -> Badge {
    match verdict {
        Verdict::Faster => Badge {
            word: "faster",
            tone: "faster",
        },
        Verdict::Slower => Badge {
            word: "slower",
            tone: "slower",
        },
        Verdict::Same => Badge {
            word: "same",
            tone: "same",
        },
        Verdict::Unclear => Badge {
            word: "too close to call",
            tone: "unclear",
        },
        Verdict::NotMeasured => Badge {
            word: "not measured",
            tone: "absent",
        },
    }
}

pub(crate) const fn judgement(judgement: Judgement) -> Badge {
    match judgement {
        Judgement::Confirmed => Badge {
            word: "confirmed",
            tone: "good",
        },
        Judgement::Contradicted => Badge {
            word: "contradicted",
            tone: "bad",
        },
        Judgement::Unclear => Badge {
            word: "unclear",
            tone: "unclear",
        },
        Judgement::NotMeasurableHere => Badge {
            word: "not measurable here",
            tone: "absent",
        },
    }
}

/// Where the time of a sample goes: less of it is faster.
pub(crate) const fn direction(direction: Direction) -> Badge {
    match direction {
        Direction::Falls => Badge {
            word: "falls",
            tone: "faster",
        },
        Direction::Rises => Badge {
            word: "rises",
            tone: "slower",
        },
        Direction::None => Badge {
            word: "no trend",
            tone: "same",
        },
        Direction::Unclear => verdict(Verdict::Unclear),
        Direction::NotMeasured => verdict(Verdict::NotMeasured),
    }
}

pub(crate) const fn outcome(kind: OutcomeKind) -> Badge {
    match kind {
        OutcomeKind::Measured => Badge {
            word: "measured",
            tone: "good",
        },
        OutcomeKind::Verified => Badge {
            word: "verified",
            tone: "good",
        },
        OutcomeKind::Unstable => Badge {
            word: "unstable",
            tone: "unclear",
        },
        OutcomeKind::ParityUnverified => Badge {
            word: "parity unverified",
            tone: "unclear",
        },
        OutcomeKind::NotReached => Badge {
            word: "not reached",
            tone: "absent",
        },
        OutcomeKind::TimedOut => Badge {
            word: "timed out",
            tone: "bad",
        },
        OutcomeKind::OutOfMemory => Badge {
            word: "out of memory",
            tone: "bad",
        },
        OutcomeKind::Crashed => Badge {
            word: "crashed",
            tone: "bad",
        },
        OutcomeKind::ParityFailed => Badge {
            word: "parity failed",
            tone: "bad",
        },
        OutcomeKind::Unsupported => Badge {
            word: "unsupported",
            tone: "absent",
        },
        OutcomeKind::Unavailable => Badge {
            word: "unavailable",
            tone: "absent",
        },
    }
}

/// A training of whose comparison most could not be judged.
const VERIFIED_IN_PART: Badge = Badge::new("verified in part", "unclear");

/// How a cell ended.
pub(crate) fn ending(row: &CellRow) -> Badge {
    match row.outcome.kind {
        OutcomeKind::Verified if is_in_part(row) => VERIFIED_IN_PART,
        kind => outcome(kind),
    }
}

/// What that means, in a sentence or two.
pub(crate) fn meaning(row: &CellRow) -> &'static str {
    match row.outcome.kind {
        OutcomeKind::Measured if is_in_part(row) => {
            "Samples were taken. What could be judged of the training agrees with the reference, which is less than half of it or of its updates."
        }
        OutcomeKind::Verified if is_in_part(row) => {
            "What could be judged of the training agrees with the reference, which is less than half of it or of its updates. The job asks for nothing to be timed."
        }
        kind => outcome_meaning(kind),
    }
}

/// Whether most of its comparison could not be judged.
pub(crate) fn is_in_part(row: &CellRow) -> bool {
    row.parity.as_ref().is_some_and(Parity::is_in_part)
}

/// What an ending means, in one sentence.
pub(crate) const fn outcome_meaning(kind: OutcomeKind) -> &'static str {
    match kind {
        OutcomeKind::Measured => "Samples were taken, and the outputs agree with the reference.",
        OutcomeKind::Verified => {
            "The outputs agree with the reference. The job asks for nothing to be timed."
        }
        OutcomeKind::Unstable => {
            "Samples were taken, but the machine disturbed them beyond a bound; the speed is shown, and no verdict rests on it. The same command measures it again."
        }
        OutcomeKind::ParityUnverified => {
            "The outputs could not be compared, since no reference exists for this configuration. No speed is shown."
        }
        OutcomeKind::NotReached => {
            "It never started or was not finished: the budget ran out, or someone interrupted the run."
        }
        OutcomeKind::TimedOut => "It exceeded its time limit.",
        OutcomeKind::OutOfMemory => {
            "It ran out of memory on host or device, or exceeded its limit."
        }
        OutcomeKind::Crashed => "The worker died, spoke garbage, or ended with an error.",
        OutcomeKind::ParityFailed => {
            "The outputs disagree with the reference, or a training came to weights that are not finite. No speed is shown for a wrong answer."
        }
        OutcomeKind::Unsupported => {
            "The engine cannot run this configuration, or its library does not take the model."
        }
        OutcomeKind::Unavailable => "This machine lacks a library, a device or the engine.",
    }
}

/// Where the clock starts and stops.
pub(crate) const fn boundary(boundary: Boundary) -> &'static str {
    match boundary {
        Boundary::Step => {
            "step: inputs and outputs stay on the device, a host clock around launch and synchronise"
        }
        Boundary::Device => {
            "device: inputs and outputs stay on the device, its own clock from an event before the work of a step to one after it"
        }
        Boundary::Request => {
            "request: from the caller's memory on the host and back to it, copies included"
        }
    }
}

/// A launch that was measured before its step time was steady.
pub(crate) const NOT_STEADY: Badge = Badge {
    word: "not steady",
    tone: "unclear",
};

/// A name and its value, for lists of facts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Fact {
    pub(crate) name: String,
    pub(crate) value: String,
}

pub(crate) fn fact(name: impl Into<String>, value: impl Into<String>) -> Fact {
    Fact {
        name: name.into(),
        value: value.into(),
    }
}

/// The passes over all cells of a group.
fn blocks(measure: &Measure) -> String {
    let rounds = match measure.rounds {
        1 => "1 round".to_owned(),
        rounds => format!("{rounds} rounds"),
    };
    let looks = measure.looks();
    let apart = match measure.apart_ns {
        0 => String::new(),
        ns => format!("; at least {} apart", units::span(ns)),
    };
    let (most, ends) = match looks.as_slice() {
        [earlier @ .., last] if !earlier.is_empty() => {
            let earlier: Vec<String> = earlier.iter().map(u32::to_string).collect();
            let earlier = earlier.join(", ");
            let ends = format!("; ends after {earlier} where that is enough");
            (format!("at most {last}"), ends)
        }
        _ => (measure.blocks.to_string(), String::new()),
    };
    format!("{most} passes over all cells, {rounds} each{apart}{ends}")
}

/// How a job was measured.
pub(crate) fn measure(measure: &Measure) -> Vec<Fact> {
    if measure.frontier.is_some() {
        let nothing = "nothing: the largest batch that fits into memory is sought";
        return vec![fact("Timed", nothing)];
    }
    if measure.blocks == 0 {
        let nothing = "nothing: outputs are compared, and that is all";
        return vec![fact("Timed", nothing)];
    }
    vec![
        fact("Clock", boundary(measure.boundary)),
        fact("Blocks", blocks(measure)),
        fact(
            "Round",
            format!(
                "at least {} and {} steps",
                units::span(measure.round_ns),
                measure.round_steps
            ),
        ),
        fact(
            "Warm-up",
            format!(
                "until steady or for {}, whichever is shorter",
                units::span(measure.warm_up_ns)
            ),
        ),
        fact(
            "Margin",
            format!(
                "{}: smaller differences are not worth acting on",
                units::chosen(measure.margin)
            ),
        ),
        fact(
            "Target",
            format!("intervals of ± {} or less", units::chosen(measure.target)),
        ),
        fact(
            "Confidence",
            format!(
                "{} for all ratios of this job together, and for each step time by itself",
                units::chosen(measure.confidence)
            ),
        ),
        fact(
            "Disturbed blocks",
            match measure.disturbance {
                None => "count like any other".to_owned(),
                Some(limits) => format!(
                    "are measured again, {} at most: those in which other processes took more than {} of the processors' time, or a hypervisor more than {}",
                    limits.repeats,
                    units::chosen(limits.foreign),
                    units::chosen(limits.steal)
                ),
            },
        ),
        fact("Budget", units::span(measure.budget_ns)),
        fact(
            "Time limit",
            format!("{} a launch", units::span(measure.timeout_ns)),
        ),
        fact(
            "Memory limit",
            measure
                .memory_limit_bytes
                .map_or_else(|| "what the machine has".to_owned(), units::bytes),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_read_as_words() {
        assert_eq!(value("engine", "onnxruntime/cpu"), "ONNX Runtime cpu");
        assert_eq!(value("engine", "own"), "own");
        assert_eq!(value("batch", "8"), "batch 8");
        assert_eq!(value("model", "resnet18"), "resnet18");
        assert_eq!(value("tf32", "off"), "tf32 off");
        assert_eq!(value("optimization", "all"), "optimization all");
    }
}
