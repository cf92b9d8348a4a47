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
pub(crate) mod scaling;
pub(crate) mod sensors;
pub(crate) mod setting;
pub(crate) mod times;

/// The tables of a run that nobody made: one comparison, over six blocks.
#[cfg(test)]
pub(crate) fn invented_tables() -> schema::Tables {
    let run = synthetic::run(synthetic::Size {
        cells: 2,
        blocks: 6,
        rounds: 1,
        samples: 3,
    });
    aggregate::aggregate(&run.record, &|key, heat| run.heat(key, heat)).expect("they are sound")
}
