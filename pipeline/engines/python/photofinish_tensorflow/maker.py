"""Weights and inputs as arrays, in the order in which TensorFlow holds them."""

import time
from typing import Any

import tensorflow as tf
from numpy.typing import NDArray

from photofinish_numpy import numbers
from photofinish_tensorflow.failure import at
from photofinish_tensorflow.form import Form
from photofinish_worker.graph import ElementType, Input, Parameter
from photofinish_worker.outcome import Failure, Kind
from photofinish_worker.streams import makes_integers


class Maker:
    """Makes arrays, and keeps the time that making their numbers takes."""

    def __init__(self, element: tf.DType, weights: str | None = None) -> None:
        self.filling_ns = 0
        self.element = element
        """Element type of floating-point values."""
        self._weights = weights
        """The file of the user's own weights."""

    def parameter(self, parameter: Parameter, form: Form) -> NDArray[Any]:
        """The initial value of a parameter, as it lies."""
        return self._make(parameter, form, not makes_integers(parameter.fill))

    def input(self, fed: Input, form: Form) -> NDArray[Any]:
        """The standard input of this name, as it lies."""
        return self._make(fed, form, fed.element is ElementType.FLOAT)

    def _make(self, wanted: Parameter | Input, form: Form, floats: bool) -> NDArray[Any]:
        with at(wanted.name):
            if any(size >= 2**63 for size in wanted.shape):
                raise Failure(Kind.OUT_OF_MEMORY, f"{wanted.name}: does not fit in memory")
            start = time.perf_counter_ns()
            made = numbers.of(wanted, floats, self._weights)
            self.filling_ns += time.perf_counter_ns() - start
            laid_out = form.laid_out(made)
            if floats:
                laid_out = laid_out.astype(self.element.as_numpy_dtype, copy=False)
            return laid_out
