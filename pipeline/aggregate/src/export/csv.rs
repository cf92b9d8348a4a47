//! Tables as comma-separated values, RFC 4180.
//!
//! Text that a spreadsheet would take for a formula is written with a leading apostrophe.

mod batches;
mod comparisons;
mod profiles;

use std::collections::BTreeMap;

use schema::{
    Outcome, Tables,
    tables::{CellRow, Interval, Speed},
};

use super::{ceilings, sensors};
use crate::ExportError;

pub(super) use batches::{crossovers, trends};
pub(super) use comparisons::{break_evens, comparisons};
pub(super) use profiles::profiles;

/// A file: columns with their values, row by row.
pub(super) struct Sheet {
    file: &'static str,
    writer: csv::Writer<Vec<u8>>,
}

impl Sheet {
    pub(super) fn new(file: &'static str, columns: &[&str]) -> Result<Self, ExportError> {
        let writer = csv::WriterBuilder::new()
            .terminator(csv::Terminator::CRLF)
            .from_writer(Vec::new());
        let mut sheet = Self { file, writer };
        sheet.row(columns.iter().map(|&column| column.to_owned()))?;
        Ok(sheet)
    }

    pub(super) fn row(
        &mut self,
        values: impl IntoIterator<Item = String>,
    ) -> Result<(), ExportError> {
        self.writer
            .write_record(values.into_iter().map(String::into_bytes))
            .map_err(|source| ExportError::Csv {
                file: self.file.to_owned(),
                source,
            })
    }

    pub(super) fn finish(self) -> Result<Vec<u8>, ExportError> {
        let file = self.file.to_owned();
        self.writer.into_inner().map_err(|error| ExportError::Csv {
            file,
            source: error.into_error().into(),
        })
    }
}

/// Text, harmless in a spreadsheet (OWASP, "CSV Injection").
pub(super) fn text(text: impl ToString) -> String {
    let text = text.to_string();
    if text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']) {
        format!("'{text}")
    } else {
        text
    }
}

/// A number, or nothing.
pub(super) fn number(number: Option<impl ToString>) -> String {
    number.map_or_else(String::new, |number| number.to_string())
}

/// A number that may be tiny or huge, in the shorter notation.
pub(super) fn decimal(number: Option<f64>) -> String {
    match number {
        Some(number) if number != 0.0 && !(1e-4..1e15).contains(&number.abs()) => {
            format!("{number:e}")
        }
        number => number.map_or_else(String::new, |number| number.to_string()),
    }
}

/// Names and values in one field: `batch=1 image=224`.
pub(super) fn pairs<V: std::fmt::Display>(map: &BTreeMap<String, V>) -> String {
    let pairs: Vec<_> = map
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    text(pairs.join(" "))
}

fn outcome(outcome: &Outcome) -> [String; 2] {
    [text(outcome.kind), text(&outcome.reason)]
}

pub(super) fn interval(interval: Option<&Interval>) -> [String; 5] {
    [
        decimal(interval.map(|interval| interval.centre)),
        decimal(interval.and_then(|interval| interval.low)),
        decimal(interval.and_then(|interval| interval.high)),
        number(interval.map(|interval| interval.blocks)),
        decimal(interval.map(|interval| interval.confidence)),
    ]
}

