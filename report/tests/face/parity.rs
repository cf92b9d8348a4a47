//! The parity matrix: the worst cell of each network and engine speaks, whatever the others did.

use schema::{
    Mode, OutcomeKind, Precision, Tables,
    record::{Judged, Kinds, Top1},
    tables::CellRow,
};

use crate::{fixture::realistic, support::folder::Site};

/// The tables with only the cells of `resnet18` on `pytorch/eager`, in inference, three of them.
fn three() -> Tables {
    let mut tables = realistic::tables();
    let wanted = |row: &CellRow| {
        row.cell.mode == Mode::Inference
            && row.cell.engine.to_string() == "pytorch/eager"
            && row.parity.is_some()
    };
    let kept: Vec<CellRow> = tables
        .cells
        .iter()
        .filter(|row| wanted(row))
        .cloned()
        .collect();
    tables.cells = kept.into_iter().take(3).collect();
    assert_eq!(tables.cells.len(), 3, "the fixture has three such cells");
    let job = tables.cells[0].job.clone();
    tables.jobs.retain(|kept| kept.id == job);
    tables.jobs[0].comparisons.clear();
    for row in &mut tables.cells {
        row.job.clone_from(&job);
        row.cell.model.name = "resnet18".to_owned();
    }
    tables
}

fn set(row: &mut CellRow, error: f64, share: f64) {
    let parity = row.parity.as_mut().expect("a cell with an error");
    (parity.error, parity.worst_share) = (error, share);
}

/// The text of the only entry.
fn entry(tables: &Tables) -> String {
    let html = Site::of(tables).page("parity.html");
    let entries: Vec<_> = html.split("<td>").skip(1).collect();
    assert_eq!(entries.len(), 1, "{html}");
    entries[0]
        .split("</td>")
        .next()
        .unwrap_or_default()
        .to_owned()
}

