//! Bundles built by hand.

use std::{collections::BTreeMap, path::Path};

use photofinish_store::{
    Store,
    bundle::{self, BundledFile, Manifest},
};
use schema::Digest;

use super::*;

/// A file of an archive under construction.
#[derive(Clone)]
pub struct Piece {
    pub name: Vec<u8>,
    pub kind: tar::EntryType,
    pub bytes: Vec<u8>,
    /// The size that the header tells.
    pub size: u64,
}

pub fn piece(name: &str, bytes: &[u8]) -> Piece {
    Piece {
        name: name.as_bytes().to_vec(),
        kind: tar::EntryType::Regular,
        bytes: bytes.to_vec(),
        size: bytes.len() as u64,
    }
}

/// Builds an archive by hand, with names that tar's own builder would refuse.
pub fn archive(pieces: &[Piece]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for piece in pieces {
        let mut header = tar::Header::new_ustar();
        let field = &mut header.as_ustar_mut().unwrap().name;
        let prefix_free = piece.name.len().min(field.len());
        field[..prefix_free].copy_from_slice(&piece.name[..prefix_free]);
        if piece.name.len() > 100 {
            header
                .set_path(std::str::from_utf8(&piece.name).unwrap())
                .unwrap();
        }
        header.set_entry_type(piece.kind);
        header.set_size(piece.size);
        header.set_mode(0o644);
        header.set_cksum();
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(&piece.bytes);
        bytes.resize(bytes.len().next_multiple_of(512), 0);
    }
    bytes.resize(bytes.len() + 1024, 0);
    bytes
}

pub fn zst(bytes: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(bytes, 1).unwrap()
}

/// A store with a run of two heats, and the pieces of its bundle.
pub struct Honest {
    pub folder: tempfile::TempDir,
    pub store: Store,
    pub run: Digest,
    pub manifest: Manifest,
    pub pieces: Vec<Piece>,
}

pub fn honest() -> Honest {
    let (folder, store) = store();
    let lock = store.lock().unwrap();
    let (a, b) = (header("a"), header("b"));
    let record = run(&[(&a, seal(&lock, a.clone())), (&b, seal(&lock, b.clone()))]);
    let digest = lock.put_run(&record).unwrap();
    drop(lock);
    let out = folder.path().join("bundle.tar.zst");
    let extra = BTreeMap::from([("notes.txt".to_owned(), b"carried along".to_vec())]);
    let manifest = bundle::pack(&store, &digest, &tool(), &extra, &out, &|| false).unwrap();
    let tar = zstd::decode_all(std::fs::read(&out).unwrap().as_slice()).unwrap();
    let mut pieces = Vec::new();
    for entry in tar::Archive::new(tar.as_slice()).entries().unwrap() {
        let mut entry = entry.unwrap();
        let name = String::from_utf8(entry.path_bytes().into_owned()).unwrap();
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut entry, &mut bytes).unwrap();
        pieces.push(piece(&name, &bytes));
    }
    Honest {
        folder,
        store,
        run: digest,
        manifest,
        pieces,
    }
}

impl Honest {
    /// The pieces with another manifest.
    pub fn with(&self, change: impl FnOnce(&mut Manifest)) -> Vec<Piece> {
        let mut manifest = self.manifest.clone();
        change(&mut manifest);
        let mut pieces = self.pieces.clone();
        pieces[0] = piece("manifest.json", &serde_json::to_vec(&manifest).unwrap());
        pieces
    }

    /// The pieces with one more file that the manifest names truly.
    pub fn with_file(&self, name: &str, bytes: &[u8]) -> Vec<Piece> {
        let mut pieces = self.with(|manifest| {
            manifest.files.push(BundledFile {
                name: name.to_owned(),
                bytes: bytes.len() as u64,
                sha256: Digest::of_bytes(bytes),
            });
        });
        pieces.push(piece(name, bytes));
        pieces
    }

    pub fn place(&self, prefix: &str) -> usize {
        self.pieces
            .iter()
            .position(|piece| piece.name.starts_with(prefix.as_bytes()))
            .unwrap()
    }
}

pub fn files_below(path: &Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(files_below(&path));
        } else {
            files.push(path);
        }
    }
    files
}

/// Opens bytes as a bundle in a fresh store; the store must be untouched if they are refused.
pub fn open(bytes: &[u8]) -> Result<(tempfile::TempDir, Store, bundle::Opened), String> {
    let (folder, store) = store();
    let file = folder.path().join("bundle.tar.zst");
    std::fs::write(&file, bytes).unwrap();
    let lock = store.lock().unwrap();
    let before = files_below(folder.path());
    match lock.open_bundle(&file, &|_, _| Ok(()), &|| false) {
        Ok(opened) => Ok((folder, store, opened)),
        Err(error) => {
            assert_eq!(
                files_below(folder.path()),
                before,
                "left something behind: {error}"
            );
            Err(error.to_string())
        }
    }
}
