//! Comparing the files of tensors that workers write, a piece at a time.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, BinaryHeap},
    fs::{self, File},
    io::BufReader,
    path::PathBuf,
};

use schema::protocol::{FileElement, Quantity, TensorInfo};

use pieces::{Pieces, open, size_of};

mod pieces;

/// A reference whose norm is below this share of the usual is zero by mathematics: in binary64
/// rounding is a millionth of this.
const NOTHING: f64 = 1e-9;

/// Of an update that is a gradient divided by its own size, one element in so many is left out:
/// those that are furthest off.
const ONE_LEFT_OUT_IN: u64 = 100;

/// What a worker put out for parity.
#[derive(Debug)]
pub(crate) struct Outputs {
    pub(crate) path: PathBuf,
    tensors: Vec<Placed>,
    pub(crate) losses: Vec<f64>,
}

/// A tensor and where it begins in the file.
#[derive(Debug, Clone)]
struct Placed {
    quantity: Quantity,
    name: String,
    shape: Vec<u64>,
    element: FileElement,
    count: u64,
    offset: u64,
}

/// How far one tensor is from another.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Distance {
    /// What the tensor is, or which loss, in words.
    pub(crate) name: String,
    pub(crate) growth: Growth,
    /// ‖y − r‖₂ / ‖r‖₂.
    pub(crate) error: f64,
}

/// How rounding grows on the way to what is compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Growth {
    /// Little: an output.
    None,
    /// Little, in one number: the first loss.
    FirstLoss,
    /// From layer to layer, through normalisations over small batches: a gradient.
    Layers,
    /// Likewise, and with the way of summing: a running statistic, a mean of very many numbers.
    Sums {
        /// How many; 1 where that is not known.
        of: u64,
    },
    /// From iteration to iteration as well: an update.
    Iterations,
    /// The same in one number: a loss after the first.
    Loss {
        /// By how much training has changed it since the first, as a share of it: what is wrong
        /// in the updates reaches it in this proportion.
        change: f64,
    },
}

impl Growth {
    /// Whether rounding may grow until two right computations have little in common.
    pub(crate) const fn is_any(self) -> bool {
        !matches!(self, Self::None | Self::FirstLoss)
    }
}

/// Why two outputs cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// The reference is of no use.
    Reference(String),
    /// The candidate is wrong beyond numbers.
    Candidate(String),
    /// The candidate's file cannot be read, which says nothing about what it computes.
    Unreadable(String),
}

impl Outputs {
    /// Checks that the file holds exactly what the worker says.
    pub(crate) fn new(
        path: PathBuf,
        tensors: Vec<TensorInfo>,
        losses: Vec<f64>,
    ) -> Result<Self, String> {
        let mut names = BTreeSet::new();
        let mut placed = Vec::new();
        let mut offset = 0_u64;
        for TensorInfo {
            quantity,
            name,
            shape,
            element,
        } in tensors
        {
            let shown = shorten(&quantity.of(&name));
            if !names.insert((quantity, name.clone())) {
                return Err(format!("tensor `{shown}` is there twice"));
            }
            let count = shape
                .iter()
                .try_fold(1_u64, |product, size| product.checked_mul(*size))
                .ok_or_else(|| format!("tensor `{shown}` is larger than any machine"))?;
            let end = count
                .checked_mul(size_of(element))
                .and_then(|size| offset.checked_add(size));
            placed.push(Placed {
                quantity,
                name,
                shape,
                element,
                count,
                offset,
            });
            offset = end.ok_or_else(|| format!("tensor `{shown}` is larger than any machine"))?;
        }
        if placed.is_empty() {
            return Err("there is no tensor".to_owned());
        }
        // A link or a pipe in the place of the file could keep us waiting, or show another file.
        let metadata =
            fs::symlink_metadata(&path).map_err(|error| format!("there is no file: {error}"))?;
        if !metadata.is_file() {
            return Err("what it wrote is not a file".to_owned());
        }
        if metadata.len() != offset {
            return Err(format!(
                "its file has {} bytes where its tensors take {offset}",
                metadata.len()
            ));
        }
        let outputs = Self {
            path,
            tensors: placed,
            losses,
        };
        open(&outputs)?;
        Ok(outputs)
    }

