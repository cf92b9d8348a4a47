"""The weights of recurrent layers, as cuDNN wants them."""

import torch

from photofinish_pytorch.device import Place
from photofinish_pytorch.failure import at
from photofinish_worker import graph as ops
from photofinish_worker.graph import Graph

_PER_DIRECTION = 4
"""Weights of the input and of the state, and a bias for each."""
_MODES = {ops.LSTM: 2, ops.GRU: 3}
"""cuDNN's numbers of the layers (`cudnnRNNMode_t`)."""


def flatten(graph: Graph, held: dict[str, torch.Tensor], place: Place) -> None:
    """Lays the weights of each layer into one piece of memory, as `torch.nn.LSTM` and
    `torch.nn.GRU` do on a GPU: otherwise cuDNN's operator copies them together in every step, with
    a warning. The tensors stay what they are, and lie elsewhere."""
    if not place.is_cuda:
        return
    for node in graph.nodes:
        mode = _MODES.get(type(node.op))
        weights = [held[name] for name in node.inputs[1:] if name in held]
        if mode is None or not weights or len(weights) % _PER_DIRECTION:
            continue
        if not all(_is_acceptable(weight) for weight in weights):
            continue
        with at(node.place()), torch.no_grad():
            torch._cudnn_rnn_flatten_weight(
                weights,
                _PER_DIRECTION,
                weights[0].shape[1],
                mode,
                weights[1].shape[1],
                0,
                1,
                True,
                len(weights) > _PER_DIRECTION,
            )


def _is_acceptable(weight: torch.Tensor) -> bool:
    """As PyTorch's modules ask."""
    cudnn = torch.backends.cudnn
    return bool(cudnn.is_acceptable(weight.detach()))  # type: ignore[no-untyped-call]
