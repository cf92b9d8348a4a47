//! Pictures of the site's pages.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{
    command::{program, root, run},
    debian,
};

/// Takes a picture of each kind of page: light, dark, and as wide as a phone.
///
/// # Errors
/// When there is no site, or no browser.
pub(crate) fn take(site: &Path, out: &Path) -> Result<(), String> {
    debian::browser()?;
    let site = root().join(site);
    let out = root().join(out);
    fs::create_dir_all(&out)
        .map_err(|error| format!("failed to make {}: {error}", out.display()))?;
    let site = site
        .canonicalize()
        .map_err(|error| format!("no site at {}: {error}", site.display()))?;
    for page in pages(&site)? {
        let name = page
            .strip_prefix(&site)
            .unwrap_or(&page)
            .with_extension("")
            .to_string_lossy()
            .replace('/', "-");
        for (form, size, dark) in [
            ("light", "1280,1600", false),
            ("dark", "1280,1600", true),
            ("phone", "500,1600", false),
        ] {
            picture(&page, &out.join(format!("{name}-{form}.png")), size, dark)?;
        }
        println!("{name}");
    }
    Ok(())
}

/// One page of each kind: all at the top, and the first of each folder.
fn pages(site: &Path) -> Result<Vec<PathBuf>, String> {
    let html = |folder: &Path| -> Result<Vec<PathBuf>, String> {
        let entries = fs::read_dir(folder)
            .map_err(|error| format!("failed to read {}: {error}", folder.display()))?;
        let mut paths: Vec<_> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .collect();
        paths.sort();
        Ok(paths)
    };
    let mut pages = Vec::new();
    let mut folders = vec![(site.to_owned(), usize::MAX)];
    while let Some((folder, most)) = folders.pop() {
        let mut taken = 0;
        for path in html(&folder)? {
            if path.is_dir() {
                folders.push((path, 1));
            } else if path
                .extension()
                .is_some_and(|extension| extension == "html")
                && taken < most
            {
                pages.push(path);
                taken += 1;
            }
        }
    }
    Ok(pages)
}

fn picture(page: &Path, file: &Path, size: &str, dark: bool) -> Result<(), String> {
    let profile = tempfile::tempdir().map_err(|error| error.to_string())?;
    let mut command = program("chromium");
    command.args([
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--hide-scrollbars",
    ]);
    command.args([
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--disable-quic",
    ]);
    command.arg(format!("--user-data-dir={}", profile.path().display()));
    command
        .arg(format!("--window-size={size}"))
        .arg("--virtual-time-budget=3000");
    if dark {
        command.arg("--blink-settings=preferredColorScheme=0");
    }
    command
        .arg(format!("--screenshot={}", file.display()))
        .arg(format!("file://{}", page.display()));
    command.stderr(std::process::Stdio::null());
    run(&mut command)
}
