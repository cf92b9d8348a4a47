//! What cells make of their devices, on the pages of jobs, cells and machines.

use schema::{
    Tables,
    tables::{CellRow, ShareOfCeiling},
};

use crate::{fixture::realistic, support::folder::Site};

/// The page of a cell.
fn page(site: &Site, row: &CellRow) -> String {
    site.page(&format!("cells/{}/{}.html", row.job, row.id))
}

/// The cells of the first job whose place below the ceilings is told, or is said not to be known.
fn judged(tables: &Tables) -> Vec<&CellRow> {
    let rows = tables.cells.iter();
    let judged: Vec<&CellRow> = rows.filter(|row| row.roof.is_some()).collect();
    assert!(judged.len() > 5);
    judged
}

#[test]
fn every_cell_with_a_share_is_a_mark_and_a_row() {
    let tables = realistic::tables();
    let site = Site::of(&tables);
    let job = site.page("jobs/inference.html");
    let judged = judged(&tables);
    assert_eq!(job.matches("<g class=\"point").count(), judged.len());
    let (_, table) = job.split_once("roofline-caption-1\">").unwrap();
    let (table, _) = table.split_once("</table>").unwrap();
    for row in &judged {
        assert!(table.contains(&format!("{}.html", row.id)));
    }
    // Of two precisions one is used; the other's ceiling is none of this picture.
    assert_eq!(job.matches("<path class=\"roof\"").count(), 2);
    assert!(job.contains("memory: 17.3 GB/s") && job.contains("fp32: 152 GFLOP/s"));
    assert!(!site.page("jobs/training.html").contains("id=\"rooflines\""));
}

#[test]
fn a_share_above_all_is_told_as_it_is_and_one_that_is_not_known_says_why() {
    let mut tables = realistic::tables();
    let ids: Vec<_> = judged(&tables).iter().map(|row| row.id.clone()).collect();
    for (id, centre) in ids.iter().zip([1.62, 0.43]) {
        let mut rows = tables.cells.iter_mut();
        let roof = rows.find(|row| row.id == *id).unwrap().roof.as_mut();
        let Some(ShareOfCeiling::Known(share)) = roof.map(|roof| &mut roof.share) else {
            panic!("no share");
        };
        let share = &mut share.share;
        (share.low, share.centre, share.high) = (Some(centre - 0.1), centre, Some(centre + 0.1));
    }
    let site = Site::of(&tables);
    let above = page(&site, judged(&tables)[0]);
    assert!(above.contains("162\u{a0}%"));
    let of_memory = "more than memory delivered when its ceiling was measured";
    let of_product = "faster than PyTorch\u{2019}s product was when the ceiling was measured";
    let told = |page: &str| page.contains(of_memory) || page.contains(of_product);
    assert!(told(&above));
    let below = page(&site, judged(&tables)[1]);
    assert!(!told(&below));
    // Nor is it called bound by that ceiling in the table.
    let job = site.page("jobs/inference.html");
    let (_, table) = job.split_once("roofline-caption-1\">").unwrap();
    let (_, row) = table.split_once(&format!("{}.html", ids[0])).unwrap();
    let (row, _) = row.split_once("</tr>").unwrap();
    assert!(told(row), "{row}");
    assert!(!row.contains("<bdi>memory</bdi>") && !row.contains("<bdi>arithmetic</bdi>"));
    let unknown = page(&site, judged(&tables)[3]);
    assert!(unknown.contains("is not known: <bdi>how fast cpu reads memory is not known</bdi>"));
}

#[test]
fn machines_tell_their_ceilings_and_what_none_could_be_measured_of() {
    let site = Site::of(&realistic::tables());
    let machines = site.page("machines.html");
    for told in [
        "Products of matrices in fp32",
        "152\u{a0}GFLOP/s",
        "17.3\u{a0}GB/s",
    ] {
        assert!(machines.contains(told), "{told}");
    }
    assert!(machines.contains("libtorch_cpu.so is missing"));
    // The store may have had them before the run, measured in one moment or over many.
    for told in [
        "2026-11-16 16:33 UTC, a block every 1 min 14 s",
        "2026-11-16 16:33 UTC, blocks at once: the interval is that of one moment",
    ] {
        assert!(machines.contains(told), "{told}");
        assert!(site.page("jobs/inference.html").contains(told), "{told}");
    }
    let tables = realistic::tables();
    let cell = page(&site, judged(&tables)[0]);
    assert!(cell.contains("measured 2026-11-16 16:33 UTC"));
}

#[test]
fn a_run_without_ceilings_says_nothing_of_them() {
    let mut tables = realistic::tables();
    tables.ceilings.clear();
    for row in &mut tables.cells {
        if let Some(roof) = &mut row.roof {
            roof.share = ShareOfCeiling::Unknown("the run did not measure it".to_owned());
        }
    }
    let site = Site::of(&tables);
    assert!(
        !site
            .page("jobs/inference.html")
            .contains("id=\"rooflines\"")
    );
    assert!(!page(&site, &tables.cells[0]).contains("id=\"ceiling\""));
    assert!(
        !site
            .page("machines.html")
            .contains("What it can do at most")
    );
}
