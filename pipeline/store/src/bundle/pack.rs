//! Making a bundle.

use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use schema::{
    Digest,
    record::{HeatResult, Tool},
};

use super::{
    first,
    manifest::{BundledFile, Entry, MANIFEST, Manifest, VERSION},
};
use crate::{Store, StoreError, atomic, codec, runs};

/// The content is compressed already; this is for the manifest and tar's padding.
const LEVEL: i32 = 3;

/// Packs a run, with all heats that it names, into one file, which may replace a bundle, nothing
/// else. The same run gives the same bytes.
/// `extra` files are carried along by their plain names. Returns what the bundle says about itself.
/// `stop` is asked between files; nothing is left behind of a bundle that it ends.
///
/// # Errors
/// The run or a heat is missing or corrupt, the name of an extra file is not plain, the file
/// cannot be written, or [`StoreError::Interrupted`].
pub fn pack(
    store: &Store,
    run: &Digest,
    tool: &Tool,
    extra: &BTreeMap<String, Vec<u8>>,
    out: &Path,
    stop: &dyn Fn() -> bool,
) -> Result<Manifest, StoreError> {
    let out = &target(out)?;
    let heats = heats_of(store, run)?;
    let mut entries: Vec<Entry> = extra.keys().cloned().map(Entry::Extra).collect();
    entries.extend(
        heats
            .into_iter()
            .map(|(key, digest)| Entry::Heat { key, digest }),
    );
    entries.push(Entry::Run);
    entries.sort_by_key(Entry::name);

    let content = |entry: &Entry| -> Result<Vec<u8>, StoreError> {
        match entry {
            _ if stop() => Err(StoreError::Interrupted),
            Entry::Heat { key, digest } => Ok(store.heat_bytes(key, digest)?.1),
            Entry::Run => Ok(store.run_bytes(run)?.1),
            Entry::Extra(name) => Ok(extra.get(name).cloned().unwrap_or_default()),
        }
    };
    let mut files = Vec::new();
    for entry in &entries {
        let name = entry.name();
        if Entry::parse(&name).as_ref() != Ok(entry) {
            let what = format!("`{}` into a bundle", name.escape_debug());
            let reason = "the name of an extra file has letters, digits, `.`, `_` and `-` only";
            return Err(StoreError::Invalid {
                what,
                reason: reason.to_owned(),
            });
        }
        let bytes = content(entry)?;
        files.push(BundledFile {
            name,
            bytes: bytes.len() as u64,
            sha256: Digest::of_bytes(&bytes),
        });
    }
    let manifest = Manifest {
        version: VERSION,
        tool: tool.clone(),
        run: *run,
        files,
    };
    write(&manifest, &entries, content, out)?;
    Ok(manifest)
}

/// Where the bundle goes, links followed. Whatever lies there and is neither a bundle nor empty is
/// somebody's.
fn target(out: &Path) -> Result<PathBuf, StoreError> {
    let refused = |reason: &str| {
        let (path, reason) = (out.to_owned(), reason.to_owned());
        Err(StoreError::Bundle { path, reason })
    };
    let target = match fs::canonicalize(out) {
        Ok(target) => target,
        Err(_) if fs::symlink_metadata(out).is_ok() => {
            return refused("it is a link that leads nowhere: name the file itself");
        }
        // What keeps it from being written is told when it is.
        Err(_) => return Ok(out.to_owned()),
    };
    let Ok(metadata) = fs::metadata(&target) else {
        return refused("it cannot be looked at: name another file");
    };
    if !metadata.is_file() {
        return refused("there is something that is no file: name another place");
    }
    if metadata.len() > 0 && first::looks_like(&target).is_err() {
        return refused(
            "there is another file, which is no bundle: remove it, or name another place",
        );
    }
    Ok(target)
}

/// The heats that a run names, each once, in order, and readable.
fn heats_of(store: &Store, run: &Digest) -> Result<Vec<(Digest, Digest)>, StoreError> {
    let (path, bytes) = store.run_bytes(run)?;
    let record = runs::decode(&bytes).map_err(|error| error.at(path))?;
    let mut heats: Vec<(Digest, Digest)> = record
        .heats
        .iter()
        .filter_map(|entry| match entry.heat {
            HeatResult::Sealed(digest) => Some((entry.key, digest)),
            HeatResult::NotReached(_) => None,
        })
        .collect();
    heats.sort_unstable();
    heats.dedup();
    Ok(heats)
}

fn write(
    manifest: &Manifest,
    entries: &[Entry],
    content: impl Fn(&Entry) -> Result<Vec<u8>, StoreError>,
    out: &Path,
) -> Result<(), StoreError> {
    let failed = || {
        |cause: std::io::Error| StoreError::Unwritten {
            path: out.to_owned(),
            // What wraps the system's error would name the temporary file.
            cause: cause.kind().into(),
        }
    };
    let folder = match out.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if !folder.is_dir() {
        let path = folder.to_owned();
        return Err(StoreError::NoFolder { path });
    }
    let mut file = tempfile::Builder::new()
        .prefix(".photofinish-bundle-")
        .tempfile_in(folder)
        .map_err(failed())?;
    {
        let encoder = zstd::Encoder::new(file.as_file_mut(), LEVEL).map_err(failed())?;
        let mut archive = tar::Builder::new(encoder);
        let json = codec::line(manifest).map_err(|reason| StoreError::Invalid {
            what: "a bundle".to_owned(),
            reason,
        })?;
        append(&mut archive, MANIFEST, &json).map_err(failed())?;
        for entry in entries {
            append(&mut archive, &entry.name(), &content(entry)?).map_err(failed())?;
        }
        archive
            .into_inner()
            .and_then(zstd::Encoder::finish)
            .and_then(|file| file.flush())
            .map_err(failed())?;
    }
    file.as_file().sync_all().map_err(failed())?;
    make_readable(file.as_file()).map_err(failed())?;
    file.persist(out).map_err(|error| failed()(error.error))?;
    atomic::sync_parent(out)
}

/// Temporary files are private; a bundle is there to be given away.
fn make_readable(file: &fs::File) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;

    file.set_permissions(fs::Permissions::from_mode(0o644))
}

fn append<W: Write>(
    archive: &mut tar::Builder<W>,
    name: &str,
    bytes: &[u8],
) -> std::io::Result<()> {
    let mut header = tar::Header::new_ustar();
    header.set_path(name)?;
    header.set_size(bytes.len() as u64);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_entry_type(tar::EntryType::Regular);
    header.set_cksum();
    archive.append(&header, bytes)
}
