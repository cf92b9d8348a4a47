//! Two profiles, layer by layer.
//!
//! Engines fuse nodes, each in its own way, so that the smallest thing that can be compared is a set of
//! nodes that neither has computed together with others: a connected component of the sets that both
//! profiles name. What is no node's stands apart.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
};

use schema::{
    Boundary,
    plan::Comparison,
    protocol::Profile,
    tables::{Compared, ComparisonTable, Layer, Lineup, Naming, Place, Verdict},
};
use statistics::number::rounded;

use super::{Sums, total};
use crate::{
    group::{Entry, Index},
    speed,
};

/// The pairs of comparisons of which both cells were profiled, and are of one model: nodes of two have
/// nothing to do with each other, whatever they are called. Each with what its verdict allows to say.
pub(crate) fn lineups(
    compared: &[Comparison],
    tables: &[ComparisonTable],
    cells: &Index<'_>,
) -> Vec<Lineup> {
    fn told(entry: Entry<'_>) -> Option<Side<'_>> {
        // A profile is of the step alone, by the host's clock.
        let is_of_steps = entry.cell.cell.boundary == Boundary::Step;
        Some(Side {
            profile: entry.slot.profiled.as_ref()?.profile.as_ref()?,
            step_ns: speed::step_ns(entry.slot).filter(|_| is_of_steps),
        })
    }
    let mut lineups = Vec::new();
    for (comparison, (planned, table)) in (0_u32..).zip(compared.iter().zip(tables)) {
        for (row, (pair, judged)) in (0_u32..).zip(planned.pairs.iter().zip(&table.rows)) {
            let entry = |id| cells.entry(&pair.group, id);
            let both = entry(&pair.baseline).zip(entry(&pair.contender));
            let Some((baseline, contender)) = both else {
                continue;
            };
            if baseline.cell.cell.model != contender.cell.cell.model {
                continue;
            }
            if let (Some(baseline), Some(contender)) = (told(baseline), told(contender)) {
                let measured = Measured {
                    ratio: judged.ratio.map(|ratio| ratio.centre),
                    verdict: judged.verdict,
                };
                let place = Place { comparison, row };
                lineups.push(lineup(place, measured, baseline, contender));
            }
        }
    }
    lineups
}

/// What was measured of a pair, without any profiler.
#[derive(Clone, Copy)]
struct Measured {
    ratio: Option<f64>,
    verdict: Verdict,
}

/// A cell's profile, and its measured step in nanoseconds, where it has one.
#[derive(Clone, Copy)]
struct Side<'a> {
    profile: &'a Profile,
    step_ns: Option<f64>,
}

fn lineup(place: Place, measured: Measured, baseline: Side<'_>, contender: Side<'_>) -> Lineup {
    let sides = [Sums::of(baseline.profile), Sums::of(contender.profile)];
    let of_both = |ns: fn(&Sums<'_>) -> f64| {
        let [baseline, contender] = &sides;
        compared(baseline.each(ns(baseline)), contender.each(ns(contender)))
    };
    let mut rest = [
        of_both(|sums| sums.conversions_ns),
        of_both(|sums| sums.overhead_ns),
        of_both(|sums| sums.between_ns),
    ];
    let mut layers = layers(&sides);
    layers.sort_by(|one, other| {
        let size = |layer: &Layer| layer.time.difference_ns.abs();
        size(other).total_cmp(&size(one))
    });
    let times = layers.iter().map(|layer| layer.time).chain(rest);
    let all = total(times.map(|time| time.difference_ns.abs()));
    let share = |time: &mut Compared| {
        time.share = match all > 0.0 {
            true => rounded(time.difference_ns.abs() / all),
            false => 0.0,
        };
    };
    layers.iter_mut().for_each(|layer| share(&mut layer.time));
    rest.iter_mut().for_each(share);
    let [conversions, overhead, between] = rest;
    let step = of_both(|sums| sums.wall_ns);
    let [first, second] = &sides;
    let ratio = rounded(step.contender_ns / step.baseline_ns.max(f64::MIN_POSITIVE));
    let slowdowns = [
        baseline.step_ns.map(|step_ns| first.slowdown(step_ns)),
        contender.step_ns.map(|step_ns| second.slowdown(step_ns)),
    ];
    Lineup {
        place,
        step,
        ratio,
        slowdowns,
        naming: unnamed(measured, ratio, slowdowns)
            .unwrap_or_else(|| Naming::Layers(leading(&layers))),
        layers,
        conversions,
        overhead,
        between,
        kernels: [first.kernels(), second.kernels()],
        converting: [first.converting(), second.converting()],
    }
}

fn compared(baseline_ns: f64, contender_ns: f64) -> Compared {
    Compared {
        baseline_ns,
        contender_ns,
        difference_ns: rounded(contender_ns - baseline_ns),
        share: 0.0,
    }
}

