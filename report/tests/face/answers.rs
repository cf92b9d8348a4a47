//! What pages answer at once, and what they leave unsaid where nobody knows.

use schema::{
    Device, OutcomeKind, Strategy, Tables,
    tables::{CellRow, ScalingPoint, ScalingRow, Verdict},
};

use crate::{
    fixture::realistic::{self, interval},
    support::folder::Site,
};

/// The part of a page from `start` on, up to `end`.
fn part<'a>(page: &'a str, start: &str, end: &str) -> &'a str {
    let (_, rest) = page
        .split_once(start)
        .unwrap_or_else(|| panic!("{start}: {page}"));
    rest.split(end).next().unwrap_or_default()
}

fn cells_of<'a>(tables: &'a mut Tables, job: &'a str) -> impl Iterator<Item = &'a mut CellRow> {
    tables.cells.iter_mut().filter(move |row| row.job == job)
}

/// The training as one that compares outputs, and that is all; `unjudged` of its hundred tensors could not be.
fn untimed(unjudged: u64) -> (Tables, String) {
    let mut tables = realistic::tables();
    let job = tables.jobs.iter_mut().find(|job| job.id == "training");
    let job = job.expect("the fixture trains");
    job.measure.blocks = 0;
    job.comparisons.clear();
    let mut id = String::new();
    for row in cells_of(&mut tables, "training") {
        row.outcome.kind = OutcomeKind::Verified;
        (row.speed, row.allowed) = (None, true);
        row.stopped = Some("nothing was to be timed".to_owned());
        let parity = row.parity.as_mut().expect("it was compared");
        (parity.judged, parity.unjudged, parity.worst_share) = (100 - unjudged, unjudged, 0.5);
        id.clone_from(&row.id.0);
    }
    (tables, format!("cells/training/{id}.html"))
}

#[test]
fn a_training_of_which_most_was_not_judged_is_verified_in_part_wherever_it_is_told() {
    for (unjudged, is_in_part) in [(0, false), (60, true)] {
        let (tables, cell) = untimed(unjudged);
        let site = Site::of(&tables);
        for page in ["index.html", "jobs/training.html", &cell] {
            let html = site.page(page);
            let said = html.contains("verified in part");
            assert_eq!(said, is_in_part, "{page}, {unjudged}");
        }
        let cell = site.page(&cell);
        let ending = part(&cell, "<p class=\"ending\">", "</p>");
        let whole = "The outputs agree with the reference.";
        assert_eq!(ending.contains(whole), !is_in_part, "{ending}");
        // Nothing else is to be said of what ended as it should.
        for said in ["allows this outcome", "Its group ended so"] {
            assert!(!ending.contains(said), "{ending}");
        }
    }
}

#[test]
fn jobs_that_time_nothing_answer_and_have_no_columns_of_times() {
    let (tables, _) = untimed(0);
    let site = Site::of(&tables);
    let said = "losses of the only cell agree with the reference";
    let job = site.page("jobs/training.html");
    assert!(site.page("index.html").contains(said) && job.contains(said));
    for column in ["Step time", "Items/s", "95th percentile"] {
        assert!(!job.contains(&format!(">{column}</th>")), "{column}");
        let timed = site.page("jobs/inference.html");
        assert!(timed.contains(&format!(">{column}</th>")), "{column}");
    }
    assert!(!job.contains("Not steady after warm-up"));
    // What was sought stands on the overview, and on each cell's page.
    let overview = site.page("index.html");
    let found = part(&overview, "<ul class=\"found\">", "</ul>");
    for (engine, fits) in [
        ("PyTorch eager", "84"),
        ("ONNX Runtime cpu", "≥\u{a0}256"),
        ("TensorFlow graph", "0"),
    ] {
        let line = part(found, &format!("<bdi>{engine}</bdi>"), "</li>");
        assert!(line.contains(&format!("<b>{fits}</b>")), "{line}");
    }
    let id = &tables.cells.iter().find(|row| row.frontier.is_some());
    let id = &id.expect("the fixture seeks one").id;
    let cell = site.page(&format!("cells/frontier/{id}.html"));
    assert!(part(&cell, "Largest batch that fits", "</div>").contains("84"));
    assert!(part(&cell, "Next tried", "</div>").contains("86: out of memory"));
}

