//! Reading a bundle, which may come from anybody.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::Read,
    path::Path,
};

use schema::{
    Digest, Heat, RunRecord,
    record::{self, HeatResult, Tool},
};

use super::{
    first,
    manifest::{Entry, MANIFEST, Manifest, VERSION},
};
use crate::{
    StoreError, WriterLock, atomic, codec, heat,
    layout::Origin,
    runs::{self, Unusable},
};

/// Largest manifest: about a hundred thousand heats.
const MAX_MANIFEST_BYTES: u64 = 32 << 20;
/// Largest extra file.
const MAX_EXTRA_BYTES: u64 = 16 << 20;
/// Most that all extra files may have together: they are handed over in memory.
const MAX_EXTRAS_BYTES: usize = 64 << 20;
/// Largest bundle, unpacked.
const MAX_TOTAL_BYTES: u64 = 8 << 30;

/// What came out of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// The run record, now in the store.
    pub run: Digest,
    /// Number of heats, now in the store.
    pub heats: usize,
    /// The photofinish that packed it, by its own account: escaped, so that it can be printed.
    pub tool: Tool,
    /// Files that were carried along.
    pub extra: BTreeMap<String, Vec<u8>>,
}

/// What later stages would find wrong with a run; the second argument reads a heat of the bundle.
pub type Check<'a> = dyn Fn(&RunRecord, &dyn Fn(&Digest, &Digest) -> Result<Heat, StoreError>) -> Result<(), String>
    + 'a;

impl WriterLock {
    /// Unpacks a bundle into this store. Everything is verified before anything is put in its
    /// place, and `check` says what later stages would find wrong with the run: a bundle that is
    /// refused leaves the store as it was. `stop` is asked between files.
    ///
    /// # Errors
    /// The file cannot be read, is not a bundle, is damaged, of another version, or tries
    /// something that no honest bundle does; the store cannot be written; or
    /// [`StoreError::Interrupted`].
    pub fn open_bundle(
        &self,
        path: &Path,
        check: &Check<'_>,
        stop: &dyn Fn() -> bool,
    ) -> Result<Opened, StoreError> {
        let refused = |reason| StoreError::Bundle {
            path: path.to_owned(),
            reason,
        };
        let file = first::open(path)?;
        let tmp = self.tmp();
        let unpacked = tempfile::Builder::new()
            .prefix(super::PREFIX)
            .tempdir_in(&tmp)
            .map_err(StoreError::temporary("create a folder in", &tmp))?;
        let content = match unpack(file, unpacked.path(), stop) {
            Ok(content) => content,
            Err(Problem::Refused(reason)) => return Err(refused(reason)),
            Err(Problem::Store(error)) => return Err(error),
        };
        let (run, run_bytes) = content.check_run().map_err(refused)?;
        content.check_completeness(&run).map_err(refused)?;
        let heat = |key: &Digest, digest: &Digest| content.heat(unpacked.path(), key, digest);
        check(&run, &heat).map_err(|reason| refused(codec::quoted(reason)))?;
        if stop() {
            return Err(StoreError::Interrupted);
        }
        for (key, digest) in &content.heats {
            if stop() {
                return Err(StoreError::Interrupted);
            }
            self.install(unpacked.path(), key, digest)
                .map_err(|problem| match problem {
                    Problem::Refused(reason) => refused(reason),
                    Problem::Store(error) => error,
                })?;
        }
        Ok(Opened {
            // Whoever opens a bundle wants to see its run, whole or not.
            run: self.put_run_bytes(&run_bytes, false)?,
            heats: content.heats.len(),
            tool: printable(&content.manifest.tool),
            extra: content.extra,
        })
    }

    /// Puts an unpacked and verified heat in its place, unless it is there already.
    fn install(&self, folder: &Path, key: &Digest, digest: &Digest) -> Result<(), Problem> {
        if self.heat(key, digest).is_ok() {
            return Ok(());
        }
        let path = folder.join(digest.to_string());
        let bytes = atomic::read(&path, codec::MAX_FILE_BYTES)
            .map_err(Problem::Store)?
            .unwrap_or_default();
        let heat = codec::heat(&bytes).map_err(Problem::Refused)?;
        self.write_heat(&heat, &bytes, Origin::Bundle)
            .map_err(Problem::Store)?;
        Ok(())
    }
}

