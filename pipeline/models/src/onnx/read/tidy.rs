//! Chains of reshapes and transpositions that come to less: exporters put batch and time in another
//! order before and behind a layer, and take axes away that the operator before added.

use std::collections::{BTreeMap, BTreeSet};

use schema::graph::Op;

use super::import::{Import, Step, Work};

/// Shortens chains of reshapes and transpositions. The steps that nothing reads any more go when
/// the graph is built.
pub(super) fn tidy(import: &mut Import<'_>, outputs: &[String]) {
    let steps = std::mem::take(&mut import.steps);
    let mut tidy = Tidy {
        import,
        made_by: BTreeMap::new(),
        same: BTreeMap::new(),
        outputs: outputs.iter().map(String::as_str).collect(),
    };
    for mut step in steps {
        for input in &mut step.inputs {
            if let Some(other) = tidy.same.get(input) {
                input.clone_from(other);
            }
        }
        tidy.append(step);
    }
}

/// What a step that only moves numbers does.
enum Move {
    Reshape(Vec<u64>),
    Transpose(Vec<u64>),
}

struct Tidy<'a, 'b, 'c> {
    import: &'a mut Import<'b>,
    made_by: BTreeMap<String, usize>,
    /// Values that are the same as an earlier one.
    same: BTreeMap<String, String>,
    outputs: BTreeSet<&'c str>,
}

impl Tidy<'_, '_, '_> {
    /// Appends a step in its shortest form.
    fn append(&mut self, mut step: Step) {
        while let Some((shorter, rest)) = self.shorten(&step) {
            if let Some(before) = shorter {
                self.append(before);
            }
            step = rest;
            if let [input] = step.inputs.as_mut_slice()
                && let Some(other) = self.same.get(input)
            {
                input.clone_from(other);
            }
        }
        if self.is_nothing(&step)
            && let [input] = step.inputs.as_slice()
            && !self.outputs.contains(step.output.as_str())
        {
            self.same.insert(step.output, input.clone());
            return;
        }
        self.made_by
            .insert(step.output.clone(), self.import.steps.len());
        self.import.steps.push(step);
    }

    fn shape(&self, value: &str) -> Option<&[u64]> {
        Some(&self.import.types.get(value)?.shape)
    }

    /// Whether a step leaves its input as it is.
    fn is_nothing(&self, step: &Step) -> bool {
        let ([input], Some(done)) = (step.inputs.as_slice(), moved(step)) else {
            return false;
        };
        match done {
            Move::Reshape(shape) => self.shape(input) == Some(&shape),
            Move::Transpose(perm) => (0..).zip(&perm).all(|(at, &from)| at == from),
        }
    }

    /// The same by a shorter way: the step, and one before it where that takes two.
    fn shorten(&mut self, step: &Step) -> Option<(Option<Step>, Step)> {
        let ([input], Some(done)) = (step.inputs.as_slice(), moved(step)) else {
            return None;
        };
        let before = self.import.steps.get(*self.made_by.get(input)?)?;
        let ([source], Some(first)) = (before.inputs.as_slice(), moved(before)) else {
            return None;
        };
        let with = |op: Op, input: &str| Step {
            work: Work::Op(op),
            inputs: vec![input.to_owned()],
            ..step.clone()
        };
        match (first, done) {
            (Move::Reshape(_), Move::Reshape(shape)) => {
                Some((None, with(Op::Reshape { shape }, source)))
            }
            (Move::Transpose(first), Move::Transpose(second)) => {
                let perm: Option<Vec<u64>> = second
                    .iter()
                    .map(|&axis| first.get(axis as usize).copied())
                    .collect();
                Some((None, with(Op::Transpose { perm: perm? }, source)))
            }
            (Move::Transpose(perm), Move::Reshape(shape)) => {
                let (source, origin) = (source.clone(), step.origin.clone());
                let (first, perm) = self.reshaped_first(&source, &perm, &shape)?;
                let name = self.import.fresh(&format!("{}.reshaped", step.output));
                let mut value = self.import.types.get(&source)?.clone();
                value.shape.clone_from(&first);
                self.import.types.insert(name.clone(), value);
                let reshape = Step {
                    origin,
                    work: Work::Op(Op::Reshape { shape: first }),
                    inputs: vec![source],
                    output: name.clone(),
                };
                Some((Some(reshape), with(Op::Transpose { perm }, &name)))
            }
            (Move::Reshape(_), Move::Transpose(_)) => None,
        }
    }

    /// A transposition and a reshape in the other order: the shape first, and the transposition then.
    /// That is worth it where the first undoes a reshape.
    fn reshaped_first(
        &self,
        source: &str,
        perm: &[u64],
        shape: &[u64],
    ) -> Option<(Vec<u64>, Vec<u64>)> {
        let maker = self.import.steps.get(*self.made_by.get(source)?)?;
        if !matches!(moved(maker), Some(Move::Reshape(_))) {
            return None;
        }
        let from = self.shape(source)?;
        joined(from, perm, shape).or_else(|| without_ones(from, perm, shape))
    }
}

/// Where the last two axes stay the last and become one.
fn joined(from: &[u64], perm: &[u64], shape: &[u64]) -> Option<(Vec<u64>, Vec<u64>)> {
    let rank = perm.len() as u64;
    let ([front @ .., first, second], [kept @ .., a, b]) = (from, perm) else {
        return None;
    };
    let (size, others) = shape.split_last()?;
    let turned: Option<Vec<u64>> = kept
        .iter()
        .map(|&axis| from.get(axis as usize).copied())
        .collect();
    let fits = [a + 2, b + 1] == [rank, rank]
        && turned? == others
        && first.checked_mul(*second) == Some(*size);
    let perm = || kept.iter().copied().chain([rank - 2]).collect();
    fits.then(|| (front.iter().copied().chain([*size]).collect(), perm()))
}

/// Where axes of one element go away, and nothing else happens. Which of several such axes makes no
/// difference to the order of the elements.
fn without_ones(from: &[u64], perm: &[u64], shape: &[u64]) -> Option<(Vec<u64>, Vec<u64>)> {
    let mut wanted = shape.iter().peekable();
    let mut kept = Vec::new();
    for &axis in perm {
        let size = from.get(axis as usize)?;
        if wanted.next_if_eq(&size).is_some() {
            kept.push(axis);
        } else if *size != 1 {
            return None;
        }
    }
    if wanted.next().is_some() {
        return None;
    }
    let mut axes = kept.clone();
    axes.sort_unstable();
    let first: Option<Vec<u64>> = axes
        .iter()
        .map(|&axis| from.get(axis as usize).copied())
        .collect();
    let perm: Option<Vec<u64>> = kept
        .iter()
        .map(|axis| axes.binary_search(axis).ok().map(|at| at as u64))
        .collect();
    Some((first?, perm?))
}

fn moved(step: &Step) -> Option<Move> {
    match &step.work {
        Work::Op(Op::Reshape { shape }) => Some(Move::Reshape(shape.clone())),
        Work::Op(Op::Transpose { perm }) => Some(Move::Transpose(perm.clone())),
        _ => None,
    }
}