    /// Quantity, name and shape of each tensor.
    pub(crate) fn tensors(&self) -> impl Iterator<Item = (Quantity, &str, &[u64])> {
        let tensors = self.tensors.iter();
        tensors.map(|tensor| {
            (
                tensor.quantity,
                tensor.name.as_str(),
                tensor.shape.as_slice(),
            )
        })
    }

    /// Shows the numbers of the output called `name`, a piece at a time.
    pub(crate) fn read(
        &self,
        name: &str,
        see: &mut (impl FnMut(&[f64]) -> Result<(), String> + ?Sized),
    ) -> Result<(), String> {
        let is_asked = |tensor: &&Placed| tensor.key() == (Quantity::Output, name);
        let tensor = self.tensors.iter().find(is_asked);
        let tensor = tensor.ok_or_else(|| "is not among the outputs".to_owned())?;
        let mut file = open(self)?;
        let mut pieces = Pieces::new(&mut file, tensor)?;
        loop {
            let piece = pieces.next_piece()?;
            if piece.is_empty() {
                return Ok(());
            }
            see(piece)?;
        }
    }
}

/// What tensors are compared by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms<'a> {
    /// The unit roundoff of the candidate's precision.
    pub(crate) roundoff: f64,
    /// How many numbers each running statistic is a mean of, by its name.
    pub(crate) summands: &'a BTreeMap<String, u64>,
    /// Whether updates are gradients divided by their own size, as Adam's are.
    pub(crate) divided_updates: bool,
}

/// The relative L2 distance of every tensor and of every loss of `candidate` from `reference`, in
/// the reference's order.
///
/// Where updates are divided by the size of their gradients, rounding moves an element by as much
/// as its gradient is small: what a tensor is off by is what its one or two smallest gradients make
/// of it, and differs by more than tenfold between right computations. There the hundredth of a
/// tensor's elements that is furthest off is left out, and never more than half a row, so that a row
/// of a table that is wrong is seen.
///
/// The norm of a tensor whose reference is nothing but rounding noise says nothing. Where the
/// reference is zero by mathematics, as the gradient of a bias before a normalisation is, the norm
/// is that of a tensor of the same size with the root mean square of all tensors of its quantity;
/// elsewhere it is taken for at least the unit roundoff times that.
pub(crate) fn distances(
    reference: &Outputs,
    candidate: &Outputs,
    terms: Terms<'_>,
) -> Result<Vec<Distance>, Flaw> {
    let (known, theirs) = (by_key(reference), by_key(candidate));
    if let Some(extra) = theirs.iter().find(|(key, _)| !known.contains_key(*key)) {
        let name = extra.1.shown();
        let reason = format!("tensor `{name}` is not one of the reference's");
        return Err(Flaw::Candidate(reason));
    }
    let mut ours_file = open(reference).map_err(Flaw::Reference)?;
    let mut their_file = open(candidate).map_err(Flaw::Unreadable)?;
    let mut sums = Vec::new();
    for ours in &reference.tensors {
        let name = ours.shown();
        let their = theirs.get(&ours.key()).ok_or_else(|| {
            Flaw::Candidate(format!("tensor `{name}` of the reference is missing"))
        })?;
        if their.shape != ours.shape {
            let reason = format!(
                "tensor `{name}` has shape {:?}, not {:?}",
                their.shape, ours.shape
            );
            return Err(Flaw::Candidate(reason));
        }
        let differences = match terms.divided_updates && ours.quantity == Quantity::Update {
            true => Differences::but_furthest(ours),
            false => Differences::default(),
        };
        sums.push(compare(
            &mut ours_file,
            ours,
            &mut their_file,
            their,
            differences,
        )?);
    }
    if !is_something(&sums) {
        let reason = "all that it puts out is zero, and who computes nothing would agree with it; a larger batch may \
                      make something else";
        return Err(Flaw::Reference(reason.to_owned()));
    }
    let mut distances = relative(reference, &sums, terms);
    distances.extend(losses(reference, candidate)?);
    Ok(distances)
}

