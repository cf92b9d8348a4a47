//! The site as files: equal tables make equal bytes, every link leads somewhere, text stays text,
//! and odd tables make a page or a plain refusal.

use std::{fs, path::Path, process::Command};

use photofinish_report::{ReportError, render, render_unless};
use schema::{
    CellId, Device, ModelSource, Outcome, OutcomeKind, Tables,
    machine::Gpu,
    tables::{CellEnergy, CellRow, Download, EnergyFigures},
    telemetry::{EnergySensor, GpuTelemetry, Limit, Telemetry},
};

use crate::{
    fixture::{hostile, large, realistic},
    support::{
        folder::{Site, files},
        links,
    },
};

#[test]
fn equal_tables_make_equal_bytes_and_touch_nothing() {
    let (first, second) = (
        Site::of(&realistic::tables()),
        Site::of(&realistic::tables()),
    );
    assert!(first.files() == second.files());
    let modified = || {
        fs::metadata(first.root().join("index.html"))
            .and_then(|found| found.modified())
            .unwrap()
    };
    let before = modified();
    let summary = render(&realistic::tables(), &realistic::downloads(), &first.root()).unwrap();
    assert_eq!((summary.written, summary.removed), (0, 0));
    assert_eq!(modified(), before);
    assert_eq!(summary.pages, first.pages().len());
    assert_eq!(
        summary.files + 1,
        first.files().len(),
        "all but the list of files"
    );
}

