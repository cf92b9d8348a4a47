//! Whether a heat has said enough, asked at its looks.
//!
//! Intervals hold whichever look ends the measuring, and by whatever rule
//! ([`statistics::family`]), so the rule may be one of thrift. It is made from the heat's own blocks, from
//! the plan at hand, and from what the twins of the job's heats have said until then. Of what it asks, the key of a heat has the margin and the confidence,
//! and not the other pairs of the job: a heat that is there is not measured again for a matrix that has
//! grown.

use std::collections::{BTreeMap, BTreeSet};

use schema::{
    Device, EngineVariant,
    plan::{Measure, PlannedCell, PlannedHeat, PlannedJob, Quantity},
    printed::{Bounds, percent},
    record::{Block, HeatHeader, Launch},
};
use statistics::{
    enough::{self, Known},
    family::{Family, confidence_of_one},
    interval,
    noise::{self, Sides, Twins},
    pair, samples,
};

/// How far a verdict may be settled while a job is measured: twins of heats to come may raise the floor, and no heat
/// that was sealed is opened for that.
const SETTLED: &str = "settled by the noise known then";

/// What a heat is measured for.
pub(crate) struct Jury<'a> {
    cells: &'a [PlannedCell],
    measure: &'a Measure,
    pairs: Vec<Pair>,
    /// All verdicts of the job.
    family: Family,
    /// Confidence of the interval of a cell for itself.
    of_cell: f64,
}

/// Two slots that are held against each other.
struct Pair {
    baseline: usize,
    contender: usize,
    /// The contender is held against so many times the baseline.
    times: f64,
}

/// The steps of a cell, by block.
type Steps = BTreeMap<u32, samples::Steps>;

impl<'a> Jury<'a> {
    /// Of a heat that this plan asks for, as it was begun; `family` is the number of the job's verdicts.
    pub(crate) fn new(
        header: &'a HeatHeader,
        heat: &PlannedHeat,
        job: &'a PlannedJob,
        family: u32,
    ) -> Self {
        let measure = &job.measure;
        let slot = |id: &schema::CellId| {
            let is_it = |cell: &PlannedCell| cell.id == *id && cell.twin_of.is_none();
            header.cells.iter().position(is_it)
        };
        let compared = job.comparisons.iter().flat_map(|family| &family.pairs);
        let compared = compared
            .filter(|pair| pair.group == heat.group)
            .map(|pair| (&pair.baseline, &pair.contender, 1.0));
        let claimed = job.claimed(heat, Quantity::StepTime).into_iter();
        let claimed =
            claimed.map(|(claim, [left, right])| (&right.id, &left.id, claim.expect.times));
        let pairs = compared
            .chain(claimed)
            .filter_map(|(baseline, contender, times)| {
                Some(Pair {
                    baseline: slot(baseline)?,
                    contender: slot(contender)?,
                    times,
                })
            });
        Self {
            cells: &header.cells,
            pairs: pairs.collect(),
            family: Family::of(measure, family),
            of_cell: confidence_of_one(measure),
            measure,
        }
    }

    /// Whether these blocks are enough, by what the job's twins have said so far.
    pub(crate) fn enough(&self, blocks: &[Block], noise: &Noise) -> Answer {
        let steps: Vec<Option<Steps>> = (0..self.cells.len())
            .map(|slot| steps(slot, blocks))
            .collect();
        let of = |slot: usize| steps.get(slot)?.as_ref();
        let pairs = self.pairs.iter();
        let mut sides = pairs
            .filter(|pair| of(pair.baseline).is_some() && of(pair.contender).is_some())
            .flat_map(|pair| [pair.baseline, pair.contender]);
        if sides.any(|slot| {
            self.cells
                .get(slot)
                .is_some_and(|cell| noise.is_coming(cell))
        }) {
            return Answer::Wait;
        }
        match self.reason(&of, noise) {
            Some(reason) => Answer::Enough(reason),
            None => Answer::More,
        }
    }

