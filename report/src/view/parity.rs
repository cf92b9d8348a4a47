//! The parity matrix: which engine agreed with the reference, on which network, by how much.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use schema::{
    EngineVariant, Mode, OutcomeKind, Precision, Tables, protocol::Loaded, tables::CellRow,
};
use serde::Serialize;

use super::{
    agreement,
    chrome::{Chrome, link},
};
use crate::{
    units,
    words::{self, Badge},
};

/// The page of the parity matrix.
#[derive(Debug, Serialize)]
pub(crate) struct ParityPage {
    chrome: Chrome,
    matrices: Vec<Matrix>,
}

/// The cells of one mode.
#[derive(Debug, Serialize)]
struct Matrix {
    mode: &'static str,
    /// Whether a column is of a precision of integers.
    has_int8: bool,
    columns: Vec<Column>,
    rows: Vec<Row>,
    /// How many of the cells were compared and agree, in words.
    summary: String,
}

/// An engine's variant at a precision.
#[derive(Debug, Serialize)]
struct Column {
    engine: String,
    precision: &'static str,
}

/// A network.
#[derive(Debug, Serialize)]
struct Row {
    model: String,
    /// One for each column; `None` where no cell asked for it.
    entries: Vec<Option<Entry>>,
}

/// All cells of a network on a column's engine: the worst of them speaks.
#[derive(Debug, Serialize)]
struct Entry {
    /// The worst cell's page, from the folder of the site.
    href: String,
    /// Its relative error; absent where its outputs were not compared.
    error: Option<String>,
    /// Its error beside the largest that passes, in words.
    share: Option<String>,
    /// Training: how much of it was judged, where that is not all.
    judged: Option<String>,
    /// Precisions of integers: how many rows choose as the reference's.
    top1: Option<String>,
    /// What it is computed in, where nothing is in the column's precision.
    computed: Option<String>,
    badge: Badge,
    /// Which cell speaks, and what became of the others; empty where there is but one.
    note: String,
}

/// Outputs that agree.
const AGREES: Badge = Badge::new("agrees", "good");

/// What could be judged agrees, and most of it, or of the updates, could not.
const AGREES_IN_PART: Badge = Badge::new("agrees in part", "unclear");

/// Outputs that do not.
const DISAGREES: Badge = Badge::new("disagrees", "bad");

impl ParityPage {
    pub(crate) fn new(tables: &Tables) -> Self {
        let matrices = Mode::ALL
            .iter()
            .filter_map(|mode| matrix(tables, *mode))
            .collect();
        let chrome = Chrome::new(tables, "", "parity", "Parity")
            .with_crumbs(vec![link("Overview", "index.html")]);
        Self { chrome, matrices }
    }
}

/// How many of a job's cells agree with the reference, in words; `None` where there are none. What is in fp64 may be
/// in another job.
pub(super) fn of_job(tables: &Tables, mode: Mode, rows: &[&CellRow]) -> Option<String> {
    (!rows.is_empty()).then(|| told(mode, rows, &judged_in_fp64(&of_mode(tables, mode))))
}

fn of_mode(tables: &Tables, mode: Mode) -> Vec<&CellRow> {
    let rows = tables.cells.iter();
    rows.filter(|row| row.cell.mode == mode).collect()
}

type Place<'a> = (&'a EngineVariant, Precision);

fn matrix(tables: &Tables, mode: Mode) -> Option<Matrix> {
    let rows = of_mode(tables, mode);
    if rows.is_empty() {
        return None;
    }
    let columns: BTreeSet<Place<'_>> = rows.iter().map(|row| place(row)).collect();
    let mut models: Vec<Cow<'_, str>> = Vec::new();
    let mut entries: BTreeMap<(Cow<'_, str>, Place<'_>), Vec<&CellRow>> = BTreeMap::new();
    for row in &rows {
        let model = row.cell.model.title();
        if !models.contains(&model) {
            models.push(model.clone());
        }
        entries.entry((model, place(row))).or_default().push(row);
    }
    let in_fp64 = judged_in_fp64(&rows);
    Some(Matrix {
        mode: mode.word(),
        has_int8: columns.iter().any(|(_, precision)| precision.is_int8()),
        summary: told(mode, &rows, &in_fp64),
        rows: models
            .into_iter()
            .map(|model| Row {
                entries: columns
                    .iter()
                    .map(|place| {
                        let rows = entries.get(&(model.clone(), *place));
                        rows.and_then(|rows| entry(rows, &in_fp64))
                    })
                    .collect(),
                model: model.into_owned(),
            })
            .collect(),
        columns: columns
            .into_iter()
            .map(|(engine, precision)| Column {
                engine: words::value("engine", &engine.to_string()),
                precision: precision.word(),
            })
            .collect(),
    })
}

fn place(row: &CellRow) -> Place<'_> {
    (&row.cell.engine, row.cell.precision)
}

/// Networks and engines.
type Trained<'a> = BTreeSet<(Cow<'a, str>, &'a EngineVariant)>;

fn trained(row: &CellRow) -> (Cow<'_, str>, &EngineVariant) {
    (row.cell.model.title(), &row.cell.engine)
}

/// What agrees in fp64, in whole: it settles what rounding hides in other precisions of the same engine.
fn judged_in_fp64<'a>(rows: &[&'a CellRow]) -> Trained<'a> {
    let rows = rows.iter().filter(|row| {
        row.cell.precision == Precision::Fp64 && standing(row) == Standing::Agrees && is_whole(row)
    });
    rows.map(|row| trained(row)).collect()
}

fn is_whole(row: &CellRow) -> bool {
    row.parity
        .as_ref()
        .is_none_or(|parity| parity.unjudged == 0)
}

