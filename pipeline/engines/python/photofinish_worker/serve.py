"""Taking turns: one request, one reply."""

import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TypeVar, assert_never

from photofinish_worker import allocator, memory, outputs, ranks, timing
from photofinish_worker.control import Gone, NoStream, Stream, open_stream
from photofinish_worker.decode import message
from photofinish_worker.engine import (
    Engine,
    LoadReport,
    ParityData,
    ProfilingSession,
    RankedSession,
    Session,
    TrainingSession,
)
from photofinish_worker.inbox import Inbox, Incoming
from photofinish_worker.messages import (
    VERSION,
    Bye,
    Cancel,
    Exchanges,
    Load,
    Measure,
    Memory,
    Parity,
    Profile,
    Request,
    Reset,
    Strategy,
    WarmUp,
)
from photofinish_worker.outcome import Failure, Kind, unsupported
from photofinish_worker.ranks import Crew, Json, World

LONGEST_REASON = 400
"""The longest reason worth showing, in characters."""

LONGEST_NAME = 400
"""The longest name of an entry of a profile, in characters."""

MOST_EXCHANGE_STEPS = 64
"""The most steps whose exchanges are told at once."""

NO_PROFILE = "profiles are of one process: what several ranks spend on each other is told by itself"
"""Why a cell of several ranks has no profile."""

Reply = dict[str, object] | str
T = TypeVar("T")


def serve(make: Callable[[], Engine]) -> int:
    """Speaks the worker protocol until the supervisor says `bye` or closes the stream.

    The first thing it does is to move the original standard output away: only then the engine is
    made, so that no library's chatter can corrupt the stream. Gives the exit status: 0 after `bye`
    and after the supervisor has gone, 2 when the stream could not be opened.
    """
    try:
        world = ranks.world_of(os.environ)
        if world is not None and world.rank > 0:
            return _follow(make, world)
        stream = open_stream(os.environ)
    except (NoStream, Failure) as error:
        # Nobody to answer to: the log is all there is.
        print(error, file=sys.stderr)
        return 2
    inbox = Inbox()
    inbox.listen(stream.reader)
    # A supervisor that has gone without a word is nobody to tell.
    with contextlib.suppress(Gone):
        Turns(make, stream, inbox, world).take_all()
    return 0


