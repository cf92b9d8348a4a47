"""Numbers of the user's own weights as tensors."""

import torch

from photofinish_worker import stored
from photofinish_worker.graph import ElementType, Stored

_ELEMENTS = {ElementType.FLOAT: torch.float32, ElementType.INT64: torch.int64}


def read(path: str, name: str, fill: Stored, shape: tuple[int, ...]) -> torch.Tensor:
    """The numbers of the parameter called `name`: binary32, or 64-bit integers, in `shape`."""
    element = _ELEMENTS[fill.element]
    data = stored.read(path, name, fill, shape)
    # An empty buffer is none to `frombuffer`.
    numbers = torch.frombuffer(data, dtype=element) if data else torch.empty(0, dtype=element)
    return numbers.reshape(shape)
