//! Ranges of activations, found by running the network as it is on inputs of its own.
//!
//! An engine is asked for outputs alone, and makes its inputs from their names. So [`passes`] makes
//! graphs that hold the network several times, each time under other names and so with other
//! numbers, and whose outputs are the activations; a pass has as many of them as a bound on bytes
//! allows. Ranges of the inputs themselves need no engine.

use std::collections::{BTreeMap, BTreeSet};

use schema::{
    Graph,
    graph::{ElementType, Input},
};

use super::{CALIBRATION, PERCENTILE, Range};
use crate::{ModelError, fill, infer};

/// The share of numbers that [`Method::Percentile`] leaves out, half of it at each end.
const LEFT_OUT: f64 = 1e-4;

/// Steps of a histogram: fine beside the 256 of a grid, also where a tail is far out.
const BINS: usize = 1 << 14;

/// How a range is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    /// From the smallest to the largest number seen.
    MinMax,
    /// Between the numbers that 0.005 % lie below and above of.
    Percentile,
}

impl Method {
    /// What a cell's factors ask for. Min-max where nobody says otherwise.
    #[must_use]
    pub fn asked_by(factors: &BTreeMap<String, String>) -> Self {
        match factors.get(CALIBRATION).map(String::as_str) {
            Some(PERCENTILE) => Self::Percentile,
            _ => Self::MinMax,
        }
    }
}

/// The name of a value in the copy of this number. It makes the numbers of an input.
fn copied(copy: u32, value: &str) -> String {
    format!("calibration.{copy}.{value}")
}

/// The value of the network that an output of a pass is a copy of.
#[must_use]
pub fn original(output: &str) -> Option<&str> {
    let (_, value) = output.strip_prefix("calibration.")?.split_once('.')?;
    Some(value)
}

/// The numbers that the inputs called `name` have in the copies; `None` where it is no input of
/// floats.
#[must_use]
pub fn of_input(graph: &Graph, name: &str, copies: u32) -> Option<Vec<f32>> {
    let is_asked = |input: &&Input| input.name == name && input.element == ElementType::Float;
    let input = graph.inputs.iter().find(is_asked)?;
    let count = usize::try_from(fill::elements(&input.shape)).ok()?;
    let numbers =
        (0..copies).flat_map(|copy| fill::floats(&copied(copy, name), &input.fill, count));
    Some(numbers.collect())
}

/// Graphs whose outputs are the copies of `values`, those of one value all in the same graph. What
/// a graph puts out takes at most `largest_bytes` in binary32, unless one value alone takes more.
///
/// # Errors
/// A graph that [`infer::shapes`] refuses.
pub fn passes(
    graph: &Graph,
    values: &[String],
    copies: u32,
    largest_bytes: u64,
) -> Result<Vec<Graph>, ModelError> {
    let types = infer::shapes(graph)?;
    let mut passes = Vec::new();
    let mut bytes = 0_u64;
    let mut taken: Vec<&String> = Vec::new();
    for value in values {
        let elements = types.get(value).map_or(0, infer::ValueType::elements);
        let own = elements.saturating_mul(4).saturating_mul(copies.into());
        if !taken.is_empty() && bytes.saturating_add(own) > largest_bytes {
            passes.push(copy(graph, &taken, copies));
            taken.clear();
            bytes = 0;
        }
        taken.push(value);
        bytes = bytes.saturating_add(own);
    }
    if !taken.is_empty() {
        passes.push(copy(graph, &taken, copies));
    }
    Ok(passes)
}

