//! Names that become paths. Tables may come from a stranger's bundle.

use std::collections::{BTreeMap, BTreeSet};

use schema::{
    CellId, Tables,
    tables::{CellRow, ComparisonRow, ComparisonTable, Download},
};

use crate::{
    ReportError,
    excerpt::{self, Excerpt},
};

/// The longest name of a job or a cell; a file system takes 255 bytes.
const LONGEST: usize = 120;

/// The tables with their cells at hand, every name checked.
#[derive(Debug)]
pub(crate) struct Index<'a> {
    pub(crate) tables: &'a Tables,
    cells: BTreeMap<(&'a str, &'a CellId), &'a CellRow>,
    by_job: BTreeMap<&'a str, Vec<&'a CellRow>>,
    pairs: Pairs<'a>,
    excerpts: BTreeMap<String, Excerpt<'a>>,
}

/// Whether a site can be made from tables.
///
/// # Errors
/// They are of another version, a name in them can be no path, or they contradict themselves.
pub fn check_tables(tables: &Tables) -> Result<(), ReportError> {
    Index::new(tables).map(drop)
}

/// A pair with the family that it belongs to.
pub(crate) type Pair<'a> = (&'a ComparisonTable, &'a ComparisonRow);

/// By job and cell.
type Pairs<'a> = BTreeMap<&'a str, BTreeMap<&'a CellId, Vec<Pair<'a>>>>;

impl<'a> Index<'a> {
    /// Checks every name that will be a path, and that jobs and cells are unique and related.
    pub(crate) fn new(tables: &'a Tables) -> Result<Self, ReportError> {
        if tables.version != schema::tables::VERSION {
            return Err(ReportError::Tables(format!(
                "they have version {}, and this program reads version {}",
                tables.version,
                schema::tables::VERSION
            )));
        }
        let mut by_job = BTreeMap::new();
        for job in &tables.jobs {
            segment("job", &job.id)?;
            if by_job.insert(job.id.as_str(), Vec::new()).is_some() {
                return Err(ReportError::Tables(format!(
                    "two jobs are named `{}`",
                    job.id
                )));
            }
        }
        let mut cells = BTreeMap::new();
        for row in &tables.cells {
            segment("cell", &row.id.0)?;
            let Some(rows) = by_job.get_mut(row.job.as_str()) else {
                return Err(ReportError::Tables(format!(
                    "cell {} belongs to the job {:?}, which they do not hold",
                    row.id, row.job
                )));
            };
            rows.push(row);
            if cells.insert((row.job.as_str(), &row.id), row).is_some() {
                return Err(ReportError::Tables(format!(
                    "job `{}` has two cells named {}",
                    row.job, row.id
                )));
            }
        }
        Ok(Self {
            tables,
            cells,
            by_job,
            pairs: pairs(tables),
            excerpts: excerpt::all(&tables.manifests),
        })
    }

    /// The part of the manifests that asked for a job.
    pub(crate) fn excerpt(&self, job: &str) -> Option<&Excerpt<'a>> {
        self.excerpts.get(job)
    }

    /// The cell of this name in this job.
    pub(crate) fn cell(&self, job: &str, id: &CellId) -> Option<&'a CellRow> {
        self.cells.get(&(job, id)).copied()
    }

    /// The pairs that a cell has a part in.
    pub(crate) fn pairs_of(&self, job: &str, id: &CellId) -> &[Pair<'a>] {
        self.pairs
            .get(job)
            .and_then(|pairs| pairs.get(id))
            .map_or(&[], Vec::as_slice)
    }

    /// The cells of a job in the order of its matrix.
    pub(crate) fn cells_of(&self, job: &str) -> &[&'a CellRow] {
        self.by_job.get(job).map_or(&[], Vec::as_slice)
    }
}

fn pairs(tables: &Tables) -> Pairs<'_> {
    let mut pairs = Pairs::new();
    for job in &tables.jobs {
        let of_job = pairs.entry(job.id.as_str()).or_default();
        for table in &job.comparisons {
            for row in &table.rows {
                for id in [&row.baseline, &row.contender] {
                    of_job.entry(id).or_default().push((table, row));
                }
            }
        }
    }
    pairs
}

/// Whether the downloads' names are plain file names, each once.
pub(crate) fn check_downloads(downloads: &[Download]) -> Result<(), ReportError> {
    let mut seen = BTreeSet::new();
    for download in downloads {
        let name = &download.file;
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if name.is_empty()
            || name.len() > LONGEST
            || name.starts_with('.')
            || !name.chars().all(plain)
        {
            return Err(ReportError::Tables(format!("a download is named {name:?}")));
        }
        if !seen.insert(name) {
            return Err(ReportError::Tables(format!(
                "two downloads are named `{name}`"
            )));
        }
    }
    Ok(())
}

fn segment(what: &str, name: &str) -> Result<(), ReportError> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
    if name.is_empty() || name.len() > LONGEST || !name.chars().all(plain) {
        return Err(ReportError::Tables(format!(
            "a {what} is named {:?}, which is not made of `a-z0-9_-` alone (at most {LONGEST})",
            crate::text::shorten(name, LONGEST)
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_inside_their_folder() {
        for good in ["inference", "a-b_c9", "0"] {
            assert!(segment("job", good).is_ok(), "{good}");
        }
        for bad in [
            "",
            ".",
            "..",
            "a/b",
            "a\\b",
            "A",
            "a b",
            "é",
            "a\0",
            &"a".repeat(121),
        ] {
            assert!(segment("job", bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn downloads_are_plain_names() {
        let named = |names: &[&str]| {
            let all: Vec<_> = names
                .iter()
                .map(|name| Download {
                    file: (*name).to_owned(),
                    summary: String::new(),
                    bytes: Vec::new(),
                })
                .collect();
            check_downloads(&all)
        };
        assert!(named(&["cells.csv", "samples.parquet"]).is_ok());
        for bad in ["", ".hidden", "../x", "a/b", "a b"] {
            assert!(named(&[bad]).is_err(), "{bad}");
        }
        assert!(named(&["a.csv", "a.csv"]).is_err());
    }
}
