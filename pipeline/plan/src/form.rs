//! The form of a manifest for editors.

use schema::manifest::Manifest;
use schemars::Schema;

/// The JSON Schema of a manifest, generated from the types that read it.
#[must_use]
pub fn manifest_schema() -> Schema {
    let mut schema = schemars::schema_for!(Manifest);
    schema.insert("title".to_owned(), "photofinish manifest".into());
    schema
}

/// [`manifest_schema`] as text, as `jobs/manifest.schema.json` holds it.
#[must_use]
pub fn manifest_schema_text() -> String {
    format!("{:#}\n", manifest_schema().to_value())
}
