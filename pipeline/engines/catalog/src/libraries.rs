//! Shared libraries that a worker needs and that are not installed with it.

use std::{env, ffi::OsStr, fs, path::Path};

use crate::{Settings, kit::Libraries};

/// What ldconfig(8) found, for the dynamic linker.
const CACHE: &str = "/etc/ld.so.cache";

/// Folders that the dynamic linker looks at last, see ld.so(8).
const DEFAULT_FOLDERS: [&str; 4] = ["/lib", "/usr/lib", "/lib64", "/usr/lib64"];

/// Which of the libraries the dynamic linker would not find, and what to do about it. Loads nothing.
pub(crate) fn missing(engine: &str, wanted: &Libraries, settings: &Settings) -> Option<String> {
    let cache = fs::read(CACHE).unwrap_or_default();
    let is_missing = |name: &&String| {
        !is_in_folders(name, &settings.library_path)
            && !is_cached(name, &cache)
            && !DEFAULT_FOLDERS.iter().any(|it| holds(Path::new(it), name))
    };
    let name = wanted.names.iter().find(is_missing)?;
    Some(format!(
        "engine `{engine}` needs {name}, which the dynamic linker does not find: {}",
        wanted.remedy
    ))
}

fn is_in_folders(name: &str, folders: &OsStr) -> bool {
    env::split_paths(folders).any(|folder| holds(&folder, name))
}

fn holds(folder: &Path, name: &str) -> bool {
    folder.is_absolute() && folder.join(name).is_file()
}

/// Whether the linker's cache has a library of this name: behind its tables it holds names and
/// paths, each ended by a zero.
fn is_cached(name: &str, cache: &[u8]) -> bool {
    let name = name.as_bytes();
    let mut words = cache.split(|&byte| byte == 0);
    words.any(|word| {
        let folder = word.strip_suffix(name);
        folder.is_some_and(|folder| folder.is_empty() || folder.ends_with(b"/"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(names: &[&str]) -> Libraries {
        Libraries {
            names: names.iter().map(|&name| name.to_owned()).collect(),
            remedy: String::from("do something"),
        }
    }

    #[test]
    fn a_library_on_the_user_s_library_path_is_found_and_another_is_named() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("libours.so.1"), "").unwrap();
        let path = env::join_paths([Path::new("/nowhere"), folder.path()]).unwrap();
        let home = folder.path().as_os_str().to_owned();
        let set = |name: &str| match name {
            "HOME" => Some(home.clone()),
            "LD_LIBRARY_PATH" => Some(path.clone()),
            _ => None,
        };
        let settings = Settings::from_variables(&set).unwrap();
        assert_eq!(missing("demo", &wanted(&["libours.so.1"]), &settings), None);
        let both = wanted(&["libours.so.1", "libtheirs.so.1"]);
        assert_eq!(
            missing("demo", &both, &settings).unwrap(),
            "engine `demo` needs libtheirs.so.1, which the dynamic linker does not find: \
             do something"
        );
    }

    #[test]
    fn the_linker_s_cache_is_searched_for_whole_names() {
        let cache = b"glibc-ld.so.cache1.1\x02\0\0\0libone.so.1\0/usr/lib/libtwo.so.10\0";
        for (name, is_there) in [
            ("libone.so.1", true),
            ("libtwo.so.10", true),
            ("libtwo.so.1", false),
            ("two.so.10", false),
            ("libthree.so.1", false),
        ] {
            assert_eq!(is_cached(name, cache), is_there, "{name}");
        }
        // Every Linux that a test runs on has a C library.
        assert!(is_cached("libc.so.6", &fs::read(CACHE).unwrap()));
    }
}
