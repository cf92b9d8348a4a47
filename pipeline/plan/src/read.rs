//! From paths to manifests: found, bounded, read, and every error of form told.

use std::{
    fs::File,
    io::{self, IsTerminal as _, Read as _},
    path::{Path, PathBuf},
};

use schema::{manifest::Manifest, plan::ManifestSource};

use crate::{
    Diagnostic, decode,
    fault::Fault,
    find,
    tree::{self, Node, Step},
};

/// Largest manifest, in bytes.
const FILE_LIMIT: usize = 1 << 20;

/// What stands for standard input among the paths, and in messages.
const STDIN: &str = "-";
const STDIN_SHOWN: &str = ManifestSource::STDIN;

/// A manifest with its text and the places of its parts.
#[derive(Debug, Clone)]
pub struct ManifestFile {
    /// Path and text.
    pub source: ManifestSource,
    /// What it says.
    pub manifest: Manifest,
    tree: Node,
    /// What another reader of YAML takes for something else.
    apart: Option<Fault>,
}

impl ManifestFile {
    /// Reads a manifest from its text; `path` is for messages, and models are looked for beside it.
    ///
    /// # Errors
    /// Every error of form, each with its place.
    pub fn from_text(path: &str, text: &str) -> Result<Self, Vec<Diagnostic>> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let told = |faults: Vec<Fault>| {
            faults
                .iter()
                .map(|fault| Diagnostic::new(path, text, fault))
                .collect::<Vec<_>>()
        };
        if text.len() > FILE_LIMIT {
            return Err(told(vec![too_large()]));
        }
        // Bounds first: what follows may take time that grows with depth and aliases.
        let tree = tree::parse(text).map_err(|fault| told(vec![fault]))?;
        let manifest = decode::read::<Manifest>(&tree).map_err(told)?;
        let apart = second_reading(text, &manifest).err();
        let source = ManifestSource {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        Ok(Self {
            source,
            manifest,
            tree,
            apart,
        })
    }

    /// An error at what `path` leads to.
    pub(crate) fn fault(&self, path: &[Step], message: impl Into<String>) -> Fault {
        Fault::new(self.tree.locate(path), message)
    }

    /// What readers of YAML do not agree about.
    pub(crate) fn apart(&self) -> Option<Diagnostic> {
        self.apart.as_ref().map(|fault| self.diagnostic(fault))
    }

    pub(crate) fn diagnostic(&self, fault: &Fault) -> Diagnostic {
        Diagnostic::new(&self.source.path, &self.source.text, fault)
    }

    /// The folder that paths in the manifest are relative to; none for standard input.
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.source.folder()
    }
}

/// Whether `serde_yaml` reads the same manifest. Our tree knows places, and names what is wrong with a
/// form; a file that the two take for different things would be another one to the next tool, too.
fn second_reading(text: &str, ours: &Manifest) -> Result<(), Fault> {
    let apart = |at: usize| {
        Fault::new(at..at, "readers of YAML take this for different things")
            .help("write numbers as plain decimals, keys on one line, and unusual text in quotes")
    };
    match serde_yaml::from_str::<Manifest>(text) {
        Ok(theirs) if theirs == *ours => Ok(()),
        Ok(_) => Err(apart(0)),
        Err(error) => {
            let location = error.location().map_or(0, |place| place.index());
            Err(apart(location.min(text.len())))
        }
    }
}

fn too_large() -> Fault {
    Fault::new(0..0, "the file is larger than 1 MiB")
        .help("a manifest lists questions; split it into several files")
}

/// Reads all manifests that `paths` name; a folder stands for the `.yaml` and `.yml` files below
/// it, in the order of their names, and for links to such files. `-` stands for standard input.
///
/// # Errors
/// Every error of form in every file, each with its place.
pub fn read_manifests(paths: &[PathBuf]) -> Result<Vec<ManifestFile>, Vec<Diagnostic>> {
    let (mut files, mut diagnostics) = (Vec::new(), Vec::new());
    for path in paths {
        let (found, told) = find::manifests(path);
        files.extend(found);
        diagnostics.extend(told);
    }
    let mut seen = std::collections::BTreeSet::new();
    files.retain(|file| {
        let real = file.canonicalize().ok().filter(|_| !is_stdin(file));
        seen.insert(real.unwrap_or_else(|| file.clone()))
    });
    let mut manifests = Vec::new();
    for file in &files {
        match read(file) {
            Ok(manifest) => manifests.push(manifest),
            Err(found) => diagnostics.extend(found),
        }
    }
    if diagnostics.is_empty() {
        Ok(manifests)
    } else {
        Err(diagnostics)
    }
}

fn is_stdin(path: &Path) -> bool {
    path == Path::new(STDIN)
}

fn read(path: &Path) -> Result<ManifestFile, Vec<Diagnostic>> {
    let name = if is_stdin(path) {
        STDIN_SHOWN.into()
    } else {
        path.to_string_lossy()
    };
    let bytes =
        bytes(path).map_err(|(message, help)| vec![Diagnostic::of_file(&name, &message, help)])?;
    let is_too_large = bytes.len() > FILE_LIMIT;
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let text = String::from_utf8_lossy(error.as_bytes());
        let fault = if is_too_large {
            too_large()
        } else {
            Fault::new(
                valid..valid + '\u{fffd}'.len_utf8(),
                "the file is not UTF-8 from here on",
            )
            .help("save it as UTF-8")
        };
        vec![Diagnostic::new(&name, &text, &fault)]
    })?;
    ManifestFile::from_text(&name, &text)
}

/// What to do about a file that cannot be read.
fn remedy(kind: io::ErrorKind) -> &'static str {
    match kind {
        io::ErrorKind::NotFound => "check its path; a folder stands for the manifests in it",
        io::ErrorKind::PermissionDenied => "allow it to be read",
        _ => "see that it can be read, with `cat` for example",
    }
}

/// At most a byte more than a manifest may have; or what is wrong, and what would be right.
fn bytes(path: &Path) -> Result<Vec<u8>, (String, Option<&'static str>)> {
    const USE_STDIN: &str = "to read it from standard input, give `-`";
    let failed = |error: io::Error| {
        let message = format!("failed to read the manifest: {error}");
        (message, Some(remedy(error.kind())))
    };
    let mut bytes = Vec::new();
    let limit = FILE_LIMIT as u64 + 1;
    if is_stdin(path) {
        let stdin = io::stdin();
        if stdin.is_terminal() {
            let message = "standard input is a terminal, and no manifest".to_owned();
            return Err((message, Some("pipe the manifest into the command")));
        }
        let read = stdin.lock().take(limit).read_to_end(&mut bytes);
        return read.map(|_| bytes).map_err(failed);
    }
    if ["/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"]
        .map(Path::new)
        .contains(&path)
    {
        let message = "standard input goes by another name here".to_owned();
        return Err((message, Some(USE_STDIN)));
    }
    // Before opening: to open a pipe is to wait for its writer.
    if !path.metadata().map_err(failed)?.is_file() {
        let message = "failed to read the manifest: it is no regular file".to_owned();
        return Err((message, Some(USE_STDIN)));
    }
    let file = File::open(path).map_err(failed)?;
    let read = file.take(limit).read_to_end(&mut bytes);
    read.map(|_| bytes).map_err(failed)
}
