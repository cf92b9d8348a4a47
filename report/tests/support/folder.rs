//! A rendered site on disk.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use schema::Tables;

use crate::fixture::realistic;

/// A site in a folder that vanishes with it.
pub struct Site {
    pub folder: tempfile::TempDir,
}

impl Site {
    pub fn of(tables: &Tables) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        photofinish_report::render(tables, &realistic::downloads(), &folder.path().join("site"))
            .expect("a site");
        Self { folder }
    }

    pub fn root(&self) -> PathBuf {
        self.folder.path().join("site")
    }

    /// Every file below the site with its content, by its path.
    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        files(&self.root())
    }

    /// Paths of all pages.
    pub fn pages(&self) -> Vec<String> {
        self.files()
            .into_keys()
            .filter(|path| path.ends_with(".html"))
            .collect()
    }

    /// One page of each kind, and of each ending of a cell, but not the hundredth of its like.
    pub fn some_pages(&self) -> Vec<String> {
        let mut cells = 0;
        self.pages()
            .into_iter()
            .filter(|path| {
                cells += usize::from(path.starts_with("cells/inference/"));
                !path.starts_with("cells/inference/") || cells <= 3
            })
            .collect()
    }

    pub fn page(&self, path: &str) -> String {
        fs::read_to_string(self.root().join(path)).expect("a page")
    }

    pub fn url(&self, path: &str) -> String {
        url::Url::from_file_path(self.root().join(path))
            .expect("an absolute path")
            .to_string()
    }
}

/// Every file below a folder with its content, by its path.
pub fn files(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path
                    .strip_prefix(root)
                    .expect("below the root")
                    .to_str()
                    .expect("UTF-8")
                    .to_owned();
                found.insert(name, fs::read(&path).expect("a file"));
            }
        }
    }
    found
}
