"""The size of a bucket of gradients that is searched for: what is tried, and what is told of it.
The same as the Rust worker's."""

SIZES_MIB = (1, 2, 4, 8, 16, 25, 50, 100)
"""Sizes that are tried: those that a manifest knows by number."""

USUAL_MIB = 25
"""PyTorch's own, with a smaller one first: what it does where nobody says otherwise."""

TIMED = 5
"""Iterations of each that are timed."""


def asked(size_mib: int) -> int | None:
    """What PyTorch is asked for where buckets are to be of this size: nothing for its own."""
    return None if size_mib == USUAL_MIB else size_mib


def sizes(gradient_bytes: int) -> list[int]:
    """The sizes to be tried, where gradients take so many bytes: larger ones than one that holds
    them all change nothing."""
    kept = []
    for size_mib in SIZES_MIB:
        kept.append(size_mib)
        if size_mib != USUAL_MIB and size_mib << 20 >= gradient_bytes:
            break
    return kept


def told(found_ns: dict[int, int], fastest_mib: int) -> dict[str, str]:
    """Settings that tell what the search found."""
    tried = ", ".join(f"{size} MiB {ns / 1e6:.1f} ms" for size, ns in found_ns.items())
    return {
        "bucket size": f"{fastest_mib} MiB, the fastest of those that were tried",
        "bucket sizes tried": f"{tried}: the slowest rank's median of {TIMED} steps",
    }
