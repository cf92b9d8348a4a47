//! Writes an engine's lock file: `cargo run -p photofinish-catalog --example lock -- torch`.
//!
//! Reads the requirements of `pipeline/engines/<folder>/engine.toml`, downloads each wheel for
//! every supported Python (`PHOTOFINISH_ENGINES/downloads` keeps them for the next time), and
//! writes sizes and hashes. Look at the difference before you commit it.

use std::{error::Error, fs, path::Path};

use photofinish_catalog::{InstallEvent, InstallObserver, Settings, lock};

struct Quiet;

impl InstallObserver for Quiet {
    fn event(&mut self, _: InstallEvent) {}

    fn interrupted(&self) -> bool {
        false
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let folders: Vec<_> = std::env::args().skip(1).collect();
    if folders.is_empty() {
        return Err("name the folders of engines, for example `torch`".into());
    }
    let settings = Settings::from_environment()?;
    let downloads = settings.engines.join("downloads");
    fs::create_dir_all(&downloads)?;
    let engines = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for folder in folders {
        let folder = engines.join(folder);
        let engine: toml::Table = fs::read_to_string(folder.join("engine.toml"))?.parse()?;
        let install = engine
            .get("install")
            .and_then(toml::Value::as_table)
            .ok_or("no [install] in engine.toml")?;
        let requirements: Vec<String> = install
            .get("requirements")
            .and_then(toml::Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(|requirement| requirement.as_str().map(str::to_owned))
            .collect();
        let file = install
            .get("lock")
            .and_then(toml::Value::as_str)
            .ok_or("no lock in [install]")?;
        let wanted = lock::WriteLock {
            requirements: &requirements,
            downloads: &downloads,
            settings: &settings,
        };
        let text = lock::write(&wanted, &mut Quiet)?;
        lock::Lock::parse(&text)?;
        fs::write(folder.join(file), text)?;
    }
    Ok(())
}
