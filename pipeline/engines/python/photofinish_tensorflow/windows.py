"""Padding of sliding windows: from four sides to TensorFlow's schemes. The same rules as the Rust
worker's."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from photofinish_worker.graph import Pair, Sides


class Scheme(StrEnum):
    """Padding that an operator does by itself."""

    VALID = "VALID"
    """None."""
    SAME = "SAME"
    """As TensorFlow itself chooses it."""


@dataclass(frozen=True, slots=True)
class Axis:
    """Windows along one axis."""

    size: int
    span: int
    """What a window spans."""
    stride: int
    before: int
    """Padding before."""
    count: int
    """Number of windows."""

    def needs(self) -> int:
        """Padding behind, as much as the last window needs: less than asked for where windows leave
        a rest, more where a partial one counts."""
        return max(0, self._end() - self.size - self.before)

    def is_same(self) -> bool:
        """Whether TensorFlow's `SAME` is the same: `⌈size/stride⌉` windows, and half of what they
        need before the image, rounded down."""
        total = max(0, self._end() - self.size)
        return self.count == -(-self.size // self.stride) and self.before == total // 2

    def seen(self) -> NDArray[np.float64]:
        """For each window how many elements of the image it sees."""
        start = np.arange(self.count) * self.stride
        stop = np.minimum(start + self.span, self.before + self.size)
        seen = np.maximum(0, stop - np.maximum(start, self.before))
        return np.asarray(seen, np.float64)

    def _end(self) -> int:
        """Where the last window ends, from the beginning of the padding."""
        return (self.count - 1) * self.stride + self.span


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows that slide over height and width."""

    height: Axis
    width: Axis

    @classmethod
    def over(cls, size: Pair, spans: Pair, strides: Pair, pads: Sides, counts: Pair) -> "Windows":
        """Windows of these spans over an image of this size."""
        axes = zip(size, spans, strides, pads[:2], counts, strict=True)
        height, width = (Axis(*axis) for axis in axes)
        return cls(height, width)

    def padding(self) -> Scheme | Sides:
        """The padding in TensorFlow's terms: its own scheme where there is one, else four sides."""
        sides = self.explicit()
        if sides == (0, 0, 0, 0):
            return Scheme.VALID
        if self.height.is_same() and self.width.is_same():
            return Scheme.SAME
        return sides

    def explicit(self) -> Sides:
        """The padding as top, left, bottom, right."""
        height, width = self.height, self.width
        return (height.before, width.before, height.needs(), width.needs())

    def seen(self) -> NDArray[np.float64]:
        """For each window, `[height, width]`, how many elements of the image it sees."""
        return np.outer(self.height.seen(), self.width.seen())
