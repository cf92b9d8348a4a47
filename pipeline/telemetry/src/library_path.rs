//! Where the user lets the dynamic linker look.

use std::{
    env,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

/// `LD_LIBRARY_PATH` as the user set it.
///
/// `cargo run` puts the toolchain's and the build's own folders in front. They are no condition of
/// a measurement: the program that cargo starts and the same program started by hand must find the
/// same heats in a store, and start workers alike.
#[must_use]
pub fn library_path() -> OsString {
    let value = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    match env::var_os("CARGO") {
        Some(cargo) => without_cargos(&value, Path::new(&cargo), env::current_exe().ok()),
        None => value,
    }
}

/// The folders of `value` that are neither of the toolchain of `cargo` nor beside or below the
/// program.
fn without_cargos(value: &OsStr, cargo: &Path, program: Option<PathBuf>) -> OsString {
    let toolchain = cargo.parent().and_then(Path::parent);
    let build = program.as_deref().and_then(Path::parent);
    let is_cargos = |folder: &Path| {
        [toolchain, build]
            .into_iter()
            .flatten()
            .any(|of_cargo| folder.starts_with(of_cargo))
    };
    let users = env::split_paths(value).filter(|folder| !is_cargos(folder));
    // Fails only for a folder with a colon, and what was split at colons has none.
    env::join_paths(users).unwrap_or_else(|_| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_users_folders_stay() {
        let cargo = Path::new("/home/me/.rustup/toolchains/stable/bin/cargo");
        let program = || Some(PathBuf::from("/src/photofinish/target/release/photofinish"));
        let value = "/src/photofinish/target/release/build/x/out:/src/photofinish/target/release/deps:\
                     /src/photofinish/target/release:/home/me/.rustup/toolchains/stable/lib:\
                     /opt/cuda/lib:/src/photofinish/lib";
        assert_eq!(
            without_cargos(OsStr::new(value), cargo, program()),
            "/opt/cuda/lib:/src/photofinish/lib"
        );
        assert_eq!(
            without_cargos(OsStr::new("/opt/cuda/lib"), cargo, program()),
            "/opt/cuda/lib"
        );
        let all_cargos = "/src/photofinish/target/release/deps";
        assert_eq!(without_cargos(OsStr::new(all_cargos), cargo, program()), "");
    }
}
