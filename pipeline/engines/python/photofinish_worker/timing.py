"""Running steps, with the clock around each: as `worker::serve::timing` does it."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from photofinish_worker.engine import RankedSession, Session, TimedSession
from photofinish_worker.messages import Measure, WarmUp
from photofinish_worker.ranks import Crew

MAX_SAMPLES = 3_000_000
"""The most samples of one `measure`: their message stays below the protocol's limit."""

# A window of a warm-up lasts at least this many steps and this long, so that neither a single slow
# step nor a single burst of fast ones makes a median; very fast steps are cut short.
WINDOW_STEPS = 5
WINDOW_NS = 50_000_000
# Slow steps need fewer: a window of so many steps suffices once it has lasted so long.
SLOW_WINDOW_STEPS = 3
SLOW_WINDOW_NS = 250_000_000
WINDOW_MAX_STEPS = 4096
# What drifts by a percent or two in a window drifts by much more in a second: nothing is called
# steady before windows have covered so long, or half of the time limit where that is less.
LEAST_NS = 1_000_000_000
# Two windows are tried whatever the time limit says, up to this many times the limit: otherwise no
# slow step could ever be found steady.
PATIENCE = 3

Cancelled = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Samples:
    """Times of steps, in the order in which they ran."""

    samples_ns: list[int]
    cancelled: bool


@dataclass(frozen=True, slots=True)
class WarmUpDone:
    """How a warm-up went."""

    steps: int
    total_ns: int
    steady: bool


def time_step(session: Session) -> int:
    """The time of one step, from the monotonic clock; at least a nanosecond."""
    start = time.perf_counter_ns()
    session.step()
    return max(1, time.perf_counter_ns() - start)


def _device_clock(session: Session) -> Callable[[], int | None]:
    """What the device says of the last step; nothing where its sample is what the host says."""
    return session.device_ns if isinstance(session, TimedSession) else lambda: None


def _sample(told_ns: int | None, step_ns: int) -> int:
    """The sample of a step that took so long: that, or what the device has told of it."""
    return step_ns if told_ns is None else max(1, told_ns)


STRETCH_NS = 100_000_000
MOST_STRETCH = 1000
"""Several ranks are told beforehand how many steps come next; these last about so long, and are so
many at most."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step that ran."""

    took_ns: int
    """How long it took by the monotonic clock."""
    sample_ns: int


Stretch = Callable[[int, Step | None], list[Step]]
"""Runs the next steps, at least one and at most so many, knowing the last; gives what they took."""


def alone(session: Session) -> Stretch:
    """Steps of one process, one at a time."""
    clock, step, told = time.perf_counter_ns, session.step, _device_clock(session)

    def run(_most: int, _last: Step | None) -> list[Step]:
        start = clock()
        step()
        took_ns = max(1, clock() - start)
        return [Step(took_ns, _sample(told(), took_ns))]

    return run


def together(session: Session, crew: Crew) -> Stretch:
    """Steps of several ranks: about as many as a stretch takes, if they take as long as the last
    one. Each takes as long as on the rank where it took longest."""

    def run(most: int, last: Step | None) -> list[Step]:
        fit = 1 if last is None else STRETCH_NS // last.took_ns
        count = max(1, min(fit, MOST_STRETCH, most))
        own, answers = crew.together({"steps": count}, lambda: stretch(session, count))
        of_ranks = [[step.sample_ns for step in own]]
        for answer in answers:
            told = answer.get("samples_ns")
            of_ranks.append([int(sample) for sample in told] if isinstance(told, list) else [])
        slowest = [max(samples) for samples in zip(*of_ranks, strict=True)]
        return [Step(step.took_ns, sample) for step, sample in zip(own, slowest, strict=True)]

    return run


def stretch(session: Session, count: int) -> list[Step]:
    """So many steps of this rank, all ranks beginning together."""
    run = alone(session)
    if isinstance(session, RankedSession):
        session.align()
    return [step for _ in range(count) for step in run(1, None)]


