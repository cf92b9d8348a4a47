//! Bundles, honest and hostile.

use std::{collections::BTreeMap, fs};

use photofinish_store::{Store, StoreError, bundle};
use proptest::prelude::*;
use schema::{Digest, record::HeatResult};

use crate::common::{archive::*, *};

#[test]
fn a_bundle_carries_a_run_to_another_store() {
    let honest = honest();
    let out = honest.store.path().join("b.tar.zst");
    let extra = BTreeMap::from([("notes.txt".to_owned(), b"carried along".to_vec())]);
    bundle::pack(&honest.store, &honest.run, &tool(), &extra, &out, &|| false).unwrap();
    let (_folder, store, opened) = open(&fs::read(&out).unwrap()).unwrap();
    assert_eq!(
        (opened.run, opened.heats, opened.tool),
        (honest.run, 2, tool())
    );
    assert_eq!(opened.extra, extra);
    let (digest, record) = store.latest_run().unwrap().unwrap();
    assert_eq!(
        (digest, &record),
        (honest.run, &honest.store.run(&honest.run).unwrap())
    );
    for heat in &record.heats {
        if let HeatResult::Sealed(digest) = &heat.heat {
            store.heat(&heat.key, digest).unwrap();
        }
    }
    // What was measured elsewhere answers no plan here.
    assert_eq!(honest.store.known_heats().unwrap().heats.len(), 2);
    assert!(store.known_heats().unwrap().heats.is_empty());

    // Packed again over there, and opened again over here: the same bytes, nothing new.
    let again = store.path().join("again.tar.zst");
    bundle::pack(&store, &digest, &tool(), &extra, &again, &|| false).unwrap();
    assert_eq!(fs::read(&again).unwrap(), fs::read(&out).unwrap());
    let before = files_below(honest.store.path());
    honest
        .store
        .lock()
        .unwrap()
        .open_bundle(&again, &|_, _| Ok(()), &|| false)
        .unwrap();
    assert_eq!(files_below(honest.store.path()), before);
}

#[test]
fn a_damaged_heat_is_read_from_the_bundle_that_has_it_too() {
    let honest = honest();
    let Honest { store, run, .. } = &honest;
    let out = store.path().join("b.tar.zst");
    let none = BTreeMap::new();
    bundle::pack(store, run, &tool(), &none, &out, &|| false).unwrap();
    let entry = &store.run(run).unwrap().heats[0];
    let HeatResult::Sealed(digest) = entry.heat else {
        panic!("{entry:?}");
    };
    let file = sealed_file(store, &entry.key);
    let mut bytes = fs::read(&file).unwrap();
    bytes[20] ^= 1;
    fs::write(&file, bytes).unwrap();
    let damaged = store.heat(&entry.key, &digest).unwrap_err();
    assert!(matches!(damaged, StoreError::Corrupt(_)), "{damaged}");
    let lock = store.lock().unwrap();
    lock.open_bundle(&out, &|_, _| Ok(()), &|| false).unwrap();
    store.heat(&entry.key, &digest).unwrap();
    let again = store.path().join("again.tar.zst");
    bundle::pack(store, run, &tool(), &none, &again, &|| false).unwrap();
    assert_eq!(fs::read(&again).unwrap(), fs::read(&out).unwrap());
    // The damaged one is still known for what it is.
    assert_eq!(store.known_heats().unwrap().corrupt.len(), 1);
}

#[test]
fn a_bundle_built_by_hand_is_as_good() {
    let honest = honest();
    open(&zst(&archive(&honest.pieces))).unwrap();
    open(&zst(&archive(&honest.with_file("extra/b.json", b"{}")))).unwrap();
}

