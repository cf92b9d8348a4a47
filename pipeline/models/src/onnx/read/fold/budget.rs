//! How much may be computed while a model is read.

use super::{
    shapes,
    tensor::{self, Constant, Data, Kind},
};
use crate::infer::MAX_RANK;

/// Elements that may be computed whatever the file holds.
const GIVEN: u64 = 16 << 20;

/// How often a mask over pairs of positions may be computed anew.
const STEPS: u64 = 32;

/// Most elements that sizes of inputs may ask for: a gigabyte of integers.
const MOST_FED: u64 = 128 << 20;

/// Most elements that the bytes of a file explain: weights of two gigabytes, each computed from once.
const MOST_HELD: u64 = 1 << 30;

/// What is said of more than is explained.
const ABSURD: &str = "its constants are absurdly larger than the file";

/// What is left of the elements that may be computed.
#[derive(Debug)]
pub(in crate::onnx::read) struct Budget {
    left: u64,
    /// Most elements at once that file and inputs explain.
    explained: u64,
    /// Whether something asked for more than that.
    is_absurd: bool,
    /// Elements of constants that are left to the engines.
    followed: u64,
    /// What is left of the elements that may be looked at once more.
    looks: u64,
}

impl Budget {
    /// For a model of this many bytes, wherever they lie, and inputs from which masks of so many
    /// elements follow. Weights are computed from weights, and masks from inputs, in a few steps.
    pub(in crate::onnx::read) fn new(bytes: u64, masks: u64) -> Self {
        let masks = masks.saturating_mul(STEPS);
        let given = GIVEN.saturating_add(bytes.min(MOST_HELD));
        let left = given.saturating_add(masks.min(MOST_FED));
        Self {
            left,
            explained: given.saturating_add(masks),
            is_absurd: false,
            followed: 0,
            looks: left,
        }
    }

    /// The floats of a constant that was computed, while any may be looked at.
    pub(in crate::onnx::read) fn look(&mut self, constant: &Constant) -> Option<Vec<f32>> {
        if constant.kind != Kind::Float {
            return None;
        }
        match self.look_at(constant)? {
            Data::Floats(numbers) => Some(numbers),
            Data::Integers(_) => None,
        }
    }

    /// The numbers of such a constant, whatever they are.
    pub(in crate::onnx::read) fn look_at(&mut self, constant: &Constant) -> Option<Data> {
        self.looks = self.looks.checked_sub(constant.elements())?;
        constant.data().ok()
    }

    /// Takes note of a constant that is not worked out here, and refuses what the file and its inputs do not
    /// explain, at once or all together.
    pub(in crate::onnx::read) fn follow(&mut self, shape: &[u64]) -> Result<(), String> {
        let count = self.count(shape)?;
        self.followed = self.followed.saturating_add(count);
        // Of numbers of 4 bits a byte has two.
        let most = self.explained.saturating_mul(2);
        if count <= most && self.followed <= self.explained.saturating_mul(STEPS) {
            return Ok(());
        }
        self.is_absurd = true;
        Err(ABSURD.to_owned())
    }

    pub(in crate::onnx::read) fn take(&mut self, elements: u64) -> Result<(), String> {
        if let Some(left) = self.left.checked_sub(elements) {
            self.left = left;
            return Ok(());
        }
        if elements > self.explained {
            self.is_absurd = true;
            Err(ABSURD.to_owned())
        } else {
            Err("its constants are more than is computed while reading".to_owned())
        }
    }

    /// Elements of a shape, within what any value may have.
    pub(in crate::onnx::read) fn count(&mut self, shape: &[u64]) -> Result<u64, String> {
        let count = tensor::count(shape);
        self.is_absurd |= count.is_err();
        count
    }

    /// Refuses axes beyond those that any value may have: there can be twice as many after each step.
    pub(in crate::onnx::read) fn check_rank(&mut self, constant: &Constant) -> Result<(), String> {
        let rank = constant.shape.len();
        if rank <= MAX_RANK {
            return Ok(());
        }
        self.is_absurd = true;
        Err(format!(
            "makes {rank} axes, at most {MAX_RANK} are possible"
        ))
    }

    /// Whether more was asked for than anything explains.
    pub(in crate::onnx::read) const fn is_absurd(&self) -> bool {
        self.is_absurd
    }

    /// Says whether that is so.
    pub(in crate::onnx::read) const fn judge(&mut self, is_absurd: bool) {
        self.is_absurd = is_absurd;
    }

    /// A list of one number, repeated.
    pub(in crate::onnx::read) fn filled(
        &mut self,
        size: u64,
        number: f32,
    ) -> Result<Vec<f32>, String> {
        self.take(size)?;
        let count = usize::try_from(size).map_err(|_| format!("a list of {size} numbers"))?;
        Ok(vec![number; count])
    }

    /// The numbers of a constant, in memory.
    pub(in crate::onnx::read) fn data(&mut self, constant: &Constant) -> Result<Data, String> {
        // An integer, of a single bit in the file perhaps, takes twice what a float does.
        let width = match constant.kind {
            Kind::Float => 1,
            _ => 2,
        };
        self.take(constant.elements().saturating_mul(width))?;
        constant.data()
    }

    /// A list of integers, which every shape and axis is.
    pub(in crate::onnx::read) fn list(&mut self, constant: &Constant) -> Result<Vec<i64>, String> {
        match self.data(constant)? {
            Data::Integers(numbers) => Ok(numbers),
            Data::Floats(_) => Err("reads a list of floats where integers belong".to_owned()),
        }
    }

    /// The elements at these places, in a new shape.
    pub(in crate::onnx::read) fn pick(
        &mut self,
        x: &Constant,
        shape: Vec<u64>,
        place: impl Fn(u64) -> u64,
    ) -> Result<Constant, String> {
        let count = self.count(&shape)?;
        self.take(count)?;
        let data = self.data(x)?;
        fn picked<T: Copy>(
            numbers: &[T],
            count: u64,
            place: impl Fn(u64) -> u64,
        ) -> Result<Vec<T>, String> {
            (0..count)
                .map(|at| numbers.get(place(at) as usize).copied())
                .collect::<Option<_>>()
                .ok_or_else(|| "reads beyond a tensor".to_owned())
        }
        let data = match &data {
            Data::Floats(numbers) => Data::Floats(picked(numbers, count, place)?),
            Data::Integers(numbers) => Data::Integers(picked(numbers, count, place)?),
        };
        Ok(x.like(shape, data))
    }

    /// A constant repeated along its axes of one element, and along new ones before them.
    pub(in crate::onnx::read) fn expanded(
        &mut self,
        x: &Constant,
        shape: &[u64],
    ) -> Result<Constant, String> {
        if x.shape == shape {
            return Ok(x.clone());
        }
        let missing = shape.len().saturating_sub(x.shape.len());
        let padded = [vec![1; missing], x.shape.clone()].concat();
        let (from, to) = (shapes::strides(&padded), shapes::strides(shape));
        let place = |at: u64| {
            let mut rest = at;
            let mut place = 0;
            for ((to, from), size) in to.iter().zip(&from).zip(&padded) {
                let index = rest / to.max(&1);
                rest %= to.max(&1);
                if *size != 1 {
                    place += index * from;
                }
            }
            place
        };
        self.pick(x, shape.to_vec(), place)
    }
}
