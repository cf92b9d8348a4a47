//! Which cells a claim speaks of.

use std::{borrow::Cow, collections::BTreeMap};

use crate::plan::{Expectation, PlannedCell};

/// A cell, and what its caller knows of it.
type Known<'a, T> = (&'a PlannedCell, T);

impl Expectation {
    /// The pairs that it speaks of among the cells of one heat, the left of each first: cells that
    /// differ in its axis, and in no other that both know. A factor that one engine or precision alone has
    /// keeps no pair apart. None where it holds each cell against a number.
    #[must_use]
    pub fn pairs<'a, T: Copy>(
        &self,
        cells: impl IntoIterator<Item = Known<'a, T>>,
    ) -> Vec<[Known<'a, T>; 2]> {
        let (mut lefts, mut rights) = (Vec::new(), Vec::new());
        for known in cells {
            match coordinate(known.0, &self.axis).as_deref() {
                Some(value) if value == self.left => lefts.push(known),
                Some(value) if value == self.right => rights.push(known),
                _ => {}
            }
        }
        // Cells that agree have the same values on the axes that all of them know.
        let is_known = |axis: &&String| {
            let mut all = lefts.iter().chain(&rights);
            **axis != self.axis && all.all(|(cell, _)| cell.coordinates.contains_key(*axis))
        };
        let first = lefts.first().into_iter();
        let axes: Vec<&String> = first
            .flat_map(|(cell, _)| cell.coordinates.keys())
            .filter(is_known)
            .collect();
        let shared = |cell: &'a PlannedCell| -> Vec<Option<&'a String>> {
            let values = axes.iter();
            values.map(|axis| cell.coordinates.get(*axis)).collect()
        };
        let mut by_shared: BTreeMap<_, Vec<Known<'a, T>>> = BTreeMap::new();
        for right in rights.iter().copied() {
            by_shared.entry(shared(right.0)).or_default().push(right);
        }
        let mut pairs = Vec::new();
        for left in lefts.iter().copied() {
            let rights = by_shared.get(&shared(left.0)).into_iter().flatten();
            let rights = rights.filter(|right| self.is_pair(left.0, right.0));
            pairs.extend(rights.map(|right| [left, *right]));
        }
        pairs
    }

    /// The cells that it holds against a number: none where it speaks of pairs.
    pub fn cells<'a, T: Copy>(
        &self,
        cells: impl IntoIterator<Item = Known<'a, T>>,
    ) -> Vec<Known<'a, T>> {
        let is_meant = |(cell, _): &Known<'a, T>| {
            let holds = |(axis, value): (&String, &String)| {
                coordinate(cell, axis).is_some_and(|found| found == value.as_str())
            };
            self.number.is_some() && self.at.iter().all(holds)
        };
        cells.into_iter().filter(is_meant).collect()
    }

    /// Whether two cells agree on every other axis that both know, and are where the claim is made: a
    /// condition holds where one of them meets it and the other does not know its axis, too.
    fn is_pair(&self, left: &PlannedCell, right: &PlannedCell) -> bool {
        let agree = |(axis, value): (&String, &String)| {
            *axis == self.axis
                || right
                    .coordinates
                    .get(axis)
                    .is_none_or(|other| other == value)
        };
        let holds = |(axis, value): (&String, &String)| {
            let known = [coordinate(left, axis), coordinate(right, axis)];
            let mut known = known.iter().flatten().peekable();
            known.peek().is_some() && known.all(|found| found == value)
        };
        left.coordinates.iter().all(agree) && self.at.iter().all(holds)
    }
}

/// The value of an axis: of the matrix, or what the cell resolved it to.
fn coordinate<'a>(planned: &'a PlannedCell, axis: &str) -> Option<Cow<'a, str>> {
    if let Some(value) = planned.coordinates.get(axis) {
        return Some(Cow::Borrowed(value));
    }
    let cell = &planned.cell;
    match axis {
        "model" => Some(cell.model.title()),
        "precision" => Some(Cow::Borrowed(cell.precision.word())),
        "mode" => Some(Cow::Borrowed(cell.mode.word())),
        "engine" => Some(Cow::Owned(cell.engine.to_string())),
        "device" => Some(Cow::Owned(cell.device.to_string())),
        "threads" => Some(Cow::Owned(cell.threads.to_string())),
        _ => match cell.dims.get(axis) {
            Some(size) => Some(Cow::Owned(size.to_string())),
            None => cell
                .factors
                .get(axis)
                .map(|value| Cow::Borrowed(value.as_str())),
        },
    }
}
