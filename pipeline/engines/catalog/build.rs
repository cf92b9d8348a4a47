//! Collects the kits of the sibling folders, so that adding an engine is adding a folder, and notes
//! what their workers are built from.

use std::{
    env,
    error::Error,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use sha2::{Digest as _, Sha256};

fn main() -> Result<(), Box<dyn Error>> {
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let folder = here.parent().ok_or("the catalogue has no parent folder")?;
    let checkout = here.ancestors().nth(3).ok_or("not in a checkout")?;
    let out = PathBuf::from(env::var("OUT_DIR")?);

    let mut code = String::from("pub(crate) static EMBEDDED: &[Embedded] = &[\n");
    for kit in kit_folders(folder)? {
        code.push_str(&embed(folder, &kit)?);
    }
    code.push_str("];\n");
    constant(&mut code, "CHECKOUT", checkout.to_string_lossy());
    constant(&mut code, "CARGO_LOCK", lock_digest(checkout)?);
    constant(&mut code, "TARGET", env::var("TARGET")?);
    let writer = fingerprint::package_digest("photofinish-models", &[])?;
    constant(&mut code, "ONNX_WRITER", writer);
    // OUT_DIR is `<target>/[<triple>/]<profile>/build/<package>/out`.
    let profile = out.ancestors().nth(3).ok_or("OUT_DIR is too short")?;
    constant(&mut code, "PROFILE_FOLDER", profile.to_string_lossy());
    fs::write(out.join("embedded.rs"), code)?;
    Ok(())
}

/// The folders that hold an `engine.toml`, sorted; those in a folder of a language's come last.
fn kit_folders(folder: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut direct = Vec::new();
    let mut nested = Vec::new();
    for path in folders(folder)? {
        if path.join("engine.toml").is_file() {
            direct.push(path);
        } else if !path.join("Cargo.toml").is_file() {
            let below = folders(&path)?.into_iter();
            nested.extend(below.filter(|path| path.join("engine.toml").is_file()));
        }
    }
    direct.sort();
    nested.sort();
    direct.extend(nested);
    Ok(direct)
}

/// The folders in a folder, which Cargo is to watch.
fn folders(folder: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    tell(&format!("rerun-if-changed={}", folder.display()));
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.push(path);
        }
    }
    Ok(found)
}

/// The Rust expression that holds a kit.
fn embed(engines: &Path, folder: &Path) -> Result<String, Box<dyn Error>> {
    let file = folder.join("engine.toml");
    let table: toml::Table = fs::read_to_string(&file)?.parse()?;
    let value = |section: &str, key: &str| table.get(section)?.get(key);
    let text = |section: &str, key: &str| value(section, key)?.as_str();
    let lock = match text("install", "lock") {
        Some(lock) => format!("Some(include_str!({:?}))", folder.join(lock)),
        None => String::from("None"),
    };
    let (worker, sources) = match text("worker", "package") {
        Some(package) => (fingerprint::worker_digest(package)?, String::new()),
        None => {
            let packages = value("worker", "packages").and_then(toml::Value::as_array);
            let packages: Vec<&str> = packages
                .into_iter()
                .flatten()
                .filter_map(toml::Value::as_str)
                .collect();
            embed_python(folder, &packages)
                .map_err(|error| format!("{}: [worker]: {error}", file.display()))?
        }
    };
    Ok(format!(
        "Embedded {{ folder: {:?}, engine: include_str!({file:?}), lock: {lock}, worker: {worker:?}, \
         sources: &[{sources}] }},\n",
        folder.strip_prefix(engines)?,
    ))
}

/// The digest of the Python packages beside a kit's folder, and their files as Rust expressions.
fn embed_python(kit: &Path, packages: &[&str]) -> Result<(String, String), Box<dyn Error>> {
    let beside = kit.parent().ok_or("no folder above the kit's")?;
    let python = fingerprint::python_sources(beside, packages)?;
    let mut sources = String::new();
    for name in &python.files {
        let _ = write!(
            sources,
            "({name:?}, include_str!({:?})), ",
            beside.join(name)
        );
    }
    Ok((python.digest, sources))
}

/// The hash of the checkout's Cargo.lock: how a moved-on checkout is told from ours.
fn lock_digest(checkout: &Path) -> Result<String, Box<dyn Error>> {
    let file = checkout.join("Cargo.lock");
    tell(&format!("rerun-if-changed={}", file.display()));
    let mut hex = String::new();
    for byte in Sha256::digest(fs::read(file)?) {
        let _ = write!(hex, "{byte:02x}");
    }
    Ok(hex)
}

fn constant(code: &mut String, name: &str, value: impl std::fmt::Display) {
    let value = value.to_string();
    let _ = writeln!(code, "pub(crate) const {name}: &str = {value:?};");
}

fn tell(line: &str) {
    println!("cargo::{line}");
}
