//! From a path of the command line to the manifests that it stands for.

use std::{
    ffi::OsStr,
    io,
    path::{Path, PathBuf},
};

use walkdir::{DirEntry, WalkDir};

use crate::Diagnostic;

/// Most entries of a folder that are looked at.
const FOLDER_LIMIT: usize = 100_000;

/// Most errors that are told of one folder.
const TOLD_LIMIT: usize = 20;

/// The manifests that a path stands for: itself, or, for a folder, the `.yaml` and `.yml` files
/// below it in the order of their names. A link counts where it leads to a file of the folder. What
/// is wrong with a folder comes with what was found all the same.
pub(crate) fn manifests(path: &Path) -> (Vec<PathBuf>, Vec<Diagnostic>) {
    if !path.is_dir() {
        return (vec![path.to_owned()], Vec::new());
    }
    let root = match path.canonicalize() {
        Ok(root) => root,
        Err(error) => return (Vec::new(), vec![unreadable(path, &error)]),
    };
    let (mut found, mut told) = (Vec::new(), Vec::new());
    for (count, entry) in WalkDir::new(path)
        .sort_by_file_name()
        .into_iter()
        .enumerate()
    {
        if count >= FOLDER_LIMIT {
            let help = "name the manifests one by one";
            let message = "the folder holds more than 100,000 files";
            return (Vec::new(), vec![of(path, message, help)]);
        }
        match entry
            .map_err(|error| Box::new(failure(path, error)))
            .and_then(|entry| manifest(&root, entry))
        {
            Ok(manifest) => found.extend(manifest),
            Err(diagnostic) => told.push(*diagnostic),
        }
        if told.len() >= TOLD_LIMIT {
            break;
        }
    }
    if told.is_empty() && found.is_empty() {
        let help = "manifests end in `.yaml` or `.yml`";
        told.push(of(path, "the folder holds no manifest", help));
    }
    (found, told)
}

fn of(path: &Path, message: &str, help: &str) -> Diagnostic {
    Diagnostic::of_file(&path.to_string_lossy(), message, Some(help))
}

/// The path of an entry that is to be read as a manifest.
fn manifest(root: &Path, entry: DirEntry) -> Result<Option<PathBuf>, Box<Diagnostic>> {
    let is_manifest = is_yaml(entry.path());
    let is_wanted = if entry.path_is_symlink() && entry.depth() > 0 {
        is_manifest_behind(root, entry.path())?
    } else {
        // What is neither file nor folder is refused when it is read.
        is_manifest && !entry.file_type().is_dir()
    };
    Ok(is_wanted.then(|| entry.into_path()))
}

fn is_yaml(path: &Path) -> bool {
    path.extension()
        .is_some_and(|end| end == "yaml" || end == "yml")
}

/// Whether a link leads to a manifest of the folder. One to a folder need not be followed where it
/// stays inside: what it leads to is found there.
fn is_manifest_behind(root: &Path, link: &Path) -> Result<bool, Box<Diagnostic>> {
    let name = link.file_name().unwrap_or_default();
    // Emacs marks a file that it edits with a link that leads nowhere.
    let is_mark = name.as_encoded_bytes().starts_with(b".#");
    let could_matter = is_yaml(link) || link.extension().is_none_or(OsStr::is_empty);
    if is_mark || !could_matter {
        return Ok(false);
    }
    let target = link.canonicalize().map_err(|error| {
        let message = match error.kind() {
            io::ErrorKind::NotFound => "the link leads nowhere".to_owned(),
            _ => format!("the link cannot be followed: {error}"),
        };
        Box::new(of(link, &message, "mend the link, or remove it"))
    })?;
    let is_folder = target.is_dir();
    if target.starts_with(root) {
        return Ok(is_yaml(link) && !is_folder);
    }
    if is_folder || is_yaml(link) {
        let help =
            "a folder stands for what lies in it: give the link's target as a path of its own";
        return Err(Box::new(of(link, "the link leads out of the folder", help)));
    }
    Ok(false)
}

fn failure(folder: &Path, error: walkdir::Error) -> Diagnostic {
    let path = error.path().unwrap_or(folder).to_owned();
    let error = error
        .into_io_error()
        .unwrap_or_else(|| io::Error::other("a link leads back to it"));
    unreadable(&path, &error)
}

fn unreadable(path: &Path, error: &io::Error) -> Diagnostic {
    let message = format!("the folder cannot be looked into: {error}");
    of(
        path,
        &message,
        "allow it to be read, or name the manifests one by one",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unreadable_folder_is_told_in_our_words() {
        let error = io::Error::from(io::ErrorKind::PermissionDenied);
        let shown = unreadable(Path::new("jobs/closed"), &error).render(false);
        assert!(shown.contains("the folder cannot be looked into: permission denied"));
        assert!(shown.contains("jobs/closed"));
    }
}
