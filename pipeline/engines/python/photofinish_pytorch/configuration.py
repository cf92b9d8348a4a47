"""What a cell asks of PyTorch, checked and in its words."""

from dataclasses import dataclass

import torch

from photofinish_worker.messages import (
    Boundary,
    Cell,
    HostLanguage,
    Mode,
    Optimizer,
    Precision,
)
from photofinish_worker.outcome import unsupported

ENGINE = "pytorch"
EAGER = "python-eager"
COMPILED = "compiled"
VARIANTS = (EAGER, COMPILED)

LAYOUT = "layout"
COMPILE_MODE = "compile_mode"
LAYOUTS = ("nchw", "channels_last")
FORMS = ("recurrent", "attention")
"""Factors that decided which graph this worker is sent; there is nothing left to do about them."""
COMPILE_MODES = ("default", "reduce-overhead", "max-autotune")

_ELEMENTS = {
    Precision.FP64: torch.float64,
    Precision.FP32: torch.float32,
    Precision.TF32: torch.float32,
    Precision.BF16: torch.bfloat16,
    Precision.FP16: torch.float16,
}


@dataclass(frozen=True, slots=True)
class Configuration:
    """A cell, understood."""

    element: torch.dtype
    """Element type of weights and activations."""
    tf32: bool
    """Whether products of binary32 may be rounded to TF32."""
    channels_last: bool
    """Whether images lie in memory with channels last."""
    threads: int
    """Threads of one operator."""
    mode: Mode
    optimizer: Optimizer | None
    compile_mode: str | None
    """What `torch.compile` optimises for; `None` without it."""


def understand(cell: Cell) -> Configuration:
    """Understands `cell`, or says what of it this worker does not run."""
    engine, _, variant = cell.engine.partition("/")
    if engine != ENGINE or variant not in VARIANTS:
        known = " and ".join(f"{ENGINE}/{name}" for name in VARIANTS)
        raise unsupported(f"this worker runs {known}, not {cell.engine}")
    if cell.host_language is not HostLanguage.PYTHON:
        raise unsupported("this worker is driven from Python")
    if cell.world_size != 1:
        raise unsupported(f"world_size is {cell.world_size}, not 1")
    if cell.boundary is not Boundary.STEP:
        raise unsupported(f"boundary `{cell.boundary}` is not implemented; `step` is")
    if not 0 < cell.threads < 2**31:
        raise unsupported(f"threads cannot be {cell.threads}")
    if cell.precision is Precision.TF32 and cell.device == "cpu":
        raise unsupported("tf32 is an arithmetic of NVIDIA GPUs; the device is cpu")
    if cell.mode is Mode.TRAINING and cell.optimizer is None:
        raise unsupported("training needs an optimizer")
    known_factors = (LAYOUT, *FORMS, *((COMPILE_MODE,) if variant == COMPILED else ()))
    for name in cell.factors:
        if name not in known_factors:
            known = "`, `".join(known_factors)
            raise unsupported(f"factor `{name}` is not known to {cell.engine}; known: `{known}`")
    return Configuration(
        element=_ELEMENTS[cell.precision],
        tf32=cell.precision is Precision.TF32,
        channels_last=_factor(cell, LAYOUT, LAYOUTS) == "channels_last",
        threads=cell.threads,
        mode=cell.mode,
        optimizer=cell.optimizer if cell.mode is Mode.TRAINING else None,
        compile_mode=_factor(cell, COMPILE_MODE, COMPILE_MODES) if variant == COMPILED else None,
    )


def _factor(cell: Cell, name: str, values: tuple[str, ...]) -> str:
    value = cell.factors.get(name, values[0])
    if value not in values:
        raise unsupported(f"{name} is `{value}`; known: `{'`, `'.join(values)}`")
    return value