fn by_key(outputs: &Outputs) -> BTreeMap<(Quantity, &str), &Placed> {
    let tensors = outputs.tensors.iter();
    tensors.map(|tensor| (tensor.key(), tensor)).collect()
}

impl Placed {
    fn key(&self) -> (Quantity, &str) {
        (self.quantity, &self.name)
    }

    /// The name for a message.
    fn shown(&self) -> String {
        shorten(&self.quantity.of(&self.name))
    }
}

/// Sums of squares over a tensor.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    difference: f64,
    reference: f64,
    count: u64,
}

/// The sum of squared differences, perhaps without the furthest.
#[derive(Debug, Default)]
struct Differences {
    sum: f64,
    /// The largest squares, as bits, which are in the order of the numbers where none is negative.
    largest: BinaryHeap<Reverse<u64>>,
    /// How many of them are kept at most.
    kept: u64,
    /// Elements that the reference moves. Those that it leaves where they are have no gradient, and
    /// nothing that is wrong with them is left out.
    moved: u64,
}

impl Differences {
    fn but_furthest(tensor: &Placed) -> Self {
        let half_row = match tensor.shape.as_slice() {
            [rows, _, ..] => tensor.count.checked_div(*rows).unwrap_or(0) / 2,
            _ => tensor.count,
        };
        Self {
            kept: half_row.min(tensor.count / ONE_LEFT_OUT_IN),
            ..Self::default()
        }
    }

    fn add(&mut self, reference: f64, candidate: f64) {
        let square = (candidate - reference) * (candidate - reference);
        if self.kept == 0 || reference == 0.0 {
            self.sum += square;
            return;
        }
        self.moved += 1;
        let bits = square.to_bits();
        let is_full = self.largest.len() as u64 >= self.kept;
        if is_full && self.largest.peek().is_some_and(|least| bits <= least.0) {
            self.sum += square;
            return;
        }
        self.largest.push(Reverse(bits));
        if is_full {
            self.pass_smallest();
        }
    }

    /// Adds the smallest of those that are kept to the sum.
    fn pass_smallest(&mut self) {
        let smallest = self.largest.pop();
        self.sum += smallest.map_or(0.0, |Reverse(bits)| f64::from_bits(bits));
    }

    fn sum(mut self) -> f64 {
        while self.largest.len() as u64 > self.moved / ONE_LEFT_OUT_IN {
            self.pass_smallest();
        }
        self.sum
    }
}

fn compare(
    our_file: &mut BufReader<File>,
    ours: &Placed,
    their_file: &mut BufReader<File>,
    theirs: &Placed,
    mut differences: Differences,
) -> Result<Sums, Flaw> {
    let name = || ours.shown();
    let mut our_pieces = Pieces::new(our_file, ours).map_err(Flaw::Reference)?;
    let mut their_pieces = Pieces::new(their_file, theirs).map_err(Flaw::Unreadable)?;
    let mut sums = Sums {
        count: ours.count,
        ..Sums::default()
    };
    let mut place = 0_u64;
    loop {
        let our_piece = our_pieces.next_piece().map_err(Flaw::Reference)?;
        let their_piece = their_pieces.next_piece().map_err(Flaw::Unreadable)?;
        if our_piece.is_empty() {
            sums.difference = differences.sum();
            return Ok(sums);
        }
        for (r, y) in our_piece.iter().zip(their_piece) {
            if !r.is_finite() {
                let reason = format!("tensor `{}` holds {r} at element {place}", name());
                return Err(Flaw::Reference(reason));
            }
            if !y.is_finite() {
                let reason = format!("tensor `{}` holds {y} at element {place}", name());
                return Err(Flaw::Candidate(reason));
            }
            differences.add(*r, *y);
            sums.reference += r * r;
            place += 1;
        }
    }
}

