"""Numbers of the user's own weights, out of the file that the supervisor names."""

import math
import os
from pathlib import Path

from photofinish_worker.graph import ElementType, Stored
from photofinish_worker.outcome import Failure, Kind

WIDTHS = {ElementType.FLOAT: 4, ElementType.INT64: 8}
"""Bytes of a number: binary32, or a 64-bit integer."""


def read(path: str, name: str, fill: Stored, shape: tuple[int, ...]) -> bytearray:
    """The numbers of the parameter called `name`, little-endian, in the order of `shape`.

    That the file holds them is known before memory is asked for.
    """
    wanted = math.prod(shape) * WIDTHS[fill.element]
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
    return data


def nowhere(name: str) -> Failure:
    """The outcome of a cell whose weights are in a file that the supervisor did not name."""
    return Failure(Kind.CRASHED, f"{name}: its numbers are in a file that nobody named")


def _lost(name: str, reason: str) -> Failure:
    return Failure(Kind.CRASHED, f"the numbers of {name} cannot be had: {reason}")
