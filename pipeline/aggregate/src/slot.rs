//! One cell of a heat, taken out of the heat's blocks and judged.

use std::collections::{BTreeMap, BTreeSet};

use schema::{
    Outcome, OutcomeKind,
    protocol::{Exchanges, Loaded, Memory},
    record::{self, Block, Canary, FirstStart, Heat, Launch, Parity, Profiled},
    tables::LaunchRow,
    telemetry::{Energy, Telemetry},
};

use statistics::{
    interval, percentile,
    samples::{self, Steps, has_speed},
};

/// Of a block, before it and after it.
type Canaries = [Canary; 2];

/// What a heat says about one of its cells.
#[derive(Debug, Clone)]
pub(crate) struct Slot {
    /// How it ended: the worst of all that the heat says about it.
    pub(crate) outcome: Outcome,
    pub(crate) parity: Option<Parity>,
    /// What the launch for its outputs wrote, if there was one.
    pub(crate) parity_log: Option<String>,
    /// In the order of blocks.
    pub(crate) launches: Vec<LaunchRow>,
    /// Per block, the steps of the cell in it.
    pub(crate) blocks: BTreeMap<u32, Steps>,
    /// Per block that counts, what getting ready took, in nanoseconds: the start of its worker, building and
    /// compiling, and what the first step took beyond a usual one. Making weights and inputs, which is ours, is
    /// left out, and so is the warm-up: how long it lasts is ours, and steps scatter to one side.
    pub(crate) ready: BTreeMap<u32, f64>,
    pub(crate) memory: Option<Memory>,
    pub(crate) frontier: Option<record::Frontier>,
    pub(crate) loaded: Option<Loaded>,
    pub(crate) start_ns: Option<u64>,
    /// What getting ready took in its first launch.
    pub(crate) first: Option<FirstStart>,
    pub(crate) versions: BTreeMap<String, String>,
    /// Per block that counts, the energy of the cell in it, where it was asked for.
    pub(crate) energy: BTreeMap<u32, Energy>,
    /// What sensors told while the launches ran that count.
    pub(crate) telemetry: Vec<Telemetry>,
    /// Where the time of its steps went, where that was asked.
    pub(crate) profiled: Option<Profiled>,
    /// What ranks exchanged in the launches that count.
    pub(crate) exchanges: Vec<Exchanges>,
}

impl Slot {
    /// What getting ready took in its first launch, as [`Slot::ready`] counts it, in nanoseconds.
    pub(crate) fn first_ready(&self) -> Option<f64> {
        let first = self.first.as_ref()?;
        let step_ns = libm::exp(interval::mean(&self.logs())?);
        Some(ready_ns(first.start_ns, &first.loaded, step_ns))
    }

    /// Logarithms of the median steps of [`Slot::blocks`], in their order.
    pub(crate) fn logs(&self) -> Vec<f64> {
        let steps = self.blocks.values();
        steps.map(|steps| libm::log(steps.step_ns)).collect()
    }

    /// A cell of which there is nothing but the reason.
    pub(crate) fn unmeasured(outcome: Outcome) -> Self {
        Self {
            outcome,
            parity: None,
            parity_log: None,
            launches: Vec::new(),
            blocks: BTreeMap::new(),
            ready: BTreeMap::new(),
            memory: None,
            frontier: None,
            loaded: None,
            start_ns: None,
            first: None,
            versions: BTreeMap::new(),
            energy: BTreeMap::new(),
            telemetry: Vec::new(),
            profiled: None,
            exchanges: Vec::new(),
        }
    }
}

/// All cells of a heat whose shape has been checked, by slot.
pub(crate) fn slots(heat: Heat) -> Vec<Slot> {
    let Heat {
        header,
        reference,
        blocks,
        footer,
    } = heat;
    let is_timed = header.measure.blocks > 0;
    let twins: Vec<_> = header.cells.iter().map(|cell| cell.twin_of).collect();
    let parities = reference.parity.clone();
    let mut launches: Vec<Vec<(u32, Canaries, Launch)>> = vec![Vec::new(); header.cells.len()];
    // Of all blocks or of none: what a reader is told of a heat is enough to make its ratios.
    let are_interleaved = blocks.iter().all(|block| block.alone.is_none());
    for Block {
        index,
        canary_before,
        canary_after,
        launches: started,
        ..
    } in in_order(blocks)
    {
        for launch in started {
            if let Some(of_slot) = launches.get_mut(launch.slot as usize) {
                of_slot.push((index, [canary_before, canary_after], launch));
            }
        }
    }
    let endings = footer.outcomes.into_iter().zip(reference.obstacles);
    let mut slots: Vec<Slot> = launches
        .into_iter()
        .zip(reference.parity)
        .zip(endings)
        .zip(twins)
        .map(|(((launches, own), (footer, obstacle)), twin_of)| {
            // Twins run the same configuration; the run may compare outputs only once.
            let parity = own.or_else(|| parities.get(twin_of? as usize)?.clone());
            let said = Said {
                parity,
                footer,
                obstacle,
                is_timed,
                are_interleaved,
            };
            slot(launches, said)
        })
        .collect();
    for (slot, log) in slots.iter_mut().zip(reference.logs) {
        slot.parity_log = log;
    }
    // Heats that had none hold no list of them.
    for (slot, start) in slots.iter_mut().zip(reference.starts) {
        slot.first = start;
    }
    for (slot, frontier) in slots.iter_mut().zip(footer.frontiers) {
        slot.frontier = frontier;
    }
    for (slot, profiled) in slots.iter_mut().zip(footer.profiles) {
        slot.profiled = profiled;
    }
    slots
}

