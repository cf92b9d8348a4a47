//! The job under examination: where it stands, and what was found wrong with it.

use std::collections::BTreeSet;

use schema::manifest::Job;

use crate::{ManifestFile, World, fault::Fault, tree::Step};

/// Most errors noted for one job: more would flood the terminal, and take time to word.
const FAULT_LIMIT: usize = 30;

/// A job with its file and the faults found so far.
pub(crate) struct Context<'a> {
    pub(crate) world: &'a World,
    pub(crate) file: &'a ManifestFile,
    pub(crate) job: &'a Job,
    index: usize,
    pub(crate) faults: Vec<Fault>,
    /// Names of the dimensions of the user's models, those of the zoo apart.
    pub(crate) dimensions: BTreeSet<String>,
}

/// A key on the way to a value.
pub(crate) fn key(name: &str) -> Step {
    Step::Key(name.to_owned())
}

/// A key itself.
pub(crate) fn name(name: &str) -> Step {
    Step::Name(name.to_owned())
}

impl<'a> Context<'a> {
    pub(crate) fn new(
        world: &'a World,
        file: &'a ManifestFile,
        index: usize,
        job: &'a Job,
    ) -> Self {
        Self {
            world,
            file,
            job,
            index,
            faults: Vec::new(),
            dimensions: BTreeSet::new(),
        }
    }

    /// The way from the root to something of the job.
    pub(crate) fn path(&self, steps: &[Step]) -> Vec<Step> {
        let mut path = vec![key("jobs"), Step::Index(self.index)];
        path.extend_from_slice(steps);
        path
    }

    /// Notes an error at something of the job.
    pub(crate) fn error(&mut self, steps: &[Step], message: impl Into<String>) {
        if self.has_room() {
            let fault = self.file.fault(&self.path(steps), message);
            self.faults.push(fault);
        }
    }

    /// Whether one more error would be noted.
    pub(crate) fn has_room(&self) -> bool {
        self.faults.len() < FAULT_LIMIT
    }

    /// Notes an error with what would be right.
    pub(crate) fn error_with_help(
        &mut self,
        steps: &[Step],
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        if self.has_room() {
            let fault = self.file.fault(&self.path(steps), message).help(help);
            self.faults.push(fault);
        }
    }
}
