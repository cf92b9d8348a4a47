//! Where the time goes: a cell's profile per step, and two of them layer by layer.

mod lineup;

use schema::{
    protocol::{Profile, ProfileEntry},
    record::Profiled,
    tables::{CellProfile, ProfileRow, Speed, ToldProfile},
};
use statistics::number::rounded;

pub(crate) use lineup::lineups;

/// What is said of a cell that was profiled.
pub(crate) fn cell(profiled: &Profiled, speed: Option<&Speed>) -> CellProfile {
    let told = profiled.profile.as_ref();
    CellProfile {
        outcome: profiled.outcome.clone(),
        told: told.map(|profile| Sums::of(profile).told(speed)),
        log: profiled.log.clone(),
    }
}

/// The share of a step that goes to kernels, when a measured one takes `step_ns`: at least, and at most.
///
/// What the profiler costs may have been spent in kernels, all of it, or between them; and what is no
/// node's may be kernels, as an optimiser's are, or the engine's own doing.
pub(crate) fn kernels(profile: &Profile, step_ns: f64) -> [f64; 2] {
    let sums = Sums::of(profile);
    let of_step = |ns: f64| ns / sums.steps;
    // The profile is of the fastest of several runs: what a measured step takes longer may be kernels or not.
    let profiled_ns = of_step(sums.wall_ns).max(1.0);
    let (step_ns, shorter_ns) = (step_ns.max(1.0), step_ns.min(profiled_ns).max(1.0));
    let costs_ns = profiled_ns - shorter_ns;
    let all_ns = sums.nodes_ns + sums.conversions_ns + sums.overhead_ns;
    let low = (of_step(sums.nodes_ns) - costs_ns) / step_ns;
    let high = of_step(all_ns) / shorter_ns;
    [low, high].map(|share| share.clamp(0.0, 1.0))
}

/// The sum of numbers, of none of them 0: the standard library's is −0.
fn total(numbers: impl Iterator<Item = f64>) -> f64 {
    numbers.fold(0.0, |sum, number| sum + number)
}

/// A profile's times by what they are, of all steps.
struct Sums<'a> {
    profile: &'a Profile,
    /// Steps, never 0.
    steps: f64,
    nodes_ns: f64,
    conversions_ns: f64,
    overhead_ns: f64,
    /// The time that no entry tells of. Engines round each entry to a microsecond, some of them, so that
    /// all together may come to more than there was.
    between_ns: f64,
    wall_ns: f64,
}

impl<'a> Sums<'a> {
    fn of(profile: &'a Profile) -> Self {
        let sum = |is_meant: fn(&ProfileEntry) -> bool| {
            let entries = profile.entries.iter();
            let meant = entries.filter(|entry| is_meant(entry));
            total(meant.map(|entry| entry.time_ns as f64))
        };
        let nodes_ns = sum(|entry| !entry.nodes.is_empty());
        let conversions_ns = sum(|entry| entry.nodes.is_empty() && entry.conversion);
        let overhead_ns = sum(|entry| entry.nodes.is_empty() && !entry.conversion);
        let wall_ns = profile.wall_ns as f64;
        Self {
            profile,
            steps: profile.steps.max(1) as f64,
            nodes_ns,
            conversions_ns,
            overhead_ns,
            between_ns: (wall_ns - nodes_ns - conversions_ns - overhead_ns).max(0.0),
            wall_ns,
        }
    }

    fn each(&self, sum: f64) -> f64 {
        rounded(sum / self.steps)
    }

