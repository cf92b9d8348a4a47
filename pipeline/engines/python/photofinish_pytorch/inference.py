"""Inference: one forward pass a step."""

import torch

from photofinish_pytorch import parity
from photofinish_pytorch.compilation import Forward
from photofinish_pytorch.device import Place
from photofinish_pytorch.edges import edges
from photofinish_pytorch.maker import Maker
from photofinish_pytorch.network import Network
from photofinish_worker.engine import ParityData, Quantity
from photofinish_worker.graph import Graph
from photofinish_worker.messages import Boundary


class Inference:
    """A network that is ready for forward passes."""

    def __init__(
        self,
        graph: Graph,
        network: Network,
        forward: Forward,
        maker: Maker,
        place: Place,
        boundary: Boundary = Boundary.STEP,
        autocast: torch.dtype | None = None,
    ) -> None:
        self._autocast = autocast
        """What a pass is computed in under autocast, if it is."""
        self._names = graph.outputs
        self._network = network
        self._forward = forward
        self._inputs = tuple(maker.input(fed) for fed in graph.inputs)
        self._edges = edges(boundary, place, self._inputs)
        self._place = place

    def _run(self) -> tuple[torch.Tensor, ...]:
        with self._network.explained(), torch.inference_mode():
            if self._edges is not None:
                self._edges.begin(self._inputs)
            with self._place.casting(self._autocast):
                outputs = self._forward(*self._inputs, False)
            if self._edges is not None:
                outputs = self._edges.end(outputs)
        self._place.synchronize()
        return outputs

    def step(self) -> None:
        """One forward pass."""
        self._run()

    def device_ns(self) -> int | None:
        """What the last step took by the device's own clock, where that is its sample."""
        return None if self._edges is None else self._edges.device_ns()

    def parity(self, steps: int) -> ParityData:
        """The graph's outputs."""
        del steps
        named = zip(self._names, self._run(), strict=True)
        return ParityData([parity.output(Quantity.OUTPUT, name, tensor) for name, tensor in named])

    def reset(self) -> None:
        """A forward pass changes nothing that lasts."""

    def device_memory(self) -> tuple[int, int] | None:
        """Bytes in use on the device and their peak."""
        return self._place.memory()
