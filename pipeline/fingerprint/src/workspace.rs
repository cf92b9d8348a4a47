//! The workspace as its own files describe it. No cargo process is started: a build script must
//! work while nothing but the crates of the current build has been downloaded.

use std::{
    collections::{BTreeMap, BTreeSet},
    error::Error,
    fs,
    path::{Path, PathBuf},
};

use cargo_lock::{Lockfile, Package};
use toml::Table;

use crate::{Sources, package_files};

/// Tables of a package's manifest with what its build needs.
const BUILT_WITH: [&str; 2] = ["dependencies", "build-dependencies"];

/// The workspace around a package.
pub(crate) struct Workspace {
    root: PathBuf,
    manifest: Table,
    /// Folder of each member, by package name.
    members: BTreeMap<String, PathBuf>,
    lock: Lockfile,
}

impl Workspace {
    /// Reads the workspace that holds the folder `start`.
    pub(crate) fn find(start: &Path) -> Result<Self, Box<dyn Error>> {
        let (root, manifest) = start
            .ancestors()
            .find_map(|folder| {
                let manifest = read(&folder.join("Cargo.toml")).ok()?;
                manifest
                    .contains_key("workspace")
                    .then(|| (folder.to_owned(), manifest))
            })
            .ok_or_else(|| format!("no workspace above {}", start.display()))?;
        let mut members = BTreeMap::new();
        for member in strings(&manifest, &["workspace", "members"]) {
            let folder = root.join(member);
            let package = read(&folder.join("Cargo.toml"))?;
            if let Some(name) = text(&package, &["package", "name"]) {
                members.insert(name.to_owned(), folder);
            }
        }
        let lock = Lockfile::load(root.join("Cargo.lock"))?;
        Ok(Self {
            root,
            manifest,
            members,
            lock,
        })
    }

    /// The workspace's folder.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// A profile of the workspace, as text: optimisation and the like.
    pub(crate) fn profile(&self, name: &str) -> String {
        at(&self.manifest, &["profile", name])
            .map(ToString::to_string)
            .unwrap_or_default()
    }

    /// What `package` is built from.
    pub(crate) fn sources(&self, package: &str) -> Result<Sources, Box<dyn Error>> {
        if !self.members.contains_key(package) {
            return Err(format!("no package {package} in {}", self.root.display()).into());
        }
        let mut sources = Sources {
            watched: vec![self.root.join("Cargo.toml"), self.root.join("Cargo.lock")],
            ..Sources::default()
        };
        let mut crates = BTreeSet::new();
        let mut seen = BTreeSet::from([package.to_owned()]);
        let mut pending = vec![package.to_owned()];
        while let Some(name) = pending.pop() {
            let folder = &self.members[&name];
            sources.files.extend(package_files(folder));
            sources.watched.push(folder.clone());
            let (needs, said) = self.built_with(folder)?;
            for needed in needs {
                if self.members.contains_key(&needed) {
                    if seen.insert(needed.clone()) {
                        pending.push(needed);
                    }
                } else {
                    self.reach(&needed, &name, &mut crates);
                }
            }
            sources.features.extend(said);
        }
        sources.files.sort();
        sources.crates = crates.into_iter().collect();
        Ok(sources)
    }

    /// Package names that a member's build needs, and what the workspace says of them: their features
    /// among it. Development dependencies are left out.
    fn built_with(&self, folder: &Path) -> Result<(Vec<String>, Vec<String>), Box<dyn Error>> {
        let manifest = read(&folder.join("Cargo.toml"))?;
        let (mut names, mut said) = (Vec::new(), Vec::new());
        for table in BUILT_WITH {
            for key in keys(&manifest, table) {
                let asked = at(&self.manifest, &["workspace", "dependencies", key]);
                let renamed = text(&manifest, &[table, key, "package"])
                    .or_else(|| asked.and_then(|asked| asked.get("package")?.as_str()));
                names.push(renamed.unwrap_or(key).to_owned());
                said.extend(asked.map(|asked| format!("{key} = {asked}")));
            }
        }
        Ok((names, said))
    }

    /// Adds the crate `name`, at the version that `dependent` is locked to, and all below it.
    fn reach(&self, name: &str, dependent: &str, crates: &mut BTreeSet<String>) {
        let locked = self
            .package(|package| package.name.as_str() == dependent)
            .into_iter()
            .flat_map(|package| &package.dependencies)
            .find(|dependency| dependency.name.as_str() == name);
        let mut pending: Vec<&Package> = locked
            .and_then(|dependency| self.package(|package| dependency.matches(package)))
            .into_iter()
            .collect();
        while let Some(package) = pending.pop() {
            let source = package
                .source
                .as_ref()
                .map(ToString::to_string)
                .unwrap_or_default();
            let checksum = package
                .checksum
                .as_ref()
                .map(ToString::to_string)
                .unwrap_or_default();
            if crates.insert(format!(
                "{} {} {source} {checksum}",
                package.name, package.version
            )) {
                pending.extend(package.dependencies.iter().filter_map(|dependency| {
                    self.package(|candidate| dependency.matches(candidate))
                }));
            }
        }
    }

    fn package(&self, wanted: impl Fn(&Package) -> bool) -> Option<&Package> {
        self.lock.packages.iter().find(|package| wanted(package))
    }
}

fn read(path: &Path) -> Result<Table, Box<dyn Error>> {
    let content =
        fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    content
        .parse()
        .map_err(|error| format!("{}: {error}", path.display()).into())
}

