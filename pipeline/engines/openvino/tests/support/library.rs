//! Where the tests find OpenVINO.

use std::path::PathBuf;

use photofinish_worker_openvino::LIBRARY_VARIABLE;

/// The library that the environment names, else the installed one.
pub(crate) fn openvino() -> PathBuf {
    std::env::var_os(LIBRARY_VARIABLE).map_or_else(installed, PathBuf::from)
}

fn installed() -> PathBuf {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../../.engines/openvino/site-packages/openvino/libs/libopenvino_c.so.2641");
    path.canonicalize().unwrap_or_else(|error| {
        panic!(
            "{}: {error}; run `photofinish engines install openvino`",
            path.display()
        )
    })
}
