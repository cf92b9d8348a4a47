//! What shows how fast the devices of a run are at all: cells for every device, number of threads and
//! precision that the run's own cells have.

use std::collections::{BTreeMap, BTreeSet};

use models::zoo::ceilings::{MIB, PRODUCT, READING, SIZE};
use schema::{
    Boundary, Device, EngineVariant, Measure, Mode, Precision,
    plan::{Ceilings, PlannedCell, PlannedJob, VERDICT_BLOCKS},
};

use crate::{
    World,
    cells::{self, Cells, Place},
    group,
    job::{self, Planned},
    keys::Known,
    measure::{APART_NS, DISTURBANCE, SECOND_NS},
    networks::{Networks, Which},
    predict::Preparing,
};

/// Rows of the matrices that are multiplied, of which the largest is taken that does not take too long;
/// the last in any case.
const SIZES: [u64; 5] = [8192, 4096, 2048, 1024, 512];

/// So long a product may be predicted to take, so that all launches together take some ten seconds. On one
/// core 1,024 rows were multiplied no slower than 2,048.
const LONGEST_STEP_NS: u64 = 100_000_000;

/// Instructions without one of which a processor multiplies in fp16 number by number: PyTorch 2.11 at
/// 1 GFLOP/s, where it reached 95 in fp32. There the smallest product takes long enough.
const FP16_INSTRUCTIONS: [&str; 2] = ["avx512_fp16", "amx_fp16"];

/// The same of bf16, which oneDNN widens by any AVX-512.
const BF16_INSTRUCTIONS: [&str; 3] = ["avx512f", "avx512_bf16", "amx_bf16"];

/// MiB that are read on a processor: at least so many, and one in so many parts of its memory. Caches of a
/// gigabyte are had with memory by the hundreds of them.
const READ_MIB: u64 = 256;
const READ_PART_OF_MEMORY: u64 = 64;
const MOST_READ_MIB: u64 = 4096;

/// MiB that are read on a GPU, so that starting the kernel and waiting for it takes next to no part in
/// what that comes to.
const READ_MIB_OF_A_GPU: u64 = 1024;

/// No more than one in so many parts of the machine's memory is read: the reference does it in double
/// precision.
const PART_OF_MEMORY: u64 = 16;

/// How they are measured, whatever else the manifests say, so that one heat answers many. Blocks are those
/// of one look: an interval of a few per cent is narrow enough to tell a tenth of a ceiling from a half. They
/// lie as far apart as those of other heats, since one mood of the machine is not what it can do.
const MEASURE: Measure = Measure {
    target: 0.03,
    margin: 0.05,
    budget_ns: 1800 * SECOND_NS,
    boundary: Boundary::Step,
    blocks: VERDICT_BLOCKS,
    apart_ns: APART_NS,
    rounds: 1,
    round_ns: 100_000_000,
    round_steps: 3,
    warm_up_ns: SECOND_NS / 2,
    timeout_ns: 120 * SECOND_NS,
    memory_limit_bytes: None,
    confidence: 0.95,
    disturbance: None,
    frontier: None,
    energy_ns: None,
};

/// What they ask, for whoever reads the plan.
const QUESTION: &str = "How fast does PyTorch multiply matrices and read memory here?";

/// The ceilings for what these jobs time; `None` where they time nothing or want none, and where nothing
/// is known of PyTorch. Where it cannot be used, the cells say why.
pub(crate) fn plan(
    planned: &[Planned],
    world: &World,
    networks: &mut Networks,
    known: &mut Known<'_>,
) -> Option<Ceilings> {
    let engine: EngineVariant = Ceilings::ENGINE.join("/").parse().ok()?;
    if !world.availability.contains_key(&engine) {
        return None;
    }
    let mut cells = Cells::default();
    for ((device, threads), precisions) in places(planned) {
        let place = |precision| Place {
            device,
            threads,
            precision,
        };
        let products = precisions.into_iter().map(|precision| {
            let place = place(precision);
            product(world, networks, &engine, place)
        });
        let mut found: Vec<_> = products.flatten().collect();
        // How fast memory is read is no matter of what the numbers are.
        found.extend(reading(world, networks, &engine, place(Precision::Fp32)));
        for (cell, preparing) in found {
            cells.cells.push(cell);
            cells.preparing.push(preparing);
        }
    }
    if cells.cells.is_empty() {
        return None;
    }
    // Disturbed blocks count where they do for all who ask: the next run would measure them again.
    let is_strict = |measure: &Measure| measure.disturbance.is_some();
    // Where all who ask try something out at once, their ceilings are not to last for minutes.
    let is_patient = |measure: &Measure| measure.apart_ns > 0;
    let any = |asks: fn(&Measure) -> bool| {
        let mut wanting = planned.iter().filter(|job| job.wants_ceilings);
        wanting.any(|job| asks(&job.job.measure))
    };
    let measure = Measure {
        disturbance: any(is_strict).then_some(DISTURBANCE),
        apart_ns: if any(is_patient) { MEASURE.apart_ns } else { 0 },
        ..MEASURE
    };
    let groups = group::split(Ceilings::JOB, &cells.cells, &[]);
    Some(Ceilings {
        heats: job::heats(
            world,
            (Ceilings::JOB, false),
            &groups,
            &cells,
            &measure,
            known,
        ),
        job: PlannedJob {
            id: Ceilings::JOB.to_owned(),
            question: QUESTION.to_owned(),
            mode: Mode::Inference,
            measure,
            vary: BTreeMap::new(),
            profile: false,
            comparisons: Vec::new(),
            allow: Vec::new(),
            claims: Vec::new(),
        },
    })
}

