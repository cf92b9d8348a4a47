//! Where the tests find ONNX Runtime.

use std::{path::PathBuf, sync::LazyLock};

use photofinish_worker_onnxruntime::LIBRARY_VARIABLE;

/// The library that the environment names, else the installed one. Looked up once a process, as
/// it is loaded.
pub(crate) fn library() -> PathBuf {
    static LIBRARY: LazyLock<PathBuf> =
        LazyLock::new(|| std::env::var_os(LIBRARY_VARIABLE).map_or_else(installed, PathBuf::from));
    LIBRARY.clone()
}

fn installed() -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../../.engines/onnxruntime/site-packages/onnxruntime/capi");
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| {
        panic!(
            "{}: {error}; run `photofinish engines install onnxruntime`",
            folder.display()
        )
    });
    entries
        .map(|entry| entry.unwrap().path())
        .find(|path| {
            let name = path.file_name().unwrap().to_string_lossy();
            name.starts_with("libonnxruntime.so.")
        })
        .expect("an installed ONNX Runtime has its library")
        .canonicalize()
        .unwrap()
}
