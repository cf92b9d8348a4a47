//! A lowered graph: steps over numbered values.

use schema::{Outcome, Precision};
use tch::{Tensor, no_grad};

use crate::{
    device::Place,
    failure::Fault,
    kernel::{Kernel, Operands, Pass},
    kinks::{self, Kinks},
    recorder::Recorder,
    shim::Autocast,
};

/// Steps in the graph's order.
#[derive(Debug, Default)]
pub(crate) struct Program {
    /// The steps.
    pub(crate) steps: Vec<Step>,
    /// Where they compute under autocast; `None` where they compute in what they are given.
    pub(crate) casts: Option<Place>,
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
        let _casting = self.casting()?;
        for step in &self.steps {
            step.run(values, pass)
                .map_err(|fault| fault.at(&step.place))?;
        }
        Ok(())
    }

    /// Autocast, where it is on, until this is dropped.
    pub(crate) fn casting(&self) -> Result<Option<Autocast>, Outcome> {
        let enter = |place| Autocast::enter(place != Place::Cpu);
        let entered = self.casts.map(enter).transpose();
        entered.map_err(|error| Fault::from(error).at("autocast"))
    }

    /// Lays parameters as operators want them that are called with them in every step.
    pub(crate) fn settle(&self, values: &[Option<Tensor>]) -> Result<(), Outcome> {
        for step in &self.steps {
            let Kernel::Recurrent(layer) = &step.kernel else {
                continue;
            };
            let operands = Operands {
                values,
                indices: &step.inputs,
            };
            let flattened = operands
                .rest(1)
                .and_then(|parameters| Ok(layer.flatten(&parameters)?));
            flattened.map_err(|fault| fault.at(&step.place))?;
        }
        Ok(())
    }

    /// Runs every step of a training iteration in double precision. Where rounding in `precision`
    /// moves what an operator is given to within reach of a kink, the derivative is that of its
    /// other side.
    pub(crate) fn run_across_kinks(
        &self,
        values: &mut [Option<Tensor>],
        precision: Precision,
    ) -> Result<(), Outcome> {
        let at = |step: &Step| {
            let place = step.place.clone();
            move |fault: Fault| fault.at(&place)
        };
        let mut rounded =
            no_grad(|| kinks::rounded(values, precision)).map_err(|fault| fault.at("values"))?;
        let pass = Pass::Deterministic;
        let mut operands = Vec::new();
        for step in &self.steps {
            if Kinks::of(&step.kernel).is_some() {
                let operand = || Ok(step.operand(&rounded)?.f_detach_copy()?);
                operands.push(no_grad(operand).map_err(at(step))?);
            }
            no_grad(|| step.run(&mut rounded, pass)).map_err(at(step))?;
        }
        drop(rounded);
        let mut operands = operands.into_iter();
        for step in &self.steps {
            let Some(kinks) = Kinks::of(&step.kernel) else {
                step.run(values, pass).map_err(at(step))?;
                continue;
            };
            let mut across = || {
                let rounded = operands.next().ok_or(Fault::Missing)?;
                let operand = step.operand(values)?;
                kinks.across(&step.kernel, operand, &rounded, precision)
            };
            let output = across().map_err(at(step))?;
            step.done(values, output).map_err(at(step))?;
        }
        Ok(())
    }

    /// Runs every step, and says before each where it is: at the step's place among all.
    pub(crate) fn run_told(
        &self,
        values: &mut [Option<Tensor>],
        pass: Pass,
        recorder: &Recorder,
    ) -> Result<(), Outcome> {
        let _casting = self.casting()?;
        for (place, step) in self.steps.iter().enumerate() {
            recorder.at(place);
            step.run(values, pass)
                .map_err(|fault| fault.at(&step.place))?;
        }
        recorder.nowhere();
        Ok(())
    }

    /// The nodes of the graph that its steps are, in order.
    pub(crate) fn nodes(&self) -> Vec<&str> {
        let places = self.steps.iter().map(|step| step.place.as_str());
        let nodes = places.map(|place| place.split_once(' ').map_or(place, |(_, node)| node));
        nodes.collect()
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
        self.done(values, output)
    }

    /// The first thing that it reads.
    fn operand<'a>(&'a self, values: &'a [Option<Tensor>]) -> Result<&'a Tensor, Fault> {
        let operands = Operands {
            values,
            indices: &self.inputs,
        };
        operands.at(0)
    }

    /// Puts its output in its place, and forgets what nothing reads any more.
    fn done(&self, values: &mut [Option<Tensor>], output: Tensor) -> Result<(), Fault> {
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
