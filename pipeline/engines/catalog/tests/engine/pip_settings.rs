//! The user's own settings of pip are honoured where they say where wheels come from, and have no
//! say in where they go.

use std::{
    env, fs,
    path::PathBuf,
    process::{Command, Output},
};

use photofinish_catalog::Catalog;

use crate::common::{self, Demo, Watcher, kit, names, settings};

const ROOT: &str = "PHOTOFINISH_TEST_INSTALL";

/// Not a test of its own: an installer whose environment the tests below choose.
#[test]
#[ignore = "run by the tests below"]
fn installer() {
    let root = PathBuf::from(env::var_os(ROOT).expect("the folder to install into"));
    let lock = fs::read_to_string(root.join("lock.txt")).unwrap();
    let mut settings = settings(&root);
    settings.pip.find_links.clear();
    let catalog = Catalog::with_kits(vec![kit(&lock, &"ab".repeat(32))], &settings).unwrap();
    catalog
        .install(&[String::from("demo")], &mut Watcher::default())
        .unwrap();
}

fn install(case: &Demo, variables: &[(&str, String)]) -> Output {
    let root = case.folder.path();
    fs::write(root.join("lock.txt"), case.lock()).unwrap();
    Command::new(env::current_exe().unwrap())
        .args(["--exact", "pip_settings::installer", "--ignored"])
        // A machine's own would come before the file that the test writes.
        .env_remove("PIP_FIND_LINKS")
        .env(ROOT, root)
        .envs(variables.iter().map(|(name, value)| (*name, value)))
        .output()
        .unwrap()
}

#[test]
fn an_index_of_pips_own_configuration_is_used() {
    let case = Demo::new();
    let root = case.folder.path();
    let config = root.join("pip.conf");
    let text = format!(
        "[global]\nfind-links = {}\n[install]\nuser = true\n",
        root.join("index").display()
    );
    fs::write(&config, text).unwrap();
    let output = install(
        &case,
        &[("PIP_CONFIG_FILE", config.to_str().unwrap().to_owned())],
    );
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
    assert!(case.home().join(common::LIBRARY).exists());
}

#[test]
fn options_that_send_packages_elsewhere_are_not() {
    let case = Demo::new();
    let root = case.folder.path();
    let elsewhere = root.join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let configuration = root.join("pip.conf");
    fs::write(&configuration, "[global]\nconstraint = /none.txt\n").unwrap();
    let place = elsewhere.to_str().unwrap().to_owned();
    let output = install(
        &case,
        &[
            (
                "PIP_FIND_LINKS",
                root.join("index").to_str().unwrap().to_owned(),
            ),
            (
                "PIP_CONFIG_FILE",
                configuration.to_str().unwrap().to_owned(),
            ),
            ("PIP_TARGET", place.clone()),
            ("PIP_PREFIX", place.clone()),
            ("PIP_ROOT", place.clone()),
            ("PIP_REQUIREMENT", format!("{place}/none.txt")),
            ("PIP_CONSTRAINT", format!("{place}/none.txt")),
            ("PIP_PYTHON", format!("{place}/python")),
            ("PIP_USER", String::from("1")),
            ("PIP_REQUIRE_VIRTUALENV", String::from("1")),
            ("PIP_NO_BINARY", String::from(":all:")),
            ("PIP_DRY_RUN", String::from("1")),
        ],
    );
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
    assert!(case.home().join(common::LIBRARY).exists());
    assert!(names(&elsewhere).is_empty());
}
