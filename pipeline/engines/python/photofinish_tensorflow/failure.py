"""What TensorFlow's exceptions mean for a cell."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import tensorflow as tf

from photofinish_worker.outcome import Failure, Kind, kind_of

_MEMORY = (
    "out of memory",
    "oom when allocating",
    "bad_alloc",
    "unable to allocate",
    # NumPy's, of what no memory could hold.
    "array is too big",
    "maximum allowed dimension exceeded",
)
_UNSUPPORTED = (
    "no gradient defined",
    "no opkernel was registered",
    "no registered",
    "detected unsupported operations",
    "not supported",
    "do not yet support",
    "unsupported",
    "unimplemented",
)

_STYLE = re.compile("\x1b\\[[0-9;]*m")

RAISED = (
    tf.errors.OpError,
    ArithmeticError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""What TensorFlow and Keras raise."""


def classify(place: str, error: BaseException) -> Failure:
    """The outcome of a cell in which this was raised at `place`, for example `Conv conv1`."""
    text = error.message if isinstance(error, tf.errors.OpError) else str(error)
    if isinstance(error, tf.errors.ResourceExhaustedError):
        kind = Kind.OUT_OF_MEMORY
    else:
        kind = kind_of(text, _MEMORY, _UNSUPPORTED)
    if kind is Kind.CRASHED and isinstance(error, tf.errors.UnimplementedError):
        kind = Kind.UNSUPPORTED
    return Failure(kind, f"{place}: {_words(text) or type(error).__name__}")


def _words(text: str) -> str:
    """TensorFlow's own words in one line, without its advice and its stacks."""
    for end in ("\nHint:", "\n\nStack trace", "\nDetected at node"):
        head, found, tail = text.partition(end)
        # Where the stack stands first, what happened stands behind it.
        text = head if head.strip() or not found else tail
    # Keras prints in bold.
    return " ".join(_STYLE.sub("", text).split())


@contextmanager
def at(place: str) -> Iterator[None]:
    """Turns what TensorFlow raises inside into the outcome of the cell."""
    try:
        yield
    except Failure:
        raise
    except RAISED as error:
        raise classify(place, error) from error
