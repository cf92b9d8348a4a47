//! What engines written in Rust need to tell where the time of a step goes.

mod attribute;

use std::{
    collections::{BTreeMap, BTreeSet},
    iter::successors,
};

use schema::{
    Outcome,
    protocol::{MOST_ENTRIES, MOST_NAME_CHARS, Profile, ProfileEntry},
};

pub use attribute::{Operator, Part, attribute};

use crate::failure::unsupported;

/// The name, the name without its last word, without its last two, and so on: nodes are named after all
/// that they lie in.
pub fn enclosing(name: &str) -> impl Iterator<Item = &str> {
    successors(Some(name), |name| Some(name.rsplit_once('.')?.0))
}

/// The entries of a profile as they come in: what has the same name, nodes and purpose is one.
#[derive(Debug, Default)]
pub struct ProfileEntries {
    entries: BTreeMap<(String, BTreeSet<String>, bool), (u64, u64)>,
}

impl ProfileEntries {
    /// Adds time that was spent in so many calls on something; [`ProfileEntry`] says what its
    /// fields mean.
    pub fn add(&mut self, entry: ProfileEntry) {
        let name = entry.name.chars().take(MOST_NAME_CHARS).collect();
        let key = (name, entry.nodes, entry.conversion);
        let (time_ns, calls) = self.entries.entry(key).or_default();
        *time_ns = time_ns.saturating_add(entry.time_ns);
        *calls = calls.saturating_add(entry.calls);
    }

    /// The profile of so many steps, that took `wall_ns` together and launched so many kernels.
    ///
    /// # Errors
    /// `unsupported`: it has more entries than a profile may have.
    pub fn finish(self, steps: u64, wall_ns: u64, kernels: u64) -> Result<Profile, Outcome> {
        let count = self.entries.len();
        if count > MOST_ENTRIES {
            return Err(unsupported(format!(
                "the profile has {count} entries, and {MOST_ENTRIES} are possible"
            )));
        }
        let entries = self.entries.into_iter();
        let entries = entries.map(
            |((name, nodes, conversion), (time_ns, calls))| ProfileEntry {
                name,
                nodes,
                time_ns,
                calls,
                conversion,
            },
        );
        Ok(Profile {
            steps,
            wall_ns,
            kernels,
            entries: entries.collect(),
        })
    }
}
