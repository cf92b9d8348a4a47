"""Several processes for one cell: who they are, where they meet, and how the first leads them.

It is what `worker::ranks` does for engines written in Rust, where its ways are told.
"""

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar, runtime_checkable

from photofinish_worker.engine import Engine, ParityData, Quantity
from photofinish_worker.messages import CONTROL_VARIABLE, Cell
from photofinish_worker.outcome import Failure, Kind, unsupported

RANK = "RANK"
LOCAL_RANK = "LOCAL_RANK"
WORLD_SIZE = "WORLD_SIZE"
MASTER_ADDR = "MASTER_ADDR"
MASTER_PORT = "MASTER_PORT"
VARIABLES = (RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT)

HERE = "127.0.0.1"
"""Where ranks meet that nobody launched."""

SOON_S = 1e-4
LATER_S = 1e-2
"""How often answers are looked for, at first and in the end: whoever waits in the store itself
fills the log with complaints."""
CAUSE_S = 1.0
"""How long a failure of this rank waits for what another says of it, which may be its cause."""
LOOK_S = 0.1
"""How often the others are looked after while this rank is busy."""
LEAVE_S = 2.0
"""How long ranks that were told to leave may take."""
WAIT_S = 24.0 * 60.0 * 60.0
"""How long one wait for an order lasts; there may be many. It ends when rank 0 is gone."""

Json = dict[str, object]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class World:
    """A process among those that run one cell together."""

    rank: int
    local_rank: int
    size: int
    address: str
    port: int
    """0 lets rank 0 take any that is free."""


def world_of(environment: Mapping[str, str]) -> World | None:
    """What a launcher said; nothing where it says no rank."""
    if RANK not in environment:
        return None

    def number(name: str) -> int:
        text = environment[name].strip()
        if not text.isdecimal():
            raise Failure(Kind.UNAVAILABLE, f"{name}={environment[name]!r} is no whole number")
        return int(text)

    for name in (WORLD_SIZE, MASTER_ADDR, MASTER_PORT):
        if name not in environment:
            known = ", ".join(VARIABLES)
            reason = (
                f"{RANK} is set and {name} is not: a launcher of several processes sets {known}"
            )
            raise Failure(Kind.UNAVAILABLE, reason)
    rank, size, port = number(RANK), number(WORLD_SIZE), number(MASTER_PORT)
    if rank >= size:
        reason = f"{RANK}={rank} is none of {WORLD_SIZE}={size} ranks, which count from 0"
        raise Failure(Kind.UNAVAILABLE, reason)
    if not 0 < port < 65536:
        reason = f"{MASTER_PORT}={port} is no port: ports go from 1 to 65535"
        raise Failure(Kind.UNAVAILABLE, reason)
    local = number(LOCAL_RANK) if LOCAL_RANK in environment else rank
    return World(rank, local, size, environment[MASTER_ADDR], port)


class Store(Protocol):
    """Where ranks meet: names with values, which all of them see. Rank 0 serves it.

    It is asked while the engine waits for other ranks, and must answer then: it shares no
    connection with what the engine exchanges.
    """

    @property
    def port(self) -> int:
        """The port at which it is served."""
        ...

    def set(self, name: str, value: bytes) -> None:
        """Gives a name a value."""

    def get(self, name: str, patience_s: float) -> bytes | None:
        """The value of a name once it has one; nothing where it has none within that time."""
        ...

    def forget(self, name: str) -> None:
        """Forgets a name."""


@runtime_checkable
class RankedEngine(Engine, Protocol):
    """An engine that several processes can run a cell with."""

    def join(self, world: World) -> Store:
        """Joins the other ranks, before `load`."""
        ...


def updates(data: ParityData) -> str:
    """The hash of how far all weights have moved, which tells ranks apart that do not hold the same
    weights: they began with the same."""
    hasher = hashlib.sha256()
    for tensor in data.tensors:
        if tensor.quantity is Quantity.UPDATE:
            hasher.update(len(tensor.data).to_bytes(8, "little"))
            hasher.update(tensor.data)
    return hasher.hexdigest()


def _order_name(number: int) -> str:
    return f"photofinish/order/{number}"


def _answer_name(number: int, rank: int) -> str:
    return f"photofinish/answer/{number}/{rank}"


