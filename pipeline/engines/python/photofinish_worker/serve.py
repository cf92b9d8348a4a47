"""Taking turns: one request, one reply."""

import contextlib
import json
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import assert_never

from photofinish_worker import allocator, memory, outputs, timing
from photofinish_worker.control import Gone, NoStream, Stream, open_stream
from photofinish_worker.engine import Engine, ProfilingSession, Session, TrainingSession
from photofinish_worker.inbox import Inbox, Incoming
from photofinish_worker.messages import (
    VERSION,
    Bye,
    Cancel,
    Load,
    Measure,
    Memory,
    Parity,
    Profile,
    Request,
    Reset,
    WarmUp,
)
from photofinish_worker.outcome import Failure, Kind

LONGEST_REASON = 400
"""The longest reason worth showing, in characters."""

LONGEST_NAME = 400
"""The longest name of an entry of a profile, in characters."""

Reply = dict[str, object] | str


def serve(make: Callable[[], Engine]) -> int:
    """Speaks the worker protocol until the supervisor says `bye` or closes the stream.

    The first thing it does is to move the original standard output away: only then the engine is
    made, so that no library's chatter can corrupt the stream. Gives the exit status: 0 after `bye`
    and after the supervisor has gone, 2 when the stream could not be opened.
    """
    try:
        stream = open_stream(os.environ)
    except NoStream as error:
        # Nobody to answer to: the log is all there is.
        print(error, file=sys.stderr)
        return 2
    inbox = Inbox()
    inbox.listen(stream.reader)
    # A supervisor that has gone without a word is nobody to tell.
    with contextlib.suppress(Gone):
        Turns(make, stream, inbox).take_all()
    return 0


class Turns:
    """A worker in conversation."""

    def __init__(self, make: Callable[[], Engine], stream: Stream, inbox: Inbox) -> None:
        self._make = make
        self._engine: Engine | None = None
        self._stream = stream
        self._inbox = inbox
        self._session: Session | None = None
        self._spent: str | None = None
        """Why there is no session any more, or never will be."""

    def take_all(self) -> None:
        """Speaks from `hello` to `bye`, or until the supervisor has gone."""
        self._send(self._guarded(self._hello))
        for incoming in self._inbox:
            if isinstance(incoming.message, Bye):
                # The engine's teardown belongs to the process, not to the time after it.
                self._session = None
                self._send("bye")
                return
            self._send(self._guarded(partial(self._answer, incoming)))

    def _send(self, reply: Reply) -> None:
        self._stream.send(json.dumps(reply, allow_nan=False).encode() + b"\n")

    def _guarded(self, serve: Callable[[], Reply]) -> Reply:
        try:
            return serve()
        except Failure as failure:
            return _failed(failure.kind, failure.reason)
        except MemoryError:
            self._drop("and memory ran out")
            return _failed(Kind.OUT_OF_MEMORY, "Python ran out of memory")
        except ImportError as error:
            self._drop(f"and {type(error).__name__}")
            reason = f"a package that the engine needs is missing or does not fit: {error}"
            return _failed(Kind.UNAVAILABLE, reason)
        except Exception as error:
            # Whatever it left behind is not to be measured.
            self._drop(f"and {type(error).__name__}")
            return _failed(Kind.CRASHED, f"the engine raised {type(error).__name__}: {error}")

    def _drop(self, why: str) -> None:
        if self._session is not None:
            self._session, self._spent = None, why

    def _hello(self) -> Reply:
        try:
            self._engine = self._make()
        except (ImportError, OSError) as error:
            raise Failure(Kind.UNAVAILABLE, f"the engine cannot be imported: {error}") from error
        identity = self._engine.hello()
        return {
            "hello": {
                "protocol": VERSION,
                "engine": identity.engine,
                "versions": dict(identity.versions),
                "worker": identity.worker,
                "variants": list(identity.variants),
            }
        }

    def _answer(self, incoming: Incoming) -> Reply:
        request = incoming.message
        if isinstance(request, str):
            raise Failure(Kind.CRASHED, request)

        def cancelled() -> bool:
            return self._inbox.is_cancelled(incoming.sequence)

        match request:
            case Load():
                return {"loaded": self._load(request)}
            case Parity(path, steps):
                session = self._ready(request)
                return {"parity": outputs.write(Path(path), session.parity(steps))}
            case Reset():
                self._ready(request).reset()
                return "reset"
            case WarmUp():
                done = timing.warm_up(self._ready(request), request, cancelled)
                fields = {"steps": done.steps, "total_ns": done.total_ns, "steady": done.steady}
                return {"warm_up": fields}
            case Measure():
                session = self._ready(request)
                samples = timing.measure(session, request, cancelled)
                if not samples.cancelled:
                    _check_converges(session)
                taken = {"samples_ns": samples.samples_ns, "cancelled": samples.cancelled}
                return {"measure": taken}
            case Profile(steps):
                return {"profile": _profile(self._ready(request), steps)}
            case Memory():
                session_now = self._session
                return {"memory": memory.read(session_now.device_memory() if session_now else None)}
            case Cancel() | Bye():
                # Neither reaches this place: the inbox keeps `cancel`, the loop above `bye`.
                raise _misplaced(request, "has no reply of this kind")
            case _:
                assert_never(request)

    def _load(self, load: Load) -> dict[str, object]:
        if self._session is not None or self._spent is not None:
            raise _misplaced(load, "came a second time: a process loads once")
        if self._engine is None:
            raise Failure(Kind.UNAVAILABLE, "there is no engine: its `hello` says why")
        self._spent = "failed"
        allocator.carry_out(load.cell)
        session, report = self._engine.load(load)
        first_step_ns = timing.time_step(session)
        self._session, self._spent = session, None
        return {
            "fill_ns": report.fill_ns,
            "build_ns": report.build_ns,
            "compile_ns": report.compile_ns,
            "first_step_ns": first_step_ns,
            "threads": report.threads,
            "spin": report.spin,
            "settings": dict(report.settings),
        }

    def _ready(self, request: Request) -> Session:
        if self._session is not None:
            return self._session
        if self._spent is not None:
            raise _misplaced(request, f"came after `load` {self._spent}")
        raise _misplaced(request, "came before `load`")


def _check_converges(session: Session) -> None:
    if isinstance(session, TrainingSession) and (weight := session.diverged()) is not None:
        raise Failure(
            Kind.PARITY_FAILED,
            f"training diverged: `{weight}` is not finite at the end of a round; a lower "
            "`learning_rate` may keep it so",
        )


def _profile(session: Session, steps: int) -> dict[str, object]:
    if not isinstance(session, ProfilingSession):
        reason = "this worker maps no profiler's times to the nodes of a graph"
        raise Failure(Kind.UNSUPPORTED, reason)
    told = session.profile(steps)
    entries = [
        {
            "name": entry.name[:LONGEST_NAME],
            "nodes": sorted(entry.nodes),
            "time_ns": entry.time_ns,
            "calls": entry.calls,
            "conversion": entry.conversion,
        }
        for entry in told.entries
    ]
    return {
        "steps": steps,
        "wall_ns": told.wall_ns,
        "kernels": told.kernels,
        "entries": entries,
    }


def _failed(kind: Kind, reason: str) -> Reply:
    shown = reason.strip()[:LONGEST_REASON] or "without a word"
    return {"failed": {"kind": kind, "reason": shown}}


def _misplaced(request: Request, how: str) -> Failure:
    return Failure(Kind.UNSUPPORTED, f"`{request.tag()}` {how}")