def measure(run: Stretch, limits: Measure, cancelled: Cancelled) -> Samples:
    """Times steps until both minima are reached, or the maximum is, or `cancelled` says so.

    Limits are of the monotonic clock, whoever tells the samples: a device that is done soon keeps
    nobody measuring.
    """
    last: Step | None = None
    discarded = 0
    while discarded < limits.discard:
        if cancelled():
            return Samples([], True)
        steps = run(limits.discard - discarded, last)
        discarded += len(steps)
        last = steps[-1]
    most = min(limits.max_steps, MAX_SAMPLES)
    least = min(limits.min_steps, most)
    samples_ns: list[int] = []
    total_ns = 0
    while len(samples_ns) < most and (len(samples_ns) < least or total_ns < limits.min_ns):
        if cancelled():
            return Samples(samples_ns, True)
        for step in run(most - len(samples_ns), last):
            samples_ns.append(step.sample_ns)
            total_ns += step.took_ns
            last = step
    return Samples(samples_ns, False)


def warm_up(run: Stretch, limits: WarmUp, cancelled: Cancelled) -> WarmUpDone:
    """Runs steps until the medians of the last two windows differ by at most the tolerance, and so
    do those of the last third of all windows and the third before it: so a slow drift is seen."""
    start = time.perf_counter_ns()
    windows = Windows(limits.tolerance, limits.max_ns)
    last: Step | None = None
    steps = 0
    while True:
        total_ns = max(1, time.perf_counter_ns() - start)
        enough = steps >= limits.min_steps
        patient = total_ns // PATIENCE < limits.max_ns
        over = total_ns >= limits.max_ns and (len(windows.medians_ns) >= 2 or not patient)
        if cancelled() or (enough and (windows.steady or over)):
            return WarmUpDone(steps, total_ns, windows.steady)
        for step in run(MOST_STRETCH, last):
            windows.push(step.sample_ns, step.took_ns)
            steps += 1
            last = step


class Windows:
    """Medians of successive windows of steps."""

    def __init__(self, tolerance: float, max_ns: int) -> None:
        self.steady = False
        """Whether the newest windows agree, and those some way back with them."""
        self.medians_ns: list[int] = []
        self._tolerance = tolerance
        self._least_ns = min(LEAST_NS, max_ns // 2)
        self._current_ns: list[int] = []
        self._total_ns = 0
        self._covered_ns = 0

    def push(self, sample_ns: int, step_ns: int) -> None:
        """Takes the sample of a step, and how long the step took by the monotonic clock."""
        self._current_ns.append(sample_ns)
        self._total_ns += step_ns
        steps = len(self._current_ns)
        if (
            (steps >= WINDOW_STEPS and self._total_ns >= WINDOW_NS)
            or (steps >= SLOW_WINDOW_STEPS and self._total_ns >= SLOW_WINDOW_NS)
            or steps >= WINDOW_MAX_STEPS
        ):
            self._close()

    def _close(self) -> None:
        self.medians_ns.append(_median(self._current_ns))
        self._covered_ns += self._total_ns
        self._current_ns.clear()
        self._total_ns = 0
        third = max(1, len(self.medians_ns) // 3)
        covered = self._covered_ns >= self._least_ns
        self.steady = covered and self._agree(1) and self._agree(third)

    def _agree(self, windows: int) -> bool:
        """Whether the last windows, so many of them, agree with as many before them."""
        if len(self.medians_ns) < 2 * windows:
            return False
        before = _median(self.medians_ns[-2 * windows : -windows])
        last = _median(self.medians_ns[-windows:])
        return abs(before - last) <= self._tolerance * min(before, last)


def _median(values: list[int]) -> int:
    """The upper of the two middle ones where their number is even."""
    return sorted(values)[len(values) // 2]
