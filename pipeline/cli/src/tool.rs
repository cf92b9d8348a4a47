//! Which photofinish this is.

use std::process::{Command, Stdio};

use schema::{Digest, record::Tool};

/// Hash of what aggregate is built from: part of the key of tables.
pub(crate) const AGGREGATE: &str = env!("PHOTOFINISH_AGGREGATE_DIGEST");

/// Hash of what report is built from, templates included: part of the key of a site.
pub(crate) const REPORT: &str = env!("PHOTOFINISH_REPORT_DIGEST");

/// This program: its version and, in the checkout that it was built from, the revision.
pub(crate) fn this() -> Tool {
    Tool {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        revision: revision(),
    }
}

/// A key of a later stage: the code that makes the artifact, and what it is made from.
pub(crate) fn key(code: &str, made_from: &Digest) -> Digest {
    Digest::of_parts([code.as_bytes(), made_from.as_bytes().as_slice()])
}

/// The checkout's revision; `-dirty` is added for uncommitted changes. `None` where there is no
/// checkout any more, or no git.
fn revision() -> Option<String> {
    let output = Command::new("git")
        .args([
            "-C",
            env!("CARGO_MANIFEST_DIR"),
            "describe",
            "--always",
            "--abbrev=40",
            "--dirty",
            "--exclude=*",
        ])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let text = text.trim();
    (output.status.success() && !text.is_empty()).then(|| text.to_owned())
}
