"""What a cell asks of TensorFlow, checked and in its words."""

from dataclasses import dataclass
from enum import StrEnum

import tensorflow as tf

from photofinish_worker import ask
from photofinish_worker.messages import Cell, Mode, Optimizer, Precision
from photofinish_worker.outcome import Failure, Kind, unsupported

ENGINE = "tensorflow"


class Variant(StrEnum):
    """How a step runs."""

    FUNCTION = "function"
    EAGER = "eager"
    KERAS = "keras"


VARIANTS = tuple(variant.value for variant in Variant)

FORMS = ("recurrent", "dropout")
"""Decided which graph this worker is sent; there is nothing left to do about them."""
JIT_COMPILE = "jit_compile"
_SWITCH = {"off": False, "on": True}
_JIT_COMPILE = {
    Variant.FUNCTION: ("off", "on"),
    # What Keras itself chooses comes first.
    Variant.KERAS: ("on", "off"),
}
"""The values of the factor, of the variants that have it."""

_ELEMENTS = {Precision.FP64: tf.float64, Precision.FP32: tf.float32}


@dataclass(frozen=True, slots=True)
class Configuration:
    """A cell, understood."""

    variant: Variant
    element: tf.DType
    """Element type of weights and activations."""
    threads: int
    """Threads of one operator."""
    jit_compile: bool
    """Whether XLA compiles the step."""
    optimizer: Optimizer | None
    """The optimiser, when training."""
    requests: bool = False
    """Whether each step begins and ends in the caller's memory."""

    @property
    def trains(self) -> bool:
        """Whether a step is a training iteration."""
        return self.optimizer is not None


def understand(cell: Cell) -> Configuration:
    """Understands `cell`, or says what of it this worker does not run."""
    variant = Variant(ask.variant(cell, ENGINE, VARIANTS))
    requests = ask.check_drive(cell, requests=True)
    choices = _JIT_COMPILE.get(variant, ())
    ask.check_factors(cell, (*FORMS, JIT_COMPILE) if choices else FORMS)
    if cell.device != "cpu":
        reason = f"the installed TensorFlow is built for the CPU; the device is {cell.device}"
        raise Failure(Kind.UNAVAILABLE, reason)
    if cell.precision not in _ELEMENTS:
        raise unsupported(f"{ENGINE} is not run in {cell.precision} here")
    if variant is Variant.KERAS and cell.precision is not Precision.FP32:
        reason = "Keras casts its optimisers' settings by way of single precision"
        raise unsupported(f"{cell.engine} is not run in {cell.precision}: {reason}")
    return Configuration(
        variant=variant,
        element=_ELEMENTS[cell.precision],
        threads=cell.threads,
        jit_compile=bool(choices) and _SWITCH[ask.factor(cell, JIT_COMPILE, choices)],
        optimizer=cell.optimizer if cell.mode is Mode.TRAINING else None,
        requests=requests,
    )
