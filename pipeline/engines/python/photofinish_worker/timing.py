"""Running steps, with the clock around each: as `worker::serve::timing` does it."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from photofinish_worker.engine import Session, TimedSession
from photofinish_worker.messages import Measure, WarmUp

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


def measure(session: Session, limits: Measure, cancelled: Cancelled) -> Samples:
    """Times steps until both minima are reached, or the maximum is, or `cancelled` says so.

    Limits are of the monotonic clock, whoever tells the samples: a device that is done soon keeps
    nobody measuring.
    """
    clock, step, told = time.perf_counter_ns, session.step, _device_clock(session)
    for _ in range(limits.discard):
        if cancelled():
            return Samples([], True)
        step()
    most = min(limits.max_steps, MAX_SAMPLES)
    least = min(limits.min_steps, most)
    samples_ns: list[int] = []
    total_ns = 0
    while len(samples_ns) < most and (len(samples_ns) < least or total_ns < limits.min_ns):
        if cancelled():
            return Samples(samples_ns, True)
        start = clock()
        step()
        step_ns = max(1, clock() - start)
        samples_ns.append(_sample(told(), step_ns))
        total_ns += step_ns
    return Samples(samples_ns, False)


def warm_up(session: Session, limits: WarmUp, cancelled: Cancelled) -> WarmUpDone:
    """Runs steps until the medians of the last two windows differ by at most the tolerance, and so
    do those of the last third of all windows and the third before it: so a slow drift is seen."""
    start = time.perf_counter_ns()
    windows = Windows(limits.tolerance, limits.max_ns)
    told = _device_clock(session)
    steps = 0
    while True:
        total_ns = max(1, time.perf_counter_ns() - start)
        enough = steps >= limits.min_steps
        patient = total_ns // PATIENCE < limits.max_ns
        over = total_ns >= limits.max_ns and (len(windows.medians_ns) >= 2 or not patient)
        if cancelled() or (enough and (windows.steady or over)):
            return WarmUpDone(steps, total_ns, windows.steady)
        step_ns = time_step(session)
        windows.push(_sample(told(), step_ns), step_ns)
        steps += 1


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
