//! A variant may need another kit of its engine: it is installed with that, its worker is told how the
//! other's compiler is started, and both are a part of its key.

use std::{fs, os::unix::fs::PermissionsExt as _, process::Command};

use photofinish_catalog::{Catalog, CatalogError, Kit, Sources};
use schema::EngineVariant;
use worker::WorkerCommand;

use crate::common::{Demo, KitText, PYTHON_WORKER, Watcher, installed};

const OWN: &str = "abababababababababababababababababababababababababababababababab";
const OTHER: &str = "efefefefefefefefefefefefefefefefefefefefefefefefefefefefefefefef";

const NEEDS: &str = "[needs.packed]\nkit = \"python/demo\"\ncompiler = \"demo_worker.compiler\"\n";

const SOURCES: Sources = &[
    ("demo_worker/__main__.py", "print('the worker')\n"),
    (
        "demo_worker/compiler.py",
        "import demo_data, os\nprint(__name__, *demo_data.__path__, os.environ['LD_LIBRARY_PATH'])\n",
    ),
];

/// The kit with a Rust worker, which may need another.
fn main_kit(case: &Demo, needs: &str) -> Kit {
    let text = KitText {
        engine: "demo",
        worker: "package = \"demo-worker\"\nbinary = \"demo-worker\"\n",
        wheel: case.wheels[0].name,
        install: needs,
        variants: &["plain", "packed"],
        language: "rust",
    }
    .text();
    Kit::built_in("demo", &text, Some(&case.wheels[0].lock()), OWN, &[]).unwrap()
}

/// The kit with a Python worker, made of what has this digest.
fn python_kit(case: &Demo, worker: &str) -> Kit {
    let text = KitText {
        engine: "demo",
        worker: PYTHON_WORKER,
        wheel: case.wheels[1].name,
        install: "",
        variants: &["scripted"],
        language: "rust",
    }
    .text();
    let lock = case.wheels[1].lock();
    Kit::built_in("python/demo", &text, Some(&lock), worker, SOURCES).unwrap()
}

fn catalog(case: &Demo) -> Catalog {
    let kits = vec![main_kit(case, NEEDS), python_kit(case, OTHER)];
    Catalog::with_kits(kits, &case.settings).unwrap()
}

/// Libraries for a GPU are among the packages of the kit with the Python worker.
const GPU: &str = "[worker.gpu]\nkit = \"python/demo\"\nfolders = [\"demo_data\"]\n";

fn with_gpu(case: &Demo, gpu: &str) -> Result<Catalog, CatalogError> {
    let kits = vec![main_kit(case, gpu), python_kit(case, OTHER)];
    Catalog::with_kits(kits, &case.settings)
}

fn variant(name: &str) -> EngineVariant {
    format!("demo/{name}").parse().unwrap()
}

/// What is installed anew for a word.
fn made(catalog: &Catalog, word: &str) -> Vec<String> {
    let told = installed(catalog, word).into_iter();
    told.filter_map(|(kit, is_new)| is_new.then_some(kit))
        .collect()
}

