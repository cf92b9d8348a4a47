//! The browser that looks at the site.

use crate::command::{program, run};

/// Makes sure that Chromium, its driver and npm (for axe) are there: from Debian's packages, as root.
///
/// # Errors
/// When they are missing and cannot be installed.
pub(crate) fn install() -> Result<(), String> {
    let found = |name: &str| program(name).arg("--version").output().is_ok();
    if ["chromium", "chromedriver", "npm"].into_iter().all(found) {
        return Ok(());
    }
    let mut packages = vec!["install", "--yes", "--no-install-recommends"];
    packages.extend(["chromium", "chromium-driver", "fonts-dejavu-core"]);
    if !found("npm") {
        packages.push("npm");
    }
    let apt = |args: &[&str]| {
        run(program("apt-get")
            .args(args)
            .env("DEBIAN_FRONTEND", "noninteractive"))
    };
    apt(&["update", "--quiet"])
        .and_then(|()| apt(&packages))
        .map_err(|error| {
            format!("the browser tests need chromium, chromedriver and npm on the PATH ({error})")
        })
}
