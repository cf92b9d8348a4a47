//! The site: which pages there are.

use std::path::Path;

use schema::{Tables, tables::Download};
use serde::Serialize;

use crate::{
    ReportError, Summary,
    chart::Drawer,
    embed,
    ids::{self, Index},
    marks::Marks,
    output::Output,
    template::Templates,
    view::{
        cell::CellPage, downloads, downloads::DownloadsPage, job::JobPage, machines::MachinesPage,
        method::MethodPage, overview::Overview, parity::ParityPage,
    },
};

/// Renders the site of these tables into the folder `out`.
///
/// `out` must be missing, empty, or of an earlier rendering; in the last case only files that
/// changed are touched, and those that belong no more are removed. Files that others put there
/// stay.
///
/// # Errors
/// When the tables name something that cannot be a path or contradict themselves, when the folder
/// holds something else, or when the file system refuses.
pub fn render(tables: &Tables, downloads: &[Download], out: &Path) -> Result<Summary, ReportError> {
    render_unless(&|| false, tables, downloads, out)
}

/// [`render`], unless `stop` says so before the last page is made.
///
/// # Errors
/// As [`render`], and [`ReportError::Interrupted`].
pub fn render_unless(
    stop: &dyn Fn() -> bool,
    tables: &Tables,
    downloads: &[Download],
    out: &Path,
) -> Result<Summary, ReportError> {
    let index = Index::new(tables)?;
    ids::check_downloads(downloads)?;
    let mut site = Site {
        stop,
        templates: Templates::new()?,
        output: Output::open(out)?,
        pages: 0,
    };
    let marks = marks(tables);
    let mut drawer = Drawer::default();

    site.assets()?;
    site.data(tables, downloads)?;
    let mut families = Vec::with_capacity(tables.jobs.len());
    for job in &tables.jobs {
        let page = JobPage::new(&index, &marks, job, &mut drawer)?;
        site.page(&format!("jobs/{}.html", job.id), "job.html", &page)?;
        families.push(page.into_families());
    }
    site.page(
        "index.html",
        "overview.html",
        &Overview::new(&index, families),
    )?;
    site.page("method.html", "method.html", &MethodPage::new(tables)?)?;
    site.page("parity.html", "parity.html", &ParityPage::new(tables))?;
    site.page("machines.html", "machines.html", &MachinesPage::new(tables))?;
    site.page(
        "downloads.html",
        "downloads.html",
        &DownloadsPage::new(tables, downloads),
    )?;
    for job in &tables.jobs {
        for row in index.cells_of(&job.id) {
            let page = CellPage::new(&index, &marks, job, row);
            site.page(
                &format!("cells/{}/{}.html", job.id, row.id),
                "cell.html",
                &page,
            )?;
        }
    }
    site.output.commit(site.pages)
}

struct Site<'a> {
    stop: &'a dyn Fn() -> bool,
    templates: Templates,
    output: Output,
    pages: usize,
}

impl Site<'_> {
    fn page(
        &mut self,
        path: &str,
        template: &str,
        view: &impl Serialize,
    ) -> Result<(), ReportError> {
        if (self.stop)() {
            return Err(ReportError::Interrupted);
        }
        let html = self.templates.render(template, view)?;
        self.pages += 1;
        self.output.put(path, html.as_bytes())
    }

    fn assets(&mut self) -> Result<(), ReportError> {
        self.output
            .put("assets/style.css", embed::style_sheet().as_bytes())?;
        self.output
            .put("assets/echarts.min.js", embed::ECHARTS.as_bytes())?;
        for (name, script) in embed::SCRIPTS {
            self.output
                .put(&format!("assets/{name}"), script.as_bytes())?;
        }
        Ok(())
    }

    fn data(&mut self, tables: &Tables, files: &[Download]) -> Result<(), ReportError> {
        for file in files {
            self.output
                .put(&format!("data/{}", file.file), &file.bytes)?;
        }
        for (place, manifest) in tables.manifests.iter().enumerate() {
            self.output.put(
                &format!("data/{}", downloads::manifest_file(place)),
                manifest.text.as_bytes(),
            )?;
        }
        Ok(())
    }
}

/// A mark for every value that is compared, and for every engine.
fn marks(tables: &Tables) -> Marks {
    let engines: Vec<String> = tables
        .cells
        .iter()
        .map(|row| row.cell.engine.to_string())
        .collect();
    let compared = tables
        .jobs
        .iter()
        .flat_map(|job| &job.comparisons)
        .flat_map(|table| {
            let baseline = (table.axis.as_str(), table.baseline.as_str());
            std::iter::once(baseline).chain(
                table
                    .rows
                    .iter()
                    .map(|row| (table.axis.as_str(), row.value.as_str())),
            )
        });
    Marks::new(compared.chain(engines.iter().map(|engine| ("engine", engine.as_str()))))
}
