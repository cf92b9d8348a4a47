//! Several folders may hold parts of one engine, and a worker may be written in Python.

use std::{fs, process::Command};

use photofinish_catalog::{Catalog, CatalogError, EngineState, Kit, Sources};
use schema::EngineVariant;

use crate::common::{Demo, Watcher, names, tree};

const DIGEST: &str = "cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd";

/// A second kit of the engine `demo`.
const PYTHON: &str = r#"
name = "demo"
title = "Demo"
version = "1.0"
summary = "driven from Python"

[worker]
module = "demo_worker"
packages = ["demo_worker"]
paths = { DEMO_TABLE = "demo_data/table.txt" }

[install]
requirements = ["photofinish-demo-data==1.0"]
lock = "requirements.txt"

[[variants]]
name = "compiled"
summary = "the other one"
host_language = "python"
devices = ["cpu"]
precisions = ["fp32"]
modes = ["inference"]
boundaries = ["step"]
"#;

/// Tells what it sees: its arguments, its folders, a file of a wheel.
const SOURCES: Sources = &[
    ("demo_worker/__init__.py", ""),
    (
        "demo_worker/__main__.py",
        "import os, subprocess, sys\nfrom demo_worker.part import word\n\
         paths = {**os.environ, 'PYTHONPATH': os.pathsep.join(sys.path)}\n\
         subprocess.run([sys.executable, '-P', '-c', 'import demo_worker.part'], env=paths, check=True)\n\
         print(word, sys.argv[1:], len(sys.path))\n\
         print(open(os.environ['DEMO_TABLE']).read())\n\
         print(*(path for path in sys.path if 'packages' in path))\n",
    ),
    ("demo_worker/part.py", "word = 'part'\n"),
];

fn python_kit(case: &Demo, engine: &str, sources: Sources) -> Result<Kit, CatalogError> {
    let lock = case.wheels[1].lock();
    Kit::built_in("python/demo", engine, Some(&lock), DIGEST, sources)
}

fn catalog(case: &Demo) -> Catalog {
    let kits = vec![case.kit(), python_kit(case, PYTHON, SOURCES).unwrap()];
    Catalog::with_kits(kits, &case.settings).unwrap()
}

fn compiled() -> EngineVariant {
    "demo/compiled".parse().unwrap()
}

fn install(catalog: &Catalog, word: &str) -> Vec<&'static str> {
    let words = [word.to_owned()];
    let mut watcher = Watcher::default();
    catalog.install(&words, &mut watcher).unwrap();
    catalog.build_workers(&words, &mut watcher).unwrap();
    watcher.story()
}

#[test]
fn kits_of_one_engine_are_one_engine_with_availabilities_of_their_own() {
    let case = Demo::new();
    let catalog = catalog(&case);
    let labels: Vec<_> = catalog.kits().iter().map(Kit::label).collect();
    assert_eq!(labels, ["demo", "demo (python)"]);
    let [engine] = &catalog.descriptions()[..] else {
        panic!("one engine")
    };
    let variants: Vec<_> = engine.variants.iter().map(|v| v.name.as_str()).collect();
    assert_eq!(variants, ["plain", "compiled"]);
    assert_eq!(engine.summary, "an engine for tests");
    let availability = catalog.availability();
    let of = |name: &str| &availability[&name.parse::<EngineVariant>().unwrap()];
    assert_eq!(of("demo/compiled").worker.to_string(), DIGEST);
    assert_ne!(of("demo/plain").worker, of("demo/compiled").worker);
    assert_ne!(of("demo/plain").lock, of("demo/compiled").lock);
    // It comes with photofinish, unlike the other, which is not built and cannot be.
    assert_eq!(of("demo/compiled").missing, None);
    assert!(of("demo/plain").missing.is_some());
}

