"""AOTInductor's compiler: `python -m photofinish_pytorch.aot`.

The worker of `pytorch/aot`, which is written in Rust and runs what is compiled here, starts it for
one package. It says what on one line of standard input and keeps that open while it waits; one line
of standard output is the answer.
"""

import json
import os
import sys
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO

from photofinish_worker.control import Gone, NoStream, open_stream
from photofinish_worker.decode import Mismatch, Tagged, message
from photofinish_worker.messages import MAX_MESSAGE_BYTES, Load
from photofinish_worker.outcome import Failure, Kind
from photofinish_worker.serve import LONGEST_REASON

Answer = dict[str, object] | str


@dataclass(frozen=True, slots=True)
class Compile(Tagged):
    """Compile the network of a `load`, and write the package."""

    request: Load
    package: str
    """Where to; ends in `.pt2`."""
    dropout: bool
    """Whether dropout drops: it is compiled in."""
    key: str
    """What the package is to say that it is made from."""


def main() -> int:
    """Takes one request; gives the exit status: 0 after an answer, 2 where nobody asked."""
    try:
        stream = open_stream({})
    except NoStream as error:
        print(error, file=sys.stderr)
        return 2
    with os.fdopen(stream.reader, "rb") as asked:
        line = asked.readline(MAX_MESSAGE_BYTES)
        threading.Thread(target=_leave_after, args=(asked,), daemon=True).start()
        answer = _answer(line, _compile)
        try:
            stream.send(json.dumps(answer, allow_nan=False).encode() + b"\n")
        except Gone:
            return 2
        # Python must not wait for the thread that still reads.
        sys.stderr.flush()
        os._exit(0)


def _leave_after(asked: BinaryIO) -> None:
    """Ends the process when nobody waits for it any more, wherever it is by then."""
    asked.read(1)
    os._exit(2)


def _answer(line: bytes, serve: Callable[[Compile], None]) -> Answer:
    try:
        request = message(Compile, line)
        if not isinstance(request, Compile):
            raise Mismatch("not `compile`")
        serve(request)
        return "compiled"
    except Failure as failure:
        return _failed(failure.kind, failure.reason)
    except Mismatch as error:
        return _failed(Kind.UNSUPPORTED, f"not a request to compile: {error}")
    except MemoryError:
        return _failed(Kind.OUT_OF_MEMORY, "Python ran out of memory while it compiled")
    except ImportError as error:
        reason = f"a package that the compiler needs is missing or does not fit: {error}"
        return _failed(Kind.UNAVAILABLE, reason)
    except Exception as error:
        reason = f"AOTInductor raised {type(error).__name__}: {error}"
        return _failed(Kind.CRASHED, reason)


def _failed(kind: Kind, reason: str) -> Answer:
    return {"failed": {"kind": kind, "reason": reason.strip()[:LONGEST_REASON]}}


def _compile(request: Compile) -> None:
    warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
    try:
        from photofinish_pytorch import package
    except (ImportError, OSError) as error:
        raise Failure(Kind.UNAVAILABLE, f"PyTorch cannot be imported: {error}") from error
    package.make(request.request, request.package, request.dropout, request.key)


if __name__ == "__main__":
    sys.exit(main())
