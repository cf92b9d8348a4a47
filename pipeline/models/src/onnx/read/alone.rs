//! What follows from integers that are fed ones, and from nothing else that is fed.
//!
//! Arithmetic on them is worked out while reading: exporters make masks and places of them. A product is
//! a part of the network, and would be worked out once, here or by an engine that folds constants, where
//! another computes it in each step. So inputs of which one is made (the time of a denoiser, counts in a
//! table) are fed as they are, and the graph makes numbers of them; where it cannot, the file has an outline.
//!
//! A mask may say which places are left out as well as which are taken. Where ones leave out all that a
//! softmax could take, so that nothing but NaN comes of it, such inputs are fed zeros.

use std::collections::{BTreeSet, HashMap, HashSet};

use schema::graph::{Op, Role};

use super::{
    File, ReadError,
    attributes::Attributes,
    given::Origin,
    import::{Here, Import, Step, Value, Work},
    tensor::{Constant, Data, Element, Kind},
    whole,
};
use crate::onnx::proto::NodeProto;

/// Most inputs that are tried one by one with zeros: for each the file is read once more.
const MOST_TRIED: usize = 4;

/// How integers are fed that are no rows of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Feeding {
    /// Those that are zeros; all others are ones.
    pub(super) zeros: BTreeSet<String>,
    /// Those that the graph makes numbers of; all others are known while reading.
    pub(super) numbers: BTreeSet<String>,
}

/// What came of reading with inputs fed in one way.
pub(super) struct Tried<T> {
    pub(super) made: Result<T, ReadError>,
    /// Inputs by which all is left out that a softmax could take.
    pub(super) blinding: BTreeSet<String>,
}

impl File {
    /// What is read with ones, or with zeros for inputs that leave all out by ones.
    pub(super) fn best_fed<T>(&self, read: impl Fn(&Feeding) -> Tried<T>) -> Result<T, ReadError> {
        let first = read(&Feeding::default());
        if first.blinding.is_empty() {
            return first.made;
        }
        let truths = first.blinding.iter();
        let truths = truths.filter(|name| self.inputs.is_truth(name));
        let single = first.blinding.iter().take(MOST_TRIED);
        let mut choices: Vec<BTreeSet<String>> =
            vec![truths.cloned().collect(), first.blinding.clone()];
        choices.extend(single.map(|name| BTreeSet::from([name.clone()])));
        let mut tried = BTreeSet::from([BTreeSet::new()]);
        for zeros in choices {
            if !tried.insert(zeros.clone()) {
                continue;
            }
            let again = read(&Feeding {
                zeros,
                ..Feeding::default()
            });
            if again.blinding.is_empty() && (again.made.is_ok() || first.made.is_err()) {
                return again.made;
            }
        }
        first.made
    }
}

impl<'a> Import<'a> {
    /// The numbers of an input of integers, each taken from a table of the two that may be fed: no operator
    /// of the graph casts.
    pub(super) fn as_numbers(&mut self, input: &str, shape: &[u64]) -> Result<Value, String> {
        let table = Constant::floats(vec![2, 1], vec![0.0, 1.0]);
        let table = self.operand(&Value::Known(table), Role::Constant)?;
        let origin = ("Cast".to_owned(), input.to_owned());
        let taken = Step {
            origin: origin.clone(),
            work: Work::Op(Op::Gather),
            inputs: vec![table, input.to_owned()],
            output: self.fresh(&format!("{input}.rows")),
        };
        let Value::Made(taken) = self.push(taken)? else {
            return Err("is no input".to_owned());
        };
        let shape = shape.to_vec();
        let numbers = Step {
            origin,
            work: Work::Op(Op::Reshape { shape }),
            inputs: vec![taken],
            output: self.fresh(&format!("{input}.numbers")),
        };
        self.push(numbers)
    }

