//! What an engine written in Rust implements; [`serve`](crate::serve()) does the rest.

use std::collections::BTreeMap;

use schema::{
    Digest, Outcome, OutcomeKind, Precision,
    protocol::{Load, Profile, Quantity, StepExchanges},
};

use crate::ranks::{Store, World};

/// An engine before it has a network. Constructing one must be cheap and silent: whatever loads
/// a library belongs in [`hello`](Self::hello) or [`load`](Self::load), where the standard output
/// is safe from its chatter.
pub trait Engine {
    /// Who this worker is. Called once, first.
    fn hello(&self) -> Identity;

    /// Builds the cell's network, ready for its first step. Called at most once a process, after
    /// [`hello`](Self::hello).
    ///
    /// # Errors
    /// The typed reason why this cell cannot run here: `unsupported`, `unavailable`,
    /// `out_of_memory`, or `crashed`.
    fn load(&mut self, load: &Load) -> Result<(Box<dyn Session>, LoadReport), Outcome>;

    /// Joins the other ranks of a cell that several processes run ([`schema::Strategy::Ddp`]), before
    /// [`load`](Self::load): opens the store in which they meet, which rank 0 serves.
    ///
    /// # Errors
    /// The typed reason; `unsupported` where an engine runs a cell in one process.
    fn join(&mut self, _world: &World) -> Result<Box<dyn Store>, Outcome> {
        let reason = "this engine runs a cell in one process";
        Err(Outcome::new(OutcomeKind::Unsupported, reason))
    }

    /// Whether it reads stored weights ([`models::Numbers`]). One that makes all numbers by recipe
    /// is never given a model of the user's.
    fn reads_weights(&self) -> bool {
        false
    }
}

/// A network that is ready to run.
pub trait Session {
    /// One synchronous step (an inference call, or a training iteration): returns when the result
    /// is there, at the cell's timing boundary. The clock runs exactly while this does, so nothing
    /// else belongs in it.
    ///
    /// # Errors
    /// The typed reason, for example `out_of_memory`.
    fn step(&mut self) -> Result<(), Outcome>;

    /// Where several ranks run the cell, waits until all of them are here: the loop asks before each
    /// stretch of steps, outside of its own clock, so that no step waits for a rank that had not heard of it
    /// yet.
    ///
    /// # Errors
    /// The typed reason.
    fn align(&mut self) -> Result<(), Outcome> {
        Ok(())
    }

    /// What the last [`step`](Self::step) took by the device's own clock, in whole nanoseconds: its sample
    /// at the boundary `device`. The loop asks after each step that it times, outside of its own clock.
    /// `None` at the other boundaries, where that clock tells the sample.
    ///
    /// # Errors
    /// The typed reason.
    fn device_ns(&mut self) -> Result<Option<u64>, Outcome> {
        Ok(None)
    }

    /// Runs for the sake of the outputs. Inference: one step on the standard input; the tensors
    /// are the graph's outputs. Training: `steps` iterations from the initial weights, dropout
    /// off; for every weight its gradient in the first iteration and its final value minus its
    /// initial one, for every buffer its value after the first iteration minus its initial one,
    /// and the loss of each iteration before its update. Starts from the initial state whatever ran before, and leaves
    /// the session in it.
    ///
    /// # Errors
    /// The typed reason.
    fn parity(&mut self, steps: u32) -> Result<ParityData, Outcome>;

    /// Training: [`parity`](Self::parity), but what rounding in `precision` moves to within reach of a
    /// kink takes the derivative of the other side ([`schema::protocol::Parity::across_kinks`]). Only
    /// the engine of the reference needs to know how.
    ///
    /// # Errors
    /// The typed reason; `unsupported` where the engine does not know how.
    fn parity_across_kinks(
        &mut self,
        _steps: u32,
        _precision: Precision,
    ) -> Result<ParityData, Outcome> {
        let reason = "this engine does not tell gradients across kinks: only PyTorch eager does";
        Err(Outcome::new(OutcomeKind::Unsupported, reason))
    }

