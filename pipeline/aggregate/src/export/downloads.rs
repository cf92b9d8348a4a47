//! The list of downloads.

use schema::{Tables, tables::Download};

use super::{ceilings, csv, json, parquet};
use crate::ExportError;

/// The files that the site offers, made from the tables alone.
///
/// # Errors
/// When a value cannot be written in a format; none of the schema's can fail.
pub fn downloads(tables: &Tables) -> Result<Vec<Download>, ExportError> {
    let download = |file: &str, summary: &str, bytes| Download {
        file: file.to_owned(),
        summary: summary.to_owned(),
        bytes,
    };
    Ok(vec![
        download(
            "cells.csv",
            "One row a cell: configuration, outcome, speed, parity, memory, and the least bytes of a step, in fp32",
            csv::cells(tables)?,
        ),
        download(
            "ceilings.csv",
            "One row a ceiling: how fast a device multiplies matrices in a precision, in operations per second, or reads memory, in bytes per second",
            ceilings::ceilings(tables)?,
        ),
        download(
            "comparisons.csv",
            "One row a pair: ratio, interval, floor, verdict",
            csv::comparisons(tables)?,
        ),
        download(
            "break_evens.csv",
            "One row two contenders of which one is ready later and ahead in the long run: after how many steps, starting included",
            csv::break_evens(tables)?,
        ),
        download(
            "trends.csv",
            "One row a batch of a line of cells that differ in the batch alone: time of a sample against that at the smallest, and the line's trend and knee",
            csv::trends(tables)?,
        ),
        download(
            "crossovers.csv",
            "One row a change of the lead between two cells over the batch: at which batch, within which",
            csv::crossovers(tables)?,
        ),
        download(
            "frontiers.csv",
            "One row a batch that was tried for a job that seeks the largest that fits into memory: how that ended, and its memory",
            csv::frontiers(tables)?,
        ),
        download(
            "claims.csv",
            "One row a claim: source, expectation, judgement",
            csv::claims(tables)?,
        ),
        download(
            "floors.csv",
            "One row an engine, variant and device of a job: noise between identical cells; made from the samples of twins and of their cells, as the page on method says",
            csv::floors(tables)?,
        ),
        download(
            "profiles.csv",
            "One row an entry of a cell's profile: what the engine spent time on under its own profiler, the nodes of the graph that it computes, its time in a step",
            csv::profiles(tables)?,
        ),
        download(
            "samples.parquet",
            "One row a step: its time in nanoseconds, by cell, twin, block, launch and round; twin 0 is the cell itself, and those from 1 on are its twins, from which the noise floors are made",
            parquet::samples(tables)?,
        ),
        download(
            "tables.json",
            "Everything that the pages show; its schema: `photofinish schema tables`",
            json::tables(tables)?,
        ),
    ])
}
