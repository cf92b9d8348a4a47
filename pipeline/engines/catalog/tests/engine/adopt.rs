//! An engine may be made of the packages that a Python of the user's has: nothing is downloaded, nothing
//! of the user's is written to, and results are told from those of what is pinned.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use photofinish_catalog::{Catalog, CatalogError, EngineState, InstallEvent, Kit};
use schema::Digest;

use crate::common::{self, Demo, KitText, PYTHON_WORKER, Watcher, tree, wheel};

const WORKER: &str = "cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd";

fn demo() -> Vec<String> {
    vec![String::from("demo")]
}

/// A Python of the user's own, without pip.
struct Own {
    folder: tempfile::TempDir,
}

impl Own {
    /// With these wheels.
    fn with(wheels: &[&common::Wheel]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let own = Self { folder };
        run(Command::new("python3")
            .args(["-m", "venv", "--without-pip"])
            .arg(own.root()));
        for wheel in wheels {
            own.install(&wheel.file);
        }
        own
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("own")
    }

    fn python(&self) -> PathBuf {
        self.root().join("bin/python3")
    }

    fn packages(&self) -> PathBuf {
        let lib = self.root().join("lib");
        let python = fs::read_dir(lib).unwrap().next().unwrap().unwrap();
        python.path().join("site-packages")
    }

    /// Adds a wheel's files to folders that others have, too, as pip does without `--target`.
    fn add(&self, wheel: &Path) {
        const ADD: &str = "
import sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as archive:
    archive.extractall(sys.argv[2])
    names = archive.namelist()
record = next(name for name in names if name.endswith('RECORD'))
with open(f'{sys.argv[2]}/{record}', 'w') as file:
    file.writelines(f'{name},,\\n' for name in names)
";
        let mut python = Command::new("python3");
        run(python.args(["-c", ADD]).arg(wheel).arg(self.packages()));
    }

    /// Puts a wheel over what is there.
    fn install(&self, wheel: &Path) {
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]);
        pip.args(["--disable-pip-version-check", "--upgrade", "--target"]);
        pip.env("PIP_ROOT_USER_ACTION", "ignore");
        run(pip.arg(self.packages()).arg(wheel));
    }
}

fn run(command: &mut Command) {
    assert!(command.status().unwrap().success(), "{command:?}");
}

/// Adopts what `own` has; the events.
fn adopt(catalog: &Catalog, own: &Own) -> Result<Vec<InstallEvent>, CatalogError> {
    let mut watcher = Watcher::default();
    catalog.adopt(&demo(), &own.python(), &mut watcher)?;
    Ok(watcher.events)
}

fn state(catalog: &Catalog) -> EngineState {
    catalog.state(&catalog.kits()[0])
}

fn identity(catalog: &Catalog) -> Option<Digest> {
    let all = catalog.availability();
    all.values().next().unwrap().lock
}

/// A wheel of the same name and another version.
fn renamed(case: &Demo, wheel: usize, name: &str, version: &str) -> PathBuf {
    const AGAIN: &str = "
import sys, zipfile
source, target, old, new = sys.argv[1:]
with zipfile.ZipFile(source) as before, zipfile.ZipFile(target, 'w') as after:
    for entry in before.infolist():
        text = before.read(entry)
        if entry.filename.endswith('METADATA'):
            name, version = new.rsplit('-', 1)
            text = f'Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n'.encode()
        after.writestr(entry.filename.replace(old, new), text)
";
    let old = &case.wheels[wheel];
    let before = format!("{}-1.0", old.name.replace('-', "_"));
    let after = format!("{}-{version}", name.replace('-', "_"));
    let file = case.folder.path().join(format!("{after}-py3-none-any.whl"));
    let mut python = Command::new("python3");
    python.args(["-c", AGAIN]).arg(&old.file).arg(&file);
    run(python.args([before, after]));
    file
}

/// Where what is adopted is linked from.
fn home(catalog: &Catalog) -> PathBuf {
    match state(catalog) {
        EngineState::Adopted { path, .. } => path,
        other => panic!("{other:?}"),
    }
}

/// How what was adopted differs from what is pinned.
fn differing(told: &[InstallEvent]) -> Vec<String> {
    let differing = told.iter().find_map(|event| match event {
        InstallEvent::Adopted { differing, .. } => Some(differing.clone()),
        _ => None,
    });
    differing.unwrap()
}

fn refused(catalog: &Catalog, own: &Own) -> String {
    match adopt(catalog, own).unwrap_err() {
        CatalogError::Adoption { what, .. } => what,
        other => panic!("{other}"),
    }
}