/// Puts a program where the Rust worker is looked for.
fn build_worker(case: &Demo) {
    let folder = &case.settings.binaries[0];
    fs::create_dir_all(folder).unwrap();
    let program = folder.join("demo-worker");
    fs::write(&program, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_variant_is_installed_with_the_kit_that_it_needs() {
    let case = Demo::downloaded();
    let catalog = catalog(&case);
    assert_eq!(made(&catalog, "demo/plain"), ["demo"]);
    assert_eq!(made(&catalog, "demo/packed"), ["demo (python)"]);
    assert!(made(&catalog, "demo").is_empty());
}

#[test]
fn its_worker_is_told_how_the_compiler_is_started() {
    let case = Demo::downloaded();
    let catalog = catalog(&case);
    build_worker(&case);
    made(&catalog, "demo/plain");
    let missing = catalog.command(&variant("packed")).unwrap_err();
    assert!(
        missing
            .reason
            .contains("needs demo (python), which is not installed")
            && missing
                .reason
                .ends_with("run `photofinish engines install demo/packed`"),
        "{missing:?}"
    );
    made(&catalog, "demo/packed");
    let words = [String::from("demo/packed")];
    let built = catalog.build_workers(&words, &mut Watcher::default());
    built.unwrap();
    let plain = catalog.command(&variant("plain")).unwrap();
    assert!(!plain.env.contains_key(worker::COMPILER_VARIABLE));
    let packed = catalog.command(&variant("packed")).unwrap();
    assert_eq!(packed.program, plain.program);
    assert!(packed.env.contains_key(worker::CACHE_VARIABLE));
    let compiler: WorkerCommand =
        serde_json::from_str(&packed.env[worker::COMPILER_VARIABLE]).unwrap();
    let output = Command::new(&compiler.program)
        .args(&compiler.args)
        .envs(&compiler.env)
        .output()
        .unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    let words: Vec<_> = told.split_whitespace().collect();
    let [name, packages, libraries] = words[..] else {
        panic!("{told}{:?}", String::from_utf8(output.stderr))
    };
    assert_eq!(name, "__main__");
    assert!(packages.ends_with("/site-packages/demo_data"), "{packages}");
    // The user's own, and nothing of the Rust worker's.
    assert_eq!(libraries, "/users/own");
}

#[test]
fn what_the_other_kit_is_made_from_counts_for_that_variant_alone() {
    let case = Demo::new();
    let first = catalog(&case).availability();
    let kits = vec![main_kit(&case, NEEDS), python_kit(&case, OWN)];
    let second = Catalog::with_kits(kits, &case.settings).unwrap();
    let second = second.availability();
    assert_ne!(first[&variant("packed")], second[&variant("packed")]);
    assert_eq!(first[&variant("plain")], second[&variant("plain")]);
    // The worker says itself what it was built from, and must be taken at its word.
    let worker = |name| first[&variant(name)].worker;
    assert_eq!(worker("packed"), worker("plain"));
}

#[test]
fn what_cannot_be_needed_is_refused() {
    let case = Demo::new();
    for (needs, kits, reason) in [
        (NEEDS, 1, "`python/demo` is no kit of the engine"),
        (
            "[needs.packed]\nkit = \"demo\"\ncompiler = \"m\"\n",
            2,
            "`demo` is no kit of the engine",
        ),
        (
            "[needs.other]\nkit = \"python/demo\"\ncompiler = \"m\"\n",
            2,
            "[needs.other]: there is no such variant",
        ),
    ] {
        let mut all = vec![main_kit(&case, needs), python_kit(&case, OTHER)];
        all.truncate(kits);
        let error = Catalog::with_kits(all, &case.settings).unwrap_err();
        assert!(error.to_string().contains(reason), "{error}");
    }
}

#[test]
fn libraries_for_a_gpu_come_with_another_kit_where_that_is_installed() {
    let case = Demo::downloaded();
    let catalog = with_gpu(&case, GPU).unwrap();
    build_worker(&case);
    assert_eq!(
        made(&catalog, "demo/plain"),
        ["demo"],
        "a CPU needs no more"
    );
    let libraries = |catalog: &Catalog| {
        let command = catalog.command(&variant("plain")).unwrap();
        command.env["LD_LIBRARY_PATH"].clone()
    };
    assert_eq!(libraries(&catalog), "/users/own");
    assert_eq!(
        catalog.needed_on_gpu(&variant("plain")),
        Some(variant("scripted"))
    );
    assert_eq!(catalog.needed_on_gpu(&variant("scripted")), None);
    made(&catalog, "demo/scripted");
    let told = libraries(&catalog);
    let (own, users) = told.split_once(':').unwrap();
    assert!(own.ends_with("/site-packages/demo_data"), "{told}");
    assert_eq!(users, "/users/own");

    // What they are from is told, and nothing else of the kit changes.
    let gpu = |catalog: &Catalog| {
        let all = catalog.availability();
        let of = |name: &str| (all[&variant(name)].lock, all[&variant(name)].gpu);
        (of("plain"), of("scripted"))
    };
    let ((lock, libraries), (other, none)) = gpu(&catalog);
    assert_eq!((libraries, none), (other, None));
    let without = with_gpu(&case, "").unwrap();
    assert_eq!(gpu(&without).0, (lock, None));
}

#[test]
fn a_kit_that_is_not_there_brings_no_libraries() {
    let case = Demo::downloaded();
    for kit in ["python/other", "nowhere"] {
        let error = with_gpu(&case, &GPU.replace("python/demo", kit)).unwrap_err();
        assert!(error.to_string().contains("[worker.gpu]"), "{error}");
    }
}