/// Why no layer is named; `None` where those that differ make a difference that was measured.
///
/// A profiler that costs c_b times the baseline's step, and one that costs c_c times the contender's, make of the ratio
/// ρ of two measured steps the profiled ρ · c_c ÷ c_b. Where neither |ln c| is more than half of |ln ρ|, that lies on the
/// same side of 1, however unequal they are, and at least half of what lies between two profiles is the engines'.
fn unnamed(measured: Measured, ratio: f64, slowdowns: [Option<f64>; 2]) -> Option<Naming> {
    if !matches!(measured.verdict, Verdict::Faster | Verdict::Slower) {
        return Some(Naming::NoDifference);
    }
    let size = |ratio: f64| libm::log(ratio).abs();
    let costs = |limit: f64| {
        let mut known = slowdowns.iter().map(|cost| cost.map(size));
        known.all(|cost| cost.is_some_and(|cost| cost <= limit / 2.0))
    };
    let is_same_side = (ratio < 1.0) == (measured.verdict == Verdict::Faster);
    let tells = measured.ratio.is_some_and(|ratio| costs(size(ratio))) && is_same_side;
    (!tells).then_some(Naming::Profilers)
}

/// The number of layers from the first on that make half of all differences.
fn leading(layers: &[Layer]) -> u32 {
    let mut sum = 0.0;
    for (count, layer) in (1_u32..).zip(layers) {
        sum += layer.time.share;
        if sum >= 0.5 {
            return count;
        }
    }
    0
}

