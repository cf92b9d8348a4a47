//! A package index of hand-made wheels, and an engine that is installed from them.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test file uses its share, and a helper that fails fails its test"
)]

use std::{
    collections::BTreeMap,
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use photofinish_catalog::{Catalog, InstallEvent, InstallObserver, Kit, Pip, Settings};
use schema::Digest;

/// A wheel of the index.
pub(crate) struct Wheel {
    pub(crate) name: &'static str,
    pub(crate) file: PathBuf,
    pub(crate) unpacked_bytes: u64,
}

impl Wheel {
    /// The lines of a lock file that pin it.
    pub(crate) fn lock(&self) -> String {
        let bytes = fs::read(&self.file).unwrap();
        let file = self.file.file_name().unwrap().to_str().unwrap();
        let (size, hash) = (bytes.len(), Digest::of_bytes(&bytes));
        let (name, unpacked) = (self.name, self.unpacked_bytes);
        format!("# {file} {size} {unpacked} {hash}\n{name}==1.0 \\\n    --hash=sha256:{hash}\n\n")
    }

    pub(crate) fn bytes(&self) -> u64 {
        fs::metadata(&self.file).unwrap().len()
    }
}

/// Makes `<folder>/<name>-1.0-py3-none-any.whl` with the given files.
pub(crate) fn wheel(folder: &Path, name: &'static str, files: &[(&str, &str)]) -> Wheel {
    const ZIP: &str = "
import sys, zipfile
with zipfile.ZipFile(sys.argv[1], 'w', zipfile.ZIP_DEFLATED) as archive:
    for path, text in zip(sys.argv[2::2], sys.argv[3::2]):
        archive.writestr(zipfile.ZipInfo(path), text)
";
    fs::create_dir_all(folder).unwrap();
    let file = folder.join(format!("{}-1.0-py3-none-any.whl", name.replace('-', "_")));
    let info = format!("{}-1.0.dist-info", name.replace('-', "_"));
    let metadata = format!("Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n");
    let tags = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n";
    let mut all: Vec<(String, &str)> = files
        .iter()
        .map(|(path, text)| ((*path).to_owned(), *text))
        .collect();
    all.push((format!("{info}/METADATA"), &metadata));
    all.push((format!("{info}/WHEEL"), tags));
    all.push((format!("{info}/RECORD"), ""));
    let mut command = Command::new("python3");
    command.args(["-c", ZIP]).arg(&file);
    for (path, text) in &all {
        command.arg(path).arg(text);
    }
    assert!(command.status().unwrap().success());
    let unpacked_bytes = all.iter().map(|(_, text)| text.len() as u64).sum();
    Wheel {
        name,
        file,
        unpacked_bytes,
    }
}

/// The engine `demo`: two wheels, a link and a small file.
pub(crate) struct Demo {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) wheels: [Wheel; 2],
    pub(crate) settings: Settings,
}

/// The library of the demo engine.
pub(crate) const LIBRARY: &str = "site-packages/demo/lib/libdemo.so";

const ENGINE: &str = r#"
name = "demo"
title = "Demo"
version = "1.0"
summary = "an engine for tests"

[worker]
package = "demo-worker"
binary = "demo-worker"
library_path = ["demo/lib"]
paths = { DEMO_LIBRARY = "demo/lib/libdemo.so" }

[install]
requirements = ["photofinish-demo==1.0", "photofinish-demo-data==1.0"]
lock = "requirements.txt"
links = { "sdk/lib/libdemo.so" = "demo/lib/libdemo.so" }
files = { "sdk/version" = "1.0\n" }

[[variants]]
name = "plain"
summary = "the only one"
host_language = "rust"
devices = ["cpu"]
precisions = ["fp32"]
modes = ["inference"]
boundaries = ["step"]
"#;

/// What the `engine.toml` of a kit with one wheel says.
pub(crate) struct KitText<'a> {
    pub(crate) engine: &'a str,
    /// The lines of `[worker]`.
    pub(crate) worker: &'a str,
    pub(crate) wheel: &'a str,
    /// More lines of `[install]`, and sections behind it.
    pub(crate) install: &'a str,
    pub(crate) variants: &'a [&'a str],
    pub(crate) language: &'a str,
}

