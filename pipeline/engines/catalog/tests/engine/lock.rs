//! A lock file can be written again from an index, and says the same of the same wheels.

use std::fs;

use photofinish_catalog::{
    CatalogError,
    lock::{Lock, WriteLock, write},
};

use crate::common::{Demo, Watcher};

fn written(case: &Demo, requirements: &[&str]) -> Result<String, CatalogError> {
    let downloads = case.folder.path().join("downloads");
    fs::create_dir_all(&downloads).unwrap();
    let requirements: Vec<_> = requirements.iter().map(|text| (*text).to_owned()).collect();
    let settings = &case.settings;
    let wanted = WriteLock {
        requirements: &requirements,
        downloads: &downloads,
        settings,
    };
    write(&wanted, &mut Watcher::default())
}

#[test]
fn a_lock_file_names_the_wheels_of_the_index() {
    let case = Demo::new();
    let text = written(
        &case,
        &["photofinish-demo==1.0", "photofinish-demo-data==1.0"],
    )
    .unwrap();
    let expected = Lock::parse(&case.lock()).unwrap();
    assert_eq!(Lock::parse(&text).unwrap().pins, expected.pins);
    let comments: Vec<_> = text.lines().take(2).collect();
    assert!(
        comments.iter().all(|line| line.starts_with("# ")),
        "{comments:?}"
    );
}

#[test]
fn a_package_that_no_index_has_is_an_error() {
    let case = Demo::new();
    let error = written(&case, &["photofinish-nowhere==9"]).unwrap_err();
    assert!(matches!(error, CatalogError::Pip { .. }), "{error}");
}
