"""What TensorRT's complaints mean for a cell."""

from photofinish_worker.outcome import Failure, kind_of

_MEMORY = ("out of memory", "outofmemory", "bad_alloc", "memory allocation")
_UNSUPPORTED = (
    "not supported",
    "unsupported",
    "no implementation",
    "could not find any implementation",
    # Of an operator that ONNX's parser has no importer for: it might be a plugin's.
    "plugin not found",
    "incompatible with this device",
)


def classify(place: str, words: str) -> Failure:
    """The outcome of a cell of which TensorRT said this at `place`, for example `Conv of conv1`."""
    kind = kind_of(words, _MEMORY, _UNSUPPORTED)
    return Failure(kind, f"{place}: {' '.join(words.split())}")