#[test]
fn a_rendering_that_is_stopped_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let pages = std::cell::Cell::new(0);
    for count in [0, 3] {
        pages.set(0);
        let stop = || pages.replace(pages.get() + 1) >= count;
        let stopped = render_unless(
            &stop,
            &realistic::tables(),
            &realistic::downloads(),
            &folder.path().join("site"),
        );
        assert!(matches!(stopped, Err(ReportError::Interrupted)));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

const FOLDER: &str = "PHOTOFINISH_TEST_FOLDER";

/// Not a test of its own: the next one runs it in other surroundings.
#[test]
#[ignore = "run by another test"]
fn render_into_the_folder_that_the_environment_names() {
    let folder = std::env::var(FOLDER).unwrap();
    render(
        &realistic::tables(),
        &realistic::downloads(),
        Path::new(&folder),
    )
    .unwrap();
}

#[test]
fn neither_place_nor_time_zone_nor_language_shows() {
    let here = Site::of(&realistic::tables());
    let elsewhere = tempfile::tempdir().unwrap();
    let folder = elsewhere.path().join("ein anderer Ordner");
    let output = Command::new(std::env::current_exe().unwrap())
        .args([
            "--ignored",
            "--exact",
            "site::render_into_the_folder_that_the_environment_names",
        ])
        .env(FOLDER, &folder)
        .env("TZ", "Pacific/Chatham")
        .env("LC_ALL", "de_DE.UTF-8")
        .env("LANG", "tr_TR.UTF-8")
        .current_dir("/")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
    assert!(files(&folder) == here.files());
}

#[test]
fn what_belongs_no_more_is_removed() {
    let site = Site::of(&realistic::tables());
    let mut fewer = realistic::tables();
    fewer.jobs.retain(|job| job.id != "training");
    fewer.cells.retain(|row| row.job != "training");
    let summary = render(&fewer, &realistic::downloads(), &site.root()).unwrap();
    assert_eq!(summary.removed, 2);
    assert!(!site.root().join("cells/training").exists());
    let fresh = Site::of(&fewer);
    assert!(fresh.files() == site.files(), "as if rendered from nothing");
}

#[test]
fn every_link_leads_somewhere() {
    for tables in [
        realistic::tables(),
        hostile::tables(),
        large::tables(300, 12),
        empty(),
    ] {
        assert_eq!(
            links::broken(&Site::of(&tables).files()),
            Vec::<String>::new()
        );
    }
}

#[test]
fn hostile_text_is_shown_and_does_nothing() {
    for (path, content) in Site::of(&hostile::tables())
        .files()
        .into_iter()
        .filter(|(path, _)| path.ends_with(".html"))
    {
        let html = String::from_utf8(content).expect("UTF-8");
        for forbidden in [
            "<img",
            "onerror=\"",
            "<script>",
            " style=\"",
            "<style",
            "secret-user",
        ] {
            assert!(!html.contains(forbidden), "{path} holds {forbidden:?}");
        }
        for acting in [
            '\u{202e}', '\u{2066}', '\u{1b}', '\0', '\u{7}', '\r', '\u{85}', '\u{2028}',
        ] {
            assert!(!html.contains(acting), "{path} holds {acting:?}");
        }
        assert!(
            !html.contains("49}}"),
            "{path}: a template in the data was run"
        );
        for odd in [
            "NaN", ">inf<", ">-inf", "inf<", "-inf ", " inf ", ">inf ", "Infinity",
        ] {
            assert!(!html.contains(odd), "{path} holds {odd:?}");
        }
    }
}

#[test]
fn scripts_and_styles_come_from_files_only() {
    for (path, content) in Site::of(&realistic::tables())
        .files()
        .into_iter()
        .filter(|(path, _)| path.ends_with(".html"))
    {
        let html = String::from_utf8(content).expect("UTF-8");
        assert!(
            html.contains("default-src 'none'; script-src 'self'; style-src 'self'"),
            "{path}"
        );
        assert!(
            !html.contains(" style=") && !html.contains("<style") && !html.contains(" onclick="),
            "{path}"
        );
        for script in html.split("<script").skip(1) {
            let head = script.split_once('>').map_or("", |(head, _)| head);
            assert!(
                head.contains("src=\"") || head.contains("application/json"),
                "{path}: {head}"
            );
        }
        assert_eq!(
            html.matches("http").count(),
            2,
            "{path}: the policy, and the namespace of the icon"
        );
    }
}

#[test]
fn every_verdict_is_on_the_overview_with_its_interval() {
    let tables = realistic::tables();
    let html = Site::of(&tables).page("index.html");
    for row in tables
        .jobs
        .iter()
        .flat_map(|job| &job.comparisons)
        .flat_map(|table| &table.rows)
    {
        let verdict = match row.verdict {
            schema::tables::Verdict::Unclear => "Too close to call",
            schema::tables::Verdict::NotMeasured => "not measured",
            other => other.word(),
        };
        assert!(html.contains(verdict), "{verdict}");
        assert!(
            html.contains(&row.reason) || row.ratio.is_some_and(|ratio| ratio.low.is_some()),
            "{}",
            row.reason
        );
    }
    let sentences = html.matches("class=\"sentence\"").count();
    assert_eq!(sentences, 17);
    assert_eq!(
        html.matches(" the time of <bdi>").count(),
        15 + 2,
        "each measured pair, and two summaries"
    );
    // Only what was not measured has a sentence without an interval.
    for sentence in html
        .split("class=\"sentence\"")
        .skip(1)
        .filter_map(|rest| rest.split_once("</p>"))
    {
        assert!(
            sentence.0.contains("class=\"range\">[") || sentence.0.contains("not measured"),
            "{}",
            sentence.0
        );
    }
}

#[test]
fn names_that_cannot_be_paths_are_refused() {
    let refused = |change: fn(&mut Tables)| {
        let mut tables = realistic::tables();
        change(&mut tables);
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("site");
        let error = render(&tables, &[], &out).unwrap_err();
        assert!(matches!(error, ReportError::Tables(_)), "{error}");
        assert!(!out.exists(), "nothing is left behind");
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            0,
            "nothing is left beside it"
        );
    };
    refused(|tables| tables.jobs[0].id = "../../etc/cron.d/x".to_owned());
    refused(|tables| tables.cells[0].id = CellId("/etc/passwd".to_owned()));
    refused(|tables| tables.cells[0].id = CellId(String::new()));
    refused(|tables| tables.cells[0].job = "unknown".to_owned());
    refused(|tables| tables.jobs[1].id = tables.jobs[0].id.clone());
    refused(|tables| tables.cells[1].id = tables.cells[0].id.clone());
    refused(|tables| tables.version = 999);
}