#[test]
fn hostile_bundles_are_refused() {
    let honest = honest();
    let heat = honest.place("heats/");
    let link = |kind| {
        let mut pieces = honest.with_file("extra/link", b"");
        pieces.last_mut().unwrap().kind = kind;
        pieces
    };
    let swap = |place: usize, change: &dyn Fn(&mut Piece)| {
        let mut pieces = honest.pieces.clone();
        change(&mut pieces[place]);
        pieces
    };
    let without = |place: usize| {
        let mut pieces = honest.pieces.clone();
        pieces.remove(place);
        pieces
    };
    let twice = {
        let mut pieces = honest.pieces.clone();
        pieces.push(pieces[heat].clone());
        pieces
    };
    let bomb = vec![0_u8; 17 << 20];
    let stray_key = Digest::of_bytes(b"stray");
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("empty file", vec![], "is no photofinish bundle"),
        (
            "not zstd",
            b"hello, world".to_vec(),
            "is no photofinish bundle",
        ),
        ("not tar", zst(&[7; 4096]), "is no photofinish bundle"),
        (
            "empty archive",
            zst(&archive(&[])),
            "is no photofinish bundle",
        ),
        (
            "a path that escapes",
            zst(&archive(&honest.with_file("../evil", b"x"))),
            "leaves its folder",
        ),
        (
            "a path that escapes deep",
            zst(&archive(&honest.with_file("heats/../../evil", b"x"))),
            "leaves its folder",
        ),
        (
            "an absolute path",
            zst(&archive(&honest.with_file("/etc/evil", b"x"))),
            "absolute path",
        ),
        (
            "an unknown name",
            zst(&archive(&honest.with_file("bin/sh", b"x"))),
            "not a file that bundles have",
        ),
        (
            "a hidden name",
            zst(&archive(&honest.with_file("extra/.bashrc", b"x"))),
            "not a file that bundles have",
        ),
        (
            "a file beside the manifest",
            {
                let mut pieces = honest.pieces.clone();
                pieces.push(piece("extra/surprise", b"x"));
                zst(&archive(&pieces))
            },
            "not in its manifest",
        ),
        (
            "a name that is not UTF-8",
            {
                let mut pieces = honest.pieces.clone();
                pieces.push(Piece {
                    name: vec![0xff, 0xfe],
                    ..piece("x", b"")
                });
                zst(&archive(&pieces))
            },
            "not UTF-8",
        ),
        (
            "a symbolic link",
            zst(&archive(&link(tar::EntryType::Symlink))),
            "not a plain file",
        ),
        (
            "a hard link",
            zst(&archive(&link(tar::EntryType::Link))),
            "not a plain file",
        ),
        (
            "a folder",
            zst(&archive(&link(tar::EntryType::Directory))),
            "not a plain file",
        ),
        (
            "a device",
            zst(&archive(&link(tar::EntryType::Block))),
            "not a plain file",
        ),
        (
            "a long-name extension",
            zst(&archive(&link(tar::EntryType::GNULongName))),
            "not a plain file",
        ),
        (
            "a sparse file",
            zst(&archive(&link(tar::EntryType::GNUSparse))),
            "not a plain file",
        ),
        ("a heat twice", zst(&archive(&twice)), "there twice"),
        (
            "a name twice in the manifest",
            zst(&archive(&honest.with(|manifest| {
                let first = manifest.files[0].clone();
                manifest.files.push(first);
            }))),
            "in its manifest twice",
        ),
        (
            "a heat missing",
            zst(&archive(&without(heat))),
            "but not in the bundle",
        ),
        (
            "a heat missing in both",
            {
                let name = String::from_utf8(honest.pieces[heat].name.clone()).unwrap();
                let mut pieces =
                    honest.with(|manifest| manifest.files.retain(|file| file.name != name));
                pieces.remove(heat);
                zst(&archive(&pieces))
            },
            "is missing",
        ),
        (
            "no manifest",
            zst(&archive(&without(0))),
            "is no photofinish bundle",
        ),
        (
            "a manifest of another version",
            zst(&archive(&honest.with(|manifest| manifest.version = 9))),
            "version 9",
        ),
        (
            "a manifest that is junk",
            zst(&archive(&swap(0, &|piece| piece.bytes.fill(b'{')))),
            "manifest.json",
        ),
        (
            "a manifest with no hashes",
            zst(&archive(&{
                let mut pieces = honest.pieces.clone();
                let text = serde_json::to_string(&honest.manifest)
                    .unwrap()
                    .replace("sha256", "sha1");
                pieces[0] = piece("manifest.json", text.as_bytes());
                pieces
            })),
            "manifest.json",
        ),
        (
            "another run",
            zst(&archive(
                &honest.with(|manifest| manifest.run = Digest::of_bytes(b"?")),
            )),
            "not the one",
        ),
        (
            "no run",
            {
                let place = honest.place("run.zst");
                let mut pieces =
                    honest.with(|manifest| manifest.files.retain(|file| file.name != "run.zst"));
                pieces.remove(place);
                zst(&archive(&pieces))
            },
            "no run record",
        ),
        (
            "a run record that is junk",
            {
                let junk = b"no run".to_vec();
                let digest = Digest::of_bytes(&junk);
                let mut pieces = honest.with(|manifest| {
                    manifest.run = digest;
                    let file = manifest
                        .files
                        .iter_mut()
                        .find(|file| file.name == "run.zst");
                    let file = file.unwrap();
                    (file.bytes, file.sha256) = (junk.len() as u64, digest);
                });
                let place = honest.place("run.zst");
                pieces[place] = piece("run.zst", &junk);
                zst(&archive(&pieces))
            },
            "its run record is corrupt: ",
        ),
        (
            "a changed byte",
            zst(&archive(&swap(heat, &|piece| piece.bytes[30] ^= 1))),
            "not what its manifest says",
        ),
        (
            "a size that lies",
            zst(&archive(
                &honest.with(|manifest| manifest.files[1].bytes += 1),
            )),
            "not what its manifest says",
        ),
        (
            "a header that promises exabytes",
            zst(&archive(&swap(heat, &|piece| piece.size = 1 << 60))),
            "more than",
        ),
        (
            "an extra file that is too large",
            zst(&archive(&honest.with_file("extra/bomb", &bomb))),
            "more than",
        ),
        (
            "a heat under a false hash",
            zst(&archive(&honest.with_file(
                &format!("heats/{stray_key}/{stray_key}.heat.zst"),
                b"x",
            ))),
            "not what its name says",
        ),
        (
            "a heat that is junk",
            zst(&archive(&honest.with_file(
                &format!("heats/{stray_key}/{}.heat.zst", Digest::of_bytes(b"x")),
                b"x",
            ))),
            "cannot be decompressed",
        ),
        (
            "a heat of another key",
            {
                let bytes = honest.pieces[heat].bytes.clone();
                let name = format!("heats/{stray_key}/{}.heat.zst", Digest::of_bytes(&bytes));
                zst(&archive(&honest.with_file(&name, &bytes)))
            },
            "another key",
        ),
        (
            "a heat that the run does not name",
            {
                let (_folder, other) = store();
                let header = header("stray");
                let digest = seal(&other.lock().unwrap(), header.clone());
                let bytes = fs::read(sealed_file(&other, &header.key)).unwrap();
                zst(&archive(&honest.with_file(
                    &format!("heats/{}/{digest}.heat.zst", header.key),
                    &bytes,
                )))
            },
            "does not name the heat",
        ),
        (
            "something behind the end",
            {
                let mut bytes = archive(&honest.pieces);
                bytes.extend_from_slice(b"more");
                zst(&bytes)
            },
            "follows the end",
        ),
        (
            "a second archive behind the first",
            {
                let mut bytes = zst(&archive(&honest.pieces));
                bytes.extend(zst(&archive(&[piece("extra/late", b"x")])));
                bytes
            },
            "follows the end",
        ),
        (
            "cut off",
            {
                let bytes = zst(&archive(&honest.pieces));
                bytes[..bytes.len() - 9].to_vec()
            },
            "read",
        ),
    ];
    for (what, bytes, says) in cases {
        match open(&bytes) {
            Ok(_) => panic!("{what} was taken"),
            Err(error) => {
                assert!(error.contains(says), "{what}: {error}");
                assert!(!error.contains("photofinish bench"), "{what}: {error}");
                assert!(!error.chars().any(char::is_control), "{what}: {error:?}");
            }
        }
    }
}