    /// Why it is enough; `None` while more would tell more.
    fn reason<'s>(
        &self,
        of: &impl Fn(usize) -> Option<&'s Steps>,
        noise: &Noise,
    ) -> Option<String> {
        let target = percent(self.measure.target);
        let (mut settled, mut narrow, mut open, mut blind) = (0, 0, 0, 0);
        for pair in &self.pairs {
            // Of a cell without a speed there is no verdict, however often the others are measured.
            let Some((baseline, contender)) = of(pair.baseline).zip(of(pair.contender)) else {
                continue;
            };
            let shared = pair::shared(baseline, contender, self.measure.boundary);
            let sides = self.noise_of(pair, noise);
            let ratio = self.family.ratio(&shared, pair.times, sides.launches());
            let known = ratio.map_or(Known::Open, |ratio| {
                let bounds = Bounds {
                    margin: self.measure.margin,
                    // What no twin of the job has told yet, and none under way is about to, keeps nothing going.
                    floor: Some(sides.floor_so_far().unwrap_or(0.0)),
                };
                enough::known(&ratio.interval, bounds, self.measure.target)
            });
            match known {
                Known::Settled if sides.floor().is_none() => blind += 1,
                Known::Settled => settled += 1,
                Known::Narrow => narrow += 1,
                Known::Open => open += 1,
            }
        }
        match (settled, narrow, open) {
            (_, _, 1..) => None,
            _ if blind > 0 => Some(format!(
                "no twin tells the noise that {blind} of {} verdicts are held against",
                settled + narrow + blind
            )),
            (0, 0, 0) => self.enough_of_cells(of, &target),
            (_, 0, 0) => Some(format!("every verdict is {SETTLED}")),
            (0, _, 0) => Some(format!("every interval is within {target}")),
            _ => Some(format!(
                "every verdict is {SETTLED}, or its interval within {target}"
            )),
        }
    }

    /// Where nothing is compared, step times are what is asked for.
    fn enough_of_cells<'s>(
        &self,
        of: &impl Fn(usize) -> Option<&'s Steps>,
        target: &str,
    ) -> Option<String> {
        let originals = self.cells.iter().enumerate();
        let originals = originals.filter(|(_, cell)| cell.twin_of.is_none());
        let mut sound = originals.filter_map(|(slot, _)| of(slot)).peekable();
        if sound.peek().is_none() {
            return Some("no cell can have a speed any more".to_owned());
        }
        let is_known = |steps: &Steps| {
            let steps_ns = || steps.values().map(|steps| steps.step_ns);
            let logs: Vec<f64> = steps_ns().map(libm::log).collect();
            let shortest = steps_ns().fold(f64::INFINITY, f64::min);
            let resolution = interval::resolution(shortest, self.measure.boundary);
            interval::of_logs(&logs, self.of_cell, resolution)
                .is_some_and(|step| enough::is_narrow(&step, self.measure.target))
        };
        sound
            .all(is_known)
            .then(|| format!("every step time is known within {target}"))
    }

    fn noise_of(&self, pair: &Pair, noise: &Noise) -> Sides {
        let of = |slot: usize| noise.of(self.cells.get(slot)?, self.of_cell);
        Sides([of(pair.baseline), of(pair.contender)])
    }
}

/// What a jury says at a look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// More blocks would tell nothing more, for this reason.
    Enough(String),
    /// They would.
    More,
    /// That is known once twins in other heats under way have told their noise.
    Wait,
}

/// What twins of a job's heats have said so far: verdicts are drawn against the noise of all of them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Noise {
    twins: BTreeMap<Owner, Twins>,
    /// Whose twins are being measured, and have too few blocks yet to tell.
    coming: BTreeSet<Owner>,
}

/// Whose twins: an engine's and variant's, on a device.
pub(crate) type Owner = (EngineVariant, Device);

impl Noise {
    /// Takes in the twins of a heat, by its blocks so far.
    pub(crate) fn add(&mut self, cells: &[PlannedCell], blocks: &[Block]) {
        for (slot, cell) in cells.iter().enumerate() {
            let original = cell
                .twin_of
                .and_then(|original| steps(original as usize, blocks));
            if let Some((original, twin)) = original.zip(steps(slot, blocks)) {
                let shared = pair::shared(&original, &twin, cell.cell.boundary);
                self.twins.entry(owner(cell)).or_default().add(&shared);
            }
        }
    }