#[test]
fn downloads_cannot_overwrite_pages_or_each_other() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["../index.html", "manifest-1.yaml", "a/b", ""] {
        let download = Download {
            file: name.to_owned(),
            summary: String::new(),
            bytes: b"x".to_vec(),
        };
        let out = folder.path().join("site");
        assert!(
            render(&realistic::tables(), &[download], &out).is_err(),
            "{name:?}"
        );
        assert!(!out.exists());
    }
}

fn empty() -> Tables {
    let mut tables = realistic::tables();
    tables.jobs.clear();
    tables.cells.clear();
    tables.floors.clear();
    tables.environments.clear();
    tables.manifests.clear();
    tables.heats.clear();
    tables.tools.clear();
    tables.title.clear();
    tables.measured = None;
    tables
}

#[test]
fn nothing_at_all_makes_a_site() {
    let site = Site::of(&empty());
    let html = site.page("index.html");
    assert!(html.contains("There is no job in these tables.") && html.contains("0 cells"));
    assert!(site.page("machines.html").contains("Nothing was measured"));
}

#[test]
fn a_picture_of_hundreds_is_cut_and_says_so() {
    let mut tables = realistic::tables();
    let table = &mut tables.jobs[0].comparisons[0];
    let row = table.rows[0].clone();
    table.rows = (0..900)
        .map(|number| {
            let mut row = row.clone();
            row.value = format!("engine-{}/x", number % 30);
            row.coordinates
                .insert("batch".to_owned(), (number / 30).to_string());
            row.coordinates
                .insert("model".to_owned(), format!("m{}", number / 15));
            row
        })
        .collect();
    let html = Site::of(&tables).page("jobs/inference.html");
    assert!(html.contains(
        "Drawn are the first 40 of 60 settings and 12 of 30 contenders; the table has all."
    ));
    let svg = html
        .split_once("<svg class=\"chart-static\"")
        .and_then(|(_, rest)| rest.split_once("</svg>"))
        .expect("a chart")
        .0;
    assert_eq!(svg.matches("· batch").count(), 40);
}

#[test]
fn only_failures_make_a_site() {
    let mut tables = realistic::tables();
    for row in &mut tables.cells {
        row.speed = None;
        row.launches.clear();
        row.outcome = Outcome::new(OutcomeKind::TimedOut, "exceeded 2 min in block 1");
    }
    for row in tables
        .jobs
        .iter_mut()
        .flat_map(|job| &mut job.comparisons)
        .flat_map(|table| &mut table.rows)
    {
        row.ratio = None;
        row.verdict = schema::tables::Verdict::NotMeasured;
    }
    let site = Site::of(&tables);
    assert!(!site.page("index.html").contains("class=\"chart-static\""));
    assert!(
        site.page("jobs/inference.html")
            .contains("exceeded 2 min in block 1")
    );
    assert_eq!(links::broken(&site.files()), Vec::<String>::new());
}

#[test]
fn a_job_shows_its_own_floors_alone() {
    let site = Site::of(&realistic::tables());
    let floors = |page: &str| {
        let html = site.page(page);
        let table = html.split_once("floors-caption\">Noise floor")?.1;
        Some(table.split_once("</table>")?.0.to_owned())
    };
    let training = floors("jobs/training.html").expect("floors");
    assert!(training.contains("4.37 %") && !training.contains("1.21 %"));
    let inference = floors("jobs/inference.html").expect("floors");
    assert!(inference.contains("1.21 %") && !inference.contains("4.37 %"));
    assert_eq!(floors("jobs/engines_that_fail.html"), None);
}

