//! Pages and the reasons that aggregate wrote: the same digits of the same interval.

use schema::{
    printed::{self, Bounds},
    tables::Verdict,
};
use synthetic::Size;

use crate::fixture;

/// What stands between two marks, each time.
fn between<'a>(html: &'a str, from: &str, to: &str) -> Vec<&'a str> {
    html.split(from)
        .skip(1)
        .filter_map(|rest| rest.split_once(to))
        .map(|(found, _)| found)
        .collect()
}

/// Tables of an invented run, and the site that they make.
fn site() -> (schema::Tables, tempfile::TempDir) {
    let run = synthetic::run(Size {
        cells: 120,
        blocks: 6,
        rounds: 2,
        samples: 5,
    });
    let tables =
        aggregate::aggregate(&run.record, &|key, heat| run.heat(key, heat)).expect("tables");
    let folder = tempfile::tempdir().expect("a folder");
    let downloads = aggregate::downloads(&tables).expect("files");
    photofinish_report::render(&tables, &downloads, &folder.path().join("site")).expect("a site");
    (tables, folder)
}

fn page(folder: &tempfile::TempDir, name: &str) -> String {
    std::fs::read_to_string(folder.path().join("site").join(name)).expect("a page")
}

#[test]
fn a_reason_has_the_digits_of_its_row() {
    let (tables, folder) = site();
    let html = page(&folder, "jobs/synthetic.html");
    let (_, table) = html.split_once("synthetic-1-caption\">").unwrap();
    let (table, _) = table.split_once("</table>").unwrap();

    let rows = between(table, "<tr><th scope=\"row\">", "</tr>");
    let pairs = &tables.jobs[0].comparisons[0].rows;
    assert_eq!((rows.len(), pairs.len()), (60, 60));
    for (row, pair) in rows.iter().zip(pairs) {
        let row = row.replace("&#39;", "'");
        let range = between(&row, "<span class=\"range\">", "</span>")[0];
        assert!(
            pair.reason.starts_with(&format!("interval {range} ")) && row.contains(&pair.reason),
            "{range}: {}",
            pair.reason
        );
        let bounds = Bounds {
            margin: tables.jobs[0].measure.margin,
            floor: pair.floor,
        };
        let floor = printed::held(&pair.ratio.unwrap(), bounds).floor.unwrap();
        assert!(row.contains(&format!("<td class=\"number\">{floor}</td>")));
        assert!(
            pair.reason.contains(&format!("{floor} floor")) || pair.verdict == Verdict::Unclear
        );
        let (low, high) = range.trim_matches(['[', ']']).split_once(", ").unwrap();
        let ends: (f64, f64) = (low.parse().unwrap(), high.parse().unwrap());
        let ratio = pair.ratio.unwrap();
        assert!(ends.0 <= ratio.low.unwrap() && ratio.high.unwrap() <= ends.1);
    }
}

#[test]
fn memory_is_counted_in_one_family() {
    let (tables, folder) = site();
    let row = tables.cells.iter().find(|row| row.memory.is_some());
    let cell = format!("cells/synthetic/{}.html", row.unwrap().id);
    for name in [
        "machines.html",
        "downloads.html",
        "jobs/synthetic.html",
        &cell,
    ] {
        let html = page(&folder, name);
        assert!(html.contains("iB</"), "{name} has sizes");
        for unit in ["kB", "MB", "GB"] {
            let sizes = html.matches(&format!("\u{a0}{unit}<")).count()
                + html.matches(&format!(" {unit}<")).count();
            assert_eq!(sizes, 0, "{name} counts in {unit}");
        }
    }
}

#[test]
fn the_evidence_of_the_floors_is_offered() {
    let (tables, folder) = site();
    assert!(!tables.twins.is_empty());
    assert!(page(&folder, "downloads.html").contains("those from 1 on are its twins"));
    let method = page(&folder, "method.html");
    assert!(method.contains("the column <code>twin</code> is 0 for a cell"));
    assert!(method.contains("the cell with the shortest predicted step"));
}

#[test]
fn a_job_without_a_comparison_answers_with_its_step_time() {
    let shown = |tables: &schema::Tables| {
        let folder = tempfile::tempdir().unwrap();
        photofinish_report::render(tables, &[], &folder.path().join("site")).unwrap();
        ["index.html", "jobs/training.html"].map(|name| page(&folder, name))
    };
    let mut tables = fixture::realistic::tables();
    for html in shown(&tables) {
        assert!(html.contains("<bdi>resnet18 · batch 4 · PyTorch eager · fp32</bdi></a> takes"));
        assert!(html.contains(
            "<b>141\u{a0}ms</b> <span class=\"range\">[138, 144]</span></span> per training step."
        ));
    }
    let row = tables.cells.iter().find(|row| row.job == "training");
    let mut faster = row.unwrap().clone();
    faster.id = schema::CellId("000000000000".to_owned());
    let speed = faster.speed.as_mut().unwrap();
    let step = &mut speed.step_ns;
    (step.low, step.centre, step.high) = (Some(97e6), 98e6, Some(99e6));
    // Where intervals overlap, or the work is another, nobody is ahead.
    let (mut close, mut other) = (faster.clone(), faster.clone());
    close.speed.as_mut().unwrap().step_ns.high = Some(140e6);
    other.cell.model.name = "resnet50".to_owned();
    for rival in [close, other] {
        let mut tables = tables.clone();
        tables.cells.push(rival);
        for html in shown(&tables) {
            assert!(!html.contains("The shortest training step"));
        }
    }
    tables.cells.push(faster);
    for html in shown(&tables) {
        let said = html.split_once("The shortest training step of 2 cells is that of");
        let said = said.unwrap().1.split_once("</p>").unwrap().0;
        assert!(said.contains("cells/training/000000000000.html"), "{said}");
        assert!(
            said.contains("<b>98.0\u{a0}ms</b> <span class=\"range\">[97.0,"),
            "{said}"
        );
    }
    for row in &mut tables.cells {
        row.speed = None;
    }
    let [index, job] = shown(&tables);
    assert!(!index.contains("per training step.") && !job.contains("The shortest"));
}