    /// Takes in what others have said.
    pub(crate) fn join(&mut self, other: &Self) {
        for (owner, twins) in &other.twins {
            self.twins.entry(owner.clone()).or_default().join(twins);
        }
        self.coming.extend(other.coming.iter().cloned());
    }

    /// Twins of this cell's will have enough blocks before long.
    pub(crate) fn expect(&mut self, cell: &PlannedCell) {
        self.coming.insert(owner(cell));
    }

    fn of(&self, cell: &PlannedCell, confidence: f64) -> Option<noise::Noise> {
        Some(self.twins.get(&owner(cell))?.noise(confidence))
    }

    /// Whether it is only a matter of blocks under way that the noise of such a cell is not known.
    fn is_coming(&self, cell: &PlannedCell) -> bool {
        let owner = owner(cell);
        let is_known = self.twins.get(&owner).is_some_and(Twins::are_enough);
        self.coming.contains(&owner) && !is_known
    }
}

pub(crate) fn owner(planned: &PlannedCell) -> Owner {
    (planned.cell.engine.clone(), planned.cell.device)
}

/// A cell's step times in the blocks that nothing disturbed; `None` where it has none, or has failed once,
/// in whatever block, and so has no speed.
fn steps(slot: usize, blocks: &[Block]) -> Option<Steps> {
    let of_slot = |launch: &&Launch| launch.slot as usize == slot;
    let launches = blocks.iter().flat_map(|block| &block.launches);
    let mut launches = launches.filter(of_slot);
    if !launches.all(|launch| samples::has_speed(samples::believed(launch).kind)) {
        return None;
    }
    let are_interleaved = blocks.iter().all(|block| block.alone.is_none());
    let sound = blocks.iter().filter(|block| block.disturbed.is_none());
    let steps: Steps = sound
        .filter_map(|block| {
            let launches = block.launches.iter().filter(of_slot);
            Some((block.index, samples::steps(launches, are_interleaved)?))
        })
        .collect();
    (!steps.is_empty()).then_some(steps)
}

#[cfg(test)]
mod tests {
    use schema::{
        CellId,
        plan::{Comparison, Pair as Planned, Status},
        record::{Round, Tool},
    };

    use super::*;
    use crate::sample::{block, measure, planned};

    /// Cells that differ in their batch, the last one a twin of the first.
    fn header(cells: u64, twinned: bool, measure: Measure) -> HeatHeader {
        let cell = |batch: u64| {
            let graph = models::sample::perceptron(batch).expect("it is a graph");
            let engine = "pytorch/eager".parse().expect("it is an engine");
            let cell = schema::Cell::plain(&graph, engine);
            PlannedCell {
                id: CellId(format!("cell{batch}")),
                ..planned(cell)
            }
        };
        let mut cells: Vec<_> = (1..=cells).map(cell).collect();
        if twinned {
            let twin = PlannedCell {
                twin_of: Some(0),
                ..cells[0].clone()
            };
            cells.push(twin);
        }
        HeatHeader {
            version: schema::record::VERSION,
            group: "g".to_owned(),
            key: schema::Digest::of_bytes(b"key"),
            key_parts: BTreeMap::new(),
            cells,
            measure,
            seed: 1,
            started: "2026-11-25T12:00:00Z".to_owned(),
            environment: telemetry::environment(),
            tool: Tool {
                version: "0".to_owned(),
                revision: None,
            },
        }
    }

