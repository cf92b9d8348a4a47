"""Tensors on their way to a parity file."""

from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from photofinish_tensorflow.failure import at
from photofinish_tensorflow.form import Form
from photofinish_worker.engine import Quantity, Tensor


def output(quantity: Quantity, name: str, value: Any, form: Form) -> Tensor:
    """A tensor or a variable of TensorFlow's, or an array, brought into the graph's order: binary64
    as it is, everything else as binary32; integers are widened."""
    with at(name):
        numbers: NDArray[Any] = np.asarray(tf.convert_to_tensor(value))
        wide = numbers.dtype in (np.float64, np.int64)
        numbers = form.restored(numbers).astype("<f8" if wide else "<f4", copy=False)
        return Tensor(quantity, name, form.shape, "f64" if wide else "f32", numbers.tobytes())


def change(quantity: Quantity, name: str, after: Any, before: NDArray[Any], form: Form) -> Tensor:
    """`after` minus `before`, computed in binary64."""
    with at(name):
        now: NDArray[Any] = np.asarray(tf.convert_to_tensor(after))
        difference = now.astype(np.float64) - before.astype(np.float64)
        return output(quantity, name, difference.astype(now.dtype), form)


def nothing(quantity: Quantity, name: str, form: Form, element: tf.DType) -> Tensor:
    """Zeros."""
    return output(quantity, name, np.zeros(form.dims(), element.as_numpy_dtype), form)
