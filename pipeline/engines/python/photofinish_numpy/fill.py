"""Deterministic numbers, equal bit for bit to `models::fill`: weights and inputs from names alone.

The generator is SplitMix64 read as a function of a counter, in unsigned integers of 64 bits.
"""

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from photofinish_worker.graph import (
    CausalMask,
    Constant,
    Fill,
    Integers,
    Positions,
    Sinusoids,
    Stored,
    Uniform,
)
from photofinish_worker.stored import nowhere
from photofinish_worker.streams import CHUNK, GOLDEN_GAMMA, key

Floats = NDArray[np.float32]
Words = NDArray[np.uint64]
Numbers = NDArray[np.int64]


def floats(name: str, fill: Fill, shape: tuple[int, ...]) -> Floats:
    """The binary32 numbers of the tensor called `name`, in `shape`."""
    match fill:
        case Integers() | Positions():
            return integers(name, fill, shape).astype(np.float32)
        case Constant(value):
            return np.full(shape, value, np.float32)
        case Sinusoids(width):
            return _sinusoids(width, math.prod(shape)).reshape(shape)
        case CausalMask(width):
            return _causal_mask(width, math.prod(shape)).reshape(shape)
        case Stored():
            raise nowhere(name)
        case Uniform(low, high):
            return _uniform(name, low, high, math.prod(shape)).reshape(shape)


def integers(name: str, fill: Fill, shape: tuple[int, ...]) -> Numbers:
    """The 64-bit integers of the tensor called `name`, in `shape`."""
    match fill:
        case Uniform() | Sinusoids() | CausalMask():
            return floats(name, fill, shape).astype(np.int64)
        case Constant(value):
            return np.full(shape, int(value), np.int64)
        case Stored():
            raise nowhere(name)
        case Positions():
            row = max(1, shape[-1]) if shape else 1
            return (np.arange(math.prod(shape), dtype=np.int64) % row).reshape(shape)
        case Integers(bound):
            numbers = np.empty(math.prod(shape), np.int64)
            for start, stop in _chunks(numbers.size):
                numbers[start:stop] = _below(_raw(name, start, stop), bound)
            return numbers.reshape(shape)


def _uniform(name: str, low: float, high: float, count: int) -> Floats:
    first, last = np.float32(low), np.float32(high)
    span = np.float32(last - first)
    numbers = np.empty(count, np.float32)
    for start, stop in _chunks(count):
        # The upper 24 bits as a number in [0, 1), exact; then two operations, each rounded.
        part = (_raw(name, start, stop) >> np.uint64(40)).astype(np.float32)
        part *= np.float32(2.0**-24)
        part *= span
        part += first
        numbers[start:stop] = part
    return numbers


def _chunks(count: int) -> Iterator[tuple[int, int]]:
    for start in range(0, count, CHUNK):
        yield start, min(count, start + CHUNK)


def _raw(name: str, start: int, stop: int) -> Words:
    """64 random bits for each element from `start` to `stop`."""
    counter = np.arange(start + 1, stop + 1, dtype=np.uint64)
    counter *= np.uint64(GOLDEN_GAMMA)
    counter += np.uint64(key(name))
    return _mix(counter)


def _mix(z: Words) -> Words:
    """The finaliser of SplitMix64, in place."""
    z ^= z >> np.uint64(30)
    z *= np.uint64(0xBF58476D1CE4E5B9)
    z ^= z >> np.uint64(27)
    z *= np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return z


def _below(bits: Words, bound: int) -> Numbers:
    """The upper 64 bits of the 128-bit product `bits · bound`."""
    if bound >= 1 << 31:
        products = [int(number) * bound >> 64 for number in bits]
        return np.array(products, np.uint64).view(np.int64)
    # Halves of 32 bits: no product or sum of theirs reaches 2⁶⁴.
    half, factor = np.uint64(32), np.uint64(bound)
    upper, lower = bits >> half, bits & np.uint64((1 << 32) - 1)
    product = upper * factor + (lower * factor >> half)
    return (product >> half).view(np.int64)


def _sinusoids(width: int, count: int) -> Floats:
    width = max(2, width)
    half = max(1, width // 2)
    index = np.arange(count, dtype=np.int64)
    position, column = index // width, index % width
    exponent = (column % half).astype(np.float64) * -2.0 / width
    angle = position.astype(np.float64) * np.power(10_000.0, exponent)
    return np.where(column < half, np.sin(angle), np.cos(angle)).astype(np.float32)


def _causal_mask(width: int, count: int) -> Floats:
    width = max(1, width)
    index = np.arange(count, dtype=np.int64)
    seen = index % width <= index // width
    return np.where(seen, np.float32(0.0), np.float32(-np.inf))
