//! The plan as text for people: every group with its status, and every cell with its obstacle.

use std::{collections::BTreeMap, fmt::Write as _};

use schema::{
    Digest, Plan,
    plan::{PlannedCell, PlannedHeat, PlannedJob, Status},
};

use crate::together::Together;

/// Widest line, in characters.
const WIDTH: usize = 100;

/// The plan in lines of at most 100 characters; with `details`, every cell and every reason.
#[must_use]
pub fn explain(plan: &Plan, details: bool) -> String {
    let mut text = String::new();
    let first: BTreeMap<&Digest, &str> = plan
        .distinct_heats()
        .map(|heat| (&heat.key, heat.group.as_str()))
        .collect();
    let mut lines: BTreeMap<&str, Vec<Line<'_>>> = BTreeMap::new();
    for heat in plan.all_heats() {
        let first = first.get(&heat.key).copied();
        lines.entry(&heat.job).or_default().push(Line {
            heat,
            shared: first.filter(|group| *group != heat.group),
        });
    }
    let ceilings = plan.ceilings.iter().map(|ceilings| &ceilings.job);
    for job in plan.jobs.iter().chain(ceilings) {
        let lines = lines.remove(job.id.as_str()).unwrap_or_default();
        explain_job(&mut text, job, &lines, details);
    }
    for warning in &plan.warnings {
        wrapped(
            &mut text,
            &format!("warning: {}: ", warning.job),
            &warning.message,
        );
    }
    let groups = plan.distinct_heats().count();
    let cached = groups - plan.heats_to_measure().count();
    let by_job = Together::by_job(plan).into_values();
    let left_ns = by_job.fold(Together::default(), Together::and).ns();
    // Zero is predicted where nothing can run, and only there.
    let goes_on = |heat: &PlannedHeat| {
        let job = plan.job(&heat.job);
        job.is_some_and(|job| job.measure.looks().len() > 1)
    };
    let left = match left_ns {
        0 => "nothing to measure".to_owned(),
        _ if plan.heats_to_measure().any(goes_on) => format!(
            "about {} to measure, more where verdicts stay open",
            time(left_ns)
        ),
        _ => format!("about {} to measure", time(left_ns)),
    };
    let _ = writeln!(
        text,
        "{} in {}, {cached} cached; {left}",
        counted(plan.cell_count(), "cell"),
        counted(groups, "group"),
    );
    text
}

/// A group of a job.
struct Line<'a> {
    heat: &'a PlannedHeat,
    /// The group of an earlier job that has the same heat.
    shared: Option<&'a str>,
}