    /// Notes which of a node's outputs follow from inputs alone that are worked out while reading, and
    /// products of such.
    pub(super) fn follow_alone(&mut self, here: Here<'a>, origin: Origin) {
        let node = here.node;
        if matches!(node.op_type.as_str(), "Constant" | "Shape" | "Size") {
            return;
        }
        let read = || node.input.iter().filter(|name| !name.is_empty());
        let input = read().find_map(|name| self.alone.get(name)).cloned();
        // Of ids it is known only where they were worked with.
        let of_ids = || read().find(|name| self.as_fed.contains_key(*name)).cloned();
        let ids = (origin != Origin::File).then(of_ids).flatten();
        let Some(input) = input.or(ids) else {
            return;
        };
        let depends = read().any(|name| self.is_fed(name));
        for output in node.output.iter().filter(|name| !name.is_empty()) {
            if !depends || matches!(self.values.get(output), Some(Value::Known(_))) {
                self.alone.insert(output.clone(), input.clone());
            }
        }
        let mut factors = node.input.iter().take(2);
        if is_product(&node.op_type)
            && !factors.any(|name| self.is_fed(name))
            && !self.is_outer(node)
        {
            self.products.push(node);
        }
    }

    /// Whether a value of the file is computed from what is fed.
    fn is_fed(&self, name: &str) -> bool {
        let is_made = matches!(self.values.get(name), Some(Value::Made(_)));
        is_made && !self.alone.contains_key(name)
    }

    /// Whether it is the product of a column and a row, as exporters write that of places and frequencies:
    /// nothing is summed up.
    fn is_outer(&self, node: &NodeProto) -> bool {
        let columns = node.input.first().and_then(|name| self.values.get(name));
        let shape = columns.and_then(|value| self.shape_of(value).ok());
        node.op_type == "MatMul" && shape.is_some_and(|shape| shape.last() == Some(&1))
    }

    /// Notes where a constant that follows from inputs leaves out all of a row.
    pub(super) fn look_for_blinds(&mut self, node: &NodeProto, made: &Constant) {
        let masks = matches!(
            node.op_type.as_str(),
            "Where" | "Add" | "Sub" | "Mul" | "Div" | "Log" | "Min"
        );
        if !masks || !self.is_alone(node) {
            return;
        }
        let Some(numbers) = self.budget.look(made) else {
            return;
        };
        let width = made.shape.last().copied().unwrap_or(1);
        let width = usize::try_from(width).unwrap_or(usize::MAX).max(1);
        let is_blind = |row: &[f32]| row.iter().all(|&number| number == f32::NEG_INFINITY);
        if numbers.chunks(width).any(is_blind)
            && let Some(output) = node.output.first()
        {
            self.blinds.push(output.clone());
        }
    }

    /// Notes where a node takes nothing of what is fed, since constants that follow from inputs say so: it multiplies by
    /// zeros alone or divides by them, or it chooses another value everywhere.
    pub(super) fn look_for_zeros(&mut self, node: &NodeProto, inputs: &[Option<Value>]) {
        let known = |at: usize| {
            let Value::Known(constant) = inputs.get(at)?.as_ref()? else {
                return None;
            };
            let is_alone = self.alone.contains_key(node.input.get(at)?);
            is_alone.then(|| constant.clone())
        };
        let is_made = |at: usize| matches!(inputs.get(at), Some(Some(Value::Made(_))));
        let suspect = match node.op_type.as_str() {
            "Mul" => (0..2).find_map(|at| Some((at, known(at)?))),
            "Div" => known(1).map(|by| (1, by)),
            "Where" if is_made(1) != is_made(2) => known(0).map(|told| (0, told)),
            _ => None,
        };
        let Some((at, constant)) = suspect else {
            return;
        };
        let never = match node.op_type.as_str() {
            // What is chosen where it holds is not fed, so it may hold nowhere; or the other way round.
            "Where" => i64::from(is_made(2)),
            _ => 0,
        };
        let takes_nothing = match self.budget.look_at(&constant) {
            Some(Data::Floats(numbers)) => numbers.iter().all(|&number| number == 0.0),
            Some(Data::Integers(numbers)) => numbers.iter().all(|&number| number == never),
            None => false,
        };
        if takes_nothing && let Some(name) = node.input.get(at) {
            self.zeroing.push(name.clone());
        }
    }

    fn is_alone(&self, node: &NodeProto) -> bool {
        node.input.iter().any(|name| self.alone.contains_key(name))
    }