/// The network several times, as far as these values need it.
fn copy(graph: &Graph, values: &[&String], copies: u32) -> Graph {
    let parameters: BTreeSet<&String> = graph.parameters.iter().map(|p| &p.name).collect();
    let needed = needed(graph, values);
    let mut whole = Graph {
        inputs: Vec::new(),
        nodes: Vec::new(),
        outputs: Vec::new(),
        loss: None,
        ..graph.clone()
    };
    for number in 0..copies {
        let renamed = |value: &String| match parameters.contains(value) {
            true => value.clone(),
            false => copied(number, value),
        };
        let inputs = graph
            .inputs
            .iter()
            .filter(|input| needed.contains(&input.name));
        whole.inputs.extend(inputs.map(|input| Input {
            name: renamed(&input.name),
            ..input.clone()
        }));
        let nodes = graph.nodes.iter().filter(|node| {
            let mut outputs = node.outputs.iter();
            outputs.any(|output| needed.contains(output))
        });
        whole.nodes.extend(nodes.map(|node| {
            let mut node = node.clone();
            node.name = copied(number, &node.name);
            // What is overwritten could not be put out.
            node.in_place = false;
            node.inputs = node.inputs.iter().map(renamed).collect();
            node.outputs = node.outputs.iter().map(renamed).collect();
            node
        }));
        whole
            .outputs
            .extend(values.iter().map(|value| renamed(value)));
    }
    super::tidy::drop_unread(&mut whole);
    whole
}