/// `1 block`, `2 blocks`.
pub(crate) fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn explain_job(text: &mut String, job: &PlannedJob, lines: &[Line<'_>], details: bool) {
    let _ = writeln!(text, "{} ({})", job.id, job.mode);
    if !job.question.is_empty() {
        wrapped(text, "  ", &job.question);
    }
    let prefix = format!("{}/", job.id);
    let short = |heat: &PlannedHeat| {
        heat.group
            .strip_prefix(&prefix)
            .unwrap_or(&heat.group)
            .to_owned()
    };
    let names: Vec<String> = lines
        .iter()
        .map(|line| cut(&short(line.heat), 48))
        .collect();
    let width = names
        .iter()
        .map(|name| name.chars().count())
        .max()
        .unwrap_or(0)
        .max(5);
    let _ = writeln!(
        text,
        "  {:width$}  {:>5}  {:<8}  {:>7}  {:>9}",
        "group", "cells", "status", "time", "memory"
    );
    for (Line { heat, shared }, name) in lines.iter().zip(&names) {
        let cells = heat
            .cells
            .iter()
            .filter(|cell| cell.twin_of.is_none())
            .count();
        let memory = heat
            .cells
            .iter()
            .map(|cell| cell.predicted_bytes)
            .max()
            .unwrap_or(0);
        let _ = writeln!(
            text,
            "  {name:width$}  {cells:>5}  {:<8}  {:>7}  {:>9}",
            word(&heat.status),
            match heat.predicted_ns {
                predicted_ns if predicted_ns > 0 && shared.is_none() => time(predicted_ns),
                _ => "-".to_owned(),
            },
            size(memory)
        );
        if let Some(group) = shared {
            wrapped(text, "      ", &format!("measured once, with {group}"));
        }
        explain_heat(text, heat, details);
    }
    text.push('\n');
}

/// Why a group is measured, what its key is made of, and what its cells meet.
fn explain_heat(text: &mut String, heat: &PlannedHeat, details: bool) {
    if details {
        let parts: Vec<String> = heat
            .key_parts
            .iter()
            .map(|(part, value)| format!("{part} {}", Digest::of_bytes(value.as_bytes()).short()))
            .collect();
        let key = format!("key {}: {}", heat.key.short(), parts.join(", "));
        wrapped(text, "      ", &key);
    }
    match &heat.status {
        Status::New if details => {
            wrapped(
                text,
                "      ",
                "new: nothing of this group was measured here",
            );
        }
        Status::Cached { heat } if details => {
            wrapped(text, "      ", &format!("cached: heat {}", heat.short()));
        }
        Status::Stale { changed } if details => {
            for change in changed {
                wrapped(text, "      changed: ", change);
            }
        }
        Status::Open { blocks } => wrapped(
            text,
            "      ",
            &format!(
                "{} measured before the interruption",
                counted(*blocks as usize, "block")
            ),
        ),
        _ => {}
    }
    for cell in &heat.cells {
        if details || (cell.obstacle.is_some() && cell.twin_of.is_none()) {
            wrapped(text, "      ", &cell_line(cell, heat));
        }
    }
}

/// What tells a cell from the others of its group, and what is expected of it.
fn cell_line(cell: &PlannedCell, heat: &PlannedHeat) -> String {
    let is_own = |axis: &String, value: &String| {
        heat.cells.len() == 1
            || heat
                .cells
                .iter()
                .any(|other| other.coordinates.get(axis) != Some(value))
    };
    let own: Vec<String> = cell
        .coordinates
        .iter()
        .filter(|(axis, value)| is_own(axis, value))
        .map(|(axis, value)| format!("{axis}={value}"))
        .collect();
    let mut line = format!("{} {}", cell.id, own.join(" "));
    if let Some(slot) = cell.twin_of {
        let _ = write!(line, " twin of slot {slot}");
    }
    match &cell.obstacle {
        Some(outcome) => drop(write!(line, ": {}: {}", outcome.kind, outcome.reason)),
        None => drop(write!(
            line,
            ": about {} a step",
            time(cell.predicted_step_ns)
        )),
    }
    line
}

const fn word(status: &Status) -> &'static str {
    match status {
        Status::New => "new",
        Status::Cached { .. } => "cached",
        Status::Open { .. } => "open",
        Status::Stale { .. } => "stale",
    }
}

/// A length of time with two or three digits: `1.2 ms`, `45 s`, `6 min`.
pub(crate) fn time(ns: u64) -> String {
    let ns = ns as f64;
    let (value, unit) = match ns {
        _ if ns < 1e6 => (ns / 1e3, "µs"),
        _ if ns < 1e9 => (ns / 1e6, "ms"),
        _ if ns < 120e9 => (ns / 1e9, "s"),
        _ if ns < 7200e9 => (ns / 60e9, "min"),
        _ => (ns / 3600e9, "h"),
    };
    if value < 10.0 {
        format!("{value:.1} {unit}")
    } else {
        format!("{value:.0} {unit}")
    }
}

/// An amount of memory: `640 MiB`, `1.5 GiB`.
pub(crate) fn size(bytes: u64) -> String {
    let mib = bytes as f64 / f64::from(1 << 20);
    if mib < 1024.0 {
        format!("{mib:.0} MiB")
    } else {
        format!("{:.1} GiB", mib / 1024.0)
    }
}

/// At most `most` characters, the cut shown.
fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(most.saturating_sub(1)).collect();
    short.push('…');
    short
}

/// Writes words in lines of bounded width, the later ones indented under the first.
fn wrapped(text: &mut String, lead: &str, words: &str) {
    let indent = lead.chars().count().min(WIDTH / 2);
    let mut line = lead.to_owned();
    let mut used = 0;
    for word in words.split_whitespace() {
        let word = cut(word, WIDTH - indent);
        if used > 0 && line.chars().count() + 1 + word.chars().count() > WIDTH {
            let _ = writeln!(text, "{}", line.trim_end());
            line = " ".repeat(indent);
            used = 0;
        }
        if used > 0 {
            line.push(' ');
        }
        line.push_str(&word);
        used += 1;
    }
    let _ = writeln!(text, "{}", line.trim_end());
}
