"""What `models::fill` makes numbers from, apart from the arithmetic on whole tensors."""

from photofinish_worker.graph import ElementType, Fill, Integers, Positions, Stored

GOLDEN_GAMMA = 0x9E3779B97F4A7C15
"""What SplitMix64 adds from one number to the next."""

CHUNK = 1 << 20
"""Elements made at a time: bounds the memory for intermediate results."""


def key(name: str) -> int:
    """The stream of a name, 64 bits: FNV-1a (Fowler, Noll and Vo), finalised as SplitMix64 is."""
    bits = 0xCBF29CE484222325
    for byte in name.encode():
        bits = (bits ^ byte) * 0x100000001B3 % 2**64
    bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    bits = (bits ^ bits >> 27) * 0x94D049BB133111EB % 2**64
    return bits ^ bits >> 31


def makes_integers(fill: Fill) -> bool:
    """Whether the fill describes integers: a parameter with such a fill holds 64-bit integers."""
    if isinstance(fill, Stored):
        return fill.element is ElementType.INT64
    return isinstance(fill, Integers | Positions)
