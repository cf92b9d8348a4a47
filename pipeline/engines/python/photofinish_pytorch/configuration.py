"""What a cell asks of PyTorch, checked and in its words."""

from dataclasses import dataclass

import torch

from photofinish_worker import ask
from photofinish_worker.messages import Cell, Mode, Optimizer, Precision

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
    variant = ask.variant(cell, ENGINE, VARIANTS)
    ask.check_drive(cell)
    compiled = (COMPILE_MODE,) if variant == COMPILED else ()
    ask.check_factors(cell, (LAYOUT, *FORMS, *compiled))
    return Configuration(
        element=_ELEMENTS[cell.precision],
        tf32=cell.precision is Precision.TF32,
        channels_last=ask.factor(cell, LAYOUT, LAYOUTS) == "channels_last",
        threads=cell.threads,
        mode=cell.mode,
        optimizer=cell.optimizer if cell.mode is Mode.TRAINING else None,
        compile_mode=ask.factor(cell, COMPILE_MODE, COMPILE_MODES) if variant == COMPILED else None,
    )