    /// A heat and a job that hold all cells against the first.
    fn asked(header: &HeatHeader) -> (PlannedHeat, PlannedJob) {
        let originals = header.cells.iter().filter(|cell| cell.twin_of.is_none());
        let pairs = originals.skip(1).map(|cell| Planned {
            group: "g".to_owned(),
            baseline: header.cells[0].id.clone(),
            contender: cell.id.clone(),
            value: String::new(),
            coordinates: BTreeMap::new(),
        });
        let job = PlannedJob {
            profile: false,
            id: "job".to_owned(),
            question: String::new(),
            mode: schema::Mode::Inference,
            measure: header.measure,
            vary: BTreeMap::new(),
            comparisons: vec![Comparison {
                axis: "batch".to_owned(),
                baseline: "1".to_owned(),
                pairs: pairs.collect(),
            }],
            allow: Vec::new(),
            claims: Vec::new(),
        };
        let heat = PlannedHeat {
            group: "g".to_owned(),
            job: "job".to_owned(),
            key: header.key,
            key_parts: BTreeMap::new(),
            cells: header.cells.clone(),
            status: Status::New,
            predicted_ns: 1,
        };
        (heat, job)
    }

    /// What is said after blocks in which the cells took so many nanoseconds, 0 for one that crashed, where
    /// twins of another heat are quiet.
    fn said(header: &HeatHeader, blocks: &[Vec<u64>]) -> Option<String> {
        let (heat, job) = asked(header);
        let blocks = measured(blocks);
        let mut noise = quiet();
        noise.add(&header.cells, &blocks);
        match Jury::new(header, &heat, &job, 2).enough(&blocks, &noise) {
            Answer::Enough(reason) => Some(reason),
            Answer::More => None,
            Answer::Wait => panic!("nobody is waited for"),
        }
    }

    /// What twins say that are as fast as their originals, in another heat of the job.
    fn quiet() -> Noise {
        let mut noise = Noise::default();
        let twinned = header(1, true, measure());
        noise.add(&twinned.cells, &measured(&six(&[|first, _| first])));
        noise
    }

    fn measured(blocks: &[Vec<u64>]) -> Vec<Block> {
        let blocks = (0..).zip(blocks).map(|(index, times)| block(index, times));
        blocks.collect()
    }

    /// Six blocks: the first cell's times, a thousandth up and down, and those of others in its terms.
    fn six(others: &[fn(u64, u64) -> u64]) -> Vec<Vec<u64>> {
        let times = |index: u64| {
            let first = 1_000_000 + 1000 * (index % 3);
            let others = others.iter().map(|other| other(first, index));
            [first].into_iter().chain(others).collect()
        };
        (0..6).map(times).collect()
    }

    fn said_of(header: &HeatHeader, others: &[fn(u64, u64) -> u64]) -> Option<String> {
        said(header, &six(others))
    }

    const TWICE: fn(u64, u64) -> u64 = |first, _| 2 * first;
    const AT_THE_MARGIN: fn(u64, u64) -> u64 = |first, index| first / 100 * 102 + 50 * (index % 2);
    const NOISY: fn(u64, u64) -> u64 = |first, index| first + 100_000 * (index % 3);
    const CRASHING: fn(u64, u64) -> u64 = |first, index| if index == 3 { 0 } else { first };

    /// Twice as slow in every pass, on a machine whose speed comes and goes: the ratio of medians is 3 or 4 ÷ 3.
    #[test]
    fn rounds_of_a_pass_are_held_against_each_other() {
        let two = header(2, false, measure());
        let mut blocks = measured(&six(&[TWICE]));
        for (index, block) in blocks.iter_mut().enumerate() {
            let rounds = [[[10, 10, 15], [20, 30, 30]], [[10, 15, 15], [20, 30, 20]]];
            for (launch, times) in block.launches.iter_mut().zip(rounds[index % 2]) {
                launch.rounds = (0..)
                    .zip(times)
                    .map(|(sequence, time)| Round {
                        sequence,
                        samples_ns: vec![time * 100_000],
                    })
                    .collect();
            }
        }
        let (heat, job) = asked(&two);
        let jury = Jury::new(&two, &heat, &job, 1);
        let settled = "every verdict is settled by the noise known then";
        let enough = Answer::Enough(settled.to_owned());
        assert_eq!(jury.enough(&blocks, &quiet()), enough);
        blocks[2].alone = Some("why".to_owned());
        assert_eq!(jury.enough(&blocks, &quiet()), Answer::More);
    }

