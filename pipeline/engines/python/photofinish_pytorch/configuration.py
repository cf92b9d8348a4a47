"""What a cell asks of PyTorch, checked and in its words."""

from dataclasses import dataclass, replace

import torch

from photofinish_pytorch import buckets
from photofinish_worker import allocator, ask
from photofinish_worker.allocator import ALLOCATOR
from photofinish_worker.messages import (
    Boundary,
    Cell,
    HostLanguage,
    Mode,
    Optimizer,
    Precision,
    Strategy,
)
from photofinish_worker.outcome import unsupported

ENGINE = "pytorch"
EAGER = "python-eager"
COMPILED = "compiled"
VARIANTS = (EAGER, COMPILED)
PACKAGED = "aot"
"""Compiled here and run by the worker that is written in Rust."""

BOUNDARIES = tuple(Boundary)
"""A `Place` has events where it is a GPU, and memory apart from the caller's everywhere."""

STRATEGIES = (Strategy.SINGLE, Strategy.DATA_PARALLEL, Strategy.DDP)

SCALING = "scaling"
BUCKET = "bucket_mib"
BUCKET_VIEWS = "gradient_as_bucket_view"
COMPRESSION = "gradient_compression"
STATIC_GRAPH = "static_graph"
OF_DDP = (BUCKET, BUCKET_VIEWS, COMPRESSION, STATIC_GRAPH)
"""Factors of how ranks exchange gradients."""
POWER_SGD = "powersgd"
COMPRESSIONS = ("none", "fp16", "bf16", POWER_SGD)
SEARCHED = "auto"
"""The size of a bucket that is searched for before the first step."""

ACCUMULATION = "gradient_accumulation"
MIXED = "mixed_precision"
LAYOUT = "layout"
AUTOTUNE = "autotune"
FOREACH = "foreach"
SPIN = "spin"
COMPILE_MODE = "compile_mode"
LAYOUTS = ("nchw", "channels_last")
SPINS = ("default", "off")
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
    foreach: bool | None
    """Whether the optimiser moves all tensors at once; `None` where it does as PyTorch would."""
    boundary: Boundary
    """Where the clock of a step starts and stops."""
    autocast: torch.dtype | None
    """What operators compute in under autocast, with weights in binary32; `None` without."""


@dataclass(frozen=True, slots=True)
class Spread:
    """How training is spread over workers."""

    strategy: Strategy
    workers: int
    """Over how many."""
    passes: int
    """In how many equal parts, one after another, each of them runs its share of the batch."""
    bucket_mib: int | None
    """How much a bucket of gradients holds; `None` is PyTorch's default."""
    searches_bucket: bool
    """Whether that is searched for before the first step."""
    compression: str
    bucket_views: bool
    static_graph: bool


@dataclass(frozen=True, slots=True)
class Configuration(Common):
    """A cell, understood."""

    channels_last: bool
    """Whether images lie in memory with channels last."""
    compile_mode: str | None
    """What `torch.compile` optimises for; `None` without it."""
    spread: Spread
    sleeps: bool | None
    """Whether idle threads sleep at once, or as libgomp has it by default; `None` where the cell
    leaves that to the environment."""


def understand(cell: Cell) -> Configuration:
    """Understands `cell`, or says what of it this worker does not run."""
    compiles = cell.engine == f"{ENGINE}/{COMPILED}"
    more: tuple[str, ...] = (COMPILE_MODE,) if compiles else (SPIN,)
    strategies = ask.ALONE if compiles else STRATEGIES
    of_ddp = OF_DDP if cell.strategy is Strategy.DDP else ()
    scaling = () if cell.strategy is Strategy.SINGLE else (SCALING,)
    in_parts = cell.mode is Mode.TRAINING and cell.strategy is not Strategy.DATA_PARALLEL
    more += (ACCUMULATION,) if in_parts and not compiles else ()
    more += () if compiles else (MIXED,)
    known_factors = (ALLOCATOR, LAYOUT, AUTOTUNE, FOREACH, *FORMS, *more, *of_ddp, *scaling)
    common = understand_common(cell, ENGINE, VARIANTS, known_factors, BOUNDARIES, strategies)
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
    common = understand_common(here, ENGINE, (PACKAGED,), known_factors, BOUNDARIES)
    return _configuration(cell, common, None)