class Crew:
    """The other ranks of a cell, as rank 0 leads them."""

    def __init__(self, engine: Engine, cell: Cell, launched: World | None) -> None:
        size = cell.world_size
        if launched is not None and launched.size != size:
            reason = (
                f"{WORLD_SIZE}={launched.size} processes were launched, and the cell is for {size}"
            )
            raise Failure(Kind.UNAVAILABLE, reason)
        if not isinstance(engine, RankedEngine):
            raise unsupported("this engine runs a cell in one process")
        self._store = engine.join(launched or World(0, 0, size, HERE, 0))
        self._size = size
        self._next = 0
        self._started: dict[int, subprocess.Popen[bytes]] = {}
        if launched is None:
            for rank in range(1, size):
                self._started[rank] = _start(rank, size, self._store.port)

    def order(self, order: Json) -> None:
        """Hands an order on."""
        self._store.set(_order_name(self._next), json.dumps(order).encode())
        self._next += 1

    def together(self, order: Json, own: Callable[[], T]) -> tuple[T, list[Json]]:
        """Has all ranks do the same; what the others answer, from rank 1 on.

        Where this rank fails, another may have failed before it, and is the reason.
        """
        self.order(order)
        try:
            done = own()
        except Failure:
            self._answers(time.monotonic() + CAUSE_S)
            raise
        return done, self._answers(None)

    def watched(self, own: Callable[[], T], lost: Callable[[Failure], None]) -> T:
        """This rank's part of the last order, in which it may wait for others that are gone.

        A group of processes has no connections yet that would break with them. Where one failed or
        ended and `own` does not end by itself, the others are ended, and `lost` is called with the
        reason on another thread; it should end this process.
        """
        done = threading.Event()

        def look() -> None:
            while not done.wait(LOOK_S):
                failure = None
                # What cannot be read says nothing.
                with contextlib.suppress(Failure, ValueError):
                    failure = self._lost()
                if failure is None:
                    continue
                if not done.wait(CAUSE_S):
                    self.end()
                    lost(failure)
                return

        watcher = threading.Thread(target=look)
        watcher.start()
        try:
            return own()
        finally:
            done.set()
            watcher.join()

    def _lost(self) -> Failure | None:
        """What became of the first rank that failed at the last order, or has ended."""
        # Whoever has ended may have answered just before.
        ended = self._ended()
        for rank in range(1, self._size):
            value = self._store.get(_answer_name(self._next - 1, rank), 0.0)
            failed = None if value is None else _failed(rank, _object(value))
            if failed is not None:
                return failed
        return ended

    def _answers(self, until: float | None) -> list[Json]:
        number = self._next - 1
        answers = []
        for rank in range(1, self._size):
            answer = self._answer(number, rank, until)
            if answer is None:
                continue
            if (failed := _failed(rank, answer)) is not None:
                raise failed
            answers.append(answer)
        self._store.forget(_order_name(number))
        return answers

    def _answer(self, number: int, rank: int, until: float | None) -> Json | None:
        name = _answer_name(number, rank)
        pause_s = SOON_S
        while True:
            value = self._store.get(name, 0.0)
            if value is not None:
                self._store.forget(name)
                return _object(value)
            ended = self._ended()
            # Whoever has ended may have answered just before.
            if ended is not None and self._store.get(name, 0.0) is None:
                raise ended
            if until is not None and time.monotonic() >= until:
                return None
            time.sleep(pause_s)
            pause_s = min(2.0 * pause_s, LATER_S)

    def _ended(self) -> Failure | None:
        for rank, process in self._started.items():
            status = process.poll()
            if status is not None:
                return Failure(Kind.CRASHED, f"rank {rank} {_how(status)}")
        return None

    def leave(self) -> None:
        """Has all others leave."""
        # Whoever is gone needs no telling.
        with contextlib.suppress(Exception):
            self.order({"bye": True})
        deadline = time.monotonic() + LEAVE_S
        for process in self._started.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
        self.end()

    def end(self) -> None:
        """Nothing that was started here stays."""
        for process in self._started.values():
            process.kill()
            process.wait()


def _start(rank: int, size: int, port: int) -> subprocess.Popen[bytes]:
    """Starts another rank of this very program."""
    environment = {name: value for name, value in os.environ.items() if name != CONTROL_VARIABLE}
    environment |= {
        RANK: str(rank),
        LOCAL_RANK: str(rank),
        WORLD_SIZE: str(size),
        MASTER_ADDR: HERE,
        MASTER_PORT: str(port),
    }
    try:
        # The command line is this process's own.
        return subprocess.Popen(_command(), env=environment, stdin=subprocess.DEVNULL)  # noqa: S603
    except OSError as error:
        reason = f"cannot start rank {rank} of {size}: {error}"
        raise Failure(Kind.UNAVAILABLE, reason) from error


def _command() -> Sequence[str]:
    """The command line of this process, as it was given to the interpreter."""
    return [sys.executable, *sys.orig_argv[1:]]


def _object(value: bytes) -> Json:
    told = json.loads(value)
    if not isinstance(told, dict):
        raise Failure(Kind.CRASHED, "a rank says what is neither an order nor an answer")
    return told


def _failed(rank: int, answer: Json) -> Failure | None:
    """The failure that a rank answers with, if it is one."""
    if (kind := answer.get("failed")) is None:
        return None
    return Failure(Kind(str(kind)), f"rank {rank}: {answer.get('reason')}")


def _how(status: int) -> str:
    if status >= 0:
        return f"ended with status {status}"
    with contextlib.suppress(ValueError):
        return f"was ended by signal {-status} ({signal.Signals(-status).name})"
    return f"was ended by signal {-status}"


def follow(store: Store, rank: int, carry_out: Callable[[Json], Json]) -> None:
    """Carries orders out until one says to leave. Whoever fails leaves: others may wait for its
    part of an exchange, and its connections end with it."""
    number = 0
    while True:
        while (value := store.get(_order_name(number), WAIT_S)) is None:
            pass
        order = _object(value)
        if "bye" in order:
            return
        try:
            answer = carry_out(order)
        except Failure as failure:
            answer = {"failed": failure.kind, "reason": failure.reason}
            store.set(_answer_name(number, rank), json.dumps(answer).encode())
            raise
        store.set(_answer_name(number, rank), json.dumps(answer).encode())
        number += 1
