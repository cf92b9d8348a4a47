"""What a cell asks of TensorRT, checked."""

from dataclasses import dataclass
from pathlib import Path

from photofinish_tensorrt.library import ENGINE
from photofinish_worker import ask
from photofinish_worker.messages import Cell, Load, Mode, Precision
from photofinish_worker.outcome import unsupported

FORMS = ("recurrent", "attention", "calibration", "grid", "weight_bits")
"""Factors that decided what the ONNX file holds; there is nothing left to do about them."""

PRECISIONS = (Precision.FP32, Precision.TF32, Precision.FP16, Precision.INT8_STATIC)


@dataclass(frozen=True, slots=True)
class Configuration:
    """A cell, understood."""

    onnx: Path
    """The network, its weights in the cell's precision."""
    shapes: dict[str, tuple[int, ...]]
    """Of the inputs."""
    tf32: bool
    """Whether products of binary32 may be rounded to TF32."""


def understand(load: Load, variant: str) -> Configuration:
    """Understands a request to load, or says what of it this worker does not run."""
    cell = load.cell
    ask.variant(cell, ENGINE, (variant,))
    ask.check_drive(cell)
    ask.check_factors(cell, FORMS)
    check(cell)
    files = load.files
    if files is None or not files.onnx or files.precision != cell.precision:
        raise unsupported(
            f"{cell.engine} reads an ONNX file in the cell's precision, and none was named"
        )
    shapes = {fed.name: fed.shape for fed in load.graph.inputs}
    return Configuration(Path(files.onnx), shapes, cell.precision is Precision.TF32)


def check(cell: Cell) -> None:
    """Refuses what TensorRT does not do."""
    if cell.mode is not Mode.INFERENCE:
        raise unsupported(f"{cell.engine} does no {cell.mode}")
    if cell.device == "cpu":
        raise unsupported(f"{cell.engine} runs on NVIDIA GPUs; the device is cpu")
    if cell.precision not in PRECISIONS:
        raise unsupported(f"{cell.engine} is not run in {cell.precision} here")
