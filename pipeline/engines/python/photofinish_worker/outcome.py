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
