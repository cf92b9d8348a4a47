//! The browser that looks at the site.

use crate::command::{program, run};

/// Makes sure that Chromium and its driver are there: from Debian's packages, as root.
///
/// # Errors
/// When they are missing and cannot be installed.
pub(crate) fn install() -> Result<(), String> {
    let found = |name: &str| program(name).arg("--version").output().is_ok();
    if found("chromium") && found("chromedriver") {
        return Ok(());
    }
    let packages = [
        "install",
        "--yes",
        "--no-install-recommends",
        "chromium",
        "chromium-driver",
        "fonts-dejavu-core",
    ];
    let apt = |args: &[&str]| {
        run(program("apt-get")
            .args(args)
            .env("DEBIAN_FRONTEND", "noninteractive"))
    };
    apt(&["update", "--quiet"])
        .and_then(|()| apt(&packages))
        .map_err(|error| {
            format!("the browser tests need chromium and chromedriver on the PATH ({error})")
        })
}