#[test]
fn contenders_that_break_even_have_a_table() {
    let site = Site::of(&realistic::tables());
    let inference = site.page("jobs/inference.html");
    let (_, table) = inference.split_once("After steps, caches warm").unwrap();
    let (table, _) = table.split_once("</table>").unwrap();
    let (late, early) = (table.find("OpenVINO"), table.find("ONNX Runtime"));
    assert!(late.unwrap() < early.unwrap(), "{table}");
    assert!(table.contains(">1240 [1180, 1310]</td>"), "{table}");
    assert!(table.contains(">3457, cold</td>"), "{table}");
    let training = site.page("jobs/training.html");
    assert!(!training.contains("After steps, caches warm"));
}

#[test]
fn what_was_not_steady_says_so() {
    let mut tables = realistic::tables();
    let badge = "</svg>not steady</span>";
    // Every measured cell of the fixture has one such launch of six.
    let site = Site::of(&tables);
    let training = site.page("jobs/training.html");
    assert!(training.contains("1 of 6 measured launches, in 1 of 1 cells"));
    assert!(training.contains("0.1 % of a core while rounds were measured"));
    let row = tables
        .cells
        .iter()
        .find(|row| row.job == "training")
        .expect("a cell");
    let page = format!("cells/training/{}.html", row.id);
    assert!(training.contains(badge) && site.page(&page).contains(badge));
    assert!(
        site.page(&page)
            .contains("1 of 6 launches had not become steady")
    );

    let launches = tables.cells.iter_mut().flat_map(|row| &mut row.launches);
    for warm_up in launches.filter_map(|launch| launch.warm_up.as_mut()) {
        warm_up.steady = true;
    }
    let site = Site::of(&tables);
    let training = site.page("jobs/training.html");
    assert!(training.contains("0 of 6 measured launches, in 0 of 1 cells"));
    assert!(!training.contains(badge) && !site.page(&page).contains(badge));
}

#[test]
fn energy_has_columns_where_it_was_asked_for() {
    let mut tables = realistic::tables();
    let job = |tables: &Tables| Site::of(tables).page("jobs/training.html");
    assert!(!job(&tables).contains("Energy a sample"));
    let row = tables.cells.iter_mut().find(|row| row.job == "training");
    let row = row.expect("a cell");
    let page = format!("cells/training/{}.html", row.id);
    row.energy = Some(CellEnergy::Unavailable("<no> counter".to_owned()));
    assert!(job(&tables).contains("&lt;no&gt; counter"));
    let cell = Site::of(&tables).page(&page);
    assert!(cell.contains("Not known: <bdi>&lt;no&gt; counter</bdi>"));

    let row = tables.cells.iter_mut().find(|row| row.job == "training");
    row.expect("a cell").energy = Some(CellEnergy::Measured(EnergyFigures {
        sensor: EnergySensor::GpuCounter,
        joules: Some(realistic::interval(0.011_9, 0.012_5, 0.013_1)),
        watts: realistic::interval(290.0, 300.0, 310.0),
        idle_watts: 71.5,
        left_out: Some("the counter was set back".to_owned()),
    }));
    let job = job(&tables);
    assert!(job.contains("Energy a sample") && job.contains("12.5\u{a0}mJ"));
    assert!(job.contains("300\u{a0}W"));
    let cell = Site::of(&tables).page(&page);
    for said in [
        "12.5\u{a0}mJ",
        "71.5 W",
        "the counter was set back",
        "energy counter of the GPU",
    ] {
        assert!(cell.contains(said), "{said}");
    }
}

