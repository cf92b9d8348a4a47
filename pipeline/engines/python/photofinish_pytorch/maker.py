"""Weights and inputs as tensors on the device."""

import time
from dataclasses import replace

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
        part: tuple[int, int] = (0, 1),
    ) -> None:
        self.filling_ns = 0
        self._weights = weights
        """The file of the user's own weights."""
        self._part = part
        """Which part of a batch inputs are, of how many that it falls into: those of all parts are
        one tensor, part after part in the first dimension."""
        self._device = device
        self._element = element
        self._channels_last = channels_last

    def parameter(self, parameter: Parameter) -> torch.Tensor:
        """The initial value of a parameter."""
        floats = not makes_integers(parameter.fill)
        return self._make(parameter, floats)

    def input(self, fed: Input) -> torch.Tensor:
        """The standard input of this name."""
        number, parts = self._part
        if parts == 1:
            return self._make(fed, fed.element is ElementType.FLOAT)
        rows, *rest = fed.shape
        whole = replace(fed, shape=(rows * parts, *rest))
        made = self._make(whole, fed.element is ElementType.FLOAT)
        own = made[number * rows : (number + 1) * rows]
        if own.dim() == 4 and self._channels_last and own.is_floating_point():
            return own.contiguous(memory_format=torch.channels_last)
        return own.contiguous()

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
