"""Who keeps the memory that a step gives back, as `worker::Allocator` has it."""

import ctypes

from photofinish_worker import ask
from photofinish_worker.messages import Cell
from photofinish_worker.outcome import unsupported

ALLOCATOR = "allocator"
SYSTEM = "system"
KEEP = "keep"

_PARAMETERS = {"M_MMAP_MAX": (-4, 0), "M_TRIM_THRESHOLD": (-1, -1)}
"""Numbers of glibc's malloc.h, and what has it serve large blocks from its heap and never shrink
that (mallopt(3))."""


def check(cell: Cell) -> None:
    """Refuses what the libraries of this cell, which have no arena of their own on a CPU, cannot be
    told."""
    if ALLOCATOR not in cell.factors:
        return
    if cell.device != "cpu":
        raise unsupported(f"`{ALLOCATOR}` is about the host's memory; the device is {cell.device}")
    ask.factor(cell, ALLOCATOR, (SYSTEM, KEEP))


def carry_out(cell: Cell) -> None:
    """Tells the C library what the cell asks of it. A value that nobody knows is the engine's to
    refuse."""
    if cell.factors.get(ALLOCATOR) != KEEP:
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    for name, (parameter, value) in _PARAMETERS.items():
        if mallopt is None or mallopt(parameter, value) != 1:
            raise unsupported(
                f"the C library does not let {name} be set to {value}, which `{ALLOCATOR}: {KEEP}` "
                "needs"
            )
