"""Deterministic numbers, equal bit for bit to `models::fill`: weights and inputs from names alone.

The generator is SplitMix64 read as a function of a counter. All integer arithmetic is modulo 2⁶⁴,
which is what PyTorch's 64-bit integers do; they are signed, so shifts to the right are masked.
"""

import math
import struct

import torch

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


def floats(name: str, fill: Fill, shape: tuple[int, ...]) -> torch.Tensor:
    """The binary32 numbers of the tensor called `name`, in `shape`."""
    if isinstance(fill, Integers | Positions):
        return integers(name, fill, shape).to(torch.float32)
    if isinstance(fill, Constant):
        return torch.full(shape, fill.value, dtype=torch.float32)
    count = math.prod(shape)
    if isinstance(fill, Sinusoids):
        return _sinusoids(fill.width, count).reshape(shape)
    if isinstance(fill, CausalMask):
        return _causal_mask(fill.width, count).reshape(shape)
    if isinstance(fill, Stored):
        raise nowhere(name)
    low, high = _binary32(fill.low), _binary32(fill.high)
    span = _binary32(high - low)
    numbers = torch.empty(count, dtype=torch.float32)
    for start, part in _chunks(numbers):
        bits = _raw(name, start, part.numel())
        # The upper 24 bits as a number in [0, 1), exact; then two operations, each rounded.
        part.copy_(_shifted(bits, 40)).mul_(2.0**-24).mul_(span).add_(low)
    return numbers.reshape(shape)


def integers(name: str, fill: Fill, shape: tuple[int, ...]) -> torch.Tensor:
    """The 64-bit integers of the tensor called `name`, in `shape`."""
    if isinstance(fill, Stored):
        raise nowhere(name)
    if isinstance(fill, Uniform | Sinusoids | CausalMask):
        return floats(name, fill, shape).to(torch.int64)
    if isinstance(fill, Constant):
        return torch.full(shape, int(fill.value), dtype=torch.int64)
    count = math.prod(shape)
    if isinstance(fill, Positions):
        row = max(1, shape[-1]) if shape else 1
        return torch.arange(count, dtype=torch.int64).remainder_(row).reshape(shape)
    numbers = torch.empty(count, dtype=torch.int64)
    for start, part in _chunks(numbers):
        part.copy_(_below(_raw(name, start, part.numel()), fill.bound))
    return numbers.reshape(shape)


def _chunks(numbers: torch.Tensor) -> list[tuple[int, torch.Tensor]]:
    return [(index * CHUNK, part) for index, part in enumerate(torch.split(numbers, CHUNK))]


def _raw(name: str, start: int, count: int) -> torch.Tensor:
    """64 random bits for each element from `start` on."""
    counter = torch.arange(start + 1, start + 1 + count, dtype=torch.int64)
    return _mix(counter.mul_(_signed(GOLDEN_GAMMA)).add_(_signed(key(name))))


def _mix(z: torch.Tensor) -> torch.Tensor:
    """The finaliser of SplitMix64, in place."""
    z.bitwise_xor_(_shifted(z, 30)).mul_(_signed(0xBF58476D1CE4E5B9))
    z.bitwise_xor_(_shifted(z, 27)).mul_(_signed(0x94D049BB133111EB))
    return z.bitwise_xor_(_shifted(z, 31))


def _shifted(z: torch.Tensor, bits: int) -> torch.Tensor:
    """A shift to the right that brings zeros in."""
    return (z >> bits).bitwise_and_((1 << (64 - bits)) - 1)


def _below(bits: torch.Tensor, bound: int) -> torch.Tensor:
    """The upper 64 bits of the 128-bit product `bits · bound`."""
    if bound >= 1 << 31:
        products = [(number % 2**64) * bound >> 64 for number in bits.tolist()]
        return torch.tensor([_signed(product) for product in products], dtype=torch.int64)
    # Halves of 32 bits: no product or sum of theirs reaches 2⁶³.
    upper, lower = _shifted(bits, 32), bits.bitwise_and((1 << 32) - 1)
    return upper.mul_(bound).add_(lower.mul_(bound) >> 32) >> 32


def _sinusoids(width: int, count: int) -> torch.Tensor:
    width = max(2, width)
    half = max(1, width // 2)
    index = torch.arange(count, dtype=torch.int64)
    position, column = index // width, index % width
    exponent = (column % half).to(torch.float64) * -2.0 / width
    angle = position.to(torch.float64) * torch.pow(10_000.0, exponent)
    return torch.where(column < half, angle.sin(), angle.cos()).to(torch.float32)


def _causal_mask(width: int, count: int) -> torch.Tensor:
    width = max(1, width)
    index = torch.arange(count, dtype=torch.int64)
    seen = index % width <= index // width
    return torch.zeros(count, dtype=torch.float32).masked_fill_(~seen, -math.inf)


def _binary32(number: float) -> float:
    """The nearest binary32 number."""
    (rounded,) = struct.unpack("<f", struct.pack("<f", number))
    return float(rounded)


def _signed(number: int) -> int:
    """The same 64 bits as a signed number."""
    return number - 2**64 if number >= 2**63 else number
