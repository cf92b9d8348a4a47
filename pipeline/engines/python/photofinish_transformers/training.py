"""Training by a loop of one's own, as Transformers' documentation writes it for PyTorch."""

import torch

from photofinish_pytorch.device import Place
from photofinish_pytorch.maker import Maker
from photofinish_pytorch.training import Training, cross_entropy
from photofinish_transformers.network import Network
from photofinish_worker.graph import Graph
from photofinish_worker.messages import Boundary, Optimizer


class Loop(Training):
    """Forget the gradients, go forward and backward with each part of the batch, let the optimiser
    move.

    The parts are equal, and each part's mean loss counts by its share of the batch: the gradients
    that add up are those of the batch's mean loss.
    """

    _network: Network

    def __init__(
        self,
        graph: Graph,
        settings: Optimizer,
        network: Network,
        parts: int,
        maker: Maker,
        place: Place,
        boundary: Boundary = Boundary.STEP,
        foreach: bool | None = None,
    ) -> None:
        super().__init__(graph, settings, network, network, maker, place, boundary, foreach)
        fed = [value.chunk(parts) for value in (*self._inputs, self._labels)]
        self._parts = list(zip(*fed, strict=True))

    def _backward(self, dropout: bool) -> torch.Tensor:
        if len(self._parts) == 1:
            return super()._backward(dropout)
        losses = []
        for *inputs, labels in self._parts:
            (logits,) = self._forward(*inputs, dropout)
            loss = cross_entropy(logits, labels) / len(self._parts)
            loss.backward()  # type: ignore[no-untyped-call]
            losses.append(loss.detach())
        return torch.stack(losses).sum()