def _follow(make: Callable[[], Engine], world: World) -> int:
    """The whole of a process that is not rank 0."""
    try:
        engine = make()
        engine.hello()
        if not isinstance(engine, ranks.RankedEngine):
            raise unsupported("this engine runs a cell in one process")
        ranks.follow(engine.join(world), world.rank, Follower(engine).carry_out)
    except Exception as error:
        print(f"rank {world.rank}: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


class Follower:
    """A rank that is led."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._session: Session | None = None

    def carry_out(self, order: Json) -> Json:
        """Does its part of what all ranks do; an exception becomes a failure."""
        try:
            return self._carry_out(order)
        except Failure:
            raise
        except MemoryError as error:
            raise Failure(Kind.OUT_OF_MEMORY, "Python ran out of memory") from error
        except Exception as error:
            raise Failure(Kind.CRASHED, _raised(error)) from error

    def _carry_out(self, order: Json) -> Json:
        match order:
            case {"load": str(line)}:
                load = message(Request, line.encode())
                if not isinstance(load, Load):
                    raise Failure(Kind.CRASHED, "rank 0 hands on no request to load")
                allocator.carry_out(load.cell)
                session, _ = self._engine.load(load)
                session.step()
                self._session = session
                return {}
        session_now = self._session
        if session_now is None:
            reason = "rank 0 wants something before it had the network loaded"
            raise Failure(Kind.CRASHED, reason)
        match order:
            case {"steps": int(steps)}:
                ran = timing.stretch(session_now, steps)
                return {"samples_ns": [step.sample_ns for step in ran]}
            case {"parity": int(steps)}:
                data = session_now.parity(steps)
                return {"losses": list(data.losses), "updates": ranks.updates(data)}
            case {"reset": _}:
                session_now.reset()
                return {}
            case {"exchanges": int(steps)}:
                return {"exchanges": _exchanges(session_now, steps)}
            case {"memory": _}:
                return {"memory": memory.read(session_now.device_memory())}
            case _:
                raise Failure(Kind.CRASHED, f"what rank 0 hands on is no order: {order}")


class Turns:
    """A worker in conversation."""

    def __init__(
        self,
        make: Callable[[], Engine],
        stream: Stream,
        inbox: Inbox,
        launched: World | None = None,
    ) -> None:
        self._make = make
        self._launched = launched
        """What a launcher of several processes says of this one."""
        self._crew: Crew | None = None
        """The other ranks, where there are others."""
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
                if self._crew is not None:
                    self._crew.leave()
                self._session = None
                self._send("bye")
                return
            self._send(self._guarded(partial(self._answer, incoming)))

    def _send(self, reply: Reply) -> None:
        self._stream.send(json.dumps(reply, allow_nan=False).encode() + b"\n")

    def _last_words(self, failure: Failure) -> None:
        """Answers for a main thread that waits in vain for another rank, and ends the process: no
        other way leads out of a library's wait."""
        # A supervisor that is gone ends all of this by itself.
        with contextlib.suppress(Gone):
            self._send(_failed(failure.kind, failure.reason))
        os.kill(os.getpid(), signal.SIGKILL)

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
            return _failed(Kind.CRASHED, _raised(error))

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
                return {"loaded": self._load(request, incoming.line)}
            case Parity(path, steps):
                data = self._parity(self._ready(request), steps)
                return {"parity": outputs.write(Path(path), data)}
            case Reset():
                self._together({"reset": True}, self._ready(request).reset)
                return "reset"
            case WarmUp():
                done = timing.warm_up(self._steps(request), request, cancelled)
                fields = {"steps": done.steps, "total_ns": done.total_ns, "steady": done.steady}
                return {"warm_up": fields}
            case Measure():
                samples = timing.measure(self._steps(request), request, cancelled)
                if not samples.cancelled:
                    _check_converges(self._ready(request))
                taken = {"samples_ns": samples.samples_ns, "cancelled": samples.cancelled}
                return {"measure": taken}
            case Profile(steps):
                session = self._ready(request)
                if self._crew is not None:
                    raise unsupported(NO_PROFILE)
                return {"profile": _profile(session, steps)}
            case Exchanges(steps):
                return {"exchanges": {"ranks": self._exchanges(self._ready(request), steps)}}
            case Memory():
                return {"memory": self._memory()}
            case Cancel() | Bye():
                # Neither reaches this place: the inbox keeps `cancel`, the loop above `bye`.
                raise _misplaced(request, "has no reply of this kind")
            case _:
                assert_never(request)

    def _together(self, order: Json, own: Callable[[], T]) -> tuple[T, list[Json]]:
        """Has all ranks do the same; what the others answer."""
        if self._crew is None:
            return own(), []
        return self._crew.together(order, own)

    def _steps(self, request: Request) -> timing.Stretch:
        session = self._ready(request)
        if self._crew is None:
            return timing.alone(session)
        return timing.together(session, self._crew)

    def _parity(self, session: Session, steps: int) -> ParityData:
        """Outputs. Several ranks have a loss each, of their parts, which are equally long; and
        weights that must be the same to the last bit."""
        data, answers = self._together({"parity": steps}, lambda: session.parity(steps))
        if not answers:
            return data
        own, losses = ranks.updates(data), [list(data.losses)]
        for rank, answer in enumerate(answers, start=1):
            if answer.get("updates") != own:
                raise Failure(
                    Kind.PARITY_FAILED,
                    f"the weights of rank {rank} are not those of rank 0 after training together",
                )
            told = answer.get("losses")
            losses.append([float(loss) for loss in told] if isinstance(told, list) else [])
        means = [sum(of_all) / len(losses) for of_all in zip(*losses, strict=True)]
        return ParityData(data.tensors, means)

    def _exchanges(self, session: Session, steps: int) -> list[object]:
        """What every rank exchanges."""
        if self._crew is None or steps > MOST_EXCHANGE_STEPS:
            raise unsupported(
                f"exchanges are told of several ranks, in {MOST_EXCHANGE_STEPS} steps at most"
            )
        # Before anybody is told to: a rank that fails leaves.
        if not isinstance(session, RankedSession) or not session.notes_exchanges:
            raise unsupported("this worker does not tell what ranks exchange there")
        order: Json = {"exchanges": steps}
        own, answers = self._crew.together(order, lambda: _exchanges(session, steps))
        return [own, *(answer.get("exchanges") for answer in answers)]

    def _memory(self) -> Json:
        session = self._session
        if session is None:
            return dict(memory.read(None))
        own, answers = self._together(
            {"memory": True}, lambda: memory.read(session.device_memory())
        )
        others = [answer.get("memory") for answer in answers]
        return {**own, "other_ranks": others} if others else dict(own)

    def _load(self, load: Load, line: bytes) -> dict[str, object]:
        if self._session is not None or self._spent is not None:
            raise _misplaced(load, "came a second time: a process loads once")
        if self._engine is None:
            raise Failure(Kind.UNAVAILABLE, "there is no engine: its `hello` says why")
        self._spent = "failed"
        allocator.carry_out(load.cell)
        engine = self._engine
        if load.cell.strategy is Strategy.DDP:
            self._crew = Crew(engine, load.cell, self._launched)
        elif self._launched is not None and self._launched.size > 1:
            reason = f"{self._launched.size} processes were launched for a cell of one"
            raise Failure(Kind.UNAVAILABLE, reason)

        def own() -> tuple[Session, LoadReport]:
            return engine.load(load)

        def ready() -> tuple[Session, LoadReport, int]:
            crew = self._crew
            session, report = own() if crew is None else crew.watched(own, self._last_words)
            return session, report, timing.time_step(session)

        (session, report, first_step_ns), _ = self._together({"load": line.decode()}, ready)
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


def _raised(error: Exception) -> str:
    return f"the engine raised {type(error).__name__}: {error}"


def _check_converges(session: Session) -> None:
    if isinstance(session, TrainingSession) and (weight := session.diverged()) is not None:
        raise Failure(
            Kind.PARITY_FAILED,
            f"training diverged: `{weight}` is not finite at the end of a round; a lower "
            "`learning_rate` may keep it so",
        )


def _exchanges(session: Session, steps: int) -> list[dict[str, object]]:
    """What this rank exchanges."""
    if not isinstance(session, RankedSession):
        raise unsupported("this worker does not tell what ranks exchange")
    return [asdict(step) for step in session.exchanges(steps)]


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