#[test]
fn packages_are_adopted_where_they_are_and_known_by_their_own_identity() {
    let case = Demo::downloaded();
    let catalog = case.catalog();
    let pinned = identity(&catalog);
    let own = Own::with(&[&case.wheels[0], &case.wheels[1]]);
    let before = tree(&own.root());

    let told = adopt(&catalog, &own).unwrap();
    assert_eq!(differing(&told), Vec::<String>::new());
    assert!(matches!(told.last(), Some(InstallEvent::Installed { .. })));
    let first = home(&catalog);
    let library = fs::read(first.join("sdk/lib/libdemo.so")).unwrap();
    assert_eq!(library, b"the library");
    assert_eq!(
        tree(&own.root()),
        before,
        "what is the user's stays as it is"
    );
    assert!(case.left_in_staging().is_empty());
    let adopted = identity(&catalog);
    assert_ne!(adopted, pinned, "its heats have other keys");

    // A plain installation finds it whole.
    let mut plain = Watcher::default();
    catalog.install(&demo(), &mut plain).unwrap();
    assert_eq!(plain.story(), ["ready"]);

    // What is the same, elsewhere, has the same keys, and a place of its own: workers are linked with it.
    let other = Own::with(&[&case.wheels[0], &case.wheels[1]]);
    adopt(&catalog, &other).unwrap();
    assert_eq!(identity(&catalog), adopted);
    assert_ne!(home(&catalog), first);
    adopt(&catalog, &own).unwrap();
    assert_eq!(home(&catalog), first);

    // And back: what is pinned was never touched.
    let mut back = Watcher::default();
    catalog.install_pinned(&demo(), &mut back).unwrap();
    assert_eq!(back.story().last(), Some(&"installed"));
    assert_eq!(identity(&catalog), pinned);
    assert!(matches!(state(&catalog), EngineState::Installed { path } if path == case.home()));
    adopt(&catalog, &own).unwrap();
    assert!(case.home().is_dir());
    let mut back = Watcher::default();
    catalog.install_pinned(&demo(), &mut back).unwrap();
    assert_eq!(back.story(), ["ready"]);
    assert_eq!(identity(&catalog), pinned);
}

#[test]
fn an_adopted_package_that_changes_is_noticed_and_not_mended_by_a_download() {
    let case = Demo::downloaded();
    let catalog = case.catalog();
    let own = Own::with(&[&case.wheels[0], &case.wheels[1]]);
    adopt(&catalog, &own).unwrap();
    let before = identity(&catalog);

    // As `pip install --target` leaves it: the old record stays beside the new one.
    own.install(&renamed(&case, 1, "photofinish-demo-data", "1.5"));
    let EngineState::Broken { what } = state(&catalog) else {
        panic!("it is another package now")
    };
    assert!(what.contains("photofinish-demo-data"), "{what}");
    let all = catalog.availability();
    let missing = all.values().next().unwrap().missing.clone().unwrap();
    assert!(
        missing.contains("--from") && missing.contains("--pinned"),
        "{missing}"
    );
    let error = catalog
        .install(&demo(), &mut Watcher::default())
        .unwrap_err();
    assert!(
        matches!(error, CatalogError::AdoptedChanged { .. }),
        "{error}"
    );
    let twice = refused(&catalog, &own);
    assert!(twice.contains("is recorded 2 times"), "{twice}");

    // What pip is about to remove is no package.
    let old = own.packages().join("photofinish_demo_data-1.0.dist-info");
    fs::rename(
        &old,
        own.packages().join("~hotofinish_demo_data-1.0.dist-info"),
    )
    .unwrap();
    let told = adopt(&catalog, &own).unwrap();
    let expected = "photofinish-demo-data 1.5 instead of photofinish-demo-data 1.0";
    assert_eq!(differing(&told), [expected]);
    assert_ne!(identity(&catalog), before);

    // Without it a worker would not start, and the plan says so.
    fs::remove_dir_all(own.root()).unwrap();
    assert!(matches!(state(&catalog), EngineState::Broken { .. }));
}

#[test]
fn whoever_has_files_in_a_folder_that_is_linked_is_recorded() {
    let case = Demo::new();
    let catalog = case.catalog();
    let own = Own::with(&[&case.wheels[0], &case.wheels[1]]);
    adopt(&catalog, &own).unwrap();
    let before = identity(&catalog);
    // No package of the kit's, and in the folder of one.
    let folder = case.folder.path().join("more");
    let more = wheel(&folder, "photofinish-more", &[("demo_data/more.txt", "4")]);
    own.add(&more.file);
    adopt(&catalog, &own).unwrap();
    let with_more = identity(&catalog);
    assert_ne!(with_more, before);
    let other = wheel(&folder, "photofinish-else", &[("elsewhere/more.txt", "4")]);
    own.add(&other.file);
    adopt(&catalog, &own).unwrap();
    assert_eq!(identity(&catalog), with_more);
}

