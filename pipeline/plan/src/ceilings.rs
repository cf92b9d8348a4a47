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
    cells::{Cells, Place},
    group,
    job::{self, Planned},
    keys::Known,
    measure::{DISTURBANCE, SECOND_NS},
    networks::{Networks, Which},
};

/// Rows of the matrices that are multiplied, of which the largest is taken that does not take too long.
const SIZES: [u64; 5] = [8192, 4096, 2048, 1024, 512];

/// So long a product may be predicted to take: a launch then has some in each round.
const LONGEST_STEP_NS: u64 = 150_000_000;

/// MiB that are read on a processor: several times what its caches hold.
const READ_MIB: u64 = 256;

/// MiB that are read on a GPU, so that starting the kernel and waiting for it takes next to no part in
/// what that comes to.
const READ_MIB_OF_A_GPU: u64 = 1024;

/// Such a share of the machine's memory is never read: the reference does it in double precision.
const LEAST_SHARE_OF_MEMORY: u64 = 16;

/// How they are measured, whatever the manifests say, so that one heat answers many. Blocks are those
/// of one look: an interval of a few per cent is narrow enough to tell a tenth of a ceiling from a half.
const MEASURE: Measure = Measure {
    target: 0.03,
    margin: 0.05,
    budget_ns: 1800 * SECOND_NS,
    boundary: Boundary::Step,
    blocks: VERDICT_BLOCKS,
    rounds: 2,
    round_ns: 100_000_000,
    round_steps: 3,
    warm_up_ns: SECOND_NS,
    timeout_ns: 300 * SECOND_NS,
    memory_limit_bytes: None,
    confidence: 0.95,
    disturbance: Some(DISTURBANCE),
};

/// The ceilings for what these jobs time; `None` where they want none, or where PyTorch, which holds
/// their outputs against its own and is there for that, cannot be used on this machine.
pub(crate) fn plan(
    planned: &[Planned],
    world: &World,
    networks: &mut Networks,
    known: &mut Known<'_>,
) -> Option<Ceilings> {
    let engine: EngineVariant = Ceilings::ENGINE.join("/").parse().ok()?;
    let availability = world.availability.get(&engine)?;
    if availability.missing.is_some() {
        return None;
    }
    let mut cells = Cells::default();
    for (place, dims) in places(planned, &engine).iter().flat_map(of_place) {
        let (network, size) = dims;
        add(world, networks, &mut cells, *place, network, size);
    }
    if cells.cells.is_empty() {
        return None;
    }
    let groups = group::split(Ceilings::JOB, &cells.cells, &[]);
    Some(Ceilings {
        heats: job::heats(world, Ceilings::JOB, &groups, &cells, &MEASURE, known),
        job: PlannedJob {
            id: Ceilings::JOB.to_owned(),
            question: String::new(),
            mode: Mode::Inference,
            measure: MEASURE,
            vary: BTreeMap::new(),
            comparisons: Vec::new(),
            allow: Vec::new(),
            claims: Vec::new(),
        },
    })
}