#[test]
fn nothing_from_a_bundle_steers_the_terminal() {
    let honest = honest();
    let evil = "\u{1b}[2J\u{7}\u{202e}";
    let manifest = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut value = serde_json::to_value(&honest.manifest).unwrap();
        change(&mut value);
        let mut pieces = honest.pieces.clone();
        pieces[0] = piece("manifest.json", &serde_json::to_vec(&value).unwrap());
        zst(&archive(&pieces))
    };
    // The JSON reader quotes names that it does not know, and text where it wants a number.
    let unknown = manifest(&|value| value[evil] = 1.into());
    let wrong = manifest(&|value| value["version"] = evil.into());
    let endless = manifest(&|value| value["x".repeat(100_000)] = 1.into());
    let run = {
        let json = format!("{{\"version\":1,\"{}\":1}}", "\\u001b[2J");
        let bytes = zst(json.as_bytes());
        let digest = Digest::of_bytes(&bytes);
        let mut pieces = honest.with(|manifest| {
            manifest.run = digest;
            for file in &mut manifest.files {
                if file.name == "run.zst" {
                    file.bytes = bytes.len() as u64;
                    file.sha256 = digest;
                }
            }
        });
        pieces[honest.place("run.zst")] = piece("run.zst", &bytes);
        zst(&archive(&pieces))
    };
    let cases = [
        (unknown, true),
        (wrong, true),
        (endless, false),
        (run, true),
    ];
    for (bytes, quotes_evil) in cases {
        let error = open(&bytes).err().unwrap();
        assert_eq!(error.contains("u{1b}"), quotes_evil, "{error:?}");
        assert!(!error.contains(char::is_control), "{error:?}");
        assert!(!error.contains('\u{202e}'), "{error:?}");
        assert!(error.chars().count() < 1000, "{error:?}");
    }
    let named = honest.with(|manifest| {
        manifest.tool.version = evil.to_owned();
        manifest.tool.revision = Some(evil.to_owned());
    });
    let (_folder, _store, opened) = open(&zst(&archive(&named))).unwrap();
    let escaped = "\\u{1b}[2J\\u{7}\\u{202e}";
    assert_eq!(opened.tool.version, escaped);
    assert_eq!(opened.tool.revision.as_deref(), Some(escaped));
}