const CELLS: [&str; 70] = [
    "job",
    "cell",
    "group",
    "model",
    "model_source",
    "graph",
    "dims",
    "batch",
    "precision",
    "mode",
    "optimizer",
    "engine",
    "variant",
    "host_language",
    "device",
    "threads",
    "strategy",
    "world_size",
    "boundary",
    "factors",
    "coordinates",
    "outcome",
    "reason",
    "allowed",
    "step_ns",
    "step_ns_low",
    "step_ns_high",
    "blocks",
    "confidence",
    "items_per_second",
    "samples",
    "min_ns",
    "p5_ns",
    "p16_ns",
    "p25_ns",
    "p50_ns",
    "p75_ns",
    "p84_ns",
    "p90_ns",
    "p95_ns",
    "p99_ns",
    "max_ns",
    "between_blocks",
    "between_rounds",
    "within_round",
    "flops_per_second",
    "parity_error",
    "parity_eager_error",
    "parity_kink_error",
    "parity_bound",
    "parity_worst_share",
    "parity_judged",
    "parity_unjudged",
    "unjudged_gradients",
    "unjudged_statistics",
    "unjudged_updates",
    "unjudged_losses",
    "top1_agreeing",
    "top1_rows",
    "peak_resident_bytes",
    "peak_device_bytes",
    "start_ns",
    "fill_ns",
    "build_ns",
    "compile_ns",
    "first_step_ns",
    "flops",
    "bytes",
    "parameters",
    "started",
];

pub(super) fn cells(tables: &Tables) -> Result<Vec<u8>, ExportError> {
    let columns = [&CELLS[..], &sensors::COLUMNS, &ceilings::COLUMNS].concat();
    let mut sheet = Sheet::new("cells.csv", &columns)?;
    for row in &tables.cells {
        let values = configuration(row)
            .into_iter()
            .chain(figures(row.speed.as_ref()))
            .chain(costs(row))
            .chain(sensors::values(row))
            .chain(ceilings::values(row));
        sheet.row(values)?;
    }
    sheet.finish()
}

fn configuration(row: &CellRow) -> Vec<String> {
    let cell = &row.cell;
    let mut values = vec![
        text(&row.job),
        text(&row.id),
        text(&row.group),
        text(cell.model.title()),
        text(match cell.model.source {
            schema::ModelSource::Zoo => "zoo",
            schema::ModelSource::Onnx => "onnx",
        }),
        text(cell.model.graph),
        pairs(&cell.dims),
        number(Some(cell.batch())),
        text(cell.precision),
        text(cell.mode),
        cell.optimizer
            .map_or_else(String::new, |optimizer| text(optimizer.name())),
        text(&cell.engine.engine),
        text(&cell.engine.variant),
        text(cell.host_language),
        text(cell.device),
        number(Some(cell.threads)),
        text(cell.strategy),
        number(Some(cell.world_size)),
        text(cell.boundary),
        pairs(&cell.factors),
        pairs(&row.coordinates),
    ];
    values.extend(outcome(&row.outcome));
    values.push(row.allowed.to_string());
    values
}

fn figures(speed: Option<&Speed>) -> Vec<String> {
    let mut values = interval(speed.map(|speed| &speed.step_ns)).to_vec();
    values.push(decimal(speed.map(|speed| speed.items_per_second)));
    values.push(number(speed.map(|speed| speed.samples)));
    values.push(number(speed.map(|speed| speed.min_ns)));
    values.extend(statistics::percentile::SHOWN.iter().map(|percent| {
        number(speed.and_then(|speed| speed.percentiles_ns.get(&format!("p{percent}"))))
    }));
    values.push(number(speed.map(|speed| speed.max_ns)));
    values.push(decimal(speed.map(|speed| speed.between_blocks)));
    values.push(decimal(speed.and_then(|speed| speed.between_rounds)));
    values.push(decimal(speed.map(|speed| speed.within_round)));
    values.push(decimal(speed.map(|speed| speed.flops_per_second)));
    values
}

