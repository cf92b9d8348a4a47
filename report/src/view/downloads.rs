//! The page of downloads.

use schema::{Digest, Tables, tables::Download};
use serde::Serialize;

use super::chrome::{Chrome, link};
use crate::{text, units};

/// The page of downloads.
#[derive(Debug, Serialize)]
pub(crate) struct DownloadsPage {
    chrome: Chrome,
    files_of_data: Vec<File>,
    manifests: Vec<File>,
    heats: Vec<(String, String)>,
}

/// A file below `data/`.
#[derive(Debug, Serialize)]
struct File {
    name: String,
    summary: String,
    size: String,
    size_value: usize,
    sha256: String,
}

/// The name under which a manifest is among the downloads; places count from 0.
pub(crate) fn manifest_file(place: usize) -> String {
    format!("manifest-{}.yaml", place + 1)
}

impl DownloadsPage {
    pub(crate) fn new(tables: &Tables, downloads: &[Download]) -> Self {
        let files = downloads
            .iter()
            .map(|download| file(&download.file, &download.summary, &download.bytes))
            .collect();
        let manifests = tables
            .manifests
            .iter()
            .enumerate()
            .map(|(place, manifest)| {
                let summary = format!("The manifest {}.", text::portable_path(&manifest.path));
                file(&manifest_file(place), &summary, manifest.text.as_bytes())
            })
            .collect();
        Self {
            chrome: Chrome::new(tables, "", "downloads", "Downloads")
                .with_crumbs(vec![link("Overview", "index.html")]),
            files_of_data: files,
            manifests,
            heats: tables
                .heats
                .iter()
                .map(|(group, digest)| (group.clone(), digest.to_string()))
                .collect(),
        }
    }
}

fn file(name: &str, summary: &str, bytes: &[u8]) -> File {
    File {
        name: name.to_owned(),
        summary: summary.to_owned(),
        size: units::bytes(bytes.len() as u64),
        size_value: bytes.len(),
        sha256: Digest::of_bytes(bytes).to_string(),
    }
}