/// Where the cells of these jobs run that are timed, and in which precisions they compute there. Those in
/// integers have no ceiling: PyTorch eager multiplies none.
fn places(planned: &[Planned]) -> BTreeMap<(Device, u32), BTreeSet<Precision>> {
    let mut places: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    let wanting = planned.iter().filter(|job| job.wants_ceilings);
    let heats = wanting.flat_map(|job| &job.heats);
    let cells = heats.flat_map(|heat| &heat.cells);
    let has_ceiling = |planned: &&PlannedCell| {
        let is_costed = planned.obstacle.is_none() && !planned.is_outline();
        is_costed && !planned.cell.precision.is_int8()
    };
    for PlannedCell { cell, .. } in cells.filter(has_ceiling) {
        let precisions = places.entry((cell.device, cell.threads)).or_default();
        precisions.insert(cell.precision);
    }
    places
}

/// The largest product that does not take too long.
fn product(
    world: &World,
    networks: &mut Networks,
    engine: &EngineVariant,
    place: Place,
) -> Option<(PlannedCell, Preparing)> {
    let mut sized = SIZES.into_iter().filter_map(|size| {
        let found = cell(world, networks, engine, (PRODUCT, SIZE, size), place)?;
        Some((size, found))
    });
    let needed: &[&str] = match place.precision {
        Precision::Fp16 => &FP16_INSTRUCTIONS,
        Precision::Bf16 => &BF16_INSTRUCTIONS,
        _ => &[],
    };
    let features = &world.fingerprint.cpu_features;
    let has_any = features.iter().any(|it| needed.contains(&it.as_str()));
    let is_slow = place.device.is_cpu() && !needed.is_empty() && !has_any;
    let fits = |size: u64, cell: &PlannedCell| {
        let is_short = cell.predicted_step_ns <= LONGEST_STEP_NS && !is_slow;
        is_short || Some(&size) == SIZES.last()
    };
    let fitting = sized.find(|(size, (cell, _))| fits(*size, cell));
    fitting.map(|(_, found)| found)
}

/// A pass over more memory than caches hold.
fn reading(
    world: &World,
    networks: &mut Networks,
    engine: &EngineVariant,
    place: Place,
) -> Option<(PlannedCell, Preparing)> {
    let memory_mib = world.fingerprint.memory_gib.saturating_mul(1024);
    let wanted = if place.device.is_cpu() {
        (memory_mib / READ_PART_OF_MEMORY).clamp(READ_MIB, MOST_READ_MIB)
    } else {
        READ_MIB_OF_A_GPU
    };
    let mib = wanted.min(memory_mib / PART_OF_MEMORY).max(1);
    cell(world, networks, engine, (READING, MIB, mib), place)
}

/// A cell of a network of this name whose dimension has this size.
fn cell(
    world: &World,
    networks: &mut Networks,
    engine: &EngineVariant,
    (network, dimension, size): (&str, &str, u64),
    place: Place,
) -> Option<(PlannedCell, Preparing)> {
    let dims = BTreeMap::from([(dimension.to_owned(), size)]);
    let which = Which::Zoo(network.to_owned());
    let built = networks.get(&which, &dims, Mode::Inference).ok()?;
    Some(cells::unasked(world, network, &built, engine, place))
}
