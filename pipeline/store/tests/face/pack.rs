//! Packing bundles: what may be packed, where to, and what is left when it fails.

use std::{collections::BTreeMap, fs, path::Path};

use photofinish_store::{StoreError, bundle};
use schema::Digest;

use crate::common::{archive::*, *};

#[test]
fn only_whole_runs_are_packed() {
    let honest = honest();
    let out = honest.store.path().join("b.tar.zst");
    let none = BTreeMap::new();
    let bad_extra = BTreeMap::from([("../x".to_owned(), vec![])]);
    assert!(
        bundle::pack(
            &honest.store,
            &honest.run,
            &tool(),
            &bad_extra,
            &out,
            &|| false
        )
        .is_err()
    );
    assert!(
        bundle::pack(
            &honest.store,
            &Digest::of_bytes(b"?"),
            &tool(),
            &none,
            &out,
            &|| false
        )
        .is_err()
    );
    let key = header("a").key;
    fs::write(sealed_file(&honest.store, &key), "junk").unwrap();
    let error =
        bundle::pack(&honest.store, &honest.run, &tool(), &none, &out, &|| false).unwrap_err();
    assert!(error.as_corrupt().is_some(), "{error}");
    assert!(!out.exists());
}

#[test]
fn a_bundle_that_cannot_be_written_is_named_plainly() {
    let honest = honest();
    let none = BTreeMap::new();
    let pack = |out: &Path| {
        bundle::pack(&honest.store, &honest.run, &tool(), &none, out, &|| false)
            .unwrap_err()
            .to_string()
    };
    let folder = honest.store.path().join("no/such");
    let expected = format!("folder `{}` does not exist", folder.display());
    assert_eq!(pack(&folder.join("b.tar.zst")), expected);
    // The kernel's folder, into which not even root can write.
    let error = pack(Path::new("/proc/b.tar.zst"));
    assert!(
        error.starts_with("cannot write bundle `/proc/b.tar.zst`: "),
        "{error}"
    );
    assert!(!error.contains(".photofinish-bundle-"), "{error}");
}

#[test]
fn a_bundle_replaces_a_bundle_and_nothing_else() {
    let honest = honest();
    let none = BTreeMap::new();
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let pack = |name: &str| {
        bundle::pack(
            &honest.store,
            &honest.run,
            &tool(),
            &none,
            &at(name),
            &|| false,
        )
        .map_err(|error| error.to_string())
    };
    fs::write(at("notes"), "mine").unwrap();
    fs::write(at("empty"), "").unwrap();
    fs::create_dir(at("folder")).unwrap();
    nix::unistd::mkfifo(&at("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    for (link, target) in [
        ("to_bundle", "bundle"),
        ("to_notes", "notes"),
        ("to_none", "none"),
    ] {
        std::os::unix::fs::symlink(at(target), at(link)).unwrap();
    }
    for name in ["bundle", "bundle", "to_bundle", "empty"] {
        pack(name).unwrap();
    }
    assert!(at("to_bundle").is_symlink());
    bundle::looks_like(&at("bundle")).unwrap();
    for (name, reason) in [
        ("notes", "another file, which is no bundle"),
        ("to_notes", "another file, which is no bundle"),
        ("folder", "something that is no file"),
        ("fifo", "something that is no file"),
        ("to_none", "a link that leads nowhere"),
    ] {
        let error = pack(name).unwrap_err();
        assert!(error.contains(reason), "{name}: {error}");
    }
    assert_eq!(fs::read_to_string(at("notes")).unwrap(), "mine");
}

#[test]
fn who_stops_packing_or_opening_leaves_nothing_behind() {
    let honest = honest();
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("bundle");
    let pack = |stop: &dyn Fn() -> bool| {
        bundle::pack(
            &honest.store,
            &honest.run,
            &tool(),
            &BTreeMap::new(),
            &out,
            stop,
        )
    };
    let asked = std::cell::Cell::new(0);
    let after = |count: u32| {
        let asked = &asked;
        asked.set(0);
        move || asked.replace(asked.get() + 1) >= count
    };
    for count in 0..4 {
        let stopped = pack(&after(count)).unwrap_err();
        assert!(matches!(stopped, StoreError::Interrupted), "{count}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
    pack(&|| false).unwrap();
    let (_folder, store) = store();
    let lock = store.lock().unwrap();
    for count in 0..2 {
        let stopped = lock
            .open_bundle(&out, &|_, _| Ok(()), &after(count))
            .unwrap_err();
        assert!(matches!(stopped, StoreError::Interrupted), "{count}");
        assert!(store.latest_run().unwrap().is_none());
    }
}
