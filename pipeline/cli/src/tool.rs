//! Which photofinish this is.

use schema::{Digest, record::Tool};

/// Hash of what aggregate is built from: part of the key of tables.
pub(crate) const AGGREGATE: &str = env!("PHOTOFINISH_AGGREGATE_DIGEST");

/// Hash of what report is built from, templates included: part of the key of a site.
pub(crate) const REPORT: &str = env!("PHOTOFINISH_REPORT_DIGEST");

/// This program: its version and, where it was built in a checkout, the revision.
pub(crate) fn this() -> Tool {
    Tool {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        revision: option_env!("PHOTOFINISH_REVISION").map(str::to_owned),
    }
}

/// A key of a later stage: the code that makes the artifact, and what it is made from.
pub(crate) fn key(code: &str, made_from: &Digest) -> Digest {
    Digest::of_parts([code.as_bytes(), made_from.as_bytes().as_slice()])
}
