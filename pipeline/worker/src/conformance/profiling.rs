//! Saying where the time goes.

use schema::protocol::{Profiling, Reply, Request};

use super::subject::{Subject, Trouble, cannot, demand, fail, steps};

/// Steps to profile.
const STEPS: u64 = 3;

/// That sums and nodes are possible, the supervisor looks at itself.
pub(super) fn profile(subject: &Subject<'_>) -> Result<(), Trouble> {
    let mut guest = subject.start_loaded()?;
    let few = steps(0, STEPS);
    guest.measure(few)?;
    let deadline = guest.deadline();
    let request = Request::Profile(Profiling { steps: STEPS });
    match guest.host.request(&request, deadline) {
        Ok(Reply::Profile(profile)) => {
            demand(!profile.entries.is_empty(), || {
                "its profile is empty; what cannot be told is failed as `unsupported`".to_owned()
            })?;
            let mapped = profile.entries.iter().any(|entry| !entry.nodes.is_empty());
            demand(mapped, || {
                "no entry of its profile names a node of the graph".to_owned()
            })?;
            demand(profile.wall_ns > 0, || {
                "its profiled steps took no time".to_owned()
            })?;
        }
        Ok(other) => return fail(format!("`{}` instead of `profile`", other.name())),
        Err(outcome) => cannot(&guest, "profile", outcome)?,
    }
    // Steps are steps again.
    guest.measure(few)?;
    Ok(())
}
