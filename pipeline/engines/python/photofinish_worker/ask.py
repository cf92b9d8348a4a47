"""What every worker that is driven from Python asks of a cell, as `worker::check_drive` does of
those driven from Rust."""

from collections.abc import Sequence

from photofinish_worker.messages import (
    Boundary,
    Cell,
    HostLanguage,
    Mode,
    Precision,
    Strategy,
)
from photofinish_worker.outcome import unsupported


def variant(cell: Cell, engine: str, variants: Sequence[str]) -> str:
    """The cell's variant of `engine`, one of `variants`."""
    name, _, found = cell.engine.partition("/")
    if name != engine or found not in variants:
        known = " and ".join(f"{engine}/{known}" for known in variants)
        raise unsupported(f"this worker runs {known}, not {cell.engine}")
    return found


REQUEST = (
    "copied from the caller's memory and back to it in every step, in the engine's own element "
    "types and layout"
)
"""How inputs reach the engine and outputs leave it at the boundary `request`, the same for all
engines: the setting on the page of a cell."""


EVENTS = (
    "two events on the device's stream, before and after the work of each step; they resolve half "
    "a microsecond or so"
)
"""What tells the time of steps at the boundary `device`: the setting on the page of a cell."""

STEP = (Boundary.STEP,)
"""The boundaries of workers that know no other."""
BY_HOST = (Boundary.STEP, Boundary.REQUEST)
"""Those of workers that know no events of a device."""


ALONE = (Strategy.SINGLE,)
"""The strategies of workers that train in one process, the batch as it is."""


def check_drive(
    cell: Cell, boundaries: Sequence[Boundary] = STEP, strategies: Sequence[Strategy] = ALONE
) -> None:
    """Refuses what no worker of this kind runs, or no step can be made of, what is not timed at one
    of the worker's boundaries, which the device has, too, and what is not spread by one of its
    strategies."""
    if cell.host_language is not HostLanguage.PYTHON:
        raise unsupported("this worker is driven from Python")
    _check_strategy(cell, strategies)
    if cell.boundary not in boundaries:
        known = "`, `".join(boundaries)
        raise unsupported(f"boundary `{cell.boundary}` is not implemented; known: `{known}`")
    if cell.boundary is Boundary.DEVICE and cell.device == "cpu":
        raise unsupported("boundary `device` is between events of a GPU; the device is cpu")
    if not 0 < cell.threads < 2**31:
        raise unsupported(f"threads cannot be {cell.threads}")
    if cell.precision is Precision.TF32 and cell.device == "cpu":
        raise unsupported("tf32 is an arithmetic of NVIDIA GPUs; the device is cpu")
    if cell.mode is Mode.TRAINING and cell.optimizer is None:
        raise unsupported("training needs an optimizer")


def _check_strategy(cell: Cell, strategies: Sequence[Strategy]) -> None:
    strategy, parts = cell.strategy, cell.world_size
    if strategy not in strategies:
        known = "`, `".join(strategies)
        raise unsupported(f"strategy `{strategy}` is not implemented; known: `{known}`")
    if parts < 1 or (strategy is Strategy.SINGLE and parts != 1):
        raise unsupported(f"world_size is {parts} with the strategy `{strategy}`")
    if strategy is not Strategy.SINGLE and cell.mode is not Mode.TRAINING:
        raise unsupported(f"strategy `{strategy}` is one of training")


def check_factors(cell: Cell, known: Sequence[str]) -> None:
    """Refuses factors of other names."""
    for name in cell.factors:
        if name not in known:
            names = "`, `".join(known)
            raise unsupported(f"factor `{name}` is not known to {cell.engine}; known: `{names}`")


def factor(cell: Cell, name: str, values: Sequence[str]) -> str:
    """The value of a factor, one of `values`; the first where the cell says nothing."""
    value = cell.factors.get(name, values[0])
    if value not in values:
        raise unsupported(f"{name} is `{value}`; known: `{'`, `'.join(values)}`")
    return value
