//! Tables as files to download.

mod ceilings;
mod csv;
mod downloads;
mod json;
mod parquet;
mod sensors;

pub use downloads::downloads;
