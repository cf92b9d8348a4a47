//! All tables as one JSON document.

use schema::Tables;

use crate::ExportError;

/// The whole document in one line: it is long, and programs read it.
pub(super) fn tables(tables: &Tables) -> Result<Vec<u8>, ExportError> {
    let mut bytes = serde_json::to_vec(tables).map_err(|source| ExportError::Json {
        file: "tables.json".to_owned(),
        source,
    })?;
    bytes.push(b'\n');
    Ok(bytes)
}
