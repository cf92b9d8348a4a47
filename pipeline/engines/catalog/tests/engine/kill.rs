//! An installer may be killed at any moment: what it leaves is nothing or all, and the next one
//! comes to the end.

use std::{
    env, fs,
    os::unix::process::CommandExt as _,
    path::PathBuf,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use photofinish_catalog::{Catalog, EngineState};

use crate::common::{Demo, Watcher, kit, settings, tree};

/// Set for the long form of the tests.
const FULL: &str = "PHOTOFINISH_TEST_FULL";
const ROOT: &str = "PHOTOFINISH_TEST_INSTALL";

/// Not a test of its own: the program that is killed.
#[test]
#[ignore = "run by the test below"]
fn installer() {
    let root = PathBuf::from(env::var_os(ROOT).expect("the folder to install into"));
    let lock = fs::read_to_string(root.join("lock.txt")).unwrap();
    let kits = vec![kit(&lock, &"ab".repeat(32))];
    let catalog = Catalog::with_kits(kits, &settings(&root)).unwrap();
    catalog
        .install(&[String::from("demo")], &mut Watcher::default())
        .unwrap();
}

#[test]
fn an_installer_that_is_killed_leaves_nothing_or_all() {
    let case = Demo::new();
    let root = case.folder.path();
    fs::write(root.join("lock.txt"), case.lock()).unwrap();
    let catalog = case.catalog();
    let mut unfinished = 0;
    let moments = if env::var_os(FULL).is_some() { 30 } else { 6 };
    for moment in 0..moments {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "kill::installer", "--ignored"])
            .env(ROOT, root)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        // The whole takes two or three seconds: the moments are spread over it.
        thread::sleep(Duration::from_millis(30 + 3000 * moment / moments));
        let group = Pid::from_raw(i32::try_from(child.id()).unwrap());
        let _ = killpg(group, Signal::SIGKILL);
        child.wait().unwrap();
        match catalog.state(&catalog.kits()[0]) {
            EngineState::NotInstalled { .. } => unfinished += 1,
            EngineState::Installed { .. } => fs::remove_dir_all(case.home()).unwrap(),
            other => panic!("half an installation: {other:?}"),
        }
    }
    assert!(
        unfinished > 0,
        "the first is killed before Python has even started"
    );
    catalog
        .install(&[String::from("demo")], &mut Watcher::default())
        .unwrap();
    let survivor = tree(&case.home());
    assert!(case.left_in_staging().is_empty());
    let fresh = Demo::new();
    fresh
        .catalog()
        .install(&[String::from("demo")], &mut Watcher::default())
        .unwrap();
    let relative = |tree: std::collections::BTreeMap<PathBuf, Vec<u8>>, home: PathBuf| {
        tree.into_iter()
            .map(|(path, content)| (path.strip_prefix(&home).unwrap().to_owned(), content))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        relative(survivor, case.home()),
        relative(tree(&fresh.home()), fresh.home())
    );
}
