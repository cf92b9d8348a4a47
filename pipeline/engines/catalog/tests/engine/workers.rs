//! Workers are built from the checkout with the profile of the program that asks, and only when
//! there is something to build.

use std::{fs, path::Path};

use photofinish_catalog::{Catalog, CatalogError, InstallEvent};

use crate::common::{Demo, Watcher};

fn demo() -> Vec<String> {
    vec![String::from("demo")]
}

const DIGEST: &str = "abababababababababababababababababababababababababababababababab";

/// A worker that holds its digest, and is linked against what the link in `.engines` points at.
fn checkout(case: &mut Demo, digest: &str) {
    let folder = case.folder.path().join("checkout");
    fs::create_dir_all(folder.join("src")).unwrap();
    let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
    write(
        "Cargo.toml",
        "[package]\nname = \"demo-worker\"\nversion = \"1.0.0\"\nedition = \"2024\"\n[workspace]\n",
    );
    write(
        "Cargo.lock",
        "version = 4\n[[package]]\nname = \"demo-worker\"\nversion = \"1.0.0\"\n",
    );
    write(
        "src/main.rs",
        &format!("fn main() {{ println!(\"{{}}\", {digest:?}); }}\n"),
    );
    write(
        "build.rs",
        "fn main() {\n    println!(\"cargo::rerun-if-changed=build.rs\");\n    \
         let lib = std::fs::canonicalize(\".engines/demo/sdk/lib/libdemo.so\").unwrap();\n    \
         let lib = lib.parent().unwrap().display();\n    \
         println!(\"cargo::rustc-link-arg=-Wl,-rpath,{lib}\");\n}\n",
    );
    case.settings.checkout = Some(folder);
}

fn build(catalog: &Catalog) -> Result<Vec<&'static str>, CatalogError> {
    let mut watcher = Watcher::default();
    catalog.build_workers(&demo(), &mut watcher)?;
    Ok(watcher.story())
}

fn link_of(checkout: &Path) -> std::path::PathBuf {
    fs::read_link(checkout.join(".engines/demo")).unwrap()
}

#[test]
fn a_worker_is_built_once_and_again_when_it_must_be() {
    let mut case = Demo::downloaded();
    checkout(&mut case, DIGEST);
    let checkout = case.settings.checkout.clone().unwrap();
    let catalog = case.catalog();
    catalog.install(&demo(), &mut Watcher::default()).unwrap();
    assert_eq!(
        catalog.availability()[&"demo/plain".parse().unwrap()].missing,
        None,
        "it can be built"
    );

    assert_eq!(build(&catalog).unwrap(), ["build", "cargo", "built"]);
    assert_eq!(link_of(&checkout), case.home());
    let program = case.settings.binaries[0].join("demo-worker");
    assert_eq!(
        catalog
            .command(&"demo/plain".parse().unwrap())
            .unwrap()
            .program,
        program
    );
    assert_eq!(build(&catalog).unwrap(), ["ready"]);

    // A stamp that is gone, and a program that someone else built alike: no cargo is needed.
    fs::remove_file(program.with_extension("stamp.json")).unwrap();
    assert_eq!(build(&catalog).unwrap(), ["ready"]);
    let text = fs::read(&program).unwrap();
    fs::remove_file(&program).unwrap();
    fs::write(&program, text).unwrap();
    assert_eq!(build(&catalog).unwrap(), ["ready"]);

    // A program that is something else is built again.
    fs::remove_file(&program).unwrap();
    fs::copy("/bin/true", &program).unwrap();
    assert_eq!(build(&catalog).unwrap(), ["build", "cargo", "built"]);

    // The engine lies elsewhere now, and the worker is linked against the old place.
    let mut moved = case.settings.clone();
    moved.engines = case.folder.path().join("elsewhere");
    fs::rename(&case.settings.engines, &moved.engines).unwrap();
    let catalog = Catalog::with_kits(vec![case.kit()], &moved).unwrap();
    assert_eq!(build(&catalog).unwrap(), ["build", "cargo", "built"]);
    assert!(link_of(&checkout).starts_with(&moved.engines));
    let linked = fs::read(&program).unwrap();
    let place = link_of(&checkout).join("site-packages/demo/lib");
    let place = place.to_str().unwrap().as_bytes();
    assert!(linked.windows(place.len()).any(|bytes| bytes == place));
    assert_eq!(build(&catalog).unwrap(), ["ready"]);
}

#[test]
fn a_worker_that_does_not_compile_shows_what_cargo_says() {
    let mut case = Demo::downloaded();
    checkout(&mut case, DIGEST);
    let checkout = case.settings.checkout.clone().unwrap();
    fs::write(
        checkout.join("src/main.rs"),
        "fn main() { no_such_function(); }\n",
    )
    .unwrap();
    let catalog = case.catalog();
    catalog.install(&demo(), &mut Watcher::default()).unwrap();
    let error = build(&catalog).unwrap_err();
    let CatalogError::Build { log, .. } = &error else {
        panic!("{error}")
    };
    assert!(log.contains("no_such_function"), "{log}");
}

#[test]
fn a_worker_from_other_sources_than_ours_is_not_taken() {
    let mut case = Demo::downloaded();
    checkout(&mut case, &DIGEST.replace('b', "c"));
    let catalog = case.catalog();
    catalog.install(&demo(), &mut Watcher::default()).unwrap();
    for _ in 0..2 {
        let error = build(&catalog).unwrap_err();
        assert!(matches!(error, CatalogError::NoWorker(_)), "{error}");
        assert!(
            error.to_string().contains("build photofinish again"),
            "{error}"
        );
    }
}

#[test]
fn a_build_can_be_interrupted() {
    let mut case = Demo::downloaded();
    checkout(&mut case, DIGEST);
    let checkout = case.settings.checkout.clone().unwrap();
    let forever = "fn main() { std::thread::sleep(std::time::Duration::from_secs(1000)); }\n";
    fs::write(checkout.join("build.rs"), forever).unwrap();
    let catalog = case.catalog();
    catalog.install(&demo(), &mut Watcher::default()).unwrap();
    let begun = |event: &InstallEvent| matches!(event, InstallEvent::Cargo { .. });
    let error = catalog
        .build_workers(&demo(), &mut Watcher::stopping(begun))
        .unwrap_err();
    assert!(matches!(error, CatalogError::Interrupted), "{error}");
}

#[test]
fn without_a_checkout_a_worker_beside_the_program_is_taken_as_it_is() {
    let case = Demo::downloaded();
    let catalog = case.catalog();
    let error = build(&catalog).unwrap_err();
    assert!(
        error.to_string().contains("copy the worker there"),
        "{error}"
    );
    fs::create_dir_all(&case.settings.binaries[0]).unwrap();
    fs::copy("/bin/true", case.settings.binaries[0].join("demo-worker")).unwrap();
    assert_eq!(build(&catalog).unwrap(), ["ready"]);
}

#[test]
fn a_folder_of_the_users_is_not_replaced_by_a_link() {
    let mut case = Demo::downloaded();
    checkout(&mut case, DIGEST);
    let theirs = case
        .settings
        .checkout
        .clone()
        .unwrap()
        .join(".engines/demo");
    fs::create_dir_all(&theirs).unwrap();
    fs::write(theirs.join("precious"), "1").unwrap();
    let catalog = case.catalog();
    catalog.install(&demo(), &mut Watcher::default()).unwrap();
    let error = build(&catalog).unwrap_err();
    assert!(matches!(error, CatalogError::Io { .. }), "{error}");
    assert!(theirs.join("precious").exists());
}