#[test]
fn a_variant_s_kit_is_installed_alone_and_an_engine_s_kits_together() {
    let case = Demo::downloaded();
    let catalog = catalog(&case);
    let installed = || -> Vec<bool> {
        let states = catalog.kits().iter().map(|kit| catalog.state(kit));
        states
            .map(|state| matches!(state, EngineState::Installed { .. }))
            .collect()
    };
    let outcome = catalog.command(&compiled()).unwrap_err();
    assert_eq!(
        outcome.reason,
        "engine `demo/compiled` is not installed: run `photofinish engines install demo/compiled`"
    );
    install(&catalog, "demo/compiled");
    assert_eq!(installed(), [false, true]);
    catalog
        .install(&[String::from("demo")], &mut Watcher::default())
        .unwrap();
    assert_eq!(installed(), [true, true]);
    let error = catalog
        .install(&[String::from("demo/fancy")], &mut Watcher::default())
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "engine `demo` has no variant `fancy`; its variants: plain, compiled"
    );
}

#[test]
fn a_python_worker_runs_on_its_own_packages_alone() {
    let case = Demo::downloaded();
    let catalog = catalog(&case);
    install(&catalog, "demo/compiled");
    let command = catalog.command(&compiled()).unwrap();
    assert!(command.program.is_absolute());
    let elsewhere = case.folder.path().join("elsewhere");
    for module in ["demo_worker.py", "runpy.py"] {
        fs::create_dir_all(&elsewhere).unwrap();
        fs::write(elsewhere.join(module), "raise SystemExit('the wrong one')").unwrap();
    }
    let output = Command::new(&command.program)
        .args(&command.args)
        .envs(&command.env)
        .env("PYTHONPATH", &elsewhere)
        .env_remove("PYTHONDONTWRITEBYTECODE")
        .current_dir(&elsewhere)
        .output()
        .unwrap();
    let (told, log) = (
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    );
    let lines: Vec<_> = told.lines().collect();
    assert!(lines[0].starts_with("part [] "), "{told}{log}");
    assert_eq!(lines[1], "1 2 3");
    let packages: Vec<_> = lines[2].split(' ').collect();
    assert_eq!(packages.len(), 1, "{told}");
    assert!(packages[0].starts_with(case.settings.engines.to_str().unwrap()));
    // What Python compiled lies beside the installation, which is as it was verified.
    let mut watcher = Watcher::default();
    catalog
        .verify(&[String::from("demo/compiled")], &mut watcher)
        .unwrap();
    assert_eq!(watcher.story(), ["ready"]);
    assert_eq!(names(&case.settings.engines.join("cache")).len(), 1);
    let beside = case.settings.engines.join("workers");
    assert!(
        !tree(&beside).keys().any(|path| path.ends_with(".pyc")
            || path
                .components()
                .any(|part| part.as_os_str() == "__pycache__")),
        "a Python that the worker started left something among its files"
    );
}

#[test]
fn a_python_worker_is_put_in_place_once_and_again_when_it_was_changed() {
    let case = Demo::downloaded();
    let catalog = catalog(&case);
    install(&catalog, "demo/compiled");
    let folder = case.settings.engines.join("workers");
    let [worker] = &names(&folder)[..] else {
        panic!("one worker")
    };
    let folder = folder.join(worker).join("demo_worker");
    assert_eq!(install(&catalog, "demo/compiled"), ["ready"]);
    fs::write(folder.join("part.py"), "word = 'other'\n").unwrap();
    assert_eq!(install(&catalog, "demo/compiled"), ["ready", "built"]);
    fs::write(folder.join("more.py"), "").unwrap();
    assert_eq!(install(&catalog, "demo/compiled"), ["ready", "built"]);
    fs::remove_file(folder.join("part.py")).unwrap();
    let outcome = catalog.command(&compiled()).unwrap_err();
    assert!(outcome.reason.contains("is not built"), "{outcome:?}");
    assert_eq!(install(&catalog, "demo/compiled"), ["ready", "built"]);
    assert_eq!(install(&catalog, "demo/compiled"), ["ready"]);
}