    #[test]
    fn pairs_are_settled_or_narrow_or_keep_a_heat_going() {
        let two = header(2, false, measure());
        let settled = "every verdict is settled by the noise known then";
        assert_eq!(said_of(&two, &[TWICE]).as_deref(), Some(settled));
        let narrow = "every interval is within 1 %";
        assert_eq!(said_of(&two, &[AT_THE_MARGIN]).as_deref(), Some(narrow));
        assert_eq!(said_of(&two, &[NOISY]), None);
        let three = header(3, false, measure());
        let mixed = "every verdict is settled by the noise known then, or its interval within 1 %";
        let said = |others: &[fn(u64, u64) -> u64]| said_of(&three, others);
        assert_eq!(said(&[TWICE, AT_THE_MARGIN]).as_deref(), Some(mixed));
        assert_eq!(said(&[TWICE, NOISY]), None);
        // What has no speed keeps nothing going.
        assert_eq!(said(&[TWICE, CRASHING]).as_deref(), Some(settled));
    }

    #[test]
    fn noise_between_twins_keeps_a_verdict_open() {
        let twinned = header(2, true, measure());
        let noisy_twin: fn(u64, u64) -> u64 = |first, index| first + 300_000 * (index % 2);
        let slower: fn(u64, u64) -> u64 = |first, index| first / 10 * 12 + 50_000 * (index % 2);
        assert!(said_of(&header(2, false, measure()), &[slower]).is_some());
        assert_eq!(said_of(&twinned, &[slower, noisy_twin]), None);
    }

    #[test]
    fn a_heat_waits_for_twins_that_are_about_to_tell() {
        let two = header(2, false, measure());
        let (heat, job) = asked(&two);
        let jury = Jury::new(&two, &heat, &job, 2);
        let blocks = measured(&six(&[TWICE]));
        let said = |noise: &Noise| jury.enough(&blocks, noise);
        let settled = "every verdict is settled by the noise known then".to_owned();
        // Without any there is no verdict, and none that more blocks would bring.
        let blind = "no twin tells the noise that 1 of 1 verdicts are held against".to_owned();
        assert_eq!(said(&Noise::default()), Answer::Enough(blind.clone()));
        // Twins of the same engine in another heat, with fewer blocks than tell.
        let twinned = header(1, true, measure());
        let twins = |count: usize, off: fn(u64, u64) -> u64| {
            let mut noise = Noise::default();
            noise.add(&twinned.cells, &measured(&six(&[off])[..count]));
            noise
        };
        let mut few = twins(5, |first, _| first);
        assert_eq!(said(&few), Answer::Enough(blind));
        few.expect(&twinned.cells[1]);
        assert_eq!(said(&few), Answer::Wait);
        // Once they are enough, they are waited for no longer, and what they say counts.
        let mut quiet = twins(6, |first, _| first);
        quiet.expect(&twinned.cells[1]);
        assert_eq!(said(&quiet), Answer::Enough(settled));
        few.join(&twins(6, |first, _| 3 * first));
        let narrow = "every interval is within 1 %".to_owned();
        assert_eq!(said(&few), Answer::Enough(narrow));
        // Launches that scatter make every interval wide.
        few.join(&twins(6, |first, index| first + first / 10 * (index % 2)));
        assert_eq!(said(&few), Answer::More);
    }

    #[test]
    fn step_times_count_where_nothing_is_compared() {
        let one = header(1, false, measure());
        let known = "every step time is known within 1 %";
        assert_eq!(said_of(&one, &[]).as_deref(), Some(known));
        let precise = Measure {
            target: 0.000_1,
            ..measure()
        };
        assert_eq!(said_of(&header(1, false, precise), &[]), None);
        let two = header(2, false, measure());
        // The pair has none of the speeds that it compares; what is left is the first cell's own.
        assert_eq!(said_of(&two, &[CRASHING]).as_deref(), Some(known));
        let none = "no cell can have a speed any more";
        let blocks = vec![vec![0]; 6];
        assert_eq!(said(&one, &blocks).as_deref(), Some(none));
    }
}
