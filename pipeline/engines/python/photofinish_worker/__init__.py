"""The worker's side of the protocol of `schema::protocol`, for engines driven from Python.

An engine implements `Engine` and `Session`; `serve` does the rest. Needs nothing but the standard
library, so that every environment can share it.
"""

from photofinish_worker.engine import (
    Engine,
    Identity,
    LoadReport,
    ParityData,
    Session,
    Tensor,
)
from photofinish_worker.outcome import Failure, Kind
from photofinish_worker.serve import serve
from photofinish_worker.sources import digest

__all__ = [
    "Engine",
    "Failure",
    "Identity",
    "Kind",
    "LoadReport",
    "ParityData",
    "Session",
    "Tensor",
    "digest",
    "serve",
]
