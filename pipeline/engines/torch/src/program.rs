//! A lowered graph: steps over numbered values.

use schema::Outcome;
use tch::Tensor;

use crate::{
    failure::Fault,
    kernel::{Kernel, Operands, Pass},
};

/// Steps in the graph's order.
#[derive(Debug, Default)]
pub(crate) struct Program {
    /// The steps.
    pub(crate) steps: Vec<Step>,
}

/// One operator application. Values are known by their index.
#[derive(Debug)]
pub(crate) struct Step {
    /// Operator and node, for example `Conv layer1.0.conv1`.
    pub(crate) place: String,
    /// What to compute.
    pub(crate) kernel: Kernel,
    /// What it reads.
    pub(crate) inputs: Box<[usize]>,
    /// What it makes.
    pub(crate) output: usize,
    /// The position of the operand that the output overwrites, if any.
    pub(crate) overwrites: Option<usize>,
    /// Values that nothing reads any more once this step is done.
    pub(crate) expired: Box<[usize]>,
}

impl Program {
    /// Runs every step.
    pub(crate) fn run(&self, values: &mut [Option<Tensor>], pass: Pass) -> Result<(), Outcome> {
        for step in &self.steps {
            step.run(values, pass)
                .map_err(|fault| fault.at(&step.place))?;
        }
        Ok(())
    }

    /// Number of steps that overwrite an operand.
    pub(crate) fn in_place(&self) -> usize {
        self.steps
            .iter()
            .filter(|step| step.overwrites.is_some())
            .count()
    }
}

impl Step {
    fn run(&self, values: &mut [Option<Tensor>], pass: Pass) -> Result<(), Fault> {
        let output = match self.overwrites {
            None => self.kernel.apply(
                Operands {
                    values,
                    indices: &self.inputs,
                },
                pass,
            )?,
            Some(position) => self.overwrite(values, position)?,
        };
        *values.get_mut(self.output).ok_or(Fault::Missing)? = Some(output);
        for &index in &self.expired {
            *values.get_mut(index).ok_or(Fault::Missing)? = None;
        }
        Ok(())
    }

    fn overwrite(&self, values: &mut [Option<Tensor>], position: usize) -> Result<Tensor, Fault> {
        let index = *self.inputs.get(position).ok_or(Fault::Missing)?;
        let mut target = values
            .get_mut(index)
            .and_then(Option::take)
            .ok_or(Fault::Missing)?;
        let operands = Operands {
            values,
            indices: &self.inputs,
        };
        let other = match position {
            0 => operands.optional(1),
            _ => operands.optional(0),
        };
        self.kernel.overwrite(&mut target, other)?;
        Ok(target)
    }
}
