//! The size of a bucket of gradients that is searched for before the first step.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use schema::{Outcome, OutcomeKind};
use worker::{Session as _, Store, nanoseconds};

use super::Ddp;
use crate::{
    ranks::{Team, USUAL_BUCKET_MIB, asked},
    training::Training,
};

/// Sizes that are tried: those that a manifest knows by number.
const SIZES_MIB: [u32; 8] = [1, 2, 4, 8, 16, USUAL_BUCKET_MIB, 50, 100];

/// Iterations of each that are timed.
const TIMED: usize = 5;

/// How long a rank waits for what another took.
const PATIENCE: Duration = Duration::from_secs(60);

/// Times some iterations of each size, and goes on with the fastest, from the beginning. Every rank does so, and
/// all take the same: that whose slowest rank was the fastest. Gives settings that tell what was found.
pub(crate) fn search(
    training: &mut Training<Ddp>,
    team: &Team,
) -> Result<BTreeMap<String, String>, Outcome> {
    let store = team.store()?;
    let mut found = Vec::new();
    for size_mib in sizes(training.gradient_bytes()?) {
        training.resize(asked(size_mib))?;
        let mut times = [0_u64; TIMED];
        for time in &mut times {
            training.align()?;
            let began = Instant::now();
            training.step()?;
            *time = nanoseconds(began.elapsed());
        }
        times.sort_unstable();
        let own = times.get(TIMED / 2).copied().unwrap_or_default();
        found.push((size_mib, slowest(&store, team, size_mib, own)?));
    }
    let fastest = found.iter().min_by_key(|(_, time)| *time);
    let fastest = fastest.map_or(USUAL_BUCKET_MIB, |(size_mib, _)| *size_mib);
    training.resize(asked(fastest))?;
    training.reset()?;
    Ok(told(&found, fastest))
}

/// The sizes to be tried, where gradients take so many bytes: larger ones than one that holds them all change
/// nothing. PyTorch's own has a smaller bucket first, and is none that does.
fn sizes(gradient_bytes: u64) -> Vec<u32> {
    let holds_all = |size: u32| size != USUAL_BUCKET_MIB && u64::from(size) << 20 >= gradient_bytes;
    let last = SIZES_MIB.iter().position(|&size| holds_all(size));
    let kept = last.map_or(SIZES_MIB.len(), |last| last + 1);
    SIZES_MIB.into_iter().take(kept).collect()
}

/// The longest of what each rank took with buckets of this size.
fn slowest(store: &impl Store, team: &Team, size_mib: u32, own: u64) -> Result<u64, Outcome> {
    let name = |rank: u32| format!("photofinish/bucket/{size_mib}/{rank}");
    store.set(&name(team.rank()), &own.to_be_bytes())?;
    let mut slowest = own;
    for rank in 0..team.size() {
        let told = store.get(&name(rank), PATIENCE)?;
        let told = told.and_then(|bytes| bytes.try_into().ok());
        let told = told.map(u64::from_be_bytes).ok_or_else(|| {
            let reason = format!("rank {rank} tells no time of buckets of {size_mib} MiB");
            Outcome::new(OutcomeKind::Crashed, reason)
        })?;
        slowest = slowest.max(told);
    }
    Ok(slowest)
}

fn told(found: &[(u32, u64)], fastest_mib: u32) -> BTreeMap<String, String> {
    let tried = found.iter().map(|(size_mib, ns)| {
        let milliseconds = *ns as f64 / 1e6;
        format!("{size_mib} MiB {milliseconds:.1} ms")
    });
    let tried = tried.collect::<Vec<_>>().join(", ");
    BTreeMap::from([
        (
            "bucket size".to_owned(),
            format!("{fastest_mib} MiB, the fastest of those that were tried"),
        ),
        (
            "bucket sizes tried".to_owned(),
            format!("{tried}: the slowest rank's median of {TIMED} steps"),
        ),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_end_with_one_that_holds_all() {
        for (gradient_bytes, last) in [(1, 1), (3 << 20, 4), (20 << 20, 50), (u64::MAX, 100)] {
            assert_eq!(sizes(gradient_bytes).last(), Some(&last));
        }
        assert!(sizes(20 << 20).contains(&USUAL_BUCKET_MIB));
    }

    /// The engine's description names them, so that a manifest may ask for each.
    #[test]
    fn a_manifest_knows_what_is_tried() {
        let kit: toml::Table = include_str!("../../engine.toml").parse().unwrap();
        let mut known = 0;
        for variant in kit["variants"].as_array().unwrap() {
            let Some(factor) = variant["factors"].get("bucket_mib") else {
                continue;
            };
            let values = factor["values"].as_array().unwrap();
            let mut values: Vec<u32> = values
                .iter()
                .filter_map(|value| value.as_str()?.parse().ok())
                .collect();
            values.sort_unstable();
            assert_eq!(values, SIZES_MIB);
            known += 1;
        }
        assert!(known > 0);
    }

    #[test]
    fn what_was_tried_is_told() {
        let told = told(&[(1, 2_500_000), (2, 1_300_000)], 2);
        assert_eq!(
            told["bucket sizes tried"],
            "1 MiB 2.5 ms, 2 MiB 1.3 ms: the slowest rank's median of 5 steps"
        );
        assert!(told["bucket size"].starts_with("2 MiB"));
    }
}
