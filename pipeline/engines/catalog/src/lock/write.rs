//! Writes lock files, for who maintains an engine.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path};

use schema::Digest;

use super::{Pin, Wheel};
use crate::{
    CatalogError, InstallObserver, Python, SUPPORTED_PYTHONS, Settings,
    child::{self, Ended, Follow},
    complete::hash_file,
    pip,
};

const HEADER: &str = "\
# Written by `cargo run -p photofinish-catalog --example lock`: edit engine.toml and run it again.
# A comment a wheel: file, bytes to download, bytes unpacked, SHA-256.
";

/// Platforms whose wheels run where ours are promised to: glibc 2.28 and newer.
const PLATFORMS: [&str; 9] = [
    "manylinux_2_28_x86_64",
    "manylinux_2_27_x86_64",
    "manylinux_2_25_x86_64",
    "manylinux_2_24_x86_64",
    "manylinux_2_18_x86_64",
    "manylinux_2_17_x86_64",
    "manylinux2014_x86_64",
    "manylinux2010_x86_64",
    "manylinux1_x86_64",
];

/// Prints the size of the files in an archive.
const UNPACKED: &str = "\
import sys, zipfile
print('unpacked', sum(file.file_size for file in zipfile.ZipFile(sys.argv[1]).infolist()))
";

/// What to lock.
#[derive(Debug)]
pub struct WriteLock<'a> {
    /// Requirements, for example `torch==2.11.0`.
    pub requirements: &'a [String],
    /// Where wheels are downloaded to; those that are there already are not downloaded again.
    pub downloads: &'a Path,
    /// Where pip is to look.
    pub settings: &'a Settings,
}

/// The text of a lock file for requirements: every wheel is downloaded, for every supported
/// Python, and hashed here.
///
/// # Errors
/// When pip finds no wheel, or a file cannot be read.
pub fn write(
    wanted: &WriteLock<'_>,
    observer: &mut dyn InstallObserver,
) -> Result<String, CatalogError> {
    let python = Python::find(wanted.settings, observer)?;
    let mut text = String::from(HEADER);
    for requirement in wanted.requirements {
        let pin = wanted.pin(&python, requirement, observer)?;
        text.push('\n');
        for wheel in &pin.wheels {
            let Wheel {
                file,
                download_bytes,
                unpacked_bytes,
                sha256,
            } = wheel;
            let _ = writeln!(text, "# {file} {download_bytes} {unpacked_bytes} {sha256}");
        }
        let _ = write!(text, "{requirement}");
        for wheel in &pin.wheels {
            let _ = write!(text, " \\\n    --hash=sha256:{}", wheel.sha256);
        }
        text.push('\n');
    }
    Ok(text)
}

impl WriteLock<'_> {
    /// Downloads a package for every supported Python.
    fn pin(
        &self,
        python: &Python,
        requirement: &str,
        observer: &mut dyn InstallObserver,
    ) -> Result<Pin, CatalogError> {
        let (name, version) = requirement.split_once("==").unwrap_or((requirement, ""));
        let mut wheels = BTreeMap::new();
        for target in SUPPORTED_PYTHONS {
            let folder = tempfile::tempdir_in(self.downloads)
                .map_err(CatalogError::io("make a folder in", self.downloads))?;
            let mut command = pip::lock(python, self.settings, folder.path(), self.downloads);
            command.args(["--python-version", target]).arg(requirement);
            for platform in PLATFORMS {
                command.args(["--platform", platform]);
            }
            let log = follow(&mut command, observer)?;
            let log = log.map_err(|log| {
                pip::failure(name, format!("download {requirement}"), self.settings, log)
            })?;
            let wheel = self.wheel(python, name, &log, folder.path(), observer)?;
            wheels.insert(wheel.file.clone(), wheel);
        }
        Ok(Pin {
            name: name.to_owned(),
            version: version.to_owned(),
            wheels: wheels.into_values().collect(),
        })
    }

    /// Describes the wheel in `folder`, and keeps it for the next time.
    fn wheel(
        &self,
        python: &Python,
        name: &str,
        log: &str,
        folder: &Path,
        observer: &mut dyn InstallObserver,
    ) -> Result<Wheel, CatalogError> {
        let nothing = || {
            pip::failure(
                name,
                String::from("download a wheel"),
                self.settings,
                log.to_owned(),
            )
        };
        let mut entries = fs::read_dir(folder)
            .map_err(CatalogError::io("list", folder))?
            .flatten();
        let path = entries
            .find(|entry| entry.file_name().to_string_lossy().ends_with(".whl"))
            .map(|entry| entry.path())
            .ok_or_else(nothing)?;
        let read = CatalogError::io("read", &path);
        let sha256: Digest = hash_file(&path, &mut |_| true).map_err(read)?;
        let download_bytes = fs::metadata(&path)
            .map_err(CatalogError::io("read", &path))?
            .len();
        let mut command = python.command();
        command.args(["-c", UNPACKED]).arg(&path);
        let answer = follow(&mut command, observer)?.unwrap_or_default();
        let unpacked_bytes = answer
            .lines()
            .find_map(|line| line.strip_prefix("unpacked ")?.parse().ok())
            .ok_or_else(nothing)?;
        let file = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let kept = self.downloads.join(&file);
        fs::rename(&path, &kept).map_err(CatalogError::io("write", kept))?;
        Ok(Wheel {
            file,
            download_bytes,
            unpacked_bytes,
            sha256,
        })
    }
}

/// Runs a command; its output as an inner error where it failed.
fn follow(
    command: &mut std::process::Command,
    observer: &mut dyn InstallObserver,
) -> Result<Result<String, String>, CatalogError> {
    struct Quiet<'a>(&'a mut dyn InstallObserver);
    impl Follow for Quiet<'_> {
        fn tick(&mut self) -> bool {
            !self.0.interrupted()
        }
    }
    let program = command.get_program().to_owned();
    match child::run(command, &mut Quiet(observer)) {
        Err(error) => Err(CatalogError::io("start", program)(error)),
        Ok(Ended::Interrupted) => Err(CatalogError::Interrupted),
        Ok(Ended::Exited { status, log }) if status.success() => Ok(Ok(log)),
        Ok(Ended::Exited { log, .. }) => Ok(Err(log)),
    }
}