/// The values that these are computed from, and they themselves.
fn needed<'a>(graph: &'a Graph, values: &[&'a String]) -> BTreeSet<&'a String> {
    let mut needed: BTreeSet<&String> = values.iter().copied().collect();
    for node in graph.nodes.iter().rev() {
        if node.outputs.iter().any(|output| needed.contains(output)) {
            needed.extend(&node.inputs);
        }
    }
    needed
}

/// The smallest and the largest of the numbers shown.
#[derive(Debug, Clone, Copy)]
pub struct Extremes {
    low: f64,
    high: f64,
}

impl Default for Extremes {
    fn default() -> Self {
        Self {
            low: f64::INFINITY,
            high: f64::NEG_INFINITY,
        }
    }
}

impl Extremes {
    /// Looks at more numbers.
    ///
    /// # Errors
    /// One that is not finite.
    pub fn see(&mut self, numbers: &[f64]) -> Result<(), String> {
        for &number in numbers {
            if !number.is_finite() {
                return Err(format!("holds {number}"));
            }
            self.low = self.low.min(number);
            self.high = self.high.max(number);
        }
        Ok(())
    }

    /// From the smallest to the largest; `None` where no number was shown.
    #[must_use]
    pub fn range(self) -> Option<Range> {
        let Self { low, high } = self;
        (low <= high).then_some(Range { low, high })
    }
}

/// How numbers are spread over a range.
#[derive(Debug, Clone)]
pub struct Histogram {
    range: Range,
    counts: Vec<u64>,
}

impl Histogram {
    /// An empty one over a range.
    #[must_use]
    pub fn over(range: Range) -> Self {
        Self {
            range,
            counts: vec![0; BINS],
        }
    }

    /// Counts more numbers. Those outside the range are counted at its ends.
    pub fn see(&mut self, numbers: &[f64]) {
        let width = (self.range.high - self.range.low) / BINS as f64;
        for number in numbers {
            // A conversion that saturates; an empty range has all in the first bin.
            let bin = ((number - self.range.low) / width) as usize;
            if let Some(count) = self.counts.get_mut(bin.min(BINS - 1)) {
                *count += 1;
            }
        }
    }

    /// The range without the outermost numbers, to the step of the histogram. Zero stays where it
    /// is at an end: what a `Relu` makes is not cut off there.
    #[must_use]
    pub fn middle(&self) -> Range {
        let count: u64 = self.counts.iter().sum();
        let cut = (count as f64 * (LEFT_OUT / 2.0)) as u64;
        let width = (self.range.high - self.range.low) / BINS as f64;
        let skipped = |counts: &mut dyn Iterator<Item = &u64>| {
            let mut seen = 0;
            counts
                .take_while(|&&count| {
                    seen += count;
                    seen <= cut
                })
                .count()
        };
        let below = skipped(&mut self.counts.iter());
        let above = skipped(&mut self.counts.iter().rev());
        if below + above >= BINS {
            return self.range;
        }
        Range {
            low: self.range.low + width * below as f64,
            high: self.range.high - width * above as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(numbers: &[f64]) -> Range {
        let mut extremes = Extremes::default();
        extremes.see(numbers).unwrap();
        extremes.range().unwrap()
    }

    #[test]
    fn extremes_are_those_of_all_numbers_and_nothing_else() {
        let range = seen(&[0.5, -2.0, 1.5]);
        assert_eq!((range.low, range.high), (-2.0, 1.5));
        assert_eq!(Extremes::default().range(), None);
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let error = Extremes::default().see(&[1.0, bad]).unwrap_err();
            assert!(error.contains("holds"), "{error}");
        }
    }

    #[test]
    fn a_percentile_leaves_out_what_is_far_out() {
        let mut numbers: Vec<f64> = (0..100_000).map(|i| f64::from(i) / 100_000.0).collect();
        numbers.extend([100.0, 90.0, -50.0]);
        let mut histogram = Histogram::over(seen(&numbers));
        histogram.see(&numbers);
        let middle = histogram.middle();
        let step = 150.0 / BINS as f64;
        assert!((middle.high - 1.0).abs() < 2.0 * step, "{middle:?}");
        assert!(middle.low.abs() < 2.0 * step, "{middle:?}");
    }

    #[test]
    fn a_percentile_of_few_or_equal_numbers_is_their_range() {
        for numbers in [&[3.0_f64][..], &[0.0; 9], &[-1.0, 0.0, 1.0]] {
            let range = seen(numbers);
            let mut histogram = Histogram::over(range);
            histogram.see(numbers);
            assert_eq!(histogram.middle(), range);
        }
    }

    #[test]
    fn half_of_the_numbers_at_one_end_stay() {
        let mut numbers = vec![0.0; 50_000];
        numbers.extend((0..50_000).map(f64::from));
        let mut histogram = Histogram::over(seen(&numbers));
        histogram.see(&numbers);
        assert_eq!(histogram.middle().low, 0.0);
        assert!(histogram.middle().high < 49_999.0);
    }

    #[test]
    fn copies_have_other_inputs_and_the_same_weights() {
        let graph = crate::sample::perceptron(2).unwrap();
        let values = ["hidden", "relu"].map(str::to_owned);
        let passes = passes(&graph, &values, 3, u64::MAX).unwrap();
        let [pass] = passes.as_slice() else {
            panic!("{} passes", passes.len());
        };
        infer::shapes(pass).unwrap();
        assert_eq!(
            (pass.inputs.len(), pass.nodes.len(), pass.outputs.len()),
            (3, 6, 6)
        );
        // Only the first layer is needed.
        assert_eq!(pass.parameters.len(), 2);
        assert!(pass.outputs.iter().all(|output| {
            original(output).is_some_and(|value| values.contains(&value.to_owned()))
        }));
        let numbers = of_input(&graph, "input", 2).unwrap();
        assert_eq!(numbers.len(), 2 * 2 * 16);
        assert_ne!(numbers[..32], numbers[32..]);
        let parity = fill::floats("input", &graph.inputs[0].fill, 32);
        assert!(numbers.chunks(32).all(|copy| copy != parity));
        assert_eq!(of_input(&graph, "hidden", 2), None);
    }

    #[test]
    fn passes_stay_below_their_bound() {
        let graph = crate::sample::perceptron(2).unwrap();
        let values = ["hidden", "relu"].map(str::to_owned);
        // Each value takes 2·32 numbers in each of two copies.
        let count = |bytes| passes(&graph, &values, 2, bytes).unwrap().len();
        assert_eq!([count(1024), count(1023), count(1)], [1, 2, 2]);
        assert!(passes(&graph, &[], 2, 1).unwrap().is_empty());
    }
}