/// Whether there is something to hold another against: who computes nothing at all agrees with zeros.
fn is_something(sums: &[Sums]) -> bool {
    let mut counted = sums.iter().filter(|sum| sum.count > 0).peekable();
    counted.peek().is_none() || counted.any(|sum| sum.reference > 0.0)
}

fn relative(reference: &Outputs, sums: &[Sums], terms: Terms<'_>) -> Vec<Distance> {
    let tensors = || reference.tensors.iter().zip(sums);
    // Gradients, statistics and updates are of different sizes.
    let mean_square = |quantity: Quantity| {
        let alike = || tensors().filter(move |(tensor, _)| tensor.quantity == quantity);
        let square: f64 = alike().map(|(_, sum)| sum.reference).sum();
        let count = alike().fold(0_u64, |count, (_, sum)| count.saturating_add(sum.count));
        if count == 0 {
            0.0
        } else {
            square / count as f64
        }
    };
    let mean_squares: BTreeMap<Quantity, f64> = tensors()
        .map(|(tensor, _)| tensor.quantity)
        .collect::<BTreeSet<_>>()
        .into_iter()
        .map(|quantity| (quantity, mean_square(quantity)))
        .collect();
    tensors()
        .map(|(tensor, sum)| {
            let mean_square = mean_squares.get(&tensor.quantity).copied().unwrap_or(0.0);
            let usual = (mean_square * sum.count as f64).sqrt();
            let norm = match sum.reference.sqrt() {
                norm if norm < NOTHING * usual => usual,
                norm => norm.max(terms.roundoff * usual),
            };
            let error = quotient(sum.difference.sqrt(), norm);
            Distance {
                name: tensor.shown(),
                growth: match tensor.quantity {
                    Quantity::Output => Growth::None,
                    Quantity::Gradient => Growth::Layers,
                    Quantity::Movement => Growth::Sums {
                        of: terms.summands.get(&tensor.name).copied().unwrap_or(1),
                    },
                    Quantity::Update => Growth::Iterations,
                },
                error,
            }
        })
        .collect()
}

fn losses(reference: &Outputs, candidate: &Outputs) -> Result<Vec<Distance>, Flaw> {
    let (ours, theirs) = (&reference.losses, &candidate.losses);
    if ours.len() != theirs.len() {
        let reason = format!(
            "{} losses where the reference has {}",
            theirs.len(),
            ours.len()
        );
        return Err(Flaw::Candidate(reason));
    }
    let first = ours.first().copied().unwrap_or(0.0);
    ours.iter()
        .zip(theirs)
        .enumerate()
        .map(|(iteration, (ours, theirs))| {
            let name = format!("loss of iteration {}", iteration + 1);
            if !ours.is_finite() {
                return Err(Flaw::Reference(format!("the {name} is {ours}")));
            }
            if !theirs.is_finite() {
                return Err(Flaw::Candidate(format!("the {name} is {theirs}")));
            }
            Ok(Distance {
                name,
                growth: match iteration {
                    0 => Growth::FirstLoss,
                    _ => Growth::Loss {
                        change: quotient((ours - first).abs(), ours.abs()),
                    },
                },
                error: quotient((theirs - ours).abs(), ours.abs()),
            })
        })
        .collect()
}

/// A quotient that files can hold: nothing over nothing is nothing, and infinity is very large.
fn quotient(difference: f64, norm: f64) -> f64 {
    if difference == 0.0 {
        return 0.0;
    }
    let quotient = difference / norm;
    if quotient.is_finite() {
        quotient
    } else {
        f64::MAX
    }
}

/// A name for a message: workers may send any.
fn shorten(name: &str) -> String {
    name.chars()
        .take(120)
        .flat_map(char::escape_debug)
        .collect()
}
