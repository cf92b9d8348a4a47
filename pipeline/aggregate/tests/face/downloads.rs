//! Files to download.

use std::{collections::BTreeMap, fs::File, io::Write as _};

use parquet::{
    file::reader::{FileReader as _, SerializedFileReader},
    record::{Field, Row},
};
use photofinish_aggregate::downloads;
use schema::{
    Outcome, OutcomeKind, Tables,
    protocol::Memory,
    record::{Frontier, Try},
};

use crate::race::{heat, race, run, set_times, tables};

fn file(tables: &Tables, name: &str) -> Vec<u8> {
    let mut files = downloads(tables).unwrap();
    files.retain(|download| download.file == name);
    files.pop().unwrap().bytes
}

fn samples(tables: &Tables) -> SerializedFileReader<File> {
    let mut written = tempfile::tempfile().unwrap();
    written.write_all(&file(tables, "samples.parquet")).unwrap();
    SerializedFileReader::new(written).unwrap()
}

fn rows(bytes: &[u8]) -> Vec<BTreeMap<String, String>> {
    csv::Reader::from_reader(bytes)
        .deserialize()
        .collect::<Result<_, _>>()
        .unwrap()
}

#[test]
fn the_same_records_give_the_same_bytes() {
    let first = downloads(&tables(&run(12, 6))).unwrap();
    assert_eq!(first, downloads(&tables(&run(12, 6))).unwrap());
    let names: Vec<_> = first
        .iter()
        .map(|download| download.file.as_str())
        .collect();
    assert_eq!(
        names,
        [
            "cells.csv",
            "ceilings.csv",
            "comparisons.csv",
            "break_evens.csv",
            "trends.csv",
            "crossovers.csv",
            "frontiers.csv",
            "claims.csv",
            "floors.csv",
            "profiles.csv",
            "samples.parquet",
            "tables.json"
        ]
    );
}

#[test]
fn every_batch_that_was_tried_is_a_line() {
    let mut run = race(&[1_000_000; 6], &[500_000; 6]);
    let tried = |batch, kind, peak_resident_bytes| Try {
        batch,
        outcome: Outcome::new(kind, "=too much"),
        memory: (kind == OutcomeKind::Measured).then_some(Memory {
            resident_bytes: 1,
            peak_resident_bytes,
            device_bytes: Some(2),
            peak_device_bytes: Some(3),
            other_ranks: Vec::new(),
        }),
    };
    let tries = vec![
        tried(1, OutcomeKind::Measured, 1000),
        tried(2, OutcomeKind::OutOfMemory, 0),
    ];
    let heat = run.heats.values_mut().next().unwrap();
    let cells = heat.header.cells.len();
    heat.footer.frontiers = vec![None; cells];
    heat.footer.frontiers[1] = Some(Frontier { tries });
    let digest = schema::Digest::of_value(&*heat);
    let of_another = heat.clone();
    run.heats.insert(digest, of_another);
    for entry in &mut run.record.heats {
        entry.heat = schema::record::HeatResult::Sealed(digest);
    }
    let tables = tables(&run);
    let found = tables.cells.iter().filter_map(|row| row.frontier.as_ref());
    let found: Vec<_> = found.map(|it| (it.fits, it.peak_bytes)).collect();
    assert_eq!(found, [(Some(1), Some(1000))]);
    let text = String::from_utf8(file(&tables, "frontiers.csv")).unwrap();
    insta::assert_snapshot!("frontiers.csv", text.replace("\r\n", "\n"));
}

#[test]
fn csv_files_of_a_small_race() {
    let mut run = race(
        &[1_000_000; 6],
        &[500_000, 510_000, 490_000, 505_000, 495_000, 500_000],
    );
    set_times(
        &mut run,
        0,
        2,
        &[1_004_000, 996_000, 1_000_000, 1_001_000, 999_000, 1_002_000],
    );
    let tables = tables(&run);
    for name in ["cells.csv", "comparisons.csv", "claims.csv", "floors.csv"] {
        let text = String::from_utf8(file(&tables, name)).unwrap();
        assert!(
            text.lines().count() > 1
                && text
                    .split_inclusive('\n')
                    .all(|line| line.ends_with("\r\n"))
        );
        insta::assert_snapshot!(name, text.replace("\r\n", "\n"));
    }
}

#[test]
fn json_reads_back_as_the_tables() {
    let tables = tables(&run(3, 6));
    assert_eq!(
        serde_json::from_slice::<Tables>(&file(&tables, "tables.json")).unwrap(),
        tables
    );
}

#[test]
fn text_cannot_be_a_formula_nor_break_a_row() {
    let mut run = race(&[1_000_000; 6], &[1_000_000; 6]);
    let reason = "=HYPERLINK(\"http://example.org\",\"a\"),\r\nnext line";
    heat(&mut run, 0).footer.outcomes[1] = Outcome::new(OutcomeKind::Crashed, reason);
    let claim = &mut run.record.plan.jobs[0].claims[0];
    claim.id = "+1".to_owned();
    claim.source = "@here".to_owned();
    claim.states = "-1 < 0".to_owned();
    let tables = tables(&run);
    let cells = rows(&file(&tables, "cells.csv"));
    assert_eq!(cells[1]["reason"], format!("'{reason}"));
    assert_eq!(cells[1]["step_ns"], "");
    let claims = rows(&file(&tables, "claims.csv"));
    assert_eq!(
        (claims[0]["claim"].as_str(), claims[0]["source"].as_str()),
        ("'+1", "'@here")
    );
    assert_eq!(claims[0]["states"], "'-1 < 0");
}

#[test]
fn parquet_holds_every_sample_in_order() {
    let tables = tables(&run(3, 6));
    let rows: Vec<Row> = samples(&tables)
        .get_row_iter(None)
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let column = |row: &Row, name: &str| {
        let mut columns = row.get_column_iter();
        columns.find(|(known, _)| *known == name).unwrap().1.clone()
    };
    let read: Vec<u64> = rows
        .iter()
        .map(|row| match column(row, "sample_ns") {
            Field::ULong(sample_ns) => sample_ns,
            other => panic!("{other:?}"),
        })
        .collect();
    let written: Vec<u64> = tables
        .cells
        .iter()
        .map(|row| &row.launches)
        .chain(tables.twins.iter().map(|row| &row.launches))
        .flatten()
        .flat_map(|launch| launch.rounds.iter().flatten())
        .copied()
        .collect();
    assert_eq!(read, written);
    let blocks: Vec<Field> = rows
        .iter()
        .take(7)
        .map(|row| column(row, "block"))
        .collect();
    assert_eq!(blocks, [0, 0, 0, 0, 0, 0, 1].map(Field::UInt));
    let row = tables.cells.first().unwrap();
    assert_eq!(column(&rows[0], "cell"), Field::Str(row.id.0.clone()));
}

#[test]
fn no_samples_still_make_a_file() {
    let mut run = race(&[1_000_000; 6], &[1_000_000; 6]);
    run.record.heats.clear();
    assert_eq!(samples(&tables(&run)).metadata().num_row_groups(), 0);
}
