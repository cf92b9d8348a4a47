"""The file with a session's outputs."""

import math
from pathlib import Path

from photofinish_worker.engine import ParityData, Tensor
from photofinish_worker.outcome import Failure, Kind

WIDTHS = {"f32": 4, "f64": 8}


def write(path: Path, data: ParityData) -> dict[str, object]:
    """Writes the tensors one after another into a file that must not exist yet."""
    for tensor in data.tensors:
        _check(tensor)
    for iteration, loss in enumerate(data.losses, start=1):
        if not math.isfinite(loss):
            # JSON has no word for it, and it could never agree with a reference.
            raise Failure(Kind.PARITY_FAILED, f"the loss of iteration {iteration} is not finite")
    try:
        with path.open("xb") as file:
            for tensor in data.tensors:
                file.write(tensor.data)
    except OSError as error:
        raise Failure(Kind.CRASHED, f"cannot write its outputs: {error}") from error
    return {"tensors": [_info(tensor) for tensor in data.tensors], "losses": list(data.losses)}


def _check(tensor: Tensor) -> None:
    found = len(tensor.data) / WIDTHS[tensor.element]
    if found != math.prod(tensor.shape):
        raise Failure(
            Kind.CRASHED,
            f"the engine gave {found:g} numbers for tensor `{tensor.name}` of shape "
            f"{list(tensor.shape)}",
        )


def _info(tensor: Tensor) -> dict[str, object]:
    return {
        "quantity": tensor.quantity,
        "name": tensor.name,
        "shape": list(tensor.shape),
        "element": tensor.element,
    }
