//! A kit may stand on the installation of another: it is installed after it, imports its packages,
//! and is another installation when the other changes.

use std::{fs, process::Command};

use photofinish_catalog::{Catalog, CatalogError, EngineState, Kit, Sources};
use schema::EngineVariant;

use crate::common::{Demo, KitText, PYTHON_WORKER, Watcher, installed};

const DIGEST: &str = "efefefefefefefefefefefefefefefefefefefefefefefefefefefefefefefef";

/// What a kit's `engine.toml` says whose worker is written in Python.
fn text(engine: &str, wheel: &str, install: &str) -> String {
    KitText {
        engine,
        worker: PYTHON_WORKER,
        wheel,
        install,
        variants: &["plain"],
        language: "python",
    }
    .text()
}

/// Reads a file of each wheel by the folders that Python imports from.
const SOURCES: Sources = &[(
    "demo_worker/__main__.py",
    "import pathlib, sys\n\
     packages = [pathlib.Path(folder) for folder in sys.path if 'packages' in folder]\n\
     print(*(folder.parent.name.split('-')[0] for folder in packages))\n\
     print(*(folder / name for folder in packages for name in ('demo_data', 'demo') \
     if (folder / name).exists()), sep='\\n')\n",
)];

/// The kit `lower` of the second wheel.
fn lower(case: &Demo) -> Kit {
    let text = text("lower", "photofinish-demo-data", "");
    let lock = case.wheels[1].lock();
    Kit::built_in("python/lower", &text, Some(&lock), DIGEST, SOURCES).unwrap()
}

/// The kit `upper` of a wheel, standing on a folder.
fn upper(case: &Demo, wheel: usize, base: &str) -> Kit {
    let wheel = &case.wheels[wheel];
    let text = text("upper", wheel.name, &format!("base = {base:?}"));
    Kit::built_in("python/upper", &text, Some(&wheel.lock()), DIGEST, SOURCES).unwrap()
}

fn catalog(case: &Demo) -> Catalog {
    let kits = vec![upper(case, 0, "python/lower"), lower(case)];
    Catalog::with_kits(kits, &case.settings).unwrap()
}

fn variant(name: &str) -> EngineVariant {
    name.parse().unwrap()
}

fn story(told: &[(&str, bool)]) -> Vec<(String, bool)> {
    let own = |(name, new): &(&str, bool)| (format!("{name} (python)"), *new);
    told.iter().map(own).collect()
}

fn state(catalog: &Catalog, name: &str) -> EngineState {
    catalog.state(catalog.kit(&variant(name)).unwrap())
}

#[test]
fn a_base_is_installed_first_and_its_packages_come_behind() {
    let case = Demo::downloaded();
    let catalog = catalog(&case);
    let both: u64 = case.wheels.iter().map(|wheel| wheel.unpacked_bytes).sum();
    let EngineState::NotInstalled { disk_bytes, .. } = state(&catalog, "upper/plain") else {
        panic!("nothing is installed")
    };
    assert_eq!(disk_bytes, both, "its base is counted");
    assert_eq!(
        installed(&catalog, "upper"),
        story(&[("lower", true), ("upper", true)])
    );
    assert_eq!(
        installed(&catalog, "upper"),
        story(&[("lower", false), ("upper", false)])
    );
    let words = [String::from("upper")];
    catalog
        .build_workers(&words, &mut Watcher::default())
        .unwrap();
    let command = catalog.command(&variant("upper/plain")).unwrap();
    let output = Command::new(&command.program)
        .args(&command.args)
        .envs(&command.env)
        .output()
        .unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<_> = told.lines().collect();
    assert_eq!(
        lines[0],
        "upper lower",
        "{told}{:?}",
        String::from_utf8(output.stderr)
    );
    assert!(lines[1].contains("/upper-") && lines[1].ends_with("/demo"));
    assert!(lines[2].contains("/lower-") && lines[2].ends_with("/demo_data"));
}

#[test]
fn what_a_base_loses_its_kit_loses_too() {
    let case = Demo::downloaded();
    let catalog = catalog(&case);
    installed(&catalog, "upper");
    let EngineState::Installed { path } = state(&catalog, "lower/plain") else {
        panic!("installed")
    };
    let table = path.join("site-packages/demo_data/table.txt");
    fs::write(&table, "1 2 3 4").unwrap();
    let EngineState::Broken { what } = state(&catalog, "upper/plain") else {
        panic!("broken")
    };
    assert!(
        what.starts_with("lower (python): ") && what.contains("table.txt"),
        "{what}"
    );
    assert_eq!(
        installed(&catalog, "upper"),
        story(&[("lower", true), ("upper", false)])
    );
    fs::remove_dir_all(&path).unwrap();
    let outcome = catalog.command(&variant("upper/plain")).unwrap_err();
    assert!(outcome.reason.contains("is not installed"), "{outcome:?}");
    let EngineState::NotInstalled { disk_bytes, .. } = state(&catalog, "upper/plain") else {
        panic!("its base is gone")
    };
    assert_eq!(disk_bytes, case.wheels[1].unpacked_bytes);
}