#[test]
fn a_worker_that_is_given_onnx_is_known_by_what_writes_it_as_well() {
    let case = Demo::new();
    let text = PYTHON.replace("[worker]\n", "[worker]\nonnx = true\n");
    let kit = python_kit(&case, &text, SOURCES).unwrap();
    let catalog = Catalog::with_kits(vec![kit], &case.settings).unwrap();
    let kit = catalog.kit(&compiled()).unwrap();
    assert!(kit.takes_onnx());
    // The worker tells what it is made of itself; the heats that it runs depend on more.
    assert_eq!(kit.worker().to_string(), DIGEST);
    assert_ne!(catalog.availability()[&compiled()].worker, kit.worker());
}

#[test]
fn a_library_that_the_user_is_to_bring_is_named_until_it_is_there() {
    let mut case = Demo::downloaded();
    let text = PYTHON.replace(
        "[install]",
        "[worker.libraries]\nnames = [\"libphotofinish-demo.so.7\"]\nremedy = \"bring it\"\n\n\
         [install]",
    );
    let catalog = |case: &Demo| {
        let kit = python_kit(case, &text, SOURCES).unwrap();
        Catalog::with_kits(vec![kit], &case.settings).unwrap()
    };
    let lacking = catalog(&case);
    let reason = "engine `demo (python)` needs libphotofinish-demo.so.7, which the dynamic linker \
                  does not find: bring it";
    let missing = lacking.availability()[&compiled()].missing.clone();
    assert_eq!(missing.as_deref(), Some(reason));
    // The rest of it can be installed all the same.
    install(&lacking, "demo/compiled");
    assert_eq!(lacking.command(&compiled()).unwrap_err().reason, reason);
    let folder = case.folder.path().join("brought");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("libphotofinish-demo.so.7"), "").unwrap();
    case.settings.library_path = folder.into();
    let whole = catalog(&case);
    assert_eq!(whole.availability()[&compiled()].missing, None);
    assert!(whole.command(&compiled()).is_ok());
}

#[test]
fn an_installation_whose_python_is_gone_is_made_again() {
    let case = Demo::downloaded();
    let catalog = catalog(&case);
    install(&catalog, "demo/compiled");
    let kit = catalog.kit(&compiled()).unwrap();
    let EngineState::Installed { path } = catalog.state(kit) else {
        panic!("installed")
    };
    let record = path.join("complete.json");
    let interpreter = catalog.command(&compiled()).unwrap().program;
    let text = fs::read_to_string(&record).unwrap();
    let gone = text.replace(interpreter.to_str().unwrap(), "/nonexistent/python3");
    fs::write(&record, gone).unwrap();
    let outcome = catalog.command(&compiled()).unwrap_err();
    assert!(
        outcome
            .reason
            .contains("its Python, /nonexistent/python3, is gone"),
        "{outcome:?}"
    );
    assert!(install(&catalog, "demo/compiled").contains(&"installed"));
    assert_eq!(catalog.command(&compiled()).unwrap().program, interpreter);
}

#[test]
fn kits_that_do_not_fit_together_are_refused() {
    let case = Demo::new();
    let wrong = |engine: String, sources: Sources| {
        let kit = python_kit(&case, &engine, sources);
        kit.and_then(|kit| Catalog::with_kits(vec![case.kit(), kit], &case.settings))
            .unwrap_err()
            .to_string()
    };
    for (from, to, reason) in [
        ("title = \"Demo\"", "title = \"Other\"", "title is `Other`"),
        (
            "version = \"1.0\"",
            "version = \"2.0\"",
            "version is `2.0`, and `1.0` in another folder of the engine",
        ),
        (
            "\"compiled\"",
            "\"plain\"",
            "variant `plain` is another folder's, too",
        ),
        (
            "module = \"demo_worker\"",
            "module = \"demo_worker\"\nbinary = \"demo\"",
            "either `package` and `binary`, or `module`",
        ),
    ] {
        let text = PYTHON.replace(from, to);
        let message = wrong(text, SOURCES);
        assert!(
            message.contains(reason) && message.contains("python/demo"),
            "{message}"
        );
    }
    let message = wrong(PYTHON.to_owned(), &[]);
    assert!(message.contains("hold no file of Python's"), "{message}");
}
