//! How a job is measured: its own settings, then the manifest's, then the defaults.

use schema::{
    Boundary, Measure,
    manifest::{Disturbed, MeasureSettings, Percent, Unfair},
    plan::{Disturbance, MARGIN, VERDICT_BLOCKS},
};

use crate::{
    context::{Context, key},
    tree::Step,
};

/// Default of `target`.
const TARGET: f64 = 0.01;

/// Most blocks of a heat.
const MOST_BLOCKS: u32 = 48;

/// Limits to disturbance. An idle machine keeps a hundredth of itself busy. Some hundredths of its
/// processors' time slow what runs on all of them by as much, which is what verdicts are about; what a
/// hypervisor takes comes in longer pieces, and hits one engine or the other.
pub(crate) const DISTURBANCE: Disturbance = Disturbance {
    foreign: 0.05,
    steal: 0.02,
    repeats: VERDICT_BLOCKS,
};

/// Largest batch that is tried where the largest that fits is sought.
const MOST_BATCH: u64 = 1 << 20;

pub(crate) const SECOND_NS: u64 = 1_000_000_000;

/// Length of a stretch that energy is measured by: counters are updated every 20 to 100 ms, and the ends
/// of the stretch are to be lost in it.
const ENERGY_NS: u64 = 10 * SECOND_NS;

/// Default of `apart`. Where one engine is slower by half for half a minute now and then, six blocks that
/// follow each other at once hold the long run's ratio in 58 % of simulated heats, and blocks so far apart in
/// 95 % (the method page has the table).
pub(crate) const APART_NS: u64 = 30 * SECOND_NS;

/// The settings that a job does not give itself.
fn merged(own: &MeasureSettings, shared: &MeasureSettings) -> MeasureSettings {
    MeasureSettings {
        target: own.target.or(shared.target),
        margin: own.margin.or(shared.margin),
        budget: own.budget.or(shared.budget),
        boundary: own.boundary.or(shared.boundary),
        blocks: own.blocks.or(shared.blocks),
        apart: own.apart.or(shared.apart),
        rounds: own.rounds.or(shared.rounds),
        round: own.round.or(shared.round),
        round_steps: own.round_steps.or(shared.round_steps),
        warm_up: own.warm_up.or(shared.warm_up),
        timeout: own.timeout.or(shared.timeout),
        memory_limit: own.memory_limit.or(shared.memory_limit),
        confidence: own.confidence.or(shared.confidence),
        disturbed: own.disturbed.or(shared.disturbed),
        energy: own.energy.or(shared.energy),
        unfair: own.unfair.or(shared.unfair),
        frontier: own.frontier.or(shared.frontier),
        ceilings: own.ceilings.or(shared.ceilings),
    }
}

/// What becomes of a comparison of the job that is not fair.
pub(crate) fn unfair(context: &Context<'_>) -> Unfair {
    let given = merged(&context.job.measure, &context.file.manifest.measure);
    given.unfair.unwrap_or(Unfair::Warn)
}

/// Whether the run is to measure what the devices of the job can do at most: where nobody says, if it has
/// the blocks for verdicts. One with fewer is a trial, and is to be over soon.
pub(crate) fn wants_ceilings(context: &Context<'_>, measure: &Measure) -> bool {
    let given = merged(&context.job.measure, &context.file.manifest.measure);
    let wanted = given.ceilings.unwrap_or(measure.blocks >= VERDICT_BLOCKS);
    wanted && measure.blocks > 0
}

/// The settings of the job, each checked.
pub(crate) fn resolve(context: &mut Context<'_>) -> Measure {
    let own = &context.job.measure;
    let given = merged(own, &context.file.manifest.measure);
    let share =
        |percent: Option<Percent>, default: f64| percent.map_or(default, |percent| percent.share);
    let target = share(given.target, TARGET);
    let blocks = match given.frontier {
        Some(_) => own.blocks.unwrap_or(0),
        None => given.blocks.unwrap_or(MOST_BLOCKS),
    };
    let is_kept = given.disturbed == Some(Disturbed::Keep) || blocks < VERDICT_BLOCKS;
    let measure = Measure {
        target,
        margin: share(given.margin, target.max(MARGIN)),
        budget_ns: given.budget.map_or(1800 * SECOND_NS, |time| time.ns),
        boundary: given.boundary.unwrap_or(Boundary::Step),
        blocks,
        apart_ns: match given.apart {
            Some(time) => time.ns,
            None if blocks >= VERDICT_BLOCKS => APART_NS,
            None => 0,
        },
        rounds: given.rounds.unwrap_or(6),
        round_ns: given.round.map_or(100_000_000, |time| time.ns),
        round_steps: given.round_steps.unwrap_or(2),
        warm_up_ns: given.warm_up.map_or(5 * SECOND_NS, |time| time.ns),
        timeout_ns: given.timeout.map_or(300 * SECOND_NS, |time| time.ns),
        memory_limit_bytes: given.memory_limit.map(|size| size.bytes),
        confidence: share(given.confidence, 0.95),
        disturbance: (!is_kept).then_some(DISTURBANCE),
        frontier: given.frontier,
        energy_ns: (given.energy == Some(true)).then_some(ENERGY_NS),
    };
    check(context, &measure);
    measure
}