def _configuration(cell: Cell, common: Common, compile_mode: str | None) -> Configuration:
    return Configuration(
        common.element,
        common.tf32,
        common.autotune,
        common.threads,
        common.mode,
        common.optimizer,
        common.foreach,
        common.boundary,
        common.autocast,
        channels_last=ask.factor(cell, LAYOUT, LAYOUTS) == "channels_last",
        compile_mode=compile_mode,
        spread=_spread(cell),
        sleeps=_sleeps(cell),
    )


def _spread(cell: Cell) -> Spread:
    if cell.strategy is Strategy.DATA_PARALLEL and cell.device == "cpu":
        raise unsupported("torch.nn.DataParallel runs the bare module on a CPU")
    usual = str(buckets.USUAL_MIB)
    bucket = cell.factors.get(BUCKET, usual)
    searches = bucket == SEARCHED
    if searches:
        bucket = usual
    if not bucket.isdecimal() or not 1 <= int(bucket) <= 4096:
        known = f"`{SEARCHED}`, and whole numbers from 1 to 4096"
        raise unsupported(f"{BUCKET} is `{bucket}`; known: {known}")
    passes, is_static = accumulation(cell), ask.factor(cell, STATIC_GRAPH, ("off", "on")) == "on"
    if is_static and passes > 1:
        raise unsupported(
            f"`{STATIC_GRAPH}: on` is a promise that gradients of each pass are exchanged"
        )
    return Spread(
        cell.strategy,
        cell.world_size,
        passes,
        buckets.asked(int(bucket)),
        searches,
        ask.factor(cell, COMPRESSION, COMPRESSIONS),
        bucket_views=ask.factor(cell, BUCKET_VIEWS, ("off", "on")) == "on",
        static_graph=is_static,
    )


def accumulation(cell: Cell) -> int:
    """Into how many equal parts a process splits its share of the batch; the graph is of one."""
    asked = cell.factors.get(ACCUMULATION, "1")
    if not asked.isdecimal() or int(asked) == 0:
        raise unsupported(f"{ACCUMULATION} is `{asked}`; known: whole numbers from 1 on")
    return int(asked)


def understand_common(
    cell: Cell,
    engine: str,
    variants: tuple[str, ...],
    known_factors: tuple[str, ...],
    boundaries: tuple[Boundary, ...] = ask.STEP,
    strategies: tuple[Strategy, ...] = ask.ALONE,
) -> Common:
    """What `cell` asks of PyTorch itself, if it is for one of these variants, has no other factors
    than these, and is timed at one of these boundaries."""
    ask.variant(cell, engine, variants)
    ask.check_drive(cell, boundaries, strategies)
    ask.check_factors(cell, known_factors)
    allocator.check(cell)
    if cell.precision not in _ELEMENTS:
        raise unsupported(f"{engine} is not run in {cell.precision} here")
    mixes = ask.factor(cell, MIXED, ("off", "on")) == "on"
    if mixes and cell.precision is not Precision.BF16:
        raise unsupported(
            f"`{MIXED}: on` keeps weights in fp32 and computes in bf16: ask for precision bf16"
        )
    element = _ELEMENTS[cell.precision]
    return Common(
        element=torch.float32 if mixes else element,
        tf32=cell.precision is Precision.TF32,
        autotune=_autotune(cell),
        threads=cell.threads,
        mode=cell.mode,
        optimizer=cell.optimizer if cell.mode is Mode.TRAINING else None,
        foreach=_foreach(cell),
        boundary=cell.boundary,
        autocast=element if mixes else None,
    )


def _foreach(cell: Cell) -> bool | None:
    if cell.device != "cpu" and cell.mode is Mode.TRAINING:
        return ask.factor(cell, FOREACH, ("on", "off")) == "on"
    if FOREACH in cell.factors:
        raise unsupported(f"`{FOREACH}` is about how a GPU is given the work of an optimiser")
    return None


def _sleeps(cell: Cell) -> bool | None:
    if SPIN not in cell.factors:
        return None
    if cell.device != "cpu":
        raise unsupported(
            f"`{SPIN}` is about threads that compute on a CPU; the device is {cell.device}"
        )
    return ask.factor(cell, SPIN, SPINS) == "off"


def _autotune(cell: Cell) -> bool | None:
    if cell.device != "cpu":
        return ask.factor(cell, AUTOTUNE, ("off", "on")) == "on"
    if AUTOTUNE in cell.factors:
        raise unsupported(f"`{AUTOTUNE}` is about cuDNN's convolutions; the device is cpu")
    return None
