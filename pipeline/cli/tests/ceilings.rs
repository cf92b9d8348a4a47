//! What devices can do at most, measured beside what was asked.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::fs;

use common::{BENCH, User};

#[test]
fn ceilings_are_measured_once_for_all_who_ask() {
    let user = User::new();
    let counts = |ceilings: bool, batch: u32| {
        user.manifest(&format!(
            "version: 1\nmeasure: {{ blocks: 1, rounds: 1, round: 5ms, warm_up: 5ms, ceilings: {ceilings} }}\njobs:\n\
             \u{20} - {{ id: race, matrix: {{ model: bert_tiny, seq: 8, batch: {batch}, engine: pytorch/eager }} }}\n"
        ));
        let summary = user.json(&BENCH);
        assert_eq!(summary["failures"], serde_json::json!([]));
        ["measured_heats", "cached_heats"].map(|count| summary[count].as_u64().unwrap())
    };
    let ceilings = || {
        let text = fs::read(user.path("site/data/tables.json")).unwrap();
        let tables: schema::Tables = serde_json::from_slice(&text).unwrap();
        let rates = tables
            .ceilings
            .iter()
            .map(|row| row.rate.map(|rate| rate.centre));
        rates.collect::<Option<Vec<f64>>>().unwrap().len()
    };
    assert_eq!(counts(true, 1), [3, 0]);
    assert_eq!(ceilings(), 2);
    assert_eq!(counts(true, 2), [1, 2]);
    assert_eq!(ceilings(), 2);
    assert_eq!(counts(false, 2), [0, 1]);
    assert_eq!(ceilings(), 0);
}