    fn conversions(&self) -> impl Iterator<Item = &'a ProfileEntry> {
        let entries = self.profile.entries.iter();
        entries.filter(|entry| entry.conversion)
    }

    fn converting(&self) -> f64 {
        let calls = self.conversions().map(|entry| entry.calls as f64);
        self.each(total(calls))
    }

    fn kernels(&self) -> f64 {
        self.each(self.profile.kernels as f64)
    }

    /// A step under the profiler, divided by a measured one.
    fn slowdown(&self, step_ns: f64) -> f64 {
        rounded(self.wall_ns / self.steps / step_ns)
    }

    fn told(&self, speed: Option<&Speed>) -> ToldProfile {
        let centre = speed.map(|speed| speed.step_ns.centre);
        let centre = centre.filter(|centre| *centre > 0.0);
        let wall_ns = self.wall_ns.max(1.0);
        let row = |entry: &ProfileEntry| ProfileRow {
            name: entry.name.clone(),
            nodes: entry.nodes.iter().cloned().collect(),
            time_ns: self.each(entry.time_ns as f64),
            share: rounded(entry.time_ns as f64 / wall_ns),
            calls: self.each(entry.calls as f64),
            conversion: entry.conversion,
        };
        let mut entries: Vec<ProfileRow> = self.profile.entries.iter().map(row).collect();
        // Stable, so that equals keep the order of their names.
        entries.sort_by(|one, other| other.time_ns.total_cmp(&one.time_ns));
        let converting_ns = self.conversions().map(|entry| entry.time_ns as f64);
        ToldProfile {
            steps: self.profile.steps,
            wall_ns: self.each(self.wall_ns),
            slowdown: centre.map(|centre| self.slowdown(centre)),
            kernels: self.kernels(),
            conversions: self.converting(),
            converting_ns: self.each(total(converting_ns)),
            nodes_ns: self.each(self.nodes_ns),
            conversions_ns: self.each(self.conversions_ns),
            overhead_ns: self.each(self.overhead_ns),
            between_ns: self.each(self.between_ns),
            entries,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of two steps; entries of `nodes: microseconds a step`, those that begin with `!` convert.
    pub(super) fn profile(wall_us: u64, entries: &[(&str, u64)]) -> Profile {
        let entry = |(nodes, us): &(&str, u64)| {
            let conversion = nodes.starts_with('!');
            let nodes = nodes.trim_start_matches('!').split_whitespace();
            ProfileEntry {
                name: "kernel".to_owned(),
                nodes: nodes.map(str::to_owned).collect(),
                time_ns: us * 2000,
                calls: 2,
                conversion,
            }
        };
        Profile {
            steps: 2,
            wall_ns: wall_us * 2000,
            kernels: 2 * entries.len() as u64,
            entries: entries.iter().map(entry).collect(),
        }
    }

    #[test]
    fn kernels_have_a_share_of_the_measured_step() {
        let of = |wall_us, nodes_us, step_us: f64| {
            kernels(&profile(wall_us, &[("a", nodes_us)]), step_us * 1000.0)
        };
        // The profiler cost 20 of 120, which may have been kernels' or not.
        assert_eq!(of(120, 90, 100.0), [0.7, 0.9]);
        // The fastest of several runs was faster than what was measured.
        assert_eq!(of(80, 70, 100.0), [0.7, 0.875]);
    }

    #[test]
    fn a_cells_times_are_of_one_step_and_add_up_to_it() {
        let profiled = Profiled {
            outcome: schema::Outcome::measured(),
            profile: Some(profile(
                100,
                &[("a", 10), ("b", 40), ("!", 5), ("", 6), ("!b", 9)],
            )),
            log: String::new(),
        };
        let told = cell(&profiled, None).told.unwrap();
        let parts = told.nodes_ns + told.conversions_ns + told.overhead_ns + told.between_ns;
        assert_eq!((told.wall_ns, parts), (100_000.0, 100_000.0));
        assert_eq!((told.conversions, told.converting_ns), (2.0, 14_000.0));
        assert_eq!(told.slowdown, None);
        let times: Vec<_> = told.entries.iter().map(|entry| entry.time_ns).collect();
        assert_eq!(times, [40_000.0, 10_000.0, 9000.0, 6000.0, 5000.0]);
        assert_eq!(told.entries[0].share, 0.4);
        // What a corrupt file may say divides by nothing.
        let empty = Profiled {
            profile: Some(Profile {
                steps: 0,
                wall_ns: 0,
                kernels: u64::MAX,
                entries: vec![ProfileEntry {
                    time_ns: u64::MAX,
                    ..profile(1, &[("a", 1)]).entries[0].clone()
                }],
            }),
            ..profiled
        };
        let told = cell(&empty, None).told.unwrap();
        assert!(told.between_ns == 0.0 && told.entries[0].share.is_finite());
    }
}
