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
    /// Whether the output goes where the first operand was.
    pub(crate) in_place: bool,
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

    /// Number of steps that overwrite their first operand.
    pub(crate) fn in_place(&self) -> usize {
        self.steps.iter().filter(|step| step.in_place).count()
    }
}

impl Step {
    fn run(&self, values: &mut [Option<Tensor>], pass: Pass) -> Result<(), Fault> {
        let output = if self.in_place {
            self.overwrite(values)?
        } else {
            let operands = Operands {
                values,
                indices: &self.inputs,
            };
            self.kernel.apply(operands, pass)?
        };
        *values.get_mut(self.output).ok_or(Fault::Missing)? = Some(output);
        for &index in &self.expired {
            *values.get_mut(index).ok_or(Fault::Missing)? = None;
        }
        Ok(())
    }

    fn overwrite(&self, values: &mut [Option<Tensor>]) -> Result<Tensor, Fault> {
        let index = *self.inputs.first().ok_or(Fault::Missing)?;
        let mut target = values
            .get_mut(index)
            .and_then(Option::take)
            .ok_or(Fault::Missing)?;
        let operands = Operands {
            values,
            indices: &self.inputs,
        };
        self.kernel.overwrite(&mut target, operands.optional(1))?;
        Ok(target)
    }
}
