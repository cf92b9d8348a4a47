//! The first page: every verdict, in a sentence made from data.

use schema::{
    Tables,
    tables::{JobTable, Verdict},
};
use serde::Serialize;

use super::{
    chrome::{self, Chrome},
    comparison::Family,
    frontier::Frontiers,
    job::{self, Count},
    machines,
};
use crate::{ids::Index, units, words};

/// More verdicts than this of one family are folded: the rest is one click away.
const UNFOLDED: usize = 24;

/// The overview.
#[derive(Debug, Serialize)]
pub(crate) struct Overview {
    chrome: Chrome,
    title: String,
    /// How the verdicts of the whole site are spread.
    verdicts: Vec<Count>,
    jobs: Vec<Section>,
    outcomes: Vec<Count>,
    /// Whether some job timed steps.
    timed: bool,
    machines: Vec<String>,
    cells: String,
    /// Warnings that belong to no job of the tables.
    warnings: Vec<String>,
    unfolded: usize,
}

/// A job on the overview.
#[derive(Debug, Serialize)]
struct Section {
    id: String,
    heading: String,
    mode: &'static str,
    href: String,
    cells_root: String,
    families: Vec<Family>,
    answer: Option<job::Answer>,
    /// What was done instead of timing; `None` where steps were timed.
    instead: Option<job::Instead>,
    /// Where outputs were compared, and that is all: how many cells agree, in words.
    parity: Option<String>,
    frontiers: Option<Frontiers>,
    /// How its cells ended.
    outcomes: Vec<Count>,
    claims: Vec<Claim>,
}

/// What a source asserts, and what became of it.
#[derive(Debug, Serialize)]
struct Claim {
    states: String,
    badge: words::Badge,
}

impl Overview {
    /// `families` are those of each job, in the order of the tables.
    pub(crate) fn new(index: &Index<'_>, families: Vec<Vec<Family>>) -> Self {
        let tables = index.tables;
        let jobs = tables
            .jobs
            .iter()
            .zip(families)
            .map(|(job, families)| section(index, job, families))
            .collect();
        let cells = tables.cells.len() as u64;
        Self {
            chrome: Chrome::new(tables, "", "overview", ""),
            title: chrome::site_title(tables),
            verdicts: verdicts(tables),
            jobs,
            outcomes: job::tally(tables.cells.iter()),
            timed: tables
                .jobs
                .iter()
                .any(|job| job::Instead::of(job).is_none()),
            machines: machines::hardware(tables),
            cells: format!(
                "{} {}",
                units::count(cells),
                if cells == 1 { "cell" } else { "cells" }
            ),
            warnings: tables
                .warnings
                .iter()
                .filter(|warning| tables.jobs.iter().all(|job| job.id != warning.job))
                .map(|warning| warning.message.clone())
                .collect(),
            unfolded: UNFOLDED,
        }
    }
}

fn section(index: &Index<'_>, job: &JobTable, families: Vec<Family>) -> Section {
    let rows = index.cells_of(&job.id);
    Section {
        id: job.id.clone(),
        heading: job::heading(job),
        mode: job.mode.word(),
        href: format!("jobs/{}.html", job.id),
        cells_root: format!("cells/{}/", job.id),
        families,
        answer: job::Answer::new(job, rows),
        instead: job::Instead::of(job),
        parity: job::told_of_parity(index, job, rows),
        frontiers: Frontiers::new(job, rows),
        outcomes: job::tally(rows.iter().copied()),
        claims: claims(job),
    }
}

fn verdicts(tables: &Tables) -> Vec<Count> {
    let all = [
        Verdict::Faster,
        Verdict::Slower,
        Verdict::Same,
        Verdict::Unclear,
        Verdict::NotMeasured,
    ];
    let rows = || {
        tables
            .jobs
            .iter()
            .flat_map(|job| &job.comparisons)
            .flat_map(|comparison| &comparison.rows)
    };
    all.into_iter()
        .map(|verdict| {
            (
                verdict,
                rows().filter(|row| row.verdict == verdict).count() as u64,
            )
        })
        .filter(|(_, count)| *count > 0)
        .map(|(verdict, count)| Count {
            badge: words::verdict(verdict),
            count: units::count(count),
        })
        .collect()
}

fn claims(job: &JobTable) -> Vec<Claim> {
    let claims = job.claims.iter().map(|claim| Claim {
        states: claim.states.clone(),
        badge: words::judgement(claim.judgement),
    });
    claims.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{template::Templates, view::invented_tables};

    #[test]
    fn jobs_that_time_nothing_say_what_they_do() {
        let tables = invented_tables();
        let page = |frontier, blocks| {
            let mut tables = tables.clone();
            for job in &mut tables.jobs {
                (job.measure.frontier, job.measure.blocks) = (frontier, blocks);
                job.comparisons.clear();
            }
            let index = Index::new(&tables).unwrap();
            let families = tables.jobs.iter().map(|_| Vec::new()).collect();
            let templates = Templates::new().unwrap();
            let page = Overview::new(&index, families);
            templates.render("overview.html", &page).unwrap()
        };
        let timed = page(None, 6);
        assert!(timed.contains("No comparison was asked for.") && timed.contains("Who wins"));
        for (frontier, blocks, told) in [
            (None, 0, "held against the reference"),
            (Some(8), 6, "was sought"),
        ] {
            let html = page(frontier, blocks);
            assert!(html.contains("Nothing was timed") && html.contains(told));
            assert!(!html.contains("No comparison was asked for.") && !html.contains("Who wins"));
        }
    }
}