/// A worker that is the package `demo_worker`.
pub(crate) const PYTHON_WORKER: &str = "module = \"demo_worker\"\npackages = [\"demo_worker\"]\n";

impl KitText<'_> {
    pub(crate) fn text(&self) -> String {
        let Self {
            engine,
            worker,
            wheel,
            install,
            language,
            ..
        } = self;
        let variants = self.variants.iter().map(|name| {
            format!(
                "[[variants]]\nname = {name:?}\nsummary = \"one of them\"\nhost_language = {language:?}\n\
                 devices = [\"cpu\"]\nprecisions = [\"fp32\"]\nmodes = [\"inference\"]\nboundaries = [\"step\"]\n"
            )
        });
        let variants: String = variants.collect();
        format!(
            "name = {engine:?}\ntitle = {engine:?}\nversion = \"1.0\"\nsummary = \"an engine for tests\"\n\
             [worker]\n{worker}\n[install]\nrequirements = [\"{wheel}==1.0\"]\nlock = \"requirements.txt\"\n\
             {install}\n{variants}"
        )
    }
}

/// Which installations a word brings, in order, and whether each is new.
pub(crate) fn installed(catalog: &Catalog, word: &str) -> Vec<(String, bool)> {
    let mut watcher = Watcher::default();
    catalog.install(&[word.to_owned()], &mut watcher).unwrap();
    let told = watcher.events.into_iter().filter_map(|event| match event {
        InstallEvent::Installed { engine, .. } => Some((engine, true)),
        InstallEvent::Ready { engine } => Some((engine, false)),
        _ => None,
    });
    told.collect()
}

/// How cargo calls the folder that these tests are built in, as the library was.
fn profile() -> OsString {
    let program = env::current_exe().unwrap();
    let folder = program.ancestors().nth(2).and_then(Path::file_name);
    folder.unwrap().to_owned()
}

/// Where everything of a test is.
pub(crate) fn settings(root: &Path) -> Settings {
    Settings {
        config: root.join("config"),
        engines: root.join("engines"),
        python: None,
        search_path: env::var_os("PATH").unwrap(),
        library_path: OsString::from("/users/own"),
        cxx: OsString::from("no-such-compiler"),
        binaries: vec![root.join("target").join(profile())],
        checkout: None,
        pip: Pip {
            // An index that is empty, so that no test reaches for the network.
            index_url: Some(format!("file://{}", root.join("empty").display())),
            extra_index_url: Vec::new(),
            find_links: vec![root.join("index").to_str().unwrap().to_owned()],
        },
        keep_wheels: false,
    }
}

/// The demo kit with this lock file.
pub(crate) fn kit(lock: &str, worker: &str) -> Kit {
    Kit::built_in("demo", ENGINE, Some(lock), worker, &[]).unwrap()
}

