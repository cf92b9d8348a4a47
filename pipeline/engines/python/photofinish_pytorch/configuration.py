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
class Common:
    """What a cell asks of PyTorch, whoever calls it."""

    element: torch.dtype
    """Element type of weights and activations."""
    tf32: bool
    """Whether products of binary32 may be rounded to TF32."""
    threads: int
    """Threads of one operator."""
    mode: Mode
    optimizer: Optimizer | None
    """`None` in inference."""


@dataclass(frozen=True, slots=True)
class Configuration(Common):
    """A cell, understood."""

    channels_last: bool
    """Whether images lie in memory with channels last."""
    compile_mode: str | None
    """What `torch.compile` optimises for; `None` without it."""


def understand(cell: Cell) -> Configuration:
    """Understands `cell`, or says what of it this worker does not run."""
    compiles = cell.engine == f"{ENGINE}/{COMPILED}"
    known_factors = (LAYOUT, *FORMS, *((COMPILE_MODE,) if compiles else ()))
    common = understand_common(cell, ENGINE, VARIANTS, known_factors)
    return Configuration(
        common.element,
        common.tf32,
        common.threads,
        common.mode,
        common.optimizer,
        channels_last=factor(cell, LAYOUT, LAYOUTS) == "channels_last",
        compile_mode=factor(cell, COMPILE_MODE, COMPILE_MODES) if compiles else None,
    )


def understand_common(
    cell: Cell, engine: str, variants: tuple[str, ...], known_factors: tuple[str, ...]
) -> Common:
    """What `cell` asks of PyTorch itself, if it is for one of these variants and has no other
    factors than these."""
    named, _, variant = cell.engine.partition("/")
    if named != engine or variant not in variants:
        known = " and ".join(f"{engine}/{name}" for name in variants)
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
    for name in cell.factors:
        if name not in known_factors:
            known = "`, `".join(known_factors)
            raise unsupported(f"factor `{name}` is not known to {cell.engine}; known: `{known}`")
    return Common(
        element=_ELEMENTS[cell.precision],
        tf32=cell.precision is Precision.TF32,
        threads=cell.threads,
        mode=cell.mode,
        optimizer=cell.optimizer if cell.mode is Mode.TRAINING else None,
    )


def factor(cell: Cell, name: str, values: tuple[str, ...]) -> str:
    """The value of a factor; where the cell has none, the first of `values`."""
    value = cell.factors.get(name, values[0])
    if value not in values:
        raise unsupported(f"{name} is `{value}`; known: `{'`, `'.join(values)}`")
    return value
