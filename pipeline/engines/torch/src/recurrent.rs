//! Recurrent layers as `torch.nn.LSTM` and `torch.nn.GRU` call them: states of zeros, batch first.

use std::collections::BTreeMap;

use models::infer::ValueType;
use schema::graph::{Node, Op};
use tch::{Kind, TchError, Tensor, no_grad};

/// A layer of long short-term memory or of gated recurrent units.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Recurrent {
    cell: Cell,
    /// Shape of a state: `[directions, batch, size]`.
    state: [i64; 3],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cell {
    Lstm,
    Gru,
}

impl Recurrent {
    /// The layer of a node; `None` where its shapes are not those of a layer.
    pub(crate) fn of(node: &Node, types: &BTreeMap<String, ValueType>) -> Option<Self> {
        let (cell, bidirectional) = match node.op {
            Op::Lstm { bidirectional } => (Cell::Lstm, bidirectional),
            Op::Gru { bidirectional } => (Cell::Gru, bidirectional),
            _ => return None,
        };
        let shape = |position: usize| {
            let value = types.get(node.inputs.get(position)?)?;
            Some(value.shape.as_slice())
        };
        let (&[batch, _, _], &[_, size]) = (shape(0)?, shape(2)?) else {
            return None;
        };
        let directions = if bidirectional { 2 } else { 1 };
        Some(Self {
            cell,
            state: [
                directions,
                i64::try_from(batch).ok()?,
                i64::try_from(size).ok()?,
            ],
        })
    }

    /// Lays the parameters into one piece of memory, as `torch.nn.LSTM` and `torch.nn.GRU` do on a GPU:
    /// otherwise cuDNN's operator copies them together in every step. The tensors stay what they are, and
    /// lie elsewhere.
    pub(crate) fn flatten(&self, parameters: &[&Tensor]) -> Result<(), TchError> {
        // Those of `torch.backends.cudnn.is_acceptable`.
        let acceptable = |it: &&Tensor| {
            it.device().is_cuda() && matches!(it.kind(), Kind::Half | Kind::Float | Kind::Double)
        };
        if parameters.is_empty() || !parameters.iter().all(acceptable) {
            return Ok(());
        }
        // cuDNN's numbers (`cudnnRNNMode_t`).
        let mode = match self.cell {
            Cell::Lstm => 2,
            Cell::Gru => 3,
        };
        let [directions, _, size] = self.state;
        let features = parameters
            .first()
            .map_or(0, |input| input.size().last().copied().unwrap_or(0));
        let (per_direction, projected, layers, batch_first) = (4, 0, 1, true);
        no_grad(|| {
            Tensor::f_internal_cudnn_rnn_flatten_weight(
                parameters,
                per_direction,
                features,
                mode,
                size,
                projected,
                layers,
                batch_first,
                directions == 2,
            )
        })
        .map(drop)
    }

    /// Runs the whole sequence. What PyTorch calls training matters to cuDNN alone: whether it
    /// keeps what the backward pass reads.
    pub(crate) fn apply(
        &self,
        x: &Tensor,
        parameters: &[&Tensor],
        training: bool,
    ) -> Result<Tensor, TchError> {
        let (layers, dropout, biases, batch_first) = (1, 0.0, true, true);
        let [directions, ..] = self.state;
        let bidirectional = directions == 2;
        let zeros = Tensor::f_zeros(self.state, (x.kind(), x.device()))?;
        match self.cell {
            Cell::Lstm => {
                let states = [&zeros, &zeros];
                let (output, _, _) = x.f_lstm(
                    &states,
                    parameters,
                    biases,
                    layers,
                    dropout,
                    training,
                    bidirectional,
                    batch_first,
                )?;
                Ok(output)
            }
            Cell::Gru => {
                let (output, _) = x.f_gru(
                    &zeros,
                    parameters,
                    biases,
                    layers,
                    dropout,
                    training,
                    bidirectional,
                    batch_first,
                )?;
                Ok(output)
            }
        }
    }
}
