//! `photofinish schema`: the JSON Schema of a document.

use schemars::schema_for;

use crate::{
    args::{Document, Schema},
    failure::Failure,
    printer::Printer,
};

/// Prints the schema, whatever the output format: it is JSON already.
pub(crate) fn schema(printer: Printer, arguments: &Schema) -> Result<(), Failure> {
    let schema = match arguments.document {
        // In the very bytes of the file that manifests name.
        Document::Manifest => {
            printer.raw(&plan::manifest_schema_text());
            return Ok(());
        }
        Document::Plan => schema_for!(schema::Plan),
        Document::Heat => schema_for!(schema::record::HeatLine),
        Document::Tables => schema_for!(schema::Tables),
        Document::Request => schema_for!(schema::protocol::Request),
        Document::Reply => schema_for!(schema::protocol::Reply),
    };
    let text = serde_json::to_string_pretty(&schema)
        .map_err(|error| Failure::internal(format!("failed to write the schema: {error}")))?;
    printer.raw(&text);
    Ok(())
}
