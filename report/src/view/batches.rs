//! What batches say on a job's page: trends, and where the lead changes.

use schema::{
    printed::{self, Bounds},
    tables::{Crossover, CrossoverRow, JobTable, Knee, TrendRow},
};
use serde::Serialize;

use super::{
    comparison::whichever_look,
    setting::{self, Settings},
};
use crate::{
    interval::{self, Estimate},
    units,
    words::{self, Badge},
};

/// The axis that both are about.
const AXIS: &str = "batch";

/// What the batches of a job say.
#[derive(Debug, Serialize)]
pub(crate) struct Batches {
    /// What all lines share; may be empty.
    shared: String,
    confidence: String,
    trends: Vec<Trend>,
    crossovers: Vec<Crossing>,
}

/// How the time of a sample goes with the batch.
#[derive(Debug, Serialize)]
struct Trend {
    setting: String,
    badge: Badge,
    /// For example `1 to 32`.
    batches: String,
    /// Time of a sample at the largest ÷ that at the smallest.
    ratio: Option<Estimate>,
    knee: Option<Estimate>,
    reason: String,
    /// Of Page's test.
    p: Option<String>,
}

/// A place where the lead changes.
#[derive(Debug, Serialize)]
struct Crossing {
    setting: String,
    /// Who is ahead at smaller batches, and who at larger ones; absent where that changes more than once.
    leaders: Option<[String; 2]>,
    contender: String,
    baseline: String,
    even: Option<Estimate>,
}

impl Batches {
    /// `None` where batches say nothing.
    pub(crate) fn new(job: &JobTable) -> Option<Self> {
        if job.trends.is_empty() && job.crossovers.is_empty() {
            return None;
        }
        let coordinates = job.trends.iter().map(|row| &row.coordinates);
        let settings = Settings::of(coordinates, &job.axes, AXIS);
        let trends = job.trends.iter();
        let crossovers = job.crossovers.iter();
        Some(Self {
            shared: settings.shared(),
            confidence: confidence(job),
            trends: trends
                .map(|row| trend(row, &settings, job.measure.margin))
                .collect(),
            crossovers: crossovers.map(|row| crossing(row, job)).collect(),
        })
    }
}

fn confidence(job: &JobTable) -> String {
    let Some(one) = job.trends.first() else {
        return String::new();
    };
    let lines = match job.trends.len() {
        1 => "One line".to_owned(),
        lines => format!("{lines} lines drawn together"),
    };
    format!(
        "{lines} at {} confidence{}: each at {}",
        units::chosen(job.measure.confidence),
        whichever_look(&job.measure),
        units::confidence(one.confidence)
    )
}

fn trend(row: &TrendRow, settings: &Settings<'_>, margin: f64) -> Trend {
    let batches = match row.sizes.as_slice() {
        [first, .., last] => format!("{} to {}", first.batch, last.batch),
        [only] => only.batch.to_string(),
        [] => units::NOTHING.to_owned(),
    };
    let bounds = Bounds {
        margin,
        floor: row.floor,
    };
    Trend {
        setting: settings.label(&row.coordinates),
        badge: words::direction(row.direction),
        batches,
        ratio: row.ends.map(|ends| interval::held(&ends, bounds).0),
        knee: row.knee.map(|knee| of_knee(knee, row)),
        reason: row.reason.clone(),
        p: row.p.map(probability),
    }
}

fn of_knee(knee: Knee, row: &TrendRow) -> Estimate {
    Estimate {
        centre: knee.centre.to_string(),
        range: format!("[{}, {}]", knee.low, knee.high),
        basis: format!(
            "{} confidence over {} blocks",
            units::confidence(row.confidence),
            row.blocks
        ),
    }
}

/// A probability: in powers of ten where it is small.
fn probability(p: f64) -> String {
    if p < 0.001 {
        units::error(p)
    } else {
        printed::short(p, 2)
    }
}

fn crossing(row: &CrossoverRow, job: &JobTable) -> Crossing {
    let contender = words::value(&row.axis, &row.value);
    let baseline = words::value(&row.axis, &row.baseline);
    let (leaders, even) = match row.crossover {
        Crossover::Several => (None, None),
        Crossover::Between {
            low,
            centre,
            high,
            contender_first,
        } => {
            let mut leaders = [contender.clone(), baseline.clone()];
            if !contender_first {
                leaders.reverse();
            }
            let even = Estimate {
                // Within the whole numbers around it.
                centre: units::fixed(centre, usize::from(centre < 10.0)),
                range: format!("[{low}, {high}]"),
                basis: "between two verdicts, which hold together".to_owned(),
            };
            (Some(leaders), Some(even))
        }
    };
    Crossing {
        setting: setting::describe(&row.coordinates, &job.axes),
        leaders,
        contender,
        baseline,
        even,
    }
}
