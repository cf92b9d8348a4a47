//! Collects the engines of the sibling folders, so that adding an engine is adding a folder, and
//! notes what their workers are built from.

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
    for engine in engine_folders(folder)? {
        code.push_str(&embed(&engine)?);
    }
    code.push_str("];\n");
    constant(&mut code, "CHECKOUT", checkout.to_string_lossy());
    constant(&mut code, "CARGO_LOCK", lock_digest(checkout)?);
    constant(&mut code, "TARGET", env::var("TARGET")?);
    // OUT_DIR is `<target>/[<triple>/]<profile>/build/<package>/out`.
    let profile = out.ancestors().nth(3).ok_or("OUT_DIR is too short")?;
    constant(&mut code, "PROFILE_FOLDER", profile.to_string_lossy());
    fs::write(out.join("embedded.rs"), code)?;
    Ok(())
}

/// The folders that hold an `engine.toml`, sorted.
fn engine_folders(folder: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    tell(&format!("rerun-if-changed={}", folder.display()));
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.join("engine.toml").is_file() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// The Rust expression that holds an engine.
fn embed(folder: &Path) -> Result<String, Box<dyn Error>> {
    let file = folder.join("engine.toml");
    let table: toml::Table = fs::read_to_string(&file)?.parse()?;
    let text = |section: &str, key: &str| table.get(section)?.get(key)?.as_str();
    let package = text("worker", "package")
        .ok_or_else(|| format!("{}: [worker] package is missing", file.display()))?;
    let lock = match text("install", "lock") {
        Some(lock) => format!("Some(include_str!({:?}))", folder.join(lock)),
        None => String::from("None"),
    };
    Ok(format!(
        "Embedded {{ folder: {:?}, engine: include_str!({file:?}), lock: {lock}, worker: {:?} }},\n",
        folder.file_name().unwrap_or_default(),
        fingerprint::worker_digest(package)?,
    ))
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
