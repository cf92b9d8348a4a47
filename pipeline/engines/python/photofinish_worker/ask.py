"""What every worker that is driven from Python asks of a cell, as `worker::check_drive` does of
those driven from Rust."""

from collections.abc import Sequence

from photofinish_worker.messages import Boundary, Cell, HostLanguage, Mode, Precision
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


def check_drive(cell: Cell, requests: bool = False) -> bool:
    """Refuses what no worker of this kind runs, or no step can be made of.

    Gives whether every step begins with its inputs in the caller's memory and ends with its results
    there, which a worker does that says `requests`.
    """
    if cell.host_language is not HostLanguage.PYTHON:
        raise unsupported("this worker is driven from Python")
    if cell.world_size != 1:
        raise unsupported(f"world_size is {cell.world_size}, not 1")
    if cell.boundary is Boundary.DEVICE or (cell.boundary is Boundary.REQUEST and not requests):
        known = "`step` and `request` are" if requests else "`step` is"
        raise unsupported(f"boundary `{cell.boundary}` is not implemented; {known}")
    if not 0 < cell.threads < 2**31:
        raise unsupported(f"threads cannot be {cell.threads}")
    if cell.precision is Precision.TF32 and cell.device == "cpu":
        raise unsupported("tf32 is an arithmetic of NVIDIA GPUs; the device is cpu")
    if cell.mode is Mode.TRAINING and cell.optimizer is None:
        raise unsupported("training needs an optimizer")
    return cell.boundary is Boundary.REQUEST


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