fn at<'a>(table: &'a Table, path: &[&str]) -> Option<&'a toml::Value> {
    let (last, parents) = path.split_last()?;
    let mut table = table;
    for key in parents {
        table = table.get(*key)?.as_table()?;
    }
    table.get(*last)
}

fn keys<'a>(table: &'a Table, name: &str) -> impl Iterator<Item = &'a String> {
    let table = table.get(name).and_then(|value| value.as_table());
    table.into_iter().flat_map(Table::keys)
}

fn text<'a>(table: &'a Table, path: &[&str]) -> Option<&'a str> {
    at(table, path)?.as_str()
}

fn strings<'a>(table: &'a Table, path: &[&str]) -> impl Iterator<Item = &'a str> {
    at(table, path)
        .and_then(|value| value.as_array())
        .into_iter()
        .flatten()
        .filter_map(|value| value.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A workspace of a worker `w` above a library `l`, each with crates from elsewhere.
    fn workspace() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, content: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        };
        write(
            "Cargo.toml",
            "[workspace]\nmembers = [\"l\", \"w\", \"x\"]\n[workspace.dependencies]\nlib = { path = \"l\", package = \"the-lib\" }\n",
        );
        write(
            "l/Cargo.toml",
            "[package]\nname = \"the-lib\"\n[dependencies]\nalpha = \"1\"\n[dev-dependencies]\nomega = \"1\"\n",
        );
        write("l/src/lib.rs", "// lib");
        write("l/tests/t.rs", "// test");
        write(
            "w/Cargo.toml",
            "[package]\nname = \"w\"\n[dependencies]\nlib.workspace = true\n",
        );
        write("w/src/main.rs", "// main");
        write("x/Cargo.toml", "[package]\nname = \"x\"\n");
        write("x/src/lib.rs", "// other");
        let package = |name: &str, needs: &str| {
            format!("[[package]]\nname = \"{name}\"\nversion = \"1.0.0\"\n{needs}\n")
        };
        let elsewhere = "source = \"registry+https://example.invalid/index\"\nchecksum = \"0000000000000000000000000000000000000000000000000000000000000001\"\n";
        write(
            "Cargo.lock",
            &format!(
                "version = 4\n{}{}{}{}{}{}",
                package("alpha", &format!("{elsewhere}dependencies = [\"beta\"]")),
                package("beta", elsewhere),
                package("omega", elsewhere),
                package("the-lib", "dependencies = [\"alpha\", \"omega\"]"),
                package("w", "dependencies = [\"the-lib\"]"),
                package("x", ""),
            ),
        );
        root
    }

    fn digest(root: &Path) -> String {
        let workspace = Workspace::find(&root.join("w")).unwrap();
        let sources = workspace.sources("w").unwrap();
        crate::hash(workspace.root(), &sources, "rustc")
    }

    #[test]
    fn development_dependencies_and_tests_stay_out() {
        let root = workspace();
        let workspace = Workspace::find(&root.path().join("w")).unwrap();
        let sources = workspace.sources("w").unwrap();
        let crates: Vec<_> = sources
            .crates
            .iter()
            .filter_map(|line| line.split(' ').next())
            .collect();
        assert_eq!(crates, ["alpha", "beta"]);
        let files: Vec<_> = sources
            .files
            .iter()
            .map(|file| file.strip_prefix(root.path()).unwrap().to_str().unwrap())
            .collect();
        assert_eq!(
            files,
            [
                "l/Cargo.toml",
                "l/src/lib.rs",
                "w/Cargo.toml",
                "w/src/main.rs"
            ]
        );
        assert!(workspace.sources("nothing").is_err());
    }

    #[test]
    fn the_workspace_s_features_count_for_those_who_ask_for_the_crate() {
        let root = workspace();
        let before = digest(root.path());
        let path = root.path().join("Cargo.toml");
        let manifest = fs::read_to_string(&path).unwrap();
        let with = |dependency: &str| {
            fs::write(&path, format!("{manifest}{dependency}\n")).unwrap();
            digest(root.path())
        };
        assert_eq!(
            with("omega = { version = \"1\", features = [\"f\"] }"),
            before
        );
        let asked = with("alpha = { version = \"1\" }");
        assert_ne!(
            with("alpha = { version = \"1\", features = [\"f\"] }"),
            asked
        );
    }

    #[test]
    fn a_profile_is_that_of_its_name() {
        let root = workspace();
        let path = root.path().join("Cargo.toml");
        let manifest = fs::read_to_string(&path).unwrap();
        let profiles =
            "[profile.dev.package.alpha]\nopt-level = 3\n[profile.release]\nlto = true\n";
        fs::write(&path, manifest + profiles).unwrap();
        let workspace = Workspace::find(root.path()).unwrap();
        let (dev, release) = (workspace.profile("dev"), workspace.profile("release"));
        assert!(dev.contains("alpha") && !dev.contains("lto"), "{dev}");
        assert!(
            release.contains("lto") && !release.contains("alpha"),
            "{release}"
        );
        assert_eq!(workspace.profile("other"), "");
    }

    #[test]
    fn the_digest_follows_what_is_built_and_nothing_else() {
        let root = workspace();
        let before = digest(root.path());
        fs::write(root.path().join("x/src/lib.rs"), "// changed").unwrap();
        fs::write(root.path().join("l/tests/t.rs"), "// changed").unwrap();
        assert_eq!(digest(root.path()), before);
        let copy = workspace();
        assert_eq!(digest(copy.path()), before, "another checkout agrees");
        fs::write(root.path().join("l/src/lib.rs"), "// changed").unwrap();
        assert_ne!(digest(root.path()), before);
    }
}
