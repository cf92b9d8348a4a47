//! Ranges of activations, found by running the network as it is on inputs of its own.
//!
//! An engine is asked for outputs alone, and makes its inputs from their names. So a pass is a graph
//! that holds the network several times, each time under other names and so with other numbers, and
//! whose outputs are the activations; it has as many of them as a bound on bytes allows. Ranges of the
//! inputs themselves need no engine.

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
};

use schema::{
    Graph,
    graph::{ElementType, Input},
};

use super::{CALIBRATION, CALIBRATION_INPUTS, Form, PERCENTILE, Range};
use crate::{ModelError, fill, infer};

/// The share of numbers that [`Method::Percentile`] leaves out, half of it at each end.
const LEFT_OUT: f64 = 1e-4;

/// Steps of a histogram: fine beside the 256 of a grid, also where a tail is far out.
const BINS: usize = 1 << 14;

/// Numbers of an input that are shown at once.
const PIECE: usize = 1 << 16;

/// Least and most bytes that a pass puts out.
const PASS_BYTES: [u64; 2] = [256 << 20, 2 << 30];

/// Most bytes that a pass may put out where a worker has so much memory: it holds them there, beside
/// the network, and again while it writes them.
#[must_use]
pub fn largest_pass(memory_bytes: u64) -> u64 {
    let [least, most] = PASS_BYTES;
    (memory_bytes / 8).clamp(least, most)
}

/// What is known of a network's ranges, and what is to be run for the others.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibration {
    /// Ranges of inputs, which need no engine.
    pub ranges: BTreeMap<String, Range>,
    /// Graphs whose outputs are what else is wanted, to be run on an engine.
    pub passes: Vec<Graph>,
}

impl Calibration {
    /// What the ranges that [`super::wanted`] names take, with at most `largest_bytes` of outputs a
    /// pass unless one value alone takes more.
    ///
    /// # Errors
    /// A graph that [`infer::shapes`] refuses; an input that holds what no grid does.
    pub fn of(
        graph: &Graph,
        form: Form,
        method: Method,
        largest_bytes: u64,
    ) -> Result<Self, ModelError> {
        let mut ranges = BTreeMap::new();
        let mut made = Vec::new();
        for value in super::wanted(graph, form)? {
            let Some(input) = input(graph, &value) else {
                made.push(value);
                continue;
            };
            let Ok(found) = range(method, |see| {
                show_input(input, see);
                Ok::<(), Infallible>(())
            });
            let found = found.map_err(|reason| ModelError::Graph {
                graph: graph.name.clone(),
                reason: format!("`{value}` {reason}"),
            })?;
            ranges.insert(value, found);
        }
        let passes = passes(graph, &made, CALIBRATION_INPUTS, largest_bytes)?;
        Ok(Self { ranges, passes })
    }
}

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

/// The outputs of a pass, by the value of the network that they are copies of.
#[must_use]
pub fn copies(pass: &Graph) -> BTreeMap<&str, Vec<&str>> {
    let mut copies: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for output in &pass.outputs {
        if let Some(value) = original(output) {
            copies.entry(value).or_default().push(output);
        }
    }
    copies
}

fn original(output: &str) -> Option<&str> {
    let (_, value) = output.strip_prefix("calibration.")?.split_once('.')?;
    Some(value)
}

/// The input of floats with this name, if it is one.
fn input<'a>(graph: &'a Graph, name: &str) -> Option<&'a Input> {
    let is_asked = |input: &&Input| input.name == name && input.element == ElementType::Float;
    graph.inputs.iter().find(is_asked)
}

/// Shows the numbers that an input has in the copies; those of one copy are in memory at a time.
fn show_input(input: &Input, see: &mut See<'_>) {
    let count = usize::try_from(fill::elements(&input.shape)).unwrap_or(usize::MAX);
    for copy in 0..CALIBRATION_INPUTS {
        let numbers = fill::floats(&copied(copy, &input.name), &input.fill, count);
        for piece in numbers.chunks(PIECE) {
            let piece: Vec<f64> = piece.iter().copied().map(f64::from).collect();
            see(&piece);
        }
    }
}

/// Takes numbers, piece by piece.
pub type See<'a> = dyn FnMut(&[f64]) + 'a;

