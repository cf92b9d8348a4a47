//! Programs that some tests need, out of Debian's packages.

use crate::command::{program, run};

/// Makes sure that Chromium, its driver and npm (for axe) are there.
///
/// # Errors
/// When they are missing and cannot be installed.
pub(crate) fn browser() -> Result<(), String> {
    let needed = [
        ("chromium", "chromium"),
        ("chromedriver", "chromium-driver"),
        ("npm", "npm"),
    ];
    install("the browser tests", &needed, &["fonts-dejavu-core"])
}

/// Makes sure that Slurm's daemons are there, what they know each other by, and what makes hosts of this machine.
///
/// # Errors
/// Likewise.
pub(crate) fn cluster() -> Result<(), String> {
    let needed = [
        ("sbatch", "slurm-client"),
        ("slurmctld", "slurmctld"),
        ("slurmd", "slurmd"),
        ("munge", "munge"),
        ("ip", "iproute2"),
    ];
    install("the tests of clusters", &needed, &[])
}

/// Installs packages whose programs are missing, and what goes with them, as root.
fn install(who: &str, needed: &[(&str, &str)], with: &[&str]) -> Result<(), String> {
    let found = |name: &str| program(name).arg("--version").output().is_ok();
    let missing = needed.iter().filter(|(name, _)| !found(name));
    let packages: Vec<&str> = missing.map(|(_, package)| *package).collect();
    if packages.is_empty() {
        return Ok(());
    }
    let apt = |args: &[&str]| {
        run(program("apt-get")
            .args(args)
            .env("DEBIAN_FRONTEND", "noninteractive"))
    };
    let words = ["install", "--yes", "--no-install-recommends"];
    let words: Vec<&str> = words.iter().chain(&packages).chain(with).copied().collect();
    apt(&["update", "--quiet"])
        .and_then(|()| apt(&words))
        .map_err(|error| format!("{who} need {} on the PATH ({error})", packages.join(", ")))
}
