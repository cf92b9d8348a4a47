"""What inference and training need of a network, whoever wrote it."""

from contextlib import AbstractContextManager
from typing import Protocol

import torch


class Network(Protocol):
    """A network on the device, which is called apart from this."""

    @property
    def held(self) -> dict[str, torch.Tensor]:
        """Its tensors, by the parameter's name in the graph. Constants may be missing."""
        ...

    def explained(self) -> AbstractContextManager[None]:
        """Turns what PyTorch throws inside into the outcome of the cell."""
        ...
