//! Files of exporters, damaged: read or refused, within a few gigabytes, and without a panic.

#![allow(clippy::unwrap_used, reason = "a test may")]

mod support;

use std::{fs, ops::Range, path::Path};

use photofinish_models::onnx::File;
use proptest::{prelude::*, sample::Index, test_runner::TestRunner};
use support::{limits, python, users::dims};

/// Where nodes are, which come first; where inputs and outputs are, which come last; anywhere, which is mostly
/// in weights.
#[derive(Debug, Clone, Copy)]
enum Region {
    Head,
    Tail,
    Any,
}

/// What becomes of some bytes.
#[derive(Debug, Clone, Copy)]
enum Change {
    Overwritten(u8),
    /// So many are lost.
    Cut(usize),
    /// So many come twice, as fields, nodes and tensors do.
    Doubled(usize),
}

#[derive(Debug, Clone, Copy)]
struct Damage {
    region: Region,
    at: Index,
    change: Change,
}

impl Damage {
    fn apply(self, bytes: &mut Vec<u8>) {
        let length = bytes.len();
        let Range { start, end } = match self.region {
            Region::Head => 0..length.min(16 << 10),
            Region::Tail => length.saturating_sub(1 << 10)..length,
            Region::Any => 0..length,
        };
        let at = start + self.at.index(end - start);
        let stretch = |count: usize| at..(at + count).min(length);
        match self.change {
            Change::Overwritten(byte) => bytes[at] = byte,
            Change::Cut(count) => drop(bytes.drain(stretch(count))),
            Change::Doubled(count) => {
                let twice = bytes[stretch(count)].to_vec();
                bytes.splice(at..at, twice);
            }
        }
    }
}

fn damage() -> impl Strategy<Value = Damage> {
    let region = prop_oneof![
        6 => Just(Region::Head),
        1 => Just(Region::Tail),
        1 => Just(Region::Any),
    ];
    let change = prop_oneof![
        6 => any::<u8>().prop_map(Change::Overwritten),
        1 => (1_usize..64).prop_map(Change::Cut),
        1 => (1_usize..256).prop_map(Change::Doubled),
    ];
    (region, any::<Index>(), change).prop_map(|(region, at, change)| Damage { region, at, change })
}

#[test]
fn damaged_files_are_read_or_refused() {
    let folder = tempfile::TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let printed = python::run("exported.py", &[folder.path(), Path::new("17")]);
    let names: Vec<String> = serde_json::from_str(&printed).unwrap();
    let path = |name: &String| folder.path().join(format!("{name}.onnx"));
    let files: Vec<Vec<u8>> = names
        .iter()
        .map(|name| fs::read(path(name)).unwrap())
        .collect();
    assert_eq!(files.len(), 10);
    // From here on nothing runs but the reader. Beyond the limit an allocation fails, and ends the test.
    limits::bound_memory(3 << 30);
    let strategy = (
        prop::sample::select(files),
        prop::collection::vec(damage(), 1..6),
    );
    let mut runner = TestRunner::default();
    let outcome = runner.run(&strategy, |(mut bytes, damages)| {
        for damage in damages {
            damage.apply(&mut bytes);
        }
        if let Ok(file) = File::from_bytes("damaged", &bytes) {
            for sizes in [&[][..], &[("batch", 2)], &[("batch", 2), ("seq", 6)]] {
                let _ = file.read(&dims(sizes)).map(drop);
                let _ = file.outline(&dims(sizes)).map(drop);
            }
        }
        Ok(())
    });
    outcome.unwrap();
}