#[test]
fn blocks_that_were_disturbed_are_counted_once_for_all_their_cells() {
    let told = |blocks: usize| {
        let mut tables = realistic::tables();
        let group = tables.cells[0].group.clone();
        let of_group = tables.cells.iter_mut().filter(|row| row.group == group);
        for row in of_group {
            for launch in row.launches.iter_mut().take(blocks) {
                launch.outcome.kind = OutcomeKind::Unstable;
            }
        }
        Site::of(&tables).page("jobs/inference.html")
    };
    assert!(!told(0).contains("by others on the machine"));
    assert!(told(1).contains("one block, by others on the machine"));
    assert!(told(2).contains("2 blocks, by others on the machine"));
}

#[test]
fn machines_tell_what_was_tried_and_what_was_measured() {
    let told = |keep: usize, timed: usize| {
        let mut tables = realistic::tables();
        for (place, row) in tables.cells.iter_mut().enumerate() {
            row.environment = (place < keep).then_some(0);
            if place >= timed {
                row.speed = None;
            }
        }
        Site::of(&tables).page("machines.html")
    };
    for (keep, timed, said) in [
        (1, 1, "One cell was measured here."),
        (2, 2, "2 cells were measured here."),
        (3, 1, "3 cells were tried here, of which one was measured."),
        (3, 2, "3 cells were tried here, of which 2 were measured."),
        (2, 0, "2 cells were tried here; none was timed."),
    ] {
        let html = told(keep, timed);
        assert!(html.contains(said), "{said}");
    }
}

#[test]
fn a_cell_on_a_gpu_tells_of_the_hosts_memory_too() {
    let mut tables = realistic::tables();
    assert!(
        !Site::of(&tables)
            .page("jobs/inference.html")
            .contains("host: ")
    );
    let row = &mut tables.cells[0];
    row.cell.device = Device::Cuda(0);
    let memory = row.memory.as_mut().expect("it was measured");
    memory.peak_resident_bytes = 919 << 20;
    memory.peak_device_bytes = None;
    let html = Site::of(&tables).page("jobs/inference.html");
    assert!(html.contains("–<span class=\"reason\">host: 919 MiB</span>"));
}

#[test]
fn only_effects_beyond_doubt_have_a_rank() {
    let ranks = |verdict| {
        let mut tables = realistic::tables();
        let job = &mut tables.jobs[0];
        for place in job.effects.clone() {
            let table = &mut job.comparisons[place.comparison as usize];
            table.rows[place.row as usize].verdict = verdict;
        }
        let html = Site::of(&tables).page("jobs/inference.html");
        let table = part(&html, "id=\"effects-caption\"", "</table>");
        table.matches("data-value=\"1\">1</td>").count()
    };
    assert_eq!(ranks(Verdict::Faster), 1);
    assert_eq!(ranks(Verdict::Unclear), 0);
}

#[test]
fn claims_stand_on_the_overview_with_what_became_of_them() {
    let tables = realistic::tables();
    let overview = Site::of(&tables).page("index.html");
    let claims = &tables.jobs[0].claims;
    assert!(!claims.is_empty());
    let list = part(&overview, "<ul class=\"claims\">", "</ul>");
    for claim in claims {
        assert!(
            list.contains(&claim.states.replace('\'', "&#39;")),
            "{list}"
        );
    }
    assert!(list.contains("jobs/inference.html#claims") && list.contains("confirmed"));
}

#[test]
fn throughput_of_workers_is_a_multiple_of_that_of_those_they_start_from() {
    let mut tables = realistic::tables();
    let cell = tables.cells[0].id.clone();
    let point = |world_size, efficiency| ScalingPoint {
        world_size,
        cell: cell.clone(),
        samples: 8,
        efficiency,
        exchange: None,
        memory_bytes: Vec::new(),
    };
    let points = vec![point(1, None), point(4, Some(interval(0.6, 0.75, 0.8)))];
    let job = &mut tables.jobs[0];
    job.scaling = vec![ScalingRow {
        coordinates: [("model".to_owned(), "resnet18".to_owned())].into(),
        strategy: Strategy::Ddp,
        points,
    }];
    let compared = &mut job.comparisons[0];
    (compared.axis, compared.baseline) = ("world_size".to_owned(), "1".to_owned());
    let html = Site::of(&tables).page("jobs/inference.html");
    let table = part(&html, "id=\"scaling-caption\"", "</table>");
    assert!(
        table.contains("<b>3.0×</b>") && table.contains("[2.4, 3.2]"),
        "{table}"
    );
}
