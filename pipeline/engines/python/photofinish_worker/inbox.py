"""The thread that listens, so that a `cancel` is heard while the engine works."""

import os
import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import cast

from photofinish_worker.decode import Mismatch, message
from photofinish_worker.messages import MAX_MESSAGE_BYTES, Cancel, Request

GRACE_S = 2.0
"""How long an engine may go on after the supervisor has gone; then the process leaves under it."""

CHUNK_BYTES = 1 << 16

Read = Callable[[], bytes]
"""Gives the next bytes; none at the end."""


@dataclass(frozen=True, slots=True)
class Incoming:
    """What came in: a request, or why a line is none."""

    sequence: int
    """Number of the message, from 1; a `cancel` has none."""
    message: Request | str
    line: bytes = b""
    """The message as it came, where it is one: to be handed on."""


class Inbox:
    """Messages in their order, and what was cancelled."""

    def __init__(self) -> None:
        # One at a time is the protocol; a supervisor that pushes more is made to wait.
        self._messages: queue.Queue[Incoming | None] = queue.Queue(4)
        self._cancelled = 0
        self._gone = False

    def listen(self, descriptor: int) -> None:
        """Starts listening."""

        def run() -> None:
            self.read_all(lambda: _read(descriptor))
            # Loops end at their next step; an engine that is deep in its own work is not waited
            # for, and exit handlers must not run under it.
            leave = threading.Timer(GRACE_S, os._exit, (0,))
            leave.daemon = True
            leave.start()
            self._messages.put(None)

        threading.Thread(target=run, name="inbox", daemon=True).start()

    def read_all(self, read: Read) -> None:
        """Reads until the stream ends."""
        sequence = 0
        for line in lines(read):
            if isinstance(line, bytes) and not line.strip():
                continue
            content = _understood(line)
            if isinstance(content, Cancel):
                # Counts for the last message before it, never for one that comes later.
                self._cancelled = sequence
                continue
            sequence += 1
            self._messages.put(Incoming(sequence, content, line or b""))
        self._gone = True

    def __iter__(self) -> Iterator[Incoming]:
        """The messages, until the stream ends."""
        while (incoming := self._messages.get()) is not None:
            yield incoming

    def is_cancelled(self, sequence: int) -> bool:
        """Whether the request of this number was cancelled, or nobody is left to answer."""
        return self._gone or self._cancelled >= sequence


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, CHUNK_BYTES)
    except OSError:
        return b""


def _understood(line: bytes | None) -> Request | str:
    if line is None:
        return f"a message of more than {MAX_MESSAGE_BYTES} bytes"
    try:
        return cast(Request, message(Request, line))
    except Mismatch as mismatch:
        return f"not a message of the protocol: {mismatch}"


def lines(read: Read, limit: int = MAX_MESSAGE_BYTES) -> Iterator[bytes | None]:
    """Cuts a stream into lines of at most `limit` bytes, newline included; `None` for a longer one.

    Memory stays bounded by the limit and one chunk, whatever comes. What follows the last newline
    is no line.
    """
    pending = bytearray()
    too_long = False
    while chunk := read():
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            if too_long or len(pending) + len(part) + 1 > limit:
                yield None
            else:
                yield bytes(pending) + part
            pending.clear()
            too_long = False
        if too_long or len(pending) + len(rest) >= limit:
            pending.clear()
            too_long = bool(rest) or too_long
        else:
            pending += rest