#[test]
fn what_sensors_told_is_on_the_cells_page() {
    let mut tables = realistic::tables();
    let row = tables.cells.iter_mut().find(|row| row.job == "training");
    let row = row.expect("a cell");
    let page = format!("cells/training/{}.html", row.id);
    row.telemetry = Some(Telemetry {
        looks: 42,
        worker_cpus: Some(1.9512),
        throttled: Some(0.034),
        gpu: Some(GpuTelemetry {
            watts: Some(699.0),
            limited: [(Limit::PowerCap, 0.8)].into(),
            foreign: [("`<game>`".to_owned(), Some(0.03))].into(),
            ..GpuTelemetry::default()
        }),
        unavailable: [("temperature".to_owned(), "not told".to_owned())].into(),
        ..Telemetry::default()
    });
    let cell = Site::of(&tables).page(&page);
    for said in [
        "1.95",
        "Held back by a quota of processors",
        "3.4 %",
        "699 W",
        "by its power limit, at 80 % of the looks at its work",
        "`&lt;game&gt;`, 3 % of it",
        "unavailable: not told",
    ] {
        assert!(cell.contains(said), "{said}");
    }
    assert!(!cell.contains("°C"));
}

#[test]
fn a_cell_shows_the_log_of_the_launch_for_its_outputs() {
    let page = |change: fn(&mut CellRow)| {
        let mut tables = realistic::tables();
        let row = tables
            .cells
            .iter_mut()
            .find(|row| row.launches.is_empty())
            .expect("one that was never measured");
        change(row);
        let path = format!("cells/{}/{}.html", row.job, row.id);
        Site::of(&tables).page(&path)
    };
    let said = page(|row| row.parity_log = Some("libcudart.so.13: not found\n".to_owned()));
    assert!(said.contains("<summary>Parity</summary>"));
    assert!(said.contains("libcudart.so.13: not found"));
    let silent = page(|row| row.parity_log = Some(String::new()));
    assert!(silent.contains("The launch for its outputs wrote nothing"));
    let never = page(|row| row.parity_log = None);
    assert!(never.contains("No worker was started for it"));
}

#[test]
fn a_cell_says_on_which_side_of_its_bound_it_must_be() {
    for (error, share, words) in [
        (1e-4, 0.1, "Largest that passes"),
        (1e-2, 10.0, "Largest that passes"),
        (1e-4, 10.0, "Smallest that passes"),
    ] {
        let mut tables = realistic::tables();
        let row = tables.cells.iter_mut().find(|row| row.parity.is_some());
        let row = row.expect("one that was compared");
        let path = format!("cells/{}/{}.html", row.job, row.id);
        let parity = row.parity.as_mut().expect("the same");
        (parity.error, parity.bound, parity.worst_share) = (error, 1e-3, share);
        let page = Site::of(&tables).page(&path);
        assert!(page.contains(words), "{error} {share}");
    }
}

#[test]
fn a_file_that_no_graph_can_say_shows_no_costs() {
    let mut tables = realistic::tables();
    let measured = |row: &&mut CellRow| row.speed.is_some() && row.parity.is_some();
    let row = tables.cells.iter_mut().find(measured);
    let row = row.expect("one that was measured");
    let path = format!("cells/{}/{}.html", row.job, row.id);
    let own = Site::of(&realistic::tables()).page(&path);
    row.cell.model.source = ModelSource::Onnx;
    (row.flops, row.bytes, row.parameters) = (0, 0, 0);
    row.roof = None;
    let page = Site::of(&tables).page(&path);
    for (words, is_own) in [
        ("Operations a step", true),
        ("Bytes a step in fp32", true),
        ("Arithmetic", true),
        ("Error of PyTorch eager", true),
        ("is run as it is", false),
        ("or 32 roundoffs", false),
    ] {
        assert_eq!(own.contains(words), is_own, "{words}");
        assert_eq!(page.contains(words), !is_own, "{words}");
    }
    // An engine that cannot run it runs nothing as it is.
    let row = tables.cells.iter_mut().find(|row| row.bytes == 0);
    let row = row.expect("the one above");
    (row.speed, row.outcome) = (None, Outcome::new(OutcomeKind::Unsupported, "no"));
    let page = Site::of(&tables).page(&path);
    assert!(page.contains("What a step costs") && !page.contains("is run as it is"));
}

