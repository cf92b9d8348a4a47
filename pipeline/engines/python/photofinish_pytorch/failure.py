"""What PyTorch's exceptions mean for a cell."""

from collections.abc import Iterator
from contextlib import contextmanager

from photofinish_worker.outcome import Failure, kind_of

_MEMORY = (
    "out of memory",
    "can't allocate memory",
    "cannot allocate memory",
    "bad_alloc",
    "not enough memory",
    # What cuBLAS and cuDNN say where there is no room for what they need.
    "status_alloc_failed",
)
_UNSUPPORTED = ("not implemented for", "could not run 'aten::", "not supported", "unsupported")


def classify(place: str, text: str) -> Failure:
    """The outcome of a cell in which PyTorch threw this at `place`, for example `Conv conv1`."""
    kind = kind_of(text, _MEMORY, _UNSUPPORTED)
    # An exception's own words without the C++ stack below them.
    words = text.split("\nException raised from")[0].strip()
    return Failure(kind, f"{place}: {words}")


@contextmanager
def at(place: str) -> Iterator[None]:
    """Turns what PyTorch throws inside into the outcome of the cell."""
    try:
        yield
    except Failure:
        raise
    except (RuntimeError, ValueError, TypeError, IndexError, OverflowError) as error:
        raise classify(place, str(error)) from error
