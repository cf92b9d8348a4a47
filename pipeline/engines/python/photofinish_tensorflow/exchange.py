"""The timing boundary `request`: numbers come from the caller's memory and go back to it."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray


class Exchange:
    """The caller's memory: arrays of the host's, each as it lies in TensorFlow."""

    def __init__(self, fed: Iterable[Any]) -> None:
        self._sent: list[NDArray[Any]] = [np.array(tensor.numpy()) for tensor in fed]
        self._received: tuple[NDArray[Any], ...] | None = None

    def send(self) -> tuple[Any, ...]:
        """What is sent, as tensors: `constant` copies an array to memory of their own."""
        return tuple(tf.constant(array) for array in self._sent)

    def receive(self, outputs: Iterable[Any]) -> tuple[NDArray[Any], ...]:
        """Copies `outputs` to the caller's memory, which is found at the first call."""
        # Where they lie: `numpy` would copy them once more.
        arrays = [np.asarray(output) for output in outputs]
        if self._received is None:
            self._received = tuple(np.array(array) for array in arrays)
        else:
            for room, array in zip(self._received, arrays, strict=True):
                np.copyto(room, array)
        return self._received