fn printable(tool: &Tool) -> Tool {
    Tool {
        version: codec::quoted(&tool.version),
        revision: tool.revision.as_ref().map(codec::quoted),
    }
}

enum Problem {
    Refused(String),
    Store(StoreError),
}

impl From<String> for Problem {
    fn from(reason: String) -> Self {
        Self::Refused(reason)
    }
}

/// The archive's reader quotes what it found, which may be anything and long.
fn unreadable(error: std::io::Error) -> Problem {
    Problem::Refused(format!("it cannot be read: {}", codec::quoted(error)))
}

/// What an archive held, each piece verified alone.
struct Content {
    manifest: Manifest,
    heats: BTreeSet<(Digest, Digest)>,
    run: Option<Vec<u8>>,
    extra: BTreeMap<String, Vec<u8>>,
}

/// Reads the archive once, front to back; heats go to files in `folder`.
fn unpack(file: File, folder: &Path, stop: &dyn Fn() -> bool) -> Result<Content, Problem> {
    let stream = codec::decoder(file).map_err(unreadable)?;
    let mut archive = tar::Archive::new(stream.take(MAX_TOTAL_BYTES));
    // Raw: extensions for long names, links and sparse files are not followed but refused.
    let mut entries = archive.entries().map_err(unreadable)?.raw(true);
    let first = entries.next().ok_or_else(|| "it is empty".to_owned())?;
    let manifest = read_manifest(first.map_err(unreadable)?)?;
    let mut expected = BTreeMap::new();
    for file in &manifest.files {
        let entry = Entry::parse(&file.name)?;
        if expected.insert(file.name.as_str(), (entry, file)).is_some() {
            return Err(format!("`{}` is in its manifest twice", file.name).into());
        }
    }
    let (mut heats, mut run, mut extra) = (BTreeSet::new(), None, BTreeMap::new());
    let mut extras = 0;
    for entry in entries {
        if stop() {
            return Err(Problem::Store(StoreError::Interrupted));
        }
        let mut entry = entry.map_err(unreadable)?;
        let name = plain_name(&entry)?;
        let (kind, file) = expected.remove(name.as_str()).ok_or_else(|| {
            format!(
                "`{}` is not in its manifest, or there twice",
                name.escape_debug()
            )
        })?;
        let limit = match kind {
            Entry::Heat { .. } | Entry::Run => codec::MAX_FILE_BYTES,
            Entry::Extra(_) => MAX_EXTRA_BYTES,
        };
        let bytes = read_entry(&mut entry, &name, limit)?;
        if bytes.len() as u64 != file.bytes || Digest::of_bytes(&bytes) != file.sha256 {
            return Err(format!("`{name}` is not what its manifest says").into());
        }
        match kind {
            Entry::Heat { key, digest } => {
                check_heat(&name, &key, &digest, &bytes)?;
                atomic::write(folder, &folder.join(digest.to_string()), &bytes)
                    .map_err(Problem::Store)?;
                heats.insert((key, digest));
            }
            Entry::Run => run = Some(bytes),
            Entry::Extra(file) => {
                extras += bytes.len();
                if extras > MAX_EXTRAS_BYTES {
                    return Err("its extra files are too large together".to_owned().into());
                }
                extra.insert(file, bytes);
            }
        }
    }
    if let Some(missing) = expected.keys().next() {
        return Err(format!("`{missing}` is in its manifest, but not in the bundle").into());
    }
    check_end(archive.into_inner(), stop)?;
    Ok(Content {
        manifest,
        heats,
        run,
        extra,
    })
}

/// After the archive's end nothing may follow but zeros.
fn check_end(mut rest: impl Read, stop: &dyn Fn() -> bool) -> Result<(), Problem> {
    let mut buffer = [0; 8192];
    loop {
        if stop() {
            return Err(Problem::Store(StoreError::Interrupted));
        }
        match rest.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) if buffer.iter().take(count).all(|byte| *byte == 0) => {}
            Ok(_) => return Err("something follows the end of its archive".to_owned().into()),
            Err(error) => {
                let reason = codec::quoted(error);
                return Err(format!("it cannot be read to its end: {reason}").into());
            }
        }
    }
}

