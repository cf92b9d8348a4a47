//! Tables as files to download.

mod csv;
mod downloads;
mod json;
mod parquet;

pub use downloads::downloads;