#[test]
fn a_base_whose_engine_the_user_replaced_is_still_a_base() {
    let case = Demo::downloaded();
    let registered = r#"
[engines.lower]
replace = true
command = ["true"]
version = "1"

[[engines.lower.variants]]
name = "plain"
summary = "another"
host_language = "rust"
devices = ["cpu"]
precisions = ["fp32"]
modes = ["inference"]
boundaries = ["step"]
"#;
    fs::create_dir_all(&case.settings.config).unwrap();
    fs::write(case.settings.config.join("engines.toml"), registered).unwrap();
    let catalog = catalog(&case);
    assert!(matches!(
        state(&catalog, "lower/plain"),
        EngineState::Registered { .. }
    ));
    assert_eq!(
        installed(&catalog, "upper"),
        story(&[("lower", true), ("upper", true)])
    );
    assert!(matches!(
        state(&catalog, "upper/plain"),
        EngineState::Installed { .. }
    ));
}

#[test]
fn a_kit_is_made_for_the_python_of_its_base() {
    let case = Demo::downloaded();
    let catalog = catalog(&case);
    installed(&catalog, "upper");
    let EngineState::Installed { path } = state(&catalog, "lower/plain") else {
        panic!("installed")
    };
    let record = path.join("complete.json");
    let python = catalog.command(&variant("lower/plain"));
    assert!(python.is_err(), "its worker is not in place");
    let text = fs::read_to_string(&record).unwrap();
    let line = text.lines().find(|line| line.contains("\"interpreter\""));
    let real = line.unwrap().split('"').nth(3).unwrap();
    // The base is installed anew, for another Python.
    let other = case.folder.path().join("python3");
    std::os::unix::fs::symlink(real, &other).unwrap();
    fs::write(&record, text.replace(real, other.to_str().unwrap())).unwrap();
    let EngineState::Broken { what } = state(&catalog, "upper/plain") else {
        panic!("broken")
    };
    assert!(what.contains("made for another Python"), "{what}");
}

#[test]
fn another_base_makes_another_installation() {
    let case = Demo::new();
    let first = catalog(&case);
    let lock = |catalog: &Catalog, name: &str| catalog.availability()[&variant(name)].lock.unwrap();
    assert_ne!(
        lock(&first, "upper/plain"),
        upper(&case, 0, "python/lower").lock().unwrap().digest
    );
    let text = text("lower", "photofinish-demo-data", "");
    let changed = format!("# A word more.\n{}", case.wheels[1].lock());
    let changed = Kit::built_in("python/lower", &text, Some(&changed), DIGEST, SOURCES).unwrap();
    let kits = vec![upper(&case, 0, "python/lower"), changed];
    let second = Catalog::with_kits(kits, &case.settings).unwrap();
    assert_ne!(lock(&first, "lower/plain"), lock(&second, "lower/plain"));
    assert_ne!(lock(&first, "upper/plain"), lock(&second, "upper/plain"));
    let again = catalog(&case);
    assert_eq!(lock(&first, "upper/plain"), lock(&again, "upper/plain"));
}

#[test]
fn what_cannot_be_stood_on_is_refused() {
    let case = Demo::new();
    let wrong = |kits: Vec<Kit>| -> String {
        let error: CatalogError = Catalog::with_kits(kits, &case.settings).unwrap_err();
        error.to_string()
    };
    for (kits, reason) in [
        (
            vec![upper(&case, 0, "python/nothing")],
            "[install] base = \"python/nothing\": there is no such folder",
        ),
        (
            vec![upper(&case, 1, "python/lower"), lower(&case)],
            "it has photofinish-demo-data already",
        ),
        (
            vec![upper(&case, 1, "demo"), case.kit()],
            "a base is a kit with a Python worker that stands on no other",
        ),
        (
            vec![upper(&case, 0, "python/upper")],
            "a base is a kit with a Python worker that stands on no other",
        ),
    ] {
        let message = wrong(kits);
        assert!(
            message.contains(reason) && message.contains("python/upper"),
            "{message}"
        );
    }
}
