//! Pages and the reasons that aggregate wrote: the same digits of the same interval.

use aggregate::synthetic::{self, Size};
use schema::{
    printed::{self, Bounds},
    tables::Verdict,
};

/// What stands between two marks, each time.
fn between<'a>(html: &'a str, from: &str, to: &str) -> Vec<&'a str> {
    html.split(from)
        .skip(1)
        .filter_map(|rest| rest.split_once(to))
        .map(|(found, _)| found)
        .collect()
}

#[test]
fn a_reason_has_the_digits_of_its_row() {
    let run = synthetic::run(Size {
        cells: 120,
        blocks: 6,
        rounds: 2,
        samples: 5,
    });
    let tables = aggregate::aggregate(&run.record, &|key, heat| run.heat(key, heat)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("site");
    photofinish_report::render(&tables, &[], &out).unwrap();
    let html = std::fs::read_to_string(out.join("jobs/synthetic.html")).unwrap();
    let (_, table) = html.split_once("synthetic-1-caption\">").unwrap();
    let (table, _) = table.split_once("</table>").unwrap();

    let rows = between(table, "<tr><th scope=\"row\">", "</tr>");
    let pairs = &tables.jobs[0].comparisons[0].rows;
    assert_eq!((rows.len(), pairs.len()), (60, 60));
    for (row, pair) in rows.iter().zip(pairs) {
        let range = between(row, "<span class=\"range\">", "</span>")[0];
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