fn in_order(mut blocks: Vec<Block>) -> Vec<Block> {
    blocks.sort_by_key(|block| block.index);
    blocks
}

/// What a heat says that a slot is made of, besides its launches.
struct Said {
    parity: Option<Parity>,
    footer: Outcome,
    obstacle: Option<Outcome>,
    is_timed: bool,
    /// Whether rounds of every block took turns with those of other cells.
    are_interleaved: bool,
}

fn slot(launches: Vec<(u32, Canaries, Launch)>, said: Said) -> Slot {
    let Said {
        footer, obstacle, ..
    } = said;
    let (parity, verified) = verify(said.parity);
    let mut slot = Slot::unmeasured(footer.clone());
    slot.parity = parity;
    slot.loaded = median_loaded(&launches);
    slot.start_ns = median_start(&launches);
    slot.memory = launches
        .iter()
        .filter_map(|(_, _, launch)| launch.memory.clone())
        .reduce(peak);
    slot.versions = versions(&launches);
    // What was disturbed is shown, and counts only where that is all there is.
    let counts = |kind| kind == OutcomeKind::Measured || footer.kind == OutcomeKind::Unstable;
    let mut of_block: BTreeMap<u32, Vec<&Launch>> = BTreeMap::new();
    for (block, _, launch) in &launches {
        of_block.entry(*block).or_default().push(launch);
    }
    slot.blocks = of_block
        .into_iter()
        .filter_map(|(block, launches)| {
            let counted = launches
                .into_iter()
                .filter(|launch| counts(launch.outcome.kind));
            let steps = samples::steps(counted, said.are_interleaved)?;
            Some((block, steps))
        })
        .collect();
    slot.ready = launches
        .iter()
        .filter_map(|(block, _, launch)| {
            let step_ns = slot.blocks.get(block)?.step_ns;
            let loaded = launch.loaded.as_ref()?;
            Some((*block, ready_ns(launch.start_ns?, loaded, step_ns)))
        })
        .collect();
    let counted = launches.iter().filter(|(block, _, launch)| {
        slot.blocks.contains_key(block) && counts(launch.outcome.kind)
    });
    let (mut energy, mut telemetry, mut exchanges) = (BTreeMap::new(), Vec::new(), Vec::new());
    for (block, _, launch) in counted {
        exchanges.extend(launch.exchanges.clone());
        energy.extend(launch.energy.clone().map(|found| (*block, found)));
        telemetry.extend(launch.telemetry.clone());
    }
    (slot.energy, slot.telemetry, slot.exchanges) = (energy, telemetry, exchanges);
    for (block, canaries, launch) in launches {
        let outcome = samples::believed(&launch);
        slot.launches.push(row(block, canaries, launch, outcome));
    }
    slot.outcome = judge(&slot, &footer, obstacle.as_ref(), &verified, said.is_timed);
    slot
}

/// The worst of what the heat says, the footer first; without agreeing outputs, and without samples where
/// there should be some, not better than that.
fn judge(
    slot: &Slot,
    footer: &Outcome,
    obstacle: Option<&Outcome>,
    verified: &Outcome,
    is_timed: bool,
) -> Outcome {
    // A block that was disturbed is measured again: whether that came to an end, the footer says.
    let launches = slot.launches.iter().map(|launch| &launch.outcome);
    let launches = launches.filter(|outcome| outcome.kind != OutcomeKind::Unstable);
    let said = [footer].into_iter().chain(obstacle).chain(launches);
    let worst = Outcome::worst_of(said).unwrap_or(footer);
    if !worst.kind.is_complete() && !has_speed(worst.kind) {
        return worst.clone();
    }
    let is_verified = worst.kind == OutcomeKind::Verified && !is_timed;
    if slot.blocks.is_empty() && !is_verified && worst.kind != OutcomeKind::Unstable {
        return Outcome::new(OutcomeKind::NotReached, "its heat holds no sample of it");
    }
    Outcome::worst_of([worst, verified])
        .unwrap_or(worst)
        .clone()
}