fn read_manifest<R: Read>(mut entry: tar::Entry<'_, R>) -> Result<Manifest, String> {
    #[derive(serde::Deserialize)]
    struct Versioned {
        version: u32,
    }

    let name = plain_name(&entry)?;
    if name != MANIFEST {
        return Err(format!(
            "it begins with `{}`, not with {MANIFEST}",
            name.escape_debug()
        ));
    }
    let json = read_entry(&mut entry, &name, MAX_MANIFEST_BYTES)?;
    let bad = |error: serde_json::Error| format!("{MANIFEST}: {}", codec::quoted(error));
    let found = serde_json::from_slice::<Versioned>(&json)
        .map_err(bad)?
        .version;
    if found != VERSION {
        return Err(format!(
            "it has version {found}, this photofinish reads version {VERSION}: use the photofinish that packed it"
        ));
    }
    serde_json::from_slice(&json).map_err(bad)
}

/// The name of an entry that is a plain file.
fn plain_name<R: Read>(entry: &tar::Entry<'_, R>) -> Result<String, String> {
    let path = entry.path_bytes();
    let name = str::from_utf8(&path).map_err(|_| "it holds a name that is not UTF-8".to_owned())?;
    let kind = entry.header().entry_type();
    if !kind.is_file() {
        return Err(format!(
            "`{}` is not a plain file ({kind:?})",
            name.escape_debug()
        ));
    }
    Ok(name.to_owned())
}

fn read_entry<R: Read>(
    entry: &mut tar::Entry<'_, R>,
    name: &str,
    limit: u64,
) -> Result<Vec<u8>, String> {
    if entry.size() > limit {
        return Err(format!(
            "`{name}` has {} bytes, more than the {limit} allowed",
            entry.size()
        ));
    }
    let mut bytes = Vec::new();
    entry
        .take(limit)
        .read_to_end(&mut bytes)
        .map_err(|error| format!("`{name}` cannot be read: {}", codec::quoted(error)))?;
    Ok(bytes)
}

fn check_heat(name: &str, key: &Digest, digest: &Digest, bytes: &[u8]) -> Result<(), String> {
    if Digest::of_bytes(bytes) != *digest {
        return Err(format!("`{name}` is not what its name says"));
    }
    let decoded = codec::heat(bytes).map_err(|reason| format!("`{name}`: {reason}"))?;
    if decoded.header.version != record::VERSION {
        return Err(format!(
            "`{name}` has version {}, this photofinish reads version {}",
            decoded.header.version,
            record::VERSION
        ));
    }
    if decoded.header.key != *key {
        return Err(format!("`{name}` was measured for another key"));
    }
    heat::check(&decoded).map_err(|reason| format!("`{name}`: {reason}"))
}

impl Content {
    /// An unpacked heat.
    fn heat(&self, folder: &Path, key: &Digest, digest: &Digest) -> Result<Heat, StoreError> {
        let path = folder.join(digest.to_string());
        let bytes = match self.heats.contains(&(*key, *digest)) {
            true => atomic::read(&path, codec::MAX_FILE_BYTES)?.unwrap_or_default(),
            false => Vec::new(),
        };
        codec::heat(&bytes).map_err(|reason| StoreError::corrupt(path, reason))
    }

    fn check_run(&self) -> Result<(RunRecord, Vec<u8>), String> {
        let bytes = self.run.clone().ok_or("it has no run record")?;
        if Digest::of_bytes(&bytes) != self.manifest.run {
            return Err("its run record is not the one that its manifest names".to_owned());
        }
        let run = runs::decode(&bytes).map_err(|unusable| match unusable {
            Unusable::Corrupt(reason) => format!("its run record is corrupt: {reason}"),
            Unusable::Version(found) => format!(
                "its run record has version {found}, and this photofinish reads another: use the photofinish that packed it"
            ),
        })?;
        Ok((run, bytes))
    }

    /// The heats that came are those that the run names.
    fn check_completeness(&self, run: &RunRecord) -> Result<(), String> {
        let named: BTreeSet<(Digest, Digest)> = run
            .heats
            .iter()
            .filter_map(|entry| match entry.heat {
                HeatResult::Sealed(digest) => Some((entry.key, digest)),
                HeatResult::NotReached(_) => None,
            })
            .collect();
        if let Some((key, _)) = named.difference(&self.heats).next() {
            return Err(format!("the heat of key {} is missing", key.short()));
        }
        if let Some((key, _)) = self.heats.difference(&named).next() {
            return Err(format!(
                "its run does not name the heat of key {}",
                key.short()
            ));
        }
        Ok(())
    }
}
