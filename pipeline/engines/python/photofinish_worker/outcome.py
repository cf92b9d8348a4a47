"""How something ended that could not be done."""

from enum import StrEnum


class Kind(StrEnum):
    """The endings that a worker gives, in the protocol's words."""

    UNSUPPORTED = "unsupported"
    UNAVAILABLE = "unavailable"
    OUT_OF_MEMORY = "out_of_memory"
    PARITY_FAILED = "parity_failed"
    CRASHED = "crashed"


class Failure(Exception):
    """A typed reason why a request could not be served; the worker lives on."""

    def __init__(self, kind: Kind, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason


def unsupported(reason: str) -> Failure:
    """A configuration that this worker does not run."""
    return Failure(Kind.UNSUPPORTED, reason)


def kind_of(words: str, memory: tuple[str, ...], refused: tuple[str, ...]) -> Kind:
    """What an engine's complaint comes to: `memory` and `refused` are words, in lower case, that it
    uses where memory is short, and of what it does not do."""
    lower = words.lower()
    if any(part in lower for part in memory):
        return Kind.OUT_OF_MEMORY
    if any(part in lower for part in refused):
        return Kind.UNSUPPORTED
    return Kind.CRASHED
