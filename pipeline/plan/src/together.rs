//! How long heats take whose blocks take turns.

use std::collections::BTreeMap;

use schema::{Measure, Plan, plan::PlannedHeat};

/// What heats take together: all of their blocks, or, where that is longer, those of one of them with what
/// is to lie between.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Together {
    blocks_ns: u64,
    longest_ns: u64,
}

impl Together {
    /// The heats that the store lacks, by the ids of their jobs. Summed once for all: a plan may have as many
    /// jobs as cells.
    pub(crate) fn by_job(plan: &Plan) -> BTreeMap<&str, Self> {
        let ceilings = plan.ceilings.iter().map(|ceilings| &ceilings.job);
        let jobs = plan.jobs.iter().chain(ceilings);
        let measures: BTreeMap<&str, &Measure> =
            jobs.map(|job| (job.id.as_str(), &job.measure)).collect();
        let mut by_job: BTreeMap<&str, Self> = BTreeMap::new();
        for heat in plan.heats_to_measure() {
            let sum = by_job.entry(&heat.job).or_default();
            let measure = measures.get(heat.job.as_str());
            *sum = sum.and(Self::of(heat, measure.copied()));
        }
        by_job
    }

    fn of(heat: &PlannedHeat, measure: Option<&Measure>) -> Self {
        let between = measure.map_or(0, |measure| {
            let gaps = measure.first_look().saturating_sub(1);
            measure.apart_ns.saturating_mul(u64::from(gaps))
        });
        Self {
            blocks_ns: heat.predicted_ns,
            longest_ns: match heat.predicted_ns {
                // Nothing of it can run.
                0 => 0,
                blocks_ns => blocks_ns.saturating_add(between),
            },
        }
    }

    /// These and others.
    pub(crate) fn and(self, others: Self) -> Self {
        Self {
            blocks_ns: self.blocks_ns.saturating_add(others.blocks_ns),
            longest_ns: self.longest_ns.max(others.longest_ns),
        }
    }

    /// The time in nanoseconds.
    pub(crate) fn ns(&self) -> u64 {
        self.blocks_ns.max(self.longest_ns)
    }
}
