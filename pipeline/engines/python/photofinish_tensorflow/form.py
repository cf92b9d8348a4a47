"""How a tensor lies in memory: TensorFlow's order of the axes against the graph's. The rules of
the Rust worker, and those of what Python's TensorFlow alone computes: Keras's GRU, `BlockLSTM`."""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

import numpy as np
from numpy.typing import NDArray

Shape = tuple[int, ...]


class Order(Enum):
    """An order of the axes."""

    PLAIN = auto()
    """The graph's own."""
    CHANNELS_LAST = auto()
    """`[batch, …, channels]` for `[batch, channels, …]`; of three axes or more."""
    FILTER = auto()
    """`[height, width, in, out]` for a convolution's `[out, in, height, width]`."""
    DEPTHWISE = auto()
    """`[height, width, in, multiplier]` for a convolution's `[in · multiplier, 1, height, width]`,
    each input channel by itself."""
    TRANSPOSED = auto()
    """`[in, out]` for a matrix `[out, in]`."""
    GRU = auto()
    """Parameters of a GRU as Keras has them: gates in the order z, r, n instead of r, z, n,
    `[in, 3·size]` for a matrix `[3·size, in]`."""
    BLOCK = auto()
    """Those of an LSTM as TensorFlow's `BlockLSTM` has them: gates in the order i, g, f, o instead
    of i, f, g, o, `[in, 4·size]` for a matrix `[4·size, in]`."""

    def axes(self, rank: int) -> Shape:
        """For each axis in memory the graph's axis, for a value of `rank` axes."""
        if self is Order.CHANNELS_LAST and rank >= 3:
            return (0, *range(2, rank), 1)
        if self is Order.FILTER and rank == 4:
            return (2, 3, 1, 0)
        if self is Order.DEPTHWISE and rank == 4:
            # The last two axes are then split anew, which moves nothing.
            return (2, 3, 0, 1)
        if self in _TURNED and rank == 2:
            return (1, 0)
        return tuple(range(rank))


_TURNED = (Order.TRANSPOSED, Order.GRU, Order.BLOCK)
"""Those in which a matrix is turned."""

_GATES = {Order.GRU: (1, 0, 2), Order.BLOCK: (0, 2, 1, 3)}
"""For each gate in memory the graph's; each order undoes itself."""


@dataclass(frozen=True, slots=True)
class Form:
    """A shape and its order in memory."""

    shape: Shape
    """The graph's shape."""
    order: Order = Order.PLAIN
    channels: int = 1
    """Input channels of a depthwise filter."""

    @property
    def axes(self) -> Shape:
        """For each axis in memory the graph's axis."""
        return self.order.axes(len(self.shape))

    def dims(self) -> Shape:
        """The shape in memory, as TensorFlow sees it."""
        moved = pick(self.shape, self.axes)
        if self.order is Order.DEPTHWISE and len(moved) == 4:
            height, width, out, _ = moved
            return (height, width, self.channels, out // max(1, self.channels))
        return moved

    def laid_out(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """Numbers in the graph's order, brought into the order in memory."""
        moved = self._regated(numbers.reshape(self.shape).transpose(self.axes))
        return np.ascontiguousarray(moved).reshape(self.dims())

    def restored(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """Numbers in the order in memory, brought into the graph's."""
        laid = self._regated(numbers.reshape(pick(self.shape, self.axes)))
        return np.ascontiguousarray(laid.transpose(inverse(self.axes))).reshape(self.shape)

    @property
    def gates(self) -> tuple[int, ...]:
        """For each gate along the last axis in memory the graph's; nothing where they keep their
        order. It undoes itself."""
        return _GATES.get(self.order, ())

    def _regated(self, numbers: NDArray[Any]) -> NDArray[Any]:
        if not self.gates:
            return numbers
        parts = np.split(numbers, len(self.gates), axis=-1)
        return np.concatenate([parts[gate] for gate in self.gates], axis=-1)


def pick(values: Shape, indices: Shape) -> Shape:
    """The elements of `values` at `indices`."""
    return tuple(values[index] for index in indices)


def inverse(axes: Shape) -> Shape:
    """The order that undoes `axes`."""
    return tuple(sorted(range(len(axes)), key=lambda axis: axes[axis]))


def is_sorted(axes: Shape) -> bool:
    """Whether an order is the one that changes nothing."""
    return axes == tuple(range(len(axes)))


def moves_nothing(shape: Shape, axes: Shape) -> bool:
    """Whether the axes of more than one element keep their order."""
    longer = [axis for axis in axes if shape[axis] > 1]
    return longer == sorted(longer)