#[test]
fn the_overview_names_what_cells_ran_on() {
    let said_with = |gpus: &[&str], devices: &[Device]| {
        let mut tables = realistic::tables();
        let first = tables.environments.first_mut().unwrap();
        let gpu = |name: &&str| Gpu {
            name: (*name).to_owned(),
            driver: "580".to_owned(),
            memory_bytes: 1 << 37,
        };
        first.fingerprint.gpus = gpus.iter().map(gpu).collect();
        for (row, device) in tables.cells.iter_mut().zip(devices.iter().cycle()) {
            row.cell.device = *device;
        }
        let site = Site::of(&tables);
        let page = site.page("index.html");
        let from = page.find(" on <bdi>").unwrap();
        let line = &page[from..];
        line[..line.find(". Who wins").unwrap()].to_owned()
    };
    let said = |devices: &[Device]| said_with(&["NVIDIA H200", "NVIDIA H200"], devices);
    let gpu = Device::Cuda(0);
    assert_eq!(said(&[gpu]), " on <bdi>NVIDIA H200</bdi>");
    let both = said(&[Device::Cpu, gpu]);
    assert!(both.ends_with("</bdi>, <bdi>NVIDIA H200</bdi>"), "{both}");
    assert!(!said(&[Device::Cpu]).contains("H200"));
    // Which of unequal ones it is is not known here: it is named as manifests name it.
    let unequal = said_with(&["NVIDIA H200", "NVIDIA T4"], &[Device::Cuda(1)]);
    assert_eq!(unequal, " on <bdi>cuda:1</bdi>");
}

#[test]
fn a_cell_names_the_tool_that_measured_it() {
    let mut tables = realistic::tables();
    tables.tools.push(schema::record::Tool {
        version: "0.2.0".to_owned(),
        revision: None,
    });
    tables.cells[0].tool = Some(1);
    tables.cells[1].tool = Some(7);
    let site = Site::of(&tables);
    let measured_by = |row: usize| {
        let row = &tables.cells[row];
        let html = site.page(&format!("cells/{}/{}.html", row.job, row.id));
        let after = html
            .split_once("<dt><bdi>Measured by</bdi></dt><dd><bdi>")?
            .1;
        Some(after.split_once("</bdi>")?.0.to_owned())
    };
    assert_eq!(measured_by(0).as_deref(), Some("photofinish 0.2.0"));
    assert_eq!(measured_by(1), None);
    let other = measured_by(2);
    assert_eq!(
        other.as_deref(),
        Some("photofinish 0.1.0, revision 4d6a7d0")
    );
}

#[test]
fn dark_is_written_twice_and_equal() {
    let css = include_str!("../../../site/styles/00-tokens.css");
    let values = |start: &str| -> Vec<String> {
        let block = css.split_once(start).expect("a block").1;
        let lines = block.split_once('}').expect("an end").0.lines();
        lines
            .map(str::trim)
            .filter(|line| line.starts_with("--"))
            .map(str::to_owned)
            .collect()
    };
    let (system, chosen) = (
        values(":root:not([data-theme=\"light\"]) {"),
        values(":root[data-theme=\"dark\"] {"),
    );
    assert_eq!(system, chosen);
    assert!(system.len() > 20);
}

