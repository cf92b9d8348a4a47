//! A run that is killed at any moment loses at most the block in flight.

#![allow(clippy::unwrap_used, reason = "a test may")]

mod common;

use std::{
    collections::BTreeMap,
    os::unix::process::{CommandExt, ExitStatusExt},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use common::*;
use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use schema::{OutcomeKind, plan::KnownState};

/// Kills in the long form, which `PHOTOFINISH_KILLS` asks for: `PHOTOFINISH_KILLS=30`.
fn kills() -> u32 {
    std::env::var("PHOTOFINISH_KILLS").map_or(3, |text| text.parse().unwrap())
}

/// The example of this name, built if need be: a run in a process of its own.
fn sweep() -> &'static Path {
    static SWEEP: OnceLock<PathBuf> = OnceLock::new();
    SWEEP.get_or_init(|| build().join("examples/sweep"))
}

/// Blocks that are safe in the store, by group.
fn progress(track: &Track) -> BTreeMap<String, u32> {
    let known = track.store.known_heats().unwrap();
    assert_eq!(known.corrupt, []);
    let blocks = known.heats.into_iter().map(|heat| match heat.state {
        KnownState::Sealed(_) => (heat.group, u32::MAX),
        KnownState::Open(blocks) => (heat.group, blocks),
    });
    blocks.collect()
}

#[test]
fn kills_at_random_moments_lose_no_block() {
    // Where the kills fall is up to chance; what must hold does not depend on it.
    let chance = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .subsec_nanos();
    println!("chance {chance}");
    let mut dice = Dice(chance);
    let mut left = kills();
    while left > 0 {
        left -= sweep_under_fire(left, &mut dice);
    }
}

/// Starts a run until it comes to its end, killing it at most so many times; tells how many times
/// it was killed.
fn sweep_under_fire(kills: u32, dice: &mut Dice) -> u32 {
    let track = Track::new();
    let mark = track.folder.path().display().to_string();
    let (mut killed, mut before) = (0, BTreeMap::new());
    loop {
        let mut child = Command::new(sweep())
            .arg(track.store.path())
            .args([binary().to_str().unwrap(), &mark, "long"])
            .stdin(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        if killed < kills {
            std::thread::sleep(Duration::from_millis(dice.below(1500)));
            // Itself and all that is in its group; its workers are in groups of their own.
            killpg(
                Pid::from_raw(i32::try_from(child.id()).unwrap()),
                Signal::SIGKILL,
            )
            .unwrap();
        }
        let status = child.wait().unwrap();
        track.assert_deserted();
        let after = progress(&track);
        for (group, blocks) in &before {
            assert!(
                after[group] >= *blocks,
                "{group}: {blocks} blocks, then {}",
                after[group]
            );
        }
        before = after;
        if status.success() {
            check_complete(&track);
            return killed.max(1);
        }
        assert_eq!(status.signal(), Some(Signal::SIGKILL as i32), "{status}");
        killed += 1;
    }
}

/// Every cell of every heat was measured once a block.
fn check_complete(track: &Track) {
    let (_, record) = track.store.latest_run().unwrap().unwrap();
    let plan = long_plan();
    assert_eq!(record.heats.len(), plan.heats.len());
    for (index, heat) in plan.heats.iter().enumerate() {
        let measured = track.heat(&record, index);
        assert_eq!(measured.header.cells, heat.cells);
        assert_eq!(kinds(&measured.footer.outcomes), [OutcomeKind::Measured; 3]);
        let blocks: Vec<u32> = measured.blocks.iter().map(|block| block.index).collect();
        assert_eq!(blocks, [0, 1, 2]);
        for block in &measured.blocks {
            let mut slots: Vec<u32> = block.launches.iter().map(|launch| launch.slot).collect();
            slots.sort_unstable();
            assert_eq!(slots, [0, 1, 2]);
        }
    }
    let files = track.files().into_keys();
    let sealed = files.filter(|path| path.to_string_lossy().ends_with(".heat.zst"));
    assert_eq!(sealed.count(), plan.heats.len(), "each heat measured once");
}

/// A linear congruential generator (Numerical Recipes, 3rd edition, section 7.1).
struct Dice(u32);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        u64::from(self.0 >> 8) % bound
    }
}

#[test]
fn the_supervisor_sleeps_while_a_worker_measures() {
    let track = Track::new();
    // In a process of its own: the other tests of this one are not the supervisor.
    let status = Command::new(sweep())
        .arg(track.store.path())
        .args([binary().to_str().unwrap(), "quiet", "quiet"])
        .status()
        .unwrap();
    assert!(status.success());
    let (_, record) = track.store.latest_run().unwrap().unwrap();
    let block = &track.heat(&record, 0).blocks[0];
    let percent = 100.0 * block.supervisor_ns as f64 / block.measuring_ns as f64;
    println!("the supervisor used {percent:.3} % of one processor while a worker measured");
    assert!(percent < 1.0, "{percent} %");
}