#[test]
fn the_engine_itself_must_be_the_pinned_one() {
    let case = Demo::new();
    let catalog = case.catalog();
    let refused = |own: &Own| refused(&catalog, own);
    let none = Own::with(&[&case.wheels[1]]);
    assert_eq!(
        refused(&none),
        "photofinish-demo 1.0 is needed, and it does not have it"
    );
    let newer = Own::with(&[&case.wheels[1]]);
    newer.install(&renamed(&case, 0, "photofinish-demo", "1.1"));
    assert_eq!(
        refused(&newer),
        "photofinish-demo 1.0 is needed, and it has 1.1"
    );
    assert!(matches!(state(&catalog), EngineState::NotInstalled { .. }));
    assert!(case.left_in_staging().is_empty());

    // Who built it is not asked; and what it stands on may be missing.
    let built = Own::with(&[]);
    built.install(&renamed(&case, 0, "photofinish-demo", "1.0+cu130"));
    let told = adopt(&catalog, &built).unwrap();
    assert_eq!(differing(&told), ["no photofinish-demo-data"]);
    // What comes later is found by the same command.
    built.install(&case.wheels[1].file);
    let told = adopt(&catalog, &built).unwrap();
    assert_eq!(differing(&told), Vec::<String>::new());
    assert!(home(&catalog).join("site-packages/demo_data").exists());

    let editable = Own::with(&[]);
    let link = wheel(
        &case.folder.path().join("editable"),
        "photofinish-demo",
        &[("__editable__.photofinish_demo.pth", "/somewhere")],
    );
    editable.install(&link.file);
    assert_eq!(
        refused(&editable),
        "photofinish-demo is installed in editable form"
    );

    for (name, said) in [
        ("/no/such/python", "cannot be started"),
        ("no-such-python", "is not on the search path"),
        ("true", "does not answer as a Python does"),
    ] {
        let mut watcher = Watcher::default();
        let error = catalog.adopt(&demo(), Path::new(name), &mut watcher);
        let error = error.unwrap_err().to_string();
        assert!(error.contains(name) && error.contains(said), "{error}");
    }
}

#[test]
fn a_stand_in_will_do_and_the_user_s_folders_are_not_added_to() {
    let case = Demo::new();
    let text = KitText {
        engine: "demo",
        worker: PYTHON_WORKER,
        wheel: "photofinish-demo",
        install: "instead = { photofinish-demo = [\"photofinish-demo-gpu\"] }\n\
                  [install.files]\n\"site-packages/demo/own.txt\" = \"ours\"\n",
        variants: &["plain"],
        language: "python",
    };
    let sources = &[("demo_worker/__main__.py", "print('here')\n")];
    let lock = case.wheels[0].lock();
    let kit = Kit::built_in("python/demo", &text.text(), Some(&lock), WORKER, sources).unwrap();
    let catalog = Catalog::with_kits(vec![kit], &case.settings).unwrap();
    let own = Own::with(&[]);
    own.install(&renamed(&case, 0, "photofinish-demo-gpu", "1.0"));
    let before = tree(&own.root());

    let told = adopt(&catalog, &own).unwrap();
    let expected = "photofinish-demo-gpu 1.0 instead of photofinish-demo 1.0";
    assert_eq!(differing(&told), [expected]);
    let path = home(&catalog);
    let read = |name: &str| fs::read(path.join("site-packages/demo").join(name)).unwrap();
    assert_eq!(read("own.txt"), b"ours");
    assert_eq!(read("lib/libdemo.so"), b"the library");
    assert_eq!(tree(&own.root()), before);

    // The Python that has the packages runs the worker.
    catalog
        .build_workers(&demo(), &mut Watcher::default())
        .unwrap();
    let command = catalog.command(&"demo/plain".parse().unwrap()).unwrap();
    assert_eq!(command.program, own.python());
    // Which of two that have the same files was installed last cannot be told.
    own.add(&case.wheels[0].file);
    let both = refused(&catalog, &own);
    assert!(
        both.contains("photofinish-demo-gpu") && both.contains("the same files"),
        "{both}"
    );
}

#[test]
fn a_script_that_sets_where_packages_are_is_asked_itself() {
    use std::os::unix::fs::PermissionsExt as _;
    let case = Demo::new();
    let catalog = case.catalog();
    let own = Own::with(&[&case.wheels[0], &case.wheels[1]]);
    let script = case.folder.path().join("with packages");
    let text = format!(
        "#!/bin/sh\nPYTHONPATH='{}' exec python3 \"$@\"\n",
        own.packages().display()
    );
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let mut watcher = Watcher::default();
    catalog.adopt(&demo(), &script, &mut watcher).unwrap();
    assert!(home(&catalog).join("site-packages/demo").exists());
}
