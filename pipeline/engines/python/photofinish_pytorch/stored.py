"""Numbers of the user's own weights, out of the file that the supervisor names."""

import math
import os
from pathlib import Path

import torch

from photofinish_worker.graph import ElementType, Stored
from photofinish_worker.outcome import Failure, Kind

_ELEMENTS = {ElementType.FLOAT: torch.float32, ElementType.INT64: torch.int64}


def read(path: str, name: str, fill: Stored, shape: tuple[int, ...]) -> torch.Tensor:
    """The numbers of the parameter called `name`: binary32, or 64-bit integers, in `shape`.

    That the file holds them is known before memory is asked for.
    """
    element = _ELEMENTS[fill.element]
    wanted = math.prod(shape) * element.itemsize
    try:
        with Path(path).open("rb") as file:
            held = os.fstat(file.fileno()).st_size
            if fill.offset + wanted > held:
                raise _lost(name, f"the file of weights ends at byte {held}")
            file.seek(fill.offset)
            data = bytearray(file.read(wanted))
    except OSError as error:
        raise _lost(name, str(error)) from error
    if len(data) < wanted:
        raise _lost(name, "the file of weights became shorter")
    # An empty buffer is none to `frombuffer`.
    numbers = torch.frombuffer(data, dtype=element) if data else torch.empty(0, dtype=element)
    return numbers.reshape(shape)


def _lost(name: str, reason: str) -> Failure:
    return Failure(Kind.CRASHED, f"the numbers of {name} cannot be had: {reason}")
