//! Whatever lies in the place of the user's files is told at once, and never read whole.

use std::{
    ffi::OsString,
    fs,
    os::unix::{fs::symlink, net::UnixListener},
    path::Path,
    process::Command,
};

use photofinish_catalog::{Catalog, CatalogError, Settings};

/// Puts something in a path's place.
type Put<'a> = &'a dyn Fn(&Path);

fn settings(config: &Path) -> Result<Settings, CatalogError> {
    let config = config.as_os_str().to_owned();
    Settings::from_variables(&move |name| match name {
        "PHOTOFINISH_CONFIG" => Some(config.clone()),
        "HOME" => Some(OsString::from("/nonexistent")),
        _ => None,
    })
}

/// The error when `name` in a fresh folder is what `put` makes it.
fn refused(name: &str, put: Put<'_>) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    put(&path);
    let loaded = settings(folder.path())
        .and_then(|settings| Catalog::with_kits(Vec::new(), &settings).map(|_| ()));
    let error = loaded.expect_err(name).to_string();
    assert!(error.contains(&path.display().to_string()), "{error}");
    assert!(error.contains("PHOTOFINISH_CONFIG"), "{error}");
    error
}

#[test]
fn only_small_regular_files_are_read() {
    let fifo = |path: &Path| assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    let socket = |path: &Path| drop(UnixListener::bind(path).unwrap());
    let device = |path: &Path| symlink("/dev/zero", path).unwrap();
    let folder = |path: &Path| fs::create_dir(path).unwrap();
    let sparse = |path: &Path| fs::File::create(path).unwrap().set_len(20 << 20).unwrap();
    let dangling = |path: &Path| symlink("nowhere", path).unwrap();
    let latin = |path: &Path| fs::write(path, b"# caf\xe9").unwrap();
    let cases: [(Put<'_>, &str); 7] = [
        (&fifo, "no regular file"),
        (&socket, "no regular file"),
        (&device, "no regular file"),
        (&folder, "no regular file"),
        (&sparse, "larger than 1 MiB"),
        (&dangling, "a link that leads nowhere"),
        (&latin, "not UTF-8 from byte 5 on"),
    ];
    for name in ["engines.toml", "config.toml"] {
        for (put, reason) in cases {
            let error = refused(name, put);
            assert!(error.contains(reason), "{error}");
        }
    }
}

#[test]
fn a_file_that_may_not_be_read_is_named() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.toml");
    fs::write(&path, "").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    // Who is root may read everything.
    if fs::File::open(&path).is_err() {
        let error = settings(folder.path()).unwrap_err().to_string();
        assert!(error.contains(&path.display().to_string()), "{error}");
        assert!(error.contains("PHOTOFINISH_CONFIG"), "{error}");
    }
}

#[test]
fn a_folder_that_was_named_must_be_there() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing");
    let error = settings(&missing).unwrap_err();
    assert!(matches!(&error, CatalogError::NoConfigFolder { folder } if *folder == missing));
    fs::create_dir(&missing).unwrap();
    assert!(settings(&missing).is_ok());
}