impl Demo {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let index = folder.path().join("index");
        // Larger than a megabyte, so that the quick check looks at it, too. It does not compress.
        let library: String = (0..24_000_u32)
            .map(|number| Digest::of_bytes(&number.to_le_bytes()).to_string())
            .collect();
        // One argument of a command line holds at most 128 KiB.
        let pieces: Vec<_> = library
            .as_bytes()
            .chunks(100_000)
            .map(|piece| std::str::from_utf8(piece).unwrap())
            .collect();
        let names: Vec<_> = (0..pieces.len())
            .map(|n| format!("demo/lib/part{n}.bin"))
            .collect();
        let mut files = vec![("demo/lib/libdemo.so", "the library")];
        files.extend(names.iter().map(String::as_str).zip(pieces));
        let wheels = [
            wheel(&index, "photofinish-demo", &files),
            wheel(
                &index,
                "photofinish-demo-data",
                &[("demo_data/table.txt", "1 2 3")],
            ),
        ];
        let settings = settings(folder.path());
        Self {
            folder,
            wheels,
            settings,
        }
    }

    pub(crate) fn lock(&self) -> String {
        self.wheels.iter().map(Wheel::lock).collect()
    }

    /// With the wheels downloaded already, and kept: for tests of what comes after.
    pub(crate) fn downloaded() -> Self {
        let mut case = Self::new();
        case.settings.keep_wheels = true;
        let downloads = case.settings.engines.join("downloads");
        fs::create_dir_all(&downloads).unwrap();
        for wheel in &case.wheels {
            fs::copy(&wheel.file, downloads.join(wheel.file.file_name().unwrap())).unwrap();
        }
        case
    }

    pub(crate) fn kit(&self) -> Kit {
        kit(&self.lock(), &"ab".repeat(32))
    }

    pub(crate) fn catalog(&self) -> Catalog {
        Catalog::with_kits(vec![self.kit()], &self.settings).unwrap()
    }

    /// Where the engine is installed.
    pub(crate) fn home(&self) -> PathBuf {
        let lock = Digest::of_bytes(self.lock().as_bytes());
        self.settings.engines.join(format!("demo-{}", lock.short()))
    }

    pub(crate) fn kept_wheels(&self) -> Vec<String> {
        names(&self.settings.engines.join("downloads"))
    }

    pub(crate) fn left_in_staging(&self) -> Vec<String> {
        names(&self.settings.engines.join("staging"))
    }
}

/// The names in a folder, sorted; none where there is no folder.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Every file and link below a folder, with its content or target.
pub(crate) fn tree(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    fn visit(folder: &Path, tree: &mut BTreeMap<PathBuf, Vec<u8>>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if let Ok(target) = fs::read_link(&path) {
                tree.insert(path, target.into_os_string().into_encoded_bytes());
            } else if path.is_dir() {
                visit(&path, tree);
            } else {
                let content = fs::read(&path).unwrap();
                tree.insert(path, content);
            }
        }
    }
    let mut found = BTreeMap::new();
    visit(folder, &mut found);
    found
}

/// Remembers what it was told, and may ask to stop.
#[derive(Default)]
pub(crate) struct Watcher {
    pub(crate) events: Vec<InstallEvent>,
    /// Stops as soon as an event satisfies it.
    pub(crate) stop_at: Option<fn(&InstallEvent) -> bool>,
    stop: bool,
}

impl InstallObserver for Watcher {
    fn event(&mut self, event: InstallEvent) {
        self.stop |= self.stop_at.is_some_and(|stop| stop(&event));
        self.events.push(event);
    }

    fn interrupted(&self) -> bool {
        self.stop
    }
}

impl Watcher {
    pub(crate) fn stopping(at: fn(&InstallEvent) -> bool) -> Self {
        Self {
            stop_at: Some(at),
            ..Self::default()
        }
    }

    /// The names of the events' kinds, repeats left out, and moments of waiting: a program that
    /// another test of this process starts holds a copy of the lock until it is really there.
    pub(crate) fn story(&self) -> Vec<&'static str> {
        let waits = |event: &&InstallEvent| matches!(event, InstallEvent::Waiting { .. });
        let told = self.events.iter().filter(|event| !waits(event));
        let mut story: Vec<_> = told.map(kind).collect();
        story.dedup();
        story
    }
}

fn kind(event: &InstallEvent) -> &'static str {
    match event {
        InstallEvent::Ready { .. } => "ready",
        InstallEvent::Broken { .. } => "broken",
        InstallEvent::Waiting { .. } => "waiting",
        InstallEvent::Begin { .. } => "begin",
        InstallEvent::Download { .. } => "download",
        InstallEvent::Unpack { .. } => "unpack",
        InstallEvent::Check { .. } => "check",
        InstallEvent::Adopted { .. } => "adopted",
        InstallEvent::Installed { .. } => "installed",
        InstallEvent::Build { .. } => "build",
        InstallEvent::Cargo { .. } => "cargo",
        InstallEvent::Built { .. } => "built",
    }
}