/// Parity that is a number at all, and what it means for the cell.
fn verify(parity: Option<Parity>) -> (Option<Parity>, Outcome) {
    let Some(parity) = parity else {
        let reason = "its heat holds no comparison of its outputs";
        return (None, Outcome::new(OutcomeKind::ParityUnverified, reason));
    };
    let numbers = [
        parity.error,
        parity.eager_error,
        parity.kink_error.unwrap_or(0.0),
        parity.bound,
        parity.worst_share,
    ];
    let losses = parity.losses.iter().chain(&parity.reference_losses);
    if !numbers
        .iter()
        .chain(losses)
        .all(|number| number.is_finite())
    {
        let reason = "the recorded error of its outputs is not a finite number";
        return (None, Outcome::new(OutcomeKind::ParityFailed, reason));
    }
    let outcome = if parity.worst_share <= 1.0 {
        Outcome::measured()
    } else {
        let reason = format!(
            "tensor `{}` is {} times as far from {} as may be",
            parity.tensor,
            schema::printed::short(parity.worst_share, 3),
            parity.reference
        );
        Outcome::new(OutcomeKind::ParityFailed, reason)
    };
    (Some(parity), outcome)
}

fn ready_ns(start_ns: u64, loaded: &Loaded, step_ns: f64) -> f64 {
    let phases = [start_ns, loaded.build_ns, loaded.compile_ns];
    let phases: f64 = phases.map(|ns| ns as f64).iter().sum();
    phases + (loaded.first_step_ns as f64 - step_ns).max(0.0)
}

fn row(block: u32, canaries: Canaries, launch: Launch, outcome: Outcome) -> LaunchRow {
    let mut rounds = launch.rounds;
    rounds.sort_by_key(|round| round.sequence);
    let mut sorted: Vec<u64> = rounds
        .iter()
        .flat_map(|round| &round.samples_ns)
        .copied()
        .collect();
    sorted.sort_unstable();
    LaunchRow {
        block,
        outcome,
        median_ns: percentile::of_sorted(&sorted, 50),
        warm_up: launch.warm_up,
        canaries,
        rounds: rounds.into_iter().map(|round| round.samples_ns).collect(),
        log: launch.log,
    }
}

fn peak(one: Memory, other: Memory) -> Memory {
    Memory {
        resident_bytes: one.resident_bytes.max(other.resident_bytes),
        peak_resident_bytes: one.peak_resident_bytes.max(other.peak_resident_bytes),
        device_bytes: one.device_bytes.max(other.device_bytes),
        peak_device_bytes: one.peak_device_bytes.max(other.peak_device_bytes),
        other_ranks: match one.other_ranks.len() == other.other_ranks.len() {
            true => (one.other_ranks.into_iter().zip(other.other_ranks))
                .map(|(one, other)| peak(one, other))
                .collect(),
            false => Vec::new(),
        },
    }
}

/// The phases of the launch with the median total; of two in the middle, the shorter.
fn median_loaded(launches: &[(u32, Canaries, Launch)]) -> Option<Loaded> {
    let total = |loaded: &Loaded| {
        [
            loaded.fill_ns,
            loaded.build_ns,
            loaded.compile_ns,
            loaded.first_step_ns,
        ]
        .into_iter()
        .fold(0_u64, u64::saturating_add)
    };
    let mut loaded: Vec<_> = launches
        .iter()
        .filter_map(|(_, _, launch)| launch.loaded.as_ref())
        .collect();
    loaded.sort_by_key(|loaded| total(loaded));
    loaded
        .get(loaded.len().checked_sub(1)? / 2)
        .map(|&loaded| loaded.clone())
}

fn median_start(launches: &[(u32, Canaries, Launch)]) -> Option<u64> {
    let mut times: Vec<u64> = launches
        .iter()
        .filter_map(|(_, _, launch)| launch.start_ns)
        .collect();
    times.sort_unstable();
    percentile::of_sorted(&times, 50)
}

/// What its workers reported; where they differ, all that they said.
fn versions(launches: &[(u32, Canaries, Launch)]) -> BTreeMap<String, String> {
    let mut said: BTreeMap<&String, BTreeSet<&str>> = BTreeMap::new();
    for (library, version) in launches.iter().flat_map(|(_, _, launch)| &launch.versions) {
        said.entry(library).or_default().insert(version);
    }
    said.into_iter()
        .map(|(library, versions)| {
            (
                library.clone(),
                versions.into_iter().collect::<Vec<_>>().join(" and "),
            )
        })
        .collect()
}
