"""What a cell asks of PyTorch, checked and in its words."""

from dataclasses import dataclass, replace

import torch

from photofinish_worker import allocator, ask
from photofinish_worker.allocator import ALLOCATOR
from photofinish_worker.messages import Cell, HostLanguage, Mode, Optimizer, Precision
from photofinish_worker.outcome import unsupported

ENGINE = "pytorch"
EAGER = "python-eager"
COMPILED = "compiled"
VARIANTS = (EAGER, COMPILED)
PACKAGED = "aot"
"""Compiled here and run by the worker that is written in Rust."""

LAYOUT = "layout"
AUTOTUNE = "autotune"
COMPILE_MODE = "compile_mode"
LAYOUTS = ("nchw", "channels_last")
FORMS = ("recurrent", "attention", "dropout")
"""Factors that decided which graph this worker is sent; there is nothing left to do about them."""
CUDA_GRAPHS = "reduce-overhead"
COMPILE_MODES = ("default", CUDA_GRAPHS, "max-autotune")

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
    autotune: bool | None
    """Whether cuDNN tries every algorithm of a convolution and keeps the fastest; `None` on a CPU,
    which has no cuDNN."""
    threads: int
    """Threads of one operator."""
    mode: Mode
    optimizer: Optimizer | None
    """`None` in inference."""
    requests: bool
    """Whether each step begins and ends in the caller's memory."""


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
    known_factors = (ALLOCATOR, LAYOUT, AUTOTUNE, *FORMS, *((COMPILE_MODE,) if compiles else ()))
    common = understand_common(cell, ENGINE, VARIANTS, known_factors, requests=True)
    if not compiles:
        return _configuration(cell, common, None)
    compile_mode = ask.factor(cell, COMPILE_MODE, COMPILE_MODES)
    if compile_mode == CUDA_GRAPHS and cell.device == "cpu":
        raise unsupported(
            f"{COMPILE_MODE} `{CUDA_GRAPHS}` replays CUDA graphs, of which a CPU has none"
        )
    return _configuration(cell, common, compile_mode)


def understand_packaged(cell: Cell) -> Configuration:
    """Understands a cell whose network is to be compiled ahead of time: from Python, whatever
    language drives what comes of it."""
    here = replace(cell, host_language=HostLanguage.PYTHON)
    known_factors = (ALLOCATOR, LAYOUT, *FORMS)
    common = understand_common(here, ENGINE, (PACKAGED,), known_factors, requests=True)
    return _configuration(cell, common, None)


def _configuration(cell: Cell, common: Common, compile_mode: str | None) -> Configuration:
    return Configuration(
        common.element,
        common.tf32,
        common.autotune,
        common.threads,
        common.mode,
        common.optimizer,
        common.requests,
        channels_last=ask.factor(cell, LAYOUT, LAYOUTS) == "channels_last",
        compile_mode=compile_mode,
    )


def understand_common(
    cell: Cell,
    engine: str,
    variants: tuple[str, ...],
    known_factors: tuple[str, ...],
    requests: bool = False,
) -> Common:
    """What `cell` asks of PyTorch itself, if it is for one of these variants, has no other factors
    than these, and is timed at the boundary `request` only where the caller knows how."""
    ask.variant(cell, engine, variants)
    asks_requests = ask.check_drive(cell, requests)
    ask.check_factors(cell, known_factors)
    allocator.check(cell)
    if cell.precision not in _ELEMENTS:
        raise unsupported(f"{engine} is not run in {cell.precision} here")
    return Common(
        element=_ELEMENTS[cell.precision],
        tf32=cell.precision is Precision.TF32,
        autotune=_autotune(cell),
        threads=cell.threads,
        mode=cell.mode,
        optimizer=cell.optimizer if cell.mode is Mode.TRAINING else None,
        requests=asks_requests,
    )


def _autotune(cell: Cell) -> bool | None:
    if cell.device != "cpu":
        return ask.factor(cell, AUTOTUNE, ("off", "on")) == "on"
    if AUTOTUNE in cell.factors:
        raise unsupported(f"`{AUTOTUNE}` is about cuDNN's convolutions; the device is cpu")
    return None