fn costs(row: &CellRow) -> Vec<String> {
    let parity = row.parity.as_ref();
    let kinds = parity.and_then(|parity| parity.kinds);
    let top1 = parity.and_then(|parity| parity.top1);
    let memory = row.memory.as_ref();
    let loaded = row.loaded.as_ref();
    vec![
        decimal(parity.map(|parity| parity.error)),
        decimal(parity.map(|parity| parity.eager_error)),
        decimal(parity.and_then(|parity| parity.kink_error)),
        decimal(parity.map(|parity| parity.bound)),
        decimal(parity.map(|parity| parity.worst_share)),
        number(parity.map(|parity| parity.judged)),
        number(parity.map(|parity| parity.unjudged)),
        number(kinds.map(|kinds| kinds.gradients.unjudged)),
        number(kinds.map(|kinds| kinds.statistics.unjudged)),
        number(kinds.map(|kinds| kinds.updates.unjudged)),
        number(kinds.map(|kinds| kinds.losses.unjudged)),
        number(top1.map(|top1| top1.agreeing)),
        number(top1.map(|top1| top1.rows)),
        number(memory.map(|memory| memory.peak_resident_bytes)),
        number(memory.and_then(|memory| memory.peak_device_bytes)),
        number(row.start_ns),
        number(loaded.map(|loaded| loaded.fill_ns)),
        number(loaded.map(|loaded| loaded.build_ns)),
        number(loaded.map(|loaded| loaded.compile_ns)),
        number(loaded.map(|loaded| loaded.first_step_ns)),
        number(Some(row.flops)),
        number(Some(row.bytes)),
        number(Some(row.parameters)),
        row.started.as_ref().map_or_else(String::new, text),
    ]
}

const FRONTIERS: [&str; 9] = [
    "job",
    "cell",
    "engine",
    "coordinates",
    "batch",
    "outcome",
    "reason",
    "peak_resident_bytes",
    "peak_device_bytes",
];

/// A line a try.
pub(super) fn frontiers(tables: &Tables) -> Result<Vec<u8>, ExportError> {
    let mut sheet = Sheet::new("frontiers.csv", &FRONTIERS)?;
    for row in &tables.cells {
        for tried in row.frontier.iter().flat_map(|found| &found.tries) {
            let memory = tried.memory.as_ref();
            sheet.row([
                text(&row.job),
                text(&row.id.0),
                text(&row.cell.engine),
                pairs(&row.coordinates),
                number(Some(tried.batch)),
                text(tried.outcome.kind),
                text(&tried.outcome.reason),
                number(memory.map(|memory| memory.peak_resident_bytes)),
                number(memory.and_then(|memory| memory.peak_device_bytes)),
            ])?;
        }
    }
    sheet.finish()
}

const CLAIMS: [&str; 8] = [
    "job",
    "claim",
    "source",
    "states",
    "quantity",
    "expect",
    "judgement",
    "reason",
];

pub(super) fn claims(tables: &Tables) -> Result<Vec<u8>, ExportError> {
    let mut sheet = Sheet::new("claims.csv", &CLAIMS)?;
    for job in &tables.jobs {
        for claim in &job.claims {
            sheet.row([
                text(&job.id),
                text(&claim.id),
                text(&claim.source),
                text(&claim.states),
                text(claim.quantity.word()),
                text(&claim.expect.text),
                text(word(claim.judgement)),
                text(&claim.reason),
            ])?;
        }
    }
    sheet.finish()
}

const fn word(judgement: schema::tables::Judgement) -> &'static str {
    use schema::tables::Judgement;
    match judgement {
        Judgement::Confirmed => "confirmed",
        Judgement::Contradicted => "contradicted",
        Judgement::Unclear => "unclear",
        Judgement::NotMeasurableHere => "not_measurable_here",
    }
}

const FLOORS: [&str; 12] = [
    "job",
    "engine",
    "device",
    "floor",
    "ratio",
    "ratio_low",
    "ratio_high",
    "blocks",
    "confidence",
    "between_launches",
    "launch_scatter",
    "pairs",
];

pub(super) fn floors(tables: &Tables) -> Result<Vec<u8>, ExportError> {
    let mut sheet = Sheet::new("floors.csv", &FLOORS)?;
    for floor in &tables.floors {
        let mut values = vec![
            text(&floor.job),
            text(&floor.engine),
            text(&floor.device),
            decimal(floor.floor),
        ];
        values.extend(interval(floor.ratio.as_ref()));
        values.push(decimal(floor.between_launches));
        values.push(decimal(floor.launch_scatter));
        values.push(number(Some(floor.pairs)));
        sheet.row(values)?;
    }
    sheet.finish()
}