#[test]
fn the_cell_nearest_to_its_bound_speaks() {
    let mut tables = three();
    set(&mut tables.cells[0], 3e-7, 0.08);
    set(&mut tables.cells[1], 2e-7, 0.5);
    set(&mut tables.cells[2], 9e-7, 0.2);
    let text = entry(&tables);
    let page = format!("cells/{}/{}.html", tables.cells[1].job, tables.cells[1].id);
    for part in [
        "agrees",
        "2.0 × 10⁻⁷",
        "50 % of the bound",
        "worst of 3 cells",
        &page,
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_cell_that_disagrees_speaks_before_all_others() {
    for (share, words) in [
        (1.5, "150 % of the bound"),
        (7979.1, "979 times the bound"),
        (f64::INFINITY, "over a million times the bound"),
        (f64::NAN, "of the bound"),
    ] {
        let mut tables = three();
        set(&mut tables.cells[0], 3e-7, 0.999);
        set(&mut tables.cells[1], 2e-3, share);
        tables.cells[1].outcome.kind = OutcomeKind::ParityFailed;
        tables.cells[1].speed = None;
        let text = entry(&tables);
        assert!(
            text.contains("disagrees") && text.contains(&tables.cells[1].id.0),
            "{text}"
        );
        assert!(text.contains(words), "{words}: {text}");
    }
}

/// In a deep network in bf16 rounding decides most gradients: what is left to judge is no agreement of all.
#[test]
fn what_was_not_judged_is_counted() {
    let mut tables = three();
    tables.cells.truncate(1);
    let told = |judged: u64, unjudged: u64| {
        let mut tables = tables.clone();
        let parity = tables.cells[0]
            .parity
            .as_mut()
            .expect("a cell with an error");
        (parity.judged, parity.unjudged) = (judged, unjudged);
        entry(&tables)
    };
    assert!(!told(167, 0).contains("judged"));
    let most = told(139, 28);
    assert!(
        most.contains("139 of 167 tensors and losses judged"),
        "{most}"
    );
    assert!(!most.contains("in part"), "{most}");
    let few = told(28, 139);
    assert!(few.contains("agrees in part"), "{few}");
    assert!(few.contains("28 of 167 tensors and losses judged"), "{few}");
}

/// The sentence above the table speaks of all cells, and says of how many of them not all was judged.
#[test]
fn the_headline_counts_what_was_not_judged() {
    let told = |unjudged: [u64; 3]| {
        let mut tables = three();
        for (row, unjudged) in tables.cells.iter_mut().zip(unjudged) {
            let parity = row.parity.as_mut().expect("a cell with an error");
            parity.worst_share = 0.5;
            (parity.judged, parity.unjudged) = (100, unjudged);
        }
        Site::of(&tables).page("parity.html")
    };
    let said = "some tensors could not be judged";
    assert!(!told([0, 0, 0]).contains(said));
    let one = told([0, 7, 0]);
    assert!(
        one.contains(&format!("Of one of those that agree, {said}")),
        "{one}"
    );
    let two = told([3, 7, 0]);
    assert!(
        two.contains(&format!("Of 2 of those that agree, {said}")),
        "{two}"
    );
    // Of what agrees in part the sentence speaks anyway.
    assert!(!told([0, 101, 0]).contains(said));
}

/// What rounding hides in one precision, the same engine's fp64 judges; another engine's does not.
#[test]
fn what_fp64_judges_is_said_where_another_precision_cannot() {
    let told = |in_fp64: &dyn Fn(&mut CellRow)| {
        let mut tables = three();
        tables.cells.truncate(2);
        let unjudged = [139, 0];
        for (row, unjudged) in tables.cells.iter_mut().zip(unjudged) {
            set(row, 1e-6, 0.5);
            let parity = row.parity.as_mut().expect("a cell with an error");
            (parity.judged, parity.unjudged) = (167 - unjudged, unjudged);
        }
        tables.cells[1].cell.precision = Precision::Fp64;
        in_fp64(&mut tables.cells[1]);
        let page = Site::of(&tables).page("parity.html");
        let says = |words: &str| page.contains(words);
        (
            says("The same engine agrees on all of it in fp64"),
            says("28 of 167 tensors and losses judged; all in fp64"),
        )
    };
    assert_eq!(told(&|_| {}), (true, true));
    let others: [&dyn Fn(&mut CellRow); 3] = [
        &|row| set(row, 1e-6, 1.5),
        &|row| row.parity.as_mut().expect("an error").unjudged = 1,
        &|row| row.cell.engine = "tensorflow/graph".parse().expect("an engine"),
    ];
    for other in others {
        assert_eq!(told(other), (false, false));
    }
}

/// Most of it was judged, and of the updates, by which alone an optimiser is seen, next to none.
#[test]
fn updates_that_were_not_judged_are_told_of() {
    let told = |updates: [u64; 2]| {
        let mut tables = three();
        tables.cells.truncate(1);
        let row = &mut tables.cells[0];
        let parity = row.parity.as_mut().expect("a cell with an error");
        let [judged, unjudged] = updates;
        (parity.judged, parity.unjudged) = (475 + judged, unjudged);
        parity.kinds = Some(Kinds {
            gradients: Judged {
                judged: 475,
                unjudged: 0,
            },
            updates: Judged { judged, unjudged },
            ..Kinds::default()
        });
        let page = format!("cells/{}/{}.html", row.job, row.id);
        (entry(&tables), Site::of(&tables).page(&page))
    };
    let (entry, cell) = told([2, 282]);
    assert!(entry.contains("agrees in part"), "{entry}");
    let words = "477 of 759 tensors and losses judged, of updates 2 of 284";
    assert!(entry.contains(words), "{entry}");
    for part in [
        "within the bound, in part",
        "What could be judged agrees with the reference, and that is 2 of 284 updates.",
        "282 of 284 updates, by which PyTorch eager itself is too far off",
    ] {
        assert!(cell.contains(part), "{part}");
    }
    let (entry, cell) = told([142, 142]);
    assert!(!entry.contains("in part"), "{entry}");
    assert!(entry.contains("of updates 142 of 284"), "{entry}");
    assert!(cell.contains("The outputs agree with the reference."));
    let (entry, cell) = told([284, 0]);
    assert!(!entry.contains("judged"), "{entry}");
    assert!(!cell.contains("Not judged"));
}

#[test]
fn cells_that_were_not_compared_say_how_they_ended() {
    let mut tables = three();
    tables.cells[0].parity = None;
    tables.cells[0].outcome.kind = OutcomeKind::OutOfMemory;
    tables.cells[0].speed = None;
    let text = entry(&tables);
    assert!(
        text.contains("agrees") && text.contains("worst of 2; 3 cells in all"),
        "{text}"
    );

    for row in &mut tables.cells {
        row.parity = None;
        row.speed = None;
        row.outcome.kind = OutcomeKind::OutOfMemory;
    }
    let text = entry(&tables);
    assert!(
        text.contains("out of memory") && text.contains("one of 3 cells"),
        "{text}"
    );
    assert!(!text.contains("of the bound"), "{text}");
}

#[test]
fn an_error_that_nothing_vouches_for_is_no_agreement() {
    let mut tables = three();
    for row in &mut tables.cells {
        row.outcome.kind = OutcomeKind::ParityUnverified;
        row.speed = None;
    }
    let site = Site::of(&tables).page("parity.html");
    assert!(site.contains("parity unverified"), "{site}");
    assert!(site.contains("The outputs of 0 of 3 cells agree"), "{site}");
}

#[test]
fn in_integers_rows_are_counted_and_random_weights_are_told_of() {
    let mut tables = three();
    tables.cells.truncate(1);
    let note = "what trained weights would lose";
    assert!(!Site::of(&tables).page("parity.html").contains(note));
    let row = &mut tables.cells[0];
    row.cell.precision = Precision::Int8Static;
    let parity = row.parity.as_mut().expect("a cell with an error");
    parity.top1 = Some(Top1 {
        agreeing: 7,
        rows: 8,
    });
    let (job, id) = (row.job.clone(), row.id.clone());
    let site = Site::of(&tables);
    for page in [
        "parity.html".to_owned(),
        format!("jobs/{job}.html"),
        format!("cells/{job}/{id}.html"),
    ] {
        let text = site.page(&page);
        assert!(text.contains("7 of 8 rows"), "{page}: {text}");
        assert!(
            page.starts_with("jobs") || text.contains(note),
            "{page}: {text}"
        );
    }
    let row = &mut tables.cells[0];
    let parity = row.parity.as_mut().expect("a cell with an error");
    parity.top1 = Some(Top1 {
        agreeing: 1,
        rows: 1,
    });
    assert!(entry(&tables).contains("1 of 1 row<"));
}

#[test]
fn a_verdict_in_integers_says_what_it_costs() {
    let mut tables = realistic::tables();
    let note = "In int8, top-1 counts";
    let job = &tables.jobs[0];
    let pages = [format!("jobs/{}.html", job.id), "index.html".to_owned()];
    let row = &job.comparisons[0].rows[0];
    let (job, contender) = (job.id.clone(), row.contender.clone());
    let site = Site::of(&tables);
    for page in &pages {
        assert!(!site.page(page).contains(note), "{page}");
    }
    let mut cells = tables.cells.iter_mut();
    let cell = cells.find(|cell| cell.job == job && cell.id == contender);
    let parity = cell.and_then(|cell| cell.parity.as_mut());
    parity.expect("a cell with an error").top1 = Some(Top1 {
        agreeing: 5,
        rows: 6,
    });
    let site = Site::of(&tables);
    for (page, said) in pages
        .iter()
        .zip(["top-1: 5 of 6 rows", ", top-1 in 5 of 6 rows"])
    {
        let text = site.page(page);
        assert!(text.contains(said) && text.contains(note), "{page}: {text}");
    }
}

#[test]
fn tables_without_cells_have_a_page_that_says_so() {
    let mut tables = three();
    tables.cells.clear();
    assert!(
        Site::of(&tables)
            .page("parity.html")
            .contains("There is no cell")
    );
}

/// What cells are computed in, and what the numbers of int8 do not say, stand where their speeds do.
#[test]
fn tables_of_cells_say_what_is_computed_otherwise() {
    let page = |tables: &Tables| {
        let site = Site::of(tables);
        site.page(&format!("jobs/{}.html", tables.jobs[0].id))
    };
    let mut tables = three();
    let plain = page(&tables);
    assert!(!plain.contains("stored as") && !plain.contains("In int8"));
    let row = &mut tables.cells[0];
    let told = "stored as fp16, computed in fp32";
    let loaded = row.loaded.as_mut().expect("a cell that was loaded");
    let settings = &mut loaded.settings;
    settings.insert("arithmetic".to_owned(), told.to_owned());
    let parity = row.parity.as_mut().expect("a cell with an error");
    parity.top1 = Some(Top1 {
        agreeing: 3,
        rows: 4,
    });
    let page = page(&tables);
    assert!(page.contains(told), "{page}");
    assert!(page.contains("Where weights are generated"), "{page}");
    assert!(Site::of(&tables).page("parity.html").contains(told));

    // What is computed in part as asked says so beside the speed, and what is as asked nothing.
    let row = &mut tables.cells[0];
    let precision = row.cell.precision.word().to_owned();
    for (told, is_said) in [("int8 here, fp32 elsewhere", true), (&precision, false)] {
        let loaded = tables.cells[0]
            .loaded
            .as_mut()
            .expect("a cell that was loaded");
        loaded
            .settings
            .insert("arithmetic".to_owned(), told.to_owned());
        let site = Site::of(&tables);
        let page = site.page(&format!("jobs/{}.html", tables.jobs[0].id));
        let said = format!("<span class=\"reason\"><bdi>{told}</bdi></span>");
        assert_eq!(page.contains(&said), is_said, "{page}");
        assert!(!site.page("parity.html").contains(&said));
    }
}