    /// The inputs behind values that leave out all of a row, and those of truth values behind others that take nothing:
    /// masks of numbers are ones where all is taken, as every exporter of Transformers' models means them.
    pub(super) fn blinding(&self) -> BTreeSet<String> {
        let mut blinding = self.known_behind(&self.blinds);
        let mut zeroing = self.known_behind(&self.zeroing);
        zeroing.retain(|name| self.file.inputs.is_truth(name));
        blinding.append(&mut zeroing);
        blinding
    }

    /// Inputs that are worked out while reading and that these values depend on.
    fn known_behind(&self, values: &[String]) -> BTreeSet<String> {
        if values.is_empty() {
            return BTreeSet::new();
        }
        let mut behind: HashSet<&str> = values.iter().map(String::as_str).collect();
        for node in self.nodes.node.iter().rev() {
            let is_behind = node
                .output
                .iter()
                .any(|made| behind.contains(made.as_str()));
            if is_behind && !matches!(node.op_type.as_str(), "Shape" | "Size") {
                behind.extend(node.input.iter().map(String::as_str));
            }
        }
        let fed = self.file.inputs.fed.iter().map(|fed| &fed.name);
        let is_known = |name: &&String| matches!(self.values.get(*name), Some(Value::Known(_)));
        let fed = fed.filter(|name| behind.contains(name.as_str()));
        fed.filter(is_known).cloned().collect()
    }

    /// Inputs that the graph has to make numbers of, and what is said where it cannot; `None` where no
    /// product would be worked out once.
    pub(super) fn check_products(&self) -> Option<(BTreeSet<String>, ReadError)> {
        let node = self.products.first()?;
        let mut factors = node.input.iter().take(2);
        let input = factors.find_map(|name| self.alone.get(name));
        let reason = format!(
            "multiplies what follows from the input `{}` alone, integers that are worked with while \
             reading: engines would compute it once, or in each step; a graph casts such an input where \
             nothing else is done with it",
            input.map_or("", String::as_str)
        );
        let refused = self.refusal(
            node.op_type.clone(),
            whole::name_of(node).to_owned(),
            reason,
        );
        let read = self
            .products
            .iter()
            .flat_map(|node| node.input.iter().take(2));
        let read: Vec<String> = read
            .filter(|name| self.alone.contains_key(*name))
            .cloned()
            .collect();
        let mut numbers = self.known_behind(&read);
        let cast = only_cast(self.file);
        numbers.retain(|name| cast.get(name.as_str()) == Some(&true));
        Some((numbers, refused))
    }
}

/// Whether an operator multiplies and sums up.
fn is_product(op: &str) -> bool {
    matches!(
        op,
        "MatMul" | "Gemm" | "Conv" | "ConvTranspose" | "LSTM" | "GRU"
    )
}

/// Of each value that is an input moved, whether all that is done with it is a cast to floats; in the end
/// that of the inputs themselves.
fn only_cast(file: &File) -> HashMap<&str, bool> {
    let mut only: HashMap<&str, bool> = HashMap::new();
    for output in &file.nodes.output {
        only.insert(&output.name, false);
    }
    // From behind: who reads a value stands behind who makes it.
    for node in file.nodes.node.iter().rev() {
        let made = node.output.iter().filter(|name| !name.is_empty());
        let moved = made
            .clone()
            .all(|name| only.get(name.as_str()) != Some(&false));
        for (at, name) in node.input.iter().enumerate() {
            let is_right = match node.op_type.as_str() {
                "Shape" | "Size" => true,
                "Cast" => makes_floats(node),
                "Identity" | "Reshape" | "Flatten" | "Squeeze" | "Unsqueeze" | "Transpose"
                | "Slice" | "Expand" | "Tile" | "Gather" => at == 0 && moved,
                "Concat" => moved,
                _ => false,
            };
            let known = only.entry(name).or_insert(true);
            *known &= is_right;
        }
    }
    only
}

fn makes_floats(node: &NodeProto) -> bool {
    let to = i32::try_from(Attributes(node).int("to", 0)).unwrap_or(0);
    Element::of(to).is_ok_and(|element| element.kind == Kind::Float)
}