/// How many of these cells agree, and as far as what could be judged.
fn told(mode: Mode, rows: &[&CellRow], in_fp64: &Trained<'_>) -> String {
    let agree = rows.iter().copied();
    let agree = agree.filter(|row| standing(row) == Standing::Agrees);
    let (in_part, agree): (Vec<&CellRow>, Vec<&CellRow>) =
        agree.partition(|row| words::is_in_part(row));
    let not_all = agree.iter().filter(|row| !is_whole(row)).count();
    let settled = in_part.iter().filter(|row| in_fp64.contains(&trained(row)));
    summary(mode, agree.len(), in_part.len(), rows.len())
        + &settled_in_fp64(settled.count(), in_part.len())
        + &some_unjudged(not_all)
}

/// Says how many of `all` cells agree, and how many more as far as they could be judged.
fn summary(mode: Mode, agree: usize, in_part: usize, all: usize) -> String {
    let what = match mode {
        Mode::Inference => "outputs",
        Mode::Training => "gradients, updates and losses",
    };
    let agree_text = units::count(agree as u64);
    let all_text = units::count(all as u64);
    let whole = match (agree, all) {
        (1, 1) => format!("The {what} of the only cell agree with the reference's."),
        _ if agree == all => {
            format!("The {what} of all {all_text} cells agree with the reference's.")
        }
        (1, _) => format!("The {what} of one of {all_text} cells agree with the reference's."),
        _ => format!("The {what} of {agree_text} of {all_text} cells agree with the reference's."),
    };
    match in_part {
        0 => whole,
        1 => format!(
            "{whole} Those of one more do as far as they could be judged, which is less than half of them or of its updates."
        ),
        _ => format!(
            "{whole} Those of {} more do as far as they could be judged, which is less than half of them or of their updates.",
            units::count(in_part as u64)
        ),
    }
}

/// Says for how many of the `in_part` cells that could be judged in part alone the same engine agrees in fp64.
fn settled_in_fp64(settled: usize, in_part: usize) -> String {
    match (settled, in_part) {
        (0, _) => String::new(),
        (1, 1) => {
            " The same engine agrees on all of it in fp64, which judges its updates.".to_owned()
        }
        _ if settled == in_part => {
            " The same engines agree on all of it in fp64, which judges their updates.".to_owned()
        }
        _ => format!(
            " For {} of these the same engine agrees on all of it in fp64, which judges the updates.",
            units::count(settled as u64)
        ),
    }
}

/// Says of how many of those that agree not everything could be judged.
fn some_unjudged(cells: usize) -> String {
    match cells {
        0 => String::new(),
        1 => " Of one of those that agree, some tensors could not be judged.".to_owned(),
        _ => format!(
            " Of {} of those that agree, some tensors could not be judged.",
            units::count(cells as u64)
        ),
    }
}

/// Where a cell's outputs stand, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    Disagrees,
    Agrees,
    /// Not compared, or with nothing that could vouch for the comparison; the outcome says why.
    Unknown,
}

fn standing(row: &CellRow) -> Standing {
    match &row.parity {
        Some(_) if row.outcome.kind == OutcomeKind::ParityUnverified => Standing::Unknown,
        None => Standing::Unknown,
        // A share that is no number has not passed.
        Some(parity) if parity.worst_share <= 1.0 => Standing::Agrees,
        Some(_) => Standing::Disagrees,
    }
}

/// What stands for these cells, of which `in_fp64` settles some; `None` where there are none.
fn entry(rows: &[&CellRow], in_fp64: &Trained<'_>) -> Option<Entry> {
    let share = |row: &CellRow| row.parity.as_ref().map_or(0.0, |parity| parity.worst_share);
    let worst = rows.iter().min_by(|one, other| {
        standing(one)
            .cmp(&standing(other))
            .then(share(other).total_cmp(&share(one)))
    })?;
    let parity = worst.parity.as_ref();
    let compared = rows
        .iter()
        .filter(|row| standing(row) != Standing::Unknown)
        .count();
    Some(Entry {
        href: format!("cells/{}/{}.html", worst.job, worst.id),
        error: parity.map(|parity| units::error(parity.error)),
        share: parity.map(|parity| share_of_bound(parity.worst_share)),
        judged: parity.and_then(agreement::judged).map(|words| {
            match words::is_in_part(worst) && in_fp64.contains(&trained(worst)) {
                true => format!("{words}; all in fp64"),
                false => words,
            }
        }),
        top1: parity.and_then(|parity| parity.top1).map(words::top1),
        computed: worst
            .got_ready()
            .and_then(Loaded::computed_otherwise)
            .map(str::to_owned),
        badge: match standing(worst) {
            Standing::Disagrees => DISAGREES,
            Standing::Agrees if words::is_in_part(worst) => AGREES_IN_PART,
            Standing::Agrees => AGREES,
            Standing::Unknown => words::outcome(worst.outcome.kind),
        },
        note: note(rows.len(), compared),
    })
}

/// Says which of `all` cells speaks, of which `compared` have an error.
fn note(all: usize, compared: usize) -> String {
    let (all_text, compared_text) = (units::count(all as u64), units::count(compared as u64));
    match (all, compared) {
        (1, _) => String::new(),
        (_, 0) => format!("one of {all_text} cells"),
        _ if all == compared => format!("worst of {all_text} cells"),
        _ => format!("worst of {compared_text}; {all_text} cells in all"),
    }
}

/// How an error stands to its bound: a share of it, or how many times as large.
pub(super) fn share_of_bound(share: f64) -> String {
    match share {
        2.0..1e6 => format!("{} times the bound", units::count(share.round() as u64)),
        1e6.. => "over a million times the bound".to_owned(),
        _ => format!("{} of the bound", units::percent(share)),
    }
}