fn check(context: &mut Context<'_>, measure: &Measure) {
    let hour_ns = 3600 * SECOND_NS;
    let bounds: [(&str, u64, u64, u64, &str); 7] = [
        (
            "blocks",
            u64::from(measure.blocks),
            0,
            u64::from(MOST_BLOCKS),
            "0 to 48 blocks",
        ),
        ("apart", measure.apart_ns, 0, hour_ns, "0s to 1h"),
        (
            "rounds",
            u64::from(measure.rounds),
            1,
            100,
            "1 to 100 rounds",
        ),
        (
            "round_steps",
            measure.round_steps,
            1,
            1_000_000,
            "1 to 1,000,000 steps",
        ),
        (
            "round",
            measure.round_ns,
            1_000_000,
            600 * SECOND_NS,
            "1ms to 10m",
        ),
        ("warm_up", measure.warm_up_ns, 0, hour_ns, "0s to 1h"),
        (
            "timeout",
            measure.timeout_ns,
            SECOND_NS,
            24 * hour_ns,
            "1s to 24h",
        ),
    ];
    for (setting, value, least, most, range) in bounds {
        if !(least..=most).contains(&value) {
            error(
                context,
                setting,
                format!("`{setting}` is out of bounds"),
                format!("possible are {range}"),
            );
        }
    }
    if measure.frontier.is_some() && measure.blocks > 0 {
        error(
            context,
            "blocks",
            "a job that seeks the largest batch times nothing".into(),
            "leave `blocks` out, or seek it in a job of its own".into(),
        );
    }
    if let Some(most) = measure.frontier
        && !(2..=MOST_BATCH).contains(&most)
    {
        error(
            context,
            "frontier",
            "`frontier` is out of bounds".into(),
            format!("possible are batches of 2 to {MOST_BATCH}"),
        );
    }
    if measure.budget_ns == 0 {
        error(
            context,
            "budget",
            "a budget of nothing measures nothing".into(),
            "give it some time, for example `4m`".into(),
        );
    }
    if measure
        .memory_limit_bytes
        .is_some_and(|bytes| bytes < 1 << 20)
    {
        error(
            context,
            "memory_limit",
            "no worker runs in so little memory".into(),
            "give it at least `1MiB`".into(),
        );
    }
    if !(0.5..1.0).contains(&measure.confidence) {
        error(
            context,
            "confidence",
            "the confidence is out of bounds".into(),
            "possible are 50% up to below 100%".into(),
        );
    }
    if measure.margin < measure.target {
        let (margin, target) = (measure.margin * 100.0, measure.target * 100.0);
        error(
            context,
            "margin",
            format!("the margin of {margin}% lies below the target of {target}%"),
            "a difference smaller than an interval's half-width cannot be told: raise the margin or lower the target".into(),
        );
    }
}

/// Notes an error at a setting, where it was given: in the job, else in the manifest.
fn error(context: &mut Context<'_>, setting: &str, message: String, help: String) {
    let steps = [key("measure"), key(setting)];
    let is_own = has(&context.job.measure, setting);
    let path: Vec<Step> = if is_own {
        context.path(&steps)
    } else {
        steps.to_vec()
    };
    let fault = context.file.fault(&path, message).help(help);
    context.faults.push(fault);
}

fn has(settings: &MeasureSettings, setting: &str) -> bool {
    match setting {
        "margin" => settings.margin.is_some() || settings.target.is_some(),
        "budget" => settings.budget.is_some(),
        "blocks" => settings.blocks.is_some(),
        "apart" => settings.apart.is_some(),
        "rounds" => settings.rounds.is_some(),
        "round" => settings.round.is_some(),
        "round_steps" => settings.round_steps.is_some(),
        "warm_up" => settings.warm_up.is_some(),
        "timeout" => settings.timeout.is_some(),
        "memory_limit" => settings.memory_limit.is_some(),
        "confidence" => settings.confidence.is_some(),
        "frontier" => settings.frontier.is_some(),
        _ => false,
    }
}
