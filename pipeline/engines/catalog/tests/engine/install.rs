//! Engines are installed whole or not at all, from the wheels that their lock file names.

use std::{fs, os::unix::fs::PermissionsExt as _};

use photofinish_catalog::{Catalog, CatalogError, EngineState, InstallEvent};
use schema::OutcomeKind;

use crate::common::{self, Demo, LIBRARY, Watcher, kit, tree, wheel};

fn demo() -> Vec<String> {
    vec![String::from("demo")]
}

#[test]
fn an_engine_is_installed_once_and_then_needs_nothing() {
    let mut case = Demo::new();
    let catalog = case.catalog();
    let (download_bytes, disk_bytes) = (
        case.wheels.iter().map(common::Wheel::bytes).sum(),
        case.wheels.iter().map(|wheel| wheel.unpacked_bytes).sum(),
    );
    let state = EngineState::NotInstalled {
        download_bytes,
        disk_bytes,
    };
    assert_eq!(catalog.state(&catalog.kits()[0]), state);

    let mut first = Watcher::default();
    catalog.install(&demo(), &mut first).unwrap();
    assert_eq!(first.story(), ["begin", "download", "unpack", "installed"]);
    let path = case.home();
    let begin = InstallEvent::Begin {
        engine: String::from("demo"),
        download_bytes,
        disk_bytes,
        path: path.clone(),
    };
    assert_eq!(first.events[0], begin);
    assert_eq!(
        catalog.state(&catalog.kits()[0]),
        EngineState::Installed { path }
    );
    assert_eq!(fs::read(case.home().join(LIBRARY)).unwrap(), b"the library");
    assert_eq!(
        fs::read(case.home().join("sdk/lib/libdemo.so")).unwrap(),
        b"the library"
    );
    assert_eq!(fs::read(case.home().join("sdk/version")).unwrap(), b"1.0\n");
    assert!(case.kept_wheels().is_empty(), "wheels take room twice");
    assert!(case.left_in_staging().is_empty());

    // No index, no Python, no right to write: nothing of it is needed any more.
    let lock = case.lock();
    fs::remove_dir_all(case.folder.path().join("index")).unwrap();
    case.settings.python = Some("/nonexistent/python".into());
    let before = tree(&case.settings.engines);
    let kit = kit(&lock, &"ab".repeat(32));
    let catalog = Catalog::with_kits(vec![kit], &case.settings).unwrap();
    let mut second = Watcher::default();
    catalog.install(&demo(), &mut second).unwrap();
    catalog.verify(&demo(), &mut second).unwrap();
    assert_eq!(second.story(), ["ready"]);
    assert_eq!(tree(&case.settings.engines), before);
}