/// The connected components of the sets of nodes that two profiles name, each with its times.
fn layers(sides: &[Sums<'_>; 2]) -> Vec<Layer> {
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    let mut parts = Parts::default();
    for entry in sides.iter().flat_map(|side| &side.profile.entries) {
        let mut first = None;
        for node in &entry.nodes {
            let place = *places.entry(node).or_insert_with(|| parts.add());
            let first = *first.get_or_insert(place);
            parts.join(first, place);
        }
    }
    let mut layers: BTreeMap<usize, (BTreeSet<&str>, [f64; 2])> = BTreeMap::new();
    for (node, place) in &places {
        let (nodes, _) = layers.entry(parts.find(*place)).or_default();
        nodes.insert(node);
    }
    for (side, sums) in sides.iter().enumerate() {
        for entry in &sums.profile.entries {
            let place = entry
                .nodes
                .first()
                .and_then(|node| places.get(node.as_str()));
            let layer = place.and_then(|place| layers.get_mut(&parts.find(*place)));
            if let Some(time_ns) = layer.and_then(|(_, times)| times.get_mut(side)) {
                *time_ns += entry.time_ns as f64;
            }
        }
    }
    let [baseline, contender] = sides;
    let layers = layers.into_values().map(|(nodes, times)| Layer {
        nodes: nodes.into_iter().map(str::to_owned).collect(),
        time: compared(baseline.each(times[0]), contender.each(times[1])),
    });
    layers.collect()
}

/// Sets that are joined (Galler and Fischer 1964), the smallest number of each its name.
#[derive(Default)]
struct Parts(Vec<usize>);

impl Parts {
    fn add(&mut self) -> usize {
        let place = self.0.len();
        self.0.push(place);
        place
    }

    /// Every place on the way is hung higher: without that, as many entries as a profile may have could
    /// make a way as long.
    fn find(&mut self, place: usize) -> usize {
        let mut place = place;
        while let Some(&above) = self.0.get(place)
            && above != place
        {
            let higher = self.0.get(above).copied().unwrap_or(above);
            if let Some(held) = self.0.get_mut(place) {
                *held = higher;
            }
            place = above;
        }
        place
    }

    fn join(&mut self, one: usize, other: usize) {
        let (one, other) = (self.find(one), self.find(other));
        let (low, high) = match one.cmp(&other) {
            Ordering::Equal => return,
            Ordering::Less => (one, other),
            Ordering::Greater => (other, one),
        };
        if let Some(above) = self.0.get_mut(high) {
            *above = low;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::tests::profile;

    const PLACE: Place = Place {
        comparison: 0,
        row: 0,
    };

    /// Of a pair whose steps take so long without a profiler, in microseconds; the contender is faster.
    fn lineup_of(profiles: [&Profile; 2], steps_us: [f64; 2], verdict: Verdict) -> Lineup {
        let [baseline, contender] = steps_us;
        let side = |profile, step_us: f64| Side {
            profile,
            step_ns: Some(step_us * 1000.0),
        };
        let measured = Measured {
            ratio: Some(contender / baseline),
            verdict,
        };
        let [one, other] = profiles;
        lineup(PLACE, measured, side(one, baseline), side(other, contender))
    }

    #[test]
    fn layers_are_named_where_they_make_what_was_measured() {
        let one = profile(100, &[("a", 60), ("b", 40)]);
        let other = profile(150, &[("a", 110), ("b", 40)]);
        let naming = |steps, verdict| lineup_of([&one, &other], steps, verdict).naming;
        let slower = |steps| naming(steps, Verdict::Slower);
        assert_eq!(slower([100.0, 150.0]), Naming::Layers(1));
        for open in [Verdict::Unclear, Verdict::Same, Verdict::NotMeasured] {
            assert_eq!(naming([100.0, 150.0], open), Naming::NoDifference);
        }
        // Half of a ratio of 1.44 is 1.2: under its profiler the contender takes 1.21 times its step, or less.
        assert_eq!(
            slower([150.0 / 1.21 / 1.44, 150.0 / 1.21]),
            Naming::Profilers
        );
        assert_eq!(slower([100.0, 150.0 / 1.19]), Naming::Profilers);
        assert_eq!(slower([100.0, 150.0 / 1.14]), Naming::Layers(1));
        // The profiles are on the other side.
        assert_eq!(naming([100.0, 90.0], Verdict::Faster), Naming::Profilers);
        assert_eq!(naming([100.0, 150.0], Verdict::Faster), Naming::Profilers);
        let found = lineup_of([&one, &other], [100.0, 125.0], Verdict::Slower);
        assert_eq!(
            (found.ratio, found.slowdowns),
            (1.5, [Some(1.0), Some(1.2)])
        );
    }

    #[test]
    fn fused_nodes_stand_beside_those_that_the_other_has_one_by_one() {
        let eager = profile(
            100,
            &[("conv", 40), ("bn", 10), ("relu", 5), ("fc", 20), ("", 3)],
        );
        let fused = profile(50, &[("conv bn relu", 30), ("fc", 15), ("!", 4)]);
        let lineup = lineup_of([&eager, &fused], [100.0, 50.0], Verdict::Faster);
        let told: Vec<_> = lineup
            .layers
            .iter()
            .map(|layer| {
                let time = layer.time;
                let numbers = [time.baseline_ns, time.contender_ns, time.difference_ns];
                (layer.nodes.join(" "), numbers.map(|ns| ns / 1000.0))
            })
            .collect();
        assert_eq!(
            told,
            [
                ("bn conv relu".to_owned(), [55.0, 30.0, -25.0]),
                ("fc".to_owned(), [20.0, 15.0, -5.0]),
            ]
        );
        assert_eq!(lineup.step.difference_ns, -50_000.0);
        assert_eq!(lineup.conversions.difference_ns, 4000.0);
        assert_eq!(lineup.overhead.difference_ns, -3000.0);
        // 22 µs pass between the entries of the one, and 1 µs between those of the other.
        assert_eq!(lineup.between.difference_ns, -21_000.0);
        let shares = lineup
            .layers
            .iter()
            .map(|layer| layer.time.share)
            .sum::<f64>();
        let rest = [lineup.conversions, lineup.overhead, lineup.between];
        let rest: f64 = rest.iter().map(|time| time.share).sum();
        assert!((shares + rest - 1.0).abs() < 1e-5);
        assert_eq!(lineup.layers[0].time.share, rounded(25.0 / 58.0));
        assert_eq!(lineup.naming, Naming::Layers(2));
        assert_eq!(lineup.kernels, [5.0, 3.0]);
        assert_eq!(lineup.converting, [0.0, 1.0]);
    }

    /// What one has fused with what comes after, and the other with what comes before, is one layer.
    #[test]
    fn overlapping_sets_are_one_layer() {
        let one = profile(10, &[("a b", 1), ("c d", 2), ("e", 1)]);
        let other = profile(10, &[("b c", 3), ("a", 1), ("f", 4)]);
        let lineup = lineup_of([&one, &other], [10.0, 10.0], Verdict::Same);
        let nodes: Vec<_> = lineup.layers.iter().map(|it| it.nodes.join(" ")).collect();
        assert_eq!(nodes, ["f", "a b c d", "e"]);
        assert_eq!(lineup.layers[0].time.baseline_ns, 0.0);
    }

    #[test]
    fn equal_profiles_differ_in_nothing() {
        let one = profile(10, &[("a", 4)]);
        let lineup = lineup_of([&one, &one], [10.0, 10.0], Verdict::Same);
        assert_eq!(lineup.layers[0].time.share, 0.0);
        assert_eq!(leading(&lineup.layers), 0);
        // Nothing is 0, and not a negative one, which would be printed with its sign.
        let nothing = [lineup.conversions, lineup.overhead];
        let nothing = nothing.map(|time| [time.baseline_ns, time.difference_ns, time.share]);
        assert!(nothing.concat().iter().all(|ns| ns.is_sign_positive()));
    }

    #[test]
    fn what_all_are_fused_into_is_found_by_each() {
        let mut parts = Parts::default();
        let places: Vec<usize> = (0..100_000).map(|_| parts.add()).collect();
        for pair in places.windows(2).rev() {
            parts.join(pair[0], pair[1]);
        }
        assert!(places.iter().rev().all(|place| parts.find(*place) == 0));
    }
}
