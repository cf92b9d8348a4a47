//! What each page shows, in words: templates get text and decide nothing.

pub(crate) mod agreement;
pub(crate) mod batches;
pub(crate) mod cell;
pub(crate) mod cells;
pub(crate) mod chrome;
pub(crate) mod comparison;
pub(crate) mod configuration;
pub(crate) mod downloads;
pub(crate) mod effects;
pub(crate) mod experiments;
pub(crate) mod forest;
pub(crate) mod frontier;
pub(crate) mod job;
pub(crate) mod log;
pub(crate) mod machines;
pub(crate) mod method;
pub(crate) mod overview;
pub(crate) mod parity;
pub(crate) mod profile;
pub(crate) mod roofline;
pub(crate) mod sensors;
pub(crate) mod setting;
pub(crate) mod times;