    /// Runs so many steps under the engine's own profiler, each as [`step`](Self::step) runs it, and
    /// says where their time went: [`ProfileEntries`](crate::ProfileEntries) adds it up. Called once
    /// the session is warm, in a launch that measures nothing.
    ///
    /// # Errors
    /// The typed reason; `unsupported` where the engine has no profiler whose times can be mapped to
    /// nodes of the graph.
    fn profile(&mut self, _steps: u64) -> Result<Profile, Outcome> {
        let reason = "this worker maps no profiler's times to the nodes of a graph";
        Err(Outcome::new(OutcomeKind::Unsupported, reason))
    }

    /// Where several ranks run the cell, runs so many steps and says what this rank exchanged in each, and
    /// when. Called once the session is warm, after everything that is measured.
    ///
    /// # Errors
    /// The typed reason; `unsupported` where the engine does not tell.
    fn exchanges(&mut self, _steps: u64) -> Result<Vec<StepExchanges>, Outcome> {
        let reason = "this worker does not tell what ranks exchange";
        Err(Outcome::new(OutcomeKind::Unsupported, reason))
    }

    /// Training: the first weight that holds anything but finite numbers, if one does. The loop asks
    /// after each measurement, outside of the clock: where a training has diverged, times are those
    /// of arithmetic on infinities and NaN. `None` in inference.
    ///
    /// # Errors
    /// The typed reason.
    fn diverged(&mut self) -> Result<Option<String>, Outcome> {
        Ok(None)
    }

    /// Puts parameters, buffers and optimiser back to their initial state.
    ///
    /// # Errors
    /// The typed reason.
    fn reset(&mut self) -> Result<(), Outcome>;

    /// Memory in use on the device and its peak, in bytes; `None` on a CPU or where the engine
    /// cannot tell.
    fn device_memory(&mut self) -> Option<(u64, u64)>;
}

/// Who a worker is: a `hello` without the protocol's version, which is the loop's to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Name of the engine, as in manifests.
    pub engine: String,
    /// Versions of the engine and of the libraries that matter, by name.
    pub versions: BTreeMap<String, String>,
    /// Hash of what the worker was built from.
    pub worker: Option<Digest>,
    /// Variants that this worker can run.
    pub variants: Vec<String>,
}

/// What an engine tells of getting ready; the loop times the first step itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LoadReport {
    /// Making weights and inputs.
    pub fill_ns: u64,
    /// Building the network in the engine's own form, weights placed on the device.
    pub build_ns: u64,
    /// Compiling, optimising, building an engine; 0 where there is no such phase.
    pub compile_ns: u64,
    /// Threads in use, as the engine itself reports; absent where it cannot be asked.
    pub threads: Option<u32>,
    /// How idle threads wait, for example `spinning (default)`.
    pub spin: String,
    /// Settings in force, by name.
    pub settings: BTreeMap<String, String>,
}

/// Outputs, for comparison with the reference's.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ParityData {
    /// The tensors.
    pub tensors: Vec<Tensor>,
    /// Training: the loss of each iteration, before its update; empty in inference.
    pub losses: Vec<f64>,
}

impl ParityData {
    /// The hash of how far all weights have moved, which tells ranks apart that do not hold the same weights:
    /// they began with the same.
    #[must_use]
    pub(crate) fn updates(&self) -> Digest {
        let updates = self.tensors.iter();
        let updates = updates.filter(|tensor| tensor.quantity == Quantity::Update);
        let parts: Vec<Vec<u8>> = updates
            .map(|tensor| match &tensor.values {
                Values::F32(values) => values
                    .iter()
                    .flat_map(|value| value.to_le_bytes())
                    .collect(),
                Values::F64(values) => values
                    .iter()
                    .flat_map(|value| value.to_le_bytes())
                    .collect(),
            })
            .collect();
        Digest::of_parts(parts.iter().map(Vec::as_slice))
    }
}

/// A tensor on its way to a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    /// What is told of the value.
    pub quantity: Quantity,
    /// Name of the value, weight or buffer.
    pub name: String,
    /// Shape; the product is the number of values.
    pub shape: Vec<u64>,
    /// The numbers, row-major.
    pub values: Values,
}

/// Numbers of a tensor; narrower types are widened before they get here.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// IEEE binary32.
    F32(Vec<f32>),
    /// IEEE binary64.
    F64(Vec<f64>),
}
