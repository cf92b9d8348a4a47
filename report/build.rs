//! Gathers what the program carries inside: templates, styles and scripts of `site/`, what experiments
//! found, and ECharts out of the `charming` package, so that no third-party file lies in the repository.

use std::{
    env, error, fs,
    path::{Path, PathBuf},
};

type Result<T> = std::result::Result<T, Box<dyn error::Error>>;

fn main() -> Result<()> {
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let site = here.join("../site").canonicalize()?;
    fs::copy(echarts(&here)?, out.join("echarts.min.js"))?;
    let mut code = String::new();
    let experiments = here.join("../jobs/experiments").canonicalize()?;
    for (name, root, extension) in [
        ("TEMPLATES", site.join("templates"), "html"),
        ("STYLES", site.join("styles"), "css"),
        ("SCRIPTS", site.join("scripts"), "js"),
        ("EXPERIMENTS", experiments, "csv"),
    ] {
        println!("cargo::rerun-if-changed={}", root.display());
        let mut files = Vec::new();
        collect(&root, extension, &mut files)?;
        files.sort();
        code += &format!("pub(crate) const {name}: &[(&str, &str)] = &[\n");
        for file in files {
            let relative = file
                .strip_prefix(&root)?
                .to_str()
                .ok_or("a file name is not UTF-8")?;
            code += &format!("    ({relative:?}, include_str!({file:?})),\n");
        }
        code += "];\n";
    }
    fs::write(out.join("embedded.rs"), code)?;
    Ok(())
}

fn collect(folder: &Path, extension: &str, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, extension, files)?;
        } else if path.extension().is_some_and(|found| found == extension) {
            files.push(path);
        }
    }
    Ok(())
}

/// The minified ECharts that the locked `charming` brings along.
fn echarts(here: &Path) -> Result<PathBuf> {
    println!("cargo::rerun-if-changed=../Cargo.lock");
    let cargo = env::var("CARGO")?;
    let ask = |options: &[&str]| {
        cargo_metadata::MetadataCommand::new()
            .cargo_path(&cargo)
            .current_dir(here)
            .other_options(
                options
                    .iter()
                    .map(|option| (*option).to_owned())
                    .collect::<Vec<_>>(),
            )
            .exec()
    };
    // On a new machine Cargo has downloaded what this build needs, and `metadata` wants to see
    // every locked package: then it must be allowed to download the rest.
    let metadata = ask(&["--locked", "--offline"]).or_else(|_| ask(&["--locked"]))?;
    let charming = metadata
        .packages
        .iter()
        .find(|package| package.name.as_str() == "charming")
        .ok_or("`charming` is not among the locked packages")?;
    let assets = charming
        .manifest_path
        .parent()
        .ok_or("a manifest lies in a folder")?
        .join("src/asset");
    let mut found = Vec::new();
    for entry in fs::read_dir(&assets)? {
        let path = entry?.path();
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        if name.starts_with("echarts-") && name.ends_with(".min.js") {
            found.push(path);
        }
    }
    found
        .pop()
        .ok_or_else(|| format!("no echarts-*.min.js in {assets}").into())
}
