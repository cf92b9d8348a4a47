"""What a cell asks of TensorFlow, checked and in its words."""

import os
from dataclasses import dataclass
from enum import StrEnum

import tensorflow as tf

from photofinish_tensorflow import mixing
from photofinish_worker import ask
from photofinish_worker.messages import Boundary, Cell, Mode, Optimizer, Precision
from photofinish_worker.outcome import Failure, Kind, unsupported

ENGINE = "tensorflow"


class Variant(StrEnum):
    """How a step runs."""

    FUNCTION = "function"
    EAGER = "eager"
    KERAS = "keras"


VARIANTS = tuple(variant.value for variant in Variant)


class Recurrent(StrEnum):
    """How an LSTM or a GRU runs."""

    UNROLLED = "unrolled"
    """Spelt out in the graph that this worker is sent."""
    LAYER = "layer"
    """`keras.layers.LSTM` and `GRU`: a loop over the positions, where there is no GPU."""
    FUSED = "fused"
    """`BlockLSTM`, one operator over all positions; there is none for Keras's and PyTorch's GRU."""


DROPOUT = "dropout"
"""Decided which graph this worker is sent; there is nothing left to do about it."""
RECURRENT = "recurrent"
JIT_COMPILE = "jit_compile"
_SWITCH = {"off": False, "on": True}
_JIT_COMPILE = {
    Variant.FUNCTION: ("off", "on"),
    # What Keras itself chooses comes first.
    Variant.KERAS: ("on", "off"),
}
"""The values of the factor, of the variants that have it."""
MIXED_PRECISION = "mixed_precision"
"""Known to the variants whose step is a function, as `jit_compile` is."""

_ELEMENTS = {Precision.FP64: tf.float64, Precision.FP32: tf.float32}


@dataclass(frozen=True, slots=True)
class Configuration:
    """A cell, understood."""

    variant: Variant
    element: tf.DType
    """Element type of weights; of activations, too, unless precision is mixed."""
    threads: int
    """Threads of one operator."""
    jit_compile: bool
    """Whether XLA compiles the step."""
    optimizer: Optimizer | None
    """The optimiser, when training."""
    requests: bool = False
    """Whether each step begins and ends in the caller's memory."""
    mixes_precision: bool = False
    """Whether TensorFlow has operators compute in bf16 where it thinks that safe."""
    recurrent: Recurrent = Recurrent.UNROLLED
    """How recurrent layers run."""

    @property
    def trains(self) -> bool:
        """Whether a step is a training iteration."""
        return self.optimizer is not None


def understand(cell: Cell) -> Configuration:
    """Understands `cell`, or says what of it this worker does not run."""
    variant = Variant(ask.variant(cell, ENGINE, VARIANTS))
    ask.check_drive(cell, ask.BY_HOST)
    choices = _JIT_COMPILE.get(variant, ())
    known = (RECURRENT, DROPOUT)
    ask.check_factors(cell, (*known, JIT_COMPILE, MIXED_PRECISION) if choices else known)
    if cell.device != "cpu":
        reason = f"the installed TensorFlow is built for the CPU; the device is {cell.device}"
        raise Failure(Kind.UNAVAILABLE, reason)
    compiled = bool(choices) and _SWITCH[ask.factor(cell, JIT_COMPILE, choices)]
    mixes = bool(choices) and _mixes(cell, compiled)
    if variant is Variant.KERAS and cell.precision is Precision.FP64:
        reason = "Keras casts its optimisers' settings by way of single precision"
        raise unsupported(f"{cell.engine} is not run in {cell.precision}: {reason}")
    return Configuration(
        variant=variant,
        element=tf.float32 if mixes else _element(cell, bool(choices)),
        threads=cell.threads,
        jit_compile=compiled,
        optimizer=cell.optimizer if cell.mode is Mode.TRAINING else None,
        requests=cell.boundary is Boundary.REQUEST,
        mixes_precision=mixes,
        recurrent=Recurrent(ask.factor(cell, RECURRENT, tuple(Recurrent))),
    )


def _element(cell: Cell, can_mix: bool) -> tf.DType:
    if cell.precision is Precision.BF16 and can_mix:
        raise unsupported(
            f"{cell.engine} is run in bf16 by mixed precision alone: give `{MIXED_PRECISION}: on`"
        )
    if cell.precision not in _ELEMENTS:
        raise unsupported(f"{cell.engine} is not run in {cell.precision} here")
    return _ELEMENTS[cell.precision]


def _mixes(cell: Cell, compiled: bool) -> bool:
    """Whether precision is mixed, which is so in bf16 alone, and where it has an effect."""
    if not _SWITCH[ask.factor(cell, MIXED_PRECISION, ("off", "on"))]:
        return False
    if cell.precision is not Precision.BF16:
        raise unsupported(
            f"mixed precision computes in bf16, and {cell.precision} is asked for: give "
            "`precision: bf16`"
        )
    if compiled:
        raise unsupported(
            "precision is mixed by Grappler, which leaves alone what XLA compiles as a whole, and "
            f"TensorFlow would compute in fp32: give `{JIT_COMPILE}: off`"
        )
    mixing.check(os.environ)
    return True