#[test]
fn other_content_than_the_lock_file_names_is_refused() {
    let case = Demo::new();
    let catalog = case.catalog();
    let index = case.folder.path().join("index");
    wheel(
        &index,
        "photofinish-demo",
        &[("demo/lib/libdemo.so", "another library")],
    );
    let error = catalog
        .install(&demo(), &mut Watcher::default())
        .unwrap_err();
    let CatalogError::Pip { hint, step, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!(step, "download photofinish-demo 1.0");
    assert!(
        hint.contains("other content than the lock file names"),
        "{hint}"
    );
    assert!(!catalog_home(&case).exists());
    assert!(case.kept_wheels().is_empty());
    assert!(case.left_in_staging().is_empty());
}

/// Whatever `demo-*` is there besides lock files.
fn catalog_home(case: &Demo) -> std::path::PathBuf {
    common::names(&case.settings.engines)
        .into_iter()
        .find(|name| name.starts_with("demo-") && !name.ends_with(".lock"))
        .map_or_else(
            || "/nonexistent".into(),
            |name| case.settings.engines.join(name),
        )
}

#[test]
fn a_wheel_that_was_kept_but_damaged_is_downloaded_again() {
    let case = Demo::new();
    let downloads = case.settings.engines.join("downloads");
    fs::create_dir_all(&downloads).unwrap();
    let [good, cut] = &case.wheels;
    let kept = |wheel: &common::Wheel| downloads.join(wheel.file.file_name().unwrap());
    fs::copy(&good.file, kept(good)).unwrap();
    let mut bytes = fs::read(&cut.file).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(kept(cut), bytes).unwrap();
    let mut watcher = Watcher::default();
    case.catalog().install(&demo(), &mut watcher).unwrap();
    let downloaded = |name: &str| {
        watcher
            .events
            .iter()
            .any(|event| matches!(event, InstallEvent::Download { wheel, .. } if wheel.starts_with(name)))
    };
    assert!(!downloaded("photofinish_demo-"), "it was there");
    assert!(downloaded("photofinish_demo_data-"), "it was damaged");
}

#[test]
fn an_interrupted_download_keeps_what_it_has() {
    let case = Demo::new();
    let catalog = case.catalog();
    let second = |event: &InstallEvent| matches!(event, InstallEvent::Download { wheel, .. } if wheel.contains("demo_data"));
    let error = catalog
        .install(&demo(), &mut Watcher::stopping(second))
        .unwrap_err();
    assert!(matches!(error, CatalogError::Interrupted), "{error}");
    assert!(!case.home().exists());
    assert!(case.left_in_staging().is_empty());
    assert_eq!(
        case.kept_wheels(),
        ["photofinish_demo-1.0-py3-none-any.whl"]
    );

    let mut again = Watcher::default();
    catalog.install(&demo(), &mut again).unwrap();
    let InstallEvent::Begin { download_bytes, .. } = again.events[0] else {
        panic!()
    };
    assert_eq!(download_bytes, case.wheels[1].bytes());
    assert_eq!(again.story(), ["begin", "download", "unpack", "installed"]);
}

#[test]
fn an_interrupted_unpacking_leaves_nothing_half_written() {
    let case = Demo::new();
    let catalog = case.catalog();
    let unpacked = |event: &InstallEvent| matches!(event, InstallEvent::Unpack { .. });
    let error = catalog
        .install(&demo(), &mut Watcher::stopping(unpacked))
        .unwrap_err();
    assert!(matches!(error, CatalogError::Interrupted), "{error}");
    assert!(!case.home().exists());
    assert!(case.left_in_staging().is_empty());
    assert_eq!(case.kept_wheels().len(), 2);
    // With the wheels kept, the network is not needed.
    let mut offline = case.settings.clone();
    offline.pip.find_links.clear();
    let catalog = Catalog::with_kits(vec![case.kit()], &offline).unwrap();
    catalog.install(&demo(), &mut Watcher::default()).unwrap();
}

#[test]
fn what_a_killed_installer_left_is_cleared_away() {
    let case = Demo::new();
    let name = case
        .home()
        .file_name()
        .unwrap()
        .to_str()
        .unwrap()
        .to_owned();
    let staging = case.settings.engines.join("staging");
    fs::create_dir_all(staging.join(format!("{name}.x1/home/site-packages"))).unwrap();
    fs::create_dir_all(staging.join("other-000000000000.x2")).unwrap();
    // No record: someone copied half of an installation.
    fs::create_dir_all(case.home().join("site-packages/demo")).unwrap();
    fs::write(
        case.settings.engines.join(format!("{name}.lock")),
        "process 1\n",
    )
    .unwrap();
    let catalog = case.catalog();
    assert!(matches!(
        catalog.state(&catalog.kits()[0]),
        EngineState::Broken { .. }
    ));
    let mut watcher = Watcher::default();
    catalog.install(&demo(), &mut watcher).unwrap();
    assert_eq!(
        watcher.story(),
        ["broken", "begin", "download", "unpack", "installed"]
    );
    assert_eq!(
        case.left_in_staging(),
        ["other-000000000000.x2"],
        "another engine's stays"
    );
}

#[test]
fn damage_is_found_and_mended() {
    let case = Demo::downloaded();
    let catalog = case.catalog();
    catalog.install(&demo(), &mut Watcher::default()).unwrap();
    let whole = tree(&case.home());
    let file = |name: &str| case.home().join(name);
    let small = "site-packages/demo_data/table.txt";
    type Damage<'a> = (&'a str, Box<dyn Fn() + 'a>);
    let damages: [Damage<'_>; 7] = [
        (
            "table.txt is missing",
            Box::new(|| fs::remove_file(file(small)).unwrap()),
        ),
        (
            "holds 3 bytes instead of 5",
            Box::new(|| fs::write(file(small), "1 2").unwrap()),
        ),
        (
            "libdemo.so is missing",
            Box::new(|| fs::remove_file(file(LIBRARY)).unwrap()),
        ),
        (
            "sdk/lib/libdemo.so is missing",
            Box::new(|| {
                fs::remove_file(file("sdk/lib/libdemo.so")).unwrap();
            }),
        ),
        (
            "complete.json",
            Box::new(|| fs::write(file("complete.json"), "{").unwrap()),
        ),
        (
            "files.json was changed",
            Box::new(|| fs::write(file("files.json"), "{}").unwrap()),
        ),
        (
            "files.json is missing",
            Box::new(|| fs::remove_file(file("files.json")).unwrap()),
        ),
    ];
    for (symptom, damage) in damages {
        damage();
        let EngineState::Broken { what } = catalog.state(&catalog.kits()[0]) else {
            panic!("not found: {symptom}")
        };
        assert!(what.contains(symptom), "{what}");
        let mut watcher = Watcher::default();
        catalog.install(&demo(), &mut watcher).unwrap();
        assert_eq!(watcher.story()[0], "broken");
        assert_eq!(tree(&case.home()), whole, "{symptom}");
    }
    // Same size, other content: only hashes tell.
    fs::write(file(small), "3 2 1").unwrap();
    let mut watcher = Watcher::default();
    catalog.install(&demo(), &mut watcher).unwrap();
    assert_eq!(watcher.story(), ["ready"]);
    catalog.verify(&demo(), &mut watcher).unwrap();
    let what = format!("the content of {small} was changed");
    assert!(watcher.events.contains(&InstallEvent::Broken {
        engine: String::from("demo"),
        what
    }));
    assert_eq!(tree(&case.home()), whole);
}

#[test]
fn of_several_installers_one_works_and_the_others_wait() {
    let case = Demo::downloaded();
    let catalog = case.catalog();
    let watchers: Vec<_> = std::thread::scope(|scope| {
        let install = || {
            let mut watcher = Watcher::default();
            catalog.install(&demo(), &mut watcher).unwrap();
            watcher
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(install)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    let did = |what: &str| {
        watchers
            .iter()
            .filter(|w| w.story().contains(&what))
            .count()
    };
    assert_eq!((did("installed"), did("ready")), (1, 3));
    let holder = format!("process {}", std::process::id());
    for watcher in &watchers {
        for event in &watcher.events {
            if let InstallEvent::Waiting { holder: named, .. } = event {
                // Between taking the lock and writing its name a holder is not known yet.
                assert!(*named == holder || named == "another process", "{named}");
            }
        }
    }
}

#[test]
fn who_waits_for_another_installer_can_be_interrupted() {
    let case = Demo::new();
    fs::create_dir_all(&case.settings.engines).unwrap();
    let name = format!(
        "{}.lock",
        case.home().file_name().unwrap().to_str().unwrap()
    );
    let path = case.settings.engines.join(name);
    fs::write(&path, "process 77\n").unwrap();
    let held = fs::File::open(&path).unwrap();
    held.lock().unwrap();
    let waiting = |event: &InstallEvent| matches!(event, InstallEvent::Waiting { .. });
    let mut watcher = Watcher::stopping(waiting);
    let error = case.catalog().install(&demo(), &mut watcher).unwrap_err();
    assert!(matches!(error, CatalogError::Interrupted), "{error}");
    let event = InstallEvent::Waiting {
        engine: String::from("demo"),
        holder: String::from("process 77"),
    };
    assert_eq!(watcher.events, [event]);
}

#[test]
fn wheels_are_kept_when_the_user_says_so() {
    let mut case = Demo::new();
    case.settings.keep_wheels = true;
    case.catalog()
        .install(&demo(), &mut Watcher::default())
        .unwrap();
    assert_eq!(case.kept_wheels().len(), 2);
}

#[test]
fn a_disk_that_is_too_small_is_told_before_the_download() {
    let case = Demo::new();
    let small = format!(" {} ", case.wheels[1].unpacked_bytes);
    let lock = case.lock().replace(&small, " 1000000000000000000 ");
    let kit = kit(&lock, &"ab".repeat(32));
    let catalog = Catalog::with_kits(vec![kit], &case.settings).unwrap();
    let mut watcher = Watcher::default();
    let error = catalog.install(&demo(), &mut watcher).unwrap_err();
    assert!(matches!(error, CatalogError::DiskFull { .. }), "{error}");
    assert_eq!(watcher.story(), ["begin"]);
}

#[test]
fn a_description_that_names_a_missing_file_installs_nothing() {
    let mut case = Demo::new();
    let index = case.folder.path().join("index");
    case.wheels[0] = wheel(
        &index,
        "photofinish-demo",
        &[("demo/other.txt", "no library")],
    );
    let error = case
        .catalog()
        .install(&demo(), &mut Watcher::default())
        .unwrap_err();
    let CatalogError::Incomplete { missing, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!(missing, LIBRARY);
    assert!(!case.home().exists());
}

#[test]
fn without_a_fitting_python_the_error_says_what_to_install() {
    let mut case = Demo::new();
    let script = |name: &str, text: &str| {
        let path = case.folder.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    };
    let old = script("old", "#!/bin/sh\necho photofinish cpython 3.9 0 20.0\n");
    let bare = script("bare", "#!/bin/sh\necho photofinish cpython 3.12 0 -\n");
    for (python, reason) in [
        (old, "is cpython 3.9"),
        (bare, "(3.12) has no pip"),
        ("/nonexistent/python".into(), "cannot be started"),
        ("/bin/true".into(), "does not answer as a Python does"),
    ] {
        case.settings.python = Some(python);
        let error = case
            .catalog()
            .install(&demo(), &mut Watcher::default())
            .unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains(reason) && text.contains("PHOTOFINISH_PYTHON"),
            "{text}"
        );
    }
    // Known before anything is started: what `plan` says.
    case.settings.python = None;
    case.settings.search_path = case.folder.path().as_os_str().to_owned();
    let availability = case.catalog().availability();
    let missing = availability[&"demo/plain".parse().unwrap()]
        .missing
        .clone()
        .unwrap();
    assert!(
        missing.starts_with("no python3 is on the search path"),
        "{missing}"
    );
}

#[test]
fn the_sizes_ahead_are_those_of_the_python_at_hand() {
    let mut case = Demo::new();
    let wheels = |python: &str, sizes: &str, hash: char| {
        let hash = String::from(hash).repeat(64);
        let comment = format!("# demo-1.0-{python}-{python}-linux_x86_64.whl {sizes} {hash}");
        (comment, format!(" \\\n    --hash=sha256:{hash}"))
    };
    let (old, new) = (
        wheels("cp311", "700 90", 'a'),
        wheels("cp312", "12 34", 'b'),
    );
    let lock = format!(
        "{}\n{}\nphotofinish-demo==1.0{}{}\n\n{}",
        old.0,
        new.0,
        old.1,
        new.1,
        case.wheels[1].lock()
    );
    let script = case.folder.path().join("python");
    fs::write(&script, "#!/bin/sh\necho photofinish cpython 3.12 0 23.0\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let sizes = |settings: &photofinish_catalog::Settings| {
        let kit = kit(&lock, &"ab".repeat(32));
        let catalog = Catalog::with_kits(vec![kit], settings).unwrap();
        match catalog.state(&catalog.kits()[0]) {
            EngineState::NotInstalled {
                download_bytes,
                disk_bytes,
            } => (download_bytes, disk_bytes),
            other => panic!("{other:?}"),
        }
    };
    let (download, disk) = (case.wheels[1].bytes(), case.wheels[1].unpacked_bytes);
    case.settings.python = Some(script);
    assert_eq!(sizes(&case.settings), (12 + download, 34 + disk));
    // Without one: at most.
    case.settings.python = Some("/nonexistent/python".into());
    assert_eq!(sizes(&case.settings), (700 + download, 90 + disk));
}

#[test]
fn a_worker_is_started_only_when_its_engine_is_there() {
    let case = Demo::downloaded();
    let catalog = case.catalog();
    let plain = "demo/plain".parse().unwrap();
    let reason = |wanted: &schema::EngineVariant, kind| {
        let outcome = catalog.command(wanted).unwrap_err();
        assert_eq!(outcome.kind, kind);
        outcome.reason
    };
    let remedy = "run `photofinish engines install demo`";
    let text = reason(&plain, OutcomeKind::Unavailable);
    assert_eq!(text, format!("engine `demo` is not installed: {remedy}"));
    let text = reason(&"demo/fancy".parse().unwrap(), OutcomeKind::Unsupported);
    assert_eq!(text, "engine `demo` has no variant `fancy`");
    let text = reason(&"dome/plain".parse().unwrap(), OutcomeKind::Unavailable);
    assert_eq!(text, "unknown engine `dome`; known engines: demo");

    catalog.install(&demo(), &mut Watcher::default()).unwrap();
    let text = reason(&plain, OutcomeKind::Unavailable);
    assert!(text.contains("no checkout to build it from"), "{text}");
    assert_eq!(
        catalog.availability()[&"demo/plain".parse().unwrap()].missing,
        Some(text)
    );

    let program = case.settings.binaries[0].join("demo-worker");
    fs::create_dir_all(&case.settings.binaries[0]).unwrap();
    fs::copy("/bin/true", &program).unwrap();
    let command = catalog.command(&plain).unwrap();
    assert_eq!(command.program, program);
    let library = case.home().join(LIBRARY);
    assert_eq!(command.env["DEMO_LIBRARY"], library.to_str().unwrap());
    let folder = library.parent().unwrap().to_str().unwrap();
    assert_eq!(
        command.env["LD_LIBRARY_PATH"],
        format!("{folder}:/users/own")
    );
    assert_eq!(
        catalog.availability()[&"demo/plain".parse().unwrap()].missing,
        None
    );

    fs::remove_file(case.home().join("sdk/lib/libdemo.so")).unwrap();
    let text = reason(&plain, OutcomeKind::Unavailable);
    assert_eq!(
        text,
        format!("engine `demo` is damaged (sdk/lib/libdemo.so is missing): {remedy}")
    );
}
