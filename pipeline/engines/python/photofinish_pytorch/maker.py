"""Weights and inputs as tensors on the device."""

import time

import torch

from photofinish_pytorch import fill, stored
from photofinish_pytorch.failure import at
from photofinish_worker.graph import ElementType, Input, Parameter, Stored
from photofinish_worker.outcome import Failure, Kind
from photofinish_worker.streams import makes_integers


class Maker:
    """Makes tensors on the device, and keeps the time that making their numbers takes."""

    def __init__(
        self,
        device: torch.device,
        element: torch.dtype,
        channels_last: bool,
        weights: str | None = None,
    ) -> None:
        self.filling_ns = 0
        self._weights = weights
        """The file of the user's own weights."""
        self._device = device
        self._element = element
        self._channels_last = channels_last

    def parameter(self, parameter: Parameter) -> torch.Tensor:
        """The initial value of a parameter."""
        floats = not makes_integers(parameter.fill)
        return self._make(parameter, floats)

    def input(self, fed: Input) -> torch.Tensor:
        """The standard input of this name."""
        return self._make(fed, fed.element is ElementType.FLOAT)

    def _make(self, wanted: Parameter | Input, floats: bool) -> torch.Tensor:
        numbers = fill.floats if floats else fill.integers
        with at(wanted.name):
            if any(size >= 2**63 for size in wanted.shape):
                raise Failure(Kind.OUT_OF_MEMORY, f"{wanted.name}: does not fit in memory")
            start = time.perf_counter_ns()
            if isinstance(wanted.fill, Stored) and self._weights is not None:
                tensor = stored.read(self._weights, wanted.name, wanted.fill, wanted.shape)
            else:
                tensor = numbers(wanted.name, wanted.fill, wanted.shape)
            self.filling_ns += time.perf_counter_ns() - start
            if floats:
                tensor = tensor.to(self._element)
            tensor = tensor.to(self._device)
            if floats and self._channels_last and tensor.dim() == 4:
                tensor = tensor.contiguous(memory_format=torch.channels_last)
            return tensor