#[test]
fn partials_look_as_they_did() {
    let site = Site::of(&realistic::tables());
    let index = site.page("index.html");
    let part = |html: &str, from: &str, to: &str| {
        let start = html.find(from).expect("a start");
        let end = html[start..].find(to).expect("an end");
        html[start..start + end + to.len()].to_owned()
    };
    insta::assert_snapshot!(
        "verdict",
        part(&index, "<li class=\"verdict faster\">", "</li>")
    );
    insta::assert_snapshot!(
        "verdict_unclear",
        part(&index, "<li class=\"verdict unclear\">", "</li>")
    );
    insta::assert_snapshot!("summary", part(&index, "<p class=\"summary\">", "</p>"));
    let job = site.page("jobs/inference.html");
    let first_row = |caption: &str| {
        let from = job
            .find(&format!("id=\"{caption}-caption\""))
            .expect("a table");
        part(&job[from..], "<tbody>", "</tr>")
    };
    insta::assert_snapshot!("verdict_row", first_row("inference-1"));
    insta::assert_snapshot!("effect_row", first_row("effects"));
    insta::assert_snapshot!("trend_row", first_row("trends"));
    let frontier = site.page("jobs/frontier.html");
    let rows = part(&frontier, "id=\"frontier-caption\"", "</table>");
    insta::assert_snapshot!("frontier_rows", rows);
    insta::assert_snapshot!("crossover_row", first_row("crossovers"));
    insta::assert_snapshot!("lineup", part(&job, "<h3 id=\"lineup-1\">", "</tr>"));
    insta::assert_snapshot!("unprofiled", part(&job, "<h3 id=\"unprofiled\">", "</dl>"));
    let eager = realistic::tables().cells[0].id.0.clone();
    let cell = site.page(&format!("cells/inference/{eager}.html"));
    insta::assert_snapshot!("profile", part(&cell, "<h2 id=\"profile\">", "</tr>"));
    insta::assert_snapshot!("chart", part(&job, "<svg class=\"chart-static\"", "</svg>"));
    insta::assert_snapshot!(
        "failures",
        part(
            &site.page("jobs/engines_that_fail.html"),
            "<table class=\"data sortable\">\n<caption id=\"cells-caption\">",
            "</table>"
        )
    );
}

/// A job that compares nothing tells where the time of its cells goes all the same.
#[test]
fn profiles_that_stand_in_no_pair_are_listed() {
    let mut tables = realistic::tables();
    let job = &mut tables.jobs[0];
    job.lineups.clear();
    let id = job.id.clone();
    let eager = tables.cells[0].id.0.clone();
    let page = |tables: &Tables| {
        let site = Site::of(tables);
        fs::read_to_string(site.root().join(format!("jobs/{id}.html"))).unwrap()
    };
    let listed = page(&tables);
    let table = listed.find("id=\"profiles-caption\"").expect("a table");
    let table = &listed[table..];
    let table = &table[..table.find("</table>").unwrap()];
    assert_eq!(table.matches("<tr><th scope=\"row\">").count(), 2);
    let link = format!("href=\"../cells/{id}/{eager}.html#profile\"");
    assert!(table.contains(&link), "{table}");
    assert!(table.contains("Conv relu_nchwc"), "{table}");
    // Those of a pair are not listed once more.
    assert!(!page(&realistic::tables()).contains("profiles-caption"));
    // A heading has something below it.
    for cell in &mut tables.cells {
        cell.profile = None;
    }
    assert!(!page(&tables).contains("id=\"profile\""));
}

#[test]
fn what_the_manifest_chose_is_printed_with_all_of_its_digits() {
    let mut tables = realistic::tables();
    let job = &mut tables.jobs[0];
    job.measure.margin = 0.125;
    job.measure.target = 0.015_5;
    job.measure.confidence = 0.999;
    let id = job.id.clone();
    let site = Site::of(&tables);
    let page = fs::read_to_string(site.root().join(format!("jobs/{id}.html"))).unwrap();
    for text in [
        "12.5 %: smaller differences",
        "The band is the margin of 12.5 %.",
        "intervals of ± 1.55 % or less",
        "99.9 % for all ratios of this job together",
        "drawn together at 99.9 % confidence",
    ] {
        assert!(page.contains(text), "{text}");
    }
}
