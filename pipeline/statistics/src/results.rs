//! Lines of results of experiments, with a first line that names the columns.

use serde::{Serialize, de::DeserializeOwned};

/// Reads lines of results.
///
/// # Errors
/// Names the first line that is none.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<Vec<T>, String> {
    let mut rows = csv::Reader::from_reader(text.as_bytes());
    let read: Result<_, _> = rows.deserialize().collect();
    read.map_err(|error| format!("no line of results: {error}"))
}

/// Lines of results, as [`read`] takes them.
///
/// # Errors
/// When a row cannot be written as a line.
pub fn write<T: Serialize>(results: &[T]) -> Result<String, String> {
    let mut rows = csv::Writer::from_writer(Vec::new());
    let written: Result<(), _> = results.iter().try_for_each(|row| rows.serialize(row));
    written.map_err(|error| error.to_string())?;
    let bytes = rows.into_inner().map_err(|error| error.to_string())?;
    String::from_utf8(bytes).map_err(|error| error.to_string())
}