/// The range of the numbers that `show` shows, twice if need be; within, why they have none.
///
/// # Errors
/// Those of `show`.
pub fn range<E>(
    method: Method,
    mut show: impl FnMut(&mut See<'_>) -> Result<(), E>,
) -> Result<Result<Range, String>, E> {
    let mut extremes = Extremes::default();
    show(&mut |numbers| extremes.see(numbers))?;
    let range = match extremes.range() {
        Ok(range) if method == Method::Percentile => range,
        found => return Ok(found),
    };
    let mut histogram = Histogram::over(range);
    show(&mut |numbers| histogram.see(numbers))?;
    Ok(Ok(histogram.middle()))
}

/// Graphs whose outputs are the copies of `values`, those of one value all in the same graph. What
/// a graph puts out takes at most `largest_bytes` in binary32, unless one value alone takes more.
///
/// # Errors
/// A graph that [`infer::shapes`] refuses.
fn passes(
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
struct Extremes {
    low: f64,
    high: f64,
    /// The first number that is not finite.
    odd: Option<f64>,
}

impl Default for Extremes {
    fn default() -> Self {
        Self {
            low: f64::INFINITY,
            high: f64::NEG_INFINITY,
            odd: None,
        }
    }
}

impl Extremes {
    /// Looks at more numbers.
    fn see(&mut self, numbers: &[f64]) {
        for &number in numbers {
            if !number.is_finite() {
                self.odd.get_or_insert(number);
            }
            self.low = self.low.min(number);
            self.high = self.high.max(number);
        }
    }

    /// From the smallest to the largest, or why there is no range.
    fn range(self) -> Result<Range, String> {
        let Self { low, high, odd } = self;
        match odd {
            Some(odd) => Err(format!("holds {odd}, which no grid holds")),
            None if low <= high => Ok(Range { low, high }),
            None => Err("holds no number".to_owned()),
        }
    }
}

/// How numbers are spread over a range.
#[derive(Debug, Clone)]
struct Histogram {
    range: Range,
    counts: Vec<u64>,
}

impl Histogram {
    /// An empty one over a range.
    fn over(range: Range) -> Self {
        Self {
            range,
            counts: vec![0; BINS],
        }
    }

    /// Counts more numbers. Those outside the range are counted at its ends.
    fn see(&mut self, numbers: &[f64]) {
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
    fn middle(&self) -> Range {
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
        extremes.see(numbers);
        extremes.range().unwrap()
    }

    #[test]
    fn extremes_are_those_of_all_numbers_and_nothing_else() {
        let range = seen(&[0.5, -2.0, 1.5]);
        assert_eq!((range.low, range.high), (-2.0, 1.5));
        assert!(Extremes::default().range().is_err());
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let mut extremes = Extremes::default();
            extremes.see(&[1.0, bad, 2.0]);
            let error = extremes.range().unwrap_err();
            assert!(error.contains(&format!("holds {bad}")), "{error}");
        }
    }

    #[test]
    fn a_range_is_over_all_that_is_shown() {
        let shown = |method, pieces: &[&[f64]]| {
            let Ok(range) = range(method, |see| {
                pieces.iter().for_each(|piece| see(piece));
                Ok::<(), Infallible>(())
            });
            range
        };
        let range = shown(Method::MinMax, &[&[1.0, 2.0], &[-3.0]]).unwrap();
        assert_eq!((range.low, range.high), (-3.0, 2.0));
        let many: Vec<f64> = (0..100_000).map(|i| f64::from(i % 100)).collect();
        let range = shown(Method::Percentile, &[&many, &[1e6]]).unwrap();
        assert!(range.high < 200.0 && range.low == 0.0, "{range:?}");
        for method in [Method::MinMax, Method::Percentile] {
            assert!(shown(method, &[]).is_err());
            assert!(shown(method, &[&[0.0, f64::NAN]]).is_err());
        }
        let unread = super::range(Method::Percentile, |_| Err("gone"));
        assert_eq!(unread, Err("gone"));
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
        assert_eq!(copies(pass)["relu"].len(), 3);
    }

    #[test]
    fn inputs_are_those_of_the_copies_and_not_that_of_parity() {
        let graph = crate::sample::perceptron(2).unwrap();
        let mut shown = Vec::new();
        show_input(input(&graph, "input").unwrap(), &mut |piece| {
            shown.push(piece.to_vec());
        });
        assert_eq!(shown.len(), CALIBRATION_INPUTS as usize);
        let parity = fill::floats("input", &graph.inputs[0].fill, 2 * 16);
        let parity: Vec<f64> = parity.into_iter().map(f64::from).collect();
        assert!(shown.iter().all(|copy| copy.len() == 32 && *copy != parity));
        assert_ne!(shown[0], shown[1]);
        assert_eq!(input(&graph, "hidden"), None);
        let all = Calibration::of(&graph, Form::Asymmetric, Method::MinMax, u64::MAX).unwrap();
        let mut extremes = Extremes::default();
        shown.iter().for_each(|copy| extremes.see(copy));
        assert_eq!(all.ranges["input"], extremes.range().unwrap());
        assert_eq!(all.passes.len(), 1);
        let none = Calibration::of(&graph, Form::Dynamic, Method::MinMax, u64::MAX).unwrap();
        assert!(none.ranges.is_empty() && none.passes.is_empty());
    }

    #[test]
    fn a_pass_is_as_large_as_memory_allows() {
        let gib = |count: u64| count << 30;
        assert_eq!(largest_pass(0), 256 << 20);
        assert_eq!(largest_pass(gib(8)), gib(1));
        assert_eq!(largest_pass(u64::MAX), gib(2));
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
