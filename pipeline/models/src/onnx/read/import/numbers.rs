//! What is known of the numbers of a value whatever is fed: where a choice by a mask is a sum of two
//! products, what is not chosen has to be finite.

use schema::graph::{Border, Op};

use super::{
    super::tensor::{Constant, Data},
    Import, Value, Work,
};

/// A bound of numbers from below.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
enum Least {
    #[default]
    Any,
    Zero,
    /// More than zero.
    Positive,
}

/// What is known of the numbers of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::onnx::read) struct Numbers {
    least: Least,
    is_never_zero: bool,
    /// Infinities may be among them, as those of a mask and of what it is added to.
    pub(in crate::onnx::read) is_infinite: bool,
    /// Some may be infinite, or no numbers, by what is fed.
    pub(in crate::onnx::read) is_wild: bool,
}

impl Numbers {
    fn of(numbers: &[f32]) -> Self {
        let all = |holds: fn(&f32) -> bool| numbers.iter().all(holds);
        let least = if all(|&number| number > 0.0) {
            Least::Positive
        } else if all(|&number| number >= 0.0) {
            Least::Zero
        } else {
            Least::Any
        };
        Self {
            least,
            is_never_zero: all(|&number| number != 0.0),
            is_infinite: !all(|number| !number.is_infinite()),
            is_wild: !all(|number| !number.is_nan()),
        }
    }
}

impl Work {
    /// Whether it takes numbers one by one, so that an infinity of a mask is one of what it makes.
    pub(super) const fn is_by_element(&self) -> bool {
        matches!(
            self,
            Self::Sub
                | Self::Div
                | Self::Op(Op::Add | Op::Mul | Op::Max | Op::Min | Op::Concat { .. })
        )
    }

    /// Whether it makes something finite of the infinities of a mask.
    const fn is_bounded(&self) -> bool {
        matches!(
            self,
            Self::Erf
                | Self::Op(
                    Op::Softmax { .. } | Op::Sigmoid | Op::HardSigmoid | Op::Tanh | Op::Clip { .. }
                )
        )
    }

    /// Of values with these bounds.
    fn least(&self, bounds: &[Least], is_square: bool) -> Least {
        let all = bounds.iter().copied().min().unwrap_or_default();
        let one = bounds.iter().copied().max().unwrap_or_default();
        match self {
            Self::Op(Op::Mul) if is_square => Least::Zero,
            Self::Pow(power) if *power == 2.0 => Least::Zero,
            // A product may be too small for binary32.
            Self::Div | Self::Pow(_) | Self::Op(Op::Mul | Op::AveragePool { .. }) => {
                all.min(Least::Zero)
            }
            Self::Op(Op::Add) if all >= Least::Zero => one,
            Self::Op(Op::Max) => one,
            Self::Sqrt
            | Self::Mean
            | Self::Op(
                Op::Min
                | Op::Concat { .. }
                | Op::Reshape { .. }
                | Op::Flatten { .. }
                | Op::Transpose { .. }
                | Op::Slice { .. }
                | Op::Expand { .. }
                | Op::MaxPool { .. }
                | Op::GlobalAveragePool
                | Op::Resize { .. },
            ) => all,
            Self::Op(Op::Pad { border, .. }) => match border {
                Border::Constant { value } if *value < 0.0 => Least::Any,
                Border::Constant { .. } => all.min(Least::Zero),
                Border::Reflect => all,
            },
            Self::Op(Op::Clip { min, .. }) if *min > 0.0 => Least::Positive,
            Self::Op(Op::Clip { min, .. }) if *min == 0.0 => Least::Zero,
            Self::Op(Op::Clip { .. }) => all.min(Least::Zero),
            Self::Op(
                Op::Relu
                | Op::Softmax { .. }
                | Op::Sigmoid
                | Op::HardSigmoid
                | Op::Abs
                | Op::Exp
                | Op::Softplus,
            ) => Least::Zero,
            _ => Least::Any,
        }
    }

    /// Whether it may make infinities, or what is no number, of finite numbers.
    fn is_wild(&self, inputs: &[Numbers]) -> bool {
        let below = |at: usize, least: Least| inputs.get(at).is_none_or(|x| x.least < least);
        match self {
            Self::Op(Op::Exp) => true,
            Self::Op(Op::Log) => below(0, Least::Positive),
            Self::Sqrt => below(0, Least::Zero),
            Self::Pow(power) if *power < 0.0 => below(0, Least::Positive),
            Self::Pow(power) if power.fract() != 0.0 => below(0, Least::Zero),
            Self::Div => {
                below(1, Least::Positive) && inputs.get(1).is_none_or(|x| !x.is_never_zero)
            }
            _ => false,
        }
    }
}

impl Import<'_> {
    /// What is known of a value of the graph.
    pub(in crate::onnx::read) fn numbers_of(&self, value: &Value) -> Numbers {
        match value {
            Value::Made(name) => self.numbers.get(name).copied().unwrap_or_default(),
            Value::Known(_) => Numbers::default(),
        }
    }

    /// Looks at the numbers of a parameter.
    pub(super) fn search(&mut self, name: &str, constant: &Constant) -> Result<(), String> {
        let origin = constant.origin();
        let found = match self.searched.get(&origin) {
            Some(&known) => known,
            None => match self.budget.data(constant)? {
                Data::Floats(numbers) => Numbers::of(&numbers),
                Data::Integers(_) => Numbers::default(),
            },
        };
        self.searched.insert(origin, found);
        self.numbers.insert(name.to_owned(), found);
        Ok(())
    }

    /// Notes what follows for a value from those that it is made of.
    pub(super) fn follow(&mut self, work: &Work, inputs: &[String], output: &str) {
        let numbers: Vec<Numbers> = inputs
            .iter()
            .map(|name| self.numbers.get(name).copied().unwrap_or_default())
            .collect();
        let bounds: Vec<Least> = numbers.iter().map(|x| x.least).collect();
        let is_square = matches!(inputs, [a, b] if a == b);
        let made = Numbers {
            least: work.least(&bounds, is_square),
            is_never_zero: false,
            is_infinite: !work.is_bounded() && numbers.iter().any(|x| x.is_infinite),
            is_wild: work.is_wild(&numbers) || numbers.iter().any(|x| x.is_wild),
        };
        self.numbers.insert(output.to_owned(), made);
    }

    /// Notes that a value was made of another by a sum with weights above zero.
    pub(in crate::onnx::read) fn sums_up(&mut self, made: &Value, of: &Value) {
        let least = self.numbers_of(of).least;
        if let Value::Made(made) = made {
            self.numbers.entry(made.clone()).or_default().least = least;
        }
    }

    /// Notes that a value may hold what counts as an infinity.
    pub(in crate::onnx::read) fn masks(&mut self, name: &str) {
        self.numbers.entry(name.to_owned()).or_default().is_infinite = true;
    }
}
