//! axe-core, the checker of accessibility, brought by npm as the lock file pins it.

use std::{fs, path::Path, process::Command, sync::OnceLock};

use serde_json::Value;

use super::browser::Browser;

const MISSING: &str = "the browser tests need npm, which brings axe-core: `apt-get install npm`";

/// Its source. Fetched once, into the folder of build outputs.
fn source() -> &'static str {
    static SOURCE: OnceLock<String> = OnceLock::new();
    SOURCE.get_or_init(|| {
        let pinned = Path::new(env!("CARGO_MANIFEST_DIR")).join("../site/tests");
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("site-tests");
        let script = folder.join("node_modules/axe-core/axe.min.js");
        let lock = fs::read(pinned.join("package-lock.json")).expect("a lock file");
        let fetched =
            fs::read(folder.join("fetched-lock.json")).is_ok_and(|fetched| fetched == lock);
        if !fetched || !script.exists() {
            fs::create_dir_all(&folder).expect("a folder");
            for file in ["package.json", "package-lock.json"] {
                fs::copy(pinned.join(file), folder.join(file)).expect("a copy");
            }
            let status = Command::new("npm")
                .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"])
                .current_dir(&folder)
                .status()
                .unwrap_or_else(|error| panic!("{MISSING} ({error})"));
            assert!(status.success(), "`npm ci` failed in {}", folder.display());
            fs::write(folder.join("fetched-lock.json"), lock).expect("a note");
        }
        fs::read_to_string(script).expect("axe-core")
    })
}

/// What is wrong with the page that is open: one line a violation, with the element.
pub async fn violations(browser: &Browser) -> Vec<String> {
    browser.run(source()).await;
    let found = browser
        .client
        .execute_async(
            "const done = arguments[arguments.length - 1];
             axe.run(document, { resultTypes: ['violations'] }).then(
                (result) => done(result.violations.flatMap((v) =>
                    v.nodes.slice(0, 3).map((n) => `${v.id}: ${n.html.slice(0, 200)} ${n.failureSummary}`))),
                (error) => done([String(error)]));",
            Vec::new(),
        )
        .await
        .expect("axe runs");
    found
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}
