//! What workers in other languages make of names is what Rust makes: the file that their tests read
//! is written here, and held against here.
#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use std::{env, fs, path::Path};

use photofinish_models::fill;
use schema::{Digest, graph::Fill};
use serde_json::{Value, json};

/// Set to write the file anew.
const UPDATE: &str = "INSTA_UPDATE";
const FILE: &str = "../engines/python/tests/fills.json";

#[test]
fn the_fills_that_python_is_tested_with_are_ours() {
    let uniform = |low, high| Fill::Uniform { low, high };
    let cases: Vec<Value> = [
        ("fc.weight", uniform(0.0, 1.0), vec![3_u64]),
        (
            "layer1.0.conv1.weight",
            uniform(-0.321, 0.777),
            vec![64, 64, 3, 3],
        ),
        // More than a worker may make at a time, and a rounding that reaches the bound.
        ("größer", uniform(-1e-3, 1e-3), vec![1025, 1031]),
        ("far", uniform(1e6, 1e6 + 1.0), vec![4096]),
        ("input_ids", Fill::Integers { bound: 30522 }, vec![8, 128]),
        ("labels", Fill::Integers { bound: 1 }, vec![7]),
        (
            "wide",
            Fill::Integers {
                bound: (1 << 31) - 1,
            },
            vec![999],
        ),
        ("wider", Fill::Integers { bound: 1 << 40 }, vec![99]),
        ("ones", Fill::Constant { value: 0.1 }, vec![2, 3]),
        ("position_ids", Fill::Positions, vec![2, 5]),
        ("empty", uniform(0.0, 1.0), vec![0, 3]),
        ("mask", Fill::CausalMask { width: 5 }, vec![3, 5]),
    ]
    .into_iter()
    .map(|(name, fill, shape)| {
        let count = usize::try_from(shape.iter().product::<u64>()).unwrap();
        let bytes: Vec<u8> = if fill::makes_integers(&fill) {
            let numbers = fill::integers(name, &fill, &shape);
            numbers
                .iter()
                .flat_map(|number| number.to_le_bytes())
                .collect()
        } else {
            let numbers = fill::floats(name, &fill, count);
            numbers
                .iter()
                .flat_map(|number| number.to_le_bytes())
                .collect()
        };
        json!({ "name": name, "fill": fill, "shape": shape, "sha256": Digest::of_bytes(&bytes) })
    })
    .collect();
    let text = serde_json::to_string_pretty(&cases).unwrap() + "\n";
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE);
    if env::var_os(UPDATE).is_some_and(|word| word == "always") {
        fs::write(&file, &text).unwrap();
    }
    let committed = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        committed == text,
        "{FILE} is not what is made now: run this test with {UPDATE}=always"
    );
}