#[test]
fn what_is_no_bundle_is_told_before_there_is_a_store() {
    let honest = honest();
    let folder = honest.folder.path();
    bundle::looks_like(&folder.join("bundle.tar.zst")).unwrap();
    let cases: [(&str, Vec<u8>); 4] = [
        ("empty", vec![]),
        ("text", b"hello, world".to_vec()),
        ("zeros.zst", zst(&[0; 4096])),
        (
            "other.tar.zst",
            zst(&archive(&[piece("manifest.jsonx", b"{}")])),
        ),
    ];
    for (name, bytes) in cases {
        let file = folder.join(name);
        fs::write(&file, bytes).unwrap();
        let error = bundle::looks_like(&file).unwrap_err();
        assert!(
            matches!(error, StoreError::NotABundle { .. }),
            "{name}: {error}"
        );
        let expected = format!("`{}` is no photofinish bundle", file.display());
        assert_eq!(error.to_string(), expected);
    }
    let pipe = folder.join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    for path in [folder, &pipe] {
        let error = bundle::looks_like(path).unwrap_err();
        assert!(matches!(error, StoreError::NotABundle { .. }), "{error}");
    }
    let error = bundle::looks_like(&folder.join("none"))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("it cannot be opened: No such file"),
        "{error}"
    );
}

#[test]
fn a_bundle_is_read_in_a_store_that_goes_away() {
    let honest = honest();
    let file = honest.folder.path().join("bundle.tar.zst");
    let (store, folder) = Store::temporary().unwrap();
    let opened = store
        .lock()
        .unwrap()
        .open_bundle(&file, &|_, _| Ok(()), &|| false)
        .unwrap();
    assert_eq!(store.latest_run().unwrap().unwrap().0, opened.run);
    let (another, _folder) = Store::temporary().unwrap();
    assert!(another.latest_run().unwrap().is_none());
    drop(folder);
    assert!(!store.path().exists());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.div_ceil(5)))]

    /// Flipped bytes in the archive, below the compression, never panic and never pass.
    #[test]
    fn damage_is_refused(place in any::<prop::sample::Index>(), mask in 1_u8..) {
        let honest = honest();
        let good = archive(&honest.pieces);
        let mut bytes = good;
        let place = place.index(bytes.len());
        bytes[place] ^= mask;
        if let Ok((_folder, store, opened)) = open(&zst(&bytes)) {
            // Padding and the owner's fields carry nothing.
            prop_assert_eq!(opened.run, honest.run);
            let record = store.run(&honest.run).unwrap();
            for heat in &record.heats {
                let HeatResult::Sealed(digest) = &heat.heat else { continue };
                prop_assert!(store.heat(&heat.key, digest).is_ok());
            }
        }
    }
}

#[test]
fn a_run_that_later_stages_refuse_leaves_the_store_as_it_was() {
    let honest = honest();
    let file = honest.folder.path().join("bundle.tar.zst");
    let (_folder, store) = store();
    let lock = store.lock().unwrap();
    let refuse = |_: &schema::RunRecord, _: &dyn Fn(&_, &_) -> _| {
        Err("job `\u{1b}x` occurs twice".to_owned())
    };
    let error = lock.open_bundle(&file, &refuse, &|| false).unwrap_err();
    assert!(matches!(error, StoreError::Bundle { .. }));
    let said = error.to_string();
    assert!(
        said.contains("occurs twice") && !said.contains('\u{1b}'),
        "{said}"
    );
    assert!(store.known_heats().unwrap().heats.is_empty());
    assert!(store.latest_run().unwrap().is_none());
}
