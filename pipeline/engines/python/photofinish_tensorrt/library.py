"""TensorRT, or TensorRT-RTX: two libraries with one interface, of which an installation has one."""

import importlib
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from photofinish_tensorrt.failure import classify
from photofinish_worker.outcome import Failure, Kind

ENGINE = "tensorrt"
NATIVE = "native"
RTX = "rtx"

_MODULES = {NATIVE: "tensorrt_bindings", RTX: "tensorrt_rtx_bindings"}

_WORST_SHOWN = 2
"""Severities up to this are shown: internal errors are 0, errors 1, warnings 2, notes more."""
_WORST_ERROR = 1


@dataclass(frozen=True, slots=True)
class Library:
    """A library that is loaded. It tells nobody but its logger why something failed."""

    module: Any
    variant: str
    logger: Any
    errors: list[str]
    """What it has complained of, the oldest first."""

    @property
    def version(self) -> str:
        """Its version."""
        return str(self.module.__version__)

    def made(self, place: str, what: Any) -> Any:
        """What was made at `place`, or the outcome of its not being made. What the library
        complained of on the way to what it made decides no later outcome."""
        if what is None:
            raise self.failure(place)
        self.errors.clear()
        return what

    def failure(self, place: str) -> Failure:
        """The outcome of what just failed at `place`, in the words of its first complaint."""
        words = self.errors[0] if self.errors else "without a word"
        self.errors.clear()
        return classify(place, words)


def find() -> Library:
    """The library that is installed.

    `unavailable` where there is none, or what it consists of cannot be loaded: which file is
    missing is said.
    """
    for variant, name in _MODULES.items():
        if find_spec(name) is not None:
            return load(variant)
    raise Failure(Kind.UNAVAILABLE, f"none of {' and '.join(_MODULES.values())} is installed")


def load(variant: str) -> Library:
    """The library behind a variant."""
    name = _MODULES[variant]
    try:
        module = importlib.import_module(name)
    except (ImportError, OSError) as error:
        raise Failure(Kind.UNAVAILABLE, f"{name} cannot be loaded: {error}") from error
    errors: list[str] = []

    def log(_: Any, severity: Any, words: str) -> None:
        if int(severity) <= _WORST_SHOWN:
            print(f"{severity.name.lower()}: {words}", file=sys.stderr)
        if int(severity) <= _WORST_ERROR:
            errors.append(words)

    logger = type("Logger", (module.ILogger,), {"log": log})()
    return Library(module, variant, logger, errors)
